"""Kernels made of kernels: sums, products, powers, chosen columns, warped inputs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel, Pairs, autodiff
from bayes_gpx.kernels.tensor_products import (
    Differences,
    Slots,
    TensorProduct,
    chain,
    partitions,
    sum_of_products,
)


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """k = left + right."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        order, parts = len(slots), (self.left, self.right)
        return sum_of_products(([(part._jet(pairs, slots), range(order))] for part in parts), order)

    def _terms(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        return [term for part in (self.left, self.right) for term in part._terms(pairs, slots)]


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """k = left right; by Leibniz' rule each slot of a derivative goes to one of the two."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        terms: list[TensorProduct] = [
            [(kernel._jet(pairs, tuple(slots[p] for p in block)), block) for kernel, block in split]
            for split in self._splits(len(slots))
        ]
        return sum_of_products(terms, len(slots))

    def _terms(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        terms: list[TensorProduct] = []
        for (left, block), (right, rest) in self._splits(len(slots)):
            others = right._terms(pairs, tuple(slots[p] for p in rest))
            for term in left._terms(pairs, tuple(slots[p] for p in block)):
                own = [(factor, tuple(block[p] for p in axes)) for factor, axes in term]
                terms += [[*own, *[(f, tuple(rest[p] for p in b)) for f, b in o]] for o in others]
        return terms

    def _splits(self, order: int) -> Iterator[tuple[tuple[Kernel, Slots], tuple[Kernel, Slots]]]:
        """Which slots go to the left kernel, and which to the right one."""
        for block in (block for n in range(order + 1) for block in combinations(range(order), n)):
            rest = tuple(p for p in range(order) if p not in block)
            yield (self.left, block), (self.right, rest)


@dataclass(frozen=True, eq=False)
class Power(Kernel):
    """k = kernel ** exponent."""

    kernel: Kernel
    exponent: Tensor

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        base = self.kernel._jet(pairs, ())

        def outer(k: int) -> Tensor:
            factor = math.prod(self.exponent - m for m in range(k))
            return factor * base ** pt.switch(pt.eq(factor, 0.0), 0.0, self.exponent - k)

        terms = chain(outer, lambda slots: self.kernel._jet(pairs, slots), slots)
        return sum_of_products(terms, len(slots))


@dataclass(frozen=True, eq=False)
class Active(Kernel):
    """A kernel of some columns of the points; derivatives in the others are exactly 0."""

    kernel: Kernel
    columns: np.ndarray

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        if self._all(pairs):
            return self.kernel._jet(pairs, slots)
        jet = self.kernel._jet(self._own(pairs), slots)
        return jet if jet is None else self._among_all(jet, len(slots), pairs)

    def _terms(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        if self._all(pairs):
            return self.kernel._terms(pairs, slots)
        return [
            [(self._among_all(factor, len(block), pairs), block) for factor, block in term]
            for term in self.kernel._terms(self._own(pairs), slots)
        ]

    def _all(self, pairs: Pairs) -> bool:
        return np.array_equal(self.columns, np.arange(pairs.x.type.shape[-1] or 0))

    def _own(self, pairs: Pairs) -> Pairs:
        return pairs.map(lambda points: points[..., self.columns])

    def _among_all(self, jet: Any, order: int, pairs: Pairs) -> Any:
        if isinstance(jet, Differences):
            return Differences(*(self._among_all(side, order, pairs) for side in jet))
        if not order:
            return jet
        jet = pt.as_tensor_variable(jet)
        features = [pairs.x.shape[-1]] * order
        everywhere = pt.zeros((*tuple(jet.shape)[: jet.ndim - order], *features))
        return everywhere[(..., *np.ix_(*[self.columns] * order))].set(jet)


@dataclass(frozen=True, eq=False)
class Warped(Kernel):
    """k = kernel(w(x), w(x')); w maps points (n, d) to (n, width) row by row; autodiff of w."""

    kernel: Kernel
    warp: Callable
    width: int

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        def rate(point: Tensor, order: int) -> Tensor:
            """Derivatives of w, (..., width, d repeated `order` times)."""
            return autodiff(lambda p: self.warp(p[None])[0], [point], (0,) * order, (self.width,))

        if pairs.matrix:
            return self.kernel._jet(pairs.map(self.warp), ())
        warped, order, total = pairs.map(lambda point: rate(point, 0)), len(slots), None
        for blocks in partitions(order):
            kinds = tuple(slots[block[0]] for block in blocks)
            jet = self.kernel._jet(warped, kinds) if _pure(blocks, slots) else None
            if jet is None:
                continue
            # The jet has one axis (width,) for each block. They are contracted one after the other,
            # the first of them each time, and the block's axes (d,) are appended.
            others = len(blocks)
            for kind, block in zip(kinds, blocks, strict=True):
                others, size = others - 1, len(block)
                inner = pt.expand_dims(
                    rate((pairs.x, pairs.xs)[kind], size), [-1 - size - k for k in range(others)]
                )
                outer = pt.expand_dims(jet, [-1 - k for k in range(size)])
                jet, others = (outer * inner).sum(-1 - others - size), others + size
            batch, axes = jet.ndim - order, sum(blocks, ())
            jet = jet.dimshuffle(*range(batch), *(batch + axes.index(p) for p in range(order)))
            total = jet if total is None else total + jet
        return total


def _pure(blocks: tuple[Slots, ...], slots: Slots) -> bool:
    """Whether each block differentiates one point only: others are 0, as slots are sorted."""
    return all(slots[block[0]] == slots[block[-1]] for block in blocks)
