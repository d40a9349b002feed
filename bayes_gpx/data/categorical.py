"""Categorical columns: declared by their type, held as one indicator column for each level."""

# A stationary kernel of the indicators, with one lengthscale for all of them, is the exchangeable
# kernel: 1 for equal levels, and one correlation for any two that differ.

import difflib
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

NAMED = 12
"""So many levels are listed where one is unknown, and of more the first ones."""


def declared(series: Any) -> tuple[str, ...] | None:
    """Levels of a pandas or polars column that is declared to be categorical, or None."""
    if series.dtype not in (nw.Categorical, nw.Enum):
        return None
    levels = getattr(getattr(series.to_native(), "cat", None), "categories", None)
    if levels is None and series.dtype == nw.Enum:
        levels = series.dtype.categories
    # The type ``pl.Categorical`` contains no levels, so the levels are those that occur.
    elif levels is None:
        levels = series.drop_nulls().unique().sort().to_list()
    texts = tuple(as_text(level) for level in levels)
    repeated = [text for k, text in enumerate(texts) if text in texts[:k]]
    if repeated:
        raise ValueError(
            f"Column {series.name!r} has different levels that are all written {repeated[0]!r}. "
            "Rename them, or convert the column by .astype(str).astype('category')."
        )
    if "" in texts and (series.cast(nw.String) == "").any():
        raise ValueError(
            f"Column {series.name!r} has the empty text as a level. Give it a name, such as "
            "'none', or pass these cells as missing."
        )
    return texts


def as_text(label: Any) -> str:
    """A label as text: 3, 3.0 and "3" are one label, as a column with gaps may have any of them."""
    whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if whole else str(plain(label))


def indicator(column: str, level: str) -> str:
    """Name of the indicator of a level."""
    return f"{column}={level}"


def codes(
    values: Any, levels: Sequence[str], where: str, index: Sequence[Any] | np.ndarray
) -> np.ndarray:
    """Position of each value among the levels (n,), NaN if missing; raises for unknown values."""
    known = {level: float(code) for code, level in enumerate(levels)}
    found = np.empty(len(values))
    for i, value in enumerate(values):
        text = str(value) if str(value) in known else as_text(value)
        if not is_missing(value) and text not in known:
            near = difflib.get_close_matches(text, levels, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{where} holds {text!r} at row {plain(index[i])!r}, but its levels are "
                f"{_some(levels)}.{hint} A level without training rows can be explained if it was "
                "declared, as in pandas.Categorical(..., categories=[...]), or if it is a label of "
                "bx.Precomputed."
            )
        found[i] = np.nan if is_missing(value) else known[text]
    return found


def _some(levels: Sequence[str]) -> list[str] | str:
    """The levels or, of many, the first ones and their number."""
    if len(levels) <= NAMED:
        return list(levels)
    return f"of {len(levels)} such as {', '.join(map(repr, levels[:3]))}"


def is_missing(value: Any) -> bool:
    """Whether an object stands for no value."""
    differs = value != value
    return value is None or type(value).__name__ == "NAType" or (np.ndim(differs) == 0 and differs)


def plain(label: Any) -> Any:
    """A label as Python's own type."""
    return label.item() if hasattr(label, "item") else label  # numpy's scalars have `item`
