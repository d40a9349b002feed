"""Groups of normal observations given all others, and observations given those before them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.linalg import cho_solve, solve_triangular

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, solve_root


class Precision(NamedTuple):
    """An inverse covariance of n observations: diag(own) + sign H'H."""

    own: Tensor  # (n,)
    H: Tensor  # (k, n)
    sign: int
    # (n, K), further rows of H, K for each code: a column has them at its own code, else zeros.
    of_group: Tensor | None = None
    codes: Tensor | None = None  # (n,)

    @staticmethod
    def of(C: Tensor) -> "Precision":  # noqa: N803
        """From a covariance (n, n)."""
        inverse = solve_root(cholesky(C), pt.eye(C.shape[0]))
        return Precision(pt.zeros(C.shape[0]), inverse, 1)


class GroupsLeftOut(Op):
    """(own, H, alpha, extra, groups, *more) -> shift, variance and joint log density, (n,) each.

    See `groups_left_out`; `more` are `of_group` and `codes` of a precision that has these. Nothing
    is differentiable; all is NaN where a block of the precision is not positive definite.
    """

    __props__ = ("sign",)

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        known = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, known, [pt.dvector() for _ in range(3)])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        own, H, alpha, extra, groups, *more = inputs
        found = np.full((3, len(alpha)), np.nan)
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            of_rows = H[:, rows]
            if more:
                of_rows = np.vstack([of_rows, _apart(more[0], more[1], rows)])
            low_rank = self.sign < 0 and len(of_rows) < len(rows)
            left_out = _left_out_by_coefficients if low_rank else _left_out
            try:
                of_group = left_out(self.sign, own[rows], of_rows, alpha[rows], extra[rows])
            except (np.linalg.LinAlgError, ValueError):  # not positive definite, or not finite
                continue
            for values, value in zip(found, of_group, strict=True):
                values[rows] = value
        for storage, values in zip(output_storage, found, strict=True):
            storage[0] = values

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[2]] * 3


def _apart(of_group: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of H (k, rows) that belong to the codes of some observations."""
    known, places = np.unique(codes[rows], return_inverse=True)
    found = np.zeros((len(known), of_group.shape[1], len(rows)))
    found[places, :, np.arange(len(rows))] = of_group[rows]
    return found.reshape((-1, len(rows)))


def _left_out(
    sign: int, own: np.ndarray, H: np.ndarray, alpha: np.ndarray, extra: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Shift, variance and joint log density of one group, from the block of its rows."""
    P = sign * (H.T @ H) + np.diag(own)
    cov = cho_solve((np.linalg.cholesky(P), True), np.eye(len(own)))
    shift = cov @ alpha
    cov[np.diag_indices_from(cov)] += extra
    root = np.linalg.cholesky(cov)
    white = solve_triangular(root, shift, lower=True)
    joint = -0.5 * (white @ white + len(own) * np.log(2 * np.pi)) - np.log(np.diag(root)).sum()
    return shift, np.diag(cov), joint


def _left_out_by_coefficients(
    sign: int, own: np.ndarray, H: np.ndarray, alpha: np.ndarray, extra: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """The same where the sign is -1, in time that grows with the rows, not with their cube.

    P^-1 = diag(1 / own) + W'W, with W from what H leaves when the group's rows are taken out.
    """
    D = 1.0 / own
    root = np.linalg.cholesky(np.eye(len(H)) - (H * D) @ H.T)
    W = solve_triangular(root, H * D, lower=True)
    shift = D * alpha + W.T @ (W @ alpha)
    D = D + extra
    root = np.linalg.cholesky(np.eye(len(H)) + (W / D) @ W.T)
    white = solve_triangular(root, W @ (shift / D), lower=True)
    square = (shift**2 / D).sum() - white @ white
    logdet = np.log(D).sum() + 2.0 * np.log(np.diag(root)).sum()
    joint = -0.5 * (square + logdet + len(own) * np.log(2 * np.pi))
    return shift, D + (W**2).sum(axis=0), joint


def groups_left_out(
    precision: Precision, alpha: Tensor, groups: Tensor, extra: Tensor | None = None
) -> list[Tensor]:
    """Predictions of each observation, and of each group, given the other groups.

    `alpha` (n,) is the precision P times the observations, `groups` (n,) are codes, and `extra`
    (n,) adds variances to observations that are left out. Returns shift (n,), the observation minus
    its mean given the other groups, ``P_GG^-1 alpha_G``; variance (n,), the diagonal of
    ``P_GG^-1``; and joint (n,), the log density of all observations of its group given the other
    groups.
    """
    extra = pt.zeros_like(alpha) if extra is None else extra
    own, H, sign, *more = precision
    more = [v for v in more if v is not None]
    found: Any = GroupsLeftOut(sign).make_node(own, H, alpha, extra, groups, *more).outputs
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
