"""Each feature's share of a prediction, with intervals, one panel for each observation."""

from __future__ import annotations

from typing import Any

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.plots.layout import add_title, backend_named, beside, lay_out
from bayes_gpx.plots.selection import (
    against,
    called,
    panel_rows,
    refuse_no_dataset,
    refuse_several,
    short,
    with_values,
)
from bayes_gpx.plots.visuals import (
    CERTAIN,
    NEGATIVE,
    POSITIVE,
    UNCERTAIN,
    axis_labels,
    bars_across,
    few_numbers,
    names_down,
    points_across,
    vertical_zero,
    written,
)
from bayes_gpx.validation import count

HALF = 0.3
"""Half of a bar's height."""

VALUES = 0.4
"""Width of the column of values, as a share of the width of the bars."""


def _sizes(da, target, *, interval):
    """Bars from 0, red or blue by sign, pale if the interval contains 0."""
    backend = backend_from_object(target)
    bounds = interval.transpose("feature", "ci_bound").values
    for row, (size, (low, high)) in enumerate(zip(da.values, bounds, strict=True)):
        artist = backend.fill_between_y(
            np.array([min(size, 0.0), max(size, 0.0)]),
            np.full(2, row - HALF),
            np.full(2, row + HALF),
            target,
            color=POSITIVE if size >= 0 else NEGATIVE,
            alpha=UNCERTAIN if low <= 0 <= high else CERTAIN,
        )
    return artist


def _names(da, target, *, ends, column, **kwargs):
    """Names of the features, with their values next to them or in a column on the right."""
    backend = backend_from_object(target)
    backend.xlim(ends, target)
    few_numbers(da, target)
    if not column:
        return names_down(da, target, names=with_values(da), **kwargs)
    for row, text in enumerate(with_values(da)):
        value = text.rpartition(" = ")[2]
        backend.text(ends[1], row, f"{value} ", target, horizontal_align="right", size=8)
    names = [short(name, 24) for name in da["feature"].values]
    return names_down(da, target, names=names, **kwargs)


def _title(da, target, **kwargs):
    (total,) = written(float(da.sum()), plus=True)
    return backend_from_object(target).title(f"obs {short(da['obs'])}: {total} in all", target)


def plot_contributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot contributions with their intervals, one panel for each row.

    Features are sorted by size. Red bars raise the prediction and blue ones lower it; a pale bar
    has an interval that contains 0. With several rows, the values of the features are on the right.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.contributions`, with draws.
    obs : list of labels, optional
        Rows to plot; by default the first six.
    max_features : int, optional
        Plot so many features, those with the largest mean absolute values in these rows; None for
        all.
    ci_prob : float, optional
        Probability of the equal-tailed intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no draws, and for more than 24 rows.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), Figure 1.
    """
    refuse_no_dataset(dataset, "bx.contributions")
    return _bars(dataset, "contribution", "", obs, max_features, ci_prob, backend, pc_kwargs)


def plot_attributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot attributions with their intervals, one panel for each row.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions`, with draws.
    obs, max_features, ci_prob, backend, **pc_kwargs
        As in `plot_contributions`.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no draws, for more than 24 rows, and for a dict of baselines: choose one
        with ``dataset.sel(baseline=...)``.
    """
    refuse_no_dataset(dataset, "bx.attributions")
    if "attribution" in dataset:
        refuse_several(dataset["attribution"])
    return _bars(
        dataset,
        "attribution",
        f" {against(dataset)}",
        obs,
        max_features,
        ci_prob,
        backend,
        pc_kwargs,
    )


def _bars(dataset, name, added, obs, max_features, ci_prob, backend, pc_kwargs):
    if name not in dataset:
        raise ValueError(
            f"The dataset has no draws of `{name}`. Pass the result of bx.{name}s with "
            "keep='draws'."
        )
    refuse_several(dataset[name])
    if max_features is not None:
        count("max_features", max_features)
    rows = panel_rows(dataset, obs)
    chosen, known = dataset.isel(obs=rows), dataset.sizes["feature"]
    mean = chosen[f"{name}_mean"].transpose("obs", "feature").rename(name)
    order = np.argsort(-np.abs(mean).mean("obs").values, kind="stable")[:max_features]
    prob = interval_probability(ci_prob, dataset)
    interval = interval_of(chosen, name, prob).rename(name).isel(feature=order)
    whole_mean, mean = mean, mean.isel(feature=order)
    value = chosen[["value"]].rename(value=name).isel(feature=order)

    several, extent = len(rows) > 1, np.append(interval.values, 0.0)
    low, high = np.nanmin(extent), np.nanmax(extent)
    width = (high - low) or 1.0
    ends = low - 0.05 * width, high + (VALUES if several else 0.05) * width
    backend = backend_named(backend)
    names = [short(feature, 24) for feature in mean["feature"].values]
    shared = {"sharex": True, "sharey": several}
    height = 0.9 + 0.25 * len(order)
    lay_out(pc_kwargs, len(rows), height, backend=backend, between=beside(names), **shared)
    pc = PlotCollection.wrap(chosen[[name]], cols=["obs"], backend=backend, **pc_kwargs)
    means, bounds = mean.to_dataset(), interval.to_dataset()
    pc.map(vertical_zero, "reference", data=means, color="gray", width=0.8)
    pc.map(_sizes, "sizes", data=means, interval=interval)
    pc.map(bars_across, "credible_interval", data=bounds, color="black", width=1.2)
    pc.map(points_across, "point_estimate", data=means, color="black", size=12)
    pc.map(_names, "ticks", data=value, ends=ends, column=several, store_artist=False)
    pc.map(_title, "title", data=whole_mean.to_dataset())
    pc.map(axis_labels, "xlabel", data=means, x=name)
    some = f" ({len(order)} largest of {known} features)" if len(order) < known else ""
    words = f"{called(name, dataset)}{added}{some} [{dataset.attrs['units']}]"
    words += f": mean and {prob:.0%} interval"
    add_title(pc, f"{words}; pale: contains 0")
    return pc
