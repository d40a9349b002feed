"""Categorical columns moved from level to level, in the place of a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from bayes_gpx.draws.points import Points, at_other_x
from bayes_gpx.draws.protocols import ModelLike


def at_levels(model: ModelLike, where: Points, columns: Sequence[str]) -> Points:
    """Rows at every combination of the levels of some categorical columns."""
    # All rows at the first combination come first; the last column's levels change fastest.
    moved = []
    for levels in product(*(range(len(model.training.X.levels[name])) for name in columns)):
        X = where.X_values.copy()
        for name, level in zip(columns, levels, strict=True):
            X[:, _indicators(model, name)] = np.eye(len(model.training.X.levels[name]))[level]
        moved.append(X)
    rows = np.tile(np.arange(len(where.X)), len(moved))
    return at_other_x(model, where, np.concatenate(moved), rows)


def own_levels(model: ModelLike, where: Points, column: str) -> np.ndarray:
    """Position of each sample's level, (m,)."""
    return where.X_values[:, _indicators(model, column)].argmax(axis=1)


def contrast_weights(model: ModelLike, where: Points, column: str) -> np.ndarray:
    """Weights of a row's contrasts with all levels, (levels, m): sum 1, and 0 for its own level."""
    # Those of the other levels are their shares of the training rows: equal ones, if no training
    # row has another level.
    own, shares = own_levels(model, where, column), level_shares(model, column)
    other = np.arange(len(shares))[:, None] != own
    weights = np.where(other, shares[:, None], 0.0)
    weights = np.where(weights.sum(axis=0) > 0.0, weights, other)
    total = np.broadcast_to(weights.sum(axis=0), weights.shape)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def level_deviation(model: ModelLike, column: str) -> float:
    """Equivalent of a standard deviation of a categorical column: sqrt((1 - sum pi^2) / 2)."""
    # With proportions pi of the levels. It scales contrasts as the sd scales slopes; for two levels
    # it is the sd of 0 and 1. Two random training rows differ with twice its square.
    return float(np.sqrt((1.0 - (level_shares(model, column) ** 2).sum()) / 2.0))


def level_shares(model: ModelLike, column: str) -> np.ndarray:
    """Shares of the training rows that have each level."""
    return model.training.moments.mean[_indicators(model, column)]


def _indicators(model: ModelLike, column: str) -> np.ndarray:
    """Which of X's columns are the indicators of a categorical one, (d,)."""
    return np.isin(model.training.X.columns, model.training.X.of_source(column))
