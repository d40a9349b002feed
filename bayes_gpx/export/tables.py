"""Explanations in long form, as CSV files of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Draws, Table
from bayes_gpx.data.categorical import indicator
from bayes_gpx.data.dates import date_after
from bayes_gpx.data.gaps import gaps_in_words
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.scales import response_units
from bayes_gpx.explain import attributions, contributions, predictions, shapley_values, weights
from bayes_gpx.explain.weights import deviation_sds
from bayes_gpx.export.long_form import to_pandas

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

ATTRIBUTION_METHODS: dict[str, Callable[..., xr.Dataset]] = {
    "integrated_gradients": attributions,
    "shapley": shapley_values,
}
"""Verbs that divide the difference from a baseline among features, by their methods' names."""

CHUNK = 100
"""Rows that are explained at once, and written before the next."""

EXPLAINED_DRAWS = 250
"""Most hyperparameter draws in a table of explanations, whose cost grows with them."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that a spreadsheet takes for a formula."""


def as_csv(frame: Any, header: bool = True) -> bytes:
    """Bytes of a table as CSV, with or without its first row of names."""
    # An apostrophe is put before text that a spreadsheet would take for a formula.
    inert = frame.rename(columns=_inert).map(_inert)
    # Early versions of Python 3.12 quote a carriage return in text only if rows end with one.
    written = inert.to_csv(index=False, header=header, lineterminator="\r\n")
    return written.replace("\r\n", "\n").encode()


def _inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


@dataclass(frozen=True)
class Beside:
    """Columns copied next to each row of a table; each is a Series by row, or None."""

    ids: Any = None  # names of the rows
    observed: Any = None  # the target, if known
    groups: Any = None  # passed to the model
    gaps: Any = None  # a frame that marks missing values that were filled in

    def of(self, rows: Any) -> Beside:
        """Select some rows."""
        parts = {name: getattr(self, name) for name in ("ids", "observed", "groups", "gaps")}
        return Beside(**{k: None if v is None else v.loc[rows] for k, v in parts.items()})

    def joined(self, frame: Any) -> Any:
        """A table with a column `row`, with `id` after it, `group` and `observed`."""
        rows, after = frame["row"], 1
        for name, column in (("id", self.ids), ("group", self.groups), ("observed", self.observed)):
            if column is not None:
                frame.insert(after, name, column.loc[rows].to_numpy())
                after += 1
        return frame

    def coords(self, dim: str) -> dict[str, tuple]:
        """The columns as coordinates of a result: `id`, `group`, `observed` and `filled_in`."""
        found = {"id": self.ids, "group": self.groups, "observed": self.observed}
        found["filled_in"] = None if self.gaps is None else gaps_in_words(self.gaps)
        return {n: (dim, np.asarray(own)) for n, own in found.items() if own is not None}


type Seen = Callable[[Mapping[str, xr.Dataset]], object] | None
"""What takes the results of each block, by name, besides their table."""


