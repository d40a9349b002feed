"""Processes of samples in groups: one part that all groups share, and one for each group."""

from dataclasses import dataclass, replace
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.processes.base import KernelProcess, by_pairs
from bayes_gpx.processes.operators import AtPoints, Derivative, Value


@dataclass(frozen=True)
class GroupedProcess(KernelProcess):
    """The sum of a process `common` to all groups and independent processes `within` each group."""

    # Operators take `in_groups`: points with the code of their group as the last column. A group is
    # fixed while x varies, so derivatives and attributions have components for the other columns
    # only.

    common: KernelProcess
    within: KernelProcess

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        ours, theirs = without_codes(L), without_codes(M)
        if L.X is M.X:  # processes tell by this that samples are the same
            theirs = replace(theirs, X=ours.X)
        within = self.within.covariance(ours, theirs)
        return self.common.covariance(ours, theirs) + by_pairs(within, _same_group(L, M))

    def _variance(self, L: AtPoints) -> Tensor:
        return self.common.variance(without_codes(L)) + self.within.variance(without_codes(L))

    def _block(self, L: AtPoints) -> Tensor:
        return self.common.block(without_codes(L)) + self.within.block(without_codes(L))

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        ours, theirs = without_codes(L), without_codes(M)
        own = self.within.summed(ours, theirs, weights * _same_group(L, M))
        return self.common.summed(ours, theirs, weights) + own

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return self.common.cross(without_codes(L)) + self.within.cross(without_codes(L))


def in_groups(X: TensorLike, codes: TensorLike) -> Tensor:
    """Points (m, d) with the codes (m,) of their groups as a last column."""
    column = pt.as_tensor_variable(codes).astype("float64")[:, None]
    return pt.concatenate([pt.as_tensor_variable(X), column], axis=1)


def without_codes(L: Any) -> Any:
    """The operator at its points without their groups."""
    return replace(L, X=L.x[:, :-1])


def _same_group(L: AtPoints, M: AtPoints) -> Tensor:
    """1 where rows of L and of M are in one group, else 0, (m, n)."""
    return pt.eq(L.x[:, -1][:, None], M.x[:, -1][None]).astype("float64")
