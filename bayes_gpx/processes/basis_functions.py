"""Basis functions of a kernel: k(x, x') is, or is near, phi(x)' phi(x')."""

# Values, derivatives and attributions of each function are in closed form. Functions are scaled
# such that their coefficients are standard normal a priori.

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count, product
from operator import add
from typing import Protocol

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.base import Kernel, name_of
from bayes_gpx.kernels.elementary import Constant, LinearKernel
from bayes_gpx.kernels.normal_form import Term, terms
from bayes_gpx.kernels.precomputed import BETWEEN_LABELS, Labelled
from bayes_gpx.kernels.profiles import PROFILES, SpectralProfile
from bayes_gpx.kernels.stationary import Stationary
from bayes_gpx.numerics.columns import among_all
from bayes_gpx.numerics.quadrature import Rule, gauss_legendre

NO_POWER = 1e-290
"""Least spectral density: the square root of one that underflowed to 0 has an infinite slope."""

MOVING_NODES = 16, 4
"""Gauss-Legendre nodes in each panel, and panels, of paths on which z moves with x: products of
basis functions with x have no closed form here."""

EXPANDED_COLUMNS = 4
"""Columns up to which products of d sines are written as d 2^(d - 1) cosines of sums, to integrate
them in closed form; from there on quadrature is cheaper."""

SPECTRAL = tuple(
    dict.fromkeys(p.__name__ for p in PROFILES.values() if issubclass(p, SpectralProfile))
)
"""Names of the kernels with a spectral density, for messages."""


class Expanding(Protocol):
    """An approximation by basis functions, such as `approximations.Expansion`."""

    def basis(
        self, profile: SpectralProfile, lengthscale: Tensor, X: Tensor, number: int
    ) -> "Basis":
        """Basis functions of a stationary kernel, the summand of this number."""


class NoBasis(ValueError):
    """A kernel has no basis functions here."""


class Basis(ABC):
    """M functions of points with d columns."""

    @abstractmethod
    def value(self, x: Tensor) -> Tensor:
        """Values at points x (m, d), (m, M)."""

    @abstractmethod
    def gradient(self, x: Tensor) -> Tensor:
        """Derivatives in each column, (m, d, M)."""

    @abstractmethod
    def hessian(self, x: Tensor) -> Tensor:
        """Second derivatives, (m, d, d, M)."""

    @abstractmethod
    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        """Integrated gradients (m, d, M) from a baseline (d,), or (m, d) one for each x, to x."""

    @abstractmethod
    def parted(self) -> "tuple[Basis, Tensor]":
        """The functions without their scales, and the scales (M,)."""
        # For some types, no hyperparameter is left in the functions then.

    def slope(self, x: Tensor, weights: Tensor) -> Tensor:
        """Gradient of the functions' sum with weights (m | 1, M), (m, d)."""
        return (self.gradient(x) * weights[:, None]).sum(axis=2)


@dataclass(frozen=True, eq=False)
class JoinedBasis(Basis):
    """The functions of several bases, one after the other."""

    parts: tuple[Basis, ...]

    def _each(self, name: str, *points: Tensor) -> Tensor:
        return pt.concatenate([getattr(part, name)(*points) for part in self.parts], axis=-1)

    def value(self, x: Tensor) -> Tensor:
        return self._each("value", x)

    def gradient(self, x: Tensor) -> Tensor:
        return self._each("gradient", x)

    def hessian(self, x: Tensor) -> Tensor:
        return self._each("hessian", x)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        return self._each("attribution", x, baseline)

    def slope(self, x: Tensor, weights: Tensor) -> Tensor:
        slopes, start = [], 0
        for part in self.parts:
            count = part.value(x[:1]).shape[1]
            slopes.append(part.slope(x, weights[:, start : start + count]))
            start = start + count
        return reduce(add, slopes)

    def parted(self) -> tuple[Basis, Tensor]:
        functions, scales = zip(*(part.parted() for part in self.parts), strict=True)
        return JoinedBasis(functions), pt.concatenate(scales)


