"""Constraints with basis functions: in the limit of many of them, the exact process."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

import bayes_gpx as bx
from bayes_gpx.draws.constraints_met import constraints_met
from bayes_gpx.draws.left_out_together import densities_of_groups
from bayes_gpx.draws.truncated import with_truncated
from bayes_gpx.model.constraints import Increasing, Slope, Value, Weight
from bayes_gpx.numerics.compile_modes import MODE
from known_draws import tree_of

QUIET = {"progressbar": False, "seed": 1}
THETA = {"lengthscale": [1.3], "amplitude": 1.1, "sigma": 0.5}
MANY = bx.HSGP(40, 5.0)
"""So many that covariances are those of the kernel to six digits or more."""


@pytest.fixture(scope="module")
def models():
    """The exact model, and that of basis functions, with values, slopes and bounds."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 9)})
    y = pd.Series(0.4 * X["dose"] + rng.normal(0, 1, 9), name="effect")
    constraints = [
        Value(X[:1] + 0.5, 4.0, 0.5), Increasing("dose", at=3), Slope("dose", low=-0.2, high=0.5),
        Slope("dose", mean=0.4, sd=0.2, at=1),
    ]  # fmt: skip
    return [bx.GP(X, y, constraints=constraints, approximation=a) for a in (None, MANY)]


def test_posteriors_are_those_of_the_exact_process(models):
    new = pd.DataFrame({"dose": [0.5, 4.0, 9.0]})
    options = {**QUIET, "keep": "summary"}
    f = [bx.predictions(m, THETA, new, **options) for m in models]
    slopes = [bx.derivatives(m, THETA, new, **options) for m in models]
    for name, (one, other) in {"f": f, "derivative": slopes}.items():
        for moment in ("mean", "sd"):
            assert_allclose(one[f"{name}_{moment}"], other[f"{name}_{moment}"], rtol=1e-5)
    one, other = (constraints_met(m, THETA, progressbar=False) for m in models)
    for name, values in one.data_vars.items():
        assert_allclose(other[name], values, rtol=1e-4, atol=1e-8, err_msg=name)


def test_rows_are_left_out_as_by_the_exact_process(models):
    one, other = (bx.log_likelihood(m, THETA, progressbar=False) for m in models)
    for name in ("log_likelihood", "log_marginal_likelihood"):
        assert_allclose(other[name], one[name], rtol=1e-5)
    groups = np.array([0, 0, 1, 1, 2, 2, 2, 3, 3])
    one, other = (densities_of_groups(m, THETA, groups, progressbar=False) for m in models)
    assert_allclose(other, one, rtol=1e-4)


def test_hyperparameters_have_the_density_of_the_exact_process(models):
    found = []
    for model in models:
        pymc = model.pymc
        point = np.concatenate([np.ravel(np.log(THETA[rv.name])) for rv in pymc.free_RVs])
        logp = pymc.logp(vars=[pymc["y"], pymc["constraints"]])
        slopes = pytensor.grad(logp, pymc.value_vars)
        function = pytensor.function(pymc.value_vars, [logp, *slopes], mode=MODE)

        def at(x, function=function, pymc=pymc):
            parts = [x[:1], *x[1:]] if pymc.value_vars[0].ndim else [*x]
            return [np.ravel(v) for v in function(*parts)]

        height, *slopes = at(point)
        numeric = approx_fprime(point, lambda x, at=at: at(x)[0].item(), 1e-6)
        assert_allclose(np.concatenate(slopes), numeric, rtol=1e-3, atol=1e-4)
        found.append(height.item())
    assert_allclose(found[1], found[0], rtol=1e-6)


def test_samples_between_bounds_are_those_of_the_exact_process(models):
    one, other = (with_truncated(m, tree_of(THETA), draws=50, **QUIET) for m in models)
    own = [tree["posterior"]["constrained"].values for tree in (one, other)]
    assert_allclose(own[1], own[0], rtol=1e-2, atol=1e-2)  # the same random numbers
    new = pd.DataFrame({"dose": [0.5, 4.0, 9.0]})
    means = [bx.predictions(m, one, new, **QUIET)["f_mean"] for m in models]
    assert_allclose(means[1], means[0], rtol=1e-4)


def test_y_is_drawn_and_functions_too_given_constraints():
    X = pd.DataFrame({"dose": np.linspace(0, 10, 6)})
    y = pd.Series(0.4 * X["dose"], name="effect")
    model = bx.GP(
        X, y, constraints=[Value(X[:1], 9.0, 1e-2)], approximation=MANY,
        priors={"sigma": 0.01, "lengthscale": [1.3], "amplitude": 1.0},
    )  # fmt: skip
    drawn = pm.draw(model.pymc["y"], 400, random_seed=1, mode=MODE)
    sd = np.hypot(0.01 * y.std(ddof=0), 1e-2)
    assert abs(drawn[:, 0].mean() - 9.0) < 4 * sd / np.sqrt(400)
    assert_allclose(drawn[:, 0].std(), sd, rtol=4 / np.sqrt(800))
    functions = bx.sample_functions(model, {}, draws=200, **QUIET)
    f, exact = functions.predictions(X)["f"].values[0], bx.predictions(model, {}, X, **QUIET)
    spread = exact["f_sd"].values
    assert (np.abs(f.mean(axis=0) - exact["f_mean"].values) < 4.5 * spread / np.sqrt(200)).all()


def test_weights_are_those_of_the_exact_process(rng):
    X = pd.DataFrame({"a": rng.uniform(0, 1, 9)})
    Z = pd.DataFrame({"b": rng.normal(size=9), "c": rng.normal(size=9)})
    y = pd.Series(X["a"] * Z["b"] + rng.normal(0, 0.2, 9), name="y")
    at = X[:3].assign(**Z[:3])
    constraints = [Weight("b", low=0.0, at=at), Slope("a", mean=0.3, sd=0.2, at=at)]
    models = [bx.GPX(X, y, Z, constraints=constraints, approximation=a) for a in (None, MANY)]
    theta = {"lengthscale": [1.3], "amplitude": 1.1, "sigma": 0.5, "sigma_w": 0.3}
    for smooth in (True, False):
        one, other = (bx.weights(m, theta, smooth=smooth, **QUIET) for m in models)
        for moment in ("weight_mean", "weight_sd"):
            assert_allclose(other[moment], one[moment], rtol=1e-5)
