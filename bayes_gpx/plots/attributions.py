"""Attributions and contributions with intervals: bars and a waterfall."""

from __future__ import annotations

from typing import Any

import arviz_stats  # noqa: F401
import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from arviz_plots.visuals import annotate_xy, line_x, set_xlim, set_xticks, vline
from matplotlib.ticker import MaxNLocator

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.intervals import BOUNDS, interval_of, interval_of_sum, interval_probability
from bayes_gpx.draws.naming import units_of_result
from bayes_gpx.plots.layout import LETTER, WIDTH, beside, columns_for, draw, room_right
from bayes_gpx.plots.selection import (
    ONE_UNIT,
    against,
    at_baseline,
    called,
    digits,
    short,
    shortened,
    shown,
    values_of,
    whole,
    with_values,
)
from bayes_gpx.plots.visuals import (
    MINUS,
    bars_across,
    few_numbers,
    label_axes,
    names_down,
    points_across,
    sized_bars,
    texts_down,
    with_gaps,
    written,
)
from bayes_gpx.validation import count

BLACK, GRAY = {"color": "black"}, {"color": "gray", "width": 1}
FRAME = BLACK | {"width": 0.8}
"""Style of the line between two columns with scales of their own."""

VALUES = 0.4
"""Width of the column of values, as a share of the width of the bars."""

SPACE = 0.08
"""Room between the columns of a waterfall, as a share of the width of the bars."""

NUMBERS = 1.7
"""Width of the column of numbers of a waterfall, in inches."""

TICK = 0.4
"""Least distance of two numbers below a waterfall, in inches."""


def plot_contributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot contributions with their intervals, one panel for each row and class.

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
        If the dataset has no draws, and for more than 24 panels or several outputs.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), Figure 1.
    """
    return _bars(dataset, "contribution", obs, max_features, ci_prob, backend, pc_kwargs)


def plot_attributions(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    max_features: int | None = 10,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot attributions with their intervals, one panel for each row, class and baseline.

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
        If the dataset has no draws, and for more than 24 panels or several outputs.
    """
    return _bars(dataset, "attribution", obs, max_features, ci_prob, backend, pc_kwargs)


def _title(da: xr.DataArray, target: Any) -> Any:
    """Write the sum over all features above a panel."""
    (total,) = written(float(da.sum()), plus=True)
    name, text = short(da["obs"], 20), da["obs"].dtype.kind in "UO"
    said = name if text else f"observation {name}"  # beside which a text has no room
    return backend_from_object(target).title(f"{said}\n{total} in all", target)


