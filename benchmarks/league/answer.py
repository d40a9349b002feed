"""An answer with 90% intervals, and its scores against the truth."""

from dataclasses import dataclass

import numpy as np

PROB = 0.9
TOP = 2
"""Features that count as the top ones."""


@dataclass
class Answer:
    """Estimates of one kind with the ends of their intervals, and what they estimate.

    `truth` names a function of `league.true_values`. `top` holds probabilities that each feature is
    among the top ones; without it, claims are about signs.
    """

    estimand: str
    truth: str
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    top: np.ndarray | None = None

    @classmethod
    def of_normal(cls, estimand, truth, estimate, sd):
        """Intervals of a normal distribution."""
        half = 1.6448536269514722 * np.asarray(sd)
        return cls(estimand, truth, estimate, estimate - half, estimate + half)

    @classmethod
    def of_draws(cls, estimand, truth, draws):
        """Equal-tailed intervals of draws along the first axis."""
        low, high = np.quantile(draws, [0.5 - PROB / 2, 0.5 + PROB / 2], axis=0)
        return cls(estimand, truth, np.mean(draws, axis=0), low, high)

    @classmethod
    def of_sizes(cls, truth, draws):
        """Ranks of features by draws (draw, feature) of their sizes; rank 1 is the largest."""
        ranks = ranked(draws)
        found = cls.of_draws("rank", truth, ranks)
        found.low, found.high = np.floor(found.low), np.ceil(found.high)
        found.top = (ranks <= TOP).mean(axis=0)
        return found

    def scores(self, truth):
        """Counts of intervals, of those that hold the truth, of claims, and of wrong claims.

        A claim is an interval without 0, or a probability of at least 90% to be, or not to be,
        among the top features. Widths are relative to the spread of the true values.
        """
        truth = ranked(truth[None])[0] if self.top is not None else np.asarray(truth)
        inside = (self.low <= truth) & (truth <= self.high)
        if self.top is not None:
            claimed = np.maximum(self.top, 1 - self.top) >= PROB
            wrong = claimed & ((self.top > 0.5) != (truth <= TOP))
        else:
            claimed = (self.low > 0) | (self.high < 0)
            wrong = claimed & (np.sign(self.estimate) != np.sign(truth))
        return {
            "count": truth.size,
            "held": int(inside.sum()),
            "width": float(np.mean(self.high - self.low)),
            "error": float(np.sqrt(np.mean((self.estimate - truth) ** 2))),
            "claims": int(claimed.sum()),
            "wrong": int(wrong.sum()),
        }


def ranked(sizes):
    """Ranks along the last axis; equal sizes share the best of their ranks."""
    return 1 + (sizes[..., None, :] > sizes[..., :, None]).sum(axis=-1)
