"""Intervals of counts, probabilities and their slopes hold the truth as often as they say."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

pytestmark = pytest.mark.slow
QUIET = {"progressbar": False}
THETA = {"lengthscale": [1.0], "amplitude": 1.2}


def share_inside(drawn, truth):
    low, high = drawn.quantile([0.05, 0.95], ["chain", "draw"]).values
    return ((low <= truth) & (truth <= high)).mean()


def functions(rng, x):
    """A function of the prior and its slope, at rows x, by random waves."""
    rates, phase = rng.normal(size=200), rng.uniform(0, 2 * np.pi, 200)
    weights = THETA["amplitude"] * np.sqrt(2 / 200) * rng.normal(size=200)
    return np.cos(x * rates + phase) @ weights, -np.sin(x * rates + phase) * rates @ weights


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_intervals_of_simulated_counts(likelihood):
    rng, shares = np.random.default_rng(3), []
    for seed in range(8):
        x = rng.uniform(-3, 3, (140, 1))
        rate = np.exp(2.5 + functions(rng, x)[0])
        scatter = rng.gamma(3, 1 / 3, 140) if likelihood == "negative_binomial" else 1.0
        y = rng.poisson(rate * scatter)
        model = bx.GP(x[:80], y[:80], likelihood=likelihood)
        idata = model.fit("laplace", draws=99, seed=seed, **QUIET)
        found = bx.predictions(model, idata, x[80:], seed=seed, **QUIET)
        shares.append(share_inside(found["y"], y[80:]))
    assert 0.85 < np.mean(shares) < 0.95


def test_probabilities_and_their_slopes_are_recovered():
    """At known hyperparameters, over functions of the prior."""
    rng, p_in, slope_in = np.random.default_rng(5), [], []
    for seed in range(60):
        x = rng.uniform(-3, 3, (104, 1))
        f, slope = functions(rng, x)
        p = expit(f)
        y = (rng.random(100) < p[:100]).astype(int)
        model = bx.GP(x[:100], y, likelihood="bernoulli", scale=False)
        options = {"draws": 400, "seed": seed, **QUIET}
        found = bx.predictions(model, THETA, x[100:], **options)
        p_in.append(share_inside(found["probability"], p[100:]))
        found = bx.derivatives(model, THETA, x[100:], **options)
        truth = (p * (1 - p) * slope)[100:, None]
        slope_in.append(share_inside(found["derivative"], truth))
    for shares in (p_in, slope_in):
        assert abs(np.mean(shares) - 0.9) < 3 * np.std(shares) / np.sqrt(60) + 0.02


def test_tumours_are_told_apart_as_well_as_by_scikit_learn():
    data = bx.datasets.load("breast_cancer")
    X, X_test, y, y_test = train_test_split(
        data.X, data.y, test_size=114, random_state=0, stratify=data.y
    )
    mean, sd = X.mean(), X.std(ddof=0)
    X, X_test = (X - mean) / sd, (X_test - mean) / sd
    model = bx.GP(X, y, likelihood="bernoulli", ard=False, scale=False)
    idata = model.fit("map", **QUIET)
    kernel = ConstantKernel(1.0) * RBF(5.0)
    peer = GaussianProcessClassifier(kernel).fit(X, y)
    own = bx.predictions(model, idata, X_test, draws=2, keep="summary", **QUIET)
    second = (y_test == own.attrs["labels"][1]).values
    both = [own["probability_mean"].values, peer.predict_proba(X_test)[:, 1]]
    right = [np.where(second, p, 1 - p) for p in both]
    accuracy, density = ([f(r) for r in right] for f in ((lambda r: (r > 0.5).mean()), _density))
    assert accuracy[0] >= accuracy[1] - 0.01
    assert density[0] >= density[1] - 0.01


def _density(right):
    return np.log(right).mean()


@pytest.mark.data
def test_intervals_of_bike_rentals():
    """Of the negative binomial distribution: a Poisson rate's are too short for these."""
    data = bx.datasets.load("bike")
    rows = np.random.default_rng(0).permutation(len(data.y))
    X, y = data.X.iloc[rows], pd.Series(data.y.iloc[rows])
    model = bx.GP(X[:500], y[:500], likelihood="negative_binomial")
    idata = model.fit("map", **QUIET)
    found = bx.predictions(model, idata, X[500:], draws=500, seed=0, **QUIET)
    assert 0.85 < share_inside(found["y"], y[500:].values) < 0.95
