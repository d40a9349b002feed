"""Probabilities of at most y_i given the other rows are uniform where the model is the truth."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import bayes_gpx as bx

N = 300
RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(-3.0, 3.0, size=(N, 1)), axis=0)
THETA = {"lengthscale": [0.8], "amplitude": 1.0}
F = np.linalg.cholesky(np.exp(-0.5 * ((X - X.T) / 0.8) ** 2) + 1e-9 * np.eye(N)) @ RNG.normal(
    size=N
)
CUTPOINTS = np.array([-1.0, 0.0, 1.5])
RATE, TRIALS = np.exp(F), RNG.integers(1, 12, size=N)


def inflated(counts):
    """Counts of mean exp(f) after a quarter has become 0."""
    return np.where(RNG.uniform(size=N) < 0.25, 0, counts)


OUTER = RATE / 0.75
DRAWN = {
    "normal": (F + 0.3 * RNG.normal(size=N), {"sigma": 0.3}),
    "student_t": (F + 0.3 * RNG.standard_t(3.0, size=N), {"sigma": 0.3, "nu": 3.0}),
    "lognormal": (np.exp(F - 0.125 + 0.5 * RNG.normal(size=N)), {"sigma": 0.5}),
    "gamma": (RNG.gamma(2.0, RATE / 2.0), {"shape": 2.0}),
    "weibull": (RATE / stats.weibull_min(1.5).mean() * RNG.weibull(1.5, size=N), {"shape": 1.5}),
    "loglogistic": (RATE * np.exp(RNG.logistic(size=N) / 2.0), {"shape": 2.0}),
    "beta": (RNG.beta(8.0 * expit(F), 8.0 * expit(-F)), {"precision": 8.0}),
    "poisson": (RNG.poisson(RATE), {}),
    "negative_binomial": (RNG.poisson(RATE * RNG.gamma(2.0, 0.5, N)), {"dispersion": 2.0}),
    "zero_inflated_poisson": (inflated(RNG.poisson(OUTER)), {"inflation": 0.25}),
    "zero_inflated_negative_binomial": (
        inflated(RNG.poisson(OUTER * RNG.gamma(2.0, 0.5, N))),
        {"inflation": 0.25, "dispersion": 2.0},
    ),
    "binomial": (RNG.binomial(TRIALS, expit(F)), {}),
    "ordinal": (np.digitize(F + RNG.logistic(size=N), CUTPOINTS), {"cutpoint": CUTPOINTS}),
    "asymmetric_laplace": (F + 0.3 * RNG.laplace(size=N), {"sigma": 0.15}),
}
QUICK = "normal", "gamma", "negative_binomial"


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in DRAWN]
)
def test_left_out_rows_have_uniform_probabilities(name):
    y, own = DRAWN[name]
    given = {"trials": TRIALS} if name == "binomial" else {}
    model = bx.GP(X, y, likelihood=name, scale=False, **given)
    options = {"seed": 1, "progressbar": False}
    found = bx.loo_predictions(model, THETA | own, **options)
    assert stats.kstest(found["pit"].values, "uniform").pvalue > 0.01
    if own:  # and not by a wrong model
        factor = 0.25 if name == "negative_binomial" else 3.0
        wrong = {key: factor * value for key, value in own.items()}
        found = bx.loo_predictions(model, THETA | wrong, **options)
        assert stats.kstest(found["pit"].values, "uniform").pvalue < 1e-4
