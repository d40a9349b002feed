"""The evidence of data that are seen through coefficients, as sums over blocks of rows.

For a Gaussian q(v) = N(m, P^-1) of standard normal coefficients v, the evidence is at least the sum
of each row's E[log p(y | f)] less the divergence of q from the prior. At the best q that is the
evidence itself for normal noise, and its bound for other likelihoods; and since no other q is
better, its derivatives are those with q held as it is. So q is found first, and the sum is made
around it, which loses no digits to cancellation where noise is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, solve_root
from bayes_gpx.numerics.row_sums import RowGraph, row_sums
from bayes_gpx.posteriors.evidence.variational import LEAST_SD, BestCoefficients

Rows = dict[Any, Any]
"""From the symbols of a block of rows to the arrays of all rows, or to what has them in parts."""


class Coefficients(NamedTuple):
    """A Gaussian of M coefficients: mean (M,) and the root (M, M) of its precision.

    Of C classes, whose coefficients are independent: (C, M) and (C, M, M).
    """

    mean: Tensor
    root: Tensor


def best_normal(F: Tensor, D: Tensor, y: Tensor, rows: Rows) -> Coefficients:
    """Posterior of the coefficients for normal noise: their precision is I + F' D^-1 F.

    F (b, M), the noise's variance D (b,) and y (b,) are those of a block of rows.
    """
    sd = pt.sqrt(D)
    weighed = F / sd[:, None]
    inner, right = row_sums([pt.dot(weighed.T, weighed), pt.dot(weighed.T, y / sd)], rows)
    own = pt.arange(inner.shape[0])
    root = cholesky(inner[own, own].inc(1.0))
    half = solve_root(root, right)
    return Coefficients(pt.linalg.solve_triangular(root, half, lower=True, trans="T"), root)


def best_variational(
    likelihood: Any, F: Tensor, rest: Tensor, y: Any, theta: dict, exposure: Any, rows: Rows
) -> tuple[Tensor, Coefficients]:
    """Bound, -inf where none was found, and the best Gaussian, for another likelihood.

    F (b, M) and the remainders' variance `rest` (b,) are those of a block of rows; y and exposure
    are arrays of all rows.
    """
    graph, parameters = RowGraph.of([F, rest], [*rows])
    own = [theta[name] for name in likelihood.hyperparameters]
    op = BestCoefficients(likelihood, graph)
    found: Any = op(*parameters, y, exposure, *own, *rows.values())
    return found[0], Coefficients(*found[1:])


def expected_normal(F: Tensor, D: Tensor, unseen: Tensor, y: Tensor, found: Coefficients) -> Tensor:
    """E[log N(y | f, D)] of each row, (b,), where f has the variance `unseen` besides."""
    spread = pt.sqr(solve_root(found.root, F.T)).sum(axis=0) + unseen
    square = pt.sqr(y - pt.dot(F, found.mean)) + spread
    return -0.5 * (np.log(2.0 * np.pi) + pt.log(D) + square / D)


def expected_log(
    likelihood: Any,
    F: Tensor,
    rest: Tensor,
    y: Tensor,
    theta: dict,
    exposure: Tensor,
    found: Coefficients,
) -> tuple[Tensor, Tensor, Tensor]:
    """E[log p(y | f)] of each row and what its gradient is made of; see `expected_log`."""
    mean = pt.dot(F, found.mean.T)
    if likelihood.class_shape:
        roots = [found.root[c] for c in range(likelihood.classes)]
        known = pt.stack([pt.sqr(solve_root(root, F.T)).sum(axis=0) for root in roots], axis=1)
        rest = rest[:, None]
    else:
        known = pt.sqr(solve_root(found.root, F.T)).sum(axis=0)
    sd = pt.sqrt(pt.maximum(known + rest, LEAST_SD**2))
    return likelihood.expected_log(mean, sd, y, theta, exposure)


def bound_around(found: Coefficients, expected: Callable, rows: Rows) -> Tensor:
    """Sum of E[log p(y | f)] over rows less the divergence from the prior, with q held.

    `expected` gives the terms of a block of rows for such `Coefficients`.
    """
    held = Coefficients(*(v.type() for v in found))
    (total,) = row_sums([expected(held).sum()], rows, dict(zip(held, found, strict=True)))
    eye = pt.eye(found.root.shape[-1])
    inverse = pt.linalg.solve_triangular(found.root, eye, lower=True)
    logdet = 2.0 * pt.log(pt.diagonal(found.root, axis1=-2, axis2=-1)).sum()
    gap = pt.sqr(found.mean).sum() - found.mean.size + pt.sqr(inverse).sum() + logdet
    return total - 0.5 * disconnected_grad(gap)
