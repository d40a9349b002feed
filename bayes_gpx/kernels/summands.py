"""Summands of a kernel, into which f is split: their kernels, columns and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations
from operator import add
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.kernels.additive import ElementarySymmetric
from bayes_gpx.kernels.base import Kernel, name_of
from bayes_gpx.kernels.composite import Active, Power, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.normal_form import Term, terms

CONSTANT, REMAINDER = "constant", "remainder"
"""What all constants together are called, and all interactions above the order asked for."""


@dataclass(frozen=True, eq=False)
class Summand:
    """One summand of a kernel."""

    term: Term
    columns: tuple[int, ...]  # those that it varies with
    # whether it is the effect of its columns in an additive kernel, which names it
    effect: bool = False
    name: str | None = None  # where it has no other

    @cached_property
    def kernel(self) -> Kernel:
        """The summand as a kernel of all columns."""
        term = self.term
        own = term.kernel if term.columns is None else Active(term.kernel, term.columns)
        return own if term.variance is None else Product(Constant(term.variance), own)

    def called(self, features: Sequence[str], whole: Mapping[tuple[int, ...], str]) -> str:
        """The summand's name, from the names of all columns, and of columns that go together."""
        if self.name is not None:
            return self.name
        if self.effect:
            return ":".join(_words(self.columns, features, whole))
        return _described(self.term.kernel, _own(self.term, len(features)), features, whole)


def summands(kernel: Kernel, d: int, order: int) -> list[Summand]:
    """Summands that add up to a kernel of points with d columns."""
    # Sums, multiples of sums, and additive kernels are opened up. The latter have a summand for
    # each feature and for each interaction of up to `order` features; the others together are one
    # more. Constants, if there are any, are one summand, the last.
    found: list[Summand] = []
    constants = []
    for term in terms(kernel, d):
        if isinstance(term.kernel, Constant):
            variance = term.kernel.variance
            constants.append(variance if term.variance is None else term.variance * variance)
        elif isinstance(term.kernel, ElementarySymmetric):
            found += _effects(term, d, order)
        else:
            found.append(Summand(term, _seen(term.kernel, _own(term, d))))
    if constants:
        found.append(Summand(Term(Constant(reduce(add, constants))), (), name=CONSTANT))
    return found


def varying(kernel: Kernel, d: int) -> Kernel:
    """A kernel of points with d columns without its constants."""
    parts = [part.kernel for part in summands(kernel, d, 0) if part.name != CONSTANT]
    return reduce(Sum, parts) if parts else Constant(pt.zeros(()))


def _effects(term: Term, d: int, order: int) -> Iterator[Summand]:
    additive, own = cast(ElementarySymmetric, term.kernel), _own(term, d)
    for size in range(1, min(order, additive.order) + 1):
        for chosen in combinations(range(len(additive.parts)), size):
            each: list[Kernel] = [Active(additive.parts[i], np.array([i])) for i in chosen]
            kernel = reduce(Product, each)
            effect = replace(term, kernel=kernel).times(additive.variances[size - 1])
            yield Summand(effect, tuple(own[list(chosen)].tolist()), effect=True)
    if order < additive.order:
        left = pt.concatenate([np.zeros(order), additive.variances[order:]])
        rest = replace(term, kernel=replace(additive, variances=left))
        yield Summand(rest, tuple(own.tolist()), name=REMAINDER)


def _own(term: Term, d: int) -> np.ndarray:
    """Positions of the columns that a term sees."""
    return np.arange(d) if term.columns is None else np.asarray(term.columns)


def _seen(kernel: Kernel, columns: np.ndarray) -> tuple[int, ...]:
    """Positions of the columns that a kernel depends on, from the columns of its points."""
    if isinstance(kernel, Active):
        return _seen(kernel.kernel, columns[kernel.columns])
    if isinstance(kernel, Sum | Product):
        both = {*_seen(kernel.left, columns), *_seen(kernel.right, columns)}
        return tuple(sorted(both))
    if isinstance(kernel, Power):
        return _seen(kernel.kernel, columns)
    return () if isinstance(kernel, Constant) else tuple(columns.tolist())


def _words(
    columns: Iterable[int], features: Sequence[str], whole: Mapping[tuple[int, ...], str]
) -> list[str]:
    """Names of columns, and one name for all that go together."""
    of_whole = {c: name for own, name in whole.items() if {*own} <= {*columns} for c in own}
    return list(dict.fromkeys(of_whole.get(c, features[c]) for c in columns))


def _described(
    kernel: Kernel,
    columns: np.ndarray,
    features: Sequence[str],
    whole: Mapping[tuple[int, ...], str],
) -> str:
    """A kernel in words, with its columns where these are not all."""
    if isinstance(kernel, Active):
        return _described(kernel.kernel, columns[kernel.columns], features, whole)
    if isinstance(kernel, Sum | Product):
        both = kernel.left, kernel.right
        sides = [_described(side, columns, features, whole) for side in both]
        return f"({' + '.join(sides)})" if isinstance(kernel, Sum) else " * ".join(sides)
    if isinstance(kernel, Power):
        return f"power of {_described(kernel.kernel, columns, features, whole)}"
    if isinstance(kernel, Constant):
        return CONSTANT
    name = "Linear" if isinstance(kernel, LinearKernel) else name_of(kernel)
    every = len(columns) == len(features)
    return name if every else f"{name}({', '.join(_words(columns.tolist(), features, whole))})"
