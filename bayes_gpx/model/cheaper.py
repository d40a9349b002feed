"""Which approximation would make a density cheaper, and by how much: for the line before a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_gpx.processes.approximations import Inducing

if TYPE_CHECKING:
    from bayes_gpx.model.specification import Specification

EXACT, INDUCING, SINES = (10_000, 12, 2.49), (1_000_000, 6.7, 1.07), (1_000_000, 0.0043, -0.01)
"""Rows, seconds of a density of so many and exponent in the rows, without an approximation, with
`Inducing(100)` and with `HSGP(20)`: measured, in `benchmarks/scaling.csv`."""

MANY_ROWS = 2_000
"""Up to so many rows a model without an approximation is the one to use."""

FEW_FEATURES, SMOOTH = 2, ("expquad", "matern52", "matern32")
"""Up to so many features, and for these kernels, basis functions on a grid are few."""


def cheaper(specification: Specification, n: int, d: int) -> tuple[str, float] | None:
    """A cheaper approximation and its relative time for a density; None without one.

    For a Gaussian likelihood, without groups and outputs, with n rows and d features. The relative
    time does not depend on the machine.
    """
    own = specification.approximation
    alone = specification.normal and not specification.grouped and specification.outputs is None
    known = isinstance(own, Inducing) or (own is None and n > MANY_ROWS)
    if not alone or not known or specification.constraints is not None or specification.expanded:
        return None
    now = _seconds(EXACT if own is None else INDUCING, n)
    if d <= FEW_FEATURES and specification.kernel in SMOOTH:
        return "bx.HSGP(20)", _seconds(SINES, n) / now
    return None if own is not None else ("bx.Inducing(100)", _seconds(INDUCING, n) / now)


def _seconds(measured, n):
    rows, seconds, exponent = measured
    return seconds * (n / rows) ** exponent
