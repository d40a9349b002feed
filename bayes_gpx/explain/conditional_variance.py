"""How much the mean prediction varies with a feature, given the other features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.data.row_data import counted
from bayes_gpx.draws.evaluate import jets
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.level_moves import at_levels, level_shares
from bayes_gpx.draws.points import at_other_x, points

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
"""Quadrature over a feature, exact for means that are polynomials up to degree 6."""


def conditional_variance(model: Model, idata: Draws, *, progressbar: bool = True) -> np.ndarray:
    """VAR relevance (n, features): variance of the mean of f over a feature given the others."""
    # It is averaged over draws, and over classes, on the model's scale. Given the others, a
    # numerical feature is normal, with the means and covariances of the training rows; a
    # categorical one has the proportions of its levels. A feature that the others determine has
    # almost no conditional variance, so two collinear features are both irrelevant here. See
    # Paananen, Piironen, Andersen and Vehtari, "Variable selection for Gaussian processes via
    # sensitivity analysis of the posterior predictive distribution" (2019), section 3.2.
    where, hyper = points(model), hyperparameter_draws(model, idata)
    found = [
        _of_feature(model, hyper, where, name, progressbar) for name in model.training.X.sources
    ]
    return np.stack(found, axis=1)


def _of_feature(
    model: Model, hyper: HyperparameterDraws, where: Points, name: str, progressbar: bool
) -> np.ndarray:
    """The variance along one feature at each row, (n,)."""
    if name in model.training.X.levels:
        moved, shares = at_levels(model, where, [name]), level_shares(model, name)
    else:
        moved, shares = _redrawn(model, where, name), WEIGHTS / WEIGHTS.sum()
    found = np.zeros(len(where.X))
    for _, _, mean, _, _ in jets(model, hyper, moved, 0, progressbar=progressbar):
        values = mean.value.reshape((len(shares), len(found), -1))
        apart = values - np.tensordot(shares, values, 1)
        found += np.tensordot(shares, apart**2, 1).mean(axis=-1)
    return found / len(hyper)


def _redrawn(model: Model, where: Points, name: str) -> Points:
    """The rows with a feature at the nodes of its distribution given the others."""
    X, j = where.X_values, model.training.X.columns.index(name)
    counts = counted(model.training.row_data, len(X))
    center = np.average(X, axis=0, weights=counts)
    others, root = np.delete(X - center, j, axis=1), np.sqrt(counts)
    slope = np.linalg.lstsq(root[:, None] * others, root * (X[:, j] - center[j]), rcond=None)[0]
    expected = center[j] + others @ slope
    sd = np.sqrt(np.average((X[:, j] - expected) ** 2, weights=counts))
    moved = np.tile(X, (len(NODES), 1))
    moved[:, j] = (expected + sd * NODES[:, None]).ravel()
    return at_other_x(model, where, moved, np.tile(np.arange(len(X)), len(NODES)))
