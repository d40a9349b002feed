"""Intervals: the probability they hold, and the names of their bounds."""

from __future__ import annotations

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_base.rcparams import defaultParams, rcParams
from scipy.special import ndtri

from bayes_gpx.validation import probability

LEVEL = 0.9
"""Probability of intervals by default."""

BOUNDS = ["lower", "upper"]
"""Labels of the dim `ci_bound`, which ArviZ calls so."""


def interval_probability(ci_prob: float | None, dataset: xr.Dataset | None = None) -> float:
    """Check the probability of an interval: the given one, else the dataset's own, else 90%.

    ArviZ's ``rcParams["stats.ci_prob"]`` takes the place of 90% once a user has changed it.
    """
    own = rcParams["stats.ci_prob"]
    default = LEVEL if own == defaultParams["stats.ci_prob"][0] else own
    return probability(
        ci_prob, default if dataset is None else dataset.attrs.get("ci_prob", default)
    )


def interval_of(dataset: xr.Dataset, name: str, prob: float) -> xr.DataArray:
    """Equal-tailed interval: the dataset's own, from its draws, or from a normal variable.

    NaN for quantities without spread, such as relevance at one hyperparameter draw.
    """
    if f"{name}_interval" in dataset and np.isclose(dataset.attrs.get("ci_prob", np.nan), prob):
        return dataset[f"{name}_interval"]
    if name in dataset and dataset[name].sizes["chain"] * dataset[name].sizes["draw"] > 1:
        return dataset[name].azstats.eti(prob=prob, dim=["chain", "draw"])
    ends = xr.DataArray([-1.0, 1.0], {"ci_bound": BOUNDS}, ["ci_bound"])
    return dataset[f"{name}_mean"] + ends * float(ndtri((1 + prob) / 2)) * dataset[f"{name}_sd"]


def interval_of_sum(
    dataset: xr.Dataset, name: str, features: np.ndarray, prob: float
) -> xr.DataArray:
    """Equal-tailed interval of the sum over features at some positions, from its draws."""
    drawn = dataset[name].isel(feature=features).sum("feature")
    return drawn.azstats.eti(prob=prob, dim=["chain", "draw"])
