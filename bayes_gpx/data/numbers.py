"""Read numbers of columns; text and missing values are refused with their places and a fix."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from bayes_gpx.data.categorical import is_missing, plain


def is_number(word: str) -> bool:
    """Whether text means a finite number."""
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def numeric(
    values: Any,
    name: str,
    column: str | None,
    index: Sequence[Any] | np.ndarray,
    cure: str | None = None,
) -> np.ndarray:
    """Numbers (n,), NaN where they are missing."""
    where = name if column is None else f"{name}, column {column!r},"
    kind = np.asarray(values).dtype.kind
    if kind in "mM":
        raise ValueError(
            f"{where} holds dates or durations instead of numbers. Convert them, e.g. to days."
        )
    if kind not in "biuf":
        values = _from_objects(np.asarray(values, dtype=object), where, index, cure)
    return np.asarray(values, dtype="float64")


def refuse_infinite(values: np.ndarray, where: str, index: Sequence[Any] | np.ndarray) -> None:
    """Raise where numbers are infinite; they may be missing."""
    bad = np.flatnonzero(np.isinf(values))
    if len(bad):
        raise ValueError(
            f"{where} has {len(bad)} infinite values, the first at row {plain(index[bad[0]])!r}. "
            "Pass finite numbers, and NaN where an output was not observed."
        )


IMPUTE = "impute the values several times (IterativeImputer), fit each, and use bx.combined"
"""Advice for missing features of training rows, other than leaving the rows out."""

FILL_IN = "fill in the values, for example with the medians of the training rows"
"""What can be done about missing features of other rows."""

OF_OUTPUTS = "Pass numbers, or one column of labels with likelihood='categorical'."
"""What can be done about outputs that are no numbers."""

MOST_ROWS, MOST_COLUMNS = 3, 6
"""So many rows and columns with missing values are named."""


def refuse_gaps(frame: Any, name: str, cure: str) -> None:
    """Raise where numbers are missing or infinite, naming their columns and rows."""
    bad, said = ~np.isfinite(frame.values), []
    if not bad.any():
        return
    for k, source in enumerate(frame.sources):
        rows = np.flatnonzero(bad[:, frame.groups == k].any(axis=1))
        if len(rows):
            said.append(f"column {source!r}, has {gaps(rows, frame.index)}")
    if len(said) > MOST_COLUMNS:
        said[MOST_COLUMNS:] = [f"and {len(said) - MOST_COLUMNS} more columns"]
    rows = bad.any(axis=1).sum()
    these = "this row" if rows == 1 else f"these {rows} rows"
    gappy = [source for k, source in enumerate(frame.sources) if bad[:, frame.groups == k].any()]
    if cure is IMPUTE and not frame.levels.keys().isdisjoint(gappy):
        cure += "; a missing category may be a level of its own, such as 'unknown'"
    raise ValueError(f"{name}, {'; '.join(said)}. Drop {these}, or {cure}.")


def gaps(rows: np.ndarray, index: Sequence[Any] | np.ndarray) -> str:
    """How many values are missing and where, in words."""
    labels = [repr(plain(index[row])) for row in rows[:MOST_ROWS]]
    labels += [f"{len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    listed = " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))
    return f"{len(rows)} missing or infinite values, at row{'s' * (len(rows) > 1)} {listed}"


CATEGORIES = "in pandas .astype('category'), in polars .cast(pl.Categorical)"


def _from_objects(
    values: np.ndarray, where: str, index: Sequence[Any] | np.ndarray, cure: str | None
) -> np.ndarray:
    """Numbers from an object column; raises with the first invalid row, and a fix."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        missing = is_missing(value)
        if not missing and not isinstance(value, int | float | np.integer | np.floating | np.bool_):
            if isinstance(value, Decimal):
                cure = "Convert them by .astype(float)."
            elif cure is None:
                i, cure = _of_text(values, i)
            raise ValueError(
                f"{where} holds {values[i]!r} ({type(values[i]).__name__}) at row "
                f"{plain(index[i])!r}, instead of a number. {cure}"
            )
        try:
            numbers[i] = np.nan if missing else value
        except OverflowError:  # an integer beyond all floats
            numbers[i] = np.inf
    return numbers


def _of_text(values: np.ndarray, first: int) -> tuple[int, str]:
    """The first entry that is no number, or else no more than text; and what can be done."""
    texts = {i: value for i, value in enumerate(values) if isinstance(value, str)}
    words = [i for i, text in texts.items() if not is_number(text)]
    others = sum(not is_missing(value) for value in values) - len(words)
    if first not in texts or not others:
        cure = (
            f"Declare categories: {CATEGORIES}. Convert text that means numbers by pd.to_numeric."
        )
        return first, cure
    if not words:
        return first, "Convert the text to numbers by pd.to_numeric, in polars .cast(pl.Float64)."
    return words[0], (
        "Convert the text to numbers by pd.to_numeric(..., errors='coerce'), which leaves gaps for "
        f"entries such as this one. If the entries are names, declare categories: {CATEGORIES}."
    )
