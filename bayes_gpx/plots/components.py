"""Components of f: a curve with a band for one feature, points with intervals for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_PANELS, refuse_no_dataset, refuse_several, short
from bayes_gpx.plots.visuals import (
    axis_labels,
    few_numbers,
    horizontal_zero,
    interval_bars,
    is_plotly,
)
from bayes_gpx.validation import one_of

MOST_POINTS = 200
"""Points with intervals in a panel; of more rows, so many are shown, evenly spaced."""


WIDEST = 30
"""Letters of a title in one line."""


def _one(da, value):
    """Whether a curve is drawn, and the values of the panel's feature in ascending order."""
    along = value.sel(feature=da["along"].item())
    order = np.argsort(along.values, kind="stable")
    if not da["alone"].item() and len(order) > MOST_POINTS:
        order = order[np.linspace(0, len(order) - 1, MOST_POINTS).round().astype(int)]
    return da["alone"].item(), along.values[order], order


def _spread(da, target, *, value, **kwargs):
    curve, x, order = _one(da, value)
    bounds = da.transpose("obs", "ci_bound").values[order]
    if not curve:
        return interval_bars(x, bounds, target, **kwargs | {"width": 0.8})
    return backend_from_object(target).fill_between_y(x, *bounds.T, target, **kwargs)


def _mean(da, target, *, value, **kwargs):
    curve, x, order = _one(da, value)
    backend = backend_from_object(target)
    if not curve:
        return backend.scatter(x, da.values[order], target, color=kwargs["color"], size=8)
    return backend.line(x, da.values[order], target, **kwargs)


def _labels(da, target, *, value, share, y):
    feature = short(da["along"])
    unit = value["unit"].sel(feature=da["along"].item()).item() if "unit" in value.coords else ""
    few_numbers(target)
    said = "" if share.isnull() else f"({round(100 * share.item())}%)"
    name, line = short(da["component"], 30), "<br>" if is_plotly(target) else "\n"
    between = " " if len(name) + len(said) < WIDEST or not said else line
    backend_from_object(target).title(f"{name}{between}{said}", target)
    return axis_labels(da, target, x=f"{feature} [{unit}]" if unit else feature, y=y)


def plot_components(
    dataset: xr.Dataset,
    *,
    components: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot components of f, each against the first feature that it varies with.

    A component of a single feature is a curve with its band, through the rows of the dataset. Other
    components are points with intervals. Titles state shares of variance.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.components`.
    components : list of str, optional
        Components to plot, in this order. By default all but constants; if there are more than 24,
        the components with the largest shares.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, and unknown or constant components.
    """
    refuse_no_dataset(dataset, "bx.components")
    if "component_mean" not in dataset:
        raise ValueError("The dataset has no components. Pass the result of bx.components.")
    refuse_several(dataset["component_mean"])
    varying = dataset["component"].values[dataset["along"].values != ""].tolist()
    names = varying if components is None else list(components)
    for name in names:
        one_of("components", name, varying)
    some = ""
    if len(names) > MOST_PANELS:
        size = -np.abs(dataset["share"].sel(component=names).values)
        kept = np.sort(np.argsort(size, kind="stable")[:MOST_PANELS])
        some = f" ({MOST_PANELS} of {len(names)})"
        names = [names[k] for k in kept]
    prob = dataset.attrs["ci_prob"]
    ends = interval_of(dataset.drop_vars("component"), "component", prob)
    ends = ends.assign_coords(component=dataset["component"])
    shown = {"value": dataset["value"]}

    def of_panels(array):
        return array.sel(component=names).rename("f").to_dataset()

    backend = backend_named(backend)
    lay_out(pc_kwargs, len(names), backend=backend)
    mean = of_panels(dataset["component_mean"])
    pc = PlotCollection.wrap(mean, cols=["component"], backend=backend, **pc_kwargs)
    pc.map(horizontal_zero, "zero", data=mean, color="gray", width=0.8)
    pc.map(_spread, "band", data=of_panels(ends), color="C0", alpha=0.35, **shown)
    pc.map(_mean, "point_estimate", data=mean, color="C0", width=2.0, **shown)
    label = f"component [{dataset.attrs['units']}]"
    pc.map(_labels, "labels", data=mean, share=dataset["share"], y=label, **shown)
    add_title(pc, f"Components{some}, {prob:.0%} interval; shares of variance in brackets")
    return pc
