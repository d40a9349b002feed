"""Covariance functions: values and exact derivatives, as a tree of frozen kernels.

They are symbolic expressions in the hyperparameters of a PyMC model (`bayes_gpx.translation`). Two
roads lead to k(x, x'). Matrices of values (`gram`, `value`) are inner products of columns centred
once, but for pairs that these tell badly: one BLAS product, no array with both point axes and the
feature axis. All else (`diag`, `derivative`) uses differences x - x', exact at coincident points
and far from the origin. PyMC's clipped squared distance is never differentiated.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import add
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from bayes_gpx.distances import squared_distances
from bayes_gpx.tensors import Apart, chain, on_diagonal, partitions, sum_of_products, summed

HIGHEST_ORDER = 2
CURES = {1: ("gradient", "Matern32"), 2: ("Hessian", "Matern52 or ExpQuad")}


class _Pairs(NamedTuple):
    """Points x (..., d) with points xs, broadcast; or, as a matrix, each row with each row."""

    x: TensorVariable
    xs: TensorVariable
    matrix: bool = False

    def map(self, function: Callable) -> "_Pairs":
        x = function(self.x)
        return _Pairs(x, x if self.xs is self.x else function(self.xs), self.matrix)


class Kernel(ABC):
    """Covariance function k(x, x') of a scalar Gaussian process over points with d features."""

    @property
    def smoothness(self) -> float:
        """How many times the process is mean-square differentiable: 0, 1, 2 or math.inf."""
        parts = (part for part in vars(self).values() if isinstance(part, Kernel))
        return min((part.smoothness for part in parts), default=math.inf)

    def gram(self, X: TensorVariable) -> TensorVariable:
        """Covariance (n, n) of the points X (n, d) with themselves, exact on the diagonal."""
        return self.value(X, X)

    def value(self, X: TensorVariable, Xs: TensorVariable) -> TensorVariable:
        """Covariance (n, m) of the points X (n, d) with the points Xs (m, d)."""
        value = self._jet(_Pairs(X, Xs, matrix=True).map(pt.as_tensor_variable), ())
        return value if value.ndim else pt.full((X.shape[0], Xs.shape[0]), value)

    def diag(self, X: TensorVariable) -> TensorVariable:
        """Variance (n,) at the points X (n, d)."""
        return self.derivative(X, X, 0, 0)

    def derivative(self, x: TensorVariable, xs: TensorVariable, i: int, j: int) -> TensorVariable:
        """Covariance of derivatives, d^i/dx^i d^j/dx'^j k(x, x'), built from differences.

        Parameters
        ----------
        x, xs : tensor (..., d)
            Points; their leading axes broadcast.
        i, j : int
            Orders in x and in xs, each at most 2. Orders (0, 0) give the value.

        Returns
        -------
        tensor (..., d repeated i + j times)
            The axes of x come first. In units of k per unit of each feature.
        """
        order = i + j
        if max(i, j) > HIGHEST_ORDER:
            raise ValueError(
                f"Kernels are differentiated {HIGHEST_ORDER} times in each point, not {i} and {j}."
            )
        pairs = _Pairs(x, xs).map(pt.as_tensor_variable)
        jet = self._jet(pairs, (0,) * i + (1,) * j)
        *batch, d = pt.add(pairs.x, pairs.xs).broadcastable
        if jet is not None and jet.broadcastable == (*batch, *[d] * order):
            return jet
        *batch, d = pt.broadcast_shape(pairs.x, pairs.xs)
        return pt.broadcast_to(0.0 if jet is None else jet, (*batch, *[d] * order))

    def summed(self, x, xs, weights, order: int) -> TensorVariable:
        """Sum over n of weights (m | 1, n) d^order/dx^order k(x_m, xs_n), order 1 or 2.

        Parameters
        ----------
        x : tensor (m, d)
        xs : tensor (n, d)
        weights : tensor (m, n) or (1, n)
        order : int

        Returns
        -------
        tensor (m, d repeated `order` times)
            Of most kernels by matrix products, without an array of all derivatives.
        """
        terms = self._terms(_Pairs(x[:, None], xs[None]), (0,) * order)
        shape = (x.shape[0], *[x.shape[1]] * order)
        total = reduce(add, (summed(term, weights) for term in terms), pt.zeros(()))
        return pt.broadcast_to(total, shape)

    @abstractmethod
    def _jet(self, pairs: _Pairs, slots: tuple[int, ...]) -> TensorVariable | None:
        """Derivative with one axis per slot, 0 for x and 1 for xs, to be broadcast; None is 0."""

    def _terms(self, pairs: _Pairs, slots: tuple[int, ...]) -> list:
        """The same as tensor products that add up to it, for `sum_of_products`."""
        jet = self._jet(pairs, slots)
        return [] if jet is None else [[(jet, tuple(range(len(slots))))]]

    def _require(self, slots, once=False) -> None:
        """Refuse derivatives that do not exist; `once`: those of order 2 in one point do, too."""
        order = max(slots.count(0), slots.count(1))
        if order > self.smoothness and not (once and len(slots) <= 2 * self.smoothness):
            noun, cure = CURES[order]
            note = ", by finite differences (take (x - xs)**2, not square_dist)"
            note = note if self.measured else ""
            raise ValueError(
                f"{self.name} has no {noun}: its process is differentiable {self.smoothness} "
                f"times{note}. Use {cure}, for example."
            )


def autodiff(function: Callable, points, slots, shape: tuple[int, ...] = ()) -> TensorVariable:
    """Derivative of a function of single points, of that shape, broadcast over batches of them."""
    cells = [pt.tensor(shape=point.type.shape[-1:]) for point in points]
    result = function(*cells)
    for slot in slots:
        probe, identity = pt.tensor(shape=shape), np.eye(math.prod(shape)).reshape(shape * 2)
        row = pt.grad((probe * result).sum(), cells[slot], disconnected_inputs="ignore")
        result = vectorize_graph(row, {probe: pt.constant(identity)})
        shape += cells[slot].type.shape
    return vectorize_graph(result, dict(zip(cells, points, strict=True)))


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k = F_0(s^2), s^2 = sum_a (delta_a / lengthscale_a)^2, a function of delta = x - x'.

    With a period, delta_a stands for sin(pi (x_a - x'_a) / period_a), as in PyMC's Periodic.
    `radial(s^2, k)` is F_k, where F_0 = rho and F_{k+1} = -F_k'(s) / s, or minus the derivative of
    F_k with respect to s^2 / 2: F_1 and F_2 are g1 and g2. Where they grow without bound at s = 0
    (Matern32's F_2, Matern52's F_3 and F_4) they are finite there, and meet differences that are 0.
    """

    name: str
    lengthscale: TensorVariable
    radial: Callable[[TensorVariable, int], TensorVariable]
    smoothness: float = HIGHEST_ORDER
    period: TensorVariable | None = None
    alpha: TensorVariable | None = None
    measured: bool = False

    def _squared(self, X, Xs):
        """Squared distances s^2 between all rows of X and of Xs, (n, m).

        Periodic columns go around a circle. Whole periods are left out first, which is exact.
        """
        if self.period is None and self.lengthscale.ndim == 0:
            s2 = squared_distances(X) if X is Xs else squared_distances(X, Xs)
            return s2 / pt.sqr(self.lengthscale)  # so that the data alone decide the distances
        scale = self.lengthscale + pt.zeros(X.shape[1])
        points = [X] if X is Xs else [X, Xs]
        if self.period is not None:
            angles = [2.0 * math.pi * pt.mod(p, self.period) / self.period for p in points]
            points = [0.5 * pt.concatenate([pt.cos(a), pt.sin(a)], axis=1) for a in angles]
            scale = pt.concatenate([scale, scale])
        return squared_distances(*points, scale=scale)

    def _rates(self, delta):
        """s^2, and the derivatives of s^2 / 2 in delta, by their order; None is 0."""
        metric = pt.sqr(1.0 / self.lengthscale)
        if self.period is None:
            rates, sine = {1: delta, 2: np.ones(delta.type.shape[-1])}, delta
        else:
            rate = math.pi / self.period
            wave, turn = pt.sin(2.0 * rate * delta), pt.cos(2.0 * rate * delta)
            sine, rates = pt.sin(rate * delta), {1: 0.5 * rate * wave, 2: pt.sqr(rate) * turn}
            rates |= {3: -2.0 * rate**3 * wave, 4: -4.0 * rate**4 * turn}

        def inner(order):
            each = rates.get(order)
            return None if each is None else on_diagonal(each * metric, order, delta.type.shape[-1])

        return pt.sqr(sine / self.lengthscale).sum(-1), inner

    def _jet(self, pairs, slots):
        if pairs.matrix:
            return self.radial(self._squared(pairs.x, pairs.xs), 0)
        if not slots and pairs.x is pairs.xs:
            return self.radial(pt.zeros(tuple(pairs.x.shape)[:-1]), 0)
        return sum_of_products(self._chained(pairs, slots), len(slots))

    def _terms(self, pairs, slots):
        if slots == (0,) and self.period is None:
            return self._sloping(pairs)
        return self._chained(pairs, slots) if slots else super()._terms(pairs, slots)

    def _sloping(self, pairs):
        """Gradient in x, by inner products of differences from one point: 0 where all are equal."""
        self._require((0,), once=True)
        x, xs = pairs.x[:, 0], pairs.xs[0]
        rate, metric = -self.radial(self._squared(x, xs), 1), pt.sqr(self.lengthscale)
        return [[(rate, ()), (Apart((x - xs[0]) / metric, (xs - xs[0]) / metric), (0,))]]

    def _chained(self, pairs, slots):
        self._require(slots, once=True)
        s2, rate = self._rates(pairs.x - pairs.xs)

        def inner(slots):
            each = rate(len(slots))
            return -each if each is not None and sum(slots) % 2 else each

        return chain(lambda k: (-1) ** k * self.radial(s2, k), inner, slots)


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """k = variance."""

    variance: TensorVariable

    def _jet(self, pairs, slots):
        return None if slots else self.variance


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """k = sum_a weights_a (x_a - center_a) (x'_a - center_a)."""

    center: TensorVariable
    weights: TensorVariable | float = 1.0

    def _jet(self, pairs, slots):
        x, xs, matrix = pairs.map(lambda points: points - self.center)
        left = self.weights * x
        if matrix:
            return pt.dot(left, xs.T)
        mixed = pt.eye(x.type.shape[-1]) * self.weights
        rates = {(): (left * xs).sum(-1), (0,): self.weights * xs, (1,): left, (0, 1): mixed}
        return rates.get(slots)


@dataclass(frozen=True, eq=False)
class Automatic(Kernel):
    """k from its matrix of values, `covariance(X, Xs)`; derivatives by autodiff."""

    covariance: Callable
    name: str
    smoothness: float = HIGHEST_ORDER
    measured: bool = False

    def _jet(self, pairs, slots):
        self._require(slots)
        if pairs.matrix:
            return self.covariance(pairs.x, pairs.xs)
        return autodiff(lambda x, xs: self.covariance(x[None], xs[None])[0, 0], pairs[:2], slots)


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """k = left + right."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        order, parts = len(slots), (self.left, self.right)
        return sum_of_products(([(part._jet(pairs, slots), range(order))] for part in parts), order)

    def _terms(self, pairs, slots):
        return [term for part in (self.left, self.right) for term in part._terms(pairs, slots)]


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """k = left right; by Leibniz' rule each slot of a derivative goes to one of the two."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        terms = [
            [(kernel._jet(pairs, tuple(slots[p] for p in block)), block) for kernel, block in split]
            for split in self._splits(len(slots))
        ]
        return sum_of_products(terms, len(slots))

    def _terms(self, pairs, slots):
        terms = []
        for (left, block), (right, rest) in self._splits(len(slots)):
            others = right._terms(pairs, tuple(slots[p] for p in rest))
            for term in left._terms(pairs, tuple(slots[p] for p in block)):
                own = [(factor, tuple(block[p] for p in axes)) for factor, axes in term]
                terms += [[*own, *[(f, tuple(rest[p] for p in b)) for f, b in o]] for o in others]
        return terms

    def _splits(self, order):
        """Which slots go to the left kernel, and which to the right one."""
        for block in (block for n in range(order + 1) for block in combinations(range(order), n)):
            rest = tuple(p for p in range(order) if p not in block)
            yield (self.left, block), (self.right, rest)


@dataclass(frozen=True, eq=False)
class Power(Kernel):
    """k = kernel ** exponent."""

    kernel: Kernel
    exponent: TensorVariable

    def _jet(self, pairs, slots):
        base = self.kernel._jet(pairs, ())

        def outer(k):
            factor = math.prod(self.exponent - m for m in range(k))
            return factor * base ** pt.switch(pt.eq(factor, 0.0), 0.0, self.exponent - k)

        terms = chain(outer, lambda slots: self.kernel._jet(pairs, slots), slots)
        return sum_of_products(terms, len(slots))


@dataclass(frozen=True, eq=False)
class Active(Kernel):
    """A kernel of some columns of the points; derivatives in the others are exactly 0."""

    kernel: Kernel
    columns: np.ndarray

    def _jet(self, pairs, slots):
        if self._all(pairs):
            return self.kernel._jet(pairs, slots)
        jet = self.kernel._jet(self._own(pairs), slots)
        return jet if jet is None else self._among_all(jet, len(slots), pairs)

    def _terms(self, pairs, slots):
        if self._all(pairs):
            return self.kernel._terms(pairs, slots)
        return [
            [(self._among_all(factor, len(block), pairs), block) for factor, block in term]
            for term in self.kernel._terms(self._own(pairs), slots)
        ]

    def _all(self, pairs):
        return np.array_equal(self.columns, np.arange(pairs.x.type.shape[-1] or 0))

    def _own(self, pairs):
        return pairs.map(lambda points: points[..., self.columns])

    def _among_all(self, jet, order, pairs):
        if isinstance(jet, Apart):
            return Apart(*(self._among_all(side, order, pairs) for side in jet))
        if not order:
            return jet
        jet = pt.as_tensor_variable(jet)
        features = [pairs.x.shape[-1]] * order
        everywhere = pt.zeros((*tuple(jet.shape)[: jet.ndim - order], *features))
        return everywhere[(..., *np.ix_(*[self.columns] * order))].set(jet)


@dataclass(frozen=True, eq=False)
class Warped(Kernel):
    """k = kernel(w(x), w(x')); w, by autodiff, maps points (n, d) to (n, width) row by row."""

    kernel: Kernel
    warp: Callable
    width: int

    def _jet(self, pairs, slots):
        def rate(point, order):
            return autodiff(lambda p: self.warp(p[None])[0], [point], (0,) * order, (self.width,))

        if pairs.matrix:
            return self.kernel._jet(pairs.map(self.warp), ())
        warped, order, total = pairs.map(lambda point: rate(point, 0)), len(slots), None
        for blocks in partitions(order):
            kinds = tuple(slots[block[0]] for block in blocks)
            jet = self.kernel._jet(warped, kinds) if _pure(blocks, slots) else None
            if jet is None:
                continue
            left = len(blocks)
            for kind, block in zip(kinds, blocks, strict=True):
                left, size = left - 1, len(block)
                inner = pt.expand_dims(
                    rate(pairs[kind], size), [-1 - size - k for k in range(left)]
                )
                outer = pt.expand_dims(jet, [-1 - k for k in range(size)])
                jet, left = (outer * inner).sum(-1 - left - size), left + size
            batch, axes = jet.ndim - order, sum(blocks, ())
            jet = jet.dimshuffle(*range(batch), *(batch + axes.index(p) for p in range(order)))
            total = jet if total is None else total + jet
        return total


def _pure(blocks, slots):
    return all(slots[block[0]] == slots[block[-1]] for block in blocks)
