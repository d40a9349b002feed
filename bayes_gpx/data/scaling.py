"""Centers and scales of columns, frozen at training time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sps

from bayes_gpx.data.features import Frame
from bayes_gpx.data.moments import Moments
from bayes_gpx.system.warning import warn


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centers and scales frozen at training time; ``(values - center) / scale``."""

    center: np.ndarray | float
    scale: np.ndarray | float

    def apply(self, values: Any) -> Any:
        """From user units to the model's scale."""
        if sps.issparse(values):  # its centers are all 0
            return values.multiply(1.0 / np.asarray(self.scale)).tocsr()
        return (values - self.center) / self.scale


def no_scaling(frame: Frame, name: str, moments: Moments) -> Scaling:
    """Scaling that changes nothing, for ``scale=False``."""
    return Scaling(np.zeros(len(frame.columns)), np.ones(len(frame.columns)))


def standard_scaling(frame: Frame, name: str, moments: Moments) -> Scaling:
    """Center and standard deviation (ddof 0) of each column; constant columns are refused."""
    scale = moments.sd
    # All indicators of a categorical column have one scale, the root of their summed variances, so
    # two random rows are as far apart in it as in any other column.
    if frame.levels:
        with np.errstate(over="ignore"):
            scale = np.sqrt(np.bincount(frame.groups, scale**2))[frame.groups]
    alike, close = indistinct(moments, scale)
    if close.any():
        raise ValueError(f"{name} has columns {_named(frame, close)} with values that {TOO_CLOSE}")
    if alike.any():
        raise ValueError(
            f"{name} has constant columns {_named(frame, alike)}, which cannot be scaled. "
            "Drop them, or pass scale=False."
        )
    huge = [c for c, sd in zip(frame.columns, scale, strict=True) if not np.isfinite(sd)]
    if huge:
        raise ValueError(f"{name} has columns {huge} too large to be scaled; use other units.")
    return Scaling(moments.mean, scale)


def warn_of_copies(frame: Frame, name: str, moments: Moments | None = None) -> None:
    """Warn of columns that hold the same, perhaps in other units: no data tell them apart."""
    if told := copies_told(frame, name, moments):
        warn(told)


def copies_told(frame: Frame, name: str, moments: Moments | None) -> str | None:
    """Name columns that hold the same, in a sentence for readers; None without."""
    alike: dict[bytes, list[str]] = {}
    pairs = _directions(frame) if moments is None else _standardized(frame, moments)
    for held, source in pairs:
        alike.setdefault(held, []).append(source)
    copies = [_listed(columns) for columns in alike.values() if len(columns) > 1]
    if not copies:
        return None
    more = f", and {len(copies) - MOST_COPIES} more sets" if len(copies) > MOST_COPIES else ""
    return (
        f"{name} has columns that hold the same values, perhaps in other units: "
        f"{'; '.join(copies[:MOST_COPIES])}{more}. The data do not determine how attributions "
        "and slopes are divided among them: read only the sum, or drop all but one."
    )


def _listed(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return " and ".join(map(repr, columns[:MOST_NAMED])) + more


def _standardized(frame: Frame, moments: Moments) -> Iterator[tuple[bytes, str]]:
    """Standardized values of each source that varies, as bytes, up to their sign."""
    groups, varies = frame.groups, (moments.sd > 0.0) & np.isfinite(moments.sd)
    for k, source in enumerate(frame.sources):
        own = np.flatnonzero((groups == k) & varies)
        held = ((frame.values[:, own] - moments.mean[own]) / moments.sd[own]).round(DECIMALS)
        if len(own):
            sign = np.sign(held.ravel()[np.flatnonzero(held)[0]])
            yield (sign * held + 0.0).tobytes(), source


def _directions(frame: Frame) -> Iterator[tuple[bytes, str]]:
    """Rows and relative sizes of the entries of each column of a sparse table, as bytes."""
    columns = frame.values.tocsc()
    for name, first, last in zip(frame.columns, columns.indptr, columns.indptr[1:], strict=False):
        data = columns.data[first:last]
        if len(data):
            relative = (data / data[0]).round(DECIMALS)
            yield columns.indices[first:last].tobytes() + relative.tobytes(), name


DECIMALS = 8
"""Columns with values that agree to this number of decimals, in sds, are duplicates."""

MOST_COPIES = 3
"""So many sets of copies are named."""

MOST_NAMED = 6
"""So many columns of a set of copies are named."""

TOO_CLOSE = (
    "are equal, or differ by less than 64-bit floats can tell at their size. Subtract a constant "
    "first (from integers before they become floats), or drop a column that only numbers the rows."
)
"""End of the error message about `indistinct` values."""

LARGEST_INTEGER = 2.0**53
"""From here on, neighbouring whole numbers may be the same 64-bit float."""


def indistinct(moments: Moments, scale: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Which columns have too small a scale to divide by, and which of these may still vary."""
    largest = np.maximum(np.abs(moments.low), np.abs(moments.high))
    alike = scale <= 1e-14 * largest
    return alike, alike & ((moments.high > moments.low) | (largest >= LARGEST_INTEGER))


def response_scaling(moments: Moments, name: str = "y") -> Scaling:
    """Center and standard deviation of a response with these moments, scalars."""
    center, scale = (float(np.squeeze(value)) for value in (moments.mean, moments.sd))
    if not np.isfinite(scale):
        raise ValueError(f"{name} is too large to be scaled; use other units.")
    alike, close = indistinct(moments, scale)
    if np.any(close):
        raise ValueError(f"{name} has values that {TOO_CLOSE}")
    if np.any(alike):
        raise ValueError(
            f"{name} is constant, which cannot be scaled. Pass a response that varies."
        )
    return Scaling(center, scale)


def _named(frame: Frame, chosen: np.ndarray) -> list[str]:
    return [column for column, which in zip(frame.columns, chosen, strict=True) if which]
