"""Sobol indices against dense posteriors on grids, Monte Carlo, and Ishigami's function."""

from contextlib import nullcontext as nothing

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

RNG = np.random.default_rng(4)
X = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["age", "bmi"])
Y = 5.0 + np.sin(X["age"]) + 0.5 * X["age"] * X["bmi"] + 0.2 * RNG.normal(size=20)
ROWS = RNG.normal(size=(5, 2))
LS, VARIANCES, SIZE, LEVEL, SIGMA = [0.9, 1.3], [1.0, 0.5], 1.7, 3.0, 0.3
QUIET = {"progressbar": False}


def kernel_of(measure, order=2):
    def kernel(d):
        effects = bx.Additive(d, LS, order, VARIANCES[:order], measure=measure)
        return SIZE * effects + pm.gp.cov.Constant(LEVEL)

    return kernel


def dense(A, B):
    """The kernel under the empirical measure of ROWS, written out."""

    def of_column(i):
        def k(x, xs):
            return np.exp(-((x[:, None] - xs) ** 2) / (2 * LS[i] ** 2))

        a, b, rows = A[:, i], B[:, i], ROWS[:, i]
        one, other = k(a, rows).mean(axis=1), k(b, rows).mean(axis=1)
        return k(a, b) - np.outer(one, other) / k(rows, rows).mean()

    first, second = of_column(0), of_column(1)
    return SIZE * (VARIANCES[0] * (first + second) + VARIANCES[1] * first * second) + LEVEL


def test_of_an_empirical_measure_they_are_those_of_f_on_the_grid():
    model = bx.GP(X, Y, kernel=kernel_of(ROWS), scale=False)
    found = bx.sobol_indices(model, {"sigma": SIGMA}, **QUIET)
    grid = np.array([[a, b] for a in ROWS[:, 0] for b in ROWS[:, 1]])
    train = X.to_numpy()
    C = np.linalg.inv(dense(train, train) + SIGMA**2 * np.eye(20))
    mean = dense(grid, train) @ C @ Y.to_numpy()
    cov = dense(grid, grid) - dense(grid, train) @ C @ dense(train, grid)
    # Averages over the rows of each feature are linear in f on the grid.
    average, whole = np.full((5, 5), 0.2), np.eye(5)
    along = [np.kron(whole, average), np.kron(average, whole)]
    overall = np.kron(average, average)
    effects = [own - overall for own in along]
    effects.append(np.eye(25) - along[0] - along[1] + overall)
    effects.append(np.eye(25) - overall)
    *each, total = [np.mean((E @ mean) ** 2 + np.diag(E @ cov @ E.T)) for E in effects]
    assert found["component"].values.tolist() == ["age", "bmi", "age:bmi"]
    assert_allclose(found["variance_mean"], total, rtol=1e-9)
    assert_allclose(found["sobol_mean"], np.array(each) / total, rtol=1e-9)
    assert_allclose(found["sobol_mean"].sum(), 1.0, rtol=1e-12)
    ends = [each[0] + each[2], each[1] + each[2]]
    assert_allclose(found["total_mean"], np.array(ends) / total, rtol=1e-9)
    halves = [each[0] + each[2] / 2, each[1] + each[2] / 2]
    assert_allclose(found["shapley_effect_mean"], np.array(halves) / total, rtol=1e-9)


@pytest.mark.parametrize(
    "measure", ["gaussian", pytest.param(("uniform", -1.0, 2.0), marks=pytest.mark.slow)]
)
def test_monte_carlo_over_the_measure(measure):
    model = bx.GP(X, Y, kernel=kernel_of(measure))
    found = bx.sobol_indices(model, {"sigma": SIGMA}, **QUIET)
    rng, size = np.random.default_rng(8), 4000
    points = rng.normal(size=(size, 2)) if measure == "gaussian" else rng.uniform(-1, 2, (size, 2))
    points = X.mean().to_numpy() + X.std(ddof=0).to_numpy() * points
    with pytest.warns(bx.ExtrapolationWarning) if measure == "gaussian" else nothing():
        parts = bx.components(model, {"sigma": SIGMA}, points, keep="summary", **QUIET)
    squares = (parts["component_mean"] ** 2 + parts["component_sd"] ** 2).values[:, :3]
    error = squares.std(axis=0) / np.sqrt(size)
    expected = (found["sobol_mean"] * found["variance_mean"]).values
    assert (np.abs(squares.mean(axis=0) - expected) < 5.0 * error).all()
    means = parts["component_mean"].values[:, :3]
    assert (np.abs(means.mean(axis=0)) < 5.0 * means.std(axis=0) / np.sqrt(size)).all()


def test_ishigami():
    rng, a, b = np.random.default_rng(1), 7.0, 0.1
    points = rng.uniform(-np.pi, np.pi, (250, 3))
    first, second, third = points.T
    y = np.sin(first) + a * np.sin(second) ** 2 + b * third**4 * np.sin(first)

    def kernel(d):
        ls, measure = [2.0, 0.8, 2.0], ("uniform", -np.pi, np.pi)
        effects = bx.Additive(d, ls, 2, [1.0, 5.0], measure=measure)
        return 30.0 * effects + pm.gp.cov.Constant(100.0)

    model = bx.GP(points, y, kernel=kernel, scale=False)
    found = bx.sobol_indices(model, {"sigma": 0.01}, **QUIET)
    fourth, eighth = b * np.pi**4, b**2 * np.pi**8
    one, two, both = 0.5 * (1 + fourth / 5) ** 2, a**2 / 8, eighth * 8 / 225
    expected = np.array([one, two, 0.0, 0.0, both, 0.0]) / (one + two + both)
    assert_allclose(found["sobol_mean"], expected, atol=2e-3)
    assert_allclose(found["variance_mean"], one + two + both, rtol=1e-2)


