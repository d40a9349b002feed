"""Groups of rows given all other groups, and observations given those before them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.linalg import cho_solve, solve_triangular

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, solve_root
from bayes_gpx.posteriors.evidence.sites import Sites


class Between(NamedTuple):
    """How rows' latent values vary together in a posterior.

    Their covariance is H'H; or, with `precision`, H'H is the inverse covariance of the sites'
    means, K + diag(1 / tau), from which small posterior variances lose no digits. Coupled classes
    have n C columns. H is the covariance itself, if `whole`.
    """

    H: Tensor  # (k, n), or (k, n C)
    precision: bool = False
    whole: bool = False
    # (n, K), further rows of H, K for each code: a column has them at its own code, else zeros.
    of_group: Tensor | None = None
    codes: Tensor | None = None  # (n,)

    @staticmethod
    def of(C: Tensor, n: Tensor) -> "Between":  # noqa: N803
        """From the covariance of the sites' means, those of n rows first."""
        inverse = solve_root(cholesky(C), pt.eye(C.shape[0]))
        return Between(inverse[:, :n], precision=True)


class GroupsLeftOut(Op):
    """(H, slope, tau, noise, groups, *more) -> shift, variance and joint log density of rows.

    See `groups_left_out`; `more` are `of_group` and `codes`. Shift and variance have the shapes of
    slope and tau, joint is (n,). Nothing is differentiable; all is NaN where a posterior without a
    group is not normal.
    """

    __props__ = ("precision", "whole")

    def __init__(self, precision: bool, whole: bool) -> None:
        self.precision, self.whole = precision, whole

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        known = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, known, [known[1].type(), known[2].type(), pt.dvector()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        H, slope, tau, noise, groups, *more = inputs
        found = [np.full(v.shape, np.nan) for v in (slope, tau, groups)]
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            try:
                C = tau.shape[2] if tau.ndim == 3 else 1
                columns = (rows[:, None] * C + np.arange(C)).ravel()
                of_rows = H[columns][:, columns] if self.whole else H[:, columns]
                if more:
                    of_rows = np.vstack([of_rows, _apart(more[0], more[1], columns)])
                if tau.ndim == 3:
                    cov = of_rows if self.whole else of_rows.T @ of_rows
                    of_group = _of_classes(cov, slope[rows], tau[rows])
                else:
                    left_out = _by_precision if self.precision else _by_covariance
                    own = noise[rows] if len(noise) else None
                    of_group = left_out(of_rows, slope[rows], tau[rows], own)
            except (np.linalg.LinAlgError, ValueError):  # not positive definite, or not finite
                continue
            for values, value in zip(found, of_group, strict=True):
                values[rows] = value
        for storage, values in zip(output_storage, found, strict=True):
            storage[0] = values

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[1], shapes[2], shapes[4]]


