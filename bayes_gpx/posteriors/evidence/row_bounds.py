"""Bounds on the marginal likelihood through coefficients, as sums over blocks of rows.

For a Gaussian q(v) = N(m, P^-1) of standard normal coefficients v, the log marginal likelihood is
at least the sum of each row's E[log p(y | f)] minus the divergence of q from the prior. At the best
q the bound is exact for a Gaussian likelihood. Because q is optimal, the derivatives of the bound
are the derivatives with fixed q. So q is found first, and the sum is computed for this q, which
loses no digits to cancellation if noise is small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.graph.replace import graph_replace
from pytensor.link.c.type import Generic

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve, solve_root
from bayes_gpx.numerics.row_sums import RowGraph, known_rows, row_sums
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.step_graphs import Gaussians, least_sd, with_class_axis
from bayes_gpx.posteriors.evidence.variational import BestCoefficients

Rows = dict[Any, Any]
"""From the symbols of a block of rows to the arrays of all rows, or to out-of-core rows."""


class Coefficients(NamedTuple):
    """A Gaussian of M coefficients, or of C classes with independent coefficients."""

    mean: Tensor  # (M,) or (C, M)
    root: Tensor  # (M, M) or (C, M, M), of its precision

    @property
    def inverse(self) -> Tensor:
        """Inverse of the root, which a product takes less time with than a solve."""
        eye = pt.eye(self.root.shape[-1])
        return solve_root(self.root, eye)

    @property
    def by_class(self) -> Gaussians:
        """The same with an axis of classes, of one class if there are none."""
        if self.root.ndim == 3:
            return Gaussians(self.mean, self.inverse)
        return Gaussians(self.mean[None], self.inverse[None])


def best_normal(F: Tensor, D: Tensor, y: Tensor, rows: Rows) -> Coefficients:
    """Posterior of the coefficients for a Gaussian likelihood, with precision I + F' D^-1 F.

    F (b, M), the noise's variance D (b,) and y (b,) belong to a block of rows.
    """
    sd = pt.sqrt(D)
    weighed = F / sd[:, None]
    inner, right = row_sums([pt.dot(weighed.T, weighed), pt.dot(weighed.T, y / sd)], rows)
    root = cholesky(plus_diagonal(inner, 1.0))
    return Coefficients(solve(root, right), root)


def best_of_rows(F: Tensor, D: Tensor, y: Tensor) -> Coefficients:
    """`best_normal` of arrays of all rows."""
    f, d, of_y = (v.type.clone(shape=(None, *v.type.shape[1:]))() for v in (F, D, y))
    return best_normal(f, d, of_y, {f: F, d: D, of_y: y})


def best_variational(
    likelihood: Any, F: Tensor, rest: Tensor, y: Tensor, theta: dict, exposure: Tensor, rows: Rows
) -> tuple[Tensor, Coefficients]:
    """Bound, -inf if none was found, and the best Gaussian, for another likelihood.

    F (b, M), the remainders' variance `rest` (b,), y (b,) and exposure (b,) belong to a block of
    rows; F (b, C, M) and `rest` (b, C), if classes have kernels of their own.
    """
    graph, parameters = RowGraph.of([F, rest, y, exposure], [*rows])
    values, parts = known_rows(rows)
    own = [theta[name] for name in likelihood.hyperparameters]
    op = BestCoefficients(likelihood, graph, parts)
    found: Any = op(_columns(F, rows), *parameters, *own, *values)
    return found[0], Coefficients(*found[1:])


def _columns(F: Tensor, rows: Rows) -> Tensor:
    """Number of F's columns, as one row of it has."""
    in_parts = any(isinstance(at.type, Generic) for at in rows.values())
    if in_parts:
        one = {v: pt.zeros([k or 1 for k in v.type.shape]) for v in rows}
    else:
        one = {v: at[:1] for v, at in rows.items()}
    found: Any = graph_replace([F], one, strict=False)[0]
    return found.shape[-1]


def expected_normal(F: Tensor, D: Tensor, unseen: Tensor, y: Tensor, q: Gaussians) -> Tensor:
    """E[log N(y | f, D)] of each row, (b,), where f has the variance `unseen` besides."""
    spread = pt.sqr(pt.dot(F, q.inverse[0].T)).sum(axis=1) + unseen
    return expected_log_normal(y, pt.dot(F, q.mean[0]), spread, D)


def expected_log_normal(y: Tensor, mean: Tensor, spread: Tensor, D: Tensor) -> Tensor:
    """E[log N(y | f, D)] of each row, (b,), where f has this mean and variance."""
    return -0.5 * (np.log(2.0 * np.pi) + pt.log(D) + (pt.sqr(y - mean) + spread) / D)


