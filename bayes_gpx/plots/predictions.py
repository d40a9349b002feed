"""Predictions with intervals and observed responses, and comparisons of predictions."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object
from arviz_plots.visuals import hline, set_ylim, vline

from bayes_gpx.aliases import Backend, Column
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.draws.naming import AT, COUNTED, event_of, of_quantile, units_of_result
from bayes_gpx.draws.points import read_bounded, read_observed
from bayes_gpx.likelihoods import KNOWN, named
from bayes_gpx.likelihoods.events import KINDS
from bayes_gpx.plots.layout import Layer, draw
from bayes_gpx.plots.selection import (
    BELOW_PANEL,
    LONGEST_NAME,
    MOST_PANELS,
    MOST_ROWS,
    ONE_AXIS,
    about,
    contrasts_shortened,
    in_panels,
    refuse_no_dataset,
    required,
    short,
    with_units,
)
from bayes_gpx.plots.visuals import (
    REFERENCE,
    bars_across,
    colored_points,
    few_numbers,
    interval_bars,
    intervals_along,
    label_axes,
    means_along,
    names_down,
    points_across,
    ticks_along,
)
from bayes_gpx.validation import one_of, one_output

INSIDE, OUTSIDE = "#222222", "#d55e00"
"""Observed responses: black, and Okabe and Ito's vermilion."""

MANY = 100
"""Number of observed responses above which they are drawn small, to show the intervals."""


def _observed(
    da: xr.DataArray, target: Any, *, x: xr.DataArray, outside: xr.DataArray, bound: xr.DataArray
) -> Any:
    """Draw observed responses at x, in another color outside of their interval, bounds hollow."""
    color, drawn = np.where(outside.values, OUTSIDE, INSIDE), None
    style: dict[str, Any] = {"edge": "#ffffff", "size": 22} if len(color) <= MANY else {"size": 8}
    for hollow in (True, False):
        some = bound.values == hollow
        if some.any():
            own = {"hollow": True, "size": style["size"]} if hollow else style
            drawn = colored_points(x.values[some], da.values[some], color[some], target, **own)
    return drawn


