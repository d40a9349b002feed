"""Weights of rows, and bounds of their responses."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from bayes_gpx.data.features import Frame, read_positive, read_response
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.system.warning import warn

CENSORING = "none", "left", "right", "interval"
"""Kinds of rows: y is the value, an upper bound, a lower bound, or the lower end of an interval.

The codes are 0, 1, 2 and 3."""


@dataclass(frozen=True, eq=False)
class RowData:
    """Weights and bounds of n rows; each is None if it was not given."""

    weights: np.ndarray | None = None
    censoring: np.ndarray | None = None  # codes of `CENSORING`
    upper: np.ndarray | None = None  # upper end of an interval, in user units, or a larger number

    def rows(self, positions: np.ndarray | slice) -> RowData:
        """The same of some rows."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{n: v[positions] for n, v in given.items() if v is not None})

    def joined(self, other: RowData) -> RowData:
        """The same of these rows and of others, of the same kind."""
        both = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        known = {name: (v, w) for name, v, w in both if v is not None}
        return RowData(**{name: np.concatenate(pair) for name, pair in known.items()})

    @property
    def counts(self) -> np.ndarray:
        """Weight of each row's density; 0 of a bound, which has a probability without units."""
        return np.where(self.censored, 0.0, 1.0 if self.weights is None else self.weights)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the rows with bounds."""
        codes = () if self.censoring is None else np.unique(self.censoring)
        return tuple(CENSORING[int(code)] for code in codes if code > 0)

    @property
    def censored(self) -> np.ndarray | bool:
        """Which rows have bounds."""
        return False if self.censoring is None else self.censoring > 0

    def bounds_in_words(self, row: int, y: str) -> str:
        """The response of a row or its bounds, where y is this text."""
        kind = "none" if self.censoring is None else CENSORING[int(self.censoring[row])]
        if kind == "interval" and self.upper is not None:
            return f"between {y} and {self.upper[row]:.6g}"
        return {"left": "at most ", "right": "more than "}.get(kind, "") + y

    def columns(self, scaling: Scaling) -> list[np.ndarray]:
        """Further columns of the exposure, as `bayes_gpx.likelihoods.rows` takes them."""
        found = []
        if self.censoring is not None and self.upper is not None:
            found = [scaling.apply(self.upper), self.censoring]
        return found if self.weights is None else [*found, self.weights]


def counted(rows: RowData | None, n: int) -> np.ndarray:
    """How often each of n rows counts: its weight, or once."""
    return np.ones(n) if rows is None or rows.weights is None else rows.weights


def median_row(frame: Frame, rows: RowData | None) -> np.ndarray:
    """Median of each column (d,), and the most frequent level of categorical ones, by weight."""
    X, weights = frame.values, counted(rows, len(frame))
    if rows is None or rows.weights is None:
        middle = np.median(X, axis=0)
    else:
        order = np.argsort(X, axis=0)
        values, below = np.take_along_axis(X, order, 0), weights[order].cumsum(axis=0)
        half = 0.5 * below[-1] * np.array([[1.0 - 1e-12], [1.0 + 1e-12]])
        ends = [(below < h).sum(axis=0)[None] for h in half]
        middle = np.mean([np.take_along_axis(values, end, 0)[0] for end in ends], axis=0)
    for source in frame.levels:
        own = [frame.columns.index(column) for column in frame.of_source(source)]
        middle[own] = np.arange(len(own)) == np.argmax(weights @ X[:, own])
    return middle


def differing(one: RowData | None, other: RowData | None, n: int) -> str | None:
    """Name the first difference that makes densities of the same n rows incomparable, or None."""
    parts = {"weights": counted, "censoring": _kinds, "upper ends of intervals": _ends}
    names = (name for name, of in parts.items() if not np.array_equal(of(one, n), of(other, n)))
    return next(names, None)


def _kinds(rows: RowData | None, n: int) -> np.ndarray:
    return np.zeros(n) if rows is None or rows.censoring is None else rows.censoring


def _ends(rows: RowData | None, n: int) -> np.ndarray:
    apart = _kinds(rows, n) == CENSORING.index("interval")
    return np.zeros(0) if rows is None or rows.upper is None else rows.upper[apart]


@dataclass(frozen=True)
class RowTotals:
    """What models need to know of the `RowData` of all rows."""

    kinds: tuple[str, ...] = ()
    bounded: int = 0  # number of rows with bounds
    counted: float = 0.0  # sum of `RowData.counts`

    @staticmethod
    def of(rows: RowData) -> RowTotals:
        """Totals of some rows."""
        return RowTotals(rows.kinds, int(np.sum(rows.censored)), float(rows.counts.sum()))

    def joined(self, other: RowTotals) -> RowTotals:
        """Totals of these and of other rows."""
        kinds = tuple(sorted({*self.kinds, *other.kinds}))
        return RowTotals(kinds, self.bounded + other.bounded, self.counted + other.counted)


def split_interval(y: Any, censoring: Any) -> tuple[Any, Any]:
    """The first column of y, and the second one if y is a table of both ends of intervals."""
    shape = getattr(y, "shape", None) or np.shape(y)
    if censoring is None or len(shape) != 2:
        return y, None
    if shape[1] != 2:
        raise ValueError(
            f"y has {shape[1]} columns, but with censoring= it is one column, or two for the lower "
            "and the upper ends of intervals. Fit one model for each response."
        )
    table: Any = y if hasattr(y, "iloc") else np.asarray(y)
    low, high = (table.iloc[:, k] if hasattr(y, "iloc") else table[:, k] for k in (0, 1))
    kinds = np.asarray(censoring, dtype=object)
    if kinds.shape != np.shape(low):
        return low, high
    ends = np.asarray(low, "float64"), np.asarray(high, "float64")
    apart = np.flatnonzero((kinds == "none") & (ends[0] != ends[1]) & ~np.isnan(ends[1]))
    if len(apart):
        raise ValueError(
            f"censoring is 'none' at position {apart[0]}, where y goes from {ends[0][apart[0]]:g} "
            f"to {ends[1][apart[0]]:g}. Pass 'interval' there, or the same number twice."
        )
    # "left" says that y is at most the upper end; a lower one may be missing, or minus infinity.
    upper = (kinds == "left") & ~np.isnan(ends[1])
    return (low.where(~upper, high) if hasattr(y, "iloc") else np.where(upper, high, low)), high


def read_row_data(
    frame: Frame, y: np.ndarray, weights: Any, censoring: Any, upper: Any
) -> RowData | None:
    """Check weights and censoring of rows with responses y."""
    known: dict[str, np.ndarray] = {}
    if weights is not None:
        known["weights"] = read_positive(weights, frame, "weights")
    if censoring is not None:
        codes = read_response(censoring, frame, "censoring", _codes)
        apart = codes == CENSORING.index("interval")
        larger = _above(y)
        if upper is not None:
            ends = read_response(upper, frame, "y", lambda v: np.asarray(v, "float64"))
            endless = apart & np.isposinf(ends)
            codes, apart = np.where(endless, CENSORING.index("right"), codes), apart & ~endless
            larger = np.where(apart, ends, larger)
        wrong = np.flatnonzero(apart & ~(larger > y)) if upper is not None else np.nonzero(apart)[0]
        if len(wrong):
            end = "no upper end" if upper is None else f"the upper end {larger[wrong[0]]:g}"
            raise ValueError(
                f"censoring is 'interval' at position {wrong[0]}, where y is {y[wrong[0]]:g} with "
                f"{end}. Pass y as a table of two columns, or two names of columns of "
                "out-of-core data: the lower and the larger upper ends."
            )
        known |= {"censoring": codes, "upper": larger}
    return RowData(**known) if known else None


def warn_of_little(rows: RowData) -> None:
    """Warn if all rows together say hardly anything."""
    if rows.weights is not None and rows.weights.sum() < 1.0 + 1e-6:
        warn(
            f"weights sum to {rows.weights.sum():g}, so all rows together count as one observation "
            "or less, and the fit is hardly more than the prior. A row of weight 2 counts like two "
            "rows. Divide by their mean, unless this is what you want."
        )
    if {*rows.kinds} <= {"left", "right"} and np.all(rows.censored):
        warn(
            "censoring is 'left' or 'right' in every row, so no y is known, and the fit says "
            "little more than the prior."
        )


def observed_until(times: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, RowData]:
    """What is known of responses when the observation of each row ends."""
    codes = np.where(y > times, float(CENSORING.index("right")), 0.0)
    known = np.minimum(y, times)
    return known, RowData(censoring=codes, upper=_above(known))


def _above(y: np.ndarray) -> np.ndarray:
    return y + np.maximum(np.abs(y), 1.0)


def _codes(values: Any) -> np.ndarray:
    given = np.asarray(values, dtype=object)
    found = np.array([CENSORING.index(v) if v in CENSORING else -1 for v in given], "float64")
    wrong = np.flatnonzero(found < 0)
    if len(wrong):
        raise ValueError(
            f"censoring is {given[wrong[0]]!r} at position {wrong[0]}. Pass one of "
            f"{list(CENSORING)} for each row: 'none' if y is the value, 'right' if it is more than "
            "y, such as np.where(died, 'none', 'right')."
        )
    return found
