"""All derivatives at one observation, with intervals for one feature and for all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.plots.layout import add_title, backend_named, beside, lay_out
from bayes_gpx.plots.selection import (
    panel_features,
    panel_rows,
    refuse_no_dataset,
    refuse_several,
    short,
)
from bayes_gpx.plots.visuals import axis_labels, interval_bars, is_plotly, vertical_zero


def _bars(da, target, **kwargs):
    bounds = da.transpose("feature", "ci_bound").values
    return interval_bars(np.arange(len(bounds)), bounds, target, across=True, **kwargs)


def _points(da, target, **kwargs):
    backend = backend_from_object(target)
    backend.ylim((da.size - 0.4, -0.6), target)
    return backend.scatter(da.values, np.arange(da.size), target, **kwargs)


def _names(da, target, *, mean, sd, **kwargs):
    backend = backend_from_object(target)
    backend.title(f"obs: {short(da['obs'])}", target)
    numbers = zip(da["feature"].values, mean.values, sd.values, strict=True)
    between = "<br>" if is_plotly(target) else "\n"
    names = [f"{short(name)}{between}{m:.3g} ± {s:.2g}" for name, m, s in numbers]
    return backend.yticks(np.arange(len(names)), names, target, **kwargs)


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
    deviation; its value in units is written next to its name. If a dark interval excludes 0, the
    sign of this derivative is certain when the feature is considered alone. The light intervals
    hold for all features together.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.slopes`.
    obs : list of labels, optional
        Rows to plot; by default the first six.
    features : list of str, optional
        Features to plot, in this order; all by default.
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
    features, some = panel_features(dataset, features)
    chosen = dataset.isel(obs=panel_rows(dataset, obs)).sel(feature=features)
    sd = chosen["derivative_sd"]
    unit = sd.where(sd > 0)

    def named(variable):
        return xr.Dataset({"derivative": chosen[variable] / unit})

    backend = backend_named(backend)
    pc_kwargs.setdefault("col_wrap", 2)
    room = {"above": 0.8, "between": beside([*map(short, chosen["feature"].values)])}
    height = 0.9 + 0.42 * chosen.sizes["feature"]
    lay_out(pc_kwargs, chosen.sizes["obs"], height, backend=backend, **room)
    mean = named("derivative_mean")
    pc = PlotCollection.wrap(mean, cols=["obs"], backend=backend, **pc_kwargs)
    pc.map(vertical_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    wide, narrow = named("band_simultaneous_features"), named("band_pointwise")
    pc.map(_bars, "simultaneous", data=wide, color="C0", alpha=0.35, width=2)
    pc.map(_bars, "pointwise", data=narrow, color="C0", width=4)
    pc.map(_points, "point_estimate", data=mean, color="C0")
    numbers = {"mean": chosen["derivative_mean"], "sd": sd}
    pc.map(_names, "ticks", data=mean, store_artist=False, size=9, **numbers)
    pc.map(axis_labels, "xlabel", data=mean, x="derivative / its sd")
    add_title(
        pc,
        f"Derivatives{some} (mean ± sd: {dataset.attrs['units']})\n"
        f"{dataset.attrs['ci_prob']:.0%} intervals: for one feature dark, for all together light",
    )
    return pc
