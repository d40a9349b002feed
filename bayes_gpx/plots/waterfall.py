"""From f(baseline) to f(x), one feature after another, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from matplotlib.ticker import MaxNLocator

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.intervals import interval_of, interval_of_sum, interval_probability
from bayes_gpx.plots.layout import LETTER, WIDTH, add_title, backend_named, lay_out
from bayes_gpx.plots.selection import (
    ONE_UNIT,
    against,
    at_baseline,
    called,
    short,
    shown,
    whole,
    with_values,
)
from bayes_gpx.plots.visuals import (
    CERTAIN,
    NEGATIVE,
    POSITIVE,
    UNCERTAIN,
    axis_labels,
    interval_bars,
    written,
)

HALF = 0.32
"""Half of a bar's height."""

GAP = 0.06
"""Room between the columns of bars, intervals and numbers, as a share of the width of the bars."""

NUMBERS = 1.7
"""Width of the column of numbers, in inches."""


def _steps(da, target, *, interval, start):
    """Bars from where each step begins; the last one is the total."""
    backend = backend_from_object(target)
    bounds = interval.transpose("step", "ci_bound").values
    for row, (begin, step, (low, high)) in enumerate(zip(start, da.values, bounds, strict=True)):
        total = row + 1 == da.size
        artist = backend.fill_between_y(
            np.array([begin, begin + step]),
            np.full(2, row + 1 - HALF),
            np.full(2, row + 1 + HALF),
            target,
            color="gray" if total else POSITIVE if step >= 0 else NEGATIVE,
            alpha=UNCERTAIN if low <= 0 <= high else CERTAIN,
        )
        if not total:
            ends = np.full(2, begin + step)
            backend.line(ends, np.array([row + 1, row + 2.0]), target, color="gray", width=1)
    backend.line(np.full(2, start[0]), np.array([0.0, 1.0]), target, color="gray", width=1)
    return artist


def _intervals(da, target, *, at, **kwargs):
    """Intervals of all steps but the total, each around its own 0, in the scale of the bars."""
    bounds = da.transpose("step", "ci_bound").values[:-1]
    rows = 1 + np.arange(len(bounds))
    ends = np.array([0.4, len(bounds) + 0.6])
    backend = backend_from_object(target)
    backend.line(np.full(2, at), ends, target, color="gray", width=0.8)
    backend.text(at, 0, "0", target, horizontal_align="center", size=9, color="gray")
    return interval_bars(rows, at + bounds, target, across=True, **kwargs)


def _points(da, target, *, at, **kwargs):
    rows = np.arange(1.0, da.size)
    return backend_from_object(target).scatter(at + da.values[:-1], rows, target, **kwargs)


def _numbers(da, target, *, interval, at, prob, **kwargs):
    backend = backend_from_object(target)
    bounds = interval.transpose("step", "ci_bound").values
    for row, (step, (low, high)) in enumerate(zip(da.values, bounds, strict=True)):
        text = "{} [{}, {}]".format(*written(step, low, high, plus=True))
        text += " in all" if row + 1 == da.size else ""
        backend.text(at, row + 1, text, target, horizontal_align="left", **kwargs)
    heading = f"step, {prob:.0%} interval"
    return backend.text(at, 0, heading, target, horizontal_align="left", **kwargs)


def _frame(da, target, *, ends, width, names, **kwargs):
    """Limits, numbers below the bars alone, and names of the rows."""
    backend = backend_from_object(target)
    low, high = ends
    backend.xlim((low - GAP * (high - low), low + width), target)
    backend.ylim((da.size + 0.6, -0.6), target)
    ticks = [
        t
        for t in MaxNLocator(3 if 4 * (high - low) > width else 2).tick_values(low, high)
        if low <= t <= high
    ]
    backend.xticks(ticks, [f"{t:.6g}".replace("-", "\N{MINUS SIGN}") for t in ticks], target)
    return backend.yticks(np.arange(len(names)), names, target, **kwargs)


