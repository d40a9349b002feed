"""Attributions and contributions of single observations, with intervals: bars and a waterfall."""

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
from bayes_gpx.plots.layout import LETTER, WIDTH, beside, draw
from bayes_gpx.plots.selection import (
    ONE_UNIT,
    against,
    at_baseline,
    called,
    panel_rows,
    refuse_no_dataset,
    refuse_several,
    short,
    shown,
    values_of,
    whole,
    with_values,
)
from bayes_gpx.plots.visuals import (
    bars_across,
    few_numbers,
    label_axes,
    names_down,
    points_across,
    sized_bars,
    texts_down,
    written,
)
from bayes_gpx.validation import count

BLACK, GRAY = {"color": "black"}, {"color": "gray", "width": 1}

VALUES = 0.4
"""Width of the column of values, as a share of the width of the bars."""

SPACE = 0.06
"""Room between the columns of a waterfall, as a share of the width of the bars."""

NUMBERS = 1.7
"""Width of the column of numbers of a waterfall, in inches."""


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
    start = f" {against(dataset)}"
    return _bars(dataset, "attribution", start, obs, max_features, ci_prob, backend, pc_kwargs)


def _title(da: xr.DataArray, target: Any) -> Any:
    """Write the sum over all features above a panel."""
    (total,) = written(float(da.sum()), plus=True)
    return backend_from_object(target).title(f"obs {short(da['obs'])}: {total} in all", target)


def _bars(
    dataset: xr.Dataset,
    name: str,
    start: str,
    obs: Labels | None,
    max_features: int | None,
    ci_prob: float | None,
    backend: Backend | None,
    pc_kwargs: dict[str, Any],
) -> PlotCollection:
    """Draw the bars of the largest features, one panel for each row."""
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
    every = chosen[f"{name}_mean"].transpose("obs", "feature").rename(name)
    order = np.argsort(-abs(every).mean("obs").values, kind="stable")[:max_features]
    prob = interval_probability(ci_prob, dataset)
    interval = interval_of(chosen, name, prob).isel(feature=order)
    mean, value = every.isel(feature=order), chosen["value"].isel(feature=order)
    extent = np.append(interval.values, 0.0)
    low, high = np.nanmin(extent), np.nanmax(extent)
    width, several = (high - low) or 1.0, len(rows) > 1
    right = high + (VALUES if several else 0.05) * width
    names = [short(feature, 24) for feature in mean["feature"].values]
    right_column = {"x": right, "horizontal_align": "right", "size": 8}
    values = [("", texts_down, values_of(value) + " ", right_column)] if several else []
    rows = names if several else with_values(value.isel(obs=0))
    some = f" ({len(order)} largest of {known} features)" if len(order) < known else ""
    words = f"{called(name, dataset)}{start}{some} [{dataset.attrs['units']}]"
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
        f"{words}: mean and {prob:.0%} interval; pale: contains 0",
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
    row, name = found["row"].item(), found.attrs["name"]
    one, prob = dataset.isel(obs=row), interval_probability(ci_prob, dataset)
    values = one[f"{name}_mean"].values
    order = np.argsort(-np.abs(values), kind="stable")
    first, rest = np.split(order, [len(order) if max_features is None else max_features])
    mean, names = values[first].tolist(), with_values(one["value"].isel(feature=first))
    ends = [*interval_of(one, name, prob).transpose("feature", "ci_bound").values[first]]
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
    figure_width = (right - low) * room / (room - NUMBERS)
    limits = (low - SPACE * (high - low), low + figure_width)
    ticks = MaxNLocator(3 if 4 * (high - low) > figure_width else 2).tick_values(low, high)
    ticks = [t for t in ticks if low <= t <= high]
    numbers = [f"{t:.6g}".replace("-", "\N{MINUS SIGN}") for t in ticks]
    moments = zip(steps.values, *interval.values.T, strict=True)
    texts = ["{} [{}, {}]".format(*written(*three, plus=True)) for three in moments]
    texts[-1] += " in all"
    heading = {"text": f"step, {prob:.0%} interval", "y": 0}
    column = {"x": right, "horizontal_align": "left", "size": 9}
    rows = np.array([0.4, len(mean) + 0.6])
    zero_style = {"horizontal_align": "center", "size": 9, "color": "gray"}
    step_bars = {"interval": bounds, "start": starts, "y": 1, "half": 0.32, "connected": True}
    whole_bar = {"half": 0.32, "interval": interval[-1:], "start": origin, "y": len(steps)}
    whole_bar["color"] = "gray"
    words = f"{called(name, dataset)} of obs {short(found['obs'][0])} {against(dataset)}".rstrip()
    return draw(
        steps,
        [
            ("steps", sized_bars, each, step_bars),
            ("", sized_bars, steps[-1:], whole_bar),
            ("", line_x, xr.DataArray([origin, origin]), {"y": np.array([0.0, 1.0]), **GRAY}),
            ("", line_x, xr.DataArray([zero, zero]), {"y": rows, "color": "gray", "width": 0.8}),
            ("", annotate_xy, steps, {"text": "0", "x": zero, "y": 0, **zero_style}),
            ("credible_interval", bars_across, zero + bounds, {"y": 1.0, "width": 1.2, **BLACK}),
            ("points", points_across, zero + each, {"y": 1.0, "size": 12, **BLACK}),
            ("numbers", texts_down, xr.DataArray(texts), {"y": 1, **column}),
            ("", annotate_xy, steps, heading | column),
            ("", set_xlim, 0.0, {"limits": limits}),
            ("", set_xticks, 0.0, {"values": ticks, "labels": numbers}),
            ("", names_down, steps, {"names": names}),
            ("xlabel", label_axes, steps, {"x": axis}),
        ],
        f"{words}; pale: the {prob:.0%} interval contains 0",
        pc_kwargs,
        backend=backend,
        height=0.8 + 0.26 * len(names),
    )


def _origin(
    dataset: xr.Dataset, predictions: xr.Dataset | None, row: int, name: str
) -> tuple[float, tuple[str, str], str]:
    """Origin of the first step, names of the first and the last line, and the axis label."""
    units, last = dataset.attrs["units"], "prediction"
    if predictions is not None:
        if "smooth_mean" in predictions:  # attributions exclude the deviations of a GPX's rows
            predictions = predictions.assign(f_mean=predictions["smooth_mean"])
            last = "smooth prediction"
        begin, first = float(at_baseline(dataset, predictions).values[row]), "baseline"
    elif "offset" in dataset:
        begin, first = dataset["offset"].isel(obs=row, missing_dims="ignore").item(), "offset"
    else:
        return 0.0, ("baseline", whole(name, dataset)), f"{whole(name, dataset)} [{units}]"
    scale = "mean response" if dataset.attrs.get("scale") == "response" else "f"
    end = begin + float(dataset[f"{name}_mean"].isel(obs=row).sum())
    return begin, (f"{first}: {begin:.4g}", f"{last}: {end:.4g}"), f"{scale} [{units}]"
