"""A number that varies with x, known with its derivatives there."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Jet(NamedTuple):
    """Values at m points, with their derivatives in d features.

    Attributes
    ----------
    value : array (m,)
    first : array (m, d) or None
    second : array (m, d, d) or None
    """

    value: np.ndarray
    first: np.ndarray | None = None
    second: np.ndarray | None = None

    def shifted(self, constant: float) -> "Jet":
        """The sum with a number that does not vary with x."""
        return self._replace(value=self.value + constant)


def expectation(mean: Jet, variance: Jet, value: np.ndarray, rates: Sequence[np.ndarray]) -> Jet:
    """Jet of E g(f) where f ~ N(mean, variance), both jets.

    A derivative of a Gaussian expectation in the variance is half the second one in the mean.

    Parameters
    ----------
    mean, variance : Jet
    value : array (m,)
        E g(f).
    rates : sequence of arrays (m,)
        Expectations of the first two derivatives of g, or for second derivatives of all four.
    """
    if mean.first is None:
        return Jet(value)
    one, two = rates[0][:, None], rates[1][:, None] / 2.0
    first = one * mean.first + two * variance.first
    if mean.second is None:
        return Jet(value, first)
    one, two, three, four = (
        rate[:, None, None] / part for rate, part in zip(rates, (1.0, 2.0, 2.0, 4.0), strict=True)
    )
    crossed = mean.first[:, :, None] * variance.first[:, None]
    second = (
        one * mean.second
        + two * variance.second
        + 2.0 * two * (mean.first[:, :, None] * mean.first[:, None])
        + three * (crossed + crossed.transpose(0, 2, 1))
        + four * (variance.first[:, :, None] * variance.first[:, None])
    )
    return Jet(value, first, second)
