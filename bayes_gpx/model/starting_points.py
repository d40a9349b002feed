"""Starting points of the optimizers of hyperparameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_gpx.data.outputs import Outputs
from bayes_gpx.data.training import TrainingData
from bayes_gpx.model.specification import Specification

START_GRID = (
    (1.0, 1.0, 0.1, 0.1),
    (1.0, 0.7, 0.7, 0.1),
    (3.0, 1.0, 0.5, 0.05),
    (0.3, 1.0, 0.3, 0.1),
)
"""Lengthscale over the median distance; prior sd of f, noise sd and eps_w's share over sd(y)."""

SHORT = 0.06
"""Lengthscale, in standard deviations, of one more start for each column that rows may be ordered
by. From a long one no way leads up to a season, which repeats ten times or more."""

ABOVE = 1.1
"""Smallest noise sd of a starting point, relative to the rounding error's."""


def starts(training: TrainingData, specification: Specification) -> list[dict[str, Any]]:
    """Dicts of hyperparameters: an empty one, for the priors' centres, and `START_GRID`."""
    # And the first of these with a short lengthscale of each column that rows are ordered by.
    data = training.scaled()
    some = slice(None, None, max(1, len(data["X"]) // 500))
    x = data["X"][some]
    squares = (x**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0.0)
    # Between independent standardised rows, where there is one row alone: others were not saved.
    pairs = distances[np.triu_indices(len(x), 1)] if len(x) > 1 else 2.0 * x.shape[1]
    apart = np.median(np.sqrt(pairs)) or 1.0
    size = _size(training, data)
    z_norm = np.sqrt((data["Z"] ** 2).sum(axis=1).mean()) if "Z" in data else 1.0
    kinds = {h.name: h.kind for h in specification.hyperparameters}
    of_noise = specification.observation.hyperparameters
    loadings = {}
    if specification.correlation:
        if training.outputs is None:
            own = np.eye(len(training.labels or ()))[data["y"][some].astype(int)]
            y = _shares(own, np.exp(-0.5 * distances / apart**2))
        else:
            y = _of_outputs(training.outputs, size)
        each = (size * _loadings(y).T).T[:, : specification.correlation]
        loadings = {name: each for name, kind in kinds.items() if kind == "loading"}
    found = [loadings]
    for reach, signal, noise, own in START_GRID:
        by_kind = {
            "lengthscale": reach * apart,
            "factor lengthscale": reach * apart,
            "amplitude": signal * size / z_norm,
            "group_amplitude": own * size / z_norm,
            "sigma_w": own * size / z_norm,
            "relative sigma_w": own,
        }
        above = np.maximum(noise * size, ABOVE * training.least_noise)
        noises = {n: above for n, h in of_noise.items() if h.in_units_of_y}
        found.append({n: by_kind[k] for n, k in kinds.items() if k in by_kind} | noises | loadings)
    names = [name for name, kind in kinds.items() if kind == "lengthscale"]
    for column in _ordered(training) if names else ():
        lengths = np.full(training.d, START_GRID[0][0] * apart)
        lengths[column] = SHORT
        own = lengths if specification.ard else lengths[column]
        found.append(found[1] | dict.fromkeys(names, own))
    return found


def _ordered(training: TrainingData) -> list[int]:
    """Columns that rows may be ordered by, as time: the only one, dates, and what only rises."""
    values, frame = training.X.values, training.X
    if frame.levels:
        return []
    rises = np.zeros(training.d, bool)
    if not training.streamed:  # a sample has no order
        rises = (np.diff(values, axis=0) > 0.0).all(axis=0) | (training.d == 1)
    return [
        k
        for k, name in enumerate(frame.columns)
        if len(values) > 2 and (rises[k] or name in frame.origins)
    ]


def _size(training: TrainingData, data: Mapping[str, np.ndarray]) -> float | np.ndarray:
    """Standard deviation of y, or of each output, (q,); 1 where y is not scaled at all."""
    if not training.scales_y:
        return 1.0
    if training.outputs is None:
        return float(data["y"].std()) or 1.0
    codes = training.outputs.codes
    each = [data["y"][codes == code].std() for code in range(len(training.outputs.names))]
    return np.where(np.array(each) > 0.0, each, 1.0)


def _of_outputs(outputs: Outputs, size: float | np.ndarray) -> np.ndarray:
    """Outputs in standard deviations, gaps at the mean, (n, q)."""
    values = outputs.values
    return np.nan_to_num((values - np.nanmean(values, axis=0)) / size)


def _shares(own: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Shares of classes among the rows near each, of mean 0 and variance 1, (m, C)."""
    # From which class each is of, (m, C) of 0 and 1, and how near others are, (m, m).
    shares = near @ own / near.sum(axis=1, keepdims=True)
    shares -= shares.mean(axis=0)
    return shares / (shares.std() or 1.0)


def _loadings(y: np.ndarray) -> np.ndarray:
    """The first principal components of columns y (n, q), as loadings, (q, q)."""
    # They are not 0, where the density is flat in them, and no two of them are alike.
    variances, axes = np.linalg.eigh(y.T @ y / len(y))
    order = np.argsort(variances)[::-1]
    return axes[:, order] * np.sqrt(np.maximum(variances[order], 0.01)) / np.sqrt(2)