def plot_predictions(
    dataset: xr.Dataset,
    y: Column | None = None,
    *,
    censoring: Column | None = None,
    along: str | None = None,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot predictions with intervals, and observed responses.

    If only one feature varies over new rows, intervals are bands along this feature. The plot does
    not contain Z of a GPX or exposures, so keep them equal for all rows then. Otherwise each row
    has an interval at its predicted mean, and observed responses should scatter around the
    diagonal.

    Intervals of the mean response are dark. Intervals of a new response are light, and shown if it
    is a number. The mean response of a GPX with a Gaussian likelihood is its smooth part z' g; the
    light interval includes the deviation of a new row. For classes, the panels show probabilities,
    and observed labels are at 0 and 1. Of "heteroscedastic_normal" the dark intervals are of the
    mean. Each row of an event at several numbers, such as survival, has a curve over these numbers.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.predictions`.
    y : array or pandas.Series (m,), optional
        Observed responses, in the order of the dataset's rows. They are orange outside of the light
        interval, and black inside or at its ends.
    censoring : array or pandas.Series (m,), optional
        "none", "left", "right" or "interval" for each `y`, as in `GP`, but the lower ends of
        intervals alone. Bounds are hollow, and orange if no response beyond them lies inside.
    along : str, optional
        Feature on the horizontal axis; by default the only one that varies, if there is one.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, or without the draws that its intervals need, an unknown
        feature, more than 24 classes or curves, a `y` that does not match the dataset's rows, or a
        dataset of latent values only.
    """
    refuse_no_dataset(dataset, "bx.predictions")
    one_output(dataset)
    if "sd_mean" in dataset:  # of the mean, in the scale of y
        dataset = dataset.sel({"class": "mean"}, drop=True)
    dataset = dataset.squeeze("at") if dataset.sizes.get("at") == 1 else dataset
    name = _response(dataset, y)
    prob = interval_probability(ci_prob, dataset)
    if "at" in dataset.dims:
        return _curves(dataset, name, prob, along, pc_kwargs, backend)
    along, curve = _axis(dataset, along)
    rows, some = _rows(dataset, along if curve else None)
    chosen, number = dataset.isel(obs=rows), "labels" not in dataset.attrs
    observed = None if y is None else read_observed(dataset, y).isel(obs=rows)
    if censoring is not None and observed is None:
        raise ValueError("censoring was given without y. Pass the bounds as y.")
    kinds = None if censoring is None else read_bounded(dataset, censoring).isel(obs=rows)
    mean = chosen[f"{name}_mean"].reset_coords(drop=True)
    value = None if along is None else chosen["value"].sel(feature=along)
    x = (mean if value is None else value.drop_vars("feature")).broadcast_like(mean)
    cols = ["class"] if "class" in mean.dims else []
    labels = mean["class"].values if cols else [_label(dataset)]
    if len(labels) > MOST_PANELS:
        raise ValueError(
            f"The dataset has {len(labels)} classes; choose at most {MOST_PANELS} of them: "
            "dataset.sel({'class': ...})."
        )
    gaussian = name in ("smooth", "f")
    what = "mean response" if gaussian and _is_response(dataset) else COUNTED.get(name, name)
    what = "quantile" if gaussian and of_quantile(dataset) else what
    vertical, said, along_x = what, [], {"x": x, "joined": curve, "color": "C0"}
    layers: list[Layer] = []
    new = None
    event = event_of(dataset)
    if number and event is None and ("y" in dataset or "y_mean" in dataset):
        new, vertical = interval_of(chosen, "y", prob).reset_coords(drop=True), "response"
        said.append(f"{what} dark, new response light")
        layers.append(
            ("new_response", intervals_along, new, {"width": 1, "alpha": 0.25, **along_x})
        )
    ends = interval_of(chosen, name, prob).reset_coords(drop=True)
    layers += [
        ("interval", intervals_along, ends, {"width": 3, "alpha": 0.45, **along_x}),
        ("point_estimate", means_along, mean, along_x),
    ]
    if observed is not None:
        if not number:
            codes = [dataset.attrs["labels"].index(str(label)) for label in labels]
            code = xr.DataArray(codes, {"class": labels}, ["class"]) if cols else codes[0]
            observed = (observed == code).astype(float)
        outside, colors = xr.zeros_like(observed, bool), "black"
        if new is not None:
            low, high = (new.sel(ci_bound=end) for end in ("lower", "upper"))
            under, over = observed < low, observed > high
            if kinds is not None:  # the response lies beyond its bound
                under, over = under & kinds.isin(["none", "left"]), over & (kinds != "left")
            outside = under | over
            colors = "black inside, orange outside"
        bound = xr.zeros_like(observed, bool) if kinds is None else kinds != "none"
        said.append(f"observed: {colors}{', hollow bounds' * bool(bound.any())}")
        own = {"x": x, "outside": outside, "bound": bound}
        layers.append(("observed", _observed, observed, own))
    if event is not None:
        vertical = what = event
    elif gaussian:
        vertical += f" [{short(units_of_result(dataset))}]"
    elif name == "probability" and not cols:
        vertical = f"probability of {short(labels[0])}"
    horizontal = f"predicted {what.removeprefix('expected ') if number else vertical}"
    below = horizontal if value is None else with_units(value, dated=True)(value)
    texts: dict[str, Any] = {"x": below, "y": vertical}
    if cols:
        texts["title"] = lambda da: short(da["class"])
    layers.append(("", few_numbers, mean, {}) if value is None else ("", ticks_along, x, {}))
    if name in ("probability", "survival"):
        layers.append(("", set_ylim, mean, {"limits": (-0.04, 1.04)}))
    layers.append(("labels", label_axes, mean, texts))
    title = "; ".join([f"Predictions, {prob:.0%} intervals", *said, *some])
    return draw(mean.rename("response"), layers, title, pc_kwargs, backend=backend, cols=cols)


def _response(dataset: xr.Dataset, y: Column | None) -> str:
    """Name of the response, or of f, that has dark intervals."""
    itself = _is_response(dataset)
    known = ("probability", "rate", "mean", "median", *(["smooth"] if itself else []), "f")
    held = [name for name in (*KINDS, *known) if f"{name}_mean" in dataset]
    if not held or "value" not in dataset or "obs" not in dataset.dims:
        raise ValueError(
            "The dataset has no predictions over observations. Pass the result of bx.predictions "
            "(not of bx.loo_predictions), a single observation as dataset.isel(obs=[0])."
        )
    linear = held[0] in ("smooth", "f")
    lacking = [] if linear or held[0] in dataset else held[:1]
    if "y" not in dataset and "y_sd" in dataset and not np.isfinite(dataset["y_sd"]).all():
        lacking = ["y"]
    if lacking:
        raise ValueError(
            f"The dataset has no draws of `{lacking[0]}`, which its intervals need. Pass the "
            "result of bx.predictions with keep='draws'."
        )
    if "at" in dataset.dims and dataset["at"].dtype.kind not in "iuf":
        raise ValueError(
            f"The dataset has {dataset.sizes['at']} values of at. Choose one: dataset.sel(at=...)."
        )
    if y is not None and "event" in dataset.attrs:
        raise ValueError(
            f"y was given with predictions of the {event_of(dataset)}. Leave y out, or pass "
            "predictions of y."
        )
    if y is not None and held[0] == "f" and not itself:
        raise ValueError(
            f"y was given with predictions in units of {units_of_result(dataset)}. Pass "
            "predictions of the response, on='response'."
        )
    return held[0]


def _curves(
    dataset: xr.Dataset,
    name: str,
    prob: float,
    along: str | None,
    pc_kwargs: dict[str, Any],
    backend: Backend | None,
) -> PlotCollection:
    """Curves over several numbers `at` that an event has, in a panel for each row."""
    many = dataset.sizes["obs"]
    if along is not None or many > MOST_PANELS:
        raise ValueError(
            f"The dataset has {dataset.sizes['at']} values of at for {many} rows. Choose one of "
            f"them, dataset.sel(at=...), or curves of at most {MOST_PANELS} rows, without along."
        )
    over = dataset.rename({"obs": "row"}).rename({"at": "obs"}).sortby("obs")
    mean = over[f"{name}_mean"].reset_coords(drop=True)
    along_x = {"x": mean["obs"].broadcast_like(mean), "joined": True, "color": "C0"}
    said = dataset.attrs["event"].replace(AT, "at")
    # The response is between the words of its event.
    begin, end = KINDS[name].split("{y}")
    of_y = said.removeprefix(begin).removesuffix(end.format(at="at"))
    place = "probability" if name == "quantile" else f"at [{of_y}]"
    texts = {"x": place, "y": said, "title": lambda da: f"row {short(da['row'])}"}
    layers: list[Layer] = [
        ("interval", intervals_along, interval_of(over, name, prob), {"alpha": 0.45, **along_x}),
        ("point_estimate", means_along, mean, along_x),
        ("", few_numbers, mean, {}),
        ("labels", label_axes, mean, texts),
    ]
    if name == "survival":
        layers.insert(3, ("", set_ylim, mean, {"limits": (-0.04, 1.04)}))
    mean, title = mean.rename("response"), f"Predictions, {prob:.0%} intervals"
    return draw(mean, layers, title, pc_kwargs, backend=backend, cols=["row"], sharey=True)


def _is_response(dataset: xr.Dataset) -> bool:
    """Whether the mean response is f itself."""
    name = dataset.attrs.get("likelihood", "normal").partition("(")[0]
    if name not in KNOWN:
        return False
    return named(name).mean_name is None or bool(named(name).processes)


def _label(dataset: xr.Dataset) -> Any:
    """The label that a single panel is of: one that was chosen, or the second of two."""
    if "class" in dataset.coords:
        return dataset["class"].item()
    return dataset.attrs.get("labels", [None])[-1]


def _axis(dataset: xr.Dataset, along: str | None) -> tuple[str | None, bool]:
    """The feature along which predictions are shown, or None, and whether they are a curve."""
    value = dataset["value"].transpose("obs", "feature")
    features = value["feature"].values.tolist()
    varies = value["feature"].values[np.ptp(value.values, axis=0) != 0].tolist()
    if along is not None:
        one_of("along", along, features)
    elif len(varies) == 1:
        along = varies[0]
    x = value.sel(feature=along).values if along is not None else ()
    alone = varies == [along] and len(np.unique(x)) == len(x)
    new = dataset.attrs.get("samples", "new").startswith("new")  # without own deviations
    return along, alone and new


def _rows(dataset: xr.Dataset, curve: str | None) -> tuple[np.ndarray, list[str]]:
    """Positions of the observations that are shown, by a feature's values if given; in words."""
    rows = np.arange(dataset.sizes["obs"])
    if curve is not None:
        return np.argsort(dataset["value"].sel(feature=curve).values, kind="stable"), []
    if len(rows) <= MOST_ROWS:
        return rows, []
    some = [f"{MOST_ROWS:,} of {len(rows):,} observations, at random"]
    return np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False)), some


MOST_NAMED, LABEL = 6, 60
"""Most rows that are named below an axis, and letters that fit there."""

BESIDE_NAMES = 40
"""Letters of a line below an axis with names on its left."""


def _sorted_rows(da: xr.DataArray, target: Any, *, bounds: xr.DataArray) -> Any:
    """Draw the mean of each row, in ascending order, with its interval."""
    order, at = np.argsort(da.values, kind="stable"), np.arange(da.size)
    few = da.size <= MOST_NAMED
    names = [short(label, LABEL // da.size) for label in da["obs"].values[order]] if few else []
    backend_from_object(target).xticks(at if few else [], names, target)
    ends = bounds.transpose("obs", "ci_bound").values[order]
    interval_bars(at, ends, target, width=1, alpha=0.5, color="C0")
    return backend_from_object(target).scatter(at, da.values[order], target, size=8, color="C0")


def plot_comparisons(
    dataset: xr.Dataset,
    *,
    ci_prob: float | None = None,
    backend: Backend | None = None,
    **pc_kwargs: Any,
) -> PlotCollection:
    """Plot comparisons with intervals: averages in one panel, or sorted rows.

    Averaged comparisons share one panel; otherwise each comparison has a panel. Comparisons of
    several classes are next to each other.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.comparisons`, for each row or averaged.
    ci_prob : float, optional
        Probability of the intervals; by default the dataset's.
    backend : {"matplotlib", "plotly", "bokeh", "none"}, optional
    **pc_kwargs
        Passed to ``PlotCollection.wrap``.

    Returns
    -------
    arviz_plots.PlotCollection

    Raises
    ------
    ValueError
        For a dataset of another function, more than 24 comparisons, and several outputs.
    """
    required(dataset, "bx.comparisons", "comparison_mean", "comparisons", ONE_AXIS)
    listed = dataset.sizes.get("obs", 1) == 1
    dataset = in_panels(dataset, "contrast", LONGEST_NAME if listed else BELOW_PANEL)
    prob = interval_probability(ci_prob, dataset)
    mean = dataset["comparison_mean"].rename("comparison").reset_coords(drop=True)
    bounds = interval_of(dataset, "comparison", prob).reset_coords(drop=True)
    kind = dataset.attrs.get("comparison", "difference")
    what = f"change [{units_of_result(dataset)}]" if kind == "difference" else kind
    title = f"{kind.capitalize()}{about(dataset) or ' of the predictions'}, {prob:.0%} intervals"
    names = mean["contrast"].values.tolist()
    no_effect = 1.0 if kind == "ratio" else 0.0
    if "by" in mean.dims:
        what, several = f"average {what}", mean.sizes["by"] > 1
        mean, bounds = (
            array.stack(average=["contrast", "by"], create_index=False) for array in (mean, bounds)
        )
        pairs = zip(mean["contrast"].values, mean["by"].values, strict=True)
        names = [f"{contrast}, {group}" if several else contrast for contrast, group in pairs]
    if mean.sizes.get("obs") == 1:
        mean, bounds = mean.squeeze("obs", drop=True), bounds.squeeze("obs", drop=True)
        title += f" of row {dataset['obs'].item()}"
    if "obs" not in mean.dims:
        return draw(
            mean,
            [
                ("reference", vline, no_effect, REFERENCE),
                ("", names_down, mean, {"names": contrasts_shortened(names)}),
                ("interval", bars_across, bounds, {"width": 3, "color": "C0"}),
                ("point_estimate", points_across, mean, {"color": "C0"}),
                ("", few_numbers, mean, {"most": 4}),
                ("labels", label_axes, mean, {"x": fill(what, BESIDE_NAMES)}),
            ],
            title,
            pc_kwargs,
            backend=backend,
            height=0.9 + 0.3 * len(names),
        )
    if len(names) > MOST_PANELS:
        raise ValueError(
            f"There are {len(names)} comparisons; choose at most {MOST_PANELS} of them, such as "
            "dataset.isel(contrast=[0, 1])."
        )
    contrasts = mean["contrast"].values.tolist()
    titles = dict(zip(contrasts, contrasts_shortened(contrasts), strict=True))
    labels = {"title": lambda da: titles[da["contrast"].item()], "x": "observations, sorted"}
    labels["y"] = what
    return draw(
        mean,
        [
            ("reference", hline, no_effect, REFERENCE),
            ("point_estimate", _sorted_rows, mean, {"bounds": bounds}),
            ("labels", label_axes, mean, labels),
        ],
        f"{title} of {mean.sizes['obs']} observations",
        pc_kwargs,
        backend=backend,
        cols=["contrast"],
        sharey=True,
    )
