"""Rows of several classes, through coefficients that the labels couple.

The best Gaussian posterior has independent classes, but without a row all classes move together. So
rows are left out of the normal posterior of all classes' coefficients with the same mean, and with
the expected information of each row, (C, C), as its site.
"""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve, solve_root
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.row_bounds import AtRows
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.step_graphs import coupled, information, least_sd


def coupled_rows(
    likelihood: Any, F: Tensor, rest: Tensor, exposure: Tensor, at: AtRows, *groups: Tensor
) -> tuple[Sites, Between]:
    """Sites of rows, and how all rows and classes vary together.

    F (n, M) and variances of remainders `rest` (n,) are those of each class; `groups` are E (n, K)
    and codes (n,), as in `bayes_gpx.posteriors.evidence.by_group`.
    """
    n, C = F.shape[0], likelihood.classes
    sd = least_sd(likelihood, at.known + rest[:, None])
    told = information(likelihood, at.mean, sd, at.slope, exposure)
    of_rows = _of_all(F, C)
    if groups:
        S, of_rows, own, codes = _without_groups(of_rows, told, *groups)
        more = [own.reshape((n * C, -1)), pt.repeat(codes, C)]
        variance = own @ own.transpose(0, 2, 1)
    else:
        S, more, variance = coupled(F, told, C).T, [], pt.zeros((n, C, C))
    root = cholesky(plus_diagonal(S, 1.0))
    H = solve_root(root, of_rows.reshape((n * C, -1)).T)
    each = H.T.reshape((n, C, -1))
    variance = variance + each @ each.transpose(0, 2, 1)
    left = pt.eye(C) - variance @ told
    height = at.logp + 0.5 * (pt.diagonal(told, axis1=1, axis2=2) * at.known).sum(axis=1)
    sites = Sites(at.mean, at.slope, told, variance, left, height, rest)
    return sites, Between(H, False, False, *more)


def _of_all(design: Tensor, classes: int) -> Tensor:
    """A design (n, k) of each class as one of all classes' coefficients, (n, C, C k)."""
    whole = design[:, None, None] * pt.eye(classes)[:, :, None]
    return whole.reshape((design.shape[0], classes, -1))


def _without_groups(
    of_rows: Tensor, told: Tensor, E: Tensor, codes: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Eliminate coefficients of groups, as `bayes_gpx.posteriors.evidence.by_group.Arrow` does.

    Returns S without its prior's part, the designs of shared and of groups' coefficients given it,
    (n, C, C M) and (n, C, C K), and codes.
    """
    own, codes = _of_all(E, told.shape[1]), codes.astype("int64")
    weighed = own.transpose(0, 2, 1) @ told

    def summed(values: Tensor) -> Tensor:
        zeros = pt.zeros((codes.max() + 1, values.shape[1], values.shape[2]))
        return zeros[codes].inc(values)

    A = summed(weighed @ own) + pt.eye(own.shape[2])
    root = pt.linalg.cholesky(A, lower=True, on_error="nan")
    gain = solve(root, summed(weighed @ of_rows))
    moved = of_rows - own @ gain[codes]
    flat, through = (v.reshape((-1, moved.shape[2])) for v in (told @ moved, gain))
    S = pt.dot(moved.reshape(flat.shape).T, flat) + pt.dot(through.T, through)
    half = solve_root(root[codes], own.transpose(0, 2, 1)).transpose(0, 2, 1)
    return S, moved, half, codes
