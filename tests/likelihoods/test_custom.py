"""A likelihood from a distribution of PyMC: the numbers of the package's own, and its faults."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

import bayes_gpx as bx
from bayes_gpx.explain.sensitivities import change
from bayes_gpx.likelihoods import custom, named
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.testing import check_likelihood

QUIET = {"progressbar": False}
exp = pm.math.exp


def exposed_mean(f, exposure):
    return exposure * exp(f)


def gamma(f, exposure, shape):
    return pm.Gamma.dist(alpha=shape, beta=shape * exp(-f) / exposure)


COUNTS = custom(lambda f, e: pm.Poisson.dist(e * exp(f)), mean=exposed_mean, support="counts")
GAMMA = custom(
    gamma, mean=exposed_mean, priors={"shape": pm.Gamma.dist(2.0, 0.5)}, support="positive"
)
NOISY = custom(
    lambda f, e, noise: pm.Normal.dist(f, noise),
    mean=lambda f, e: f,
    priors={"noise": pm.HalfNormal.dist(1.0)},
)
THETA = {"lengthscale": [1.0, 1.4], "amplitude": 1.0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X, exposure = rng.normal(size=(16, 2)), np.linspace(1.0, 2.0, 16)
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    return X, exposure, rng.poisson(20.0 * exposure * np.exp(f)), rng.gamma(4.0, np.exp(f) / 4.0)


def renamed(found):
    """Arrays by the name that any likelihood has."""
    return {name.replace("rate", "mean"): v.values for name, v in found.data_vars.items()}


@pytest.mark.parametrize(
    "asked",
    [
        lambda model: bx.predictions(model, THETA, seed=1, draws=5, **QUIET),
        lambda model: bx.attributions(model, THETA, obs=[0, 3], seed=1, draws=5, **QUIET),
        lambda model: bx.loo_predictions(model, THETA, seed=1, **QUIET)[["elpd", "residual"]],
    ],
)
def test_it_has_the_numbers_of_poisson(data, asked):
    X, exposure, counts, _ = data
    known, own = (
        renamed(asked(bx.GP(X, counts, likelihood=likelihood, exposure=exposure)))
        for likelihood in ("poisson", COUNTS)
    )
    moments = [n for n in known if n.endswith(("f_mean", "f_sd", "mean_mean", "tion_mean", "elpd"))]
    assert set(known) == set(own) and moments
    for name in moments:
        assert_allclose(own[name], known[name], rtol=1e-8, err_msg=name)


def test_it_has_the_density_of_poisson(data):
    X, exposure, counts, _ = data
    found = []
    for likelihood in ("poisson", COUNTS):
        objective = bx.GP(X, counts, likelihood=likelihood, exposure=exposure).objective
        point = objective.initial_point()
        value, slope = (
            make(mode=MODE)(point) for make in (objective.compile_logp, objective.compile_dlogp)
        )
        found.append([value, *slope])
    assert_allclose(*found, rtol=1e-8)


def test_its_mode_is_that_of_a_dense_search(data):
    X, _, _, y = data
    model = bx.GP(X, y, likelihood=GAMMA, scale=False)
    theta = THETA | {"shape": 3.0}
    found = bx.predictions(model, theta, on="latent", **QUIET)
    apart = ((X[:, None] - X[None]) / THETA["lengthscale"]) ** 2
    K = np.exp(-0.5 * apart.sum(axis=2)) + 1e-9 * np.eye(len(y))
    L = np.linalg.cholesky(K)

    def height(v):
        return 0.5 * v @ v - stats.gamma.logpdf(y, 3.0, scale=np.exp(L @ v) / 3.0).sum()

    mode = L @ optimize.minimize(height, np.zeros(len(y)), method="BFGS", tol=1e-9).x
    assert_allclose(found["f_mean"], mode, atol=1e-4)
    W = 3.0 * y * np.exp(-mode)
    assert_allclose(found["f_sd"], np.sqrt(np.diag(np.linalg.inv(np.linalg.inv(K) + np.diag(W)))),
                    rtol=1e-3)  # fmt: skip


@pytest.mark.slow
def test_the_check_passes_and_names_faults():
    check_likelihood(COUNTS, [0.0, 1.0, 7.0])
    check_likelihood(GAMMA, [0.2, 1.0, 4.0], {"shape": 3.0})
    priors = {"shape": pm.Gamma.dist(2.0, 0.5)}
    other = custom(gamma, mean=lambda f, e: 1.1 * e * exp(f), priors=priors, support="positive")
    with pytest.raises(AssertionError, match="mean of draws of y"):
        check_likelihood(other, [0.2, 1.0], {"shape": 3.0})
    wide = custom(lambda f, e: pm.Gamma.dist(alpha=3.0 + 0.0 * f, beta=3.0 * pm.math.log(f)),
                  mean=exposed_mean, support="positive")  # fmt: skip
    with pytest.raises(AssertionError, match="Derivative 1|not finite"):
        check_likelihood(wide, [0.2, 1.0])


def test_it_finds_out_what_is_concave_and_exposed():
    heavy = custom(
        lambda f, e, sigma: pm.StudentT.dist(nu=4.0, mu=f, sigma=sigma),
        mean=lambda f, e: f,
        priors={"sigma": lambda name: pm.HalfNormal(name, 1.0)},
    )
    assert (COUNTS.concave, GAMMA.concave, heavy.concave) == (True, True, False)
    assert (COUNTS.exposed, GAMMA.exposed, heavy.exposed) == (True, True, False)
    information = pm.draw(heavy.fisher(np.array([0.0, 3.0]), {"sigma": 2.0}), mode=MODE)
    assert_allclose(information, 5.0 / 7.0 / 4.0, rtol=1e-6)  # of Student's t
    with pytest.raises(ValueError, match=r"exposure was given.*one of your own"):
        bx.GP(np.eye(3), [0.1, 0.2, 0.5], likelihood=heavy, exposure=np.ones(3))


def test_its_information_by_sums_is_that_in_closed_form():
    f = np.array([-2.0, 0.3, 2.0])
    for name, theta in (
        ("gamma", {"shape": 3.0}),
        ("lognormal", {"sigma": 0.3}),
        ("weibull", {"shape": 2.0}),
        ("beta", {"precision": 30.0}),
        ("zero_inflated_poisson", {"inflation": 0.3}),
        ("zero_inflated_negative_binomial", {"inflation": 0.3, "dispersion": 2.0}),
    ):
        closed = named(name)
        base = next(c for c in type(closed).__mro__ if c.__name__ == "Derived")
        at = pt.as_tensor(f)
        found = pm.draw([base.fisher(closed, at, theta), closed.fisher(at, theta)], mode=MODE)
        assert_allclose(found[0], found[1], rtol=1e-6, err_msg=name)
        variance = base.variance(closed, f, theta)
        assert_allclose(variance, closed.variance(f, theta), rtol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def noisy():
    """Models with normal noise, of the package and of PyMC, each with hyperparameters."""
    rng = np.random.default_rng(1)
    columns = {"a": rng.normal(size=20), "b": rng.normal(size=20)}
    columns |= {"c": rng.choice(list("xyz"), 20), "d": rng.choice(list("uv"), 20)}
    X = pd.DataFrame(columns).astype({"c": "category", "d": "category"})
    y = np.sin(X["a"]) + 0.5 * X["b"] + 0.3 * rng.normal(size=20) + (X["c"] == "x")
    theta = {"lengthscale": np.linspace(0.8, 2.0, 7), "amplitude": 1.0}
    return (
        (bx.GP(X, y, scale=False), theta | {"sigma": 0.3}),
        (bx.GP(X, y, scale=False, likelihood=NOISY), theta | {"noise": 0.3}),
    )


@pytest.mark.parametrize("options", [{}, {"over": "mixture"}, {"method": "finite_difference"}])
def test_relevance_is_that_of_normal_noise(noisy, options):
    known, own = (
        bx.relevance(model, theta, obs=[0, 3, 5, 8], **options, **QUIET)["relevance"]
        for model, theta in noisy
    )
    assert_allclose(own, known, rtol=1e-12 if "method" not in options else 1e-9)


def test_interactions_are_those_of_normal_noise(noisy):
    known, own = (bx.interactions(*one, obs=[0, 7], **QUIET)["interaction"] for one in noisy)
    assert_allclose(own, known, rtol=1e-12)


def test_relevance_of_counts_is_the_information_of_their_predictive_distribution():
    """The mixture of Poisson distributions itself; "poisson" takes its mean alone."""
    mean = lambda x: 0.9 + 0.6 * x + 0.1 * x**2  # noqa: E731
    variance = lambda x: 0.3 + 0.2 * x  # noqa: E731
    y, z = np.arange(150), np.linspace(-9.0, 9.0, 2001)

    def log_p(x):
        rate = np.exp(mean(x) + np.sqrt(variance(x)) * z)
        return np.log(stats.poisson.pmf(y[:, None], rate) @ stats.norm.pdf(z) * (z[1] - z[0]))

    x, h = 0.4, 1e-3
    slope = (log_p(x + h) - log_p(x - h)) / (2.0 * h)
    rate = [jet(mean, x), jet(variance, x)]
    found = COUNTS.predictive(*rate, {})
    first = change(COUNTS.parameters(found))[0].item()
    assert_allclose(first, np.sqrt(np.exp(log_p(x)) @ slope**2), rtol=1e-5)
    for further in (0.8, 3.0, -0.9):  # near, and far away
        there = COUNTS.predictive(jet(mean, further), jet(variance, further), {})
        p, q = log_p(x), log_p(further)
        assert_allclose(COUNTS.divergence(found, there), np.exp(p) @ (p - q), rtol=1e-5)
    assert COUNTS.divergence(found, found) == 0.0


def test_interactions_with_a_category_count_both_moments_of_f():
    """The moments differ in their slopes, and their information is not diagonal."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=14), "c": pd.Categorical(list("uv") * 7)})
    model = bx.GP(X, rng.poisson(np.exp(0.5 + X["a"])), likelihood=COUNTS, scale=False)
    theta = {"lengthscale": [0.8, 1.2, 1.2], "amplitude": 1.0}
    found = bx.interactions(model, theta, X[:1], **QUIET)["interaction"]
    h, ends = 1e-4, {}
    for level in "uv":
        rows = pd.concat([X[:1].assign(a=X["a"][0] + s * h, c=level) for s in (0, 1, -1)])
        rows = rows.astype({"c": X["c"].dtype}).reset_index(drop=True)
        f = bx.predictions(model, theta, rows, on="latent", keep="summary", **QUIET)
        ends[level] = np.stack([f["f_mean"].values, f["f_sd"].values ** 2])
    slopes = {level: (m[:, 1] - m[:, 2]) / (2 * h) for level, m in ends.items()}
    own = X["c"][0]
    y, z = np.arange(150), np.linspace(-9.0, 9.0, 2001)

    def log_p(mean, variance):
        rate = np.exp(mean + np.sqrt(variance) * z)
        return np.log(stats.poisson.pmf(y[:, None], rate) @ stats.norm.pdf(z) * (z[1] - z[0]))

    at = ends[own][:, 0]
    step = np.eye(2) * 1e-4
    scores = np.stack([(log_p(*(at + e)) - log_p(*(at - e))) / 2e-4 for e in step])
    information = scores * np.exp(log_p(*at)) @ scores.T
    apart = slopes["v"] - slopes["u"]
    expected = np.sqrt(apart @ information @ apart)
    crossed = 2.0 * apart[0] * apart[1] * information[0, 1]
    assert abs(crossed) > 1e-3 * expected**2
    pair = found.sel(feature="a", feature_bis="c").item()
    assert_allclose(pair, expected, rtol=1e-4)


