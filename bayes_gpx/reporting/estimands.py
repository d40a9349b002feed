"""What the variables of results estimate, in words, and which function returned them."""

from __future__ import annotations

import csv
from pathlib import Path

import xarray as xr

from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.draws.naming import event_of, units_of_result
from bayes_gpx.export.long_form import DRAWS, mean_of
from bayes_gpx.likelihoods.events import KINDS

HOW = {
    "integrated_gradients": "by integrated gradients",
    "shapley": "by Shapley values, the average over all orders in which features could change",
}
"""How each attribution method divides a difference among the features, in words."""

with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    TABLE = {row["quantity"]: row for row in csv.DictReader(_file)}
"""Quantities by the names of their variables, without `_mean`, `_sd` and so on.

A result comes from the `function` of the first of them that it has. An empty `unit` is the unit of
the result, and an empty `interval` an equal-tailed credible interval.
"""

OF = {
    ("heteroscedastic_normal", "response"): "mean or sd",
    ("asymmetric_laplace", None): "quantile",
}
"""Names of explained functions other than f and the mean response, by likelihood and scale."""

LINKED = ["log odds of a higher ", "probit of a higher ", "latent value of "]
LINKED += [f"{f} of " for f in ("log odds", "probit", "log rate", "log mean", "log median")]
"""How the units of f begin if they are not the units of the response, which follow."""

type Quantities = dict[str, list[str]]
"""Names of the variables of each quantity of a result."""


def quantities_of(result: xr.Dataset) -> Quantities:
    """Names of a result's variables, by the quantities that they belong to."""
    found: Quantities = {}
    for name in map(str, result.data_vars):
        words = name.split("_")
        heads = ["_".join(words[:k]) for k in range(len(words), 0, -1)]
        if known := next((head for head in heads if head in TABLE), None):
            found.setdefault(known, []).append(name)
    if not any(TABLE[name]["function"] for name in found):
        raise ValueError(
            f"The dataset has only the variables {list(result)}. Pass the result of an "
            "explanation function, such as bx.attributions."
        )
    return found


def main_of(quantities: Quantities) -> str:
    """The quantity that a result was asked for."""
    return next(name for name, row in TABLE.items() if row["function"] and name in quantities)


def function_of(result: xr.Dataset) -> str:
    """Name of the function that returned a result."""
    main = main_of(quantities_of(result))
    shapley = main == "attribution" and _method(result) == "shapley"
    return "shapley_values" if shapley else TABLE[main]["function"]


def _method(result: xr.Dataset) -> str:
    """The attribution method of a result, a key of `HOW`."""
    shapley = result.attrs.get("method") in ("shapley", "fanova")
    return "shapley" if shapley else "integrated_gradients"


def estimand(result: xr.Dataset, quantity: str) -> str:
    """What a quantity of a result estimates, in words."""
    attrs, of, event = result.attrs, "f", event_of(result)
    explained = attrs.get("likelihood", "").partition("(")[0], attrs.get("scale")
    if "weight" in attrs:
        of = f"weight of {attrs['weight']}"
    elif attrs.get("of") == "log_variance":
        of = "log variance"
    elif event is None and explained in OF:
        of = OF[explained]
    elif attrs.get("scale") == "response":
        of = "mean response" if event is None else "response"
    labels = attrs.get("labels", ())
    given = {name: attrs.get(name) for name in ("treatment", "contrast", "question", "gap_of")}
    given["comparison"] = attrs.get("comparison", "difference")
    given["label"] = labels[1] if len(labels) == 2 else "the class"
    words = TABLE[quantity]["estimand"].format(of=of, how=HOW[_method(result)], **given)
    if event is not None and quantity in ("response", *KINDS):
        return f"the {event}, at x"
    if event is not None and "{of}" in TABLE[quantity]["estimand"] and of == "response":
        words += f", where the response is the {event}"
    left_out = "elpd" in result and quantity in ("y", "probability", "rate", "response")
    return f"{words}, predicted from the other rows" if left_out else words


def unit(result: xr.Dataset, quantity: str, names: list[str]) -> str:
    """The unit of a quantity: of its variables, of the table, or else of the result."""
    # Others of the names may be the same on another scale, as `relevance_scaled` is.
    own = [result[name].attrs["units"] for name in names[:1] if "units" in result[name].attrs]
    said = TABLE[quantity]["unit"]
    whole = units_of_result(result) if "units" in result.attrs else "unit of f"
    if own or said not in ("", "response"):
        return [*own, said][0]
    if "output" in result.dims:
        return "each output's own"
    if quantity == "response" and (event := event_of(result)) is not None:
        return event
    if said:
        return next((whole.removeprefix(k) for k in LINKED if whole.startswith(k)), whole)
    # Paths have the unit of the derivative, which their attributions multiply by the change.
    return whole.removesuffix(" per unit of the feature") if quantity == "attribution" else whole


def intervals_of(result: xr.Dataset, quantities: Quantities) -> dict[str, str]:
    """Kind of interval of each quantity that has one."""
    found: dict[str, str] = {}
    for quantity, names in quantities.items():
        band = quantity.startswith("band_")
        ends = [name for name in names if band or name.endswith(("_interval", "_band"))]
        if any(result[name].notnull().any() for name in ends):
            found[quantity] = TABLE[quantity]["interval"] or "equal-tailed credible interval"
    return found


def summarized(result: xr.Dataset, prob: float) -> xr.Dataset:
    """A result without draws: they leave their mean, sd and interval if it has none of its own."""
    result = result.copy()
    drawn = [str(name) for name in result.data_vars if set(result[name].dims) >= DRAWS]
    averaged = [] if "log_weights" in result else drawn  # those are draws of unequal weight
    if "labels" in result.attrs:  # y are codes of labels
        averaged = [name for name in averaged if name != "y"]
    for name in averaged:
        # Copies of one draw have no spread.
        spread = result[name].max(DRAWS) > result[name].min(DRAWS)
        if f"{name}_mean" not in result:
            result[f"{name}_mean"] = mean_of(result, name)
            result[f"{name}_sd"] = result[name].std(DRAWS, keep_attrs=True).where(spread)
        own = f"{name}_interval" in result or f"{name}_band" in result
        if not own and spread.any():
            result[f"{name}_interval"] = interval_of(result, name, prob).where(spread)
    return result.drop_vars([*drawn, *DRAWS & set(result.variables)])
