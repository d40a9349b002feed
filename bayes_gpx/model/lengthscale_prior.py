"""A prior for lengthscales from the data: between their spacing and their range."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
from scipy.optimize import brentq
from scipy.spatial import cKDTree
from scipy.stats import invgamma

from bayes_gpx.aliases import Dims, Table, Tensor
from bayes_gpx.data.features import read_features
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.scaling import no_scaling, standard_scaling

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame


LEAST_RATIO = 10.0
"""Least ratio of the bounds; nearer ones, as of a column of two values, are moved apart to it."""


def lengthscale_prior(X: Table, *, mass: float = 0.9, scale: bool = True) -> Any:
    """Build a lengthscale prior from the spacing and the range of the data.

    Use it if lengthscales are weakly identified. The data cannot distinguish lengthscales below
    their spacing from noise, or lengthscales above their range from a constant or a line. For each
    column an inverse gamma distribution has ``(1 - mass) / 2`` below the spacing and above the
    range. It has little mass near zero, and a heavy tail of long lengthscales for columns that do
    not matter.

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray or array (n, d)
        X as passed to the model.
    mass : float
        Probability between both bounds.
    scale : bool
        As in the model: X is standardized there.

    Returns
    -------
    callable
        For ``priors={"lengthscale": ...}`` of `GP` and `GPX`. Its attribute `bounds` (2, columns)
        contains the bounds of the mass, on the model's scale. For ``ard=False`` these are the
        smallest and the largest of all columns.

    Raises
    ------
    ValueError
        For an X that is invalid in a model, and an invalid `mass`.

    Notes
    -----
    The lower bound is the median difference of a row to its nearest neighbor in the column, among
    rows that differ. For a categorical column both bounds are around the distance of two levels.
    Bounds with a ratio below 10 are moved apart to this ratio, around their geometric mean. Both
    tails are matched exactly; ``pm.find_constrained_prior``, deprecated, matches only `mass`.

    References
    ----------
    Betancourt, "Robust Gaussian process modeling" (2020), section 3.
    """
    if not (isinstance(mass, Real) and 0 < mass < 1):
        raise ValueError(f"mass is {mass!r}. Pass a probability between 0 and 1.")
    frame = read_features(X, dates={})
    scaling = (standard_scaling if scale else no_scaling)(frame, "X", Moments.of(frame.values))
    constant = [c for c, v in zip(frame.columns, frame.values.T, strict=True) if np.ptp(v) == 0.0]
    if constant and not frame.levels:
        raise ValueError(f"X has constant columns {constant}, without a lengthscale. Drop them.")
    return _Prior(_bounds(frame, scaling.apply(frame.values)), mass)


@dataclass(frozen=True, eq=False)
class _Prior:
    """See `lengthscale_prior`."""

    bounds: np.ndarray  # (2, columns)
    mass: float

    def __call__(self, name: str, dims: Dims) -> Tensor:
        """Return the prior as a variable of the PyMC model at hand."""
        given = self.bounds
        if not dims:
            given = np.array([given[0].min(), given[1].max()])
        else:
            dim = dims if isinstance(dims, str) else dims[0]
            features = int(pm.modelcontext(None).dim_lengths[dim].eval())
            if features != given.shape[1]:
                raise ValueError(
                    f"lengthscale_prior was given {given.shape[1]} features, and the model has "
                    f"{features}: pass it the X of the model"
                )
        alpha, beta = np.vectorize(_inverse_gamma, otypes=[float, float])(*given, self.mass)
        return pm.InverseGamma(name, alpha=alpha, beta=beta, dims=dims)

    def of_columns(self, kept: np.ndarray) -> _Prior:
        """The prior of a model of some of the columns."""
        return _Prior(self.bounds[:, kept], self.mass)


def _bounds(frame: Frame, values: np.ndarray) -> np.ndarray:
    """Spacing and range of each of the user's columns, moved apart where they are too near."""
    rows = np.unique(values, axis=0)
    nearest = rows[cKDTree(rows).query(rows, k=2)[1][:, 1]]
    found = []
    for group, source in enumerate(frame.sources):
        own = frame.groups == group
        if source in frame.levels:
            high = np.ptp(values[:, own], axis=0).max() * np.sqrt(2.0)
            low = high
        else:
            ways = np.abs(rows[:, own] - nearest[:, own])
            gaps = np.diff(np.unique(values[:, own]))
            low = np.median(ways[ways > 0]) if (ways > 0).any() else np.median(gaps)
            high = np.ptp(values[:, own])
        middle, apart = np.sqrt(low * high), max(1.0, np.sqrt(LEAST_RATIO * low / high))
        found.append((min(low, middle) / apart, max(high, middle) * apart))
    return np.array(found).T


def _inverse_gamma(low: float, high: float, mass: float) -> tuple[float, float]:
    """Shape and scale such that as much lies below `low` as above `high`, and `mass` between."""
    below = (1.0 - mass) / 2.0

    def excess(log_alpha: float) -> float:
        law = invgamma(np.exp(log_alpha))
        return np.log(law.isf(below) / law.ppf(below)) - np.log(high / low)

    alpha = np.exp(brentq(excess, np.log(0.05), np.log(1e4)))
    return alpha, low / invgamma(alpha).ppf(below)
