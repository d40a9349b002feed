"""Weights against the value of the feature, one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import (
    MOST_PANELS,
    panel_features,
    refuse_no_dataset,
    refuse_several,
    with_unit,
)
from bayes_gpx.plots.visuals import (
    axis_labels,
    horizontal_zero,
    intervals_along,
    level_names,
    means_along,
    places_along,
    ticks_along,
)
from bayes_gpx.validation import count

MOST_ROWS, MOST_GROUPS, NEIGHBORS = 40, 10, 10
"""Most rows with an interval each; more are drawn in so many groups of so many rows at least."""


def _groups(value, curve):
    """Rows that are drawn together, ascending by value, and whether a line joins the groups."""
    x, names = value.values, level_names(value)
    order = np.argsort(x, kind="stable")[: np.isfinite(x).sum()]
    if not names and (curve or len(order) <= MOST_ROWS):
        return order[:, None], curve
    shares = np.linspace(0.0, 1.0, min(MOST_GROUPS, len(order) // NEIGHBORS) + 1)
    cuts = sorted(names)[1:] if names else np.unique(np.quantile(x[order], shares[1:-1]))
    groups = np.split(order, np.searchsorted(x[order], cuts))
    return [group for group in groups if len(group)], not names


def _rows(da, target, *, value, curves, **kwargs):
    groups, _ = _groups(value, da["feature"].item() in curves)
    if max(map(len, groups)) > 1:
        return backend_from_object(target).scatter(places_along(value), da.values, target, **kwargs)


def _interval(da, target, *, value, curves, **kwargs):
    """Intervals of single rows, or from the lowest to the highest end in each group."""
    groups, joined = _groups(value, da["feature"].item() in curves)
    low, high = da.transpose("ci_bound", "obs").values
    ends = [[low[group].min(), high[group].max()] for group in groups]
    x = np.array([value.values[group].mean() for group in groups])
    if joined:
        x[[0, -1]] = value.min(), value.max()
    x, ends = xr.DataArray(x, dims="obs"), xr.DataArray(ends, dims=("obs", "ci_bound"))
    return intervals_along(ends, target, x=x, joined=joined, **kwargs)


def _mean(da, target, *, value, curves, **kwargs):
    groups, joined = _groups(value, da["feature"].item() in curves)
    x, mean = ([one.values[group].mean() for group in groups] for one in (value, da))
    x, mean = (xr.DataArray(one, dims="obs") for one in (x, mean))
    return means_along(mean, target, x=x, joined=joined, **kwargs)


def _labels(da, target, *, value):
    ticks_along(value, target)
    return axis_labels(da, target, x=with_unit(da), y="weight")


def plot_weights(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot each weight against the value of its feature.

    If only this feature varies over the rows, the weight is a curve with a band. If others vary
    too, up to 40 rows are points with their intervals. More rows are gray points: the line is their
    average over at least 10 rows with similar values, and the band contains all intervals of these
    rows. A column of two values has one average and one interval for each value.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, with `value`. For a curve, compute weights with
        ``smooth=True`` at points along one feature, with the others fixed.
    features : list of str, optional
        Features to plot, at most 24. By default the largest: the mean absolute weight times the
        standard deviation of the feature.
    max_features : int, optional
        Number of features to plot by default; None for all, up to 24.
    ci_prob : float, optional
        Probability of the equal-tailed intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no weights or no values of features, for unknown features, and for more
        than 24 features.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), section V.
    """
    refuse_no_dataset(dataset, "bx.weights")
    if "weight_mean" not in dataset or "value" not in dataset:
        raise ValueError(
            "The dataset has no weights with their `value`. Pass the result of bx.weights, with "
            "Z_new if Z differs from X."
        )
    refuse_several(dataset["weight_mean"])
    if max_features is not None:
        count("max_features", max_features)
    weighed = dataset["value"].where(dataset["weight_mean"].notnull())
    size = abs(dataset["weight_mean"]).mean("obs") * weighed.std("obs")
    known = dataset["feature"].values[np.argsort(-size.values, kind="stable")].tolist()
    most = min(max_features or MOST_PANELS, MOST_PANELS)
    features, some = panel_features(dataset, features, known, most)
    chosen, value = dataset.sel(feature=features), weighed.sel(feature=features)
    mean = chosen[["weight_mean"]].rename(weight_mean="weight")
    prob = interval_probability(ci_prob, dataset)
    backend = backend_named(backend)
    lay_out(pc_kwargs, mean.sizes["feature"], backend=backend)
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    band = xr.Dataset({"weight": interval_of(chosen, "weight", prob)})
    where = {"value": value, "curves": _curves(dataset)}
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_rows, "rows", data=mean, color="gray", alpha=0.35, size=5, **where)
    pc.map(_interval, "credible_interval", data=band, color="C0", alpha=0.3, width=2, **where)
    pc.map(_mean, "point_estimate", data=mean, color="C0", **where)
    pc.map(_labels, "labels", data=mean, value=value)
    gray = "; gray: rows; line: their average at similar values; band: all their intervals"
    grouped = any(artist is not None for artist in pc.viz["rows"]["weight"].values.ravel())
    words = f"Weights{some} [{dataset.attrs['units']}]: mean and {prob:.0%} interval"
    add_title(pc, words + gray * grouped)
    return pc


def _curves(dataset):
    """Features that vary alone over the observations that have a weight of theirs."""
    found = set()
    for name in dataset["feature"].values:
        known = dataset["weight_mean"].sel(feature=name).notnull().values
        others = dataset["value"].drop_sel(feature=name).transpose("obs", "feature").values[known]
        low, high = np.fmin.reduce(others, initial=np.inf), np.fmax.reduce(others, initial=-np.inf)
        if not (high > low).any():
            found.add(name)
    return found
