"""Moments of columns, which those of several tables add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOMENTS = "mean", "sd", "low", "high"
"""Names of what is known of each column."""


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of each of d columns of n rows.

    Attributes
    ----------
    n : int
    mean, sd, low, high : array (d,)
        `sd` with ddof 0; the least and the largest value.
    """

    n: int
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Of an array (n, d)."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, sd = values.mean(axis=0), values.std(axis=0)
        return cls(len(values), mean, sd, values.min(axis=0), values.max(axis=0))

    def joined(self, other: Moments) -> Moments:
        """Of the rows of both: Chan, Golub and LeVeque (1983), without squares of the means."""
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