def _bars(
    dataset: xr.Dataset,
    name: str,
    obs: Labels | None,
    max_features: int | None,
    ci_prob: float | None,
    backend: Backend | None,
    pc_kwargs: dict[str, Any],
) -> PlotCollection:
    """Draw the bars of the largest features, one panel for each row."""
    found = shown(dataset, [name], obs=obs, ci_prob=ci_prob, draws=True, panels=True, apart="obs")
    if max_features is not None:
        count("max_features", max_features)
    every, known = found["mean"].rename(name), found.sizes["feature"]
    order = np.argsort(-abs(every).mean("obs").values, kind="stable")[:max_features]
    found = found.isel(feature=order)
    mean, value, interval = found["mean"].rename(name), found["value"], found["interval"]
    extent = np.append(interval.values, 0.0)
    low, high = np.nanmin(extent), np.nanmax(extent)
    width, several = (high - low) or 1.0, found.sizes["obs"] > 1
    names, texts = shortened(mean["feature"].values, 24), values_of(value)
    columns = pc_kwargs.get("col_wrap", columns_for(found.sizes["obs"]))
    room = max(VALUES, room_right(texts, names, columns)) if several else 0.05
    right = high + room * width
    right_column = {"x": right, "horizontal_align": "right", "size": 8}
    values = [("", texts_down, texts + " ", right_column)] if several else []
    rows = names if several else with_values(value.isel(obs=0))
    some = f" ({len(order)} largest of {known} features)" if len(order) < known else ""
    prob = interval_probability(ci_prob, dataset)
    words = f"{found.attrs['title']}{some} [{units_of_result(dataset)}]"
    return draw(
        mean,
        [
            ("reference", vline, 0.0, {"color": "gray", "width": 0.8}),
            ("sizes", sized_bars, mean, {"interval": interval, "half": 0.3}),
            ("credible_interval", bars_across, interval, {"width": 1.2, **BLACK}),
            ("point_estimate", points_across, mean, {"size": 12, **BLACK}),
            ("", set_xlim, 0.0, {"limits": (low - 0.05 * width, right)}),
            ("", few_numbers, mean, {}),
            *values,
            ("", names_down, mean, {"names": rows}),
            ("title", _title, every, {}),
            ("xlabel", label_axes, mean, {"x": name}),
        ],
        f"{words}: mean and {prob:.0%} interval; pale: contains 0"
        + "; on the right: values of the features" * several,
        pc_kwargs,
        backend=backend,
        cols=["obs"],
        height=0.9 + 0.25 * len(order),
        between=beside(names),
        sharex=True,
        sharey=several,
    )


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
    line at 0 and a scale of its own below it; both scales have the same units per inch.

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
    row, name = found["row"].item(), found.attrs["name"]
    one, prob = dataset.isel(obs=row), interval_probability(ci_prob, dataset)
    values = one[f"{name}_mean"].values
    order = np.argsort(-np.abs(values), kind="stable")
    first, rest = np.split(order, [len(order) if max_features is None else max_features])
    mean, names = values[first].tolist(), with_values(one["value"].isel(feature=first))
    ends = list(interval_of(one, name, prob).transpose("feature", "ci_bound").values[first])
    if "difference" in one:
        total, total_ends = one["difference_mean"].item(), interval_of(one, "difference", prob)
    else:
        total, total_ends = values.sum(), interval_of_sum(one, name, order, prob)
    if len(rest):
        mean.append(total - sum(mean))
        names.append("1 other feature" if len(rest) == 1 else f"{len(rest)} other features")
        ends.append(interval_of_sum(one, name, rest, prob).values)
    ends.append(total_ends.values)
    interval = xr.DataArray(ends, {"ci_bound": BOUNDS}, ["step", "ci_bound"])
    steps = xr.DataArray([*mean, total], dims="step", name=name)

    origin, (top, bottom), axis = _origin(dataset, predictions, row, name)
    names = [top, *names, bottom]
    starts = origin + np.append(0.0, np.cumsum(mean)[:-1])
    reached = [origin, *(starts + mean), origin + total]
    low, high = min(reached), max(reached)
    each, bounds = steps[:-1], interval[:-1]
    width = max(high - low, np.ptp(bounds.values)) or 1.0
    zero = high + SPACE * width - min(bounds.values.min(), 0.0)
    right = zero + max(bounds.values.max(), 0.0) + SPACE * width
    room = WIDTH - 0.3 - LETTER * max(map(len, names))
    moments = zip(steps.values, *interval.values.T, strict=True)
    texts = ["{} [{}, {}]".format(*written(*three, plus=True)) for three in moments]
    texts[-1] += " in all"
    numbers = max(NUMBERS, 0.83 * LETTER * max(map(len, texts)))
    figure_width = (right - low) * room / (room - numbers)
    limits = (low - SPACE * (high - low), low + figure_width)
    inch = figure_width / room
    ticks = _few(low, high, inch, 3 if 4 * (high - low) > figure_width else 2)
    longest = max(len(f"{t:+.6g}") for t in MaxNLocator(1).tick_values(0.0, np.abs(bounds).max()))
    apart = max(TICK, LETTER * longest) * inch
    alone = _scale(min(bounds.values.min(), 0.0), max(bounds.values.max(), 0.0), apart)
    alone = [t for t in alone if zero + t > ticks[-1] + apart] if ticks else alone
    marked = [f"{t:.6g}" for t in ticks] + [f"{t:+.6g}" if t else "0" for t in alone]
    marked = [text.replace("-", MINUS) for text in marked]
    heading = {"text": f"step, {prob:.0%} interval", "y": 0}
    column = {"x": right, "horizontal_align": "left", "size": 9}
    rows = np.array([0.4, len(mean) + 0.6])
    edge = high + 0.5 * SPACE * width
    marks = with_gaps(np.tile(rows, (len(alone), 1)))
    places = xr.DataArray(np.repeat(zero + np.array(alone), 3))
    step_bars = {"interval": bounds, "start": starts, "y": 1, "half": 0.32, "connected": True}
    whole_bar = {"half": 0.32, "interval": interval[-1:], "start": origin, "y": len(steps)}
    whole_bar["color"] = "gray"
    words = f"{called(name, dataset)} of observation {short(found['obs'][0])}"
    words = f"{words} {against(dataset)}".rstrip()
    return draw(
        steps,
        [
            ("steps", sized_bars, each, step_bars),
            ("", sized_bars, steps[-1:], whole_bar),
            ("", line_x, xr.DataArray([origin, origin]), {"y": np.array([0.0, 1.0]), **GRAY}),
            (
                "",
                line_x,
                xr.DataArray([edge, edge]),
                {"y": np.array([-0.6, len(names) - 0.4]), **FRAME},
            ),
            ("scale", line_x, places, {"y": marks, "color": "lightgray", "width": 0.8}),
            ("", line_x, xr.DataArray([zero, zero]), {"y": rows, "color": "gray", "width": 1}),
            ("credible_interval", bars_across, zero + bounds, {"y": 1.0, "width": 1.2, **BLACK}),
            ("points", points_across, zero + each, {"y": 1.0, "size": 12, **BLACK}),
            ("numbers", texts_down, xr.DataArray(texts), {"y": 1, **column}),
            ("", annotate_xy, steps, heading | column),
            ("", set_xlim, 0.0, {"limits": limits}),
            (
                "",
                set_xticks,
                0.0,
                {"values": [*ticks, *(zero + t for t in alone)], "labels": marked},
            ),
            ("", names_down, steps, {"names": names}),
            ("xlabel", label_axes, steps, {"x": f"{axis}; on the right: each step alone"}),
        ],
        f"{words}; pale: the {prob:.0%} interval contains 0",
        pc_kwargs,
        backend=backend,
        height=0.8 + 0.26 * len(names),
    )