@dataclass(frozen=True, eq=False)
class ScaledBasis(Basis):
    """A basis times the square root of a variance."""

    variance: TensorLike
    basis: Basis

    def value(self, x: Tensor) -> Tensor:
        return pt.sqrt(self.variance) * self.basis.value(x)

    def gradient(self, x: Tensor) -> Tensor:
        return pt.sqrt(self.variance) * self.basis.gradient(x)

    def hessian(self, x: Tensor) -> Tensor:
        return pt.sqrt(self.variance) * self.basis.hessian(x)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        return pt.sqrt(self.variance) * self.basis.attribution(x, baseline)

    def slope(self, x: Tensor, weights: Tensor) -> Tensor:
        return pt.sqrt(self.variance) * self.basis.slope(x, weights)

    def parted(self) -> tuple[Basis, Tensor]:
        functions, scales = self.basis.parted()
        return functions, pt.sqrt(self.variance) * scales


@dataclass(frozen=True, eq=False)
class OfColumns(Basis):
    """A basis of some columns of the points; derivatives in the others are 0."""

    basis: Basis
    columns: np.ndarray

    def value(self, x: Tensor) -> Tensor:
        return self.basis.value(x[:, self.columns])

    def gradient(self, x: Tensor) -> Tensor:
        part = self.basis.gradient(x[:, self.columns])
        return among_all(part, self.columns, x.shape[1], 1)

    def hessian(self, x: Tensor) -> Tensor:
        part = self.basis.hessian(x[:, self.columns])
        return among_all(part, self.columns, x.shape[1], 1, 2)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        part = self.basis.attribution(x[:, self.columns], baseline[..., self.columns])
        return among_all(part, self.columns, x.shape[1], 1)

    def slope(self, x: Tensor, weights: Tensor) -> Tensor:
        part = self.basis.slope(x[:, self.columns], weights)
        return among_all(part, self.columns, x.shape[1], 1)

    def parted(self) -> tuple[Basis, Tensor]:
        functions, scales = self.basis.parted()
        return OfColumns(functions, self.columns), scales


@dataclass(frozen=True, eq=False)
class Affine(Basis):
    """x_a - center_a for each of d columns a, times the square root of its weight."""

    center: TensorLike
    weights: TensorLike
    d: int

    def _roots(self, x: Tensor) -> Tensor:
        return pt.eye(x.type.shape[1]) * pt.sqrt(self.weights)

    def value(self, x: Tensor) -> Tensor:
        return pt.sqrt(self.weights) * (x - self.center)

    def gradient(self, x: Tensor) -> Tensor:
        return pt.ones((x.shape[0], 1, 1)) * self._roots(x)

    def hessian(self, x: Tensor) -> Tensor:
        d = x.type.shape[1]
        return pt.zeros((x.shape[0], d, d, d))

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        return (x - baseline)[:, :, None] * self._roots(x)

    def parted(self) -> tuple[Basis, Tensor]:
        return Affine(self.center, 1.0, self.d), pt.sqrt(self.weights) * pt.ones(self.d)


@dataclass(frozen=True, eq=False)
class Members(Basis):
    """Weighted sums x root of rows of a root of a precomputed covariance, one for each label."""

    root: np.ndarray  # (N, N)

    def value(self, x: Tensor) -> Tensor:
        return pt.dot(x, self.root)

    def gradient(self, x: Tensor) -> Tensor:
        raise ValueError(BETWEEN_LABELS)

    def hessian(self, x: Tensor) -> Tensor:
        raise ValueError(BETWEEN_LABELS)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        raise ValueError(BETWEEN_LABELS)

    def parted(self) -> tuple[Basis, Tensor]:
        return self, pt.ones(len(self.root))


@dataclass(frozen=True, eq=False)
class One(Basis):
    """The constant 1."""

    def value(self, x: Tensor) -> Tensor:
        return pt.ones((x.shape[0], 1))

    def gradient(self, x: Tensor) -> Tensor:
        return pt.zeros((*tuple(x.shape), 1))

    def hessian(self, x: Tensor) -> Tensor:
        return pt.zeros((*tuple(x.shape), x.shape[1], 1))

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        return self.gradient(x)

    def parted(self) -> tuple[Basis, Tensor]:
        return self, pt.ones(1)


