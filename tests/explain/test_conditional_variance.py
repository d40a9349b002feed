"""The variance of the mean prediction along one feature, drawn anew given the others."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.stats import norm

import bayes_gpx as bx
from bayes_gpx.explain.conditional_variance import conditional_variance
from known_draws import known, scattered
from oracle import expquad

rng = np.random.default_rng(7)
N = 25
X = rng.normal(size=(N, 3)) @ [[1.0, 0.6, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.7]]
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=N)
THETA = {"lengthscale": np.array([1.6, 2.0, 1.5]), "amplitude": 1.2, "sigma": 0.3}


def mean(points, theta, A=X):
    C = theta["amplitude"] ** 2 * expquad(A, A, theta["lengthscale"])
    weights = np.linalg.solve(C + theta["sigma"] ** 2 * np.eye(len(A)), y)
    return theta["amplitude"] ** 2 * expquad(points, A, theta["lengthscale"]) @ weights


def integrated(j, theta):
    """By the precision matrix of the features, and a fine grid."""
    precision = np.linalg.inv(np.cov(X, rowvar=False, ddof=0))
    sd = precision[j, j] ** -0.5
    expected = X[:, j] - (X - X.mean(axis=0)) @ precision[j] / precision[j, j]
    found = np.empty(N)
    for i in range(N):
        grid = expected[i] + sd * np.linspace(-8.0, 8.0, 801)
        moved = np.tile(X[i], (len(grid), 1))
        moved[:, j] = grid
        f, density = mean(moved, theta), norm.pdf(grid, expected[i], sd)
        found[i] = trapezoid(f**2 * density, grid) - trapezoid(f * density, grid) ** 2
    return found


def test_it_is_the_integral_on_average_over_draws():
    model = bx.GP(X, y, scale=False)
    found = conditional_variance(model, known(model, scattered(THETA, 2)), progressbar=False)
    expected = [
        np.mean([integrated(j, theta) for theta in scattered(THETA, 2)], axis=0) for j in range(3)
    ]
    assert_allclose(found, np.transpose(expected), rtol=2e-3)


def test_of_a_line_it_is_the_squared_slope_times_the_variance_that_is_left():
    frame = pd.DataFrame(1000.0 * X, columns=list("abc"))
    model = bx.GP(frame, y, kernel="linear")
    theta = {"amplitude": 1.5, "sigma": 0.3}
    found = conditional_variance(model, theta, progressbar=False)
    slopes = bx.derivatives(model, theta, keep="summary", progressbar=False)
    slope = slopes["derivative_mean"].values / model.training.y_scaling.scale
    left = 1.0 / np.diag(np.linalg.inv(np.cov(frame, rowvar=False, ddof=0)))
    assert_allclose(found, slope**2 * left, rtol=1e-9)


def test_a_category_takes_its_levels_with_their_shares():
    frame = pd.DataFrame({"a": X[:, 0], "kind": rng.choice(list("uuuvw"), N)})
    frame["kind"] = frame["kind"].astype("category")
    model = bx.GP(frame, y, scale=False)
    theta = {"lengthscale": [1.0, 0.8], "amplitude": 1.0, "sigma": 0.3}
    found = conditional_variance(model, theta, progressbar=False)

    def of_kind(level):
        return pd.Categorical([level] * N, frame["kind"].cat.categories)

    share = frame["kind"].value_counts(normalize=True)
    at = [
        bx.predictions(model, theta, frame.assign(kind=of_kind(k)), progressbar=False)
        for k in share.index
    ]
    f = np.stack([one["f_mean"].values for one in at])
    expected = share.values @ f**2 - (share.values @ f) ** 2
    assert_allclose(found[:, 1], expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*same values")
def test_of_collinear_features_neither_adds_anything():
    twice = np.column_stack([X, X[:, 0]])
    theta = THETA | {"lengthscale": [1.0, 1.0, 1.0, 1.0]}
    model = bx.GP(twice, y, scale=False)
    found = conditional_variance(model, theta, progressbar=False)
    assert (found[:, [0, 3]] < 1e-20).all() and (found[:, 1:3] > 1e-6).all()


@pytest.mark.filterwarnings("ignore:weights have a mean of")
def test_a_weight_is_as_many_rows():
    counts = np.resize([1, 3, 2, 9], N)
    rows = np.repeat(np.arange(N), counts)
    weighted = bx.GP(X, y, weights=counts * 1.0, scale=False)
    repeated = bx.GP(X[rows], y[rows], scale=False)
    found, expected = (
        conditional_variance(m, THETA, progressbar=False) for m in (weighted, repeated)
    )
    assert_allclose(found[rows], expected, rtol=1e-9)
