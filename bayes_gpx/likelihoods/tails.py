"""Logs of the probabilities of at most y, and of more than y, with slopes in f."""

from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.special import (
    log_ndtr,
    log_ndtr_slopes,
    log_rising_ratio,
    log_sum_exp,
    softplus,
)

_X, _W = np.polynomial.legendre.leggauss(16)
_ENDS = np.array([0.0, 1.0, 4.0, 12.0, 45.0])[:, None]
FROM_BOUND = (_ENDS[:-1] + np.diff(_ENDS, axis=0) * (_X + 1.0) / 2.0).ravel()
STEPS = (np.diff(_ENDS, axis=0) * _W / 2.0).ravel()
"""Nodes from 0 on and their weights, for what falls about like exp(-distance)."""

STEEPEST = 60.0
"""y over its mean, or a power of it, is at most exp(60) in log densities."""

SMALL = 1e-30
"""A smaller share of a sum is left out of averages."""

CLOSEST = 1e-15
"""Logs of two probabilities that differ by less differ by round-off alone."""

SMALL_PART = 1e-12
"""A probability that is a sum is at least so much below 1."""


class Slopes(NamedTuple):
    """A function of f and its first three derivatives."""

    value: Tensor
    first: Tensor
    second: Tensor
    third: Tensor

    def along(self, rate: Tensor | float) -> "Slopes":
        """The same function of z as one of f, where z moves by `rate` with f."""
        value, first, second, third = self
        return Slopes(value, rate * first, rate**2 * second, rate**3 * third)

    def or_else(self, other: "Slopes") -> "Slopes":
        """Log of the sum of two probabilities."""
        share = pt.sigmoid(self.value - other.value)
        both = zip(self._relative(), other._relative(), strict=True)
        slopes = (share * own + (1.0 - share) * theirs for own, theirs in both)
        return _from_relative(pt.logaddexp(self.value, other.value), *slopes)

    def but_not(self, other: "Slopes") -> "Slopes":
        """Log of the difference of two probabilities."""
        less = pt.minimum(other.value - self.value, np.float64(-CLOSEST))
        share = -1.0 / pt.expm1(less)
        both = zip(self._relative(), other._relative(), strict=True)
        slopes = (share * own - (share - 1.0) * theirs for own, theirs in both)
        return _from_relative(self.value + pt.log(-pt.expm1(less)), *slopes)

    def not_at_all(self) -> "Slopes":
        """Log of 1 less the probability, which is not near 1."""
        value = pt.log1p(-pt.exp(self.value))
        ratio = -pt.exp(self.value - value)
        return _from_relative(value, *(ratio * v for v in self._relative()))

    def _relative(self) -> tuple[Tensor, Tensor, Tensor]:
        """Slopes of the probability, over the probability."""
        _, first, second, third = self
        return first, second + pt.sqr(first), third + 3.0 * first * second + first**3


def _from_relative(value: Tensor, first: Tensor, second: Tensor, third: Tensor) -> Slopes:
    """A log probability, from slopes of the probability over the probability."""
    curvature = second - pt.sqr(first)
    return Slopes(value, first, curvature, third - 3.0 * first * curvature - first**3)


def normal_tails(z: Tensor, scale: Tensor) -> tuple[Slopes, Slopes]:
    """Tails of a standard normal variable at z = (some y - f) / scale."""
    below, above = (
        Slopes(log_ndtr(side * z), *log_ndtr_slopes(side * z)).along(-side / scale)
        for side in (1.0, -1.0)
    )
    return below, above


def logistic_tails(z: Tensor, rate: Tensor) -> tuple[Slopes, Slopes]:
    """Tails of a standard logistic variable at z = rate (some y - f)."""
    p, q = pt.sigmoid(z), pt.sigmoid(-z)
    below = Slopes(-softplus(-z), q, -p * q, p * q * (p - q))
    above = Slopes(-softplus(z), -p, -p * q, p * q * (p - q))
    return below.along(-rate), above.along(-rate)


def gumbel_tails(z: Tensor, rate: Tensor) -> tuple[Slopes, Slopes]:
    """Tails of the log of an exponential variable at z = rate (some y - f)."""
    near = pt.clip(z, np.float64(-STEEPEST), np.float64(STEEPEST))
    hazard = pt.exp(near)
    above = Slopes(*[-hazard] * 4)
    # The unused branch of a choice must be finite too, or its gradient is NaN; so must all that
    # is multiplied by the 0 of a probability that is next to none.
    share = -pt.expm1(-hazard)
    small = pt.minimum(z, near) + pt.log(share / hazard)
    large = pt.log1p(-pt.exp(-pt.maximum(hazard, 1.0)))
    below = [cast(Tensor, pt.switch(z < 0.0, small, large))]
    first = hazard * pt.exp(-hazard) / share
    grown = 1.0 - hazard - first
    below += [first, first * grown, first * (pt.sqr(grown) - hazard - first * grown)]
    return Slopes(*below).along(-rate), above.along(-rate)


