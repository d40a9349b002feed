"""Derivatives against the value of the feature, with one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import (
    panel_features,
    refuse_no_dataset,
    refuse_several,
    short,
    with_unit,
)
from bayes_gpx.plots.visuals import (
    NEGATIVE,
    POSITIVE,
    axis_labels,
    coloured_points,
    few_numbers,
    horizontal_zero,
    interval_bars,
)

SIGNS = (POSITIVE, NEGATIVE, "#999999")
"""Colors of a positive, a negative and an uncertain sign."""


def _band(da, target, *, value, curve, width, **kwargs):
    backend, order = backend_from_object(target), np.argsort(value.values)
    x, bounds = value.values[order], da.transpose("obs", "ci_bound").values[order]
    if curve == da["feature"].item():
        return backend.fill_between_y(x, bounds[:, 0], bounds[:, 1], target, **kwargs)
    return interval_bars(x, bounds, target, width=width, **kwargs)


def _mean(da, target, *, value, curve, **kwargs):
    backend, order = backend_from_object(target), np.argsort(value.values)
    x, mean = value.values[order], da.values[order]
    if curve == da["feature"].item():
        return backend.line(x, mean, target, width=2, **kwargs)
    return backend.scatter(x, mean, target, size=8, **kwargs)


def _signs(da, target, *, value, positive, prob, **kwargs):
    bottom = da.values.min() - 0.06 * np.ptp(da.values)
    colours = np.select([positive >= prob, 1 - positive >= prob], SIGNS[:2], SIGNS[2])
    ends = np.full(da.sizes["obs"], bottom)
    return coloured_points(value.values, ends, colours, target, marker="|", **kwargs)


def _labels(da, target, *, mean, sd, positive, **kwargs):
    few_numbers(target)
    backend = backend_from_object(target)
    average = f"average {mean.item():.2g} ± {sd.item():.2g}, P(> 0) = {positive.item():.2f}"
    backend.title(f"{short(da['feature'])}: {average}", target, **kwargs)
    return axis_labels(da, target, x=with_unit(da), y="derivative")


def plot_derivatives(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot derivatives against feature values, with two bands.

    If only one feature varies over the rows, its panel has a curve with a pointwise (dark) and a
    simultaneous (light) band. Otherwise each row is a point with two intervals. A rug shows the
    values of the rows. It is red if the derivative is positive with at least the probability of the
    bands, blue if it is negative with at least this probability, and gray otherwise.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.slopes`.
    features : list of str, optional
        By default the features that vary over the rows, or all if none does.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no bands, for unknown features, and for more than 24 features.
    """
    refuse_no_dataset(dataset, "bx.slopes")
    if "band_simultaneous" not in dataset:
        raise ValueError("The dataset has no bands. Pass the result of bx.slopes.")
    refuse_several(dataset["band_simultaneous"])
    known = list(dataset["feature"].values)
    varies = (dataset["value"] != dataset["value"].isel(obs=0)).any("obs").values
    moving = [feature for feature, moves in zip(known, varies, strict=True) if moves]
    features, some = panel_features(dataset, features, moving or known)
    chosen = dataset.sel(feature=features)
    backend = backend_named(backend)
    lay_out(pc_kwargs, len(features), backend=backend)

    def named(variable):
        return chosen[[variable]].rename({variable: "derivative"})

    mean, wide = named("derivative_mean"), named("band_simultaneous")
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    where = {"value": chosen["value"], "curve": dataset.attrs.get("along")}
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_band, "simultaneous", data=wide, width=1, color="C0", alpha=0.2, **where)
    pc.map(
        _band, "pointwise", data=named("band_pointwise"), width=2, color="C0", alpha=0.4, **where
    )
    pc.map(_mean, "point_estimate", data=mean, color="C0", **where)
    prob = dataset.attrs["ci_prob"]
    sign = {"positive": chosen["derivative_probability_positive"], "prob": prob}
    pc.map(_signs, "signs", data=wide, value=chosen["value"], **sign)
    pc.map(
        _labels,
        "labels",
        data=mean,
        mean=chosen["average_slope_mean"],
        sd=chosen["average_slope_sd"],
        positive=chosen["probability_positive"],
    )
    add_title(
        pc,
        f"Slopes{some}, {dataset.attrs['units']}, with {prob:.0%} bands (light: simultaneous)\n"
        f"marks: positive (red) or negative (blue) with probability {prob:.0%}",
    )
    return pc
