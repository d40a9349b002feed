"""A result as a paragraph for a paper or an email."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Labels
from bayes_gpx.data.dates import origin_of
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import of_quantile
from bayes_gpx.draws.points import rows_labelled
from bayes_gpx.plots.selection import against, short, value_text
from bayes_gpx.reporting.estimands import (
    estimand,
    function_of,
    intervals_of,
    main_of,
    quantities_of,
    summarized,
    unit,
)
from bayes_gpx.reporting.page import change, interval, number

MOST_ROWS, MOST_CELLS, MOST_LETTERS = 3, 6, 200
"""Most rows, numbers of each, and letters of its label in a paragraph; a table holds more."""

SHOWN = {
    "predictions": ("survival", "hazard", "quantile", "probability", "rate", "y", "f"),
    "loo_predictions": ("y", "probability", "rate"),
    "path_slopes": ("attribution",),
    "relevance": ("average_relevance",),
    "interactions": ("average_interaction",),
    "ranking": ("average_relevance", "average_interaction"),
    "importances": ("sobol_total", "mean_absolute_derivative", "mean_squared_derivative"),
}
"""Quantities to describe, by function: the first that a result has; else its main quantity."""

OF_ROWS = {"average_slope": "derivative", "ate": "effect"}
OF_ROWS |= {"average_relevance": "relevance", "average_interaction": "interaction"}
"""Quantities of rows, by the averages that are described if no rows are chosen."""

CHANGES = ["attribution", "contribution", "comparison", "component", "derivative", "weight"]
CHANGES += ["second_derivative", "average_slope", "effect", "ate", "reason", "group_difference"]
"""Quantities with a sign, written in front of positive numbers too."""


def describe(result: xr.Dataset, *, obs: Labels | None = None) -> str:
    """Describe a result in a paragraph for a paper or an email.

    The paragraph names the estimand, its unit, the baseline, the estimates with their intervals,
    and the likelihood and versions. A result contains no priors and no convergence. Use `to_json`
    with the model and its fit to add them.

    Parameters
    ----------
    result : xarray.Dataset
        The result of an explanation function.
    obs : label or list of labels, optional
        Only these rows. By default the paragraph has the first three rows, or the average of
        `slopes`, `treatment_effects`, `relevance` and `interactions`. Each row has its six largest
        numbers.

    Returns
    -------
    str
        Plain text without line breaks.

    Raises
    ------
    ValueError
        If `result` is not from an explanation function, or has no such rows.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(30, 2))
    >>> model = bx.GP(X, X[:, 0] ** 2)
    >>> theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    >>> found = bx.comparisons(
    ...     model, theta, X[:1], variables={"x0": (0, 1)}, keep="summary", progressbar=False
    ... )
    >>> print(bx.describe(found)[:75])
    We estimated the difference of f(x) between the two named values (unit: y).
    """
    function, prob = function_of(result), interval_probability(None, result)
    result = summarized(result, prob)
    known = quantities_of(result)
    shown = next((q for q in SHOWN.get(function, ()) if q in known), main_of(known))
    shown = "f" if of_quantile(result) and "f" in known else shown
    shown = shown if obs is None else OF_ROWS.get(shown, shown)
    if "by" in result.dims and "by" not in result[known[shown][0]].dims:  # groups were asked for
        shown = next((q for q, own in known.items() if "by" in result[own[0]].dims), shown)
    names = known[shown]
    mean = _chosen(result[f"{shown}_mean" if f"{shown}_mean" in names else shown])
    by = next((dim for dim in ("obs", "by") if dim in mean.dims), None)
    if obs is not None and by != "obs":
        raise ValueError(
            f"obs is {obs!r}, but the result of {function} has no observations. Leave obs out."
        )
    own_unit, start = unit(result, shown, names), against(result)
    notes = "; ".join(filter(None, [f"unit: {own_unit}" * (own_unit != "none"), start]))
    said = [f"We estimated {estimand(result, shown)}{f' ({notes})' if notes else ''}."]
    if "selected" in result:
        labels = ", ".join(map(str, result["selected"].values))
        said.append(f"Chosen, in this order: {labels}.")
    if by is None:
        said.append(f"Estimates: {'; '.join(_cells(result, mean, shown))}.")
    else:
        rows = rows_labelled(result[by].values, obs) if by == "obs" else np.arange(len(result[by]))
        chosen = rows if obs is not None else rows[:MOST_ROWS]
        for row in chosen:
            own, label = result.isel({by: row}), short(result[by].values[row], MOST_LETTERS)
            cells = "; ".join(_cells(own, mean.isel({by: row}), shown))
            said.append(
                f"{'Observation' if by == 'obs' else 'Average over observations,'} {label}: "
                f"{cells}."
            )
        if left := len(rows) - len(chosen):
            said.append(
                f"The result has {left} more {'observations' if by == 'obs' else 'groups'}."
            )
    if kind := intervals_of(result, {shown: names}).get(shown):
        said.append(f"Brackets give the {100 * prob:.4g}% {kind}.")
    elif f"{shown}_sd" in result and (result[f"{shown}_sd"] > 0.0).any():
        said.append("Parentheses give the posterior standard deviation.")
    else:
        said.append("These estimates have no intervals.")
    if shown in ("attribution", "contribution", "reason"):
        said.append(f"{shown.capitalize()}s describe the model, not the effect of a change.")
    if shown in ("average_slope", "derivative") and (names := _of_two_values(result)):
        said.append(
            f"Only 0 and 1 occur in {', '.join(names)}: the derivative is not the difference "
            "between these two values, which comparisons estimates."
        )
    said.append(str(result.attrs.get("assumptions", "")))
    if "likelihood" in result.attrs:
        versions = "bayes_gpx {bayes_gpx}, PyMC {pymc}".format(**result.attrs)
        said.append(f"The model's likelihood is {result.attrs['likelihood']} ({versions}).")
    return " ".join(" ".join(said).split())


def _of_two_values(result: xr.Dataset) -> list[str]:
    """Features with the values 0 and 1 in the rows, and no others."""
    if "value" not in result or "obs" not in result["value"].dims:
        return []
    truths = result["value"].isin([0.0, 1.0]).all("obs") & (result["value"].std("obs") > 0.0)
    return [str(name) for name in result["feature"].values[truths.values]]


def _chosen(mean: xr.DataArray) -> xr.DataArray:
    """The estimates to describe: each pair once, and both ends of a curve."""
    if "feature_bis" in mean.dims:
        places = (
            xr.DataArray(np.arange(mean.sizes[d]), dims=d) for d in ("feature", "feature_bis")
        )
        mean = mean.where(next(places) <= next(places))
    if "step" in mean.dims and "feature" in mean.dims:
        known = mean.notnull()
        mean = mean.where((known.cumsum("step") == 1) | (known.cumsum("step") == known.sum("step")))
    return mean


def _cells(result: xr.Dataset, mean: xr.DataArray, quantity: str) -> Iterator[str]:
    """The estimates of one row, the largest first if there are many, each with its interval."""
    sizes = np.abs(mean.values.ravel())
    order = np.flatnonzero(~np.isnan(sizes))
    most = order if "step" in mean.dims else order[np.argsort(-sizes[order], kind="stable")]
    for k in (most if len(order) > MOST_CELLS else order)[:MOST_CELLS]:
        at = dict(zip(mean.dims, np.unravel_index(k, mean.shape), strict=True))
        estimate = _estimate(result, quantity, float(mean.isel(at)), at)
        yield f"{_label(result, at)}{estimate}{_beyond(result, quantity, at)}"
    if len(order) > MOST_CELLS:
        left = len(order) - MOST_CELLS
        yield "1 other is left out" if left == 1 else f"{left} others are left out"


def _label(result: xr.Dataset, at: Mapping[Any, Any]) -> str:
    """The feature with its value and baseline, contrast, class, ... of an estimate."""
    words = []
    for dim, place in at.items():
        name = str(result[dim].values[place])
        if dim == "rank" and "reason" in result:
            own = result[["reason", "reason_probability"]].isel(at)
            sure = f"probability {float(own['reason_probability']):.0%}"
            words.append(f"{own['reason'].item()} (among the first {result.sizes['rank']}: {sure})")
            continue
        if dim == "feature" and "value" in result and {*result["value"].dims} <= {*at}:
            own = result.isel({d: k for d, k in at.items() if d in result["value"].dims})
            level = str(own["level"].item()) if "level" in own else ""
            of_feature = str(own["unit"].item()) if "unit" in own else ""
            dated = origin_of(of_feature) is not None
            name += f" {value_text(float(own['value']), level, of_feature)}"
            name += f" {of_feature}" if of_feature and not (level or dated) else ""
            if "baseline" in own.data_vars and not own["baseline"].ndim:
                start = str(own["baseline_level"].item()) if level else ""
                start = start if level else value_text(float(own["baseline"]), "", of_feature)
                name += f" (baseline {start})" if start else ""
        elif dim == "feature" and " per unit of the feature" in str(result.attrs.get("units")):
            of_feature = str(result["unit"].values[place]) if "unit" in result.coords else ""
            of_feature = "day" if origin_of(of_feature) is not None else of_feature
            name += f" (per {of_feature})" if of_feature else ""
        if dim in ("feature", "feature_bis", "contrast"):
            words.append(name)
        elif dim != "step" or "feature" not in at:
            words.append(f"{dim} {name}")
    return f"{', '.join(words)}: " if words else ""


def _estimate(result: xr.Dataset, quantity: str, mean: float, at: Mapping[Any, Any]) -> str:
    """An estimate with its interval, or else with its sd."""
    signed = quantity in CHANGES and result.attrs.get("comparison") != "ratio"
    known = result.get(f"{quantity}_interval", result.get(f"{quantity}_band"))
    if known is not None and np.isfinite(ends := known.isel(at).values).all():
        return change(mean, *ends) if signed else f"{number(mean)} {interval(*ends)}"
    sd = float(result[f"{quantity}_sd"].isel(at)) if f"{quantity}_sd" in result else 0.0
    plus = "+" if signed and mean > 0 else ""
    return plus + number(mean) + (f" (sd {number(sd)})" if sd > 0.0 else "")


def _beyond(result: xr.Dataset, quantity: str, at: Mapping[Any, Any]) -> str:
    """Probabilities that a difference of groups is larger than the size that was asked about."""
    if f"{quantity}_above" not in result:
        return ""
    above, below = (float(result[f"{quantity}_{side}"].isel(at)) for side in ("above", "below"))
    size = number(result.attrs["size"])
    beyond = f"above {size} with probability {above:.2g}"
    return f", {beyond} and below {'-' if float(size) else ''}{size} with {below:.2g}"
