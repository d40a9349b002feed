"""Scores of submodels of growing size, relative to the model of all features."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend
from bayes_gpx.assess.project import Projection
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import short
from bayes_gpx.plots.visuals import (
    axis_labels,
    bars_across,
    names_down,
    points_across,
    vertical_zero,
)


def _suggestion(da, target, *, row, **kwargs):
    return backend_from_object(target).hline(row, target, **kwargs)


def plot_project(
    found: Projection, *, backend: Backend | None = None, **pc_kwargs: Any
) -> PlotCollection:
    """Plot the scores of all submodels, from small to large.

    Each line is the difference of the expected log predictive density (elpd) from the model with
    all features, with one standard error to both sides. A dotted line marks the suggested size.

    Parameters
    ----------
    found : Projection
        A result of `bayes_gpx.project`.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For anything but a result of `bayes_gpx.project`.
    """
    if not isinstance(found, Projection):
        raise ValueError(
            f"The plot was given a {type(found).__name__}. Pass the Projection that bx.project "
            "returned."
        )
    table, backend = found.table, backend_named(backend)
    names = [
        f"{size}: + {short(feature)}" if size else "0: no feature"
        for size, feature in table["feature"].items()
    ]
    data = table[["elpd_diff"]].to_xarray()
    lay_out(pc_kwargs, 1, 0.7 + 0.25 * len(names), backend=backend)
    pc = PlotCollection.wrap(data, backend=backend, **pc_kwargs)
    pc.map(vertical_zero, "reference", data=data, color="gray", linestyle="C1", alpha=0.6)
    if found.suggested is not None:
        row = table.index.get_loc(found.suggested)
        style = {"color": "C1", "linestyle": "C2"}
        pc.map(_suggestion, "suggested", data=data, row=row, **style)
    ends = np.stack([table["elpd_diff"] - table["se"], table["elpd_diff"] + table["se"]], axis=1)
    band = xr.Dataset({"elpd_diff": (("size", "ci_bound"), ends)})
    pc.map(names_down, "names", data=data, names=names, store_artist=False)
    pc.map(bars_across, "interval", data=band, width=3, color="C0")
    pc.map(points_across, "point_estimate", data=data, color="C0")
    pc.map(axis_labels, "labels", data=data, x="difference of elpd from all features, in nats")
    said = "none" if found.suggested is None else str(found.suggested)
    add_title(pc, f"Submodels by number of features, suggested: {said}")
    return pc
