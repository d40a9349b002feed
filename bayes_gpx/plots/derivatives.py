"""Derivatives against the value of the feature, with one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import add_legend, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import panel_features, refuse_no_dataset, refuse_several, with_unit
from bayes_gpx.plots.visuals import (
    NEGATIVE,
    POSITIVE,
    axis_labels,
    coloured_points,
    horizontal_zero,
    intervals_along,
    line_break,
    means_along,
    pale,
    places_along,
    ticks_along,
    written,
)


def _signs(da, target, *, value, positive, prob, **kwargs):
    bottom = da.values.min() - 0.06 * np.ptp(da.values)
    colours = np.where(positive >= 0.5, POSITIVE, NEGATIVE)
    uncertain = np.maximum(positive, 1 - positive) < prob
    colours = np.where(uncertain, [pale(colour) for colour in colours], colours)
    ends = np.full(da.sizes["obs"], bottom)
    return coloured_points(places_along(value), ends, colours, target, marker="|", **kwargs)


def _average(da, target, *, value, mean, sd, positive, **kwargs):
    """The average slope, in room above all intervals."""
    backend, low, high = backend_from_object(target), da.values.min(), da.values.max()
    left, top = places_along(value).min(), high + 0.32 * (high - low)
    backend.ylim((low - 0.12 * (high - low), top + 0.04 * (high - low)), target)
    average = "average {} ± {}".format(*written(mean.item(), sd.item()))
    text = f"{average}{line_break(target)}P(> 0) = {positive.item():.2f}"
    at = {"horizontal_align": "left", "vertical_align": "top"}
    return backend.text(left, top, text, target, **at, **kwargs)


def _labels(da, target, *, value):
    ticks_along(value, target)
    backend_from_object(target).title(with_unit(da), target)
    return axis_labels(da, target, y="slope")


def plot_derivatives(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot derivatives against feature values, with two bands.

    If only one feature varies over the rows, its panel has a curve with a pointwise (dark) and a
    simultaneous (light) band. Otherwise each row is a point with two intervals. Each panel states
    the average slope and the probability that it is positive. A rug shows the values of the rows.
    It is red if a positive slope is more probable and blue otherwise, and pale if this probability
    is smaller than the probability of the bands.

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
    lay_out(pc_kwargs, len(features), backend=backend, above=0.8)

    def named(variable):
        return chosen[[variable]].rename({variable: "derivative"})

    mean, wide = named("derivative_mean"), named("band_simultaneous")
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    joined = chosen["feature"] == dataset.attrs.get("along", "")
    where = {"x": chosen["value"], "joined": joined}
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(intervals_along, "simultaneous", data=wide, width=1, color="C0", alpha=0.2, **where)
    narrow = named("band_pointwise")
    pc.map(intervals_along, "pointwise", data=narrow, width=2, color="C0", alpha=0.4, **where)
    pc.map(means_along, "point_estimate", data=mean, color="C0", **where)
    prob = dataset.attrs["ci_prob"]
    sign = {"positive": chosen["derivative_probability_positive"], "prob": prob}
    pc.map(_signs, "signs", data=wide, value=chosen["value"], **sign)
    average = {name: chosen[f"average_slope_{name}"] for name in ("mean", "sd")}
    average |= {"positive": chosen["probability_positive"], "value": chosen["value"]}
    pc.map(_average, "average", data=wide, size=8, **average)
    pc.map(_labels, "labels", data=mean, value=chosen["value"])
    bands = {f"{prob:.0%}, each": {"color": "C0", "alpha": 0.6, "width": 6}}
    bands[f"{prob:.0%}, all together"] = {"color": "C0", "alpha": 0.2, "width": 6}
    signs = {"rises": {"color": POSITIVE}, "falls": {"color": NEGATIVE}}
    add_legend(pc, bands | signs)
    pale_ticks = f"pale ticks: sign less than {prob:.0%} probable"
    add_title(pc, f"Slopes{some} [{dataset.attrs['units']}]; {pale_ticks}")
    return pc