@dataclass(frozen=True, eq=False)
class Waves(Basis):
    """Sines, then cosines, of the same h frequencies (d, h), divided by the square root of h."""

    # Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024), equation 33
    # with its sines and cosines in the right order.

    frequencies: Tensor

    def _both(self, sines: Tensor, cosines: Tensor) -> Tensor:
        return pt.concatenate([sines, cosines], axis=-1) / np.sqrt(self.frequencies.type.shape[1])

    def value(self, x: Tensor) -> Tensor:
        phase = pt.dot(x, self.frequencies)
        return self._both(pt.sin(phase), pt.cos(phase))

    def gradient(self, x: Tensor) -> Tensor:
        phase = pt.dot(x, self.frequencies)[:, None]
        return self._both(self.frequencies * pt.cos(phase), -self.frequencies * pt.sin(phase))

    def hessian(self, x: Tensor) -> Tensor:
        phase = pt.dot(x, self.frequencies)[:, None, None]
        squares = -self.frequencies[:, None] * self.frequencies[None]
        return self._both(squares * pt.sin(phase), squares * pt.cos(phase))

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        delta = x - baseline
        middle = pt.dot(baseline + 0.5 * delta, self.frequencies)[:, None]
        share = sinc(0.5 * pt.dot(delta, self.frequencies))[:, None]
        slope = delta[:, :, None] * self.frequencies * share
        return self._both(slope * pt.cos(middle), -slope * pt.sin(middle))

    def slope(self, x: Tensor, weights: Tensor) -> Tensor:
        phase, h = pt.dot(x, self.frequencies), self.frequencies.type.shape[1]
        swings = weights[:, :h] * pt.cos(phase) - weights[:, h:] * pt.sin(phase)
        return pt.dot(swings, self.frequencies.T) / np.sqrt(h)

    def parted(self) -> tuple[Basis, Tensor]:
        return self, pt.ones(2 * self.frequencies.type.shape[1])


