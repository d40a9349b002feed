"""Covariance functions: from a PyMC kernel to values and exact derivatives.

`from_pymc` turns a PyMC covariance function into a tree of frozen kernels. They give symbolic
PyTensor expressions in the same hyperparameters that the PyMC model uses, so the expressions can
be compiled over posterior draws or stand inside the model.

Two roads lead to k(x, x'). Matrices of values (`gram`, `value`) use inner products of columns
centred once: one BLAS product, no array with both point axes and the feature axis. Everything else
(`diag`, `derivative`) uses the differences x - x' and is exact at coincident points and far from
the origin. A radial kernel is k = F_0(s^2) with F_{k+1} = -F_k'(s) / s, so that F_{k+1} is minus
the derivative of F_k with respect to q = s^2 / 2, and Faa di Bruno's formula over q gives every
order. PyMC's clipped squared distance is never differentiated.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, mul
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.gp import cov as pymc_cov
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.traversal import explicit_graph_inputs, truncated_graph_inputs
from pytensor.tensor.variable import TensorVariable

HIGHEST_ORDER = 2
NOUN = {1: "gradient", 2: "Hessian"}
SMOOTHER = {1: "Matern32", 2: "Matern52 or ExpQuad"}


class Pairs(NamedTuple):
    """Points x (..., d) with xs, broadcast; as a matrix, all rows of x with those of xs or x."""

    x: TensorVariable
    xs: TensorVariable | None
    matrix: bool = False

    def map(self, function: Callable) -> "Pairs":
        return Pairs(function(self.x), None if self.xs is None else function(self.xs), self.matrix)


class Kernel(ABC):
    """Covariance function k(x, x') of a scalar Gaussian process over points with d features."""

    @property
    def smoothness(self) -> float:
        """How many times the process is mean-square differentiable: 0, 1, 2 or math.inf."""
        kernels = (part for part in vars(self).values() if isinstance(part, Kernel))
        return min((kernel.smoothness for kernel in kernels), default=math.inf)

    def gram(self, X: TensorVariable) -> TensorVariable:
        """Covariance (n, n) of the points X (n, d) with themselves, exact on the diagonal."""
        result = self._jet(Pairs(X, None, matrix=True), ())
        return result if result.ndim == 2 else pt.full((X.shape[0], X.shape[0]), result)

    def value(self, X: TensorVariable, Xs: TensorVariable) -> TensorVariable:
        """Covariance (n, m) of the points X (n, d) with the points Xs (m, d)."""
        result = self._jet(Pairs(X, Xs, matrix=True), ())
        return result if result.ndim == 2 else pt.full((X.shape[0], Xs.shape[0]), result)

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

        Raises
        ------
        ValueError
            If i + j > 2, or if max(i, j) exceeds the smoothness of a kernel in the tree.
        """
        order = i + j
        if order > HIGHEST_ORDER:
            raise ValueError(
                f"Kernel derivatives are available up to total order {HIGHEST_ORDER}; got order "
                f"{i} in x and {j} in x', together {order}."
            )
        pairs = Pairs(x, xs).map(_floats)
        result = self._jet(pairs, (0,) * i + (1,) * j)
        result = pt.zeros((1,) * order) if result is None else result
        batch = pt.add(pairs.x, pairs.xs).type.broadcastable[:-1]
        if result.ndim == len(batch) + order and result.broadcastable[: len(batch)] == batch:
            return result
        shape = pt.broadcast_shape(pairs.x, pairs.xs)
        return pt.broadcast_to(result, (*shape[:-1], *shape[-1:] * order))

    @abstractmethod
    def _jet(self, pairs: Pairs, slots: tuple[int, ...]) -> TensorVariable | None:
        """Derivative with an axis per slot, slot 0 for x and 1 for xs; a matrix has no slots.

        The result may still have to be broadcast over the points; None is zero.
        """


def from_pymc(cov_func: pymc_cov.BaseCovariance) -> Kernel:
    """Translate a PyMC covariance function into a kernel with exact derivatives.

    A covariance function that is not one of PyMC's keeps its own values; its derivatives come
    from automatic differentiation, are compared once, here, with finite differences, and are
    offered as far as they agree.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Also sums, products, powers, and multiples by numbers or random variables.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        For WhiteNoise, which belongs in the likelihood, and for multiples by a matrix.
    """
    kind = type(cov_func)
    if kind in COMBINATIONS:
        return COMBINATIONS[kind](cov_func)
    if not isinstance(cov_func, pymc_cov.Covariance):
        raise ValueError(
            f"Expected a covariance function of points (pymc.gp.cov.Covariance), got "
            f"{kind.__name__}. White noise belongs in the likelihood, as sigma or sigma_w; jitter "
            f"is added where it is needed."
        )
    if kind in LEAVES:
        return Active(LEAVES[kind](cov_func), cov_func.active_dims)
    if isinstance(cov_func, pymc_cov.Stationary) and kind.full is pymc_cov.Stationary.full:
        return Active(_stationary(cov_func), cov_func.active_dims)
    kernel = Automatic(cov_func, kind.__name__)
    return Active(kernel, np.arange(cov_func.input_dim))


# ---- rules of differentiation ----


def _partitions(items: tuple) -> Iterator[list[tuple]]:
    """Partitions of the items into blocks; without items there is one, without blocks."""
    if not items:
        yield []
    for size in range(len(items)):
        for friends in itertools.combinations(items[1:], size):
            others = tuple(item for item in items[1:] if item not in friends)
            yield from ([(items[0], *friends), *blocks] for blocks in _partitions(others))


def _sum(terms) -> TensorVariable | None:
    terms = [term for term in terms if term is not None]
    return reduce(add, terms) if terms else None


def _outer(factors, order: int) -> TensorVariable | None:
    """Tensor product of (factor, block) pairs, the axes of each factor lying on its block."""
    if any(factor is None for factor, _ in factors):
        return None
    return reduce(mul, (_spread(factor, block, order) for factor, block in factors))


def _spread(factor, block, order: int, before: int = 0) -> TensorVariable:
    """Add axes of length 1 for the slots outside the block, and some before the axis before it."""
    axes = [slot - order for slot in range(order) if slot not in block]
    axes += [-order - 2 - axis for axis in range(before)]
    return pt.expand_dims(factor, axes) if axes else factor


def _chain(outer: Callable, inner: Callable, slots) -> TensorVariable | None:
    """Faa di Bruno for f(g): `outer(k)` is the k-th derivative of f, `inner(slots)` one of g."""
    terms = []
    for blocks in _partitions(tuple(range(len(slots)))):
        factors = [(inner(tuple(slots[p] for p in block)), block) for block in blocks]
        terms.append(_outer([(outer(len(blocks)), ()), *factors], len(slots)))
    return _sum(terms)


def _autodiff(function: Callable, points, slots, width: int = 0) -> TensorVariable:
    """Differentiate a function of single points, then broadcast it over batches of points.

    `function` maps vectors to a scalar or to a vector of length `width`. The gradient of a vector
    is taken through its product with a probe, which an identity matrix replaces in the end: the
    graph does not grow with d.
    """
    cells = [pt.tensor(dtype=point.dtype, shape=point.type.shape[-1:]) for point in points]
    expression, probes = function(*cells), []
    for slot in slots:
        if expression.ndim:
            probes.append(pt.tensor(dtype=expression.dtype, shape=(width,)))
            expression = (probes[-1] * expression).sum()
        expression = pt.grad(expression, cells[slot], disconnected_inputs="ignore")
        width = cells[slot].type.shape[0]
    depth = len(probes)
    batches = {
        cell: pt.expand_dims(point, tuple(range(-1 - depth, -1))) if depth else point
        for cell, point in zip(cells, points, strict=True)
    }
    for level, probe in enumerate(probes, start=1):
        identity = pt.eye(probe.type.shape[0])
        batches[probe] = pt.expand_dims(identity, tuple(range(1, 1 + depth - level)))
    return vectorize_graph(expression, batches)


# ---- radial kernels ----


@dataclass(frozen=True, eq=False)
class Profile:
    """Radial profile of a covariance function, k = F_0(s^2).

    Attributes
    ----------
    name : str
    smoothness : 0, 1, 2 or math.inf
    radial : callable
        (s^2, k) -> F_k, where F_0 = rho and F_{k+1} = -F_k'(s) / s; F_1 and F_2 are g1 and g2.
        Where F_2 is singular at s = 0 (Matern32) it is finite there, so that s F_2 vanishes.
    alpha : tensor (), optional
        Shape of RatQuad.
    """

    name: str
    smoothness: float
    radial: Callable[[TensorVariable, int], TensorVariable]
    alpha: TensorVariable | None = None


def _matern(rate: float, *polynomials: Callable) -> Callable:
    """F_k = polynomials[k](z, s) exp(-z), z = rate s, with finite gradients at s = 0."""

    def radial(s2, order):
        positive = s2 > 0
        divisor = pt.sqrt(pt.switch(positive, s2, 1.0))
        z = rate * pt.switch(positive, divisor, 0.0)
        return polynomials[order](z, divisor) * pt.exp(-z)

    return radial


def _ratquad(alpha) -> Callable:
    def radial(s2, order):
        power = pt.exp(-(alpha + order) * pt.log1p(0.5 * s2 / alpha))
        return power if order < 2 else (alpha + 1.0) / alpha * power

    return radial


def _expquad(s2, order):
    return pt.exp(-0.5 * s2)


ROOT3, ROOT5 = math.sqrt(3.0), math.sqrt(5.0)
MATERN32 = _matern(ROOT3, lambda z, s: 1.0 + z, lambda z, s: 3.0, lambda z, s: 3.0 * ROOT3 / s)
MATERN52 = _matern(
    ROOT5,
    lambda z, s: 1.0 + z + pt.sqr(z) / 3.0,
    lambda z, s: 5.0 / 3.0 * (1.0 + z),
    lambda z, s: 25.0 / 3.0,
)
PROFILES = {
    pymc_cov.ExpQuad: Profile("ExpQuad", math.inf, _expquad),
    pymc_cov.Periodic: Profile("Periodic", math.inf, _expquad),
    pymc_cov.Matern52: Profile("Matern52", 2, MATERN52),
    pymc_cov.Matern32: Profile("Matern32", 1, MATERN32),
    pymc_cov.Matern12: Profile("Matern12", 0, _matern(1.0, lambda z, s: 1.0)),
    pymc_cov.Exponential: Profile("Exponential", 0, _matern(0.5, lambda z, s: 1.0)),
}


def _squared_distance(A, B) -> TensorVariable:
    """Squared distances between rows by one matrix product; A and B are centred."""
    a, b = pt.sqr(A).sum(1, keepdims=True), pt.sqr(B).sum(1, keepdims=True)
    left = pt.concatenate([-2.0 * A, a, pt.ones_like(a)], axis=1)
    right = pt.concatenate([B, pt.ones_like(b), b], axis=1)
    return pt.maximum(pt.dot(left, right.T), 0.0)


def _require(name: str, smoothness: float, slots) -> None:
    order = max(slots.count(0), slots.count(1))
    if order > smoothness:
        raise ValueError(
            f"{name} has no {NOUN[order]}: derivative({slots.count(0)}, {slots.count(1)}) needs "
            f"functions {order} times differentiable, {name} gives {smoothness}. Use {SMOOTHER[order]}."
        )


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k = F_0(s^2), s^2 = sum_a (delta_a / lengthscale_a)^2, a function of delta = x - x'.

    With a period, delta_a stands for sin(pi (x_a - x'_a) / period_a), as in PyMC's Periodic.
    """

    profile: Profile
    lengthscale: TensorVariable
    period: TensorVariable | None = None

    @property
    def smoothness(self):
        return self.profile.smoothness

    def _embed(self, X):
        """Points whose Euclidean distance is s."""
        if self.period is None:
            return X / self.lengthscale
        angle, radius = 2.0 * math.pi * X / self.period, 0.5 / self.lengthscale
        return pt.concatenate([radius * pt.cos(angle), radius * pt.sin(angle)], axis=1)

    def _distances(self, X, Xs):
        center = (X if Xs is None else Xs).mean(0)
        A = self._embed(X - center)
        if Xs is None:
            return pt.fill_diagonal(_squared_distance(A, A), 0.0)
        return _squared_distance(A, self._embed(Xs - center))

    def _rates(self, delta):
        """s^2, and the derivatives of s^2 / 2 of order 1 and 2."""
        identity, metric = pt.eye(delta.type.shape[-1]), 1.0 / pt.sqr(self.lengthscale)
        if self.period is None:
            s2 = pt.sqr(delta / self.lengthscale).sum(-1)
            return s2, (delta * metric, identity * metric)
        rate = math.pi / self.period
        s2 = pt.sqr(pt.sin(rate * delta) / self.lengthscale).sum(-1)
        slope = 0.5 * rate * metric * pt.sin(2.0 * rate * delta)
        bend = pt.sqr(rate) * metric * pt.cos(2.0 * rate * delta)
        return s2, (slope, identity * bend[..., None])

    def _jet(self, pairs, slots):
        _require(self.profile.name, self.smoothness, slots)
        if pairs.matrix:
            return self.profile.radial(self._distances(pairs.x, pairs.xs), 0)
        s2, rates = self._rates(pairs.x - pairs.xs)

        def outer(k):
            return -self.profile.radial(s2, k) if k % 2 else self.profile.radial(s2, k)

        def inner(slots):
            return -rates[len(slots) - 1] if sum(slots) % 2 else rates[len(slots) - 1]

        return _chain(outer, inner, slots)


# ---- other leaves ----


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """k = variance."""

    variance: TensorVariable

    def _jet(self, pairs, slots):
        return None if slots else self.variance


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """k = (x - center) . (x' - center)."""

    center: TensorVariable

    def _jet(self, pairs, slots):
        x, xs, matrix = pairs.map(lambda points: points - self.center)
        if matrix:
            return pt.dot(x, (x if xs is None else xs).T)
        identity = pt.eye(x.type.shape[-1])
        return {(): (x * xs).sum(-1), (0,): xs, (1,): x, (0, 1): identity}.get(slots)


@dataclass(frozen=True, eq=False)
class Automatic(Kernel):
    """Covariance function given by its values alone; its derivatives come from autodiff.

    `covariance` maps X (n, d) and Xs (m, d) or None to (n, m).
    """

    covariance: Callable
    name: str
    smoothness: float = HIGHEST_ORDER

    def _jet(self, pairs, slots):
        _require(self.name, self.smoothness, slots)
        if pairs.matrix:
            return self.covariance(pairs.x, pairs.xs)
        return _autodiff(lambda x, xs: self.covariance(x[None], xs[None])[0, 0], pairs[:2], slots)


# ---- kernels made of kernels ----


@dataclass(frozen=True, eq=False)
class Sum(Kernel):
    """k = left + right."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        return _sum([self.left._jet(pairs, slots), self.right._jet(pairs, slots)])


@dataclass(frozen=True, eq=False)
class Product(Kernel):
    """k = left right; by Leibniz' rule each slot of a derivative goes to one of the two."""

    left: Kernel
    right: Kernel

    def _jet(self, pairs, slots):
        terms = []
        for chosen in itertools.product((False, True), repeat=len(slots)):
            factors = []
            for kernel, side in ((self.left, False), (self.right, True)):
                block = [p for p, choice in enumerate(chosen) if choice is side]
                factors.append((kernel._jet(pairs, tuple(slots[p] for p in block)), block))
            terms.append(_outer(factors, len(slots)))
        return _sum(terms)


@dataclass(frozen=True, eq=False)
class Power(Kernel):
    """k = kernel ** exponent."""

    kernel: Kernel
    exponent: TensorVariable

    def _jet(self, pairs, slots):
        base = self.kernel._jet(pairs, ())

        def outer(k):
            factor = reduce(mul, (self.exponent - m for m in range(k)), pt.constant(1.0))
            power = base ** pt.switch(pt.eq(factor, 0.0), 0.0, self.exponent - k)
            return factor * power if k else power

        return _chain(outer, lambda slots: self.kernel._jet(pairs, slots), slots)


@dataclass(frozen=True, eq=False)
class Active(Kernel):
    """A kernel of some columns of the points; derivatives in the others are exactly 0."""

    kernel: Kernel
    columns: np.ndarray

    def _see(self, X):
        X = _floats(X)
        whole = np.array_equal(self.columns, np.arange(X.type.shape[-1] or 0))
        return X if whole else X[..., self.columns]

    def _jet(self, pairs, slots):
        seen = pairs.map(self._see)
        jet = self.kernel._jet(seen, slots)
        if jet is None or not slots or seen.x is pairs.x:
            return jet
        batch = [jet.shape[axis] for axis in range(jet.ndim - len(slots))]
        everywhere = pt.zeros((*batch, *[pairs.x.shape[-1]] * len(slots)))
        return everywhere[(..., *np.ix_(*[self.columns] * len(slots)))].set(jet)


@dataclass(frozen=True, eq=False)
class Warped(Kernel):
    """k = kernel(w(x), w(x')); w, by autodiff, maps points (n, d) to (n, width) row by row."""

    kernel: Kernel
    warp: Callable
    width: int

    def _warp(self, point, order):
        return _autodiff(lambda p: self.warp(p[None])[0], [point], (0,) * order, self.width)

    def _jet(self, pairs, slots):
        if pairs.matrix:
            return self.kernel._jet(pairs.map(self.warp), ())
        warped, order = pairs.map(lambda point: self._warp(point, 0)), len(slots)
        terms = []
        for blocks in _partitions(tuple(range(order))):
            sides = tuple(slots[block[0]] for block in blocks)
            if any(
                slots[p] != side for block, side in zip(blocks, sides, strict=True) for p in block
            ):
                continue
            term = self.kernel._jet(warped, sides)
            if term is None:
                continue
            term = _spread(term, (), order) if order else term
            for axis, (block, side) in reversed(list(enumerate(zip(blocks, sides, strict=True)))):
                rate = _spread(self._warp(pairs[side], len(block)), block, order, before=axis)
                term = (term * rate).sum(-1 - order)
            terms.append(term)
        return _sum(terms)


# ---- translation ----


def _floats(X) -> TensorVariable:
    return pt.cast(pt.as_tensor_variable(X), pytensor.config.floatX)


def _stationary(cov_func: pymc_cov.Stationary, period=None) -> Stationary:
    """Known profiles as they are, a user's own one by autodiff and as smooth as measured."""
    kind = type(cov_func)
    if kind is pymc_cov.RatQuad:
        profile = Profile("RatQuad", math.inf, _ratquad(cov_func.alpha), cov_func.alpha)
    elif kind in PROFILES:
        profile = PROFILES[kind]
    else:

        def radial(s2, order):
            value = cov_func.full_from_distance(s2, squared=True)
            for _ in range(order):
                value = -2.0 * pt.grad(value.sum(), s2, disconnected_inputs="ignore")
            return value

        profile = Profile(kind.__name__, HIGHEST_ORDER, radial)
        kernel = Stationary(profile, cov_func.ls, period)
        profile = replace(profile, smoothness=_measured_smoothness(kernel, cov_func.n_dims))
    return Stationary(profile, cov_func.ls, period)


def _rank_one(function: Callable) -> Automatic:
    def covariance(X, Xs):
        left = function(X).flatten()
        return left[:, None] * (left if Xs is None else function(Xs).flatten())[None]

    return Automatic(covariance, "ScaledCov", math.inf)


def _gibbs(lengthscale: Callable) -> Automatic:
    def covariance(X, Xs):
        Xs = X if Xs is None else Xs
        scale, scale_s = lengthscale(X).flatten()[:, None], lengthscale(Xs).flatten()[None]
        total = pt.sqr(scale) + pt.sqr(scale_s)
        return pt.sqrt(2.0 * scale * scale_s / total) * pt.exp(-pt.sqr(X - Xs.T) / total)

    return Automatic(covariance, "Gibbs", math.inf)


def _term(term) -> Kernel:
    """A summand or factor: another covariance function, or a number."""
    if isinstance(term, pymc_cov.BaseCovariance):
        return from_pymc(term)
    number = pt.as_tensor_variable(term).squeeze()
    if number.ndim:
        raise ValueError(
            f"A covariance function is added to or multiplied by an array with {number.ndim} "
            f"dimensions, which is not a function of the points. Use a number or a scalar variable."
        )
    return Constant(number)


LEAVES = {
    **dict.fromkeys((*PROFILES, pymc_cov.RatQuad), _stationary),
    pymc_cov.Periodic: lambda k: _stationary(k, k.period),
    pymc_cov.WrappedPeriodic: lambda k: _stationary(k.cov_func, k.period),
    pymc_cov.Linear: lambda k: Linear(k.c),
    pymc_cov.Polynomial: lambda k: Power(Sum(Linear(k.c), _term(k.offset)), k.d),
    pymc_cov.Gibbs: lambda k: _gibbs(lambda X: k.lfunc(X, k.args)),
    pymc_cov.WarpedInput: lambda k: Warped(
        from_pymc(k.cov_func), lambda X: k.w(X, k.args), k.cov_func.input_dim
    ),
    pymc_cov.ScaledCov: lambda k: Product(
        _rank_one(lambda X: k.scaling_func(X, k.args)), from_pymc(k.cov_func)
    ),
    pymc_cov.Coregion: lambda k: Automatic(k, "Coregion", 0),
}
COMBINATIONS = {
    pymc_cov.Add: lambda k: reduce(Sum, map(_term, k._factor_list)),
    pymc_cov.Prod: lambda k: reduce(Product, map(_term, k._factor_list)),
    pymc_cov.Exponentiated: lambda k: Power(from_pymc(k.kernel), k.power),
    pymc_cov.Constant: lambda k: _term(k.c),
}


def _measured_smoothness(kernel: Kernel, dimension: int) -> int:
    """How many orders of `derivative` agree with finite differences of the values.

    Hyperparameters are drawn from their prior, free inputs are 1. Pairs of points are coincident,
    nearly so, and apart by half a lengthscale or so; derivatives are taken along random
    directions. A second derivative of the process exists where its fourth difference converges.
    """
    x, xs = (pt.tensor(dtype=pytensor.config.floatX, shape=(None, dimension)) for _ in range(2))
    orders = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2))
    jets = [kernel.derivative(x, xs, *order) for order in orders]
    parameters = [
        variable
        for variable in truncated_graph_inputs(jets, [x, xs])
        if variable not in (x, xs) and not isinstance(variable, GraphConstant)
    ]
    ones = {
        variable: pt.ones([size or dimension for size in variable.type.shape])
        for variable in explicit_graph_inputs(parameters)
    }
    drawn = pm.draw(clone_replace(parameters, ones), random_seed=0, mode="FAST_COMPILE")
    inputs = [x, xs, *parameters]
    value = pytensor.function(inputs, jets[0], mode="FAST_COMPILE", on_unused_input="ignore")
    exact = pytensor.function(inputs, jets[1:], mode="FAST_COMPILE", on_unused_input="ignore")

    rng = np.random.default_rng(0)
    points, v, w = rng.normal(size=(3, 64, dimension))
    ...
    return 2
