"""Tables for people who write no Python: explanations in long form, as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws, Table
from bayes_gpx.data.categorical import indicator
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.explain import attributions, contributions, predictions, shapley_values, weights
from bayes_gpx.export.long_form import to_pandas

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

DIVISIONS = {"integrated_gradients": attributions, "shapley": shapley_values}
"""Verbs that divide the difference from a baseline among features, by their methods' names."""

CHUNK = 100
"""Rows that are explained at once, and written before the next."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that a spreadsheet takes for a formula."""


def as_csv(frame: Any, header: bool = True) -> bytes:
    """Bytes of a table as CSV, with or without its first row of names.

    An apostrophe is put before text that a spreadsheet would take for a formula.
    """
    inert = frame.rename(columns=_inert).map(_inert)
    # Early versions of Python 3.12 quote a carriage return in text only if rows end with one.
    written = inert.to_csv(index=False, header=header, lineterminator="\r\n")
    return written.replace("\r\n", "\n").encode()


def _inert(value):
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def explained(
    model: Model,
    idata: Draws,
    X: Any,
    *,
    baseline: str | Table,
    division: str = "integrated_gradients",
    ci_prob: float | None = None,
    seed: int | None,
) -> Iterator[Any]:
    """Blocks of explanations in long form, a row for each observation and feature.

    Yields
    ------
    pandas.DataFrame
        Columns row, feature (and class), value; of a GPX weight and contribution, and attribution,
        each with _mean, _sd, _lower and _upper; and the same of the prediction. The value of a
        category is its level, and its weight that of this level.
    """
    verbs: dict[str, Callable[..., xr.Dataset]] = {}
    if model.training.Z is not None:
        verbs |= {"weight": weights, "contribution": contributions}
    against = partial(DIVISIONS[division], baseline=baseline)
    prob = interval_probability(ci_prob)
    seeds = np.random.SeedSequence(seed).spawn(-(-len(X) // CHUNK))
    for k, own in enumerate(seeds):
        rows = X.iloc[k * CHUNK : (k + 1) * CHUNK]
        asked: Any = (model, idata, rows)
        options: dict[str, Any] = {"seed": int(own.generate_state(1)[0]), "progressbar": False}
        options["ci_prob"] = prob
        predicted = predictions(*asked, **options)
        name = model.specification.observation.reported
        found = {said: verb(*asked, **options) for said, verb in verbs.items()}
        found["attribution"] = against(*asked, **options)
        shares = found["attribution"]
        if "level" in shares.coords and "weight" in found:
            found["weight"] = _of_own_levels(found["weight"], shares["level"])
        named: dict[str, Any] = {}
        for said, dataset in found.items():
            named |= _moments(dataset, said)
        named |= _moments(predicted, name, "prediction")
        whole = xr.Dataset(named | {"value": shares["value"]}, attrs={"ci_prob": prob})
        yield _levels_as_values(to_pandas(whole))


def _of_own_levels(dataset, level):
    """A dataset of indicators along the user's columns: of a category, that of the row's level."""
    columns = level["feature"].astype(str)
    names = xr.where(level == "", columns, xr.apply_ufunc(np.vectorize(indicator), columns, level))
    drawn = {name: array for name, array in dataset.items() if "feature" in array.dims}
    at = {"obs": level["obs"], "feature": names.rename(feature="source")}
    picked = xr.Dataset(drawn).sel(at).drop_vars("feature").rename(source="feature")
    return picked.assign_coords(feature=level["feature"])


def _levels_as_values(frame):
    if "level" not in frame:
        return frame
    value = frame["value"].astype(object).where(frame["level"] == "", frame["level"])
    return frame.assign(value=value).drop(columns="level")


def _moments(found, name, said=None):
    """Draws, moments and interval of one quantity, under the name that is said of it."""
    parts = [part for part in ("", "_mean", "_sd", "_interval") if f"{name}{part}" in found]
    return {f"{said or name}{part}": found[f"{name}{part}"] for part in parts}
