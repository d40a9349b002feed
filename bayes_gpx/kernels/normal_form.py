"""Kernels as sums of terms: variance x kernel x linear kernel, each of some columns."""

# Sums, constants, products and chosen columns are opened up here, once for all that has closed
# forms for the simple kernels inside: attributions and basis functions. A kernel that cannot be
# opened, such as a power, a product of two stationary kernels or a user's own, is a term as it is.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.centred import ZeroMean
from bayes_gpx.kernels.composite import Active, Power, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.columns import among_all


@dataclass(frozen=True, eq=False)
class Term:
    """variance x kernel x linear, of the columns that each sees."""

    kernel: Kernel
    columns: np.ndarray | None = None  # those of the points that the kernel sees; None for all
    variance: Tensor | None = None  # None is 1
    linear: Term | None = None  # what multiplies a stationary kernel; its variance is in the term's

    @property
    def stationary(self) -> bool:
        """Whether the kernel is a function of a scaled distance, not of waves."""
        return isinstance(self.kernel, Stationary) and self.kernel.period is None

    @property
    def factors(self) -> tuple[Stationary, Term, LinearKernel]:
        """A product's stationary kernel, its linear term, and the kernel of that term."""
        linear = cast(Term, self.linear)
        return cast(Stationary, self.kernel), linear, cast(LinearKernel, linear.kernel)

    def of(self, points: Tensor) -> Tensor:
        """The term's columns of points (..., d)."""
        return points if self.columns is None else points[..., self.columns]

    def times(self, variance: Tensor | None) -> Term:
        """A multiple of the term."""
        if variance is None or self.variance is None:
            return replace(self, variance=self.variance if variance is None else variance)
        return replace(self, variance=self.variance * variance)

    def among(self, part: Tensor, d: int | Tensor, *axes: int) -> Tensor:
        """Widen these axes of an array from the term's features to all d features, with zeros."""
        if self.columns is None:
            return part
        return among_all(part, self.columns, d, *axes)


def terms(kernel: Kernel, d: int | None, *, weighed: bool = False) -> list[Term]:
    """The terms that add up to a kernel of points with d columns, None where that is unknown."""
    # With `weighed`, products of stationary kernels with a linear one are opened up, too.
    return _terms(kernel, None, d, weighed)


def _terms(kernel: Kernel, columns: np.ndarray | None, d: int | None, weighed: bool) -> list[Term]:
    if isinstance(kernel, Active):
        return _terms(kernel.kernel, _within(columns, kernel.columns, d), d, weighed)
    if isinstance(kernel, Sum):
        return [t for k in (kernel.left, kernel.right) for t in _terms(k, columns, d, weighed)]
    if isinstance(kernel, Product):
        left, right = (_terms(k, columns, d, weighed) for k in (kernel.left, kernel.right))
        for factor, others in ((left, right), (right, left)):
            product = _product(factor[0], others, weighed) if len(factor) == 1 else None
            if product is not None:
                return product
    return [Term(kernel, columns)]


def _within(columns: np.ndarray | None, own: np.ndarray, d: int | None) -> np.ndarray | None:
    """Which of all d columns are the columns `own` of `columns`; None for all in their order."""
    own = own if columns is None else columns[own]
    return None if columns is None and np.array_equal(own, np.arange(d or 0)) else own


def _product(factor: Term, others: list[Term], weighed: bool) -> list[Term] | None:
    """Terms of a constant or linear term times others; None where that is no sum of terms."""
    if isinstance(factor.kernel, Constant):
        return [other.times(factor.times(factor.kernel.variance).variance) for other in others]
    plain = all(other.stationary and other.linear is None for other in others)
    if not (weighed and plain and isinstance(factor.kernel, LinearKernel)):
        return None
    return [replace(other.times(factor.variance), linear=factor) for other in others]


def sum_over_terms(
    kernel: Kernel,
    d: int,
    part_of: Callable[[Term], Tensor],
    shape: tuple,
    *,
    weighed: bool,
) -> Tensor:
    """Sum over `terms` of a quantity that is linear in the kernel and 0 for constants."""
    # `part_of` gives the quantity, of this shape, for one term without its variance.
    varying = [t for t in terms(kernel, d, weighed=weighed) if not isinstance(t.kernel, Constant)]
    parts = [
        part if term.variance is None else term.variance * part
        for term, part in zip(varying, map(part_of, varying), strict=True)
    ]
    return reduce(add, parts) if parts else pt.zeros(shape)


def leaves(kernel: Kernel, columns: np.ndarray | None = None) -> Iterator[Term]:
    """Yield all stationary kernels that a kernel is made of, with their columns."""
    if isinstance(kernel, Stationary):
        yield Term(kernel, columns)
    elif isinstance(kernel, Active):
        yield from leaves(kernel.kernel, _within(columns, kernel.columns, None))
    elif isinstance(kernel, Sum | Product):
        yield from (*leaves(kernel.left, columns), *leaves(kernel.right, columns))
    elif isinstance(kernel, Power | ZeroMean):
        yield from leaves(kernel.kernel, columns)
    elif isinstance(kernel, ElementarySymmetric):
        for i, part in enumerate(kernel.parts):
            yield from leaves(part, _within(columns, np.array([i]), None))
