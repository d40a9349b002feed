"""Covariance functions: from a PyMC kernel to values and exact derivatives.

`from_pymc` turns a PyMC covariance function into a tree of frozen kernels, symbolic expressions in
the hyperparameters of the PyMC model. Two roads lead to k(x, x'). Matrices of values (`gram`,
`value`) are inner products of columns centred once: one BLAS product, no array with both point
axes and the feature axis. All else (`diag`, `derivative`) uses differences x - x', exact at
coincident points and far from the origin. PyMC's clipped squared distance is never differentiated.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add, mul
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp import cov
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import explicit_graph_inputs
from pytensor.tensor.variable import TensorVariable

from bayes_gpx.distances import squared_distances

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
            Orders in x and in xs, i + j <= 2. Orders (0, 0) give the value.

        Returns
        -------
        tensor (..., d repeated i + j times)
            The axes of x come first. In units of k per unit of each feature.
        """
        order = i + j
        if order > HIGHEST_ORDER:
            raise ValueError(f"Kernels are differentiated {HIGHEST_ORDER} times, not {i} + {j}.")
        pairs = _Pairs(x, xs).map(pt.as_tensor_variable)
        jet = self._jet(pairs, (0,) * i + (1,) * j)
        *batch, d = pt.add(pairs.x, pairs.xs).broadcastable
        if jet is not None and jet.broadcastable == (*batch, *[d] * order):
            return jet
        *batch, d = pt.broadcast_shape(pairs.x, pairs.xs)
        return pt.broadcast_to(0.0 if jet is None else jet, (*batch, *[d] * order))

    @abstractmethod
    def _jet(self, pairs: _Pairs, slots: tuple[int, ...]) -> TensorVariable | None:
        """Derivative with one axis per slot, 0 for x and 1 for xs, to be broadcast; None is 0."""

    def _require(self, slots) -> None:
        order = max(slots.count(0), slots.count(1))
        if order > self.smoothness:
            noun, cure = CURES[order]
            known = self.name in {kind.__name__ for kind in (*RADIAL, *LEAVES)}
            note = "" if known else ", by finite differences (take (x - xs)**2, not square_dist)"
            raise ValueError(
                f"{self.name} has no {noun}: its process is differentiable {self.smoothness} "
                f"times{note}. Use {cure}, for example."
            )


def from_pymc(cov_func: cov.BaseCovariance) -> Kernel:
    """Translate a PyMC covariance function into a kernel with exact derivatives.

    One that is not PyMC's own keeps its values. Its derivatives come from automatic
    differentiation and are offered as far as they agree with finite differences, taken here.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Also sums, products, powers, and multiples by numbers or random variables.
    """
    kind = type(cov_func)
    if kind in COMBINATIONS:
        return COMBINATIONS[kind](cov_func)
    if not isinstance(cov_func, cov.BaseCovariance):
        number = pt.as_tensor_variable(cov_func).squeeze().astype("floatX")
        if number.ndim == 0:
            return Constant(number)
    if not isinstance(cov_func, cov.Covariance):
        raise ValueError(
            f"Expected a covariance function of points or a scalar, got {cov_func!r}. White noise "
            f"belongs in the likelihood, as sigma or sigma_w; jitter is added where it is needed."
        )
    if kind in LEAVES:
        return Active(LEAVES[kind](cov_func), cov_func.active_dims)
    if isinstance(cov_func, cov.Stationary) and kind.full is cov.Stationary.full:
        return Active(_stationary(cov_func), cov_func.active_dims)
    kernel = _measured(Automatic(cov_func, kind.__name__), cov_func.input_dim)
    return Active(kernel, np.arange(cov_func.input_dim))


def _total(terms, order: int) -> TensorVariable | None:
    """Sum of tensor products of (factor, block), the factor's last axes lying on that block."""

    def spread(factor, block):
        return pt.expand_dims(factor, [p - order for p in range(order) if p not in block])

    terms = [term for term in terms if all(factor is not None for factor, _ in term)]
    products = [reduce(mul, (spread(*pair) for pair in term)) for term in terms]
    return reduce(add, products) if products else None


