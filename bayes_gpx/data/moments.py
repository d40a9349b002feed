"""Moments of columns, which can be combined over tables."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

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
    _: KW_ONLY
    weight: float | None = None  # sum of the rows' weights, None without any

    @property
    def total(self) -> float:
        """Sum of the rows' weights, or their number."""
        return self.n if self.weight is None else self.weight

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Moments:
        """Moments of an array (n, d), whose rows may have weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is None:
                mean, sd = values.mean(axis=0), values.std(axis=0)
            else:
                mean = np.average(values, axis=0, weights=weights)
                sd = np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))
        total = None if weights is None else float(weights.sum())
        return cls(len(values), mean, sd, values.min(axis=0), values.max(axis=0), weight=total)

    def moved(self, by: np.ndarray) -> Moments:
        """Moments of the values plus constants (d,)."""
        return replace(self, mean=self.mean + by, low=self.low + by, high=self.high + by)

    def joined(self, other: Moments) -> Moments:
        """Moments of both sets of rows: Chan, Golub and LeVeque (1983), without squared means."""
        total = self.total + other.total
        share, apart = other.total / total, other.mean - self.mean
        within = (1.0 - share) * self.sd**2 + share * other.sd**2
        return Moments(
            self.n + other.n,
            self.mean + share * apart,
            np.sqrt(within + share * (1.0 - share) * apart**2),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            weight=None if self.weight is None else total,
        )
