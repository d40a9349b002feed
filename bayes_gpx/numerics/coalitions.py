"""Coalitions of features, and the weights of Shapley values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor

Players = tuple[tuple[int, ...], ...]
"""The columns of each player, together all columns."""


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Coalitions, and Shapley values as sums of their values."""

    masks: np.ndarray  # (s, d): columns that have moved
    shares: np.ndarray  # (d, s): the weights of a player's Shapley value, at its first column
    # (orders, players): the coalition before a player's turn in each random order
    before: np.ndarray
    # and after it; the second half of the orders reverses the first; empty for all coalitions
    after: np.ndarray

    def beside(self, p: int) -> Coalitions:
        """The same of x and z side by side, the first columns of z moving with x."""
        s, d = self.masks.shape
        masks = np.hstack([self.masks, self.masks, np.zeros((s, p - d), bool)])
        shares = np.vstack([self.shares, np.zeros((p, s))])
        return replace(self, masks=masks, shares=shares)

    def errors(self, values: np.ndarray) -> np.ndarray:
        """Monte Carlo errors (..., players) of Shapley values of coalitions' values (..., s)."""
        gains = values[..., self.after] - values[..., self.before]
        *outer, orders, players = gains.shape
        # The errors are of the mean over pairs of orders: an order and its reverse are not
        # independent.
        each = gains.reshape((*outer, 2, orders // 2, players)).mean(axis=-3)
        return each.std(axis=-2, ddof=1) / math.sqrt(orders // 2)


@dataclass(frozen=True)
class Orders:
    """Random orders of players, half of them the reverse of the others; or all coalitions."""

    count: int | None = None  # None for all coalitions
    seed: int = 0


def all_coalitions(players: Players) -> Coalitions:
    """All subsets of the players."""
    count = len(players)
    joined = (np.arange(2**count)[:, None] >> np.arange(count)) & 1 == 1
    of_size = np.array([1.0 / math.comb(count - 1, k) for k in range(count)]) / count
    others = joined.sum(axis=1)[:, None] - joined
    shares = np.where(joined, 1.0, -1.0) * of_size[np.minimum(others, count - 1)]
    none = np.zeros((0, count), int)
    return Coalitions(*_of_columns(players, joined, shares.T), none, none)


@lru_cache(maxsize=8)
def coalitions(players: Players, orders: Orders) -> Coalitions:
    """The coalitions that players go through in some orders."""
    if orders.count is None:
        return all_coalitions(players)
    count = len(players)
    turns = np.tile(np.arange(count), (orders.count // 2, 1))
    turns = np.random.default_rng(orders.seed).permuted(turns, axis=1)
    place = np.argsort(np.concatenate([turns, turns[:, ::-1]]), axis=1)
    joined = place[:, None] < np.arange(count + 1)[:, None]
    distinct, numbers = np.unique(joined.reshape((-1, count)), axis=0, return_inverse=True)
    numbers = numbers.reshape((-1, count + 1))
    before, after = (np.take_along_axis(numbers, place + k, axis=1) for k in (0, 1))
    shares = np.zeros((count, len(distinct)))
    for at, sign in ((after, 1.0), (before, -1.0)):
        np.add.at(shares, (np.arange(count), at), sign / len(place))
    return Coalitions(*_of_columns(players, distinct, shares), before, after)


def _of_columns(
    players: Players, joined: np.ndarray, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Masks and shares of columns, from masks (s, players) and shares (players, s) of players."""
    d = sum(map(len, players))
    masks, wide = np.zeros((len(joined), d), bool), np.zeros((d, len(joined)))
    for k, own in enumerate(players):
        masks[:, list(own)] = joined[:, [k]]
        wide[own[0]] = shares[k]
    return masks, wide


def mixed(x: Tensor, baselines: Tensor, masks: np.ndarray) -> Tensor:
    """Points (m, b, s, d) that are at x (m, d) in a mask's columns, at a baseline (b, d) else."""
    return pt.switch(masks, x[:, None, None], baselines[:, None])
