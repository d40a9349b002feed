"""Logs of the probabilities of at most y, and of more than y, with slopes in f."""

from typing import NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_slopes, log_sum_exp, softplus


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
    hazard = pt.exp(z)
    above = Slopes(*[-hazard] * 4)
    below = [cast(Tensor, pt.log(-pt.expm1(-hazard)))]
    first = hazard / pt.expm1(hazard)
    grown = 1.0 - hazard - first
    below += [first, first * grown, first * (pt.sqr(grown) - hazard - first * grown)]
    return Slopes(*below).along(-rate), above.along(-rate)


def summed_tail(log_weights: Tensor, slopes: tuple[Tensor, ...]) -> Slopes:
    """Log of a sum (n,) of exp(log_weights), (n, K), from slopes of log weights in f.

    Derivatives are the first three cumulants of the slopes, and averages of further slopes.
    """
    value = log_sum_exp(log_weights)
    weights = pt.exp(log_weights - value[:, None])
    average = lambda v: (weights * v).sum(axis=1)  # noqa: E731
    first, second, third = slopes
    mean = average(first)
    off = first - mean[:, None]
    curvature = average(second + pt.sqr(off))
    bend = average(third + 3.0 * off * (second - average(second)[:, None]) + off**3)
    return Slopes(value, mean, pt.minimum(curvature, np.float64(0.0)), bend)


def tail_of_rate(value: Tensor, slope: Tensor, change: Tensor, second: Tensor) -> Slopes:
    """Log of an integral over g beyond f, `value` with `slope`, of a function of g.

    The log of this function has the second derivative `second` at f, and a first derivative that
    is larger by `change` at g, on average.
    """
    curvature = -slope * change
    return Slopes(value, slope, curvature, slope * (second - curvature) - curvature * change)
