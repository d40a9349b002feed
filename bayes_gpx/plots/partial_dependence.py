"""Partial dependence with its band, and the curves of single observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import refuse_no_dataset, refuse_several, with_unit
from bayes_gpx.plots.visuals import (
    axis_labels,
    intervals_along,
    level_names,
    means_along,
    spacing,
    ticks_along,
)
from bayes_gpx.validation import count, one_of


def _curves(da, target, *, value, **kwargs):
    lines = da.transpose("obs", "step").values
    if names := level_names(value):
        own = {"color": kwargs["color"], "alpha": kwargs["alpha"], "size": 6}
        x = value.values + spacing(names) * np.linspace(-0.2, 0.2, len(lines))[:, None]
        return backend_from_object(target).scatter(x.ravel(), lines.ravel(), target, **own)
    gap = np.full((len(lines), 1), np.nan)
    x = np.tile(np.append(value.values, np.nan), len(lines))
    return backend_from_object(target).line(x, np.hstack([lines, gap]).ravel(), target, **kwargs)


def _labels(da, target, *, value, y):
    ticks_along(value, target)
    return axis_labels(da, target, x=with_unit(da), y=y)


def plot_partial_dependence(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_curves: int = 50,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot partial dependence with its band, and the curves of single rows.

    A categorical column has points at its levels instead of curves, and intervals instead of the
    band.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.partial_dependence`.
    features : list of str, optional
        Features to plot, in this order; all by default.
    max_curves : int
        If there are more rows, this many curves are shown, evenly spaced.
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
    """
    refuse_no_dataset(dataset, "bx.partial_dependence")
    if "partial_dependence_band" not in dataset:
        raise ValueError("The dataset has no bands. Pass the result of bx.partial_dependence.")
    count("max_curves", max_curves)
    refuse_several(dataset["partial_dependence_mean"])
    names = list(dataset["feature"].values) if features is None else list(features)
    for name in names:
        one_of("features", name, list(dataset["feature"].values))
    n = dataset.sizes["obs"]
    rows = np.unique(np.linspace(0, n - 1, min(n, max_curves)).round().astype(int))
    chosen = dataset.sel(feature=names).isel(obs=rows)

    def named(variable):
        return chosen[[variable]].rename({variable: "f"})

    backend = backend_named(backend)
    lay_out(pc_kwargs, len(names), backend=backend, sharey=True)
    mean, value = named("partial_dependence_mean"), chosen["value"]
    joined = [not level_names(value.sel(feature=name)) for name in names]
    where = {"x": value, "joined": xr.DataArray(joined, {"feature": names}, ["feature"])}
    pc = PlotCollection.wrap(mean, cols=["feature"], backend=backend, **pc_kwargs)
    gray, band = {"color": "gray", "alpha": 0.35, "width": 0.8}, named("partial_dependence_band")
    pc.map(_curves, "ice", data=named("ice_mean"), value=value, **gray)
    pc.map(intervals_along, "band", data=band, width=3, color="C0", alpha=0.35, **where)
    pc.map(means_along, "point_estimate", data=mean, size=30, color="C0", **where)
    pc.map(_labels, "labels", data=mean, y="f", value=value)
    some = f"{len(rows)} of {n} rows" if len(rows) < n else "single rows"
    units, prob = dataset.attrs["units"], dataset.attrs["ci_prob"]
    add_title(pc, f"Partial dependence [{units}], {prob:.0%} band; gray: {some}")
    return pc
