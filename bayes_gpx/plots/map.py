"""Explanations at places: maps of the mean above maps of the sd, one column for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Table
from bayes_gpx.data.features import read_features, refuse_misaligned
from bayes_gpx.plots.layout import WIDTH, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import covers_zero, layered, short, shown
from bayes_gpx.plots.visuals import (
    SIGNED,
    UNSIGNED,
    axis_labels,
    colour_bar,
    coloured_points,
    colours,
    from_zero,
    symmetric,
)

LAYERS = ("mean", "sd")

OUTLINES = {True: "#bbbbbb", False: "#222222"}
"""Outlines of places with an uncertain sign, and of the other places."""


def _places(da, target, *, at, unsure, scales, size):
    layer, feature = da["layer"].item(), da["feature"].item()
    norm, cmap = scales[layer, feature]
    colour = colours(da.values, norm.vmin, norm.vmax, cmap)
    artist = None
    for which, edge in ((unsure, OUTLINES[True]), (~unsure, OUTLINES[layer == "sd"])):
        if which.any():
            chosen = which.values
            drawn = {"edge": edge, "size": size, "width": 0.7}
            artist = coloured_points(*at[chosen].T, colour[chosen], target, **drawn)
    backend_from_object(target).title(f"{short(feature, 24)}: {layer}", target, size=10)
    return artist


def plot_map(
    dataset: xr.Dataset,
    places: Table,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 3,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot maps of weights or other explanations, with the mean above the sd.

    A place has a dark outline if the interval excludes 0, and a light one if it includes 0.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.weights`, `derivatives`, `attributions` or `contributions`, with or
        without draws. Compute weights with ``smooth=True``, which leaves out the noise of each row.
    places : table or array (obs, 2)
        Horizontal and vertical position of each row, such as longitude and latitude.
    features : list of str, optional
        Features from left to right. By default the features with the largest mean absolute
        attribution or contribution, or the first ones if units differ between features.
    max_features : int
        Number of features to plot by default.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's. Intervals are equal-tailed if the
        dataset has draws, and normal otherwise.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
        Bokeh has no color bars.
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, unknown features, and places that are not two columns
        with one line for each row.

    References
    ----------
    Fotheringham, Brunsdon and Charlton, "Geographically Weighted Regression" (2002): coefficients
    that vary over places.
    """
    found = shown(
        dataset, features=features, max_features=max_features, ci_prob=ci_prob, valued=False
    )
    at = _read(places, dataset["obs"].values)
    layers = layered(found, LAYERS).transpose("layer", "feature", "obs")
    data, scales = xr.Dataset({found.attrs["name"]: layers}), {}
    for feature in found["feature"].values:
        mean, sd = (found[layer].sel(feature=feature) for layer in LAYERS)
        scales["mean", feature] = symmetric(mean), SIGNED
        scales["sd", feature] = from_zero(sd), UNSIGNED
    backend = backend_named(backend)
    number = found.sizes["feature"]
    pc_kwargs.setdefault("col_wrap", number)
    height = 0.6 + 0.7 * WIDTH / max(number, 2)
    lay_out(pc_kwargs, 2 * number, height, backend=backend, between=1.4)
    pc = PlotCollection.wrap(data, cols=["layer", "feature"], backend=backend, **pc_kwargs)
    size = 300 / len(at.values) ** 0.5
    unsure = covers_zero(found["interval"])
    pc.map(_places, "places", data=data, at=at.values, unsure=unsure, scales=scales, size=size)
    across, up = at.columns
    pc.map(axis_labels, "labels", data=data, x=across, y=up)
    for (layer, feature), (norm, cmap) in scales.items():
        panel = pc.get_target(None, {"layer": layer, "feature": feature})
        colour_bar(pc, norm, cmap, None, axes=[panel], location="right", shrink=0.8)
    dark = f"dark outline: the {found.attrs['interval']} excludes 0"
    add_title(pc, f"{found.attrs['title']} [{dataset.attrs['units']}]; {dark}")
    return pc


def _read(places, index):
    frame = read_features(places, "places", minimum_rows=1)
    if frame.levels:
        raise ValueError(
            f"places has the categorical columns {list(frame.levels)}. Pass two columns of "
            "numbers, such as longitude and latitude."
        )
    if len(frame.columns) != 2 or len(frame) != len(index):
        raise ValueError(
            f"places has {len(frame)} rows and {len(frame.columns)} columns. Pass 2 columns with a "
            f"row for each of the dataset's {len(index)} observations."
        )
    if frame.labelled:
        refuse_misaligned(index, frame.index, "the dataset", "places")
    return frame
