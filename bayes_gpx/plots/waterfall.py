"""From f(baseline) to f(x), one feature after another, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.intervals import interval_of, interval_of_sum, interval_probability
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import ONE_UNIT, against, called, short, shown, whole, with_values
from bayes_gpx.plots.visuals import axis_labels, interval_bars, vertical_zero

HALF = 0.32
"""Half of a bar's height."""


def _steps(da, target, *, start):
    backend = backend_from_object(target)
    for row, (begin, step) in enumerate(zip(start, da.values, strict=True)):
        artist = backend.fill_between_y(
            np.array([begin, begin + step]),
            np.full(2, row - HALF),
            np.full(2, row + HALF),
            target,
            color="gray" if row + 1 == da.size else "C0" if step >= 0 else "C1",
            alpha=0.6,
        )
        if row + 1 < da.size:
            ends = np.full(2, begin + step)
            backend.line(ends, np.array([row, row + 1.0]), target, color="gray", width=1)
    return artist


def _bars(da, target, *, start, **kwargs):
    bounds = da.transpose("step", "ci_bound").values + start[:, None]
    return interval_bars(np.arange(len(start)), bounds, target, across=True, **kwargs)


def _numbers(da, target, *, interval, start, **kwargs):
    backend = backend_from_object(target)
    bounds = interval.transpose("step", "ci_bound").values
    ends = np.column_stack([start, start + da.values, *(start + bounds.T)])
    width = np.ptp(ends) or 1.0
    for row, (step, (low, high)) in enumerate(zip(da.values, bounds, strict=True)):
        text = f"{step:+.3g} [{low:.3g}, {high:.3g}]"
        artist = backend.text(
            ends.max() + 0.03 * width, row, text, target, horizontal_align="left", **kwargs
        )
    backend.xlim((ends.min() - 0.05 * width, ends.max() + 0.45 * width), target)
    backend.ylim((da.size - 0.4, -0.6), target)
    return artist


def _names(da, target, *, names, **kwargs):
    return backend_from_object(target).yticks(np.arange(len(names)), names, target, **kwargs)


def plot_waterfall(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot how the attributions of one observation lead from f(baseline) to f(x), step by step.

    Each row is the step of one feature, the largest first, followed by one step for all remaining
    features; the last row is the total. The interval of a step is that of the step alone, as if the
    steps before it were known. The scale starts at 0, which stands for f(baseline).

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.attributions` or `bayes_gpx.contributions` returned, with draws. The
        steps of contributions start at `offset`.
    obs : label
        Which observation to plot; needed if the dataset has several.
    max_features : int
        How many features have steps of their own; all others are shown as one step.
    ci_prob : float, optional
        Probability of the equal-tailed intervals; that of the dataset by default.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed on to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset holds no draws or several baselines, or if `obs` does not choose exactly one
        of several observations.
    """
    found = shown(dataset, ONE_UNIT, obs=obs, ci_prob=ci_prob, draws=True)
    if found.sizes["obs"] != 1:
        raise ValueError(
            f"{found.sizes['obs']} observations; a waterfall is of one. Pass its label as obs=, "
            f"such as {dataset['obs'].values[0]}."
        )
    one = dataset.isel(obs=found["row"].item())
    name, order = found.attrs["name"], np.argsort(-np.abs(found["mean"].values[0]), kind="stable")
    prob = interval_probability(ci_prob, dataset)
    first, rest = np.split(order, [len(order) if max_features is None else max_features])
    ends = interval_of(one, name, prob).transpose("feature", "ci_bound")
    bounds = [ends.isel(feature=i, drop=True) for i in first]
    mean = [one[f"{name}_mean"].values[i] for i in first]
    added = one["difference_mean"] if "difference" in one else one[f"{name}_mean"].sum("feature")
    names = with_values(one["value"].isel(feature=first))
    if len(rest):
        bounds.append(interval_of_sum(one, name, rest, prob))
        mean.append(float(added) - sum(mean))
        names.append("1 other feature" if len(rest) == 1 else f"{len(rest)} other features")
    start = np.concatenate([[0.0], np.cumsum(mean)[:-1], [0.0]])
    names.append(whole(name, dataset))
    if "difference" in one:
        bounds.append(interval_of(one, "difference", prob))
    else:
        bounds.append(interval_of_sum(one, name, order, prob))
    bounds = [bound.reset_coords(drop=True) for bound in bounds]
    interval = xr.Dataset({name: xr.concat(bounds, "step")})
    found_mean = xr.Dataset({name: ("step", [*mean, float(added)])})

    backend = backend_named(backend)
    size = 6.4 + 0.11 * max(map(len, names)), 1.2 + 0.34 * len(names)
    lay_out(pc_kwargs, 1, size, backend=backend)
    pc = PlotCollection.wrap(found_mean, backend=backend, **pc_kwargs)
    pc.map(vertical_zero, "reference", data=found_mean, color="gray", linestyle="C1", alpha=0.6)
    pc.map(_steps, "steps", data=found_mean, start=start)
    pc.map(_bars, "credible_interval", data=interval, start=start, color="black", width=1.5)
    pc.map(_numbers, "numbers", data=found_mean, interval=interval, start=start, size=9)
    pc.map(_names, "ticks", data=found_mean, names=names, store_artist=False)
    axis = f"{whole(name, dataset)} [{dataset.attrs['units']}]"
    pc.map(axis_labels, "xlabel", data=found_mean, x=axis)
    words = ", ".join(
        filter(None, [f"{called(name, dataset)} of obs {short(found['obs'][0])}", against(dataset)])
    )
    add_title(pc, f"{words}\nsteps of the mean, with each step's {found.attrs['interval']}")
    return pc
