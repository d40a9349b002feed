"""Numbers that vary with x, together with their derivatives in x."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Jet(NamedTuple):
    """Values at m points, with their derivatives in d features."""

    value: np.ndarray  # (m,)
    first: np.ndarray | None = None  # (m, d)
    second: np.ndarray | None = None  # (m, d, d)

    def at(self, points: slice) -> "Jet":
        """Those of some of the points."""
        first, second = (None if part is None else part[points] for part in self[1:])
        return Jet(self.value[points], first, second)

    def component(self, *at: int) -> "Jet":
        """One of several numbers at each point, by its place in the last dims."""
        place: Any = (..., *at)
        parts: list[Any] = [None if part is None else part[place] for part in self]
        return Jet(*parts)

    def plus(self, other: "Jet", factor: float = 1.0) -> "Jet":
        """The sum with a multiple of another jet."""
        pairs: Any = zip(self, other, strict=True)
        parts: list[Any] = [None if a is None or b is None else a + factor * b for a, b in pairs]
        return Jet(*parts)

    def exp(self) -> "Jet":
        """The exponential, by the chain rule."""
        value, slope = np.exp(self.value), self.first
        if slope is None or self.second is None:
            return Jet(value, None if slope is None else value[:, None] * slope)
        bend = self.second + slope[:, :, None] * slope[:, None]
        return Jet(value, value[:, None] * slope, value[:, None, None] * bend)

    def shifted(self, constant: float) -> "Jet":
        """The sum with a number that does not vary with x."""
        return self._replace(value=self.value + constant)


def expectation(mean: Jet, variance: Jet, value: np.ndarray, rates: Sequence[np.ndarray]) -> Jet:
    """Jet of E g(f) for f ~ N(mean, variance), by the chain rule; `rates` are E g', E g'', ..."""
    # The derivative of E g(f) in the variance is half its second derivative in the mean, so second
    # derivatives of the jets need E g''' and E g'''' too.
    if mean.first is None or variance.first is None:
        return Jet(value)
    one, two = rates[0][:, None], rates[1][:, None] / 2.0
    first = one * mean.first + two * variance.first
    if mean.second is None or variance.second is None:
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
