"""From a PyMC covariance function to the package's kernel, as smooth as differences find it."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp import cov
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import explicit_graph_inputs

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.additive import Additive, ElementarySymmetric
from bayes_gpx.kernels.base import HIGHEST_ORDER, Kernel, autodiff
from bayes_gpx.kernels.centred import Centred, ZeroMean
from bayes_gpx.kernels.composite import Active, Power, Product, Sum, Warped
from bayes_gpx.kernels.elementary import Automatic, Constant, LinearKernel
from bayes_gpx.kernels.precomputed import Labelled, Precomputed
from bayes_gpx.kernels.profiles import PROFILES, AutomaticProfile
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.compile_modes import MODE

ORDERS = {1: ((1, 0), (0, 1), (1, 1)), 2: ((2, 0), (0, 2), (2, 1), (1, 2), (2, 2))}
"""Derivatives, by orders in x and xs, that k needs for smoothness 1, and besides for 2."""


def from_pymc(cov_func: cov.BaseCovariance) -> Kernel:
    """Translate a PyMC covariance function into a kernel with exact derivatives."""
    # It may be a sum, product, power, or multiple by numbers or random variables.
    kind = type(cov_func)
    if kind in COMBINATIONS:
        return COMBINATIONS[kind](cov_func)
    if not isinstance(cov_func, cov.BaseCovariance):
        number = pt.as_tensor_variable(cov_func).squeeze().astype("floatX")
        if number.ndim == 0:
            return Constant(number)
    if not isinstance(cov_func, cov.Covariance):
        raise ValueError(
            f"{cov_func!r} is no covariance function of points and no scalar. White noise belongs "
            "in the likelihood, as sigma or sigma_w; jitter is added where it is needed."
        )
    if kind in LEAVES:
        return Active(LEAVES[kind](cov_func), cov_func.active_dims)
    if isinstance(cov_func, cov.Stationary) and kind.full is cov.Stationary.full:
        return Active(_stationary(cov_func), cov_func.active_dims)
    # Derivatives of covariance functions outside PyMC are automatic; they are available only if
    # they agree with finite differences.
    kernel = _automatic(cov_func, kind.__name__, cov_func.input_dim)
    return Active(kernel, np.arange(cov_func.input_dim))


def _automatic(covariance: Callable, name: str, d: int) -> Automatic:
    kernel = Automatic(covariance, name)
    return replace(kernel, smoothness=measured(kernel, d), measured=True)


def _column(function: Callable, points: Tensor, args: Any) -> Tensor:
    """Values (n, 1) of a function of points that returns (n,) or (n, 1)."""
    values = function(points, args)
    return (values if values.ndim == 1 else values[:, 0])[:, None]


def _numbers(given: Any) -> Tensor:
    """One number, or one for each column: PyMC takes lists, and rows (1, d), as they are."""
    numbers = pt.as_tensor_variable(given).astype("floatX")
    return numbers.ravel() if numbers.ndim > 1 else numbers


def _gibbs(k: cov.Gibbs) -> Automatic:
    def covariance(X: Tensor, Xs: Tensor) -> Tensor:
        scale, scale_s = _column(k.lfunc, X, k.args), _column(k.lfunc, Xs, k.args).T
        total = pt.sqr(scale) + pt.sqr(scale_s)
        apart = X[:, 0][:, None] - Xs[:, 0][None]
        return pt.sqrt(2.0 * scale * scale_s / total) * pt.exp(-pt.sqr(apart) / total)

    return Automatic(covariance, "Gibbs", math.inf)


def _scaled(k: cov.ScaledCov) -> Product:
    def covariance(X: Tensor, Xs: Tensor) -> Tensor:
        return _column(k.scaling_func, X, k.args) * _column(k.scaling_func, Xs, k.args).T

    return Product(from_pymc(k.cov_func), _automatic(covariance, "ScaledCov", k.input_dim))


def _stationary(k: cov.Stationary, period: Tensor | None = None) -> Stationary:
    """A kernel with its known profile, or a user's own with an automatic one that is measured."""
    name, ls = type(k).__name__, _numbers(k.ls)
    if type(k) in PROFILES:
        return Stationary(name, ls, PROFILES[type(k)].of(k), period)
    own = AutomaticProfile(lambda s2: k.full_from_distance(s2, squared=True), HIGHEST_ORDER)
    found = measured(Stationary(name, ls, own, period), k.n_dims)
    return Stationary(name, ls, replace(own, smoothness=found, measured=True), period)


