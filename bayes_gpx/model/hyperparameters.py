"""A model's hyperparameters, and default priors of those that no kernel brings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from bayes_gpx.model.named_kernels import amplitude


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter of a model.

    Attributes
    ----------
    name : str
    kind : str
        Its name without the prefix of a kernel.
    dim : str or None
        "feature", "z_feature" or "factor" if it has a value for each of these.
    default : callable or float
        Its default prior, called like the priors in `bayes_gpx.model.named_kernels`, or its fixed
        value unless a prior is given.
    may_be_zero : bool
    each : str or None
        "output", "class" or "factor" if it has separate values for each of these.
    signed : bool
        It may be any real number.
    in_units_of_y : bool
        It is a standard deviation, or scale, of noise. Its default prior keeps it above the
        rounding error of the response.
    """

    name: str
    kind: str
    dim: str | None
    default: Any
    may_be_zero: bool = False
    each: str | None = None
    signed: bool = False
    in_units_of_y: bool = False

    @property
    def dims(self):
        """Dims of one draw."""
        return tuple(dim for dim in (self.each, self.dim) if dim is not None)

    @property
    def ndim(self):
        """Number of dimensions of one draw."""
        return len(self.dims)


def sigma_w(name, dims, d, p):
    """Deviations of rows from p weight functions, small relative to the amplitudes."""
    return pm.HalfNormal(name, sigma=0.5 / np.sqrt(p), dims=dims)


def relative_sigma_w(name, dims, d, p):
    """The same as a share of the amplitudes."""
    return pm.HalfNormal(name, sigma=0.5, dims=dims)


def loading(rank, growths, sd, name, dims, d, p):
    """Loadings on `rank` factors; the sum of the factors has standard deviation `sd`."""
    largest = max(growth(d) for growth in growths)
    return pm.Normal(name, sigma=sd / (largest * np.sqrt(rank)), dims=dims)


def amplitude_of(prefix, summand, dim):
    """The amplitude of a product of factors, smaller where its variance grows with d."""
    growths = [factor.kernel.growth for factor in summand]

    def default(name, dims, d, p):
        return amplitude(name, dims, d, p, max(growth(d) for growth in growths))

    kind = "amplitude" if max(growth(2) for growth in growths) == 1.0 else "growing amplitude"
    return Hyperparameter(f"{prefix}amplitude", kind, dim, default)


def of_noise(default, name, dims, d, p, **options):
    """The default prior of a likelihood's hyperparameter, called as others are."""
    return default.prior(name, **options, **({} if dims is None else {"dims": dims}))
