"""Coefficients of a GPX in the units that features were given in."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx

QUIET = {"progressbar": False}
THETA = {"lengthscale": [2.0, 2.0], "amplitude": 0.8, "sigma": 0.2, "sigma_w": 0.1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    places = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["east", "north"])
    Z = pd.DataFrame({"rooms": rng.normal(6, 1, 30), "age": rng.normal(40, 15, 30)})
    return places, 100 + 2 * Z["rooms"] - 0.3 * Z["age"] + 0.1 * rng.normal(size=30), Z


@pytest.mark.parametrize("intercept", [True, False])
def test_they_make_up_the_prediction(data, intercept):
    places, y, Z = data
    model = bx.GPX(places, y, Z, intercept=intercept)
    options = {"obs": [0, 3], "draws": 7, "seed": 1, **QUIET}
    found = bx.weights(model, THETA, units="original", covariance=True, **options)
    assert found["feature"].values.tolist() == ["rooms", "age", "intercept"]
    assert found["value"].sel(feature="intercept").values.tolist() == [1.0, 1.0]
    assert found["offset"] == 0 and not found["center"].any()
    if not intercept:  # the plane then goes through the features' means and y's
        around = bx.contributions(model, THETA, **options)
        at_means = (found["weight"] * around["center"]).sum("feature")
        moved = found["weight"].sel(feature="intercept") + at_means
        assert_allclose(moved, around["offset"], rtol=1e-6)
    predicted = bx.predictions(model, THETA, obs=[0, 3], keep="summary", **QUIET)
    mean = (found["weight_mean"] * found["value"]).sum("feature")
    assert_allclose(mean, predicted["f_mean"], rtol=1e-9)
    cov, value = found["weight_cov"].values, found["value"].values
    assert_allclose(np.einsum("oa,oab,ob->o", value, cov, value), predicted["f_sd"] ** 2, rtol=1e-6)
    assert_allclose(np.sqrt(np.einsum("oaa->oa", cov)), found["weight_sd"], rtol=1e-9)


def test_without_variation_over_places_they_are_those_of_least_squares(data):
    places, _, Z = data
    y = 100 + 2 * Z["rooms"] - 0.3 * Z["age"]
    model = bx.GPX(places, y, Z, intercept=True)
    theta = THETA | {"lengthscale": [1e4, 1e4], "amplitude": 10.0, "sigma": 1e-3, "sigma_w": 1e-6}
    found = bx.weights(model, theta, places[:2], units="original", keep="summary", **QUIET)
    assert_allclose(found["weight_mean"], [[2.0, -0.3, 100.0]] * 2, rtol=1e-4)


def test_only_some(data):
    places, y, Z = data
    model = bx.GPX(places, y, Z)
    options = {"units": "original", "obs": [0], "keep": "summary", **QUIET}
    every = bx.weights(model, THETA, **options)
    some = bx.weights(model, THETA, features=["intercept", "age"], **options)
    assert_allclose(some["weight_sd"], every["weight_sd"].sel(feature=["intercept", "age"]))
    with pytest.raises(ValueError, match="units"):
        bx.weights(model, THETA, units="orginal", **QUIET)


def test_their_intervals_are_those_of_one_normal_each(data, tmp_path):
    places, y, Z = data
    model = bx.GPX(places, y, Z)
    asked = {"units": "original", "obs": [0, 1], "draws": 5, "seed": 1, **QUIET}
    found = bx.weights(model, THETA, path=tmp_path / "weights.zarr", **asked)
    half = norm.ppf(0.5 + found.attrs["ci_prob"] / 2) * found["weight_sd"]
    ends = [found["weight_mean"] - half, found["weight_mean"] + half]
    for bound, end in zip(("lower", "upper"), ends, strict=True):
        assert_allclose(found["weight_interval"].sel(ci_bound=bound), end, rtol=1e-7)
    assert_allclose(found["weight"], bx.weights(model, THETA, **asked)["weight"])
