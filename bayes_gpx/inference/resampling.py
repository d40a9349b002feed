"""Draws with weights turned into draws without."""

import numpy as np


def resampled(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of `count` draws, in proportion to weights (S,) >= 0, by systematic resampling.

    Each is taken ``count`` times its proportion of the weights, rounded up or down; in random
    order.
    """
    ends = np.cumsum(weights)
    at = (np.arange(count) + rng.uniform()) / count * ends[-1]
    return rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1))
