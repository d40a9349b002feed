"""Profiles of stationary kernels: everything that depends on their shape, one class for each."""

# A profile rho(s) is a function of the scaled distance s, 1 at s = 0. To add a stationary kernel,
# write one class here and one line of `PROFILES`. Values and derivatives are required. Other
# methods make attributions fast (`side_nodes`, `step`, `long_bend`, `of_path`), or provide
# basis functions (`SpectralProfile`).

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import pytensor.tensor as pt
from pymc.gp import cov

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.quadrature import gauss_legendre
from bayes_gpx.numerics.special import gamma_quantile

APART_NODES = 24, 4
"""Gauss-Legendre nodes in each panel, and panels, for the distance between two points of one path.
Steps follow the kernel's decay (`RadialProfile.apart`), so long paths need no more nodes."""

EXPONENT = 41.5
"""Nodes end where a rational quadratic's slope has fallen to exp(-41.5), 1e-18: below round-off."""

NEAR, NEAR_TERMS = 0.05, [(-1) ** j / (2 * math.factorial(j) * (j + 2)) for j in range(9)]
"""Below, a closed form of `ExpQuad` loses digits; and the terms of its series."""

TINY = 1e-300
"""The least squared length that is divided by: a path of length 0 has attributions 0, not nan."""


class RadialProfile(ABC):
    """How a stationary kernel falls with the scaled distance s."""

    smoothness: float  # how often its process is mean-square differentiable: 0, 1, 2 or inf
    measured: bool = False  # whether that was found by differences, for a user's own kernel
    # Gauss-Legendre nodes on each side of a path's point nearest to another point, placed by
    # `step`. None if the shape is not known: the whole path is then integrated by panels.
    side_nodes: ClassVar[int | None] = None

    @classmethod
    def of(cls, cov_func: cov.Covariance) -> "RadialProfile":
        """The profile of one of PyMC's covariance functions."""
        return cls()

    @abstractmethod
    def radial(self, s2: Tensor, order: int) -> Tensor:
        """F_order at s^2, where F_0 = rho and F_{k+1} = -F_k'(s) / s; orders 0 to 4."""
        # F_{k+1} is minus the derivative of F_k with respect to s^2 / 2. If it is unbounded at s =
        # 0 (Matern32's F_2, Matern52's F_3 and F_4), a finite value is returned there, multiplied
        # by differences of 0.

    def step(self, room: Tensor, r: Tensor, least: Tensor, y: np.ndarray) -> tuple[Tensor, Tensor]:
        """Steps along a path from its point nearest to another one, and their rates in y."""
        # `room` (m, n) is the proportion of the path on this side, which y = 1 reaches unless the
        # kernel has decayed before. `r` (m, 1) is the length of the path, `least` (m, n) the
        # squared distance of the two points, and `y` (nodes, 1, 1) the nodes.
        raise NotImplementedError

    @property
    def tail(self) -> TensorLike:
        """The scaled distance beyond which the profile's tail begins, and steps may grow."""
        return 1.0

    def apart(self, r: Tensor) -> tuple[Tensor, Tensor, np.ndarray]:
        """Distances tau in [0, 1] of two points of a path of length r, their rates and weights."""
        # Short steps near 0, where the kernel falls, and long ones far off.
        y, w = gauss_legendre(*APART_NODES)
        top = pt.arcsinh(r / self.tail)
        return self.tail * pt.sinh(top * y) / r, self.tail * top * pt.cosh(top * y) / r, w

    def long_bend(self, r: Tensor) -> Tensor:
        """2 r^4 int (1 - t) t^2 F_2(r^2 t^2) dt over [0, 1], for long paths r (m, 1)."""
        tau, rate, w = self.apart(r)
        values = w * rate * (1.0 - tau) * pt.sqr(tau) * self.radial(pt.sqr(r * tau), 2)
        return 2.0 * r**4 * values.sum(axis=1, keepdims=True)

    def of_path(
        self, length: Tensor, start: Tensor, end: Tensor, from_start: Tensor, from_end: Tensor
    ) -> tuple | None:
        """Integrals of F_1, t F_1, t^2 F_1 and F_0 along paths of `length` (m, 1); None without."""
        # `start` and `end` (m, n) are the components, along the path, of the scaled differences of
        # both ends from other points; `from_start` (m | 1, n) and `from_end` (m, n) are the squared
        # distances of both ends from the other points.
        return None

    def of_ray(self, s2: Tensor, order: int) -> Tensor | None:
        """Integral of p^(2 order - 1) F_order(p^2 s2) over p in [0, 1], order 1 or 2; or None."""
        return None


