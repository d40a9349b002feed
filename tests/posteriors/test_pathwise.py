"""Functions that are drawn by their coefficients have the posterior's moments."""

import numpy as np
import pytest

import bayes_gpx as bx

RNG = np.random.default_rng(12)
X, NEW = RNG.normal(size=(20, 1)), np.array([[-0.5], [0.4], [1.5]])
Y, DRAWS = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=20), 400
THETA = {"lengthscale": [1.2], "amplitude": 1.1, "sigma": 0.2}


@pytest.mark.parametrize("approximation", [bx.HSGP(8), bx.Inducing(5)])
def test_draws_by_coefficients_have_the_posterior_moments(approximation):
    model = bx.GP(X, Y, approximation=approximation, scale=False)
    functions = bx.sample_functions(model, THETA, draws=DRAWS, seed=1, progressbar=False)
    f = functions.predictions(NEW)["f"].values.reshape((DRAWS, 3))
    found = bx.predictions(model, THETA, NEW, keep="summary", progressbar=False)
    mean, sd = found["f_mean"].values, found["f_sd"].values
    assert (abs(f.mean(axis=0) - mean) < 5 * sd / np.sqrt(DRAWS)).all()
    assert (abs(f.std(axis=0) - sd) < 5 * sd / np.sqrt(2 * DRAWS)).all()
