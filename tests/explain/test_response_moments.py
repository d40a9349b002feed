"""Mean and sd of the response, under one name whatever the likelihood."""

import warnings

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx

RNG = np.random.default_rng(5)
N = 15
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0])
RESPONSES = {
    "normal": (10.0 + 3.0 * F + RNG.normal(size=N), {"sigma": 0.4}, "y"),
    "student_t": (10.0 + 3.0 * F + RNG.normal(size=N), {"sigma": 0.4, "nu": 5.0}, "y"),
    "bernoulli": (F > 0, {}, "probability"),
    "poisson": (RNG.poisson(np.exp(F + 1.0)), {}, "rate"),
    "categorical": (np.digitize(F, [-0.5, 0.5]), {}, "probability"),
}
DRAWS = 4000


@pytest.mark.parametrize("likelihood", RESPONSES)
@pytest.mark.parametrize("verb", [bx.predictions, bx.loo_predictions])
def test_they_are_those_of_the_responses_that_are_drawn(likelihood, verb):
    y, noise, name = RESPONSES[likelihood]
    theta = {"lengthscale": [0.9, 1.5], "amplitude": 0.9} | noise
    options = {"draws": DRAWS} if verb is bx.predictions else {}
    found = verb(bx.GP(X, y, likelihood=likelihood), theta, seed=1, progressbar=False, **options)
    assert found["response_mean"].dims == found[f"{name}_mean"].dims
    drawn = found["y"].values[0]
    if likelihood == "categorical":
        drawn = drawn[..., None] == np.arange(3)
    errors = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - found["response_mean"].values) < 5 * errors + 1e-3).all()
    if name == "y":
        # Tails of Student's t with 5 degrees of freedom make sds of so few draws uncertain.
        assert_allclose(drawn.std(axis=0), found["response_sd"], rtol=0.25)
    else:
        assert_allclose(found["response_sd"], found[f"{name}_sd"])


def test_they_are_not_repeated_in_tables_nor_said_of_latent_values():
    y = RESPONSES["bernoulli"][0]
    model, theta = (
        bx.GP(X, y, likelihood="bernoulli"),
        {"lengthscale": [1.0, 1.0], "amplitude": 1.0},
    )
    options = {"draws": 10, "seed": 1, "progressbar": False}
    frame = bx.to_pandas(bx.predictions(model, theta, **options))
    assert "probability_mean" in frame and "response_mean" not in frame
    assert "response_mean" not in bx.predictions(model, theta, on="latent", **options)


def test_they_are_streamed_too(tmp_path):
    y, noise, _ = RESPONSES["normal"]
    theta = {"lengthscale": [0.9, 1.5], "amplitude": 0.9} | noise
    options = {"draws": 10, "seed": 1, "progressbar": False}
    bx.predictions(bx.GP(X, y), theta, path=tmp_path / "kept.zarr", **options)
    with xr.open_zarr(tmp_path / "kept.zarr") as kept:
        assert_allclose(kept["response_sd"], kept["y_sd"])


@pytest.mark.parametrize("exposure", [1.0, 20.0])
def test_mean_rates_far_above_all_counts_are_named(exposure):
    """A GPX with z = x = 9 has f of variance (9 * 0.8)^2 there: its mean rate is above exp(20)."""
    exposures = np.full(N, exposure)
    y = RNG.poisson(exposures * np.exp(0.5 * F))
    model = bx.GPX(X, y, likelihood="poisson", exposure=exposures, scale=False)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 0.8, "sigma_w": 0.1}
    rows = np.array([[0.1, 0.2], [9.0, 0.0], [0.3, -0.1]])
    options = {"exposure": np.full(3, 5.0), "seed": 1, "progressbar": False}
    said = r"of 1 of 3 rows \(first 1\) is more than 10 times the largest rate .*: up to \d"
    with pytest.warns(UserWarning, match=said):
        found = bx.predictions(model, theta, rows, **options)
    rate = found["rate_mean"] / 5.0
    assert rate[1] > np.exp(20.0) and found["rate_interval"][1, 1] / 5.0 < rate[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bx.predictions(model, theta, rows[[0, 2]], **{**options, "exposure": np.full(2, 5.0)})
