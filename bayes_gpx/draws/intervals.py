"""Intervals: the probability they hold, and the names of their bounds."""

from __future__ import annotations

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from scipy.special import ndtri

BOUNDS = ["lower", "upper"]
"""Labels of the dim `ci_bound`, which ArviZ calls so."""


def interval_of(dataset: xr.Dataset, name: str, prob: float) -> xr.DataArray:
    """Equal-tailed interval: the dataset's own, that of its draws, or of a normal variable.

    NaN of what has no spread, such as relevance at one draw of the hyperparameters.
    """
    if f"{name}_interval" in dataset and np.isclose(dataset.attrs.get("ci_prob", np.nan), prob):
        return dataset[f"{name}_interval"]
    if name in dataset and dataset[name].sizes["chain"] * dataset[name].sizes["draw"] > 1:
        return dataset[name].azstats.eti(prob=prob, dim=["chain", "draw"])
    ends = xr.DataArray([-1.0, 1.0], {"ci_bound": BOUNDS}, ["ci_bound"])
    return dataset[f"{name}_mean"] + ends * float(ndtri((1 + prob) / 2)) * dataset[f"{name}_sd"]