def jet(function, x):
    """A function of one feature, with its derivatives at x by differences."""
    ends = function(x + 1e-4), function(x - 1e-4)
    second = (ends[0] + ends[1] - 2.0 * function(x)) / 1e-8
    first = np.array([[(ends[0] - ends[1]) / 2e-4]])
    return Jet(np.array([function(x)]), first, np.array([[[second]]]))


def test_densities_do_not_rise_without_end():
    """The density of y given f is highest at f = 72, and numbers beyond f = 30 are not computed."""
    wide = custom(
        lambda f, e, sigma: pm.LogNormal.dist(f - sigma**2 / 2.0, sigma),
        mean=lambda f, e: exp(f),
        priors={"sigma": pm.HalfNormal.dist(1.0)},
        support="positive",
    )
    f, theta = pt.as_tensor(np.array([-45.0, -30.0, 30.0, 45.0])), {"sigma": np.float64(12.0)}
    y = pt.ones(4)
    low, farthest, high, beyond = pm.draw(wide.logp(f, y, theta), mode=MODE)
    assert beyond == high
    assert_allclose(low - farthest, -15.0 * 102.0 / 144.0, rtol=1e-12)
    slopes = pm.draw(wide.derivatives(f, y, theta)[0], mode=MODE)
    assert_allclose(slopes, [102.0 / 144.0, 102.0 / 144.0, 42.0 / 144.0, 0.0], rtol=1e-12)