class SpectralProfile(RadialProfile):
    """A profile with a known spectral density, hence with basis functions."""

    pymc: ClassVar[type[cov.Stationary]]  # PyMC's kernel with that density and the same parameters

    @abstractmethod
    def frequencies(self, normal: TensorLike, uniform: TensorLike) -> TensorLike:
        """Frequencies (d, h) for lengthscale 1, from standard normals (d, h) and uniforms (h,)."""

    def spectral_density(self, rates: Tensor, lengthscale: TensorLike) -> Tensor:
        """The density at angular frequencies (M, d), (M,)."""
        covariance = self.pymc(rates.type.shape[1], ls=lengthscale, **vars(self))
        return covariance.power_spectral_density(rates)


class DecayingProfile(SpectralProfile):
    """A profile that decays exponentially."""

    clip: ClassVar[float]  # scaled distance at which it is below round-off, the last node
    grading: ClassVar[int]  # nodes at y^grading integrate its kink at s = 0 exactly

    def step(  # noqa: D102
        self, room: Tensor, r: Tensor, least: Tensor, y: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        reach = pt.minimum(room, self.clip / r)
        return reach * y**self.grading, reach * (self.grading * y ** (self.grading - 1))


class MaternProfile(RadialProfile):
    """A polynomial of z = rate s, times exp(-z)."""

    rate: ClassVar[float]
    factors: ClassVar[tuple[Callable, ...]]  # of exp(-z) in F_k; finite at 0, with derivatives

    def radial(self, s2: Tensor, order: int) -> Tensor:  # noqa: D102
        positive = s2 > 0
        z = self.rate * pt.switch(positive, pt.sqrt(pt.switch(positive, s2, 1.0)), 0.0)
        return self.factors[order](z) * pt.exp(-z)


@dataclass(frozen=True)
class ExpQuad(DecayingProfile):
    """rho = exp(-s^2 / 2)."""

    pymc: ClassVar = cov.ExpQuad
    smoothness = math.inf
    side_nodes: ClassVar = 32
    clip: ClassVar = 8.6
    grading: ClassVar = 1

    def radial(self, s2: Tensor, order: int) -> Tensor:  # noqa: D102
        return pt.exp(-0.5 * s2)

    def long_bend(self, r: Tensor) -> Tensor:  # noqa: D102
        normal = r * np.sqrt(2.0 * np.pi) * pt.erf(r * np.sqrt(0.5))
        return normal + 4.0 * pt.expm1(-0.5 * pt.sqr(r))

    def of_ray(self, s2: Tensor, order: int) -> Tensor:  # noqa: D102
        # Not `TINY`: PyTensor puts all divisors into one product, which must not be 0.
        u = 0.5 * pt.maximum(s2, 1e-30)
        fall, far = pt.expm1(-u), pt.maximum(u, NEAR)
        if order == 1:
            return -0.5 * fall / u
        closed = -0.5 * (fall + far + far * fall) / pt.sqr(far)
        series, near = NEAR_TERMS[-1] * pt.ones_like(u), pt.minimum(u, NEAR)
        for term in NEAR_TERMS[-2::-1]:
            series = term + near * series
        return pt.switch(u < NEAR, series, closed)

    def of_path(
        self, length: Tensor, start: Tensor, end: Tensor, from_start: Tensor, from_end: Tensor
    ) -> tuple[Tensor, ...]:
        """Closed forms by erfcx; on paths of r lengthscales round-off is 1e-16 r^2 of them."""
        at_start, at_end = self.radial(from_start, 0), self.radial(from_end, 0)
        foot = pt.minimum(from_start, from_end) - pt.minimum(pt.sqr(start), pt.sqr(end))
        at_foot, half = self.radial(pt.maximum(foot, 0.0), 0), np.sqrt(0.5)
        before, after = pt.sign(start), pt.sign(end)
        # The parts of both ends do not overflow, and cancel where signs are the same.
        tails = before * at_start * pt.erfcx(half * pt.abs(start))
        tails -= after * at_end * pt.erfcx(half * pt.abs(end))
        level = np.sqrt(np.pi / 2.0) * ((after - before) * at_foot + tails) / length
        # By parts: the slope of t^k F is k t^(k-1) F - t^k (length start + length^2 t) F.
        first = (at_start - at_end) / pt.sqr(length) - start / length * level
        second = (level - at_end) / pt.sqr(length) - start / length * first
        return level, first, second, level  # F_0 = F_1

    def frequencies(self, normal: TensorLike, uniform: TensorLike) -> TensorLike:  # noqa: D102
        return normal


@dataclass(frozen=True)
class Matern52(MaternProfile, DecayingProfile):
    """rho = (1 + z + z^2 / 3) exp(-z), z = sqrt(5) s."""

    pymc: ClassVar = cov.Matern52
    smoothness = 2
    rate: ClassVar = 5**0.5
    side_nodes: ClassVar = 24
    clip: ClassVar = 18.5
    grading: ClassVar = 2
    factors: ClassVar = (
        lambda z: 1 + z + z**2 / 3,
        lambda z: 5 / 3 * (1 + z),
        lambda z: 25 / 3,
        lambda z: 125 / 3 * _inverse(z),
        lambda z: 625 / 3 * (1 + z) * _inverse(z) ** 3,
    )

    def long_bend(self, r: Tensor) -> Tensor:  # noqa: D102
        z = np.sqrt(5.0) * r
        return 4.0 / 3.0 * z - 4.0 + pt.exp(-z) * (4.0 + z * (8.0 + 2.0 * z) / 3.0)

    def frequencies(self, normal: TensorLike, uniform: TensorLike) -> TensorLike:  # noqa: D102
        return normal / pt.sqrt(gamma_quantile(pt.constant(2.5), uniform))


@dataclass(frozen=True)
class Matern32(MaternProfile, DecayingProfile):
    """rho = (1 + z) exp(-z), z = sqrt(3) s."""

    pymc: ClassVar = cov.Matern32
    smoothness = 1
    rate: ClassVar = 3**0.5
    side_nodes: ClassVar = 48
    clip: ClassVar = 24.0
    grading: ClassVar = 3
    factors: ClassVar = (lambda z: 1 + z, lambda z: 3, lambda z: 9 * _inverse(z))

    def long_bend(self, r: Tensor) -> Tensor:  # noqa: D102
        z = np.sqrt(3.0) * r
        return 2.0 * z - 4.0 + pt.exp(-z) * (4.0 + 2.0 * z)

    def frequencies(self, normal: TensorLike, uniform: TensorLike) -> TensorLike:  # noqa: D102
        return normal / pt.sqrt(gamma_quantile(pt.constant(1.5), uniform))


@dataclass(frozen=True)
class Matern12(MaternProfile):
    """rho = exp(-s); not differentiable."""

    smoothness = 0
    rate: ClassVar = 1.0
    factors: ClassVar = (lambda z: 1.0,)


@dataclass(frozen=True)
class Exponential(MaternProfile):
    """rho = exp(-s / 2), as PyMC has it; not differentiable."""

    smoothness = 0
    rate: ClassVar = 0.5
    factors: ClassVar = (lambda z: 1.0,)


@dataclass(frozen=True, eq=False)
class RatQuad(SpectralProfile):
    """rho = (1 + s^2 / (2 alpha))^-alpha."""

    alpha: TensorLike
    pymc: ClassVar = cov.RatQuad
    smoothness = math.inf
    side_nodes: ClassVar = 32

    @classmethod
    def of(cls, cov_func: cov.Covariance) -> "RatQuad":  # noqa: D102
        return cls(cov_func.alpha)

    def radial(self, s2: Tensor, order: int) -> Tensor:  # noqa: D102
        power = pt.exp(-(self.alpha + order) * pt.log1p(0.5 * s2 / self.alpha))
        return math.prod(1.0 + m / self.alpha for m in range(1, order)) * power

    def step(self, room: Tensor, r: Tensor, least: Tensor, y: np.ndarray) -> tuple[Tensor, Tensor]:
        """Steps kappa sinh(y) / r, for the algebraic tails."""
        clip = pt.sqrt(2.0 * self.alpha * pt.expm1(EXPONENT / (self.alpha + 1.0)))
        kappa = pt.sqrt(least + 2.0 * self.alpha)
        top = pt.arcsinh(pt.minimum(room * r, clip) / kappa)
        return kappa * pt.sinh(top * y) / r, kappa * top * pt.cosh(top * y) / r

    @property
    def tail(self) -> Tensor:  # noqa: D102
        return pt.sqrt(2.0 * self.alpha)

    def frequencies(self, normal: TensorLike, uniform: TensorLike) -> TensorLike:  # noqa: D102
        return normal * pt.sqrt(gamma_quantile(self.alpha, uniform))


@dataclass(frozen=True)
class Cosine(RadialProfile):
    """rho = cos(z), z = 2 pi s; positive definite on one column."""

    smoothness = math.inf

    def radial(self, s2: Tensor, order: int) -> Tensor:
        """(2 pi)^(2k) j_{k-1}(z) / z^(k-1), with spherical Bessel functions j."""
        w = 4.0 * np.pi**2 * s2
        near = w < 4.0  # there differences of sines and cosines cancel, so powers of w are summed
        powers: TensorLike = 1.0
        for i in range(12, 0, -1):
            powers = 1.0 - pt.switch(near, w, 0.0) / (2 * i * (2 * (i + order) - 1)) * powers
        z2 = pt.switch(near, 4.0, w)
        z = pt.sqrt(z2)
        below, value = -pt.cos(z) - z * pt.sin(z), pt.cos(z)  # of orders -1 and 0
        for k in range(order):
            below, value = value, ((2 * k - 1) * value - below) / z2
        first = 1.0 / math.prod(range(1, 2 * order, 2))
        return (2.0 * np.pi) ** (2 * order) * pt.switch(near, first * powers, value)


@dataclass(frozen=True, eq=False)
class AutomaticProfile(RadialProfile):
    """A user's own function of s^2, differentiated automatically."""

    value: Callable[[Tensor], Tensor]
    smoothness: float
    measured: bool = False

    def radial(self, s2: Tensor, order: int) -> Tensor:  # noqa: D102
        value = self.value(s2)
        for _ in range(order):
            slope = pt.grad(value.sum(), s2, disconnected_inputs="ignore")
            value = -2.0 * cast(Tensor, slope)
        return value


def _inverse(z: Tensor) -> Tensor:
    """1 / z, finite at 0 like its cube and the derivatives of both."""
    return 1 / (z + 1e-60)


PROFILES: dict[type[cov.Stationary], type[RadialProfile]] = {
    cov.ExpQuad: ExpQuad,
    cov.Periodic: ExpQuad,
    cov.Matern52: Matern52,
    cov.Matern32: Matern32,
    cov.RatQuad: RatQuad,
    cov.Matern12: Matern12,
    cov.Exponential: Exponential,
    cov.Cosine: Cosine,
}
"""The profile of each of PyMC's stationary kernels; Periodic is an ExpQuad of sines."""
