"""Tables of people who write no Python: CSV or Parquet in, explanations in long form out."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Draws, Table
from bayes_gpx.explain import attributions, contributions, predictions, weights
from bayes_gpx.export.long_form import to_pandas

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

PARQUET = (".parquet", ".pq")
CHUNK = 100
"""Rows that are explained at once, and written before the next."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that a spreadsheet takes for a formula."""


def read_sheet(path: str | PathLike) -> Any:
    """Rows of a CSV or Parquet file, numbered from 1.

    Raises
    ------
    ValueError
        If the file cannot be read as a table, or is Parquet without pyarrow; if names repeat, or
        rows have more fields than there are names.
    """
    path = Path(path)
    try:
        frame, names = _parquet(path) if path.suffix in PARQUET else _csv(path)
    except ImportError as missing:
        raise ValueError(
            f"{path} is Parquet, which needs pyarrow: pip install pyarrow, or save it as CSV."
        ) from missing
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as unreadable:
        raise ValueError(
            f"{path} cannot be read as a table: {unreadable}. Expected CSV with a first row of "
            "column names, or Parquet."
        ) from unreadable
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} has repeated column names {repeated}; rename them.")
    frame.columns = [str(column) for column in frame.columns]
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return frame


def _parquet(path):
    """A table, and its names as they stand in the file."""
    frame = pd.read_parquet(path)
    return frame, [str(column) for column in frame.columns]


def _csv(path):
    """A table, and its names as they stand in the file: pandas renames those that repeat."""
    names = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna().tolist()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # Else pandas takes fields that are too many for an index, and shifts all columns.
            return pd.read_csv(path, index_col=False), names
    except pd.errors.ParserWarning as shifted:
        raise ValueError(
            f"{path} has rows of more fields than the {len(names)} names in its first row, "
            f"{', '.join(names)}; expected as many. Look for a missing name, and for commas inside "
            "of fields that are not in quotes."
        ) from shifted


def columns_of(frame: Any, names: Sequence[str], what: str, categorical: Sequence[str] = ()) -> Any:
    """Columns of a sheet, in the order of the names; numbers, but for those that are `categorical`.

    Raises
    ------
    ValueError
        If some are missing, each with the nearest name that exists; if some hold text or gaps.
    """
    missing = [name for name in names if name not in frame.columns]
    if missing:
        described = []
        for name in missing:
            near = difflib.get_close_matches(name, frame.columns, 1, cutoff=0.5)
            described.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
        raise ValueError(
            f"{what} has no column {', '.join(described)}; it has {', '.join(frame.columns)}."
        )
    chosen = frame[list(names)]
    for name in names:
        if name in categorical:
            continue
        column = pd.to_numeric(chosen[name], errors="coerce")
        if column.isna().any():
            row = int(column.index[column.isna()][0])
            held = chosen[name].loc[row]
            raise ValueError(
                f"{what}: column {name!r} holds {held} in row {row}; expected numbers without "
                "gaps. Declare categories by --categorical, leave the column out by --features, or "
                "drop the row."
            )
    numbers = chosen.astype({n: "float64" for n in names if n not in categorical})
    return numbers.astype({n: "category" for n in names if n in categorical})


def as_csv(frame: Any, header: bool = True) -> bytes:
    """Bytes of a table as CSV, with or without its first row of names.

    An apostrophe is put before text that a spreadsheet would take for a formula.
    """
    inert = frame.rename(columns=_inert).map(_inert)
    return inert.to_csv(index=False, header=header, lineterminator="\n").encode()


def _inert(value):
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def explained(
    model: Model, idata: Draws, X: Any, *, baseline: str | Table, seed: int | None
) -> Iterator[Any]:
    """Blocks of explanations in long form, a row for each observation and feature.

    Yields
    ------
    pandas.DataFrame
        Columns row, feature (and class), value; of a GPX weight and contribution, and attribution,
        each with _mean, _sd, _lower and _upper; and the same of the prediction.
    """
    verbs: list[Callable[..., xr.Dataset]]
    verbs = [attributions] if model.training.Z is None else [weights, contributions, attributions]
    seeds = np.random.SeedSequence(seed).spawn(-(-len(X) // CHUNK))
    for k, own in enumerate(seeds):
        rows = X.iloc[k * CHUNK : (k + 1) * CHUNK]
        asked: Any = (model, idata, rows)
        options: dict[str, Any] = {"seed": int(own.generate_state(1)[0]), "progressbar": False}
        predicted = predictions(*asked, **options)
        name = model.specification.observation.reported
        named: dict[str, Any] = {}
        for verb in verbs:
            more: dict[str, Any] = {"baseline": baseline} if verb is attributions else {}
            found = verb(*asked, **more, **options)
            named |= _moments(found, verb.__name__.removesuffix("s"))
        named |= _moments(predicted, name, "prediction")
        named |= {"value": found["value"]}
        yield to_pandas(xr.Dataset(_side_by_side(named)))


def _side_by_side(arrays):
    """The same along one list of features: weights are of levels, their sums of columns."""
    along = [array["feature"].to_index() for array in arrays.values() if "feature" in array.dims]
    features = reduce(lambda known, more: known.append(more.difference(known, sort=False)), along)
    return {
        name: array.reindex(feature=features) if "feature" in array.dims else array
        for name, array in arrays.items()
    }


def _moments(found, name, said=None):
    """Draws, mean and sd of one quantity, under the name that is said of it."""
    return {f"{said or name}{part}": found[f"{name}{part}"] for part in ("", "_mean", "_sd")}
