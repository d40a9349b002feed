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
from bayes_gpx.plots.selection import panel_features, refuse_no_dataset, refuse_several
from bayes_gpx.plots.visuals import few_numbers, horizontal_zero, interval_bars


def _band(da, target, *, value, curves, **kwargs):
    order = np.argsort(value.values)
    bounds = da.transpose("obs", "ci_bound").values[order]
    if da["feature"].item() not in curves:
        return interval_bars(value.values[order], bounds, target, **kwargs | {"alpha": 0.6})
    return backend_from_object(target).fill_between_y(
        value.values[order], bounds[:, 0], bounds[:, 1], target, **kwargs
    )


def _curve(da, target, *, value, curves, **kwargs):
    order = np.argsort(value.values)
    if da["feature"].item() not in curves:
        color = kwargs["color"]
        return backend_from_object(target).scatter(
            value.values, da.values, target, color=color, size=9
        )
    return backend_from_object(target).line(value.values[order], da.values[order], target, **kwargs)


def _labels(da, target, **kwargs):
    few_numbers(target)
    backend = backend_from_object(target)
    backend.ylabel("weight", target, **kwargs)
    return backend.xlabel(da["feature"].item(), target, **kwargs)


def plot_weights(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot each weight against the value of its feature.

    If only this feature varies over the rows, the weight is a curve with a band. Otherwise each row
    is a point with its interval.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, with `value`. For a curve, compute weights with
        ``smooth=True`` at points along one feature, with the others fixed.
    features : list of str, optional
        Features to plot, at most 24; by default the first ones.
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
    features, some = panel_features(dataset, features)
    chosen = dataset.sel(feature=features)
    mean, value = chosen[["weight_mean"]].rename(weight_mean="weight"), chosen["value"]
    prob = interval_probability(ci_prob, dataset)
    backend = backend_named(backend)
    lay_out(pc_kwargs, mean.sizes["feature"], backend=backend)
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    band = xr.Dataset({"weight": interval_of(chosen, "weight", prob)})
    where = {"value": value, "curves": _curves(dataset)}
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_band, "credible_interval", data=band, color="C0", alpha=0.3, **where)
    pc.map(_curve, "point_estimate", data=mean, color="C0", width=2, **where)
    pc.map(_labels, "labels", data=mean)
    add_title(pc, f"Weight{some}, {dataset.attrs['units']}: mean and {prob:.0%} interval")
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