@dataclass(frozen=True, eq=False)
class Sines(Basis):
    """Products over columns of sin(rate (x - center + reach)) / sqrt(reach), each with a scale."""

    # All combinations of the sines along each column, M in all, the last column's running fastest.

    along: tuple[int, ...]  # number of sines along each column
    center: Tensor  # (d,): the middle of the box
    reach: Tensor  # (d,): its half-widths
    scales: TensorLike

    def rates(self) -> Tensor:
        """Angular frequencies of all functions, (M, d)."""
        d = len(self.along)
        each = [self._on_grid(self._of_column(a)[None], a)[0] for a in range(d)]
        return pt.specify_shape(pt.stack(each, axis=1), (int(np.prod(self.along)), d))

    def _of_column(self, a: int) -> Tensor:
        """Angular frequencies of the sines along a column."""
        return 0.5 * np.pi * np.arange(1, self.along[a] + 1) / self.reach[a]

    def _phase(self, x: Tensor, a: int) -> Tensor:
        """Phases of the sines along a column, (m, along[a])."""
        return (x[:, a] - self.center[a] + self.reach[a])[:, None] * self._of_column(a)

    def _times(self, factors: Sequence[Tensor]) -> Tensor:
        """Scaled products (m, M) of one factor (m, along[a]) for each column."""

        def outer(left: Tensor, right: Tensor) -> Tensor:
            return (left[:, :, None] * right[:, None, :]).reshape((left.shape[0], -1))

        return self.scales / pt.sqrt(pt.prod(self.reach)) * reduce(outer, factors)

    def _on_grid(self, values: Tensor, a: int) -> Tensor:
        """What belongs to the sines along a column (m, along[a]), for each function (m, M)."""
        before, after = (int(np.prod(n)) for n in (self.along[:a], self.along[a + 1 :]))
        spread = values[:, None, :, None] * pt.ones((1, before, 1, after))
        return spread.reshape((values.shape[0], -1))

    def _with(self, x: Tensor, orders: Sequence[int] | np.ndarray) -> Tensor:
        """Products of the derivatives of each column's sine, of orders 0, 1 or 2."""
        forms = (
            lambda phase, rate: pt.sin(phase),
            lambda phase, rate: rate * pt.cos(phase),
            lambda phase, rate: -pt.sqr(rate) * pt.sin(phase),
        )
        return self._times(
            [forms[order](self._phase(x, a), self._of_column(a)) for a, order in enumerate(orders)]
        )

    def value(self, x: Tensor) -> Tensor:
        return self._with(x, [0] * len(self.along))

    def gradient(self, x: Tensor) -> Tensor:
        unit = np.eye(len(self.along), dtype=int)
        return pt.stack([self._with(x, orders) for orders in unit], axis=1)

    def hessian(self, x: Tensor) -> Tensor:
        unit = np.eye(len(self.along), dtype=int)
        rows = [pt.stack([self._with(x, a + b) for b in unit], axis=1) for a in unit]
        return pt.stack(rows, axis=1)

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        d, delta, middle = len(self.along), x - baseline, 0.5 * (x + baseline)
        if d > EXPANDED_COLUMNS:
            # A path within the box turns the fastest product by less than pi times the sum of
            # `along`: from 3/8 of this on, 20 nodes more leave less than round-off.
            count = int(np.ceil(0.375 * np.pi * sum(self.along))) + 20
            return along_path(self.gradient, x, baseline, gauss_legendre(count, 1))
        sweeps = [delta[:, a, None] * self._of_column(a) for a in range(d)]
        halves = [self._on_grid(0.5 * sweep, a) for a, sweep in enumerate(sweeps)]
        phases = [self._on_grid(self._phase(middle, a), a) for a in range(d)]
        shares = []
        for a in range(d):
            terms = []
            for others in product((1.0, -1.0), repeat=d - 1):
                signs = np.insert(others, a, 1.0)
                turned = [p if b == a else p - 0.5 * np.pi for b, p in enumerate(phases)]
                terms.append(_signed(pt.cos, turned, signs) * _signed(sinc, halves, signs))
            total = pt.stack(terms).sum(axis=0) * 2.0 ** (1 - d)
            scales = self.scales / pt.sqrt(pt.prod(self.reach))
            shares.append(scales * self._on_grid(sweeps[a], a) * total)
        return pt.stack(shares, axis=1)

    def parted(self) -> tuple[Basis, Tensor]:
        size = int(np.prod(self.along))
        return replace(self, scales=1.0), self.scales * pt.ones(size)


@dataclass(frozen=True, eq=False)
class TimesFeatures(Basis):
    """M functions times p features z_l(x): the columns of x, and 1 if p = d + 1; feature-major."""

    basis: Basis
    p: int

    def _features(self, x: Tensor) -> Tensor:
        missing = self.p - x.type.shape[1]
        return pt.concatenate([x, pt.ones((x.shape[0], missing))], axis=1) if missing else x

    def value(self, x: Tensor) -> Tensor:
        each = self._features(x)[:, :, None] * self.basis.value(x)[:, None]
        return each.reshape((x.shape[0], -1))

    def gradient(self, x: Tensor) -> Tensor:
        step = pt.eye(x.type.shape[1], self.p)
        held = self._features(x)[:, None, :, None] * self.basis.gradient(x)[:, :, None]
        each = held + step[None, :, :, None] * self.basis.value(x)[:, None, None]
        return each.reshape((x.shape[0], x.shape[1], -1))

    def hessian(self, x: Tensor) -> Tensor:
        step, slope = pt.eye(x.type.shape[1], self.p), self.basis.gradient(x)
        mixed = step[None, :, None, :, None] * slope[:, None, :, None]
        held = self._features(x)[:, None, None, :, None] * self.basis.hessian(x)[:, :, :, None]
        each = held + mixed + mixed.transpose(0, 2, 1, 3, 4)
        return each.reshape((x.shape[0], x.shape[1], x.shape[1], -1))

    def attribution(self, x: Tensor, baseline: Tensor) -> Tensor:
        return along_path(self.gradient, x, baseline, gauss_legendre(*MOVING_NODES))

    def parted(self) -> tuple[Basis, Tensor]:
        functions, scales = self.basis.parted()
        return TimesFeatures(functions, self.p), pt.tile(scales, self.p)


