"""Processes of rows with codes, of groups or of outputs: sums of parts that codes share or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.processes.base import KernelProcess, by_pairs
from bayes_gpx.processes.operators import (
    AtPoints,
    Components,
    Composite,
    Derivative,
    Gradient,
    Value,
)

NO_GROUP = -1.0
"""Code of what all groups share alone, which constraints are about."""


@dataclass(frozen=True)
class Same:
    """Independent functions, one for each code; 0 for `NO_GROUP`."""

    column: int = -1  # among the columns of codes, counted from the last

    def at(self, codes: Tensor) -> Tensor:
        """1 where rows are in a group, else 0, (m,)."""
        return pt.neq(codes, NO_GROUP).astype("float64")

    def pairs(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """1 where rows are in one group, else 0, (m, n)."""
        return pt.eq(ours[:, None], theirs[None]) * self.at(ours)[:, None]


@dataclass(frozen=True)
class Loaded:
    """One function, with a loading for each code."""

    loadings: Tensor
    column: int = -1

    def at(self, codes: Tensor) -> Tensor:
        """Loadings of rows, (m,)."""
        return self.loadings[codes.astype("int64")]

    def pairs(self, ours: Tensor, theirs: Tensor) -> Tensor:
        """Products of loadings, (m, n)."""
        return self.at(ours)[:, None] * self.at(theirs)


@dataclass(frozen=True)
class Part:
    """An independent summand of a process, and how codes share it: by all of the indices."""

    process: Any  # a KernelProcess, or a BasisProcess
    indices: tuple[Same | Loaded, ...] = ()

    @property
    def separate(self) -> bool:
        """Whether groups have separate functions."""
        return any(isinstance(index, Same) for index in self.indices)

    @property
    def appended(self) -> bool:
        """Whether the groups' functions are one more component, after the kernel's components."""
        return self.separate and getattr(self.process, "place", None) is None

    def asked(self, *operators: AtPoints) -> list[AtPoints]:
        """The operators for this part; the groups' functions are one component, a value."""
        if not self.appended:
            return [*operators]
        return [Value(L.X, smooth=True) if isinstance(L, Components) else L for L in operators]

    def pairs(self, L: AtPoints, M: AtPoints) -> Tensor | None:
        """What multiplies covariances of rows of L and M, (m, n); None for 1."""
        return _product([i.pairs(L.x[:, i.column], M.x[:, i.column]) for i in self.indices])

    def loadings(self, L: AtPoints) -> Tensor | None:
        """Loadings of L's rows, (m,); None for 1."""
        return _product([i.at(L.x[:, i.column]) for i in self.indices])


def _product(factors: list[Tensor]) -> Tensor | None:
    return reduce(mul, factors) if factors else None


