"""Explanations against the value of the feature, with one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_ROWS, ONE_UNIT, QUANTITIES, shown, with_unit
from bayes_gpx.plots.visuals import (
    axis_labels,
    horizontal_zero,
    intervals_along,
    level_names,
    means_along,
    ticks_along,
)


def _rug(da, target, *, value, bottom, **kwargs):
    if not level_names(value):
        ends = np.full(len(value), bottom.item())
        return backend_from_object(target).scatter(value.values, ends, target, marker="|", **kwargs)


def _labels(da, target, *, value, y):
    ticks_along(value, target)
    return axis_labels(da, target, x=with_unit(da), y=y)


def plot_dependence(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot explanations against the value of the feature.

    Use it for attributions, contributions, weights, slopes or relevance. Each row is a point with
    its interval, above a rug of the values. For a categorical column, the points of a level are
    next to each other, above the name of the level. If points scatter at equal values of the
    feature, it interacts with other features; the intervals show the uncertainty.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions`, `contributions`, `weights`, `derivatives` or
        `relevance`, with or without draws.
    obs : list of labels, optional
        Rows to plot, all by default. If there are more than 1000, a random 1000 of them are shown,
        and the title states this.
    features : list of str, optional
        By default the features with the largest mean absolute attribution or contribution. For
        weights, derivatives and relevance, with units that differ between features, the first ones.
    max_features : int
        Number of features to plot by default.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws, and normal otherwise.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function or without `value`, several baselines, and unknown rows or
        features.
    """
    found = shown(
        dataset,
        (*QUANTITIES, "relevance"),
        obs=obs,
        features=features,
        max_features=max_features,
        most_rows=MOST_ROWS,
        ci_prob=ci_prob,
    )
    name, value = found.attrs["name"], found["value"]
    mean = found[["mean"]].rename(mean=name)
    interval = found[["interval"]].rename(interval=name)
    backend = backend_named(backend)
    shared = {"sharey": name in ONE_UNIT}
    lay_out(pc_kwargs, found.sizes["feature"], backend=backend, **shared)
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    alpha = float(np.clip(15.0 / found.sizes["obs"] ** 0.7, 0.08, 0.6))
    drawn = {"color": "C0", "alpha": alpha, "width": 1.0}
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(intervals_along, "credible_interval", data=interval, x=value, **drawn)
    pc.map(means_along, "point_estimate", data=mean, x=value, color="C0")
    low, high = (
        found["interval"].min(("obs", "ci_bound")),
        found["interval"].max(("obs", "ci_bound")),
    )
    if shared["sharey"]:
        low, high = low.min().broadcast_like(low), high.max()
    bottom = low - 0.05 * (high - low)
    pc.map(_rug, "rug", data=mean, value=value, bottom=bottom, color="gray", alpha=0.6)
    pc.map(_labels, "labels", data=mean, value=value, y=name)
    title, units = found.attrs["title"], dataset.attrs["units"]
    add_title(pc, f"{title} [{units}]: mean and {found.attrs['interval']}")
    return pc