def test_orders_that_are_not_asked_for_are_a_remainder():
    points = RNG.normal(size=(15, 3))

    def kernel(d):
        return bx.Additive(d, [0.9, 1.2, 1.5], 3, [1.0, 0.5, 0.3], measure=points[:6])

    model = bx.GP(points, points[:, 0] * points[:, 1], kernel=kernel, scale=False)
    every, some = (
        bx.sobol_indices(model, {"sigma": 0.2}, order=order, **QUIET)["sobol_mean"]
        for order in (3, 1)
    )
    assert some["component"].values.tolist() == ["x0", "x1", "x2", "remainder"]
    assert_allclose(some[:3], every[:3], rtol=1e-12)
    assert_allclose(some[3], every[3:].sum(), rtol=1e-9)
    assert_allclose(every.sum(), 1.0, rtol=1e-9)


@pytest.mark.parametrize("approximation", [None, bx.Inducing(X[:6])])
@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
def test_of_labels_they_are_those_of_latent_functions(likelihood, approximation):
    y = np.digitize(Y, [4.5, 5.0] if likelihood == "categorical" else [5.0])
    own = {"likelihood": likelihood, "approximation": approximation, "scale": False}
    model = bx.GP(X, y, kernel=kernel_of(ROWS), **own)
    found = bx.sobol_indices(model, {}, **QUIET)
    grid = np.array([[a, b] for a in ROWS[:, 0] for b in ROWS[:, 1]])
    parts = bx.components(model, {}, grid, keep="summary", **QUIET)
    squares = (parts["component_mean"] ** 2 + parts["component_sd"] ** 2).mean("obs")[:3]
    varying = (found["sobol_mean"] * found["variance_mean"]).transpose(*squares.dims)
    assert_allclose(varying, squares, rtol=1e-7)
    if likelihood == "categorical":
        assert found["total"].dims == ("chain", "draw", "feature", "class")
        assert found["class"].values.tolist() == [0, 1, 2]
        assert_allclose(found["shapley_effect_mean"].sum("feature"), np.ones(3), rtol=1e-9)


@pytest.mark.parametrize("likelihood", ["normal", pytest.param("poisson", marks=pytest.mark.slow)])
def test_through_inducing_points_they_are_those_of_its_components(likelihood):
    """Few inducing points, so that the posterior is not that of the exact model."""
    y = Y if likelihood == "normal" else np.floor(np.exp(X["age"])).astype(int)
    own = {"likelihood": likelihood, "approximation": bx.Inducing(X[:6]), "scale": False}
    model = bx.GP(X, y, kernel=kernel_of(ROWS), **own)
    theta = {"sigma": SIGMA} if likelihood == "normal" else {}
    found = bx.sobol_indices(model, theta, **QUIET)
    grid = np.array([[a, b] for a in ROWS[:, 0] for b in ROWS[:, 1]])
    parts = bx.components(model, theta, grid, keep="summary", **QUIET)
    squares = (parts["component_mean"] ** 2 + parts["component_sd"] ** 2).mean("obs")[:3]
    assert_allclose(found["sobol_mean"] * found["variance_mean"], squares, rtol=1e-7)


def test_what_has_no_indices_is_refused():
    theta = {"lengthscale": LS, "amplitude": 1.0, "sigma": SIGMA}
    with pytest.raises(ValueError, match="not orthogonal"):
        bx.sobol_indices(bx.GP(X, Y), theta, **QUIET)
    with pytest.raises(ValueError, match="not orthogonal"):
        bx.sobol_indices(bx.GP(X, Y, kernel=kernel_of(None)), {"sigma": SIGMA}, **QUIET)
    with pytest.raises(ValueError, match=r"takes kernels by name only. Use bx\.importances"):
        bx.sobol_indices(bx.GP(X, Y, likelihood="heteroscedastic_normal"), {}, **QUIET)
    with pytest.raises(ValueError, match="sobol_indices of a model with constraints"):
        model = bx.GP(X, Y, kernel=kernel_of(ROWS), constraints=[bx.constraints.Increasing("age")])
        bx.sobol_indices(model, {"sigma": SIGMA}, **QUIET)


def test_what_has_no_indices_is_refused_or_warned_of():
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["constant", "b"])
    y = table["b"] + table["constant"]
    theta = {"sigma": 0.5}

    def kernel(measure):
        return lambda d: bx.Additive(d, 1.0, 2, measure=measure)

    of_kind = table.assign(kind=pd.Categorical(["u", "v"] * 10))
    with pytest.raises(ValueError, match=r"\['kind'\] are categories"):
        bx.sobol_indices(bx.GP(of_kind, y, kernel=kernel("gaussian")), theta)
    with pytest.raises(ValueError, match="all rows have 1 in column 0"):
        bx.GP(table, y, kernel=kernel(np.ones((5, 2))))
    far = bx.GP(table, y, kernel=kernel(table.values + [0.0, 100.0]))
    with pytest.warns(bx.ExtrapolationWarning, match="'b' has its mean at 1"):
        bx.sobol_indices(far, theta, progressbar=False)

    def with_constant(d):
        return bx.Additive(d, 1.0, 2, measure="gaussian") + pm.gp.cov.Constant(1.0)

    table.columns = ["constant", "remainder"]
    model = bx.GP(table, y, kernel=with_constant)
    found = bx.sobol_indices(model, theta, order=1, progressbar=False)
    names = found["component"].values.tolist()
    assert names == ["constant", "remainder", "remainder 2"]
    parts = bx.components(model, theta, order=1, progressbar=False)
    assert parts["component"].values.tolist() == [*names, "constant 2"]