@dataclass(frozen=True)
class IndexedProcess(KernelProcess):
    """A sum of independent parts, with ``Cov(f_i(x), f_j(x')) = sum_s B_s[i, j] k_s(x, x')``."""

    # B_s is 1 for what all groups share, the identity for separate levels or weights of groups, and
    # m m' for the loadings m of outputs (the linear model of coregionalization). Operators take
    # `in_groups`: points with codes as last columns, which are fixed while x varies, so derivatives
    # and attributions have components for the other columns only.

    parts: Sequence[Part]
    columns: int = 1  # of codes

    def group(self, L: AtPoints) -> Tensor:
        """Code of each row's group, (m,): the first of a row's codes."""
        return L.x[:, -self.columns].astype("int64")

    def bare(self, L: Any) -> Any:
        """The operator at its points without their codes."""
        return replace(L, X=L.x[:, : -self.columns])

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        ours, theirs = self.bare(L), self.bare(M)
        if L.X is M.X:  # processes tell by this that samples are the same
            theirs = replace(theirs, X=ours.X)
        each = []
        for part in self.parts:
            K, factor = part.process.covariance(*part.asked(ours, theirs)), part.pairs(L, M)
            each.append(K if factor is None else by_pairs(K, factor))
        axes = [axis for axis, one in ((1, L), (3, M)) if isinstance(one, Components)]
        if not axes:
            return reduce(add, each)
        m, n = L.x.shape[0], M.x.shape[0]
        found = self._added([K.reshape((m, -1, n, K.shape[1] // n)) for K in each], axes)
        return found.reshape((m * found.shape[1], n * found.shape[3]))

    def _added(self, each: list[Tensor], axes: Sequence[int]) -> Tensor:
        """The sum over parts; groups' own parts are one more component along such axes."""
        if not axes or not any(part.appended for part in self.parts):
            return reduce(add, each)
        pairs = zip(self.parts, each, strict=True)
        sums: list[list[Tensor]] = [[], []]
        for part, own in pairs:
            sums[part.appended].append(own)
        shared, own = (reduce(add, parts) for parts in sums)
        return with_last_component(shared, own, axes)

    def _of_parts(self, L: AtPoints, of_part: Callable[[Any, Any], Tensor]) -> Tensor:
        """Sum over the parts of a function of L (m, ...), times squared loadings."""
        bare, each = self.bare(L), []
        for part in self.parts:
            own, loadings = of_part(part.process, *part.asked(bare)), part.loadings(L)
            each.append(own if loadings is None else by_rows(own, pt.sqr(loadings)))
        axes = range(1, each[0].ndim) if isinstance(L, Components) else ()
        return self._added(each, axes)

    def _variance(self, L: AtPoints) -> Tensor:
        m = L.x.shape[0]
        by_points = self._of_parts(L, lambda part, x: part.variance(x).reshape((m, -1)))
        return by_points.reshape((-1,))

    def _block(self, L: AtPoints) -> Tensor:
        return self._of_parts(L, lambda part, bare: part.block(bare))

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return self._of_parts(L, lambda part, bare: part.cross(bare))

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        return reduce(add, (part.summed(*own) for part, own in self._weighed(L, M, weights)))

    def summed_slopes(self, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:  # noqa: D102
        parts = self._weighed(L, M, weights)
        return reduce(add, (part.summed_slopes(*own) for part, own in parts))

    def _weighed(self, L: AtPoints, M: AtPoints, weights: Tensor) -> Iterator[tuple[Any, tuple]]:
        """Yield each part's process, with operators without codes and weights of pairs of rows."""
        ours, theirs = self.bare(L), self.bare(M)
        for part in self.parts:
            factor = part.pairs(L, M)
            yield part.process, (ours, theirs, weights if factor is None else weights * factor)


def of_no_group(process: Any, L: Any) -> Any:
    """The operator of what all groups share, at points without codes; for any process."""
    if not isinstance(process, IndexedProcess):
        return L
    if isinstance(L, Composite):
        return replace(L, parts=tuple(of_no_group(process, part) for part in L.parts))
    return replace(L, X=in_groups(L.x, pt.full((L.x.shape[0],), NO_GROUP)))


def with_last_component(shared: Tensor, own: Tensor, axes: Sequence[int]) -> Tensor:
    """The components of `shared` along such axes, and after them the one of `own`, independent."""
    for axis in axes:
        shape = [*shared.shape], [*own.shape]
        shape[0][axis], shape[1][axis] = own.shape[axis], shared.shape[axis]
        widened = pt.concatenate([shared, pt.zeros(shape[0])], axis=axis)
        own = pt.concatenate([pt.zeros(shape[1]), own], axis=axis)
        shared = widened
    return shared + own


def by_rows(values: Tensor, factors: Tensor) -> Tensor:
    """Values (m, ...) times a factor of each row."""
    return values * factors.reshape((-1, *[1] * (values.ndim - 1)))


def in_groups(X: TensorLike, codes: TensorLike) -> Tensor:
    """Points (m, d) with the codes of their rows, (m,), or (m, 2) of group and output, as last."""
    columns = pt.as_tensor_variable(codes).astype("float64")
    columns = columns[:, None] if columns.ndim == 1 else pt.specify_shape(columns, (None, 2))
    return pt.concatenate([pt.as_tensor_variable(X), columns], axis=1)