def _chain(outer: Callable, inner: Callable, slots) -> TensorVariable | None:
    """Derivative of f(g): `outer(k)` is the k-th derivative of f, `inner(slots)` one of g."""
    order = len(slots)
    terms = [[(outer(order), ()), *((inner((slot,)), (p,)) for p, slot in enumerate(slots))]]
    if order == 2:
        terms.append([(outer(1), ()), (inner(slots), (0, 1))])
    return _total(terms, order)


def _autodiff(function: Callable, points, slots, shape: tuple[int, ...] = ()) -> TensorVariable:
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
    F_k with respect to s^2 / 2: F_1 and F_2 are g1 and g2. Matern32's F_2 is finite at s = 0.
    """

    name: str
    lengthscale: TensorVariable
    radial: Callable[[TensorVariable, int], TensorVariable]
    smoothness: float = HIGHEST_ORDER
    period: TensorVariable | None = None
    alpha: TensorVariable | None = None

    def _embed(self, X):
        """Points whose Euclidean distance is s."""
        if self.period is None:
            return X / self.lengthscale
        angle, radius = 2.0 * math.pi * X / self.period, 0.5 / self.lengthscale
        return pt.concatenate([radius * pt.cos(angle), radius * pt.sin(angle)], axis=1)

    def _rates(self, delta):
        """s^2, and the derivatives of s^2 / 2 of order 1 and 2."""
        sine, slope, bend = delta, delta, 1.0
        if self.period is not None:
            rate = math.pi / self.period
            sine, slope = pt.sin(rate * delta), 0.5 * rate * pt.sin(2.0 * rate * delta)
            bend = pt.sqr(rate) * pt.cos(2.0 * rate * delta)[..., None]
        metric = pt.sqr(1.0 / self.lengthscale)
        s2 = pt.sqr(sine / self.lengthscale).sum(-1)
        return s2, slope * metric, bend * (pt.eye(delta.type.shape[-1]) * metric)

    def _jet(self, pairs, slots):
        self._require(slots)
        if pairs.matrix:
            center = pairs.xs.mean(0)
            shared = self.lengthscale.ndim == 0 and self.period is None
            A, B, _ = pairs.map(lambda X: X - center if shared else self._embed(X - center))
            s2 = squared_distances(A) if A is B else squared_distances(A, B)
            return self.radial(s2 / pt.sqr(self.lengthscale) if shared else s2, 0)
        if not slots and pairs.x is pairs.xs:
            return self.radial(pt.zeros(tuple(pairs.x.shape)[:-1]), 0)
        s2, slope, bend = self._rates(pairs.x - pairs.xs)
        rates = {(0,): slope, (1,): -slope, (0, 0): bend, (0, 1): -bend, (1, 1): bend}
        return _chain(lambda k: (-1) ** k * self.radial(s2, k), rates.get, slots)


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
        return rates.get(slots, pt.zeros((1, 1)))


@dataclass(frozen=True, eq=False)
class Automatic(Kernel):
    """k from its matrix of values, `covariance(X, Xs)`; derivatives by autodiff."""

    covariance: Callable
    name: str
    smoothness: float = HIGHEST_ORDER

    def _jet(self, pairs, slots):
        self._require(slots)
        if pairs.matrix:
            return self.covariance(pairs.x, pairs.xs)
        return _autodiff(lambda x, xs: self.covariance(x[None], xs[None])[0, 0], pairs[:2], slots)


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """k = left + right."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        order, parts = len(slots), (self.left, self.right)
        return _total(([(part._jet(pairs, slots), range(order))] for part in parts), order)


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """k = left right; by Leibniz' rule each slot of a derivative goes to one of the two."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        order, terms = len(slots), []
        for block in (block for n in range(order + 1) for block in combinations(range(order), n)):
            rest = tuple(p for p in range(order) if p not in block)
            left = self.left._jet(pairs, tuple(slots[p] for p in block))
            right = self.right._jet(pairs, tuple(slots[p] for p in rest))
            terms.append([(left, block), (right, rest)])
        return _total(terms, order)


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

        return _chain(outer, lambda slots: self.kernel._jet(pairs, slots), slots)


@dataclass(frozen=True, eq=False)
class Active(Kernel):
    """A kernel of some columns of the points; derivatives in the others are exactly 0."""

    kernel: Kernel
    columns: np.ndarray

    def _jet(self, pairs, slots):
        if np.array_equal(self.columns, np.arange(pairs.x.type.shape[-1] or 0)):
            return self.kernel._jet(pairs, slots)
        jet = self.kernel._jet(pairs.map(lambda points: points[..., self.columns]), slots)
        if jet is None or not slots:
            return jet
        features = [pairs.x.shape[-1]] * len(slots)
        everywhere = pt.zeros((*tuple(jet.shape)[: jet.ndim - len(slots)], *features))
        return everywhere[(..., *np.ix_(*[self.columns] * len(slots)))].set(jet)


@dataclass(frozen=True, eq=False)
class Warped(Kernel):
    """k = kernel(w(x), w(x')); w, by autodiff, maps points (n, d) to (n, width) row by row."""

    kernel: Kernel
    warp: Callable
    width: int

    def _jet(self, pairs, slots):
        def rate(point, order):
            return _autodiff(lambda p: self.warp(p[None])[0], [point], (0,) * order, (self.width,))

        if pairs.matrix:
            return self.kernel._jet(pairs.map(self.warp), ())
        warped, order = pairs.map(lambda point: rate(point, 0)), len(slots)
        jet = self.kernel._jet(warped, slots)
        for slot in slots:
            first = pt.expand_dims(rate(pairs[slot], 1), [-2] * (order - 1))
            jet = (jet[..., None] * first).sum(-1 - order)
        if slots in ((0, 0), (1, 1)):
            slope = self.kernel._jet(warped, slots[:1])[..., None, None]
            jet = jet + (slope * rate(pairs[slots[0]], 2)).sum(-3)
        return jet


def _gibbs(k: cov.Gibbs) -> Automatic:
    def covariance(X, Xs):
        scale, scale_s = (k.lfunc(points, k.args).flatten() for points in (X, Xs))
        total = pt.sqr(scale)[:, None] + pt.sqr(scale_s)
        return pt.sqrt(2.0 * scale[:, None] * scale_s / total) * pt.exp(-pt.sqr(X - Xs.T) / total)

    return Automatic(covariance, "Gibbs", math.inf)


def _matern(smoothness: int, rate: float, *factors: Callable):
    def radial(s2, order):
        positive = s2 > 0
        z = rate * pt.switch(positive, pt.sqrt(pt.switch(positive, s2, 1.0)), 0.0)
        return factors[order](z) * pt.exp(-z)

    return radial, smoothness


def _stationary(k: cov.Stationary, period=None) -> Stationary:
    """The profile of a known kernel, or of a user's own by autodiff, as smooth as measured."""
    kind, ls, alpha = type(k), k.ls.astype("floatX"), getattr(k, "alpha", None)

    def ratquad(s2, order):
        power = pt.exp(-(alpha + order) * pt.log1p(0.5 * s2 / alpha))
        return power if order < 2 else (alpha + 1.0) / alpha * power

    def other(s2, order):
        value = k.full_from_distance(s2, squared=True)
        for _ in range(order):
            value = -2.0 * pt.grad(value.sum(), s2, disconnected_inputs="ignore")
        return value

    if kind is cov.RatQuad:
        return Stationary("RatQuad", ls, ratquad, math.inf, period, alpha)
    if kind in RADIAL:
        return Stationary(kind.__name__, ls, *RADIAL[kind], period)
    return _measured(Stationary(kind.__name__, ls, other, HIGHEST_ORDER, period), k.n_dims)


def _measured(kernel, d: int):
    """Count the orders of derivatives that agree with finite differences of the kernel's values.

    Hyperparameters are drawn from their prior, free inputs are 1. Pairs of points coincide, nearly
    coincide or are apart; derivatives are taken along random directions v and w. The process is
    twice differentiable where the fourth differences of its variance converge.
    """
    rng = np.random.default_rng(0)
    x, apart = 1.0 + abs(rng.normal(size=(2, 48, d)))
    v, w = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in rng.normal(size=(2, 48, d)))
    xs = x + np.repeat([0.0, 1e-9, 0.5], 16)[:, None] * apart
    steps = 100.0 * 0.25 ** np.arange(14.0)
    moves = np.multiply.outer(steps, [-1.0, 0.0, 1.0])[..., None, None]
    left, right = (x + moves * v)[:, :, None], np.stack([xs + moves * w, x + moves * v])[:, :, None]

    def differences(table, i, j):
        stencil = np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0]])
        return np.einsum("a,b,sabn->sn", stencil[i], stencil[j], table) / steps[:, None] ** (i + j)

    orders = ((1, 0), (0, 1), (1, 1), (2, 0), (0, 2))
    outputs = [kernel.derivative(left, right, 0, 0)]
    outputs += [kernel.derivative(x, xs, *order) for order in orders]
    ones = {v: pt.ones([n or d for n in v.type.shape]) for v in explicit_graph_inputs(outputs)}
    with np.errstate(all="ignore"):
        drawn = pm.draw(clone_replace(outputs, ones), random_seed=0, mode="FAST_COMPILE")
        (values, variances), *jets = drawn
        resolved = np.median(abs(variances[:, 1, 2] / variances[:, 1, 1] - 1.0), axis=1) > 1e-6
        agreed = []
        for (i, j), jet in zip(orders, jets, strict=True):
            for direction in reversed([v] * i + [w] * j):
                jet = np.einsum("n...a,na->n...", jet, direction)
            near = abs(differences(values, i, j) - jet) <= 1e-2 * abs(jet).max()
            agreed.append((resolved & near.all(axis=1)).any())
        fourth = differences(variances, 2, 2)
        converges = (abs(np.diff(fourth, axis=0)) <= 0.2 * abs(fourth[1:])).all(axis=1).any()
    return replace(kernel, smoothness=int(all(agreed[:3])) + int(all(agreed) and converges))


