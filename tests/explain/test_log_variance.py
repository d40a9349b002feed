"""The log predictive variance divided among features, against dense algebra and its limits."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

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
    with pytest.raises(ValueError, match="method is 'simpson'.*Leave method and steps out"):
        bx.attributions(model, THETA, X_NEW, of="log_variance", method="simpson", steps=4)
    with pytest.raises(ValueError, match="'sd'. Pass one of"):
        bx.attributions(model, THETA, X_NEW, of="sd")
    heavy = bx.GP(X, Y, likelihood="student_t")
    with pytest.raises(ValueError, match="variance of y is infinite with .*'nu': 1.5.*'latent'"):
        bx.attributions(heavy, THETA | {"nu": 1.5}, X_NEW, **ASKED)


def of_counts(f, excess=0.0):
    return np.exp(f), np.exp(f) + excess * np.exp(2 * f)


def of_labels(p):
    return p, p * (1 - p)


A, NU = 1.8, 5.0
RESPONSES = {
    "logit": ({"likelihood": "bernoulli"}, {}, lambda f: of_labels(expit(f))),
    "probit": ({"likelihood": "bernoulli", "link": "probit"}, {}, lambda f: of_labels(ndtr(f))),
    "poisson": ({"likelihood": "poisson"}, {}, of_counts),
    "negative_binomial": (
        {"likelihood": "negative_binomial"},
        {"dispersion": A},
        lambda f: of_counts(f, 1 / A),
    ),
    "student_t": (
        {"likelihood": "student_t"},
        {"sigma": 0.2, "nu": NU},
        lambda f: (f, 0.04 * NU / (NU - 2)),
    ),
    "classes": ({"likelihood": "categorical"}, {}, None),
}
"""Options of a model, its hyperparameters, and from f to the mean and the variance of y."""


def posed(kind):
    """A model, its hyperparameters, and a function from rows to the log variance of y."""
    options, own, of_f = RESPONSES[kind]
    counts = np.random.default_rng(3).poisson(np.exp(Y + 1))
    y = {"logit": Y > 0, "probit": Y > 0, "student_t": Y, "classes": np.digitize(Y, [-0.5, 0.5])}
    model = bx.GP(X, y.get(kind, counts), scale=kind not in ("student_t", "classes"), **options)
    theta = {name: THETA[name] for name in ("lengthscale", "amplitude")} | own
    z = np.linspace(-14, 14, 1401)
    weights = np.exp(-(z**2) / 2)
    weights /= weights.sum()

    def of_y(points):
        asked = {"keep": "summary", "draws": 2, "seed": 0, "progressbar": False}
        if of_f is None:
            p = bx.predictions(model, theta, points, **asked)["probability_mean"].values
            return np.log(p * (1 - p))
        found = bx.predictions(model, theta, points, on="latent", **asked)
        f = found["f_mean"].values[:, None] + found["f_sd"].values[:, None] * z
        mean, variance = of_f(f)
        average = (mean @ weights)[:, None]
        return np.log((variance + (mean - average) ** 2) @ weights)

    return model, theta, of_y


@pytest.mark.parametrize("kind", RESPONSES)
def test_the_variance_of_any_response_is_divided(kind):
    """By the law of total variance, along the path and at coalitions."""
    model, theta, of_y = posed(kind)
    rows = X_NEW[:2]
    found, shapley = (verb(model, theta, rows, **ASKED) for verb in VERBS)
    classes = ["class"] if kind == "classes" else []
    assert found["attribution_mean"].dims == ("obs", "feature", *classes)
    step, t = 1e-4, (np.arange(200) + 0.5) / 200
    mask = all_coalitions(((0,), (1,), (2,)))
    for k, x in enumerate(rows):
        path = t[:, None] * x
        moved = np.stack([path + sign * step * np.eye(3)[:, None] for sign in (1, -1)])
        ends = of_y(moved.reshape((-1, 3)))
        up, down = ends.reshape((2, 3, len(t), *ends.shape[1:]))
        slopes = ((up - down) / (2.0 * step)).mean(axis=1)
        expected = (x * slopes.T).T
        size = np.abs(expected).max()
        assert_allclose(found["attribution_mean"][k], expected, atol=1e-4 * size)
        values = of_y(np.where(mask.masks, x, 0.0))
        assert_allclose(shapley["attribution_mean"][k], mask.shares @ values, atol=1e-6 * size)
    whole = of_y(rows) - of_y(np.zeros((1, 3)))
    for one in (found, shapley):
        assert_allclose(one["difference_mean"], whole, atol=1e-7)
        assert one["completeness_residual"].max() < 1e-6
        assert one.attrs["units"].startswith("log of the variance of")


@pytest.mark.parametrize("kind", ["poisson", "negative_binomial"])
def test_draws_of_counts_have_this_variance(kind):
    model, theta, _ = posed(kind)
    found = bx.attributions(model, theta, X_NEW[:1], **ASKED)["difference_mean"].item()
    ends, draws = np.vstack([X_NEW[:1], np.zeros((1, 3))]), 40_000
    drawn = bx.predictions(model, theta, ends, draws=draws, seed=2, progressbar=False)["y"][0]
    moved = np.log(drawn.var("draw"))
    fourth = ((drawn - drawn.mean("draw")) ** 4).mean("draw") / drawn.var("draw") ** 2
    error = np.sqrt(((fourth - 1) / draws).sum().item())
    assert abs(found - (moved[0] - moved[1]).item()) < 4 * error


def test_the_variance_of_a_class_alone_is_that_of_its_f():
    model, theta, _ = posed("classes")
    found = bx.attributions(model, theta, X_NEW, on="latent", **ASKED)
    asked = {"on": "latent", "keep": "summary", "progressbar": False}
    ends = [bx.predictions(model, theta, P, **asked)["f_sd"].values for P in (X_NEW, 0 * X_NEW)]
    total = found["attribution_mean"].sum("feature").transpose("obs", "class")
    assert_allclose(total, 2 * np.log(ends[0] / ends[1]), atol=1e-6)


def test_several_baselines_are_averaged():
    """Rows of a baseline count equally: the result is the mean of those against each."""
    model, baselines = bx.GP(X, Y, scale=False), {k: X[k] for k in range(3)}
    options = {"of": "log_variance", "progressbar": False}
    found = bx.attributions(model, THETA, X_NEW, baseline=X[:3], **options)
    each = bx.attributions(model, THETA, X_NEW, baseline=baselines, **options)
    for name in ("attribution_mean", "difference_mean"):
        assert_allclose(found[name], each[name].mean("baseline"), rtol=1e-10)
