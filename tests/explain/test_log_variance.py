"""The log predictive variance divided among features, against dense algebra and its limits."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.shapley_values import _orders
from bayes_gpx.numerics.coalitions import all_coalitions, coalitions
from oracle import expquad

RNG = np.random.default_rng(11)
X, X_NEW = RNG.normal(size=(15, 3)), RNG.normal(size=(4, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=15)
THETA = {"lengthscale": [0.9, 1.4, 2.0], "amplitude": 1.2, "sigma": 0.2}
QUIET = {"progressbar": False, "baseline": "zero"}
ASKED = QUIET | {"of": "log_variance"}
VERBS = [bx.attributions, bx.shapley_values]


def log_variance(points, noise):
    """Of f at points (m, d) by dense algebra, or of y."""

    def prior(A, B):
        return THETA["amplitude"] ** 2 * expquad(A, B, np.array(THETA["lengthscale"]))

    cross, C = prior(points, X), prior(X, X) + THETA["sigma"] ** 2 * np.eye(len(X))
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(C, cross.T))
    return np.log(THETA["amplitude"] ** 2 - explained + noise)


@pytest.mark.parametrize(("on", "noise"), [("response", 0.04), ("latent", 0.0)])
def test_shares_are_those_of_dense_variances(on, noise):
    model = bx.GP(X, Y, scale=False)
    found, shapley = (verb(model, THETA, X_NEW, on=on, **ASKED) for verb in VERBS)
    step, t = 1e-5, (np.arange(400) + 0.5) / 400
    for k, x in enumerate(X_NEW):
        path = t[:, None] * x
        moved = [path + sign * step * np.eye(3)[:, None] for sign in (1, -1)]
        up, down = (log_variance(p.reshape((-1, 3)), noise).reshape((3, -1)) for p in moved)
        slopes = (up - down) / (2.0 * step)
        # The midpoint rule of 400 steps.
        assert_allclose(found["attribution_mean"][k], x * slopes.mean(axis=1), atol=2e-5)
        among = all_coalitions(((0,), (1,), (2,)))
        values = log_variance(np.where(among.masks, x, 0.0), noise)
        assert_allclose(shapley["attribution_mean"][k], among.shares @ values, atol=1e-9)
    whole = log_variance(X_NEW, noise) - log_variance(np.zeros((1, 3)), noise)
    for one in (found, shapley):
        assert_allclose(one["difference_mean"], whole, atol=1e-8)
        assert one["completeness_residual"].max() < 1e-6
        assert np.isnan(one["attribution_sd"]).all()


@pytest.mark.parametrize("verb", VERBS)
def test_without_data_near_it_only_the_prior_is_left(verb):
    theta = THETA | {"lengthscale": [1.0, 1.0, 1e6]}
    model, far = bx.GP(X, Y, scale=False), np.full((1, 3), 9.0)
    with pytest.warns(bx.ExtrapolationWarning):
        found = verb(model, theta, far, on="latent", **ASKED)
    assert abs(found["attribution_mean"][0, 2]) < 1e-6  # a feature that does nothing
    start = bx.predictions(model, theta, np.zeros((1, 3)), progressbar=False)["f_sd"].item()
    assert_allclose(found["difference_mean"], 2.0 * np.log(1.2 / start), atol=1e-8)


@pytest.mark.parametrize("verb", VERBS)
def test_each_draw_has_its_own_shares(verb):
    model = bx.GP(X, Y)
    idata = model.fit("laplace", draws=20, seed=1, progressbar=False)
    found = verb(model, idata, X_NEW, **ASKED)
    drawn = found["attribution"]
    assert drawn.sizes == {"chain": 1, "draw": 20, "obs": 4, "feature": 3}
    assert_allclose(drawn.mean(("chain", "draw")), found["attribution_mean"])
    assert_allclose(drawn.std(("chain", "draw")), found["attribution_sd"])
    one = {name: idata["posterior"][name].values[0, 7] for name in model.hyperparameters}
    alone = verb(model, one, X_NEW, **ASKED)
    assert_allclose(alone["attribution"][0, 0], drawn[0, 7], atol=1e-7)


@pytest.mark.parametrize("verb", VERBS)
def test_a_new_samples_own_deviation_is_part_of_its_variance(verb):
    model = bx.GPX(X, Y, scale=False)
    theta = THETA | {"sigma_w": 0.5}
    found = verb(model, theta, X_NEW, **ASKED)
    ends = [bx.predictions(model, theta, P, progressbar=False)["y_sd"] for P in (X_NEW, 0 * X_NEW)]
    expected = 2.0 * np.log(ends[0].values / ends[1].values)
    assert_allclose(found["attribution_mean"].sum("feature"), expected, atol=1e-6)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", ["linear", "gpx"])
def test_a_variance_of_zero_is_refused_with_a_baseline_that_works(verb, kind):
    """At the mean of X the f of both models is known for certain, and log(0) is infinite."""
    if kind == "linear":
        model, theta = bx.GP(X, Y, kernel="linear"), {"amplitude": 1.0, "sigma": 0.2}
    else:
        model, theta = bx.GPX(X, Y), THETA | {"sigma_w": 0.3}
    options = {"of": "log_variance", "on": "latent", "progressbar": False}
    with pytest.raises(
        ValueError, match=r"variance of f is 0 at the baseline.*such as row"
    ) as told:
        verb(model, theta, X_NEW, **options)
    row = int(re.search(r"row (\d+) of the training data", str(told.value))[1])
    found = verb(model, theta, X_NEW, baseline=X[row], **options)
    assert np.isfinite(found["attribution_mean"]).all()
    ends = [bx.predictions(model, theta, P, progressbar=False)["f_sd"] for P in (X_NEW, X[[row]])]
    whole = 2.0 * np.log(ends[0].values / ends[1].values)
    assert_allclose(found["attribution_mean"].sum("feature"), whole, atol=1e-6)
    of_y = verb(model, theta, X_NEW, **options | {"on": "response"})
    assert np.isfinite(of_y["attribution_mean"]).all()


def test_random_orders_and_what_is_refused():
    model = bx.GP(X, Y, scale=False)
    options = ASKED | {"method": "permutations", "permutations": 4, "seed": 0}
    found = bx.shapley_values(model, THETA, X_NEW, **options)
    orders = coalitions(((0,), (1,), (2,)), _orders(4, 0))
    points = np.where(orders.masks, X_NEW[:, None], 0.0).reshape((-1, 3))
    values = log_variance(points, THETA["sigma"] ** 2).reshape((4, -1))
    assert_allclose(found["attribution_mean"], values @ orders.shares.T, atol=1e-9)
    assert_allclose(found["attribution_mc_error"], orders.errors(values), atol=1e-9)
    with pytest.raises(ValueError, match="one baseline and 'exact'"):
        bx.attributions(model, THETA, X_NEW, of="log_variance", baseline=X[:2])
    with pytest.raises(ValueError, match="'sd'. Pass one of"):
        bx.attributions(model, THETA, X_NEW, of="sd")
    for likelihood, match in (("bernoulli", "on='latent'"), ("categorical", "no one variance")):
        labels = bx.GP(X, np.digitize(Y, [0.0]), likelihood=likelihood)
        theta = dict.fromkeys(labels.hyperparameters, 1.0)
        with pytest.raises(ValueError, match=match):
            bx.shapley_values(labels, theta, X_NEW, **ASKED)
