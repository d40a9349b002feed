"""Approximations of a Gaussian process: the argument `approximation` of models."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.profiles import SpectralProfile
from bayes_gpx.processes.basis_functions import NO_POWER, Basis, Sines, waves

LARGEST_BASIS = 5000
"""A model has at most so many basis functions or inducing points: their matrices take 200 MB."""


class Approximation(ABC):
    """Settings of an approximation, a frozen dataclass."""

    @abstractmethod
    def size(self, d: int) -> int:
        """Number of basis functions or inducing points for d columns."""

    def of_columns(self, kept: np.ndarray) -> Self:
        """The same along some of the columns, (d,) of booleans."""
        return self


class Expansion(Approximation):
    """An approximation by basis functions, with standard normal coefficients."""

    @abstractmethod
    def basis(self, profile: SpectralProfile, lengthscale: Tensor, X: Tensor, number: int) -> Basis:
        """Basis functions of a stationary kernel of X, the training rows (n, d)."""
        # `number` tells apart the stationary summands of one kernel, from 0 on. Sums, multiples,
        # linear kernels and constants need no functions of the approximation.


@dataclass(frozen=True)
class RandomFeatures(Expansion):
    """Approximate a stationary kernel by random Fourier features.

    Use it for many rows and a stationary kernel, and `HSGP` for few columns.

    Parameters
    ----------
    m : int
        Number of features for each stationary summand of the kernel, an even number.
    seed : int
        Seed of the frequencies, which are drawn once.

    Notes
    -----
    The error decreases with the root of m. The features do not decay away from the data, so
    variances there are too small if m is small.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines" (2007).
    """

    m: int
    seed: int = 0

    def __post_init__(self) -> None:
        _whole("m", self.m, least=2)
        _whole("seed", self.seed, least=0)
        if self.m % 2:
            raise ValueError(
                f"m is {self.m}. Pass an even number, because sines and cosines come in pairs."
            )

    def basis(  # noqa: D102
        self, profile: SpectralProfile, lengthscale: Tensor, X: Tensor, number: int
    ) -> Basis:
        rng, half = np.random.default_rng([self.seed, number]), self.m // 2
        normal = rng.standard_normal((X.type.shape[1], half))
        return waves(profile, lengthscale, normal, rng.uniform(size=half))

    def size(self, d: int) -> int:  # noqa: D102
        return self.m


@dataclass(frozen=True)
class HSGP(Expansion):
    """Approximate a kernel by Hilbert-space basis functions on a bounded domain.

    Use it for many rows and few columns: the number of basis functions is the product of `m` over
    columns. The domain is a box around the training rows, as in PyMC.

    Parameters
    ----------
    m : int or tuple of int
        Number of sines along each column of X; their products are the basis functions.
    c : float
        Half-widths of the box as multiples of the half-widths of the training rows.

    Notes
    -----
    Shorter lengthscales and a larger c need a larger m. Longer lengthscales need a larger c,
    because the sines vanish at the ends of the box: along a column with little effect, f has a
    quarter of its prior variance at the ends of the data for c = 1.5, and three quarters for c = 3.
    `fit` reports both. The approximation is not valid outside its box, and new rows there are
    refused.

    References
    ----------
    Solin and Sarkka, "Hilbert space methods for reduced-rank Gaussian process regression"
    (2020); Riutort-Mayol et al., "Practical Hilbert space approximate Bayesian Gaussian
    processes for probabilistic programming" (2023).
    """

    m: int | tuple[int, ...]
    c: float = 1.5

    def __post_init__(self) -> None:
        several = tuple(self.m) if isinstance(self.m, tuple | list) else None
        for m in (self.m,) if several is None else several:
            _whole("m", m, least=1)
        if several is not None:
            object.__setattr__(self, "m", several)
        if not (isinstance(self.c, int | float) and np.isfinite(self.c) and self.c > 1):
            raise ValueError(f"c is {self.c!r}. Pass a number above 1, such as 1.5.")

    def along(self, d: int) -> tuple[int, ...]:
        """Number of sines along each of d columns."""
        m = self.m if isinstance(self.m, tuple) else (self.m,) * d
        if len(m) != d:
            raise ValueError(f"HSGP has m for {len(m)} columns. Pass one for each of {d}.")
        return m

    def enlarged(self, times: int) -> Self:
        """With so many times the sines."""
        m = tuple(times * k for k in self.m) if isinstance(self.m, tuple) else times * self.m
        return replace(self, m=m)

    def of_columns(self, kept: np.ndarray) -> Self:  # noqa: D102
        m = np.array(self.along(len(kept)))[kept]
        return replace(self, m=tuple(m.tolist()))

    def basis(self, profile: SpectralProfile, lengthscale: Tensor, X: Tensor, number: int) -> Basis:
        """Sines that vanish at the box's ends, scaled by the roots of the spectral density."""
        low, high = X.min(axis=0), X.max(axis=0)
        center, reach = 0.5 * (high + low), 0.5 * self.c * (high - low)
        functions = Sines(self.along(X.type.shape[1]), center, reach, 1.0)
        density = profile.spectral_density(functions.rates(), lengthscale)
        return replace(functions, scales=pt.sqrt(pt.maximum(density, NO_POWER)))

    def size(self, d: int) -> int:  # noqa: D102
        return int(np.prod([float(m) for m in self.along(d)]))


