"""Coalitions of features, and the weights of Shapley values."""

import math

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

Players = tuple[tuple[int, ...], ...]
"""The columns of each player, together all columns."""


def coalitions(players: Players) -> tuple[np.ndarray, np.ndarray]:
    """All coalitions as masks of columns (s, d), and what Shapley values give each, (d, s).

    The value of a player with several columns stands at its first one; the others have zeros.
    """
    count, d = len(players), sum(map(len, players))
    joined = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    masks, shares = np.zeros((2**count, d), bool), np.zeros((d, 2**count))
    of_size = np.array([1.0 / math.comb(count - 1, k) for k in range(count)]) / count
    others = joined.sum(axis=1)[:, None] - joined
    for k, own in enumerate(players):
        masks[:, list(own)] = joined[:, [k]]
        shares[own[0]] = np.where(joined[:, k], 1.0, -1.0) * of_size[others[:, k]]
    return masks, shares


def mixed(x: TensorVariable, baselines: TensorVariable, masks: np.ndarray) -> TensorVariable:
    """Points (m, b, s, d) that are at x (m, d) in a mask's columns, at a baseline (b, d) else."""
    return pt.switch(masks, x[:, None, None], baselines[:, None])
