"""Comparison of two numbers, and the step of finite differences, for all checks."""

import numpy as np
from numpy.typing import ArrayLike

STEP = 2.0**-13
"""Step of differences, in units of a feature or of f, exact near multiples of the step."""

ROUND_OFF = 1e-11
"""Relative error of single numbers that is let pass, which differences divide by `STEP`."""


def agree(
    what: str, found: ArrayLike, expected: ArrayLike, allowed: ArrayLike, cure: str = ""
) -> None:
    """Raise where two arrays differ by more than allowed, with the worst place and the cure."""
    found, expected, allowed = np.broadcast_arrays(*map(np.asarray, (found, expected, allowed)))
    excess = np.abs(found - expected) - allowed
    bad = ~(excess <= 0.0) & ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    if bad.any():
        worst = np.argmax(np.where(bad, np.nan_to_num(excess, nan=np.inf), -np.inf))
        at = np.unravel_index(worst, bad.shape)
        raise AssertionError(
            f"{what} is {found[at]:.9g}, expected {expected[at]:.9g}: they differ by "
            f"{np.abs(found[at] - expected[at]):.3g}, and {allowed[at]:.3g} is allowed." + cure
        )


def require(condition: bool | np.bool_, said: str) -> None:
    """Raise the message unless a condition holds."""
    if not condition:
        raise AssertionError(said)
