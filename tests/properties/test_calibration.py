"""With truth drawn from the prior and hyperparameters known, intervals cover as they should."""

import numpy as np
import pytest
from scipy.stats import binom

import bayes_gpx as bx
from calibration import coverage
from oracle import expquad

THETA = {"lengthscale": 1.0, "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.4}
REPEATS, POINTS = 60, 3
LEVEL, QUANTILE = 0.8, 1.2815515655446004


def simulate(rng, n=30, p=2):
    """One world: data, and the true weights of training and new samples."""
    x = rng.uniform(-2, 2, (n + POINTS, 1))
    Z = rng.normal(size=(n + POINTS, p))
    root = np.linalg.cholesky(expquad(x, x, 1.0) + 1e-10 * np.eye(n + POINTS))
    smooth = 0.8 * root @ rng.normal(size=(n + POINTS, p))
    weights = smooth + 0.3 * rng.normal(size=(n + POINTS, p))
    y = (Z * weights).sum(axis=1) + 0.4 * rng.normal(size=n + POINTS)
    return x, Z, y, weights, smooth


@pytest.fixture(scope="module")
def hits():
    """Which intervals of each kind held the truth, one per world to keep them independent."""
    rng = np.random.default_rng(12)
    found = {name: [] for name in ("own weight", "new weight", "smooth", "contribution", "y")}

    def held(dataset, name, truth):
        error = np.abs(dataset[f"{name}_mean"].values - truth)
        return (error < QUANTILE * dataset[f"{name}_sd"].values).ravel()[0]

    for _ in range(REPEATS):
        x, Z, y, weights, smooth = simulate(rng)
        model = bx.GPX(x[:-POINTS], y[:-POINTS], Z[:-POINTS], scale=False)
        new, options = (x[-POINTS:], Z[-POINTS:]), {"keep": "summary"}
        own = bx.weights(model, THETA, **options)
        found["own weight"].append(held(own, "weight", weights[:-POINTS]))
        fresh = bx.weights(model, THETA, *new, **options)
        found["new weight"].append(held(fresh, "weight", weights[-POINTS:]))
        curve = bx.weights(model, THETA, *new, smooth=True, **options)
        found["smooth"].append(held(curve, "weight", smooth[-POINTS:]))
        parts = bx.contributions(model, THETA, *new, **options)
        found["contribution"].append(held(parts, "contribution", (Z * weights)[-POINTS:]))
        ahead = bx.predictions(model, THETA, *new, **options)
        found["y"].append(held(ahead, "y", y[-POINTS:]))
    return found


@pytest.mark.parametrize("kind", ["own weight", "new weight", "smooth", "contribution", "y"])
def test_intervals_cover(hits, kind):
    # 36 to 58 of 60: half and double widths cover 48 % and 99 %, about 29 and 59.
    low, high = binom.interval(0.9998, REPEATS, LEVEL)
    assert low <= sum(hits[kind]) <= high


@pytest.mark.slow
def test_intervals_of_known_hyperparameters_cover_over_the_prior():
    *shares, _, _, _, _ = coverage(runs=150, methods=("known",)).mean(axis=(0, 1))
    shares = np.array(shares)  # without those of hyperparameters, which are not inferred here
    assert ((shares > 0.85) & (shares < 0.95)).all()
