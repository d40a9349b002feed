"""Each feature's share of a prediction, with intervals, one panel for each observation."""

from __future__ import annotations

from typing import Any

import arviz_stats  # noqa: F401
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
from bayes_gpx.plots.visuals import axis_labels, interval_bars, vertical_zero


def _interval(da, target, *, position, **kwargs):
    bounds = da.transpose("feature", "ci_bound").values
    return interval_bars(position, bounds, target, across=True, **kwargs)


def _points(da, target, *, position, **kwargs):
    return backend_from_object(target).scatter(da.values, position, target, **kwargs)


def _names(da, target, *, position, **kwargs):
    backend = backend_from_object(target)
    backend.ylim((-0.6, len(position) - 0.4), target)
    return backend.yticks(position, with_values(da), target, **kwargs)


def _title(da, target, *, text, **kwargs):
    return backend_from_object(target).title(f"{text}: {short(da['obs'])}", target, **kwargs)


def plot_contributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot contributions with their intervals, one panel for each row.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.contributions`, with draws.
    obs : list of labels, optional
        Rows to plot; by default the first six.
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
    return _bars(dataset, "contribution", "", obs, ci_prob, backend, pc_kwargs)


def plot_attributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot attributions with their intervals, one panel for each row.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions`, with draws.
    obs, ci_prob, backend, **pc_kwargs
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
    return _bars(dataset, "attribution", f", {against(dataset)}", obs, ci_prob, backend, pc_kwargs)


def _bars(dataset, name, added, obs, ci_prob, backend, pc_kwargs):
    if name not in dataset:
        raise ValueError(
            f"The dataset has no draws of `{name}`; expected the result of bx.{name}s with "
            "keep='draws'."
        )
    refuse_several(dataset[name])
    rows = panel_rows(dataset, obs)
    # Features from top to bottom in their own order.
    chosen = dataset.isel(obs=rows, feature=slice(None, None, -1))
    draws = chosen[[name]]
    backend = backend_named(backend)
    height = draws.sizes["feature"]
    size = 5.4, 1.2 + 0.28 * height
    names = [
        name for row in range(len(rows)) for name in with_values(chosen["value"].isel(obs=row))
    ]
    lay_out(pc_kwargs, len(rows), size, backend=backend, between=beside(names), sharex=True)
    pc = PlotCollection.wrap(draws, cols=["obs"], backend=backend, **pc_kwargs)
    prob = interval_probability(ci_prob, dataset)
    position = list(range(height))
    mean = chosen[[f"{name}_mean"]].rename({f"{name}_mean": name})
    value = chosen[["value"]].rename(value=name)
    interval = interval_of(chosen, name, prob).rename(name).to_dataset()
    pc.map(vertical_zero, "reference", data=mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_interval, "credible_interval", data=interval, position=position, color="C0", width=2)
    pc.map(_points, "point_estimate", data=mean, position=position, color="C0")
    pc.map(_names, "ticks", data=value, position=position, store_artist=False)
    pc.map(_title, "title", data=mean, text="obs")
    pc.map(axis_labels, "xlabel", data=mean, x=f"{name} [{dataset.attrs['units']}]")
    add_title(pc, f"{called(name, dataset)}{added}: mean and {prob:.0%} interval")
    return pc