def plot_waterfall(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    predictions: xr.Dataset | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot how attributions of one row lead from the baseline to the prediction.

    Each line is the step of one feature, the largest first, followed by one step for all remaining
    features; the last line is the total. Steps up are red and steps down are blue. A pale step has
    an interval that contains 0. A separate column shows the interval of each step alone, with a
    line at 0.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.attributions` or `bayes_gpx.contributions`, with draws. The steps of
        contributions start at `offset`.
    obs : label
        The row to plot; required if the dataset has several.
    predictions : xarray.Dataset, optional
        A result of `bayes_gpx.predictions` for the same rows. The axis then runs from the
        prediction at the baseline to the prediction at the row, in units of the response. In a GPX
        both exclude the deviation of the row, which no attribution contains. Without predictions
        the axis begins at 0. Contributions begin at their `offset`.
    max_features : int
        Number of features with separate steps; all others are shown as one step.
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
        If the dataset has no draws or several baselines, or if `obs` does not choose exactly one of
        several rows; for predictions that do not fit the dataset.
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
    if "difference" in one:
        bounds.append(interval_of(one, "difference", prob))
    else:
        bounds.append(interval_of_sum(one, name, order, prob))
    bounds = [bound.reset_coords(drop=True) for bound in bounds]
    interval = xr.Dataset({name: xr.concat(bounds, "step")})
    steps = xr.Dataset({name: ("step", [*mean, float(added)])})

    origin, what, axis = _origin(dataset, one, predictions, found, name)
    start = origin + np.concatenate([[0.0], np.cumsum(mean)[:-1], [0.0]])
    tops = np.concatenate([start, start + steps[name].values])
    low, high = tops.min(), tops.max()
    extent = interval[name].isel(step=slice(-1)).values
    width = max(high - low, np.ptp(extent)) or 1.0
    zero = high + GAP * width - min(extent.min(), 0.0)
    text = zero + max(extent.max(), 0.0) + GAP * width
    names = [what[0], *names, what[1]]
    room = WIDTH - 0.3 - LETTER * max(map(len, names))
    figure_width = (text - low) * room / (room - NUMBERS)

    backend = backend_named(backend)
    lay_out(pc_kwargs, 1, 0.8 + 0.26 * len(names), backend=backend)
    pc = PlotCollection.wrap(steps, backend=backend, **pc_kwargs)
    pc.map(_steps, "steps", data=steps, interval=interval, start=start)
    pc.map(_intervals, "credible_interval", data=interval, at=zero, color="black", width=1.2)
    pc.map(_points, "points", data=steps, at=zero, color="black", size=12)
    pc.map(_numbers, "numbers", data=steps, interval=interval, at=text, prob=prob, size=9)
    frame = {"ends": (low, high), "width": figure_width, "names": names}
    pc.map(_frame, "ticks", data=steps, **frame, store_artist=False)
    pc.map(axis_labels, "xlabel", data=steps, x=axis)
    words = f"{called(name, dataset)} of obs {short(found['obs'][0])} {against(dataset)}".rstrip()
    add_title(pc, f"{words}; pale: the {prob:.0%} interval contains 0")
    return pc


def _origin(dataset, one, predictions, found, name):
    """Origin of the first step, names of the first and the last line, and the axis label."""
    units = dataset.attrs["units"]
    last = "prediction"
    if predictions is not None:
        if "smooth_mean" in predictions:  # attributions exclude the deviations of a GPX's rows
            predictions = predictions.assign(f_mean=predictions["smooth_mean"])
            last = "smooth prediction"
        begin = float(at_baseline(dataset, predictions).values[found["row"].item()])
        first = "baseline"
    elif "offset" in dataset:
        begin, first = one["offset"].item(), "offset"
    else:
        return 0.0, ("baseline", whole(name, dataset)), f"{whole(name, dataset)} [{units}]"
    scale = "mean response" if dataset.attrs.get("scale") == "response" else "f"
    end = begin + float(found["mean"].sum())
    return begin, (f"{first}: {begin:.4g}", f"{last}: {end:.4g}"), f"{scale} [{units}]"
