"""CSV and Parquet files of the command line, checked with messages about its options."""

import difflib
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any, cast

import numpy as np
import pandas as pd

PARQUET = (".parquet", ".pq")
"""Endings of files that are read as Parquet; all others are read as CSV."""

SEPARATORS = (";", "\t", "|")
"""What may stand between fields in the place of commas, which alone are read."""

DATE = r"\d[-/.:]\d+[-/.:]\d|\d:\d\d"
"""What is part of every date or time that is written in figures."""

LOOKED_AT = 50
"""Entries of a column that tell whether it holds dates."""


def read_sheet(path: str | PathLike) -> Any:
    """Rows of a CSV or Parquet file, numbered from 1; ValueError for anything but a plain table."""
    path = Path(path)
    try:
        frame, names = _parquet(path) if path.suffix in PARQUET else _csv(path)
    except ImportError as missing:
        raise ValueError(
            f"{path} is Parquet, which needs pyarrow: pip install pyarrow, or save it as CSV."
        ) from missing
    except UnicodeDecodeError as binary:
        raise ValueError(
            f"{path} cannot be read as a table: it is not text in UTF-8. Save it as CSV, from a "
            "spreadsheet too; Parquet is known by its ending, .parquet."
        ) from binary
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as unreadable:
        raise ValueError(
            f"{path} cannot be read as a table: {unreadable}. Pass CSV with a first row of column "
            "names, or Parquet."
        ) from unreadable
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} has repeated column names {repeated}; rename them.")
    frame.columns = [str(column) for column in frame.columns]
    frame.index = pd.RangeIndex(1, len(frame) + 1)
    return frame