RADIAL = {
    cov.ExpQuad: (lambda s2, order: pt.exp(-0.5 * s2), math.inf),
    cov.Periodic: (lambda s2, order: pt.exp(-0.5 * s2), math.inf),
    cov.Matern52: _matern(
        2, 5**0.5, lambda z: 1 + z + z**2 / 3, lambda z: 5 / 3 * (1 + z), lambda z: 25 / 3
    ),
    cov.Matern32: _matern(1, 3**0.5, lambda z: 1 + z, lambda z: 3, lambda z: 9 / (z + 1e-150)),
    cov.Matern12: _matern(0, 1.0, lambda z: 1.0),
    cov.Exponential: _matern(0, 0.5, lambda z: 1.0),
}
LEAVES = {
    cov.Periodic: lambda k: _stationary(k, k.period),
    cov.WrappedPeriodic: lambda k: _stationary(k.cov_func, k.period),
    cov.Linear: lambda k: Linear(k.c),
    cov.Polynomial: lambda k: Power(Sum(Linear(k.c), from_pymc(k.offset)), k.d),
    cov.Gibbs: _gibbs,
    cov.WarpedInput: lambda k: Warped(
        from_pymc(k.cov_func), lambda X: k.w(X, k.args), k.cov_func.input_dim
    ),
    cov.Coregion: lambda k: Automatic(k, "Coregion", 0),
}
COMBINATIONS = {
    cov.Add: lambda k: reduce(Sum, map(from_pymc, k._factor_list)),
    cov.Prod: lambda k: reduce(Product, map(from_pymc, k._factor_list)),
    cov.Exponentiated: lambda k: Power(from_pymc(k.kernel), k.power),
    cov.Constant: lambda k: from_pymc(k.c),
}
