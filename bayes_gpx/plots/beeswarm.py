"""Attributions of many observations, with one row of points for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from matplotlib.colors import Normalize

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_ROWS, ONE_UNIT, covers_zero, short, shown
from bayes_gpx.plots.visuals import (
    EDGE,
    ON_WHITE,
    axis_labels,
    colour_bar,
    coloured_points,
    colours,
    names_down,
    vertical_zero,
)

BINS = 90
"""Along the axis; points of one bin are stacked around their feature's line."""

NAMED = "#7f7f7f"
"""Color of points of categorical features, whose values are not low or high."""

HALF = 0.4
"""How far from the line a stack may reach."""


def _offsets(x, low, high):
    """Distances from the line that keep points of one bin apart, 0 for the first of each."""
    bins = np.floor((x - low) / ((high - low) or 1.0) * BINS)
    order = np.lexsort((x, bins))
    _, start, size = np.unique(bins[order], return_index=True, return_counts=True)
    rank = np.empty(len(x))
    rank[order] = np.arange(len(x)) - np.repeat(start, size)
    side = np.where(rank % 2, 1.0, -1.0) * np.ceil(rank / 2)
    return side * min(0.09, HALF / max(np.abs(side).max(), 1.0))


def _relative(value, known):
    """Scale columns from 0 at the 5th to 1 at the 95th percentile of the known values."""
    low, high = np.quantile(known, [0.05, 0.95], axis=0)
    rare = low == high
    low, high = np.where(rare, known.min(axis=0), low), np.where(rare, known.max(axis=0), high)
    constant = low == high
    return np.where(constant, 0.5, (value - low) / np.where(constant, 1.0, high - low))


def _points(da, target, *, colour, chosen, hollow, **kwargs):
    low, high = float(da.min()), float(da.max())
    x = da.transpose("feature", "obs").values
    y = np.stack([row + _offsets(one, low, high) for row, one in enumerate(x)])
    chosen = chosen.transpose("feature", "obs").values
    if not chosen.any():
        return None
    return coloured_points(x[chosen], y[chosen], colour[chosen], target, hollow=hollow, **kwargs)


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
    )
    name, count = found.attrs["name"], found.sizes["feature"]
    mean = found[["mean"]].rename(mean=name)
    known = dataset["value"].sel(feature=found["feature"]).transpose("obs", "feature").values
    colour = colours(_relative(found["value"].values, known).T, 0.0, 1.0, ON_WHITE)
    if "level" in found["value"].coords:
        named = found["value"]["level"].transpose("obs", "feature").values.T != ""
        colour = np.where(named, NAMED, colour)
    open_sign = covers_zero(found["interval"])
    backend = backend_named(backend)
    lay_out(pc_kwargs, 1, max(1.6, 0.7 + 0.35 * count), backend=backend)
    pc = PlotCollection.wrap(mean, backend=backend, **pc_kwargs)
    pc.map(vertical_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    for label, chosen, hollow in (("open", open_sign, True), ("clear", ~open_sign, False)):
        drawn = {"colour": colour, "chosen": chosen, "hollow": hollow, "size": 16}
        drawn |= {"width": 1.2} if hollow else {"width": 0.6, "edge": EDGE}
        pc.map(_points, label, data=mean, **drawn)
    names = [short(feature) for feature in found["feature"].values]
    pc.map(names_down, "ticks", data=mean, names=names, store_artist=False)
    pc.map(axis_labels, "xlabel", data=mean, x=found.attrs["label"])
    ends = {0.0: "low", 1.0: "high"}
    colour_bar(pc, Normalize(0, 1), ON_WHITE, "value of the feature", ticks=ends, aspect=30)
    add_title(pc, f"{found.attrs['title']}; hollow: the {found.attrs['interval']} contains 0")
    return pc
