"""Moments of columns, which can be combined over tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOMENTS = "mean", "sd", "low", "high"
"""Names of the moments of each column."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean, sd (ddof 0), smallest and largest value of each of d columns of n rows, each (d,)."""

    n: int
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Moments:
        """Moments of an array (n, d), whose rows may have weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is None:
                mean, sd = values.mean(axis=0), values.std(axis=0)
            else:
                mean = np.average(values, axis=0, weights=weights)
                sd = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
        return cls(len(values), mean, sd, values.min(axis=0), values.max(axis=0))

    def moved(self, by: np.ndarray) -> Moments:
        """Moments of the values plus constants (d,)."""
        return Moments(self.n, self.mean + by, self.sd, self.low + by, self.high + by)

    def joined(self, other: Moments) -> Moments:
        """Moments of both sets of rows: Chan, Golub and LeVeque (1983), without squared means."""
        n = self.n + other.n
        share, apart = other.n / n, other.mean - self.mean
        within = (1.0 - share) * self.sd**2 + share * other.sd**2
        return Moments(
            n,
            self.mean + share * apart,
            np.sqrt(within + share * (1.0 - share) * apart**2),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )
