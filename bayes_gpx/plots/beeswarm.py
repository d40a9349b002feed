"""A beeswarm of the attributions or contributions of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.visuals import vline
from matplotlib.colors import Normalize

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import Bar, Scale, draw
from bayes_gpx.plots.selection import MOST_ROWS, ONE_UNIT, covers_zero, shortened, shown
from bayes_gpx.plots.visuals import (
    EDGE,
    ON_WHITE,
    REFERENCE,
    colored_points,
    colors_of,
    few_numbers,
    label_axes,
    names_down,
)

BINS = 90
"""Along the axis; points of one bin are stacked around their feature's line."""

NAMED = "#7f7f7f"
"""Color of points of categorical features, whose values are not low or high."""

HALF = 0.4
"""How far from the line a stack may reach."""

RELATIVE = Scale(Normalize(0, 1), ON_WHITE)
"""Colors from low to high values of a feature."""


def _offsets(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Distances from the line that keep points of one bin apart, 0 for the first of each."""
    bins = np.floor((x - low) / ((high - low) or 1.0) * BINS)
    order = np.lexsort((x, bins))
    _, start, size = np.unique(bins[order], return_index=True, return_counts=True)
    rank = np.empty(len(x))
    rank[order] = np.arange(len(x)) - np.repeat(start, size)
    side = np.where(rank % 2, 1.0, -1.0) * np.ceil(rank / 2)
    return side * min(0.09, HALF / max(np.abs(side).max(), 1.0))


def _relative(value: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Scale columns from 0 at the 5th to 1 at the 95th percentile of the known values."""
    low, high = np.nanquantile(known, [0.05, 0.95], axis=0)
    rare = low == high
    low = np.where(rare, np.nanmin(known, axis=0), low)
    high = np.where(rare, np.nanmax(known, axis=0), high)
    constant = low == high
    return np.where(constant, 0.5, (value - low) / np.where(constant, 1.0, high - low))


def _points(
    da: xr.DataArray,
    target: Any,
    *,
    y: np.ndarray,
    color: np.ndarray,
    drawn: np.ndarray,
    **kwargs: Any,
) -> Any:
    """Draw some points of (feature, obs) around the lines of their features."""
    if drawn.any():
        return colored_points(da.values[drawn], y[drawn], color[drawn], target, **kwargs)


def plot_beeswarm(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    max_features: int | None = 20,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the attributions of many rows, colored by the feature values.

    Each feature has a line with one point for each row. A point is filled if its interval excludes
    0, and hollow if it includes 0. Colors range from the 5th to the 95th percentile of the feature
    over all rows of the dataset; points of a categorical column are gray.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions` or `bayes_gpx.contributions`, with or without draws.
    obs : list of labels, optional
        Rows to plot, all by default. If there are more than 1000, a random 1000 of them are shown,
        and the title states this.
    features : list of str, optional
        Features from top to bottom; by default the features with the largest mean absolute value
        over all rows.
    max_features : int
        Number of features to plot by default.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws, and normal otherwise.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
        Bokeh has no color bar.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, several baselines, and unknown rows or features.

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for
    trees" (2020), Figure 4.
    """
    found = shown(
        dataset,
        ONE_UNIT,
        obs=obs,
        features=features,
        max_features=max_features,
        most_rows=MOST_ROWS,
        ci_prob=ci_prob,
    ).transpose("feature", "obs", ...)
    mean, value, words = found["mean"], found["value"], found.attrs
    known = dataset["value"].sel(feature=found["feature"]).transpose("obs", "feature").values
    color = colors_of(_relative(value.values.T, known).T, RELATIVE)
    if "level" in value.coords:
        color = np.where(value["level"] != "", NAMED, color)
    low, high = float(mean.min()), float(mean.max())
    lines = np.arange(mean.sizes["feature"])[:, None]
    y = lines + np.stack([_offsets(row, low, high) for row in mean.values])
    unsure = covers_zero(found["interval"]).values
    hollow = {"drawn": unsure, "hollow": True, "width": 1.2}
    filled = {"drawn": ~unsure, "edge": EDGE, "width": 0.6}
    points = {"y": y, "color": color, "size": 16}
    names = shortened(mean["feature"].values)
    ticks = {0.0: "low", 1.0: "high"}
    return draw(
        mean.rename(words["name"]),
        [
            ("reference", vline, 0.0, REFERENCE),
            ("open", _points, mean, points | hollow),
            ("clear", _points, mean, points | filled),
            ("", names_down, mean, {"names": names}),
            ("", few_numbers, mean, {}),
            ("xlabel", label_axes, mean, {"x": words["label"]}),
        ],
        f"{words['title']}; hollow: the {words['interval']} contains 0",
        pc_kwargs,
        backend=backend,
        height=max(1.6, 0.7 + 0.35 * len(names)),
        bars=[Bar(RELATIVE, "value of the feature", ticks=ticks, options={"aspect": 30})],
    )
