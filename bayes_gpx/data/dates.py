"""Columns of dates and times: read as numbers of days since the first row's."""

from datetime import date, datetime
from typing import Any

import narwhals as nw
import numpy as np

from bayes_gpx.data.categorical import is_missing

NOT_A_DATE = np.datetime64("NaT", "D")

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""How long units of time are that are kept as they are; all others become one of these."""

DAY = 86_400 * 10**9
"""Nanoseconds in a day."""


def holds_dates(values: Any) -> bool:
    """Whether a column holds dates, by its type or, of objects, by all that are not missing."""
    values = np.asarray(values)
    if values.dtype.kind != "O":
        return values.dtype.kind == "M"
    given = [value for value in values if not is_missing(value)]
    return bool(given) and all(isinstance(value, date | np.datetime64) for value in given)


def days_since(values: Any, origin: np.datetime64) -> np.ndarray:
    """Days (n,) from a date to others, with fractions; NaN where one is missing."""
    days, time, missing = _days_and_time(values)
    first, first_time, _ = _days_and_time(np.array([origin]))
    return np.where(missing, np.nan, (days - first) + (time - first_time) / DAY)


def first_date(values: Any) -> np.datetime64:
    """The first date that is not missing, the origin of days, in its coarsest unit."""
    days, time, missing = _days_and_time(values)
    if missing.all():
        return np.datetime64(0, "D")
    first = missing.argmin()
    day, rest = np.datetime64(int(days[first]), "D"), int(time[first])
    if rest == 0:
        return day
    unit = next(unit for unit, length in NANOSECONDS.items() if rest % length == 0)
    return (day + np.array([rest // NANOSECONDS[unit]], f"timedelta64[{unit}]"))[0]


def read_date(value: Any, where: str) -> np.datetime64 | None:
    """A date in its coarsest unit, from a date or ISO text; None for anything else."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    one = np.array([value], dtype=object)
    if not holds_dates(one):
        return None
    refuse_zone(one, where)
    return first_date(one)


def _days_and_time(values: Any) -> tuple[np.ndarray, ...]:
    """Days since 1970 and nanoseconds since midnight, integers (n,), and which are missing."""
    # Nanoseconds since 1970 would overflow for dates before 1678 and after 2262.
    values = np.asarray(values)
    if values.dtype.kind == "O":
        dates = [NOT_A_DATE if is_missing(value) else _as_numpy(value) for value in values]
        parts = [_days_and_time(np.array([value])) for value in dates]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    unit, _ = np.datetime_data(values.dtype)
    if unit in ("Y", "M", "W", "D"):
        values = values.astype("datetime64[D]")
        return values.astype("int64"), np.zeros(len(values), "int64"), np.isnat(values)
    unit = {"h": "s", "m": "s"}.get(unit, unit)
    unit = unit if unit in NANOSECONDS else "ns"
    values = values.astype(f"datetime64[{unit}]")
    days, rest = np.divmod(values.astype("int64"), DAY // NANOSECONDS[unit])
    return days, rest * NANOSECONDS[unit], np.isnat(values)


def _as_numpy(value: Any) -> np.datetime64:
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)


def date_after(origin: np.datetime64, days: float) -> np.datetime64:
    """The date so many days after another, to the second."""
    seconds = round(days * 86_400)
    return first_date([origin.astype("datetime64[s]") + np.timedelta64(seconds, "s")])


def in_words(origin: np.datetime64, days: float, known: np.ndarray) -> str:
    """A date as text, with its time if `known` days of the same column have one."""
    unit: Any = "m" if (known % 1.0).any() else "D"
    return str(np.datetime64(date_after(origin, days), unit)).replace("T", " ")


def refuse_zone(column: Any, where: str) -> None:
    """Raise for a column of a frame, or values, with a time zone: days may not have 24 hours."""
    dtype = getattr(column, "dtype", None)
    zone = dtype.time_zone if isinstance(dtype, nw.Datetime) else None
    if zone is None and getattr(dtype, "kind", "") == "O":
        zone = next((z for value in column if (z := getattr(value, "tzinfo", None))), None)
    if zone is not None:
        raise ValueError(
            f"{where} holds times with the time zone {zone}, where days may have 23 or 25 hours. "
            "Pass times without a zone: in pandas .dt.tz_convert('UTC').dt.tz_localize(None), in "
            "polars .dt.convert_time_zone('UTC').dt.replace_time_zone(None)."
        )


SINCE = "days since "
"""Beginning of the unit of a column of dates."""


def unit_of(origin: np.datetime64) -> str:
    """What days since a date are called."""
    return f"{SINCE}{first_date([origin])}"


def origin_of(unit: str) -> np.datetime64 | None:
    """The date in a text of `unit_of`; None for other units."""
    return np.datetime64(unit.removeprefix(SINCE)) if unit.startswith(SINCE) else None
