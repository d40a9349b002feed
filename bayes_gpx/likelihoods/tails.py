"""Logs of the probabilities of at most y, and of more than y, with slopes in f."""

from typing import NamedTuple, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_slopes, softplus


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
