"""Columns of dates and times: read as numbers of days since the first row's."""

from datetime import date
from typing import Any

import narwhals as nw
import numpy as np

DAY = np.timedelta64(1, "D") / np.timedelta64(1, "ns")
"""Nanoseconds in a day."""


def holds_dates(values: Any) -> bool:
    """Whether a column holds dates, by its type or, of objects, by all that are not missing."""
    values = np.asarray(values)
    if values.dtype.kind != "O":
        return values.dtype.kind == "M"
    given = [value for value in values if value == value and value is not None]
    return bool(given) and all(isinstance(value, date | np.datetime64) for value in given)


def days_since(values: Any, origin: np.datetime64) -> np.ndarray:
    """Days (n,) from a date to others, with fractions; NaN where one is missing."""
    dates = np.asarray(values, dtype="datetime64[ns]")
    days = (dates - origin).astype("int64") / DAY
    return np.where(np.isnat(dates), np.nan, days)


def first_date(values: Any) -> np.datetime64:
    """The first date that is not missing, from which days are counted."""
    dates = np.asarray(values, dtype="datetime64[ns]")
    known = dates[~np.isnat(dates)]
    return known[0] if len(known) else np.datetime64(0, "ns")


def refuse_zone(column: Any, where: str) -> None:
    """Raise for a column of a frame, or values, with a time zone: days may not have 24 hours."""
    dtype = getattr(column, "dtype", None)
    zone = dtype.time_zone if isinstance(dtype, nw.Datetime) else None
    if zone is None and getattr(dtype, "kind", "") == "O":
        zone = next((z for value in column if (z := getattr(value, "tzinfo", None))), None)
    if zone is not None:
        raise ValueError(
            f"{where} holds times with the time zone {zone}, in which days may have 23 or 25 hours;"
            " expected times without a zone: in pandas .dt.tz_convert('UTC').dt.tz_localize(None),"
            " in polars .dt.convert_time_zone('UTC').dt.replace_time_zone(None)."
        )


def unit_of(origin: np.datetime64) -> str:
    """What days since a date are called."""
    midnight = origin == origin.astype("datetime64[D]")
    return f"days since {np.datetime_as_string(origin, unit='D' if midnight else 's')}"