def _parquet(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """A table, and its names as they stand in the file."""
    frame = pd.read_parquet(path)
    return frame, [str(column) for column in frame.columns]


def _csv(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """A table, and its names as they stand in the file: pandas renames those that repeat."""
    names = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna().tolist()
    for separator in SEPARATORS:
        if len(names) == 1 and separator in names[0]:
            raise ValueError(
                f"{path} has {separator!r} between its fields instead of commas. Save it as CSV "
                "with commas, and with points in decimal numbers."
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # Else pandas takes fields that are too many for an index, and shifts all columns.
            return pd.read_csv(path, index_col=False), names
    except pd.errors.ParserWarning as shifted:
        raise ValueError(
            f"{path} has rows with more fields than the {len(names)} names in its first row, "
            f"{', '.join(names)}. Look for a missing name, and for commas inside of fields that "
            "are not in quotes."
        ) from shifted


@dataclass(frozen=True)
class Wanted:
    """A column of a data file, and its expected content."""

    name: str
    # One of "numbers", "counts", "category", "labels", "two labels", "dates", "id", "group"
    # or "any". Numbers to learn from may be dates. An id differs in every row; "any" is not
    # checked.
    kind: str = "numbers"
    target: bool = False  # the column to predict; else a feature
    levels: Collection[str] | None = None  # allowed levels of a category; anything by default
    fitted: bool = False  # a model learns from the column, which then must vary
    filled: bool = False  # missing values are filled in later, and are no fault
    beside: bool = False  # trials and the like of rows to learn from, which may be equal

    @property
    def expected(self) -> str:
        """The content in place of words or dates."""
        return "expected numbers" + ", as in the training data" * (not self.beside)

    @property
    def left_out(self) -> str:
        """What to do about a column that cannot be used."""
        if self.target:
            return "expected a target with entries"
        return (
            f"leave it out by --exclude {quote(self.name)}" if self.fitted else "correct the file"
        )


def columns_of(
    sheet: Any, wanted: Sequence[Wanted], what: str, *, drop_missing: bool = False
) -> tuple[Any, str | None]:
    """Columns of a data file `what` in the requested order, and a sentence on rows left out."""
    # Rows keep their numbers, and numbers become floats. With `drop_missing`, rows in which a
    # requested column has no entry are left out. ValueError lists all missing columns and invalid
    # content, each with a fix.
    present = [column for column in wanted if column.name in sheet.columns]
    faults = [
        f"it has no column {_nearest(column.name, list(sheet.columns))}"
        for column in wanted
        if column.name not in sheet.columns
    ]
    if faults:
        faults[-1] += f"; its columns are {', '.join(sheet.columns)}"
    rows = sheet[[column.name for column in present]]
    if not len(rows):
        raise ValueError(f"{what} has names but no rows. Add rows below the names.")
    gaps = rows.isna()
    # What a fit has learned can fill in a whole column.
    needed = [c for c in present if c.fitted or not c.filled]
    empty = [column for column in needed if gaps[column.name].all()]
    filled = [column for column in present if column not in empty]
    faults += [f"{column.name!r} is empty: {column.left_out}" for column in empty]
    gaps = gaps[[column.name for column in present if not column.filled]]
    dropped = None
    if drop_missing and not faults and gaps.to_numpy().any():
        incomplete = gaps.any(axis=1)
        counts = gaps.sum()
        where = ", ".join(f"{counts[name]} in {name}" for name in counts.index[counts > 0])
        rows = rows[~incomplete]
        dropped = (
            f"Left out {incomplete.sum()} of {len(sheet)} rows of {what}, with missing values: "
            f"{where}."
        )
        if not len(rows):
            raise ValueError(f"{dropped} No rows remain; leave out columns by --exclude.")
    for column in filled:
        faults += _faults(rows[column.name], column)
    if faults:
        raise ValueError(f"{what} cannot be used as it is:" + "".join(f"\n- {f}." for f in faults))
    read = {column.name: _read(rows[column.name], column) for column in filled}
    return pd.DataFrame(read, index=rows.index), dropped


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, cutoff=0.5)
    return f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _faults(column: Any, wanted: Wanted) -> Iterator[str]:
    """Faults of a column that has entries, each with a fix."""
    name, held = repr(wanted.name), column.dropna()
    if wanted.kind == "any":
        return
    if len(held) < len(column) and not wanted.filled:
        row = column.index[column.isna()][0]
        many = len(column) - len(held)
        impute = wanted.fitted and not wanted.target
        yield (
            f"{name} lacks {many} {'value' if many == 1 else 'values'}, the first in row {row}: "
            "--drop-missing leaves such rows out"
            + (", --impute median fills them in" if impute else "")
        )
    if wanted.kind == "id":
        yield from _of_id(held, wanted)
    elif wanted.kind == "category":
        yield from _of_category(held, wanted)
    elif wanted.kind == "dates":
        yield from _of_dates(held, wanted)
    elif wanted.kind != "group" and _dates(held):
        yield from _where_numbers_are_wanted(held, wanted)
    elif wanted.kind in ("labels", "two labels"):
        yield from _of_labels(held, wanted)
    elif wanted.kind != "group":
        yield from _of_numbers(held, wanted)


def _of_id(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    again = held[held.duplicated()]
    if len(again):
        value, row = again.iloc[0], again.index[0]
        first = held.index[held == value][0]
        yield (
            f"{wanted.name!r} holds {value} in rows {first} and {row}: an id names one row; "
            f"--groups {quote(wanted.name)} is for several rows of one group"
        )


def _of_dates(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    if len(held) and _year_first(held) is None:
        yield (
            f"{wanted.name!r} holds {held.iloc[0]} in row {held.index[0]}: expected dates as in "
            f"the training data, {YEAR_FIRST}"
        )


def _where_numbers_are_wanted(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    """Dates: a fault, unless they are features to learn from and can be read."""
    example = f"{wanted.name!r} holds dates, such as {held.iloc[0]} in row {held.index[0]}"
    if wanted.target:
        yield f"{example}: write them as numbers, such as days since the first"
    elif not wanted.fitted:
        yield f"{example}: {wanted.expected}"
    elif _year_first(held) is None:
        yield f"{example}: write them {YEAR_FIRST}; or {wanted.left_out}"
    elif held.nunique() == 1:
        yield f"{wanted.name!r} is {held.iloc[0]} in every row: {wanted.left_out}"


def _of_category(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    words = _whole(held).astype(str)
    if wanted.levels is not None:
        strange = words[~words.isin(list(wanted.levels))]
        for word, rows in strange.groupby(strange).groups.items():
            near = _nearest(str(word), list(wanted.levels))
            yield (
                f"{wanted.name!r} holds {near} in row {rows[0]}: "
                f"expected what the fit has seen, {', '.join(wanted.levels)}"
            )
    elif wanted.fitted and words.nunique() == 1:
        yield f"{wanted.name!r} is {words.iloc[0]} in every row: {wanted.left_out}"


def _of_labels(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    labels, name = sorted(map(str, held.unique())), repr(wanted.name)
    numbers = pd.to_numeric(held, errors="coerce")
    broken = held[(numbers % 1 != 0) & numbers.notna()]
    if len(broken):
        yield (
            f"{name} holds {broken.iloc[0]} in row {broken.index[0]}, which is no label: "
            "--likelihood normal takes real numbers"
        )
    elif not wanted.fitted:
        return
    elif len(labels) == 1:
        yield f"{name} is {labels[0]} in every row: expected at least two labels"
    elif len(labels) > 2 and wanted.kind == "two labels":
        shown = ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")
        yield (
            f"{name} has {len(labels)} labels, {shown}: --likelihood bernoulli expects two, "
            "--likelihood categorical takes more"
        )


def _of_numbers(held: pd.Series, wanted: Wanted) -> Iterator[str]:
    name, numbers = repr(wanted.name), pd.to_numeric(held, errors="coerce").astype("float64")
    words = held[numbers.isna()]
    if len(words) > len(held) / 2:
        example = f"{name} holds words, such as {words.iloc[0]!r} in row {words.index[0]}: "
        many = held.nunique()
        if not (wanted.target or wanted.fitted):
            yield f"{example}{wanted.expected}"
        elif not wanted.target and many == len(held):
            yield f"{example}--id {quote(wanted.name)} names rows by them; or {wanted.left_out}"
        elif not wanted.target:
            declared = f"--categorical {quote(wanted.name)} declares categories"
            yield f"{example}{declared}; or {wanted.left_out}"
        elif many == 2:
            yield f"{example}--likelihood bernoulli predicts two labels"
        else:
            yield (
                f"{example}--likelihood categorical predicts its {many} labels; ratings, as whole "
                "numbers in their order, are for --likelihood ordinal"
            )
        return
    if len(words):
        yield (
            f"{name} holds {words.iloc[0]!r} in row {words.index[0]}, among numbers: correct it; "
            "or empty it, and --drop-missing leaves its row out"
        )
        return
    infinite = held[~np.isfinite(numbers)]
    if len(infinite):
        yield f"{name} holds {infinite.iloc[0]} in row {infinite.index[0]}: correct it"
    elif wanted.kind == "counts":
        broken = held[(numbers < 0) | (numbers % 1 != 0)]
        if len(broken):
            yield (
                f"{name} holds {broken.iloc[0]} in row {broken.index[0]}, which is no count: "
                "--likelihood normal takes real numbers"
            )
    elif wanted.fitted and numbers.nunique() == 1:
        cure = "expected a target that varies" if wanted.target else wanted.left_out
        yield f"{name} is {held.iloc[0]} in every row: {cure}"


def _dates(held: pd.Series) -> bool:
    """Whether entries are dates or times, or words that all say one."""
    if held.dtype.kind in "mM":
        return True
    if held.dtype.kind in "biuf":
        return False
    words = held.astype(str).iloc[:LOOKED_AT]
    if not words.str.contains(DATE).all():
        return False
    if _year_first(words) is not None:
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats that differ between entries
        return bool(pd.to_datetime(words, errors="coerce", format="mixed").notna().all())


YEAR_FIRST = "year first and without a time zone, as in 2020-03-31 or 2020-03-31 14:30"


def _year_first(held: pd.Series) -> pd.Series | None:
    """Dates and times of entries that are written so; None if one is not."""
    if held.dtype.kind == "M":
        return held if held.dt.tz is None else None
    try:
        dates = [datetime.fromisoformat(str(word)) for word in held]
    except ValueError:
        return None
    if any(date.tzinfo for date in dates):
        return None
    return pd.Series(np.array(dates, dtype="datetime64[us]"), held.index)


def numbers_rows(column: Any) -> bool:
    """Whether a feature looks like a number of the rows: by its name, or whole and increasing."""
    if re.fullmatch(r"(.*[_ .-])?(id|ID|Id)|.*[a-z]I[dD]", str(column.name)):
        return True
    whole = column.dtype.kind in "iu" and len(column) > 2
    return bool(whole and (np.diff(column.to_numpy().astype("int64")) > 0).all())


def _whole(column: pd.Series) -> pd.Series:
    """Whole numbers without a fraction, as they were before gaps made floats of them."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        return column.astype("Int64" if column.hasnans else "int64")
    return column


def _read(column: pd.Series, wanted: Wanted) -> pd.Series:
    if wanted.kind == "any":
        return column
    if wanted.kind == "category":
        return _whole(column).astype("category")
    if wanted.kind in ("labels", "two labels", "id", "group"):
        return _whole(column)
    held = column.dropna()
    if wanted.kind == "dates" or (wanted.fitted and _dates(held)):
        dates = cast(pd.Series, _year_first(held))  # `_faults` has refused all other dates
        return dates.reindex(column.index)
    return pd.to_numeric(column).astype("float64")