def student_tails(
    z: Tensor, nu: Any, log_density: Tensor, slope: Tensor, curvature: Tensor
) -> tuple[Slopes, Slopes]:
    """Tails of a Student-t variable at z = (some y - f) / scale; see `tails_of_values`."""
    # In v = arcsinh(z / sqrt(nu)) the density is proportional to cosh(v)^-nu.
    v = pt.arcsinh(z / pt.sqrt(nu))
    start = pt.abs(v)[..., None]
    unit = 1.0 / (nu * (pt.tanh(start) + pt.minimum(1.0, 1.0 / pt.sqrt(nu))))
    at = start + unit * FROM_BOUND
    heights = -nu * (at - np.log(2.0) + pt.log1p(pt.exp(-2.0 * at))) + np.log(STEPS)
    constant = log_rising_ratio(nu / 2.0, 0.5) + 0.5 * (pt.log(nu / 2.0) - np.log(np.pi))
    smaller = constant + pt.log(unit[..., 0]) + log_sum_exp(heights)
    smaller = pt.minimum(smaller, -np.log(2.0))
    larger = pt.log1p(-pt.exp(smaller))
    below, above = (pt.switch(side, smaller, larger) for side in (v < 0.0, v >= 0.0))
    return tails_of_values(below, above, log_density, slope, curvature)


def tails_of_values(
    below: Tensor, above: Tensor, log_density: Tensor, slope: Tensor, curvature: Tensor
) -> tuple[Slopes, Slopes]:
    """Tails of a variable that f shifts, from their logs and its log density.

    The density at the bound, with its slope and curvature in f, is how fast the tails change.
    """
    found = []
    for side, value in ((-1.0, below), (1.0, above)):
        first = side * pt.exp(log_density - value)
        second = first * (slope - first)
        third = second * (slope - first) + first * (curvature - second)
        found.append(Slopes(value, first, second, third))
    return found[0], found[1]


def both_tails(tail: Slopes, low: Tensor, concave: bool) -> tuple[Slopes, Slopes]:
    """Tails below and above, from the one that does not have the mode; `low` says which it is."""
    tail = tail._replace(value=pt.minimum(tail.value, np.float64(-SMALL_PART)))
    found, other = [], tail.not_at_all()
    for which in ((tail, other), (other, tail)):
        one = Slopes(*(pt.switch(low, *both) for both in zip(*which, strict=True)))
        if concave:  # up to round-off
            one = one._replace(second=pt.minimum(one.second, np.float64(0.0)))
        found.append(one)
    return found[0], found[1]


def summed_tail(log_weights: Tensor, slopes: tuple[Tensor, ...]) -> Slopes:
    """Log of a sum (n,) of exp(log_weights), (n, K), from slopes of log weights in f.

    Derivatives are the first three cumulants of the slopes, and averages of further slopes.
    """
    value = log_sum_exp(log_weights)
    weights = pt.exp(log_weights - value[:, None])
    # A slope may be NaN where the weight is next to nothing.
    average = lambda v: pt.switch(weights > SMALL, weights * v, 0.0).sum(axis=1)  # noqa: E731
    first, second, third = slopes
    mean = average(first)
    off = first - mean[:, None]
    curvature = average(second + pt.sqr(off))
    bend = average(third + 3.0 * off * (second - average(second)[:, None]) + off**3)
    return Slopes(value, mean, curvature, bend)


def tail_of_rate(value: Tensor, slope: Tensor, change: Tensor, second: Tensor) -> Slopes:
    """Log of an integral over g beyond f, `value` with `slope`, of a function of g.

    The log of this function has the second derivative `second` at f, and a first derivative that
    is larger by `change` at g, on average.
    """
    curvature = -slope * change
    return Slopes(value, slope, curvature, slope * (second - curvature) - curvature * change)


LEAST, TINY = 0.1, 1e-200
"""See `kept_positive`."""

KEPT_POSITIVE = "observed, kept positive"
"""What the fit's attribute calls `kept_positive`."""


def kept_positive(first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, Tensor]:
    """The observed information, kept above 0, and its slope in f; from derivatives of `logp`.

    It is (o + (o^2 + LEAST^2 s^4)^1/2) / 2 for the observed information o and the slope s of
    `logp`: about o where that is positive.
    """
    floor = LEAST * pt.sqr(first)
    root = pt.sqrt(pt.sqr(second) + pt.sqr(floor) + TINY)
    bent = second * third + 2.0 * LEAST * floor * first * second
    return 0.5 * (root - second), 0.5 * (bent / root - third)
