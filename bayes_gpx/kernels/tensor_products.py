"""Sums of tensor products, the notation for derivatives of kernels."""

# A term is a list of pairs (factor, block) to multiply. The factor's last axes are the axes `block`
# of the result, a tuple of integers, and its leading axes are a batch of points.

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, reduce
from operator import add, itemgetter, mul
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor

type Slots = tuple[int, ...]
"""The derivatives asked for: 0 for each in x and 1 for each in x', zeros first."""

type TensorProduct = list[tuple[Any, Sequence[int]]]
"""Factors to multiply, tensors or `Differences`, each with the axes of the result that it has."""


class Differences(NamedTuple):
    """A factor left_i - right_j (m, n, d), of rows (m, d) and (n, d), that need not be formed."""

    left: Tensor
    right: Tensor

    @property
    def formed(self) -> Tensor:
        """The factor as a tensor."""
        return self.left[:, None] - self.right[None]


def sum_of_products(terms: Iterable[TensorProduct], order: int) -> Tensor | None:
    """Sum of terms with blocks that partition `order` axes; None is 0, factor or sum."""

    def spread(factor: Tensor, block: Sequence[int]) -> Tensor:
        return pt.expand_dims(factor, [p - order for p in range(order) if p not in block])

    products = [reduce(mul, (spread(*pair) for pair in term)) for term in _nonzero(terms)]
    return reduce(add, products) if products else None


def summed(term: TensorProduct, weights: Tensor) -> Tensor:
    """Sum over n of weights (m | 1, n) times one term, over m and n, of one or two axes."""
    # No array of the whole term is formed, where it is a product of two vectors or of
    # `Differences`.
    scalar = reduce(mul, (factor for factor, block in term if not block), weights)
    tensors = sorted(((block, factor) for factor, block in term if block), key=itemgetter(0))
    block, first = tensors[0]
    if isinstance(first, Differences) and len(tensors) == 1:
        return scalar.sum(axis=1, keepdims=True) * first.left - pt.dot(scalar, first.right)
    first, *rest = (f.formed if isinstance(f, Differences) else f for _, f in tensors)
    if rest:
        (second,) = rest
        left = pt.expand_dims(scalar, -1) * first
        return left.swapaxes(1, 2) @ (second + pt.zeros((1, weights.shape[1], 1)))
    if first.ndim == len(block):
        return pt.expand_dims(scalar.sum(axis=1), [-1 - k for k in range(len(block))]) * first
    return (pt.expand_dims(scalar, [-1 - k for k in range(len(block))]) * first).sum(axis=1)


def partitions(order: int) -> Iterator[tuple[Slots, ...]]:
    """Yield all partitions of 0, ..., order - 1 into sorted blocks, ordered by their first."""
    if order == 0:
        yield ()
        return
    last = order - 1
    for smaller in partitions(last):
        for at, block in enumerate(smaller):
            yield (*smaller[:at], (*block, last), *smaller[at + 1 :])
        yield (*smaller, (last,))


def chain(outer: Callable, inner: Callable, slots: Slots) -> list:
    """Terms of derivatives of f(g), by Faa di Bruno: `outer(k)` is f's k-th, `inner(slots)` g's."""
    outer, inner = cache(outer), cache(inner)
    return _nonzero(
        [(outer(len(blocks)), ()), *((inner(tuple(slots[p] for p in b)), b) for b in blocks)]
        for blocks in partitions(len(slots))
    )


def _nonzero(terms: Iterable[TensorProduct]) -> list[TensorProduct]:
    return [term for term in terms if all(factor is not None for factor, _ in term)]


def on_diagonal(each: Tensor, order: int, d: int) -> Tensor:
    """Derivatives (..., d repeated `order` times) of a sum over features, from each feature's."""
    places = (np.arange(d),) * order
    same = np.zeros((d,) * order)
    same[places] = 1.0
    return pt.expand_dims(each, [-1 - k for k in range(order - 1)]) * same if order > 1 else each
