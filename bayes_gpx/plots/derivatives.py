"""Derivatives: along features, of all features at one observation, and on the path to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from arviz_plots.visuals import hline, set_xlim, vline

from bayes_gpx.aliases import Backend, Labels
from bayes_gpx.draws.naming import units_of_result
from bayes_gpx.plots.layout import beside, columns_for, draw, room_right
from bayes_gpx.plots.selection import (
    ONE_AXIS,
    about,
    against,
    covers_zero,
    digits,
    in_panels,
    panel_features,
    panel_rows,
    refuse_several,
    required,
    short,
    shortened,
    with_units,
)
from bayes_gpx.plots.visuals import (
    NEGATIVE,
    POSITIVE,
    REFERENCE,
    SIGNS,
    bars_across,
    colored_points,
    few_numbers,
    intervals_along,
    is_plotly,
    label_axes,
    means_along,
    names_down,
    pale,
    places_along,
    texts_down,
    value_axis,
    written,
)
from bayes_gpx.validation import count, names_among

AVERAGE = ["average_slope_mean", "average_slope_sd", "probability_positive"]

ONE_LINE = 17
"""Most letters of an average and its sd in one line of a panel."""

NUMBERS = {1: 0.2, 2: 0.45}
"""Width of the column of numbers, as a share of the intervals' width, by the number of panels."""


def _signs(
    da: xr.DataArray, target: Any, *, value: xr.DataArray, band: xr.DataArray, prob: float
) -> Any:
    """Mark values below the band by the probability da of a positive slope."""
    colors = np.where(da >= 0.5, POSITIVE, NEGATIVE)
    uncertain = np.maximum(da, 1 - da) < prob
    colors = np.where(uncertain, [pale(color) for color in colors], colors)
    bottom = np.full(da.size, band.values.min() - 0.06 * np.ptp(band.values))
    return colored_points(places_along(value), bottom, colors, target, marker="|")


def _average(da: xr.DataArray, target: Any, *, value: xr.DataArray, average: xr.Dataset) -> Any:
    """Write the average slope, in room above all intervals da."""
    backend, low, high = backend_from_object(target), da.values.min(), da.values.max()
    mean, sd, positive = (average[name].item() for name in AVERAGE)
    center, spread = written(mean, sd)
    lines = [f"mean {center}", f"± {spread}"]
    if len(" ".join(lines)) <= ONE_LINE:
        lines = [" ".join(lines)]
    lines.append(f"P(> 0) = {positive:.2f}")
    left, top = places_along(value).min(), high + (0.02 + 0.15 * len(lines)) * (high - low)
    backend.ylim((low - 0.12 * (high - low), top + 0.04 * (high - low)), target)
    text = ("<br>" if is_plotly(target) else "\n").join(lines)
    at = {"horizontal_align": "left", "vertical_align": "top"}
    return backend.text(left, top, text, target, size=8, **at)


