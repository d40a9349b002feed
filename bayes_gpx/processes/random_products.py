"""Random functions of kernels without a basis: periodic ones, products, powers, additive kernels.

A random function of a product of kernels is a product of independent random functions of them. The
sum of many of these, each times a standard normal coefficient, has the product as its covariance,
averaged over what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.additive import ElementarySymmetric, over_subsets, slopes_over_subsets
from bayes_gpx.kernels.base import Kernel, name_of
from bayes_gpx.kernels.centred import ZeroMean
from bayes_gpx.kernels.composite import Active, Power, Product, Sum
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.profiles import ExpQuad, SpectralProfile
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.columns import among_all
from bayes_gpx.numerics.quadrature import gauss_legendre
from bayes_gpx.numerics.special import ndtr
from bayes_gpx.processes.basis_functions import MOVING_NODES, Basis, NoBasis

HARMONICS = 200
"""Most harmonics of a periodic kernel: all that matter for lengthscales from 0.01."""

HIGHEST_POWER = 8
"""Highest whole power of a kernel that has random functions."""


@dataclass(frozen=True, eq=False)
class Jet:
    """Values (m, h) of h functions, with derivatives (m, d, h) and (m, d, d, h)."""

    value: Tensor
    first: Tensor
    second: Tensor

    def __mul__(self, other: Jet) -> Jet:
        a, b, left, right = self.value, other.value, self.first, other.first
        mixed = left[:, :, None] * right[:, None]
        second = self.second * b[:, None, None] + a[:, None, None] * other.second
        first = left * b[:, None] + a[:, None] * right
        return Jet(a * b, first, second + mixed + mixed.transpose(0, 2, 1, 3))

    def __add__(self, other: Jet) -> Jet:
        pairs = zip(self.parts, other.parts, strict=True)
        return Jet(*(one + another for one, another in pairs))

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Value and derivatives."""
        return self.value, self.first, self.second

    def times(self, factor: TensorLike) -> Jet:
        """Each function times a number, or a factor (h,)."""
        return Jet(*(factor * part for part in self.parts))


type Functions = Callable[[Tensor], Jet]
"""h random functions, from points (m, d)."""

type Normals = Callable[[int], Tensor]
"""From d to standard normals (d, h), new ones each time."""


@dataclass(frozen=True, eq=False)
class RandomFunctions(Basis):
    """h random functions of a kernel, divided by the square root of h."""

    functions: Functions
    h: int

    def value(self, x: Tensor) -> Tensor:
        return self.functions(x).value / np.sqrt(self.h)

    def gradient(self, x: Tensor) -> Tensor:
        return self.functions(x).first / np.sqrt(self.h)

    def hessian(self, x: Tensor) -> Tensor:
        return self.functions(x).second / np.sqrt(self.h)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        rule, delta = gauss_legendre(*MOVING_NODES), x - baseline
        t, w = (v.reshape((MOVING_NODES[1], -1, 1, 1)) for v in (rule.t, rule.w))
        total: Any = 0.0
        for nodes, weights in zip(t, w, strict=True):  # all nodes of a panel at once
            points = pt.specify_shape(baseline + nodes * delta, (len(nodes), None, None))
            slopes = self.gradient(points.reshape((-1, x.type.shape[1])))
            each = slopes.reshape((len(nodes), x.shape[0], x.shape[1], self.h))
            total = total + (weights[..., None] * each).sum(axis=0)
        return delta[:, :, None] * total

    def parted(self) -> tuple[Basis, Tensor]:
        return self, pt.ones(self.h)


def random_functions(kernel: Kernel, normals: Normals, d: int) -> Functions:
    """Random functions f of a kernel of points with d columns, with E f(x) f(x') = k(x, x')."""
    again = random_functions
    if isinstance(kernel, Constant):
        return _line(pt.zeros((d, 1)) * normals(1), pt.sqrt(kernel.variance) * _signs(normals))
    if isinstance(kernel, LinearKernel):
        slopes = pt.sqrt(pt.atleast_1d(pt.as_tensor(kernel.weights)))[:, None] * normals(d)
        center = pt.atleast_1d(pt.as_tensor(kernel.center))[:, None]
        return _line(slopes, -(center * slopes).sum(axis=0))
    if isinstance(kernel, Stationary):
        return _wave(_frequencies(kernel, normals, d), 2.0 * np.pi * ndtr(normals(1)[0]))
    if isinstance(kernel, Sum):
        both = again(kernel.left, normals, d), again(kernel.right, normals, d)
        sign = _signs(normals)  # the sum's cross terms then have a mean of 0
        return lambda x: both[0](x).times(sign) + both[1](x)
    if isinstance(kernel, Product):
        two = again(kernel.left, normals, d), again(kernel.right, normals, d)
        return lambda x: two[0](x) * two[1](x)
    if isinstance(kernel, Power):
        each = [again(kernel.kernel, normals, d) for _ in range(HIGHEST_POWER)]
        return lambda x: _power([one(x) for one in each], kernel.exponent)
    if isinstance(kernel, Active):
        inner, own = again(kernel.kernel, normals, len(kernel.columns)), kernel.columns
        return lambda x: _among(inner(x[:, own]), own, d)
    if isinstance(kernel, ElementarySymmetric):
        columns = [again(part, normals, 1) for part in kernel.parts]
        return lambda x: _symmetric([f(x[:, [i]]) for i, f in enumerate(columns)], kernel)
    if isinstance(kernel, ZeroMean):
        free = again(kernel.kernel, normals, 1)
        return lambda x: _centred(free, kernel, x)
    raise NoBasis(f"{name_of(kernel)} has no random functions.")


