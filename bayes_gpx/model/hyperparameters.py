"""A model's hyperparameters, and default priors of those that no kernel brings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from bayes_gpx.aliases import Dims, Tensor
from bayes_gpx.likelihoods.base import DefaultPrior
from bayes_gpx.model.named_kernels import amplitude


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter of a model."""

    name: str
    kind: str  # its name without the prefix of a kernel
    dim: str | None  # "feature", "z_feature" or "factor" if it has a value for each of these
    # Its default prior, called like the priors in `bayes_gpx.model.named_kernels`, or its fixed
    # value unless a prior is given.
    default: Any
    may_be_zero: bool = False
    # "output", "class" or "factor" if it has separate values for each of these
    each: str | None = None
    signed: bool = False  # it may be any real number
    # It is a standard deviation, or scale, of noise. Its default prior keeps it above the rounding
    # error of the response.
    in_units_of_y: bool = False

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of one draw."""
        return tuple(dim for dim in (self.each, self.dim) if dim is not None)

    @property
    def ndim(self) -> int:
        """Number of dimensions of one draw."""
        return len(self.dims)


def sigma_w(name: str, dims: Dims, d: int, p: int) -> Tensor:
    """Deviations of rows from p weight functions, small relative to the amplitudes."""
    return pm.HalfNormal(name, sigma=0.5 / np.sqrt(p), dims=dims)


def relative_sigma_w(name: str, dims: Dims, d: int, p: int) -> Tensor:
    """The same as a share of the amplitudes."""
    return pm.HalfNormal(name, sigma=0.5, dims=dims)


def loading(
    rank: int,
    growths: Sequence[Callable[[int], float]],
    sd: float,
    name: str,
    dims: Dims,
    d: int,
    p: int,
) -> Tensor:
    """Loadings on `rank` factors; the sum of the factors has standard deviation `sd`."""
    largest = max(growth(d) for growth in growths)
    return pm.Normal(name, sigma=sd / (largest * np.sqrt(rank)), dims=dims)


def amplitude_of(prefix: str, summand: Sequence[Any], dim: str | None) -> Hyperparameter:
    """The amplitude of a product of factors, smaller where its variance grows with d."""
    growths = [factor.kernel.growth for factor in summand]

    def default(name: str, dims: Dims, d: int, p: int) -> Tensor:
        return amplitude(name, dims, d, p, max(growth(d) for growth in growths))

    kind = "amplitude" if max(growth(2) for growth in growths) == 1.0 else "growing amplitude"
    return Hyperparameter(f"{prefix}amplitude", kind, dim, default)


def of_noise(
    default: DefaultPrior, name: str, dims: Dims, d: int, p: int, **options: Any
) -> Tensor:
    """The default prior of a likelihood's hyperparameter, called as others are."""
    return default.prior(name, **options, **({} if dims is None else {"dims": dims}))