def plot_derivatives(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot derivatives against feature values, with two bands.

    If only one feature varies over the rows, its panel has a curve with a pointwise (dark) and a
    simultaneous (light) band. Otherwise each row is a point with two intervals. Several classes
    have separate panels. Each panel states
    the average slope and the probability that it is positive. A rug shows the values of the rows.
    It is red if a positive slope is more probable and blue otherwise, and pale if this probability
    is smaller than the probability of the bands.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.slopes`.
    features : list of str, optional
        By default the features that vary over the rows, or all if none does.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        If the dataset has no bands, for unknown features, and for more than 24 panels or several
        outputs.
    """
    required(dataset, "bx.slopes", "band_simultaneous", "bands", ONE_AXIS)
    varies = (dataset["value"] != dataset["value"].isel(obs=0)).any("obs").values
    moving = dataset["feature"].values[varies].tolist()
    names, some = panel_features(dataset, features, moving or None)
    chosen = dataset.sel(feature=names)
    chosen["joined"] = chosen["feature"] == dataset.attrs.get("along", "")
    chosen = in_panels(chosen, "feature")
    mean, wide, value = (chosen[name] for name in ("derivative_mean", "band_simultaneous", "value"))
    along = {"x": value, "joined": chosen["joined"], "color": "C0"}
    narrow, positive = chosen["band_pointwise"], chosen["derivative_probability_positive"]
    prob, average = dataset.attrs["ci_prob"], chosen[AVERAGE]
    bands = {f"{prob:.0%}, each": {"color": "C0", "alpha": 0.6, "width": 6}}
    bands[f"{prob:.0%}, all together"] = {"color": "C0", "alpha": 0.2, "width": 6}
    pale_ticks = f"pale ticks: sign less than {prob:.0%} probable"
    return draw(
        mean.rename("derivative"),
        [
            ("reference", hline, 0.0, REFERENCE),
            ("simultaneous", intervals_along, wide, {"width": 1, "alpha": 0.2, **along}),
            ("pointwise", intervals_along, narrow, {"width": 2, "alpha": 0.4, **along}),
            ("point_estimate", means_along, mean, along),
            ("signs", _signs, positive, {"value": value, "band": wide, "prob": prob}),
            ("average", _average, wide, {"value": value, "average": average}),
            *value_axis(value, "slope", with_units(value), named=False),
        ],
        f"Slopes{about(dataset)}{some} [{units_of_result(dataset)}]; {pale_ticks}",
        pc_kwargs,
        backend=backend,
        cols=["feature"],
        above=0.8,
        legend=bands | SIGNS,
    )


def _points(da: xr.DataArray, target: Any, *, unsure: xr.DataArray, **kwargs: Any) -> Any:
    """Draw a point for each feature, red or blue by sign, hollow if the sign is unsure."""
    colors, rows = np.where(da.values >= 0, POSITIVE, NEGATIVE), np.arange(da.size)
    for hollow in (True, False):
        drawn = unsure.values == hollow
        if drawn.any():
            points = da.values[drawn], rows[drawn], colors[drawn]
            artist = colored_points(*points, target, hollow=hollow, **kwargs)
    return artist


def plot_slopes(
    dataset: xr.Dataset,
    *,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot the derivatives in all features, one panel for each row and class.

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
        If the dataset has no bands, for unknown rows or features, and for more than 24 panels or
        several outputs.
    """
    needed = "band_simultaneous_features"
    required(dataset, "bx.slopes", needed, f"`{needed}`", ONE_AXIS)
    shown_rows = panel_rows(dataset, obs)
    chosen = in_panels(dataset.isel(obs=shown_rows), "obs")
    ratio = abs(chosen["derivative_mean"] / chosen["derivative_sd"]).max("obs").values
    known = chosen["feature"].values[np.argsort(-np.nan_to_num(ratio), kind="stable")].tolist()
    features, some = panel_features(dataset, features, known)
    chosen, names = chosen.sel(feature=features), shortened(features, 24)
    mean, sd, count = chosen["derivative_mean"], chosen["derivative_sd"], chosen.sizes["obs"]
    unit = sd.where(sd > 0)
    wide, narrow = chosen[needed] / unit, chosen["band_pointwise"] / unit
    extent = np.append(np.stack([wide.values.ravel(), narrow.values.ravel()]), 0.0)
    low, high = np.nanmin(extent), np.nanmax(extent)
    columns = min(count, pc_kwargs.get("col_wrap", columns_for(count)))
    numbers = xr.apply_ufunc(lambda *m: "{} ± {}".format(*written(*m)), mean, sd, vectorize=True)
    room = max(NUMBERS.get(columns, 0.75), room_right(numbers, names, columns))
    right = high + (high - low) * room
    each, together = {"color": "gray", "width": 4}, {"color": "gray", "alpha": 0.4, "width": 2}
    points = {"unsure": covers_zero(chosen["band_pointwise"]), "size": 30, "width": 1.5}
    labels = {"title": lambda da: f"observation {short(da['obs'])}", "x": "slope / its sd"}
    prob = f"{dataset.attrs['ci_prob']:.0%}"
    some_rows, every = len(shown_rows), dataset.sizes["obs"]
    rows = f" in {some_rows} of {every} observations" if some_rows < every else ""
    return draw(
        (mean / unit).rename("derivative"),
        [
            ("reference", vline, 0.0, REFERENCE),
            ("simultaneous", bars_across, wide, together),
            ("pointwise", bars_across, narrow, each),
            ("point_estimate", _points, mean / unit, points),
            ("", set_xlim, 0.0, {"limits": (low - 0.05 * (high - low), right)}),
            ("", texts_down, numbers, {"x": right, "horizontal_align": "right", "size": 8}),
            ("", names_down, mean, {"names": names}),
            ("", few_numbers, mean, {}),
            ("xlabel", label_axes, mean, labels),
        ],
        f"Slopes{about(dataset)}{some}{rows}, mean ± sd [{units_of_result(dataset)}]; "
        f"hollow: the {prob} interval of this slope alone contains 0",
        pc_kwargs,
        backend=backend,
        cols=["obs"],
        height=0.9 + 0.25 * len(names),
        above=0.8,
        between=beside(names),
        sharex=True,
        sharey=True,
        legend={f"{prob}, each": each, f"{prob}, all together": together, **SIGNS},
    )


def _ends_of_path(da: xr.DataArray, target: Any) -> None:
    """Write the values da at the baseline and at the row below the ends of the path."""
    ends = [f"baseline\n{digits(da.values[0])}", f"x\n{digits(da.values[-1])}"]
    backend_from_object(target).xticks([0.0, 1.0], ends, target)


def plot_path(
    dataset: xr.Dataset,
    *,
    features: Sequence[str] | None = None,
    max_features: int | None = 6,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot derivatives along the path from the baseline to a row.

    The attribution of a feature is its change from the baseline to the row times its mean slope on
    the path, the dashed line. Both are written above the panel, with the standard deviation of the
    attribution. The pointwise band is dark and the simultaneous band is light.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.path_slopes`.
    features : list of str, optional
        By default the features with the largest mean absolute attribution.
    max_features : int
        Number of features to plot by default.
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

    References
    ----------
    Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024), Figure 1.
    """
    required(dataset, "bx.path_slopes", "way", "`way`")
    refuse_several(dataset["attribution_mean"], ONE_AXIS)
    known = dataset["feature"].values.tolist()
    if features is None:
        count("max_features", max_features)
        size = abs(dataset["attribution_mean"])
        size = size.mean([dim for dim in size.dims if dim != "feature"])
        order = np.argsort(-size.values, kind="stable")
        names = [known[k] for k in order[:max_features]]
    else:
        names = names_among("features", features, known)
    chosen = in_panels(dataset.sel(feature=names), "feature")
    way, mean = chosen["way"], chosen["derivative_mean"]

    def title_of(da: xr.DataArray) -> str:
        one = chosen.sel(feature=da["feature"].item())
        change, total = one["way"].item(), one["attribution_mean"].item()
        parts = "no change"
        if change:
            (factor,), (slope,) = written(change, plus=True), written(total / change)
            parts = f"change {factor} × mean slope {slope}"
        numbers = written(total, one["attribution_sd"].item(), plus=True)
        return "attribution {} ± {}\n{}".format(*numbers, parts)

    along = {"x": chosen["obs"], "joined": True, "color": "C0"}
    slope = chosen["attribution_mean"] / way.where(way != 0)
    units = units_of_result(dataset).removesuffix(" of the feature")
    some = f" ({len(names)} of {len(known)} features)" if len(names) < len(known) else ""
    title = f"Slopes{about(dataset)} on the path to observation {dataset.attrs['explains']}, "
    title += f"{against(dataset)}{some}"
    title += f"; {dataset.attrs['ci_prob']:.0%} bands (light: simultaneous); dashed: mean slope"
    labels = {"title": title_of, "size": 9, "x": with_units(chosen["value"]), "y": units}
    pc_kwargs.setdefault("col_wrap", 2)
    return draw(
        mean.rename("derivative"),
        [
            ("reference", hline, 0.0, REFERENCE),
            ("simultaneous", intervals_along, chosen["band_simultaneous"], along | {"alpha": 0.2}),
            ("pointwise", intervals_along, chosen["band_pointwise"], along | {"alpha": 0.35}),
            ("point_estimate", means_along, mean, along),
            ("mean_slope", hline, slope, {"color": "black", "linestyle": "C1", "width": 1}),
            ("", _ends_of_path, chosen["value"], {}),
            ("labels", label_axes, mean, labels),
        ],
        title,
        pc_kwargs,
        backend=backend,
        cols=["feature"],
        height=2.6,
    )