def _few(low: float, high: float, inch: float, most: int) -> list[float]:
    """At most so many steps of numbers from `low` to `high` that do not touch; `inch` wide each."""
    ticks: list[float] = []
    for steps in range(most, 0, -1):
        ticks = [t for t in MaxNLocator(steps).tick_values(low, high) if low <= t <= high]
        longest = max((len(f"{t:.6g}") for t in ticks), default=0)
        if len(ticks) < 2 or np.diff(ticks).min() >= max(TICK, LETTER * longest) * inch:
            return ticks
    return ticks[:1]


def _scale(low: float, high: float, apart: float) -> list[float]:
    """Numbers from `low` to `high`, with 0 among them, at least so far apart."""
    for most in (4, 3, 2, 1):
        ticks = [t for t in MaxNLocator(most).tick_values(low, high) if low <= t <= high]
        if len(ticks) > 1 and np.diff(ticks).min() >= apart:
            return ticks
    return [0.0]


def _origin(
    dataset: xr.Dataset, predictions: xr.Dataset | None, row: int, name: str
) -> tuple[float, tuple[str, str], str]:
    """Origin of the first step, names of the first and the last line, and the axis label."""
    units, last = units_of_result(dataset), "prediction"
    if predictions is not None:
        if "smooth_mean" in predictions:  # attributions exclude the deviations of a GPX's rows
            predictions = predictions.assign(f_mean=predictions["smooth_mean"])
            last = "smooth prediction"
        begin, first = float(at_baseline(dataset, predictions).values[row]), "baseline"
    elif "offset" in dataset:
        begin, first = dataset["offset"].isel(obs=row, missing_dims="ignore").item(), "offset"
    else:
        total = whole(name, dataset)
        axis = units if "weight" in dataset.attrs else f"{total} [{units}]"  # both are too long
        return 0.0, ("baseline", total), axis
    scale = "mean response" if dataset.attrs.get("scale") == "response" else "f"
    end = begin + float(dataset[f"{name}_mean"].isel(obs=row).sum())
    return begin, (f"{first}: {digits(begin)}", f"{last}: {digits(end)}"), f"{scale} [{units}]"