def _apart(of_group: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of H (k, rows) that belong to the codes of some observations."""
    known, places = np.unique(codes[rows], return_inverse=True)
    found = np.zeros((len(known), of_group.shape[1], len(rows)))
    found[places, :, np.arange(len(rows))] = of_group[rows]
    return found.reshape((-1, len(rows)))


def _log_normal(square: float, root: np.ndarray, n: int) -> float:
    """Log normal density of n values, from a square and a root of their covariance."""
    return -0.5 * (square + n * np.log(2 * np.pi)) - np.log(np.diag(root)).sum()


def _by_precision(
    H: np.ndarray, slope: np.ndarray, tau: np.ndarray, noise: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The inverse of the group's H'H is the covariance of its sites' means given other groups."""
    root = np.linalg.cholesky(H.T @ H)
    cov = cho_solve((root, True), np.eye(len(slope)))
    miss = cov @ slope  # of the sites' means, from their means given other groups
    joint = 0.5 * (slope**2 / tau - np.log(tau)).sum() - 0.5 * slope @ miss
    joint += np.log(np.diag(root)).sum()
    return miss - slope / tau, np.diag(cov) - 1.0 / tau, joint


def _by_covariance(
    H: np.ndarray, slope: np.ndarray, tau: np.ndarray, noise: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The group's sites are subtracted from its natural parameters, and W'W is left of H'H.

    With `noise` the joint density is that of the sites' means with these variances.
    """
    if len(H) >= len(slope):
        cov, logdet = _without_sites(H.T @ H, np.diag(tau))
        shift, variance = cov @ slope, np.diag(cov)
    else:  # in time that grows with the rows, not with their cube
        root = np.linalg.cholesky(np.eye(len(H)) - (H * tau) @ H.T)
        W = solve_triangular(root, H, lower=True)
        logdet = 2.0 * np.log(np.diag(root)).sum()
        shift, variance = W.T @ (W @ slope), (W**2).sum(axis=0)
    if noise is None:
        return shift, variance, 0.5 * (logdet - slope @ shift)
    miss = shift + slope / tau
    if len(H) >= len(slope):
        root = np.linalg.cholesky(cov + np.diag(noise))
        white = solve_triangular(root, miss, lower=True)
        return shift, variance, _log_normal(white @ white, root, len(miss))
    root = np.linalg.cholesky(np.eye(len(W)) + (W / noise) @ W.T)
    white = solve_triangular(root, W @ (miss / noise), lower=True)
    square = (miss**2 / noise).sum() + np.log(noise).sum() - white @ white
    return shift, variance, _log_normal(square, root, len(miss))


def _of_classes(
    cov: np.ndarray, slope: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """As `_by_covariance`, from the covariance of the group's rows and classes (g C, g C)."""
    g, C = slope.shape
    T = np.zeros((g, C, g, C))
    T[np.arange(g), :, np.arange(g)] = tau
    cov, logdet = _without_sites(cov, T.reshape((g * C, g * C)))
    shift = cov @ slope.ravel()
    own = cov.reshape((g, C, g, C))[np.arange(g), :, np.arange(g)]
    return shift.reshape((g, C)), own, 0.5 * (logdet - slope.ravel() @ shift)


def _without_sites(cov: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, float]:
    """(cov^-1 - T)^-1, and the log determinant of I - cov T."""
    left = np.eye(len(cov)) - cov @ T
    sign, logdet = np.linalg.slogdet(left)
    found = np.linalg.solve(left, cov)
    if sign <= 0.0 or not np.all(np.diag(found) > 0.0):
        raise np.linalg.LinAlgError
    return 0.5 * (found + found.T), logdet


def groups_left_out(
    between: Between, sites: Sites, groups: Tensor, noise: Tensor | None = None
) -> list[Tensor]:
    """Predictions of each row, and of each group, given the other groups with codes (n,).

    Returns the posterior mean of f minus its mean given the other groups, the variance of f given
    those, with the shapes of the sites' slope and tau; and joint (n,), the log of the integral of
    the sites of a row's group over f given the other groups, each divided by exp(height). With
    `noise` (n,), of normal noise with what is unseen, it is the log density of the sites' means.
    """
    H, precision, whole, *more = between
    known = [v for v in more if v is not None]
    noise = pt.zeros(0) if noise is None else noise
    op = GroupsLeftOut(precision, whole)
    found: Any = op.make_node(H, sites.slope, sites.tau, noise, groups, *known).outputs
    return found


def sum_of_group(values: Tensor, groups: Tensor) -> Tensor:
    """Sum over the group of each observation, (n,)."""
    sums = pt.zeros(groups.max() + 1)
    return sums[groups].inc(values)[groups]


def given_before(y: Tensor, C: Tensor) -> Tensor:  # noqa: N803
    """Log density of each y_i given those before it, under N(0, C): (n,)."""
    root = cholesky(C)
    white = solve_root(root, y)
    return -0.5 * (pt.sqr(white) + np.log(2 * np.pi)) - pt.log(pt.diagonal(root))
