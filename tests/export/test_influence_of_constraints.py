"""How much explanations depend on constraints: densities given functions, and power scaling."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx
from bayes_gpx.model.constraints import Increasing, Slope, Value

QUIET = {"progressbar": False, "seed": 1}
THETA = {"lengthscale": [1.2, 1.4], "amplitude": 1.0, "sigma": 0.5}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 12), "age": rng.uniform(20, 70, 12)})
    y = pd.Series(5 + 0.8 * X["dose"] - 0.05 * X["age"] + rng.normal(0, 1, 12), name="effect")
    return X, y


def test_log_probabilities_are_those_of_what_the_functions_do(table):
    X, y = table
    at, known = X[:3], X[3:5]
    model = bx.GP(
        X, y, constraints=[
            Increasing("dose", at=at, strength=0.3), Value(known, 4.0, 0.7),
            Slope("age", low=-0.1, high=0.05, at=at),
        ],
    )  # fmt: skip
    functions = bx.sample_functions(model, THETA, draws=6, **QUIET)
    found = functions.log_constraints()
    assert found["constraint"].values.tolist() == ["Increasing dose", "Value", "Slope age"]
    slopes = functions.derivatives(at)["derivative"]
    sds = y.std(ddof=0) / X.std(ddof=0)
    rising = norm.logcdf(slopes.sel(feature="dose") / (0.3 * sds["dose"])).sum(axis=-1)
    assert_allclose(found.sel(constraint="Increasing dose"), rising, rtol=1e-7)
    f = functions.predictions(known)["f"]
    assert_allclose(found.sel(constraint="Value"), norm.logpdf(f, 4.0, 0.7).sum(axis=-1), rtol=1e-7)
    age, s = slopes.sel(feature="age").values, 0.01 * sds["age"]
    with np.errstate(divide="ignore"):
        inside = np.log(norm.cdf((0.05 - age) / s) - norm.cdf((-0.1 - age) / s)).sum(axis=-1)
    near = np.isfinite(inside) & (inside > -20)
    assert near.sum() >= 3
    assert_allclose(
        found.sel(constraint="Slope age").values[near], inside[near], rtol=1e-6, atol=1e-12
    )
    assert np.isfinite(found).all()


def test_power_scaling_moves_means_as_a_sharper_constraint_does(table):
    """The derivative of a mean in the power is its covariance with the log density."""
    X, y = table
    new = X[5:6]

    def model(power):
        return bx.GP(X, y, constraints=[Value(new, 12.0, 1.0 / np.sqrt(power))])

    functions = bx.sample_functions(model(1.0), THETA, draws=800, **QUIET)
    tree = bx.influence_tree(functions, functions.predictions(new))
    f = tree["posterior"]["f"].values.ravel()
    terms = tree["log_prior"]["constraints"].values.ravel()
    products = (f - f.mean()) * (terms - terms.mean())
    step, quiet = 0.01, {**QUIET, "keep": "summary"}
    means = [
        bx.predictions(model(1 + s), THETA, new, **quiet)["f_mean"].item() for s in (-step, step)
    ]
    error = 4 * products.std() / np.sqrt(len(f))
    slope = (means[1] - means[0]) / (2 * step)
    assert abs(slope) > 2 * error
    assert abs(products.mean() - slope) < error
    sensitivity = az.psense(tree, var_names=["f"], group_coords={"constraint": "Value"})
    assert sensitivity["f"].item() > 0.05
    summary = az.psense_summary(tree, var_names=["f"])
    assert_allclose(summary["prior"].iloc[0], sensitivity["f"].item(), atol=1e-3)


def test_models_without_constraints_have_no_such_densities(table):
    functions = bx.sample_functions(bx.GP(*table), THETA, draws=3, **QUIET)
    with pytest.raises(ValueError, match="The model has no constraints. Pass them as in GP"):
        functions.log_constraints()
    assert "log_prior" not in bx.influence_tree(functions, functions.predictions()).children