class AtRows(NamedTuple):
    """Expectations at rows for a Gaussian of the coefficients; (b, C) for C classes but `logp`."""

    logp: Tensor  # (b,), E[log p(y | f)], differentiable in all but the coefficients
    slope: Tensor  # (b,), its slope in f's mean
    W: Tensor  # (b,), -2 times its slope in f's variance
    mean: Tensor  # (b,), f's mean
    known: Tensor  # (b,), f's variance without the remainders' variance

    def sites(self, **more: Any) -> Sites:
        """The rows as normal sites; their `logp` is the expected log."""
        lost = 0.5 * self.W * self.known
        height = self.logp + (lost.sum(axis=1) if lost.ndim == 2 else lost)
        left = 1.0 - self.W * self.known
        return Sites(self.mean, self.slope, self.W, self.known, left, height, **more)


def at_rows(
    likelihood: Any,
    F: Tensor,
    rest: Tensor,
    y: Tensor,
    theta: dict,
    exposure: Tensor,
    q: Gaussians,
) -> AtRows:
    """Expectations at rows for the optimal coefficients, by `expected_log` of the likelihood.

    Arguments as in `best_variational`. The slopes come from `expected_log`, without further
    derivatives.
    """
    mean, known = q.moments(F, likelihood.classes or 1)
    if not likelihood.class_shape:
        mean, known = mean[:, 0], known[:, 0]
    return expectations(likelihood, mean, known, rest, y, theta, exposure)


def expectations(
    likelihood: Any,
    mean: Tensor,
    known: Tensor,
    rest: Tensor,
    y: Tensor,
    theta: dict,
    exposure: Tensor,
) -> AtRows:
    """Expectations where f has such means and variances, (b,) or (b, C), and a remainder's."""
    several = likelihood.class_shape
    variance = known + (with_class_axis(rest) if several else rest)
    f, spread = disconnected_grad(mean), disconnected_grad(variance)
    sd = least_sd(likelihood, spread)
    logp, slope, W = likelihood.expected_log(f, sd, y, theta, exposure)
    moved = disconnected_grad(slope) * (mean - f)
    moved -= 0.5 * disconnected_grad(W) * (variance - spread)
    logp += moved.sum(axis=1) if several else moved
    return AtRows(logp, slope, W, mean, known)


class Variational(NamedTuple):
    """The bound for another likelihood, at the best Gaussian, and what all rows say there."""

    bound: Tensor
    found: Coefficients
    seen: AtRows


def variational(
    likelihood: Any, F: Tensor, rest: Tensor, y: Tensor, theta: dict, exposure: Tensor
) -> Variational:
    """Bound for rows with F (n, M) in memory, -inf with slopes of 0 if none was found.

    Other arguments as in `best_variational`, for all rows.
    """
    arrays = [pt.as_tensor_variable(v) for v in (F, rest, y, exposure)]
    own = [v.type.clone(shape=(None, *v.type.shape[1:]))() for v in arrays]
    design, around, response, exposed = own
    known = likelihood, design, around, response, theta, exposed
    best, found = best_variational(*known, dict(zip(own, arrays, strict=True)))
    lost, found = pt.isinf(best), Coefficients(*map(disconnected_grad, found))
    F, rest = pt.switch(lost, 0.0, arrays[0]), pt.switch(lost, 1.0, arrays[1])
    seen = at_rows(likelihood, F, rest, y, theta, exposure, found.by_class)
    bound = pt.switch(lost, -np.inf, seen.logp.sum() - divergence(found))
    return Variational(bound, found, seen)


def bound_around(found: Coefficients, expected: Callable, rows: Rows) -> Tensor:
    """Sum of E[log p(y | f)] over rows less the divergence from the prior, with q held.

    `expected` gives the terms of a block of rows for such `Gaussians`.
    """
    q = found.by_class
    held = Gaussians(*(v.type() for v in q))
    (total,) = row_sums([expected(held).sum()], rows, dict(zip(held, q, strict=True)))
    return total - divergence(found)


def divergence(found: Coefficients) -> Tensor:
    """Kullback-Leibler divergence of coefficients from their prior, a constant for derivatives."""
    logdet = 2.0 * pt.log(pt.diagonal(found.root, axis1=-2, axis2=-1)).sum()
    gap = pt.sqr(found.mean).sum() - found.mean.size + pt.sqr(found.inverse).sum() + logdet
    return 0.5 * disconnected_grad(gap)
