"""Intervals of mixtures of normals over hyperparameter draws.

Quantiles of draws would do, but they are rough from one observation to the next, and differ between
seeds.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

MOST_DRAWS, LEAST_DRAWS = 400, 50
"""Hyperparameter draws that are taken into a mixture, evenly chosen: at most, and where room is
short."""

MOST_NUMBERS = 2**23
"""Means, and as many variances, that are kept in memory until all draws are there."""

STEPS, TOLERANCE = 60, 1e-10
"""At most so many Newton steps; they end when one is smaller than this share of the largest sd."""


class MixtureIntervals:
    """Means and variances of a quantity (obs, component), kept until all draws are there.

    Parameters
    ----------
    shape : (obs, component)
    draws : int
        Hyperparameter draws that will be added.

    Attributes
    ----------
    known : bool
        Whether there is room for enough of them.
    """

    def __init__(self, shape: tuple[int, int], draws: int) -> None:
        room = MOST_NUMBERS // max(1, int(np.prod(shape)))
        self.known = room >= min(draws, LEAST_DRAWS)
        count = min(draws, MOST_DRAWS, room) if self.known else 0
        places = np.unique(np.linspace(0, draws - 1, count).round().astype(int))
        self._place = {int(number): k for k, number in enumerate(places)}
        self._means, self._variances = np.zeros((2, len(places), *shape))

    def add(self, number: int, rows: slice, mean: np.ndarray, variance: np.ndarray) -> None:
        """Add some rows' moments at one hyperparameter draw, counted from 0."""
        if number in self._place:
            self._means[self._place[number], rows] = mean
            self._variances[self._place[number], rows] = variance

    def ends(self, prob: float) -> np.ndarray:
        """Bounds of equal-tailed intervals, (obs, component, 2)."""
        sds = np.sqrt(np.maximum(self._variances, 0.0))
        tails = (0.5 - prob / 2, 0.5 + prob / 2)
        return np.stack([mixture_quantile(self._means, sds, tail) for tail in tails], axis=-1)


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
        step = np.divide(gap, density, out=np.full_like(gap, np.inf), where=density > 0.0)
        there = at - step
        there = np.where((there > low) & (there < high), there, 0.5 * (low + high))
        moved, at = np.abs(there - at), there
        if (moved <= TOLERANCE * np.maximum(widest, high - low)).all():
            break
    return at