def _signs(normals: Normals) -> Tensor:
    return pt.switch(pt.gt(normals(1)[0], 0.0), 1.0, -1.0)


def _line(slopes: Tensor, offset: Tensor) -> Functions:
    """Lines with such slopes (d, h) and values (h,) at 0."""

    def at(x: Tensor) -> Jet:
        value = pt.dot(x, slopes) + offset
        first = slopes[None] + pt.zeros_like(value)[:, None]
        return Jet(value, first, pt.zeros_like(first)[:, :, None] * first[:, None])

    return at


def _wave(frequencies: Tensor, phases: Tensor) -> Functions:
    """Cosines of variance 1, with frequencies (d, h) and phases (h,)."""
    pairs = frequencies[:, None] * frequencies[None]

    def at(x: Tensor) -> Jet:
        phase = pt.dot(x, frequencies) + phases
        cosine, sine = np.sqrt(2.0) * pt.cos(phase), np.sqrt(2.0) * pt.sin(phase)
        return Jet(cosine, -frequencies * sine[:, None], -pairs * cosine[:, None, None])

    return at


def _frequencies(kernel: Stationary, normals: Normals, d: int) -> Tensor:
    """Frequencies (d, h) from the spectral density, or of the harmonics of a period."""
    normal, profile = normals(d), kernel.profile
    scale = pt.atleast_1d(kernel.lengthscale)[:, None]
    if kernel.period is None and isinstance(profile, SpectralProfile):
        uniform = ndtr(normals(1)[0])
        return cast(Tensor, profile.frequencies(normal, uniform)) / scale
    if kernel.period is None or not isinstance(profile, ExpQuad):
        raise NoBasis(f"{name_of(kernel)} has no random functions.")
    # exp(-sin^2(z / 2) / (2 l^2)) is a sum of cosines of k z. Their weights are exp(-a) I_k(a),
    # with modified Bessel functions of a = 1 / (4 l^2), and twice that for k > 0, for both signs.
    k = np.arange(HARMONICS + 1)[:, None, None]
    weights = pt.ive(k, 0.25 / pt.sqr(scale)) * np.where(k > 0, 2.0, 1.0)
    number = pt.gt(2.0 * ndtr(pt.abs(normal)) - 1.0, weights.cumsum(axis=0)).sum(axis=0)
    period = pt.atleast_1d(pt.as_tensor(kernel.period))[:, None]
    return pt.sign(normal) * number * (2.0 * np.pi / period)


def _power(each: list[Jet], exponent: TensorLike) -> Jet:
    """Product of as many functions as the exponent says; NaN unless that is a whole number."""
    one = Jet(*(pt.full_like(v, float(i == 0)) for i, v in enumerate(each[0].parts)))
    chosen = []
    for i, jet in enumerate(each):
        pairs = zip(jet.parts, one.parts, strict=True)
        chosen.append(Jet(*(pt.switch(pt.lt(i, exponent), *both) for both in pairs)))
    power = pt.cast(exponent, "float64")
    known = pt.eq(pt.round(power), power) & pt.le(power, HIGHEST_POWER)
    return reduce(mul, chosen).times(pt.switch(known, 1.0, np.nan))


def _among(jet: Jet, columns: np.ndarray, d: int) -> Jet:
    """Derivatives in all d columns, of functions of some."""
    first, second = among_all(jet.first, columns, d, 1), among_all(jet.second, columns, d, 1, 2)
    return Jet(jet.value, first, second)


def _symmetric(each: list[Jet], kernel: ElementarySymmetric) -> Jet:
    """Sums of products of functions of single columns, which have means of 0."""
    values = [jet.value for jet in each]
    roots, order = pt.sqrt(kernel.variances), kernel.order
    slopes = pt.concatenate([jet.first for jet in each], axis=1)
    bends = pt.concatenate([jet.second[:, 0] for jet in each], axis=1)
    rate = cast(Tensor, slopes_over_subsets(values, roots, order, 1)).transpose(0, 2, 1)
    second = pt.eye(len(each))[None, :, :, None] * (bends * rate)[:, :, None]
    pairs = slopes_over_subsets(values, roots, order, 2) if len(each) > 1 else None
    if pairs is not None:
        second += pairs.transpose(0, 2, 3, 1) * slopes[:, :, None] * slopes[:, None]
    return Jet(over_subsets(values, roots, order), slopes * rate, second)


def _centred(free: Functions, kernel: ZeroMean, x: Tensor) -> Jet:
    """Functions less what their mean under the measure says about them."""
    points, weights = pt.constant(kernel.measure.points[:, None]), kernel.measure.weights
    total = pt.dot(weights, pt.dot(kernel.kernel.gram(points), weights))
    mean = pt.dot(weights, free(points).value) / total
    own = []
    for order in range(3):
        jet = kernel.kernel.derivative(x[:, None], points[None], order, 0)
        own.append(pt.dot(jet.reshape((x.shape[0], points.shape[0])), weights)[:, None] * mean)
    found = Jet(own[0], own[1][:, None], own[2][:, None, None])
    return free(x) + found.times(-1.0)