def is_constant(basis: Basis) -> bool:
    """Whether the functions of a basis do not vary."""
    while isinstance(basis, ScaledBasis | OfColumns):
        basis = basis.basis
    return isinstance(basis, One)


def along_path(
    slopes: Callable[[Tensor], Tensor], x: Tensor, baseline: Tensor, nodes: Rule
) -> Tensor:
    """Integrated gradients (m, d, M) by a quadrature of `slopes`, a function of points."""
    (m, d), delta = (x.shape[0], x.type.shape[1]), x - baseline
    points = baseline + nodes.t[:, None, None] * delta
    found = slopes(points.reshape((-1, d))).reshape((len(nodes.t), m, d, -1))
    return delta[:, :, None] * pt.tensordot(nodes.w, found, axes=1)


def _signed(
    function: Callable[[Tensor], Tensor], parts: Sequence[Tensor], signs: np.ndarray
) -> Tensor:
    return function(sum(sign * part for sign, part in zip(signs, parts, strict=True)))


def sinc(z: Tensor) -> Tensor:
    """sin(z) / z, 1 at 0."""
    zero = pt.eq(z, 0.0)
    return pt.switch(zero, 1.0, pt.sin(z) / pt.switch(zero, 1.0, z))


def basis_of(kernel: Kernel, approximation: Expanding, X: Tensor) -> Basis:
    """Basis functions with products that approximate a kernel."""
    # Supported: sums and multiples of stationary kernels with a spectral density, of linear kernels
    # (exactly) and constants, of some columns or all; NoBasis otherwise. The box of HSGP is around
    # X (n, d).
    numbers, d = count(), X.type.shape[1]
    parts = [_of_term(term, approximation, X, numbers) for term in terms(kernel, d)]
    return parts[0] if len(parts) == 1 else JoinedBasis(tuple(parts))


def _of_term(term: Term, approximation: Expanding, X: Tensor, numbers: Iterator[int]) -> Basis:
    """Basis functions of one term; `numbers` tells apart the frequencies of stationary ones."""
    kernel = term.kernel
    profile = kernel.profile if isinstance(kernel, Stationary) and term.stationary else None
    basis: Basis
    if isinstance(kernel, Constant):
        basis = ScaledBasis(kernel.variance, One())
    elif isinstance(kernel, LinearKernel):
        d = term.of(X).type.shape[1]
        basis = Affine(kernel.center, pt.as_tensor(kernel.weights), d)
    elif isinstance(kernel, Labelled):
        basis = Members(kernel.root)
    elif isinstance(kernel, Stationary) and isinstance(profile, SpectralProfile):
        basis = approximation.basis(profile, kernel.lengthscale, term.of(X), next(numbers))
    elif (functions := getattr(approximation, "functions", None)) is not None:
        basis = functions(kernel, term.of(X).type.shape[1])
    else:
        raise NoBasis(
            f"{name_of(kernel)} has no basis functions here. {type(approximation).__name__} takes "
            f"sums and multiples of {', '.join(SPECTRAL)}, Linear and Constant; use "
            "approximation=None or bx.Inducing for other kernels."
        )
    basis = basis if term.columns is None else OfColumns(basis, term.columns)
    return basis if term.variance is None else ScaledBasis(term.variance, basis)


def waves(
    profile: SpectralProfile, lengthscale: Tensor, normal: TensorLike, uniform: TensorLike
) -> Waves:
    """Waves of a spectral density, a scale mixture of normals: (d, h) normals, (h,) uniforms."""
    frequencies = profile.frequencies(normal, uniform)
    scale = pt.atleast_1d(1.0 / lengthscale)[:, None]
    return Waves(pt.specify_shape(frequencies * scale, pt.as_tensor(normal).type.shape))
