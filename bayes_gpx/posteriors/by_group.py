"""Conditioning through coefficients that all rows share, and through those of each row's group.

Given the shared coefficients v, groups are independent: a row of group g has ``f = F v + E u_g +
rest`` with ``u_g | v ~ N(u_g - T_g (v - E v), A_g^-1)``; see
`bayes_gpx.posteriors.evidence.by_group`. A group without training rows has T = 0 and A = I, its
prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import solve_root, solve_upper
from bayes_gpx.posteriors.low_rank import LowRank, LowRankGaussian
from bayes_gpx.processes.base import bilinear, by_pairs
from bayes_gpx.processes.basis_process import by_observation
from bayes_gpx.processes.indexed_process import IndexedProcess
from bayes_gpx.processes.operators import AtPoints, Composite, Derivative, Operator, Stack


@dataclass(frozen=True, eq=False)
class LowRankByGroup(LowRank):
    """As `LowRank`, where each group has coefficients of its own.

    `alpha` (M + G K,) are posterior means of the shared coefficients, and of each group's; `root`
    (M, M) is of the precision of the shared ones, all else integrated out.
    """

    factor: Any = None  # (G, K, K), factors of groups' covariances given shared coefficients
    gain: Any = None  # (G, K, M), T

    def _smooth(self, operator: Operator) -> LowRankGaussian:
        return GroupGaussian(
            self.seen.process,
            operator,
            self.seen,
            self.alpha[: self.gain.shape[2]],
            self.root,
            self.seen.rest,
            self.spread,
            self,
        )

    @cached_property
    def own(self) -> Tensor:
        """Means of the groups' coefficients, (G, K)."""
        G, K, M = self.gain.shape
        return self.alpha[M:].reshape((G, K))

    def of_any(self, name: str) -> Tensor:
        """Array of all groups, with its prior value for a new group as the last one."""
        known = getattr(self, name)
        shape = (1, *tuple(known.shape)[1:])
        new = pt.eye(known.shape[1])[None] if name == "factor" else pt.zeros(shape)
        return pt.concatenate([known, new])

    def drawn(self, normal: Tensor) -> Tensor:
        """Coefficients (M + G K,) drawn by standard normals of the same number."""
        G, K, M = self.gain.shape
        if self.spread is not None:
            return self.alpha
        moved = solve_upper(self.root, normal[:M])
        own = pt.matmul(self.factor, normal[M:].reshape((G, K, 1)))[:, :, 0]
        own = own - pt.tensordot(self.gain, moved, 1)
        return self.alpha + pt.concatenate([moved, own.ravel()])


@dataclass(frozen=True, eq=False)
class GroupGaussian(LowRankGaussian):
    """As `LowRankGaussian`; `coefficients` are the shared ones, and `given` has the groups'."""

    given: Any = None

    def _of_groups(self, L: Operator, of_rows: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Values (len L, k) from each row's design (c, K) and its group's place, all m at once."""
        if isinstance(L, Composite):
            return L.assembled([self._of_groups(part, of_rows) for part in L.parts], axis=0)
        at = cast(AtPoints, L)
        E, codes = by_observation(self.seen.of_groups(at), at), self._group(at)
        found = of_rows(E, pt.minimum(codes, self.given.gain.shape[0]))
        return found.reshape((-1, found.shape[2]))

    def _group(self, L: AtPoints) -> Tensor:
        return cast(IndexedProcess, self.process).group(L)

    def _times(self, name: str) -> Callable[[Tensor, Tensor], Tensor]:
        matrices = self.given.of_any(name)
        # PyTensor types the arguments of matmul as NumPy's.
        return lambda E, place: pt.matmul(E, matrices[place])  # type: ignore[arg-type]

    @cached_property
    def _moved(self) -> Tensor:
        """How the values depend on the shared coefficients once groups follow, F - E T."""
        return self.design - self._of_groups(self.operator, self._times("gain"))

    @cached_property
    def mean(self) -> Tensor:  # noqa: D102
        own = self.given.of_any("own")

        def weighed(E: Tensor, place: Tensor) -> Tensor:
            return (E * own[place][:, None]).sum(axis=2, keepdims=True)

        return (
            pt.dot(self.design, self.coefficients) + self._of_groups(self.operator, weighed)[:, 0]
        )

    @property
    def mean_alone(self) -> Tensor:
        """`mean`."""
        return self.mean

    @cached_property
    def _left(self) -> Tensor:
        if self.spread is not None:
            return pt.zeros((1, self._moved.shape[0]))
        return solve_root(self.root, self._moved.T)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """The groups' part of the design, and times the factor of its posterior covariance."""
        E = self._of_groups(self.operator, lambda E, place: E)
        return E, self._of_groups(self.operator, self._times("factor"))

    def cross(self, value: Any) -> Tensor:  # noqa: D102
        L = cast(Derivative, self.operator)
        obs = L.x.shape[0]

        def between(ours: Tensor, theirs: Tensor) -> Tensor:
            return (ours.reshape((obs, -1, ours.shape[1])) * theirs[:, None]).sum(axis=2)

        (E, factor), (E_value, factor_value) = self._known, value._known
        found = between(self._left.T, value._left.T) + between(factor, factor_value)
        if not self.rest:
            return found
        known = between(self.design, value.design) + between(E, E_value)
        return found + cast(IndexedProcess, self.process).cross(L) - known

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        if isinstance(self.operator, Stack):
            parts = (replace(self, operator=part) for part in self.operator.parts)
            return pt.concatenate([part.variance for part in parts])
        if isinstance(self.operator, Composite):  # of rows in several groups
            return pt.maximum(pt.diagonal(self.cov), 0.0)
        E, factor = self._known
        left = pt.sqr(self._left).sum(axis=0) + pt.sqr(factor).sum(axis=1)
        if not self.rest:
            return left
        known = pt.sqr(self.design).sum(axis=1) + pt.sqr(E).sum(axis=1)
        return left + pt.maximum(self.process.variance(self.operator) - known, 0.0)

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        obs = cast(AtPoints, self.operator).x.shape[0]

        def within(rows: Tensor) -> Tensor:
            each = rows.reshape((obs, -1, rows.shape[1]))
            return pt.matmul(each, each.transpose(0, 2, 1))

        E, factor = self._known
        found = within(self._left.T) + within(factor)
        if not self.rest:
            return found
        return found + self.process.block(self.operator) - within(self.design) - within(E)

    def between(self, other: Any) -> Tensor:  # noqa: D102
        found = super().between(other) + self._within_groups(other, self._times("factor"))
        return found - self._within_groups(other, _itself) if self.rest else found

    def _within_groups(self, other: Any, of_rows: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Products of what groups add, between rows of one group, (len L, len M)."""

        def of_pair(L: Any, M: Any) -> Tensor:
            ours, theirs = (self._of_groups(one, of_rows) for one in (L, M))
            left, right = self._group(L), self._group(M)
            same = pt.eq(left[:, None], right)
            return by_pairs(pt.dot(ours, theirs.T), same)

        return bilinear(of_pair, self.operator, other.operator)


def _itself(E: Tensor, place: Tensor) -> Tensor:
    return E
