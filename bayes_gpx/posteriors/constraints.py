"""Constraints on a process: noisy values of operators, or their bounds.

A constraint is about L f + noise, for one component of an operator L at one point: its value is
known, or that it lies between two bounds. With normal noise the first is one more observation, and
the second becomes one by expectation propagation; see `bayes_gpx.posteriors.evidence.intervals`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import plus_diagonal
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_within, log_normal
from bayes_gpx.posteriors.evidence.intervals import IntervalSites
from bayes_gpx.posteriors.evidence.normal import normal_logp
from bayes_gpx.processes.operators import Combination, Operator, Stack, evaluate, gradient, hessian

SLOPES = {"gradient": (gradient, 1), "hessian": (hessian, 2)}
"""Operators of constrained slopes and their order; values are constrained too."""


@dataclass(frozen=True)
class Statement:
    """A constraint on one component of an operator at one point, on the model's scale."""

    name: str  # of the constraint that contains it
    operator: str  # "value", "gradient" or "hessian"
    x: tuple[float, ...]  # (d,)
    z: tuple[float, ...] | None  # (p,), for a GPX; the value is z' g(x)
    component: int  # position among the operator's components at a point; 0 for a value
    low: float
    high: float  # equal to `low` for an observed value
    sd: float  # of the noise around L f
    tied: bool  # slopes are of a function with z moving with x
    # In user units a value is `center` plus `unit` times the value on the model's scale.
    unit: float
    center: float

    @property
    def known(self) -> bool:
        """Whether it states a value, not bounds."""
        return self.low == self.high


class ConstraintSites(NamedTuple):
    """Constraints as normal observations: values, variances besides `sd`, and a log factor."""

    mean: Tensor  # (k,)
    variance: Tensor  # (k,)
    log_factor: Tensor


@dataclass(frozen=True)
class Constraints:
    """All constraints: hashable, without symbols."""

    statements: tuple[Statement, ...]

    @staticmethod
    def of_fields(statements: Sequence[Mapping[str, Any]]) -> Constraints:
        """From the statements' fields, as a file holds them."""
        points = ({k: s[k] and tuple(s[k]) for k in ("x", "z")} for s in statements)
        pairs = zip(statements, points, strict=True)
        return Constraints(tuple(Statement(**{**fields, **point}) for fields, point in pairs))

    @property
    def names(self) -> list[str]:
        """Each constraint once, in order."""
        return list(dict.fromkeys(s.name for s in self.statements))

    @property
    def values(self) -> Constraints | None:
        """The constraints with known values; None without any."""
        own = tuple(s for s in self.statements if s.known)
        return Constraints(own) if own else None

    @property
    def bounded(self) -> Constraints | None:
        """The constraints with bounds; None without any."""
        own = tuple(s for s in self.statements if not s.known)
        return Constraints(own) if own else None

    @property
    def low(self) -> np.ndarray:
        """Lower bounds (k,)."""
        return np.array([s.low for s in self.statements])

    @property
    def high(self) -> np.ndarray:
        """Upper bounds (k,), or the values that are known, where the lower ones are the same."""
        return np.array([s.high for s in self.statements])

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations of the noise (k,)."""
        return np.array([s.sd for s in self.statements])

    @property
    def unit(self) -> np.ndarray:
        """What one unit here is in user units (k,)."""
        return np.array([s.unit for s in self.statements])

    @property
    def center(self) -> np.ndarray:
        """What 0 is in user units (k,)."""
        return np.array([s.center for s in self.statements])

    @property
    def operator(self) -> Operator:
        """The constrained operator, a component for each statement."""
        runs = groupby(self.statements, lambda s: (s.operator, s.tied))
        return Stack(tuple(_of_run(*kind, list(run)) for kind, run in runs))

    def log_probability(self, values: Tensor) -> Tensor:
        """Log probability, or density in user units, of each statement given its quantity, (k,)."""
        low, high, sd = self.low, self.high, self.sd
        above, below, known = (values - low) / sd, (high - values) / sd, low == high
        density = log_normal(low, values, sd**2) - np.log(self.unit)
        found = pt.zeros(len(sd))
        # Each at its own places: a bound that is infinite has no derivative.
        for own, terms in (
            (known, lambda i: density[i]),
            (np.isinf(high), lambda i: log_ndtr(above[i])),
            (np.isinf(low), lambda i: log_ndtr(below[i])),
            (
                np.isfinite(low) & np.isfinite(high) & ~known,
                lambda i: log_ndtr_within(-above[i], below[i]),
            ),
        ):
            places = np.flatnonzero(own)
            found = found[places].set(terms(places))
        return found

    def everywhere(self, X: Tensor, Z: Tensor | None) -> dict[str, Operator]:  # noqa: N803
        """What each constraint in bounds is about, at other points (n, d), with features (n, p)."""
        found = {}
        for s in self.statements:
            if s.known or s.name in found:
                continue
            own = Z
            if s.z is not None:
                of_one_feature = s.operator == "value"
                ones = pt.ones((X.shape[0], 1))
                own = ones * np.array(s.z) if of_one_feature else cast("Tensor", Z)
                own = pt.specify_shape(own, (None, len(s.z)))
            found[s.name] = _components(s.operator, X, own, s.tied, s.component)
        return found


def _of_run(operator: str, tied: bool, statements: Sequence[Statement]) -> Operator:
    """One operator for neighbouring statements of one kind."""
    X = pt.constant(np.array([s.x for s in statements]))
    weighed = statements[0].z is not None
    Z = pt.constant(np.array([s.z for s in statements])) if weighed else None
    return _components(operator, X, Z, tied, np.array([s.component for s in statements]))


def _components(
    operator: str, X: Tensor, Z: Tensor | None, tied: bool, own: int | np.ndarray
) -> Operator:
    """One component at each of m points: `own` of each (m,), or the same of all."""
    if operator == "value":
        return evaluate(X, Z, smooth=True)
    slopes, axes = SLOPES[operator]
    picked = pt.arange(X.shape[0]) * X.type.shape[1] ** axes + own
    return Combination((slopes(X, Z, tied=tied),), lambda rows: rows[picked])


def sites(C: Tensor, y: Tensor, low: Tensor, high: Tensor) -> ConstraintSites:  # noqa: N803
    """Sites of constraints given y (n,), from the covariance C of y and of the constraints."""
    found: Any = IntervalSites().make_node(C, y, low, high).outputs
    return ConstraintSites(*found)


def joint_logp(C: Tensor, y: Tensor, low: Tensor, high: Tensor) -> Tensor:  # noqa: N803
    """Log density of y and probability or density of constraints, under N(0, C): a scalar graph."""
    found = sites(C, y, low, high)
    seen, noisy = with_sites(C, y, found)
    return normal_logp(seen, noisy) + found.log_factor


def with_sites(C: Tensor, y: Tensor, found: ConstraintSites) -> tuple[Tensor, Tensor]:  # noqa: N803
    """All that is observed (n + k,), y first, and its covariance."""
    extra = pt.concatenate([pt.zeros(y.shape[0]), found.variance])
    return pt.concatenate([y, found.mean]), plus_diagonal(C, extra)
