"""Sums of tensor products, by which derivatives of kernels are written down.

A term is a list of pairs (factor, block): the factor's last axes lie on that block of the result's
axes, the others are a batch of points. To sum over points, no array of the whole result is needed.
"""

from collections.abc import Callable
from functools import cache, reduce
from operator import add, itemgetter, mul
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable


class Apart(NamedTuple):
    """A factor left_i - right_j (m, n, d), of rows (m, d) and (n, d), that need not be formed."""

    left: TensorVariable
    right: TensorVariable

    @property
    def formed(self):
        """The factor as a tensor."""
        return self.left[:, None] - self.right[None]


def sum_of_products(terms, order: int) -> TensorVariable | None:
    """Sum of tensor products of (factor, block), the factor's last axes lying on that block."""

    def spread(factor, block):
        return pt.expand_dims(factor, [p - order for p in range(order) if p not in block])

    products = [reduce(mul, (spread(*pair) for pair in term)) for term in _nonzero(terms)]
    return reduce(add, products) if products else None


def summed(term, weights):
    """Sum over n of weights (m | 1, n) times one tensor product of one or two axes."""
    scalar = reduce(mul, (factor for factor, block in term if not block), weights)
    tensors = sorted(((block, factor) for factor, block in term if block), key=itemgetter(0))
    (block, first), *rest = tensors
    if isinstance(first, Apart) and not rest:
        return scalar.sum(axis=1, keepdims=True) * first.left - pt.dot(scalar, first.right)
    first, *rest = (f.formed if isinstance(f, Apart) else f for _, f in tensors)
    if rest:
        (second,) = rest
        left = pt.expand_dims(scalar, -1) * first
        return pt.matmul(left.swapaxes(1, 2), second + pt.zeros((1, weights.shape[1], 1)))
    if first.ndim == len(block):
        return pt.expand_dims(scalar.sum(axis=1), [-1 - k for k in range(len(block))]) * first
    return (pt.expand_dims(scalar, [-1 - k for k in range(len(block))]) * first).sum(axis=1)


def partitions(order: int):
    """Yield all partitions of 0, ..., order - 1 into blocks, each sorted, by their first."""
    if order == 0:
        yield ()
        return
    last = order - 1
    for smaller in partitions(last):
        for at, block in enumerate(smaller):
            yield (*smaller[:at], (*block, last), *smaller[at + 1 :])
        yield (*smaller, (last,))


def chain(outer: Callable, inner: Callable, slots) -> list:
    """Terms of f(g), by Faa di Bruno: `outer(k)` is f's k-th derivative, `inner(slots)` g's."""
    outer, inner = cache(outer), cache(inner)
    return _nonzero(
        [(outer(len(blocks)), ()), *((inner(tuple(slots[p] for p in b)), b) for b in blocks)]
        for blocks in partitions(len(slots))
    )


def _nonzero(terms):
    return [term for term in terms if all(factor is not None for factor, _ in term)]


def on_diagonal(each: TensorVariable, order: int, d: int) -> TensorVariable:
    """Derivatives (..., d repeated `order` times) of a sum over features, from each one's own."""
    places = (np.arange(d),) * order
    same = np.zeros((d,) * order)
    same[places] = 1.0
    return pt.expand_dims(each, [-1 - k for k in range(order - 1)]) * same if order > 1 else each
