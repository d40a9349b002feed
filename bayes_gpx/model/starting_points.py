"""Where the optimisers of hyperparameters start."""

import numpy as np

START_GRID = (
    (1.0, 1.0, 0.1, 0.1),
    (1.0, 0.7, 0.7, 0.1),
    (3.0, 1.0, 0.5, 0.05),
    (0.3, 1.0, 0.3, 0.1),
)
"""Lengthscale over the median distance; prior sd of f, noise sd and eps_w's share over sd(y)."""


def starts(training, specification):
    """Dicts of hyperparameters: an empty one, for the priors' centres, and `START_GRID`."""
    data = training.scaled()
    x = data["X"][:: max(1, len(data["X"]) // 500)]
    squares = (x**2).sum(axis=1)
    distances = squares[:, None] + squares[None] - 2 * x @ x.T
    # Between independent standardised rows, where there is one row alone: others were not saved.
    pairs = distances[np.triu_indices(len(x), 1)] if len(x) > 1 else 2.0 * x.shape[1]
    apart = np.median(np.sqrt(np.maximum(pairs, 0.0))) or 1.0
    size = (float(data["y"].std()) or 1.0) if training.scales_y else 1.0
    z_norm = np.sqrt((data["Z"] ** 2).sum(axis=1).mean()) if "Z" in data else 1.0
    kinds = {h.name: h.kind for h in specification.hyperparameters}
    of_noise = specification.observation.hyperparameters
    found = [{}]
    for reach, signal, noise, own in START_GRID:
        by_kind = {
            "lengthscale": reach * apart,
            "amplitude": signal * size / z_norm,
            "group_amplitude": own * size / z_norm,
            "sigma_w": own * size / z_norm,
            "relative sigma_w": own,
        }
        noises = {n: noise * size for n, h in of_noise.items() if h.in_units_of_y}
        found.append({n: by_kind[k] for n, k in kinds.items() if k in by_kind} | noises)
    return found
