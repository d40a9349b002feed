"""Intervals of mixtures of normals over hyperparameter draws.

Quantiles of draws would do, but they are rough from one observation to the next, and differ between
seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

MOST_DRAWS, LEAST_DRAWS = 400, 50
"""Most hyperparameter draws in a mixture, evenly chosen, and the fewest if room is short."""

MOST_NUMBERS = 2**23
"""Means, and as many variances, that are kept in memory until all draws are there."""

BLOCK_NUMBERS = 2**20
"""Number of means, and of variances, for which quantiles are computed at once."""

STEPS, TOLERANCE = 60, 1e-10
"""At most so many Newton steps; they end when one is smaller than this share of the largest sd."""


class MixtureIntervals:
    """Means and variances of a quantity (obs, component), kept until all draws are there.

    `draws` hyperparameter draws will be added. There is `room` for this many means, and as many
    variances; `made` creates the array from a shape (2, draw, obs, component). `known` is true if
    there is room for enough of them.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        draws: int,
        room: float = MOST_NUMBERS,
        made: Callable[[tuple[int, ...]], Any] = np.zeros,
    ) -> None:
        most = room / max(1, int(np.prod(shape)))
        self.known = most >= min(draws, LEAST_DRAWS)
        count = int(min(draws, MOST_DRAWS, most)) if self.known else 0
        places = np.unique(np.linspace(0, draws - 1, count).round().astype(int))
        self._place = {int(number): k for k, number in enumerate(places)}
        self._shape = shape
        self._moments: Any = made((2, len(places), *shape)) if self.known else None

    def add(self, number: int, rows: slice, mean: np.ndarray, variance: np.ndarray) -> None:
        """Add some rows' moments at one hyperparameter draw, counted from 0."""
        if number in self._place:
            self._moments[:, self._place[number], rows] = np.stack([mean, variance])

    def ends(self, prob: float) -> np.ndarray:
        """Bounds of equal-tailed intervals, (obs, component, 2)."""
        size = max(1, BLOCK_NUMBERS // (len(self._place) * self._shape[1]))
        found = np.empty((*self._shape, 2))
        for rows in [slice(start, start + size) for start in range(0, len(found), size)]:
            means, variances = self._moments[:, :, rows]
            sds = np.sqrt(np.maximum(variances, 0.0))
            for k, tail in enumerate((0.5 - prob / 2, 0.5 + prob / 2)):
                found[rows, :, k] = mixture_quantile(means, sds, tail)
        return found


def mixture_quantile(means: np.ndarray, sds: np.ndarray, probability: float) -> np.ndarray:
    """Quantile of equally weighed normals (draw, ...), of each entry, (...).

    By Newton's method, held between the smallest and the largest of the normals' own quantiles.
    """
    own = means + ndtri(probability) * sds
    low, high = own.min(axis=0), own.max(axis=0)
    if len(own) == 1:
        return low
    widest = sds.max(axis=0)
    inverse = 1.0 / np.maximum(sds, 1e-8 * np.where(widest > 0.0, widest, 1.0))
    spread = np.sqrt((sds**2).mean(axis=0) + means.var(axis=0))
    at = np.clip(means.mean(axis=0) + ndtri(probability) * spread, low, high)
    for _ in range(STEPS):
        z = (at - means) * inverse
        gap = ndtr(z).mean(axis=0) - probability
        low, high = np.where(gap < 0.0, at, low), np.where(gap < 0.0, high, at)
        density = (np.exp(-0.5 * z**2) * inverse).mean(axis=0) / np.sqrt(2.0 * np.pi)
        with np.errstate(over="ignore"):  # between two narrow normals: too long a step is not taken
            step = np.divide(gap, density, out=np.full_like(gap, np.inf), where=density > 0.0)
        there = at - step
        there = np.where((there > low) & (there < high), there, 0.5 * (low + high))
        moved, at = np.abs(there - at), there
        if (moved <= TOLERANCE * np.maximum(widest, high - low)).all():
            break
    return at
