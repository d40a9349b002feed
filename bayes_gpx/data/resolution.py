"""The rounding step of a response, below which it has no information."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

MOST_STEPS = 200
"""Steps between the smallest and the largest value above which a grid is too fine to matter: its
rounding errors are then below a hundredth of the standard deviation."""

ALIKE = 1e-6
"""Proportion of a range below which differences are floating-point errors."""


def resolution_of(values: np.ndarray) -> float:
    """The largest step such that all values are whole numbers of steps apart; 0 for a fine grid."""
    distinct = np.unique(values)
    span = distinct[-1] - distinct[0]
    # Two values are codes of labels, not a rounded measurement.
    if not 2 < len(distinct) <= MOST_STEPS + 1:
        return 0.0
    step = reduce(_common, np.diff(distinct) / span)
    return float(step * span) if step * MOST_STEPS >= 1.0 - ALIKE else 0.0


def _common(one: float, other: float) -> float:
    """The largest number that divides both, by Euclid's algorithm with nearest quotients."""
    while other > ALIKE:
        one, other = other, abs(one - other * np.round(one / other))
    return one


def read_resolution(given: Any, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Resolution of each response (q,): as given, one or q numbers, or found from its values."""
    if given is None:
        return np.array([resolution_of(values) for values in columns])
    try:
        known = np.broadcast_to(np.asarray(given, "float64"), len(columns))
    except (TypeError, ValueError):
        known = np.array([np.nan])
    if not (np.isfinite(known).all() and (known >= 0.0).all()):
        each = "" if len(columns) == 1 else f", or {len(columns)} of them, one for each output"
        raise ValueError(
            f"resolution is {given!r}. Pass None, to find it from the response, or the step that "
            f"the response was recorded to: a number of at least 0{each}. 0 stands for none."
        )
    return np.array(known)