def test_what_cannot_be_a_likelihood_is_refused():
    with pytest.raises(ValueError, match=r"dist returned 3.*Return the distribution of one y"):
        custom(lambda f, e: 3, mean=exposed_mean)
    with pytest.raises(ValueError, match="support"):
        custom(gamma, mean=exposed_mean, priors={"shape": 1.0}, support="whole")
    with pytest.raises(ValueError, match=r"y is -1\.0 at position 1, but this likelihood of your"):
        bx.GP(np.eye(3), [1.0, -1.0, 2.0], likelihood=GAMMA)
    with pytest.raises(ValueError, match="Leave link out"):
        bx.GP(np.eye(3), [1.0, 1.0, 2.0], likelihood=GAMMA, link="log")


def test_what_f_cannot_learn_is_refused_or_warned_of(data):
    X, _, _, y = data
    kinked = custom(lambda f, e: pm.Laplace.dist(f, 1.0), mean=lambda f, e: f, support="real")
    with pytest.raises(ValueError, match=r"no curvature in f.*asymmetric_laplace"):
        bx.GP(X, np.log(y), likelihood=kinked)
    smooth = custom(lambda f, e: pm.Logistic.dist(f, 1.0), mean=lambda f, e: f, support="real")
    with pytest.warns(UserWarning, match=r"y has the mean 1\.5e\+03.*Standardize y"):
        bx.GP(X, 1500.0 + np.log(y), likelihood=smooth)


