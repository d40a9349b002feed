"""Derivatives along the path from a baseline to an observation, one panel for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import against, refuse_no_dataset, refuse_several, with_unit
from bayes_gpx.plots.visuals import (
    axis_labels,
    horizontal_zero,
    intervals_along,
    means_along,
    written,
)
from bayes_gpx.validation import count, one_of


def _mean_slope(da, target, *, way, mean, **kwargs):
    if way.item():
        return backend_from_object(target).hline(mean.item() / way.item(), target, **kwargs)


def _labels(da, target, *, value, way, mean, sd, units):
    backend, way, mean = backend_from_object(target), way.item(), mean.item()
    (change,), (slope,) = written(way, plus=True), written(mean / way if way else 0.0)
    parts = f"change {change} × mean slope {slope}" if way else "no change"
    title = "attribution {} ± {}\n{}".format(*written(mean, sd.item(), plus=True), parts)
    backend.title(title, target, size=9)
    ends = [f"baseline\n{value.values[0]:.4g}", f"x\n{value.values[-1]:.4g}"]
    backend.xticks([0.0, 1.0], ends, target)
    return axis_labels(da, target, x=with_unit(da), y=units)


def plot_path(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot derivatives along the path from the baseline to a row.

    The attribution of a feature is its change from the baseline to the row times its mean slope on
    the path, the dashed line. Both are written above the panel, with the standard deviation of the
    attribution. The pointwise band is dark and the simultaneous band is light.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.path_slopes`.
    features : list of str, optional
        By default the features with the largest mean absolute attribution.
    max_features : int
        Number of features to plot by default.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and unknown features.

    References
    ----------
    Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024), Figure 1.
    """
    refuse_no_dataset(dataset, "bx.path_slopes")
    if "way" not in dataset:
        raise ValueError("The dataset has no `way`. Pass the result of bx.path_slopes.")
    refuse_several(dataset["attribution_mean"])
    known = dataset["feature"].values
    for feature in features or ():
        one_of("features", feature, list(known))
    if features is None:
        count("max_features", max_features)
        order = np.argsort(-np.abs(dataset["attribution_mean"].values), kind="stable")
        features = [str(name) for name in known[order[:max_features]]]
    chosen = dataset.sel(feature=list(features))

    def named(variable):
        return chosen[[variable]].rename({variable: "derivative"})

    backend = backend_named(backend)
    pc_kwargs.setdefault("col_wrap", 2)
    lay_out(pc_kwargs, len(features), 2.6, backend=backend)
    mean = named("derivative_mean")
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    pc.map(horizontal_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    along = {"x": chosen["obs"], "joined": True}
    wide, narrow = named("band_simultaneous"), named("band_pointwise")
    pc.map(intervals_along, "simultaneous", data=wide, **along, color="C0", alpha=0.2)
    pc.map(intervals_along, "pointwise", data=narrow, **along, color="C0", alpha=0.35)
    pc.map(means_along, "point_estimate", data=mean, **along, color="C0")
    texts = {name: chosen[name] for name in ("value", "way")}
    texts |= {m: chosen[f"attribution_{m}"] for m in ("mean", "sd")}
    parts = {name: texts[name] for name in ("way", "mean")}
    pc.map(_mean_slope, "mean_slope", data=mean, **parts, color="black", linestyle="C1", width=1)
    units = dataset.attrs["units"].removesuffix(" of the feature")
    pc.map(_labels, "labels", data=mean, **texts, units=units)
    some = f" ({len(features)} of {len(known)} features)" if len(features) < len(known) else ""
    prob, title = dataset.attrs["ci_prob"], f"Slopes on the path to obs {dataset.attrs['explains']}"
    words = f"{prob:.0%} bands (light: simultaneous); dashed: mean slope"
    add_title(pc, f"{title}, {against(dataset)}{some}; {words}")
    return pc