def predicted(
    model: Model,
    idata: Draws,
    X: Any,
    beside: Beside,
    *,
    ci_prob: float | None = None,
    seed: int | None,
    seen: Seen = None,
    known: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """Yield blocks of predictions, one line for each row; `known` are exposures and the like."""
    # Columns are row, the columns of `Beside`, and each of the following with _mean, _sd, _lower
    # and _upper: f, on the link scale; y, a new response; for classes a probability for each class
    # but the first of two; rate and y for counts. `predicted` is the most probable class.
    prob = interval_probability(ci_prob)
    for _, _, found, own in _blocks(model, idata, X, beside, prob, seed, known or {}):
        if seen is not None:
            seen({"prediction": found})
        yield _predictions_table(model, found, own, prob)


def explained(
    model: Model,
    idata: Draws,
    X: Any,
    beside: Beside,
    *,
    baseline: str | Table,
    attribution: str = "integrated_gradients",
    ci_prob: float | None = None,
    seed: int | None,
    seen: Seen = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield blocks of explanations, a line for each row and feature, and of predictions."""
    # Explanations have the columns row, the columns of `Beside`, feature (and class), value; for a
    # GPX weight (the weight function) and contribution; and attribution, each with _mean, _sd,
    # _lower and _upper. `response_unit` is the unit of attributions and predictions.
    # `weight_deviation_sd` is the sd of the rows' deviations from the weight function. `offset`
    # plus contributions is f_mean; `baseline_mean` plus attributions is prediction_mean. The value
    # of a category is its level, with the weight of this level; dates are written as dates. At most
    # `EXPLAINED_DRAWS` hyperparameter draws are used, evenly spaced.
    verbs: dict[str, Callable[..., xr.Dataset]] = {}
    if model.training.Z is not None:
        verbs |= {"weight": partial(weights, smooth=True), "contribution": contributions}
        deviations = deviation_sds(model, idata, EXPLAINED_DRAWS)
    prob = interval_probability(ci_prob)
    against = partial(ATTRIBUTION_METHODS[attribution], baseline=baseline)
    thinned = {"num_draws": EXPLAINED_DRAWS}
    for asked, options, made, own in _blocks(model, idata, X, beside, prob, seed, {}, **thinned):
        found = {said: verb(*asked, **options) for said, verb in verbs.items()}
        found["attribution"] = against(*asked, **options)
        shares = found["attribution"]
        if "weight" in found:
            own_sd = deviations.broadcast_like(found["weight"]["weight_mean"])
            found["weight"] = found["weight"].assign(weight_deviation_sd=own_sd)
        if seen is not None:
            seen({"prediction": made, **found})
        if "level" in shares.coords and "weight" in found:
            found["weight"] = _of_own_levels(found["weight"], shares["level"])
        named: dict[str, Any] = {}
        for said, dataset in found.items():
            named |= _moments(dataset, said)
        whole = xr.Dataset(named | {"value": shares["value"]}, attrs={"ci_prob": prob})
        frame = to_pandas(whole)
        if "weight" in found:
            sds = found["weight"]["weight_deviation_sd"].to_series().rename("weight_deviation_sd")
            columns = sds.reset_index().rename(columns={"obs": "row"})
            frame = frame.merge(columns, how="left", sort=False)
        ends = {"prediction_mean": made["response_mean"]}
        ends["baseline_mean"] = made["response_mean"] - shares["difference_mean"]
        if "contribution" in found:
            ends = {"offset": found["contribution"]["offset"], **ends}
        each = xr.Dataset(ends).drop_attrs().to_dataframe().reset_index()
        frame = frame.merge(each.rename(columns={"obs": "row"}), how="left", sort=False)
        frame = _in_words(frame, model.training.X.origins)
        if own.gaps is not None:
            pairs = zip(frame["row"], frame["feature"], strict=True)
            missing = [bool(own.gaps[f].loc[row]) if f in own.gaps else False for row, f in pairs]
            at = cast(int, frame.columns.get_loc("value"))
            frame.insert(at + 1, "filled_in", missing)
        frame["response_unit"] = shares.attrs["units"]
        yield own.joined(frame), _predictions_table(model, made, own, prob)


def _blocks(
    model: Model,
    idata: Draws,
    X: Any,
    beside: Beside,
    prob: float,
    seed: int | None,
    known: Mapping[str, Any],
    **thinned: Any,
) -> Iterator[tuple[tuple, dict[str, Any], xr.Dataset, Beside]]:
    """Blocks of rows: arguments and options of functions, predictions, and columns of `Beside`."""
    seeds = np.random.SeedSequence(seed).spawn(-(-len(X) // CHUNK))
    for k, entropy in enumerate(seeds):
        rows = X.iloc[k * CHUNK : (k + 1) * CHUNK]
        options: dict[str, Any] = {"seed": int(entropy.generate_state(1)[0]), "progressbar": False}
        options |= thinned
        options["ci_prob"] = prob
        here = beside.of(rows.index)
        if here.groups is not None:
            options["groups_new"] = here.groups
        asked = (model, idata, rows)
        own = {name: values.loc[rows.index].to_numpy() for name, values in known.items()}
        yield asked, options, predictions(*asked, **(options | own)), here


def _predictions_table(
    model: Model, found: xr.Dataset, beside: Beside, prob: float
) -> pd.DataFrame:
    """Predictions, one line for each row."""
    labels, name = model.training.labels, model.specification.response.reported
    named: dict[str, Any] = {}
    for quantity in dict.fromkeys(("f", "smooth", name, "y" if labels is None else name)):
        parts = _moments(found, quantity)
        if labels is not None and quantity == name and "class" not in found.dims:
            parts = {k.replace(name, f"{name}_{labels[1]}"): part for k, part in parts.items()}
        for part, array in parts.items():
            if "class" not in array.dims:
                named[part] = array
                continue
            for label in array["class"].values:
                said = f"{quantity}_{label}" + part.removeprefix(quantity)
                named[said] = array.sel({"class": label}, drop=True)
    frame = to_pandas(xr.Dataset(named, attrs={"ci_prob": prob}))
    if labels is not None:
        mean = found[f"{name}_mean"].values
        codes = mean.argmax(axis=1) if mean.ndim > 1 else (mean > 0.5).astype(int)
        frame.insert(1, "predicted", np.array(labels)[codes])
    if beside.gaps is not None:
        frame.insert(1, "filled_in", gaps_in_words(beside.gaps))
    frame["response_unit"] = response_units(model)
    return beside.joined(frame)


def _of_own_levels(dataset: xr.Dataset, level: xr.DataArray) -> xr.Dataset:
    """Reduce indicators to the user's columns: a category takes the row's level."""
    columns = level["feature"].astype(str)
    names = xr.where(level == "", columns, xr.apply_ufunc(np.vectorize(indicator), columns, level))
    drawn = {name: array for name, array in dataset.items() if "feature" in array.dims}
    at = {"obs": level["obs"], "feature": names.rename(feature="source")}
    picked = xr.Dataset(drawn).sel(at).drop_vars("feature").rename(source="feature")
    return picked.assign_coords(feature=level["feature"])


def _in_words(frame: pd.DataFrame, origins: Mapping[str, Any]) -> pd.DataFrame:
    """Values that are no numbers: levels of categories, and dates in the place of days."""
    if "level" in frame:
        value = frame["value"].astype(object).where(frame["level"] == "", frame["level"])
        frame = frame.assign(value=value).drop(columns="level")
    for column, origin in origins.items():
        dated = frame["feature"] == column
        dates = [str(date_after(origin, days)) for days in frame.loc[dated, "value"]]
        frame.loc[dated, "unit"] = ""
        frame["value"] = frame["value"].astype(object)
        frame.loc[dated, "value"] = dates
    return frame


def _moments(found: xr.Dataset, name: str, said: str | None = None) -> dict[str, xr.DataArray]:
    """Draws, moments and interval of one quantity, under the name that is said of it."""
    parts = [part for part in ("", "_mean", "_sd", "_interval") if f"{name}{part}" in found]
    return {f"{said or name}{part}": found[f"{name}{part}"] for part in parts}
