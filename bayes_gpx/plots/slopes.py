"""All derivatives at one observation, with intervals for one feature and for all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import add_legend, add_title, backend_named, beside, lay_out
from bayes_gpx.plots.selection import (
    covers_zero,
    panel_features,
    panel_rows,
    refuse_no_dataset,
    refuse_several,
    short,
)
from bayes_gpx.plots.visuals import (
    NEGATIVE,
    POSITIVE,
    axis_labels,
    bars_across,
    coloured_points,
    names_down,
    vertical_zero,
    written,
)

NUMBERS = {1: 0.2, 2: 0.45}
"""Width of the column of numbers, as a share of the intervals' width, by the number of panels."""


def _points(da, target, *, unsure, **kwargs):
    colour, at = np.where(da.values >= 0, POSITIVE, NEGATIVE), np.arange(da.size)
    for hollow in (True, False):
        one = unsure.values == hollow
        if one.any():
            drawn = {"hollow": hollow, **kwargs}
            artist = coloured_points(da.values[one], at[one], colour[one], target, **drawn)
    return artist


def _names(da, target, *, mean, sd, ends, **kwargs):
    backend = backend_from_object(target)
    backend.title(f"obs {short(da['obs'])}", target)
    backend.xlim(ends, target)
    for row, numbers in enumerate(zip(mean.values, sd.values, strict=True)):
        text = "{} ± {}".format(*written(*numbers))
        backend.text(ends[1], row, text, target, horizontal_align="right", size=8)
    names = [short(name, 24) for name in da["feature"].values]
    return names_down(da, target, names=names, **kwargs)


def plot_slopes(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the derivatives in all features, one panel for each row.

    Units differ between features, so each derivative is drawn in multiples of its standard
    deviation. Its value in units is on the right. Features are sorted by the largest such multiple
    of these rows. The dark interval is for one feature alone, and the light interval holds for all
    features together. A point is red if the mean is positive and blue if it is negative; it is
    hollow if the dark interval contains 0.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.slopes`.
    obs : list of labels, optional
        Rows to plot; by default the first six.
    features : list of str, optional
        Features to plot, in this order; by default all, sorted.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no bands, for unknown rows or features, and for more than 24 rows.
    """
    refuse_no_dataset(dataset, "bx.slopes")
    if "band_simultaneous_features" not in dataset:
        raise ValueError(
            "The dataset has no `band_simultaneous_features`. Pass the result of bx.slopes."
        )
    refuse_several(dataset["band_simultaneous_features"])
    chosen = dataset.isel(obs=panel_rows(dataset, obs))
    ratio = abs(chosen["derivative_mean"] / chosen["derivative_sd"]).max("obs").values
    known = chosen["feature"].values[np.argsort(-np.nan_to_num(ratio), kind="stable")].tolist()
    features, some = panel_features(dataset, features, known)
    chosen = chosen.sel(feature=features)
    sd, count = chosen["derivative_sd"], chosen.sizes["obs"]
    unit = sd.where(sd > 0)

    def named(variable):
        return xr.Dataset({"derivative": chosen[variable] / unit})

    mean, unsure = named("derivative_mean"), covers_zero(chosen["band_pointwise"])
    wide, narrow = named("band_simultaneous_features"), named("band_pointwise")
    low, high = (float(end(wide["derivative"].fillna(0.0))) for end in (np.min, np.max))
    backend, height = backend_named(backend), 0.9 + 0.25 * len(features)
    shared = {"sharex": True, "sharey": True, "between": beside([short(f, 24) for f in features])}
    lay_out(pc_kwargs, count, height, backend=backend, above=0.8, **shared)
    room = (high - low) * NUMBERS.get(min(count, pc_kwargs["col_wrap"]), 0.75)
    pc = PlotCollection.wrap(mean, cols=["obs"], backend=backend, **pc_kwargs)
    pc.map(vertical_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    each, together = {"color": "gray", "width": 4}, {"color": "gray", "alpha": 0.4, "width": 2}
    pc.map(bars_across, "simultaneous", data=wide, **together)
    pc.map(bars_across, "pointwise", data=narrow, **each)
    pc.map(_points, "point_estimate", data=mean, unsure=unsure, size=30, width=1.5)
    numbers = {"mean": chosen["derivative_mean"], "sd": sd, "ends": (low - 0.3, high + room)}
    pc.map(_names, "ticks", data=mean, store_artist=False, **numbers)
    pc.map(axis_labels, "xlabel", data=mean, x="slope / its sd")
    prob = f"{dataset.attrs['ci_prob']:.0%}"
    signs = {"rises": {"color": POSITIVE}, "falls": {"color": NEGATIVE}}
    add_legend(pc, {f"{prob}, each": each, f"{prob}, all together": together} | signs)
    known = dataset.sizes["obs"]
    rows = f" in {count} of {known} rows" if count < known else ""
    add_title(
        pc,
        f"Slopes{some}{rows}, mean ± sd [{dataset.attrs['units']}]; "
        f"hollow: the {prob} interval of this slope alone contains 0",
    )
    return pc
