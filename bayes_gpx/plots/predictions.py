"""Predictions with their intervals, and the observed responses."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from arviz_plots import PlotCollection
from arviz_plots.plot_collection import backend_from_object

from bayes_gpx.aliases import Backend, Column
from bayes_gpx.draws.intervals import interval_of, interval_probability
from bayes_gpx.draws.points import read_observed
from bayes_gpx.likelihoods import named
from bayes_gpx.plots.layout import add_title, backend_named, lay_out
from bayes_gpx.plots.selection import MOST_PANELS, MOST_ROWS, refuse_no_dataset, short, with_unit
from bayes_gpx.plots.visuals import (
    axis_labels,
    coloured_points,
    few_numbers,
    intervals_along,
    means_along,
)
from bayes_gpx.validation import one_of, one_output

INSIDE, OUTSIDE = "#222222", "#d55e00"
"""Observed responses: black, and Okabe and Ito's vermilion."""

MANY = 100
"""Number of observed responses above which they are drawn small, to show the intervals."""


def _observed(da, target, *, x, outside, **kwargs):
    colour = np.where(outside.values, OUTSIDE, INSIDE)
    size = 22 if len(colour) <= MANY else 8
    edge = "#ffffff" if len(colour) <= MANY else None
    return coloured_points(x.values, da.values, colour, target, edge=edge, size=size, **kwargs)


def _labels(da, target, *, x, y, probable):
    few_numbers(da, target)
    if "class" in da.coords:
        backend_from_object(target).title(short(da["class"]), target)
    if probable:
        backend_from_object(target).ylim((-0.04, 1.04), target)
    return axis_labels(da, target, x=x, y=y)


def plot_predictions(
    dataset: xr.Dataset,
    y: Column | None = None,
    *,
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
    and observed labels are at 0 and 1.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.predictions`.
    y : array or pandas.Series (m,), optional
        Observed responses, in the order of the dataset's rows. They are orange outside of the light
        interval, and black inside or at its ends.
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
        feature, more than 24 classes, and a `y` that does not match the dataset's rows, or a
        dataset of latent values only.
    """
    refuse_no_dataset(dataset, "bx.predictions")
    one_output(dataset)
    name = _response(dataset, y)
    prob = interval_probability(ci_prob, dataset)
    along, curve = _axis(dataset, along)
    rows, some = _rows(dataset, along if curve else None)
    seen, number = None if y is None else read_observed(dataset, y), "labels" not in dataset.attrs
    chosen = dataset.isel(obs=rows)
    mean = chosen[f"{name}_mean"]
    x = mean if along is None else chosen["value"].sel(feature=along, drop=True)
    x = x.broadcast_like(mean)

    panels = mean["class"].values if "class" in mean.dims else [None]
    if len(panels) > MOST_PANELS:
        raise ValueError(
            f"The dataset has {len(panels)} classes; choose at most {MOST_PANELS} of them: "
            "dataset.sel({'class': ...})."
        )
    backend = backend_named(backend)
    lay_out(pc_kwargs, len(panels), backend=backend)
    cols = ["class"] if "class" in mean.dims else []
    labels = panels if cols else [_label(dataset)]

    def of(array):
        return xr.Dataset({"response": array.reset_coords(drop=True)})

    where = {"x": x, "joined": curve, "color": "C0"}
    pc = PlotCollection.wrap(of(mean), cols=cols, backend=backend, **pc_kwargs)
    what, whole = _what(dataset, name), None
    said = []
    if number and ("y" in dataset or "y_mean" in dataset):
        whole = interval_of(chosen, "y", prob)
        said.append(f"{what} dark, new response light")
        pc.map(intervals_along, "new_response", data=of(whole), width=1, alpha=0.25, **where)
    own = interval_of(chosen, name, prob)
    pc.map(intervals_along, "interval", data=of(own), width=3, alpha=0.45, **where)
    pc.map(means_along, "point_estimate", data=of(mean), **where)
    if seen is not None:
        seen = seen.isel(obs=rows)
        if not number:
            places = [dataset.attrs["labels"].index(str(label)) for label in labels]
            codes = xr.DataArray(places, {"class": labels}, ["class"])
            seen = (seen == (codes if cols else codes.item())).astype(float)
        outside = xr.zeros_like(seen, bool)
        colours = "black"
        if whole is not None:
            low, high = (whole.sel(ci_bound=end) for end in ("lower", "upper"))
            outside = (seen < low) | (seen > high)
            colours = "black inside, orange outside"
        said.append(f"observed: {colours}")
        pc.map(_observed, "observed", data=of(seen), x=x, outside=outside)
    vertical = "response" if whole is not None else what
    if name in ("smooth", "f"):
        vertical += f" [{short(dataset.attrs['units'])}]"
    elif name == "probability" and not cols:
        vertical = f"probability of {short(labels[0])}"
    horizontal = f"predicted {what if number else vertical}"
    if along is not None:
        horizontal = with_unit(chosen["value"].sel(feature=along))
    probable = name == "probability"
    pc.map(_labels, "labels", data=of(mean), x=horizontal, y=vertical, probable=probable)
    add_title(pc, "; ".join([f"Predictions, {prob:.0%} intervals", *said, *some]))
    return pc


def _response(dataset, y):
    itself = _is_response(dataset)
    known = ("probability", "rate", *(["smooth"] if itself else []), "f")
    held = [name for name in known if f"{name}_mean" in dataset]
    if not held or "value" not in dataset or "obs" not in dataset.dims:
        raise ValueError(
            "The dataset has no predictions over observations. Pass the result of bx.predictions, "
            "a single observation as dataset.isel(obs=[0])."
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
    if y is not None and held[0] == "f" and not itself:
        raise ValueError(
            f"y was given with predictions in units of {dataset.attrs['units']}. Pass predictions "
            "of the response, on='response'."
        )
    return held[0]


def _what(dataset, name):
    """The quantity with the dark intervals, in words."""
    return "mean response" if name in ("smooth", "f") and _is_response(dataset) else name


def _is_response(dataset):
    """Whether the mean response is f itself."""
    return named(dataset.attrs.get("likelihood", "normal")).mean_name is None


def _label(dataset):
    """The label that a single panel is of: one that was chosen, or the second of two."""
    if "class" in dataset.coords:
        return dataset["class"].item()
    return dataset.attrs.get("labels", [None])[-1]


def _axis(dataset, along):
    """The feature along which predictions are shown, or None, and whether they are a curve."""
    value = dataset["value"].transpose("obs", "feature")
    features = value["feature"].values.tolist()
    varies = [f for f, wide in zip(features, np.ptp(value.values, axis=0), strict=True) if wide]
    if along is not None:
        one_of("along", along, features)
    elif len(varies) == 1:
        along = varies[0]
    x = value.sel(feature=along).values if along is not None else ()
    alone = varies == [along] and len(np.unique(x)) == len(x)
    new = dataset.attrs.get("samples", "new").startswith("new")  # without own deviations
    return along, alone and new


def _rows(dataset, curve):
    """Positions of the observations that are shown, by a feature's values if given; in words."""
    rows = np.arange(dataset.sizes["obs"])
    if curve is not None:
        return np.argsort(dataset["value"].sel(feature=curve).values, kind="stable"), []
    if len(rows) <= MOST_ROWS:
        return rows, []
    some = [f"{MOST_ROWS:,} of {len(rows):,} observations, at random"]
    return np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False)), some
