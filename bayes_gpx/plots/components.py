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
from bayes_gpx.plots.selection import (
    MOST_PANELS,
    refuse_no_dataset,
    refuse_several,
    short,
    with_unit,
)
from bayes_gpx.plots.visuals import (
    axis_labels,
    horizontal_zero,
    intervals_along,
    level_names,
    line_break,
    means_along,
    ticks_along,
)
from bayes_gpx.validation import one_of

MOST_POINTS = 200
"""Points with intervals in a panel; of more rows, so many are shown, evenly spaced."""


WIDEST = 28
"""Letters of a panel's title in one line."""


def _labels(da, target, *, x, share, y):
    """The component's name, unless it is its feature's, and its share of variance; both axes."""
    ticks_along(x, target)
    name = "" if da["component"] == da["along"] else short(da["component"], 2 * WIDEST)
    said = "" if share.isnull() else f"{100 * share.item():.0f}%".replace("-", "\N{MINUS SIGN}")
    if len(name) > WIDEST - 6:
        name = name.replace(":", f":{line_break(target)}", 1)
    backend_from_object(target).title(f"{name} ({said})" if name and said else name or said, target)
    return axis_labels(da, target, x=with_unit(x), y=y)


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
    x = dataset["value"].sel(feature=dataset["along"].sel(component=names))
    numbers = [not level_names(x.sel(component=name)) for name in names]
    joined = dataset["alone"].sel(component=names) & xr.DataArray(numbers, dims="component")
    drawn = {"x": x, "joined": joined, "most": MOST_POINTS, "color": "C0"}

    def of_panels(array):
        return array.sel(component=names).rename("f").to_dataset()

    backend = backend_named(backend)
    lay_out(pc_kwargs, len(names), backend=backend, sharey=True)
    mean = of_panels(dataset["component_mean"])
    pc = PlotCollection.wrap(mean, cols=["component"], backend=backend, **pc_kwargs)
    pc.map(horizontal_zero, "zero", data=mean, color="gray", width=0.8)
    pc.map(intervals_along, "band", data=of_panels(ends), alpha=0.35, width=0.8, **drawn)
    pc.map(means_along, "point_estimate", data=mean, **drawn)
    pc.map(_labels, "labels", data=mean, x=x, share=dataset["share"], y="component")
    units = dataset.attrs["units"]
    add_title(pc, f"Components{some} [{units}], {prob:.0%} intervals; above: shares of variance")
    return pc
