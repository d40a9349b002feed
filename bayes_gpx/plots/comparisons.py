"""Comparisons of predictions with their intervals: averages in one panel, or all rows, sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_PANELS, refuse_no_dataset, refuse_several, short
from bayes_gpx.plots.visuals import (
    axis_labels,
    bars_across,
    horizontal_zero,
    interval_bars,
    names_down,
    points_across,
    vertical_zero,
)


def _rows(da, target, *, bounds, **kwargs):
    backend, order = backend_from_object(target), np.argsort(da.values, kind="stable")
    at, ends = np.arange(da.size), bounds.transpose("obs", "ci_bound").values[order]
    interval_bars(at, ends, target, width=1, alpha=0.5, **kwargs)
    return backend.scatter(at, da.values[order], target, size=8, **kwargs)


def _labels(da, target, *, what):
    backend_from_object(target).title(short(da["contrast"].item(), 40), target)
    return axis_labels(da, target, x="rows, sorted", y=what)


def plot_comparisons(
    dataset: xr.Dataset,
    *,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot comparisons with intervals: averages in one panel, or sorted rows.

    Averaged comparisons share one panel; otherwise each comparison has a panel.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.comparisons`, for each row or averaged.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, more than 24 comparisons by row, and several classes.
    """
    refuse_no_dataset(dataset, "bx.comparisons")
    if "comparison_mean" not in dataset:
        raise ValueError("The dataset has no comparisons. Pass the result of bx.comparisons.")
    refuse_several(dataset["comparison_mean"])
    prob = interval_probability(ci_prob, dataset)
    mean = dataset[["comparison_mean"]].rename(comparison_mean="comparison").reset_coords(drop=True)
    bounds = interval_of(dataset, "comparison", prob).reset_coords(drop=True)
    units, count = dataset.attrs["units"], mean.sizes["contrast"]
    backend = backend_named(backend)
    kind = dataset.attrs.get("comparison", "difference")
    title = f"{kind.capitalize()} of the predictions, {prob:.0%} intervals"
    what = f"change [{units}]" if kind == "difference" else kind
    lines = {"at": 1.0 if kind == "ratio" else 0.0, "color": "gray", "linestyle": "C1"}
    average = "average " if "by" in mean.dims else ""
    groups = mean["by"].values if "by" in dataset.dims else ["all"]
    if "by" in mean.dims:
        each = [
            (f"{contrast}, {group}" if len(groups) > 1 else contrast, {"contrast": k, "by": g})
            for k, contrast in enumerate(mean["contrast"].values)
            for g, group in enumerate(groups)
        ]
        names = [short(name, 40) for name, _ in each]
        mean = xr.concat([mean.isel(at, drop=True) for _, at in each], "contrast")
        bounds = xr.concat([bounds.isel(at, drop=True) for _, at in each], "contrast")
        count = len(names)
    else:
        names = [short(name) for name in mean["contrast"].values]
    if mean.sizes.get("obs") == 1:
        mean, bounds = mean.squeeze("obs", drop=True), bounds.squeeze("obs", drop=True)
        title += f" of row {dataset['obs'].item()}"
    if "obs" not in mean.dims:
        lay_out(pc_kwargs, 1, 0.9 + 0.3 * count, backend=backend)
        pc = PlotCollection.wrap(mean, backend=backend, **pc_kwargs)
        pc.map(vertical_zero, "reference", data=mean, alpha=0.6, **lines)
        band = xr.Dataset({"comparison": bounds})
        pc.map(names_down, "names", data=mean, names=names, store_artist=False)
        pc.map(bars_across, "interval", data=band, width=3, color="C0")
        pc.map(points_across, "point_estimate", data=mean, color="C0")
        pc.map(axis_labels, "labels", data=mean, x=f"{average}{what}")
        add_title(pc, title)
        return pc
    if count > MOST_PANELS:
        raise ValueError(f"There are {count} comparisons; choose at most {MOST_PANELS} of them.")
    lay_out(pc_kwargs, count, backend=backend, sharey=True)
    pc = PlotCollection.wrap(mean, cols=["contrast"], backend=backend, **pc_kwargs)
    pc.map(horizontal_zero, "reference", data=mean, alpha=0.6, **lines)
    pc.map(_rows, "point_estimate", data=mean, bounds=bounds, color="C0")
    pc.map(_labels, "labels", data=mean, what=what)
    add_title(pc, f"{title} of {mean.sizes['obs']} rows")
    return pc
