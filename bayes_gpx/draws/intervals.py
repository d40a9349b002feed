"""Intervals: the probability they hold, the names of their bounds, and quantiles of mixtures."""

from __future__ import annotations

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_base.rcparams import defaultParams, rcParams
from scipy.special import ndtr, ndtri

from bayes_gpx.validation import probability

LEVEL = 0.9
"""Probability of intervals by default."""

BOUNDS = ["lower", "upper"]
"""Labels of the dim `ci_bound`, which ArviZ calls so."""

MOST_DRAWS, LEAST_DRAWS = 400, 50
"""Most hyperparameter draws in a mixture, evenly chosen, and the fewest if room is short."""

MOST_NUMBERS = 2**23
"""Means, and as many variances, that are kept in memory until all draws are there."""

BLOCK_NUMBERS = 2**20
"""Number of means, and of variances, for which quantiles are computed at once."""

STEPS, TOLERANCE = 60, 1e-10
"""At most so many Newton steps; they end when one is smaller than this share of the largest sd."""


def interval_probability(ci_prob: float | None, dataset: xr.Dataset | None = None) -> float:
    """Check the probability of an interval: the given one, else the dataset's own, else 90%."""
    # ArviZ's rcParams["stats.ci_prob"] takes the place of 90% once a user has changed it.
    own = rcParams["stats.ci_prob"]
    default = LEVEL if own == defaultParams["stats.ci_prob"][0] else own
    return probability(
        ci_prob, default if dataset is None else dataset.attrs.get("ci_prob", default)
    )


POSSIBLE = {"probability": (0.0, 1.0), "survival": (0.0, 1.0), "rate": (0.0, None)}
"""Bounds of quantities that a normal variable with their moments may leave."""


def interval_of(dataset: xr.Dataset, name: str, prob: float) -> xr.DataArray:
    """Equal-tailed interval: the dataset's own, from its draws, or from a normal variable."""
    # NaN for quantities without spread, such as relevance at one hyperparameter draw.
    if f"{name}_interval" in dataset and np.isclose(dataset.attrs.get("ci_prob", np.nan), prob):
        return dataset[f"{name}_interval"]
    if name in dataset and dataset[name].sizes["chain"] * dataset[name].sizes["draw"] > 1:
        return dataset[name].azstats.eti(prob=prob, dim=["chain", "draw"])
    ends = xr.DataArray([-1.0, 1.0], {"ci_bound": BOUNDS}, ["ci_bound"])
    found = dataset[f"{name}_mean"] + ends * float(ndtri((1 + prob) / 2)) * dataset[f"{name}_sd"]
    return found.clip(*POSSIBLE[name]) if name in POSSIBLE else found


def interval_of_sum(
    dataset: xr.Dataset, name: str, features: np.ndarray, prob: float
) -> xr.DataArray:
    """Equal-tailed interval of the sum over features at some positions, from its draws."""
    drawn = dataset[name].isel(feature=features).sum("feature")
    return drawn.azstats.eti(prob=prob, dim=["chain", "draw"])


def mixture_quantile(means: np.ndarray, sds: np.ndarray, probability: float) -> np.ndarray:
    """Quantile q (...) of equally weighed normals (draw, ...), where mean Phi((q - m) / s) = p."""
    # By Newton's method, held between the smallest and the largest of the normals' own quantiles.
    own = means + ndtri(probability) * sds
    low, high = own.min(axis=0), own.max(axis=0)
    if len(own) == 1:
        return low
    widest = sds.max(axis=0)
    inverse = 1.0 / np.maximum(sds, 1e-8 * np.where(widest > 0.0, widest, 1.0))
    spread = np.sqrt((sds**2).mean(axis=0) + means.var(axis=0))
    at = np.clip(means.mean(axis=0) + ndtri(probability) * spread, low, high)
    for _ in range(STEPS):
        z = (at - means) * inverse
        gap = ndtr(z).mean(axis=0) - probability
        low, high = np.where(gap < 0.0, at, low), np.where(gap < 0.0, high, at)
        density = (np.exp(-0.5 * z**2) * inverse).mean(axis=0) / np.sqrt(2.0 * np.pi)
        with np.errstate(over="ignore"):  # between two narrow normals: too long a step is not taken
            step = np.divide(gap, density, out=np.full_like(gap, np.inf), where=density > 0.0)
        there = at - step
        there = np.where((there > low) & (there < high), there, 0.5 * (low + high))
        moved, at = np.abs(there - at), there
        if (moved <= TOLERANCE * np.maximum(widest, high - low)).all():
            break
    return at
