"""PyTensor's default backend, whose compilation takes a minute on a cold machine."""

import os
import subprocess
import sys

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import KFold, train_test_split

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401

pytestmark = pytest.mark.slow


def test_density_and_gradient_agree_across_backends(regression):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, kernel="matern52 + linear").pymc
    density = Density(model, jacobian=True)
    x = density.unconstrain({}) + 0.2
    value, slope = density.value_and_slope()(x)
    numba = model.logp_dlogp_function(ravel_inputs=True, mode="NUMBA")
    found, gradient = numba(x)
    assert_allclose(found, value, rtol=1e-12)
    assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"approximation": bx.Inducing(8)},
        {"approximation": bx.HSGP(4)},
        {"approximation": bx.RandomFeatures(10)},
        {"likelihood": "student_t"},
    ],
    ids=lambda options: str(next(iter(options.values()), "exact")),
)
def test_machine_code_of_every_model_gives_the_same_density(family, options):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    model = family(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=40), **options)
    found = []
    for long_run in (False, True):
        density = Density(model.objective, jacobian=True, long_run=long_run)
        assert density.native is long_run
        x = density.unconstrain({}) + 0.2
        value, slope = density.value_and_slope()(x)
        found.append([value, *slope])
    assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-8)


def test_compiling_anew_changes_no_digit(tmp_path):
    script = """
import sys, numpy as np, bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
X = np.random.default_rng(1).normal(size=(60, 3))
for likelihood, y in (("normal", X[:, 0] * X[:, 1]), ("bernoulli", X[:, 0] > X[:, 1])):
    model = bx.GP(X, y, likelihood=likelihood)
    density = Density(model.objective, jacobian=True, long_run=True)
    value, slope = density.value_and_slope()(density.unconstrain({}))
    print(repr(value), slope.tolist())
    kept = sum(density._value_and_slope.vm.jit_fn.stats.cache_hits.values())
    print("kept", kept, file=sys.stderr)
"""
    flags = f"base_compiledir={tmp_path},{os.environ.get('PYTENSOR_FLAGS', '')}".strip(",")
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTENSOR_FLAGS": flags},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    assert len(runs[0].stdout.splitlines()) == 2
    assert runs[0].stdout == runs[1].stdout
    assert [run.stderr.count("kept 1") for run in runs] == [0, 2]


def test_pymcs_default_sampler_takes_the_model(regression):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y)
    idata = pm.sample(
        20, tune=20, chains=2, cores=1, model=model.pymc, random_seed=1, progressbar=False
    )
    assert bx.predictions(model, idata, X_new, seed=1)["f"].shape == (2, 20, 4)


def test_diabetes_is_fitted_as_published():
    """Table 1 of Yoshikawa and Iwata: mean squared error .493 (GPX) and .490 (GP), five folds."""
    X, y = load_diabetes(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    for family, published in ((bx.GPX, 0.493), (bx.GP, 0.490)):
        errors = []
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            model = family(X[train], y[train], ard=False, scale=False)
            idata = model.fit("map", progressbar=False)
            found = bx.predictions(model, idata, X[test], keep="summary", progressbar=False)
            errors.append(np.mean((found["f_mean"].values - y[test]) ** 2))
        assert abs(np.mean(errors) - published) < 0.006


def test_digits_do_not_collapse_to_the_mean():
    """Yoshikawa and Iwata report 0.078 over five splits; a fit at the mean of y has 1.0."""
    X, digit = load_digits(return_X_y=True)
    low, high = X.min(axis=1, keepdims=True), X.max(axis=1, keepdims=True)
    X, y = (X - low) / (high - low), np.where(digit >= 5, 1.0, -1.0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    model = bx.GPX(X, y, ard=False, scale=False)
    idata = model.fit("map", progressbar=False)
    found = bx.predictions(model, idata, X_test, keep="summary", progressbar=False)
    assert np.mean((found["f_mean"].values - y_test) ** 2) <= 0.08