@dataclass(frozen=True)
class Inducing(Approximation):
    """Approximate a process by its values at inducing points.

    The density is Titsias' bound on the marginal likelihood [1]_, with everything but these values
    integrated out.

    Parameters
    ----------
    m : int or array (m, d)
        Number of points, found by k-means; or the points themselves, in user units. In a GPX with
        its own Z, points have the columns of X followed by the columns of Z.
    seed : int
        Seed of k-means.

    Notes
    -----
    Few points are not calibrated: if points cannot follow the function, the bound prefers smooth
    functions and much noise. With 8 points for 30 rows of 2 features, 90% intervals of NUTS contain
    the lengthscale in 76% and sigma in 72% of 200 simulations, both estimated too large, and f in
    82%; intervals of a new y contain it in 94%. Increase the number of points until the results no
    longer change.

    A share of 1e-10 is added to the prior variance of the values at the points, for a stable
    factor. If the noise may be less than 1e-4 of the amplitude, use the exact model: with points at
    all rows the density and the sds differ from its own.

    References
    ----------
    .. [1] Titsias, "Variational learning of inducing variables in sparse Gaussian processes"
       (2009).
    """

    m: int | np.ndarray | tuple[tuple[float, ...], ...]
    seed: int = 0

    def __post_init__(self) -> None:
        _whole("seed", self.seed, least=0)
        if np.ndim(self.m) == 0:
            _whole("m", self.m, least=1)
            return
        points = np.asarray(self.m)
        if points.ndim != 2 or points.dtype.kind not in "iuf" or not np.isfinite(points).all():
            raise ValueError(
                f"Inducing points have shape {points.shape} and type {points.dtype}. Pass finite "
                "numbers (m, d); levels of categories as columns of 0 and 1, and dates as days."
            )
        object.__setattr__(self, "m", tuple(map(tuple, points.astype("float64").tolist())))

    def size(self, d: int) -> int:  # noqa: D102
        return len(self.m) if isinstance(self.m, tuple) else cast(int, self.m)


APPROXIMATIONS: dict[str, type[Approximation]] = {
    "hsgp": HSGP,
    "inducing": Inducing,
    "features": RandomFeatures,
}
"""Approximations by their names on the command line; `bx.load` builds only these."""


def refuse_large(approximation: Approximation, d: int) -> None:
    """Raise if the basis is larger than is sensible."""
    size = approximation.size(d)
    if size > LARGEST_BASIS:
        along = d > 1 and not isinstance(approximation, RandomFeatures)
        cure = "fewer along each column, or RandomFeatures" if along else "fewer"
        raise ValueError(
            f"{approximation} has {size} basis functions for {d} columns; at most {LARGEST_BASIS} "
            f"are allowed. Use {cure}."
        )


def _whole(name: str, value: Any, least: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} is {value!r}. Pass a whole number of at least {least}.")
