"""Kernels by name, with their hyperparameters and default priors."""

# To add a kernel, add a line to `KERNELS`. Priors are on the model's scale, weakly informative for
# standardized data; see `docs/priors.md`. They are called with the name and dims of the variable, d
# columns of X and p features with weights.

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pymc as pm
from pymc.gp import cov

from bayes_gpx.aliases import Dims, Tensor


def lengthscale(name: str, dims: Dims, d: int, p: int) -> Tensor:
    """Lengthscales about the distance of two rows at random, within a factor of seven."""
    return pm.LogNormal(name, mu=0.5 * np.log(d) + 0.5, sigma=1.0, dims=dims)


def amplitude(name: str, dims: Dims, d: int, p: int, growth: float = 1.0) -> Tensor:
    """Standard deviations of p weight functions, such that their sum is of the order of y."""
    # `growth` is the kernel's standard deviation at a standardized row, which may grow with d.
    return pm.HalfNormal(name, sigma=2.0 / (growth * np.sqrt(p)), dims=dims)


def _constant(d: int) -> float:
    return 1.0


@dataclass(frozen=True, eq=False)
class NamedKernel:
    """A kernel of variance 1, up to its growth with the number of columns."""

    covariance: Callable  # from d, and hyperparameters by keyword, to PyMC's
    # Default prior by name, or a fixed value unless a prior is given. Each column may have its own
    # `lengthscale`.
    hyperparameters: Mapping[str, Any] = MappingProxyType({})
    growth: Callable = _constant  # from d to the standard deviation at a standardized row
    may_be_zero: tuple[str, ...] = ()  # hyperparameters that need not be above 0


def _of_distance(kind: type[cov.Stationary]) -> NamedKernel:
    """A `NamedKernel` of a stationary covariance function that has lengthscales alone."""
    return NamedKernel(lambda d, lengthscale: kind(d, ls=lengthscale), {"lengthscale": lengthscale})


KERNELS = {
    "expquad": _of_distance(cov.ExpQuad),
    "matern52": _of_distance(cov.Matern52),
    "matern32": _of_distance(cov.Matern32),
    "ratquad": NamedKernel(
        lambda d, lengthscale, alpha: cov.RatQuad(d, ls=lengthscale, alpha=alpha),
        {
            "lengthscale": lengthscale,
            "alpha": lambda name, dims, d, p: pm.Gamma(name, alpha=2.0, beta=0.5, dims=dims),
        },
    ),
    "periodic": NamedKernel(
        lambda d, lengthscale, period: cov.Periodic(d, ls=lengthscale, period=period),
        {
            "lengthscale": lengthscale,
            "period": lambda name, dims, d, p: pm.LogNormal(name, mu=0.0, sigma=1.0, dims=dims),
        },
    ),
    "linear": NamedKernel(lambda d: cov.Linear(d, c=0.0), growth=np.sqrt),
    "polynomial": NamedKernel(
        lambda d, offset, degree: cov.Polynomial(d, c=0.0, d=degree, offset=offset),
        {
            "offset": lambda name, dims, d, p: pm.HalfNormal(name, sigma=1.0, dims=dims),
            "degree": 2.0,
        },
        growth=lambda d: 1.0 + d,
        may_be_zero=("offset",),
    ),
}
"""Every kernel by its name."""
