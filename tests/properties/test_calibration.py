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


def constrained(rng, rows, at, new, ls=1.0):
    """One world of a function that rises at three points, by rejection from its prior."""
    x = np.concatenate([rows, new])
    apart, along = x[:, None] - at, at[:, None] - at
    slope = np.exp(-(apart**2) / (2 * ls**2)) * apart / ls**2
    curve = np.exp(-(along**2) / (2 * ls**2)) * (1 / ls**2 - along**2 / ls**4)
    K = np.block([[expquad(x[:, None], x[:, None], ls), slope], [slope.T, curve]])
    root = np.linalg.cholesky(K + 1e-9 * np.eye(len(K)))
    while True:
        f = root @ rng.normal(size=len(K))
        if (f[len(x) :] > 0).all():
            return f[: len(rows)], f[len(rows) : len(x)], f[len(x) :]


@pytest.mark.slow
def test_intervals_under_a_constraint_cover():
    """The constraint is part of the prior, so that f and its slopes are covered on average."""
    rng, at, new = np.random.default_rng(3), np.array([-1.5, 0.2, 1.0]), np.array([-0.6, 1.8])
    theta, held = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.5}, {"f": [], "slope": []}
    rises = [bx.constraints.Increasing("x0", at=at[:, None], strength=0.001)]
    for _ in range(120):
        rows = rng.uniform(-2, 2, 10)
        f, ahead, slopes = constrained(rng, rows, at, new)
        y = f + 0.5 * rng.normal(size=10)
        model = bx.GP(rows[:, None], y, scale=False, constraints=rises)
        options = {"keep": "summary", "progressbar": False}
        found = bx.predictions(model, theta, new[:, None], **options)["f_interval"].values
        held["f"].append(((found[:, 0] < ahead) & (ahead < found[:, 1])).mean())
        found = bx.derivatives(model, theta, at[:, None], **options)["derivative_interval"].values
        held["slope"].append(((found[:, 0, 0] < slopes) & (slopes < found[:, 0, 1])).mean())
    for each in held.values():
        assert abs(np.mean(each) - 0.9) < 3.5 * np.std(each) / np.sqrt(len(each))


@pytest.mark.slow
def test_components_cover_and_their_variances_have_no_bias():
    """Of an orthogonal kernel under five values of each feature, with f drawn on their grid."""
    rng, values = np.random.default_rng(4), np.array([-1.5, -0.7, 0.1, 0.6, 1.4])
    grid = np.array([[a, b] for a in values for b in values])
    cov = expquad(values[:, None], values[:, None], 1.0)
    cov -= np.outer(cov.mean(axis=1), cov.mean(axis=1)) / cov.mean()
    ones = np.ones((5, 5))
    kernels = {"x0": np.kron(cov, ones), "x1": np.kron(ones, cov), "x0:x1": np.kron(cov, cov)}
    roots = {k: np.linalg.cholesky(K + 1e-10 * np.eye(25)) for k, K in kernels.items()}
    measure = np.column_stack([values, values])

    def kernel(d):
        return bx.Additive(d, [1.0, 1.0], 2, [1.0, 1.0], measure=measure)

    held, errors = {name: [] for name in kernels}, {name: [] for name in kernels}
    for _ in range(80):
        parts = {name: root @ rng.normal(size=25) for name, root in roots.items()}
        picked = rng.integers(25, size=12)
        y = sum(parts.values())[picked] + 0.4 * rng.normal(size=12)
        model = bx.GP(grid[picked], y, kernel=kernel, scale=False)
        theta, options = {"sigma": 0.4}, {"progressbar": False}
        found = bx.components(model, theta, grid, keep="summary", **options)
        share = bx.sobol_indices(model, theta, **options)
        for name, truth in parts.items():
            low, high = found["component_interval"].sel(component=name).values.T
            held[name].append(((low < truth) & (truth < high)).mean())
            expected = float((share["sobol"] * share["variance"]).sel(component=name).squeeze())
            errors[name].append(expected - np.mean(truth**2))
    for name in kernels:
        spread = np.std(held[name]) / np.sqrt(80)
        assert abs(np.mean(held[name]) - 0.9) < 3.5 * spread
        assert abs(np.mean(errors[name])) < 3.5 * np.std(errors[name]) / np.sqrt(80)