@pytest.mark.parametrize("name", ["o", "b", "s"])
def test_a_hyperparameter_may_have_a_letter_of_obs_as_name(name, data):
    noisy = custom(
        lambda f, exposure, **spread: pm.StudentT.dist(nu=4, mu=f, sigma=spread[name]),
        mean=lambda f, exposure: f,
        priors={name: pm.HalfNormal.dist(1.0)},
        support="real",
    )
    model = bx.GP(data[0], np.log(data[3]), likelihood=noisy).pymc
    assert {name, "y"} <= {rv.name for rv in model.basic_RVs}
    assert set(model.coords) == {"obs", "feature"}
    assert model.named_vars_to_dims["y"] == ("obs",)


def test_it_is_saved_and_loaded(data, tmp_path):
    X, _, _, y = data
    model = bx.GP(X, y, likelihood=GAMMA)
    assert model.specification == bx.GP(X + 1.0, y, likelihood=GAMMA).specification
    idata = model.fit("map", start=THETA | {"shape": 3.0}, **QUIET)
    file = tmp_path / "fit.nc"
    bx.save(model, idata, file)
    with pytest.raises(ValueError, match="pass likelihood= again"):
        bx.load(file)
    again, fit = bx.load(file, likelihood=GAMMA)
    asked = {"on": "latent", **QUIET}
    assert_allclose(
        bx.predictions(again, fit, **asked)["f_mean"],
        bx.predictions(model, idata, **asked)["f_mean"],
    )
    named_one = bx.GP(X, y, likelihood="gamma")
    idata = named_one.fit("map", start=THETA | {"shape": 3.0}, **QUIET)
    bx.save(named_one, idata, file)
    with pytest.raises(ValueError, match="leave likelihood= out"):
        bx.load(file, likelihood=GAMMA)


@pytest.mark.slow
def test_projections_are_those_of_normal_noise():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 2))
    y = 2.0 * np.sin(X[:, 0]) + 0.4 * rng.normal(size=25)
    tables = []
    for likelihood in ("normal", NOISY):
        model = bx.GP(X, y, scale=False, likelihood=likelihood)
        tables.append(bx.project(model, model.fit("map", **QUIET), folds=2, seed=1, **QUIET).table)
    known, own = tables
    assert own["feature"].tolist() == known["feature"].tolist()
    assert_allclose(own[["elpd", "elpd_diff"]], known[["elpd", "elpd_diff"]], atol=5e-3)
    assert_allclose(own["kl"], known["kl"], rtol=1e-3, atol=1e-6)