def measured(kernel: Kernel, d: int) -> int:
    """Count the orders of derivatives that agree with finite differences of the kernel's values."""
    # Hyperparameters are drawn from their prior, free inputs are 1. Pairs of points coincide,
    # nearly coincide or are apart; derivatives are taken along random directions v and w. The
    # process is twice differentiable where the fourth differences of its variance converge.
    rng = np.random.default_rng(0)
    x, apart = 1.0 + abs(rng.normal(size=(2, 48, d)))
    v, w = (u / np.linalg.norm(u, axis=1, keepdims=True) for u in rng.normal(size=(2, 48, d)))
    xs = x + np.repeat([0.0, 1e-9, 0.5], 16)[:, None] * apart
    # Axes: steps, moves of x, moves of xs, pairs of points, features.
    steps = 100.0 * 0.25 ** np.arange(14.0)
    moves = np.multiply.outer(steps, [-1.0, 0.0, 1.0])[..., None, None]
    left, right = (x + moves * v)[:, :, None], np.stack([xs + moves * w, x + moves * v])[:, :, None]

    def differences(table: np.ndarray, i: int, j: int) -> np.ndarray:
        stencil = np.array([[0.0, 1.0, 0.0], [-0.5, 0.0, 0.5], [1.0, -2.0, 1.0]])
        return np.einsum("a,b,sabn->sn", stencil[i], stencil[j], table) / steps[:, None] ** (i + j)

    def agree(orders: tuple[tuple[int, int], ...]) -> tuple[bool, np.ndarray]:
        """Whether derivatives agree, each at some step; and fourth differences of the variance."""
        outputs = [kernel.derivative(left, right, 0, 0)]
        outputs += [_directional(kernel, x, xs, v, w, *order) for order in orders]
        inputs: Any = explicit_graph_inputs(outputs)
        free: dict[Variable, Variable] = {
            v: pt.ones([n or d for n in v.type.shape]) for v in inputs
        }
        drawn = pm.draw(clone_replace(outputs, free), random_seed=0, mode=MODE)
        (values, variances), *jets = drawn
        # Steps so small that round-off hides the variance's change say nothing.
        resolved = np.median(abs(variances[:, 1, 2] / variances[:, 1, 1] - 1.0), axis=1) > 1e-6
        agreed = []
        for (i, j), jet in zip(orders, jets, strict=True):
            near = abs(differences(values, i, j) - jet) <= 1e-2 * abs(jet).max()
            agreed.append((resolved & near.all(axis=1)).any())
        return all(agreed), differences(variances, 2, 2)

    with np.errstate(all="ignore"):
        once, fourth = agree(ORDERS[1])
        converges = (abs(np.diff(fourth, axis=0)) <= 0.2 * abs(fourth[1:])).all(axis=1).any()
        twice = once and converges and agree(ORDERS[2])[0]
    return int(once) + int(twice)


def _directional(
    kernel: Kernel, x: np.ndarray, xs: np.ndarray, v: np.ndarray, w: np.ndarray, i: int, j: int
) -> Tensor:
    """Derivatives (n,) of those orders along v (n, d) in x and along w in xs."""
    if isinstance(kernel, Automatic):

        def line(a: Tensor, b: Tensor, x: Tensor, xs: Tensor, v: Tensor, w: Tensor) -> Tensor:
            return kernel.covariance((x + a * v)[None], (xs + b * w)[None])[0, 0]

        still = np.zeros((len(x), 1))
        points = [pt.as_tensor_variable(p) for p in (still, still, x, xs, v, w)]
        return autodiff(line, points, (0,) * i + (1,) * j).reshape((len(x),))
    jet = kernel.derivative(x, xs, i, j)
    for direction in reversed([v] * i + [w] * j):
        jet = (jet * pt.expand_dims(direction, list(range(1, jet.ndim - 1)))).sum(-1)
    return jet


LEAVES = {
    cov.Periodic: lambda k: _stationary(k, _numbers(k.period)),
    cov.WrappedPeriodic: lambda k: _stationary(k.cov_func, _numbers(k.period)),
    cov.Linear: lambda k: LinearKernel(_numbers(k.c)),
    cov.Polynomial: lambda k: Power(Sum(LinearKernel(_numbers(k.c)), from_pymc(k.offset)), k.d),
    cov.Gibbs: _gibbs,
    cov.ScaledCov: _scaled,
    cov.WarpedInput: lambda k: Warped(
        from_pymc(k.cov_func), lambda X: k.w(X, k.args), k.cov_func.input_dim
    ),
    Additive: lambda k: ElementarySymmetric(tuple(map(from_pymc, k.parts)), k.variances, k.order),
    Centred: lambda k: ZeroMean(from_pymc(k.base), k.measure),
    Precomputed: lambda k: Labelled(k.matrix),
    cov.Coregion: lambda k: Automatic(k, "Coregion", 0),
}
COMBINATIONS = {
    cov.Add: lambda k: reduce(Sum, map(from_pymc, k._factor_list)),
    cov.Prod: lambda k: reduce(Product, map(from_pymc, k._factor_list)),
    cov.Exponentiated: lambda k: Power(from_pymc(k.kernel), k.power),
    cov.Constant: lambda k: from_pymc(k.c),
}
