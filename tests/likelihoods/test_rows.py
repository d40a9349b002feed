"""Weights of rows, and rows of which only bounds of y are known."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit

import bayes_gpx as bx
import lifelines_values
from bayes_gpx.draws.leave_one_out import ratios
from bayes_gpx.draws.left_out_together import densities_of_groups
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.rows import CENSORING, Censored
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.reporting.sections.inference import _loo

pytestmark = pytest.mark.filterwarnings("ignore:weights have a mean of")
RNG = np.random.default_rng(3)
N = 16
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0])
RESPONSES = {
    "normal": F + 0.3 * RNG.normal(size=N),
    "student_t": F + 0.3 * RNG.standard_t(3, size=N),
    "poisson": RNG.poisson(np.exp(F)) * 1.0,
    "bernoulli": (F + RNG.logistic(size=N) > 0) * 1,
    "weibull": np.exp(F) * RNG.weibull(2.0, size=N),
}
RESPONSES["gamma"] = RESPONSES["weibull"]
RESPONSES["beta"] = expit(F + 0.3 * RNG.normal(size=N))
RESPONSES["asymmetric_laplace"] = RESPONSES["student_t"]
RESPONSES["ordinal"] = np.minimum(RESPONSES["poisson"], 4)
RESPONSES["binomial"] = RESPONSES["zero_inflated_poisson"] = RESPONSES["poisson"]
THETA = {"lengthscale": np.array([0.7, 1.5]), "amplitude": 1.1}
BESIDE = {"sigma": 0.4, "nu": 4.0, "shape": 2.0, "precision": 5.0, "inflation": 0.2}
BESIDE["dispersion"] = 2.0
BESIDE["cutpoint"] = np.array([-1.0, 0.0, 0.7, 1.5])
WEIGHTS = np.where(np.isin(np.arange(N), [2, 5]), 2.0, 1.0)
WEIGHTS[9] = 3.0
KINDS = np.array(list("abc"))[np.arange(N) % 3]
REPEATED = np.repeat(np.arange(N), WEIGHTS.astype(int))
SUMMARY = {"keep": "summary", "progressbar": False}


def theta_of(model):
    return THETA | {name: v for name, v in BESIDE.items() if name in model.hyperparameters}


def all_at(value, model):
    """All hyperparameters with one value."""
    known = {v.name: v.eval().shape for v in model.pymc.free_RVs}
    return {name: np.full(known[name], value) for name in model.hyperparameters}


def density_at(model, x):
    """Log density of the unconstrained hyperparameters, and its gradient."""
    density = Density(model.objective, jacobian=True).value_and_slope()
    value, slope = density(x)
    return float(value), np.array(slope)


@pytest.mark.parametrize(
    ("likelihood", "approximation"),
    [
        ("normal", None),
        ("normal", bx.HSGP(6)),
        ("normal", bx.Inducing(8)),
        ("student_t", None),
        ("poisson", bx.HSGP(6)),
        pytest.param("poisson", bx.Inducing(8), marks=pytest.mark.slow),
        ("bernoulli", None),
        pytest.param("weibull", None, marks=pytest.mark.slow),
    ],
)
def test_a_row_with_weight_2_is_a_row_twice(likelihood, approximation):
    """In the density of hyperparameters, and in predictions and attributions; centers included."""
    y, known = RESPONSES[likelihood], {"likelihood": likelihood, "approximation": approximation}
    model = bx.GP(X, y, weights=WEIGHTS, **known)
    twice = bx.GP(X[REPEATED], y[REPEATED], **known)
    twice = twice.restored(
        twice.training, twice.specification, model.inducing, priors={}, scale=True, name=""
    )
    x = 0.2 * np.random.default_rng(0).normal(size=3 + len(theta_of(model)) - 2)
    for one, other in zip(density_at(model, x), density_at(twice, x), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    options = {"baseline": np.zeros(2), "on": "latent", **SUMMARY}
    both = (bx.attributions(m, theta_of(m), X[:4], **options) for m in (model, twice))
    for one, other in zip(*(d["attribution_mean"].values for d in both), strict=True):
        assert_allclose(one, other, atol=1e-10)


LABELS = np.minimum(RESPONSES["poisson"], 2.0).astype(int)


@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        ("categorical", {}),
        ("categorical", {"correlation": 1}),
        ("categorical", {"approximation": bx.Inducing(8)}),
        ("heteroscedastic_normal", {}),
        pytest.param("categorical", {"approximation": bx.HSGP(6)}, marks=pytest.mark.slow),
        pytest.param("categorical", {"groups": np.arange(N) % 3}, marks=pytest.mark.slow),
        pytest.param(
            "heteroscedastic_normal", {"approximation": bx.HSGP(6)}, marks=pytest.mark.slow
        ),
    ],
)
def test_a_weighted_row_of_several_latent_values_is_a_row_twice(likelihood, options):
    """Of classes and of processes, in densities, moments and random functions."""
    y = LABELS if likelihood == "categorical" else RESPONSES["normal"]
    again = {k: v[REPEATED] if k == "groups" else v for k, v in options.items()}
    model = bx.GP(X, y, likelihood=likelihood, weights=WEIGHTS, **options)
    twice = bx.GP(X[REPEATED], y[REPEATED], likelihood=likelihood, **again)
    twice = twice.restored(
        twice.training, twice.specification, model.inducing, priors={}, scale=True, name=""
    )
    count = sum(np.size(v) for v in model.objective.initial_point().values())
    x = 0.2 * np.random.default_rng(0).normal(size=count)
    for one, other in zip(density_at(model, x), density_at(twice, x), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    theta = all_at(0.8, model)
    asked = {"groups_new": [0, 1, 2]} if "groups" in options else {}
    found = [
        bx.predictions(m, theta, X[:3], on="latent", **asked, **SUMMARY) for m in (model, twice)
    ]
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[0][name], found[1][name], atol=1e-8)
    if not options or "correlation" in options:
        codes = np.arange(N) // 4
        each = (model, codes), (twice, codes[REPEATED])
        joint = [densities_of_groups(m, theta, g, progressbar=False).values for m, g in each]
        assert_allclose(*joint, rtol=1e-8)
    if "groups" not in options:
        functions = bx.sample_functions(model, theta, draws=400, seed=1, progressbar=False)
        values = functions.predictions(X[:3])["f"].values.reshape(
            -1, 3, *found[0]["f_sd"].shape[1:]
        )
        error = found[0]["f_sd"].values / 20.0
        assert (np.abs(values.mean(axis=0) - found[0]["f_mean"].values) < 5.0 * error).all()
        assert_allclose(values.std(axis=0), found[0]["f_sd"], rtol=0.25)


@pytest.mark.parametrize("options", [{}, {"correlation": 1}, {"approximation": bx.Inducing(X)}])
def test_a_label_of_hardly_any_weight_is_no_row(options):
    known = {"likelihood": "categorical", "scale": False, **options}
    weights = np.where(np.arange(N) < 3, 1e-9, 1.0)
    models = bx.GP(X, LABELS, weights=weights, **known), bx.GP(X[3:], LABELS[3:], **known)
    theta = all_at(0.8, models[0])
    found = [bx.predictions(m, theta, X[:4], on="latent", **SUMMARY) for m in models]
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[0][name], found[1][name], atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"correlation": 1}])
def test_a_weighted_label_that_is_left_out_is_left_out_whole(options):
    """Its score is its weight times the log probability given the other rows and their weights."""
    known = {"likelihood": "categorical", "scale": False, **options}
    model = bx.GP(X, LABELS, weights=WEIGHTS, **known)
    theta = all_at(0.8, model)
    found = bx.loo_predictions(model, theta, progressbar=False)
    for row in (2, 9):
        others = np.delete(np.arange(N), row)
        without = bx.GP(X[others], LABELS[others], weights=WEIGHTS[others], **known)
        p = bx.predictions(without, theta, X[[row]], **SUMMARY)["probability_mean"].values
        expected = WEIGHTS[row] * np.log(p.reshape(-1)[LABELS[row]])
        assert_allclose(found["elpd"][row], expected, rtol=0.03)


@pytest.mark.parametrize(
    ("sigma_w", "options"),
    [
        (0.0, {"priors": {"sigma_w": 0.0}}),
        (0.5, {}),
        (0.5, {"approximation": bx.Inducing(X[:5])}),
        (0.5, {"approximation": bx.HSGP(4)}),
    ],
)
def test_a_weighted_row_of_a_gpx_is_a_row_twice(sigma_w, options):
    """Also where each of the two rows deviates by itself from the weight functions."""
    y = RESPONSES["normal"]
    models = bx.GPX(X, y, weights=WEIGHTS, **options), bx.GPX(X[REPEATED], y[REPEATED], **options)
    x = 0.2 * np.random.default_rng(0).normal(size=5 if sigma_w else 4)
    for one, other in zip(*(density_at(m, x) for m in models), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    theta = THETA | {"sigma": 0.4, "sigma_w": sigma_w}
    for smooth in (True, False):
        found = [bx.weights(m, theta, X[:3], smooth=smooth, **SUMMARY) for m in models]
        for name in ("weight_mean", "weight_sd"):
            assert_allclose(found[0][name], found[1][name], atol=1e-10)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (bx.GP, {}),
        (bx.GPX, {}),
        (bx.GP, {"approximation": bx.HSGP(6)}),
        (bx.GP, {"approximation": bx.Inducing(X[:5])}),
        (bx.GPX, {"approximation": bx.HSGP(4)}),
        (bx.GPX, {"approximation": bx.Inducing(X[:5])}),
        (bx.GPX, {"groups": KINDS}),
        (bx.GPX, {"groups": KINDS, "approximation": bx.Inducing(X[:5])}),
    ],
)
def test_marginal_likelihoods_and_densities_of_groups_count_rows_by_their_weights(make, options):
    """As of rows that are there as often."""
    y, groups = RESPONSES["normal"], np.arange(N) // 4
    rows = (X, y, groups, WEIGHTS), (X[REPEATED], y[REPEATED], groups[REPEATED], None)
    each = []
    for own, response, codes, weights in rows:
        if "groups" in options:
            options = options | {"groups": KINDS if weights is not None else KINDS[REPEATED]}
        model = make(own, response, weights=weights, scale=False, **options)
        beside = {"sigma": 0.4, "sigma_w": 0.5, "group_amplitude": 0.6}
        theta = THETA | {name: v for name, v in beside.items() if name in model.hyperparameters}
        lml = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"].values
        of_groups = densities_of_groups(model, theta, codes, progressbar=False).values
        each.append(np.append(lml, of_groups))
    assert_allclose(*each, rtol=1e-8)


@pytest.mark.parametrize("approximation", [None, bx.Inducing(X)])
def test_the_density_of_one_weighted_row_is_that_of_as_many(approximation):
    """Left out by itself, which is another number than its weight times its elpd."""
    options = {"likelihood": "poisson", "approximation": approximation}
    models = (
        bx.GP(X, RESPONSES["poisson"], weights=WEIGHTS, **options),
        bx.GP(X[REPEATED], RESPONSES["poisson"][REPEATED], **options),
    )
    codes = np.arange(N), REPEATED
    pairs = zip(models, codes, strict=True)
    each = [densities_of_groups(m, THETA, rows, progressbar=False).values for m, rows in pairs]
    assert_allclose(*each, rtol=1e-7)


def test_a_gpx_with_weights_that_has_no_deviations_is_saved(tmp_path):
    options = {"likelihood": "categorical", "priors": {"sigma_w": 0}, "weights": WEIGHTS}
    model = bx.GPX(X, LABELS, **options)
    idata = model.fit("map", seed=1, progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    both = (model, idata), bx.load(tmp_path / "fit.nc")
    found = [bx.weights(*fit, X[:2], smooth=True, **SUMMARY)["weight_mean"] for fit in both]
    assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize("approximation", [None, bx.Inducing(np.hstack([X, X]))])
def test_a_weighted_row_of_a_gpx_is_the_mean_of_as_many(approximation):
    """F of a training row, its leave-one-out prediction, and densities given functions."""
    y, sigma, sigma_w = RESPONSES["normal"], 0.4, 0.5
    options = {"scale": False, "intercept": False, "approximation": approximation}
    model = bx.GPX(X, y, Z=X, weights=WEIGHTS, **options)
    theta = THETA | {"sigma": sigma, "sigma_w": sigma_w}
    K = 1.1**2 * np.exp(-0.5 * (((X[:, None] - X) / THETA["lengthscale"]) ** 2).sum(-1)) * (X @ X.T)
    # Repeated rows, each with a deviation, and the means of those that are one row.
    rows, means = K[np.ix_(REPEATED, REPEATED)], (np.arange(N)[:, None] == REPEATED) * 1.0
    means /= means.sum(axis=1, keepdims=True)
    deviations = sigma_w**2 * (X**2).sum(axis=1)
    of_f = rows + np.diag(deviations[REPEATED])
    gain = np.linalg.solve(of_f + sigma**2 * np.eye(len(REPEATED)), of_f @ means.T).T
    variances = np.diag(means @ of_f @ means.T - gain @ of_f @ means.T)
    found = bx.predictions(model, theta, on="latent", **SUMMARY)
    assert_allclose(found["f_mean"].values.ravel(), gain @ y[REPEATED], atol=1e-9)
    assert_allclose(found["f_sd"].values.ravel(), variances**0.5, atol=1e-9)
    left = bx.loo_predictions(model, theta, progressbar=False)
    for row in (2, 3):
        others, noise = np.delete(np.arange(N), row), deviations + sigma**2
        noisy = K[np.ix_(others, others)] + np.diag((noise / WEIGHTS)[others])
        gain = np.linalg.solve(noisy, K[others, row])
        variance = K[row, row] - gain @ K[others, row] + noise[row]
        elpd = WEIGHTS[row] * stats.norm.logpdf(y[row], gain @ y[others], variance**0.5)
        assert_allclose(left["elpd"][row], elpd, rtol=1e-8)


def test_weighted_scores_are_sums_of_those_of_single_rows():
    """The predictive density is of one row, given the others and their weights."""
    y = RESPONSES["normal"]
    model = bx.GP(X, y, weights=WEIGHTS, scale=False)
    found = bx.loo_predictions(model, theta_of(model), progressbar=False)
    K = 1.1**2 * np.exp(-0.5 * (((X[:, None] - X) / THETA["lengthscale"]) ** 2).sum(-1))
    for row in (2, 3):
        others = np.delete(np.arange(N), row)
        noisy = K[np.ix_(others, others)] + np.diag(0.4**2 / WEIGHTS[others])
        gain = np.linalg.solve(noisy, K[others, row])
        mean, variance = gain @ y[others], K[row, row] - gain @ K[others, row] + 0.4**2
        elpd = WEIGHTS[row] * stats.norm.logpdf(y[row], mean, variance**0.5)
        assert_allclose(found["elpd"][row], elpd, rtol=1e-8)
        assert_allclose(found["y_sd"][row], variance**0.5, rtol=1e-8)
        assert_allclose(found["pit"][row], stats.norm.cdf(y[row], mean, variance**0.5), rtol=1e-8)


GRID, DRAWN = np.exp(np.linspace(-3.0, 1.5, 400)), 1000


def quantiles(density):
    """Values of sigma at even quantiles of a density on `GRID`."""
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(GRID))])
    return np.interp((np.arange(DRAWN) + 0.5) / DRAWN, below / below[-1], GRID)


def test_draws_are_reweighted_for_a_row_that_counts_several_times():
    """Sigma given the other rows, by quadrature: all copies of a row are left out together."""
    y, row = RESPONSES["normal"].copy(), 9
    y[row] += 1.0
    model = bx.GP(X, y, weights=WEIGHTS, scale=False, priors=THETA)
    K = 1.1**2 * np.exp(-0.5 * (((X[:, None] - X) / THETA["lengthscale"]) ** 2).sum(-1))

    def posterior(rows):
        covariances = K[np.ix_(rows, rows)] + GRID[:, None, None] ** 2 * np.eye(len(rows))
        logp = [stats.multivariate_normal(cov=C).logpdf(y[rows]) for C in covariances]
        logp += pm.logp(model.pymc["sigma"], GRID).eval()
        return np.exp(logp - np.max(logp))

    draws = quantiles(posterior(REPEATED))
    others = REPEATED[REPEATED != row]
    sds = []
    for sigma in quantiles(posterior(others)):
        gain = np.linalg.solve(
            K[np.ix_(others, others)] + sigma**2 * np.eye(len(others)), K[others, row]
        )
        sds.append((gain @ y[others], K[row, row] - gain @ K[others, row] + sigma**2))
    mean, variance = np.transpose(sds)
    expected = np.sqrt(variance.mean() + mean.var())
    fit = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"sigma": (("chain", "draw"), draws[None])})}
    )
    found = bx.loo_predictions(model, fit, progressbar=False, seed=1)
    assert_allclose(found["y_mean"][row], mean.mean(), rtol=0.01)
    assert_allclose(found["y_sd"][row], expected, rtol=0.01)
    elpd = WEIGHTS[row] * np.log(stats.norm.pdf(y[row], mean, variance**0.5).mean())
    assert_allclose(found["elpd"][row], elpd, rtol=0.02)
    each = bx.loo_predictions(model, fit, groups=np.arange(N), progressbar=False, seed=1)
    assert_allclose(found["log_weights"], each["log_weights"], atol=1e-7)
    both = {"one": (model, fit), "other": (model, fit)}
    compared = bx.compare(both)
    assert_allclose(compared["elpd"], found["elpd"].sum(), rtol=1e-7)
    assert_allclose(compared["se"], np.sqrt(N) * found["elpd"].std(), rtol=1e-7)
    fit["log_likelihood"] = bx.log_likelihood(model, fit, progressbar=False)[["log_likelihood"]]
    reported = SimpleNamespace(fitted=True, idata=fit, model=model, facts={})
    list(_loo(reported))
    assert_allclose(reported.facts["loo"]["elpd"], found["elpd"].sum(), rtol=1e-7)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_ratios_of_other_likelihoods_are_integrals_of_weighted_densities(likelihood):
    """Over f given the other rows, by a model without the row."""
    row, y = 9, RESPONSES[likelihood]
    model = bx.GP(X, y, weights=WEIGHTS, likelihood=likelihood, scale=False)
    found = ratios(model, THETA, progressbar=False).values[0, 0, row]
    others = np.arange(N) != row
    rest = bx.GP(X[others], y[others], weights=WEIGHTS[others], likelihood=likelihood, scale=False)
    at = bx.predictions(rest, THETA, X[[row]], on="latent", **SUMMARY)
    center, sd = at["f_mean"].item(), at["f_sd"].item()
    f = np.linspace(center - 10.0 * sd, center + 10.0 * sd, 4001)
    once = stats.poisson(np.exp(f)) if likelihood == "poisson" else stats.bernoulli(expit(f))
    density = once.pmf(y[row]) ** WEIGHTS[row] * stats.norm(center, sd).pdf(f)
    assert_allclose(found, np.log(np.trapezoid(density, f)), rtol=0.03)
    product = bx.loo_predictions(model, THETA, progressbar=False)["elpd"][row]
    assert abs(found - product) > 0.2


STEPS = 1e-4, -1e-4
LONG = "beta", "Cauchy noise", "a proportion", "zero_inflated_negative_binomial"
COUNTED = "gamma", "negative_binomial"
CUTPOINTS = np.array([-1.0, -0.2, 0.3, 1.0, 2.0])


class Inflated:
    """Counts with a fifth of further zeros, of mean exp(f)."""

    def __init__(self, counts, f):
        self.counts = counts(np.exp(f) / 0.8)

    def logpmf(self, y):
        return np.log(0.2 * (y == 0) + 0.8 * self.counts.pmf(y))

    def cdf(self, y):
        return 0.2 + 0.8 * self.counts.cdf(y)

    def logcdf(self, y):
        return np.log(self.cdf(y))

    def logsf(self, y):
        return np.log(0.8) + self.counts.logsf(y)


class Categories:
    """Ordered categories 0 to 5."""

    def __init__(self, f):
        self.ends = np.concatenate([[-np.inf], CUTPOINTS - f, [np.inf]])

    def logpmf(self, y):
        return np.log(self.cdf(y) - self.cdf(y - 1.0))

    def cdf(self, y):
        return expit(self.ends[int(y) + 1])

    def logcdf(self, y):
        return np.log(self.cdf(y))

    def logsf(self, y):
        return np.log(expit(-self.ends[int(y) + 1]))


KNOWN = {
    "normal": ({"sigma": 0.5}, lambda f: stats.norm(f, 0.5)),
    "lognormal": ({"sigma": 0.5}, lambda f: stats.lognorm(0.5, scale=np.exp(f - 0.125))),
    "loglogistic": ({"shape": 2.2}, lambda f: stats.fisk(2.2, scale=np.exp(f))),
    "weibull": (
        {"shape": 1.7},
        lambda f: stats.weibull_min(1.7, scale=np.exp(f) / stats.weibull_min(1.7).mean()),
    ),
    "gamma": ({"shape": 3.1}, lambda f: stats.gamma(3.1, scale=np.exp(f) / 3.1)),
    "poisson": ({}, lambda f: stats.poisson(np.exp(f))),
    "negative_binomial": (
        {"dispersion": 1.7},
        lambda f: stats.nbinom(1.7, 1.7 / (1.7 + np.exp(f))),
    ),
    "student_t": ({"sigma": 0.5, "nu": 3.0}, lambda f: stats.t(3.0, f, 0.5)),
    "asymmetric_laplace": (
        {"sigma": 0.2},
        lambda f: stats.laplace_asymmetric(np.sqrt(0.3 / 0.7), f, 0.2 / np.sqrt(0.3 * 0.7)),
    ),
    "beta": ({"precision": 4.0}, lambda f: stats.beta(4.0 * expit(f), 4.0 * expit(-f))),
    "binomial": ({}, lambda f: stats.binom(9, expit(f))),
    "zero_inflated_poisson": ({"inflation": 0.2}, lambda f: Inflated(stats.poisson, f)),
    "zero_inflated_negative_binomial": (
        {"inflation": 0.2, "dispersion": 1.7},
        lambda f: Inflated(lambda mean: stats.nbinom(1.7, 1.7 / (1.7 + mean)), f),
    ),
    "ordinal": ({"cutpoint": CUTPOINTS}, lambda f: Categories(f)),
    "counts of one's own": ({}, lambda f: stats.geom(-np.expm1(-np.exp(-f)), loc=-1)),
    "Cauchy noise": ({"scale": 0.6}, lambda f: stats.cauchy(f, 0.6)),
    "Gumbel noise": ({"scale": 0.6}, lambda f: stats.gumbel_r(f, 0.6)),
    "a proportion": ({}, lambda f: stats.powerlaw(np.exp(f))),
}
OWN = {
    "asymmetric_laplace": bx.likelihoods.asymmetric_laplace(quantile=0.3),
    "ordinal": replace(named("ordinal"), count=6),
    "counts of one's own": bx.likelihoods.custom(
        lambda f, exposure: pm.DiscreteWeibull.dist(pm.math.exp(-pm.math.exp(-f)), 1.0),
        mean=lambda f, exposure: 1.0 / pm.math.expm1(pm.math.exp(-f)),
        support="counts",
    ),
    "Cauchy noise": bx.likelihoods.custom(
        lambda f, exposure, scale: pm.Cauchy.dist(f, scale),
        mean=lambda f, exposure: f,
        priors={"scale": pm.HalfNormal.dist(1.0)},
    ),
    "Gumbel noise": bx.likelihoods.custom(
        lambda f, exposure, scale: pm.Gumbel.dist(f, scale),
        mean=lambda f, exposure: f,
        priors={"scale": pm.HalfNormal.dist(1.0)},
    ),
    "a proportion": bx.likelihoods.custom(
        lambda f, exposure: pm.Beta.dist(pm.math.exp(f), 1.0),
        mean=lambda f, exposure: pm.math.sigmoid(f),
        support="unit",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in KNOWN]
)
def test_bounds_have_the_probabilities_of_scipy(name):
    """With slopes that are differences of them, also where a tail is 1e-100."""
    values, distribution = KNOWN[name]
    theta = {n: pt.as_tensor(np.float64(v)) for n, v in values.items()}
    plain = OWN.get(name) or named(name)
    given = Censored(plain, CENSORING[1:])
    f, low, high = np.array([-0.7, 0.1, 0.9, 0.4, 4.0]), 2.0, 4.0
    if name in ("a proportion", "beta"):
        low, high = 0.3, 0.9
    codes = [0, 1, 2, 3, 1]
    exposed = np.full(5, 9.0 if name == "binomial" else 1.0)
    exposures = np.column_stack([exposed, np.full(5, high), codes])
    symbol, y = pt.dvector("f"), np.full(5, low)
    known = symbol, pt.as_tensor(y), theta, pt.as_tensor(exposures)
    outputs = [given.logp(*known), *given.derivatives(*known), *given.laplace_information(*known)]
    function = pytensor.function([symbol], outputs, mode=MODE)
    of = [distribution(value) for value in f]
    expected = [
        of[0].logpmf(low) if hasattr(of[0], "logpmf") else of[0].logpdf(low),
        of[1].logcdf(low),
        of[2].logsf(low),
        np.log(of[3].cdf(high) - of[3].cdf(low)),
        of[4].logcdf(low),
    ]
    found = function(f)
    assert_allclose(found[0], expected, rtol=1e-10, atol=1e-8 if name in OWN else 0.0)
    after, before = function(f + 1e-4), function(f - 1e-4)
    for k in (0, 1, 2, 4):
        rows = slice(1 if k == 4 else 0, None)
        difference = (after[k] - before[k]) / 2e-4
        assert_allclose(found[k + 1][rows], difference[rows], rtol=1e-6, atol=1e-6)
    if plain.concave:
        assert (found[2] <= 1e-12).all()
    # Of a bound it is the observed information, with something left where that is negative.
    assert (found[4] >= 0.0).all()
    off = found[4][1:] + np.minimum(found[2][1:], 0.0)
    assert ((0.0 <= off) & (off <= 0.05 * found[1][1:] ** 2 + 1e-12)).all()


def of_bounds(likelihood, values, f, rows):
    """Log probabilities of (kind, lower, upper), with derivatives in f."""
    given = Censored(likelihood, CENSORING[1:])
    codes = [CENSORING.index(kind) for kind, *_ in rows]
    low, high = (np.array([row[k] for row in rows], "float64") for k in (1, 2))
    exposure = pt.as_tensor(np.column_stack([np.ones(len(rows)), high, codes]))
    theta = {name: pt.as_tensor(np.float64(v)) for name, v in values.items()}
    known = pt.as_tensor(np.full(len(rows), float(f))), pt.as_tensor(low), theta, exposure
    outputs = [given.logp(*known), *given.derivatives(*known)]
    return pytensor.function([], outputs, mode=MODE)()


def log_probabilities(distribution, rows):
    """The same of a distribution of SciPy."""
    each = {
        "left": lambda low, _: distribution.logcdf(low),
        "right": lambda low, _: distribution.logsf(low),
        "interval": lambda low, high: np.log(
            distribution.cdf(high) - distribution.cdf(low)
            if distribution.cdf(low) < 0.5
            else distribution.sf(low) - distribution.sf(high)
        ),
    }
    return [each[kind](low, high) for kind, low, high in rows]


@pytest.mark.parametrize(
    ("center", "scale", "rows"),
    [
        (300.0, 100.0, [("left", -20.0, 0.0), ("right", 290.0, 0.0), ("interval", 1.0, 1.5)]),
        (0.0, 1000.0, [("interval", 1.0, 1.5), ("left", -3.0, 0.0), ("interval", -7.0, 9.0)]),
        (300.0, 1.0, [("left", 280.0, 0.0), ("right", 280.0, 0.0), ("interval", 299.0, 300.0)]),
    ],
)
def test_bounds_far_from_1_have_the_probabilities_of_scipy(center, scale, rows):
    """Of a density by PyMC, whose sums are over arcsinh(y), where it has two modes."""
    normal = bx.likelihoods.custom(
        lambda f, exposure, tau: pm.Normal.dist(f, tau),
        mean=lambda f, exposure: f,
        priors={"tau": pm.HalfNormal.dist(1.0)},
    )
    found = of_bounds(normal, {"tau": scale}, center, rows)
    assert_allclose(found[0], log_probabilities(stats.norm(center, scale), rows), atol=2e-5)
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("precision", "f"), [(5.0, 4.0), (5.0, 8.0), (1.0, 4.0), (0.1, 0.0), (0.1, -4.0), (50.0, -8.0)]
)
def test_bounds_of_proportions_that_are_nearly_0_or_1(precision, f):
    """Most of y may be nearer to 1 than any number below it."""
    rows = [("left", 0.99, 0.0), ("right", 0.99, 0.0), ("left", 0.01, 0.0), ("right", 0.5, 0.0)]
    found = of_bounds(named("beta"), {"precision": precision}, f, rows)
    of = stats.beta(precision * expit(f), precision * expit(-f))
    assert_allclose(found[0], log_probabilities(of, rows), rtol=1e-8)
    after, before = (of_bounds(named("beta"), {"precision": precision}, f + h, rows) for h in STEPS)
    for k in range(3):
        assert_allclose(found[k + 1], (after[k] - before[k]) / 2e-4, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["poisson", "beta"])
@pytest.mark.parametrize("f", [-900.0, -40.0, 40.0, 900.0])
def test_bounds_are_finite_at_any_f(name, f):
    """Integrals over f go to 9 sds of it, so a NaN there would be one of the whole."""
    low, high = (0.3, 0.5) if name == "beta" else (2.0, 5.0)
    rows = [("left", low, 0.0), ("right", low, 0.0), ("interval", low, high)]
    assert np.isfinite(of_bounds(named(name), {"precision": 5.0}, f, rows)).all()


def test_bounds_of_counts_with_zeros_of_their_own():
    """No interval has them; and of a density by PyMC they are far from the other counts."""
    f, inflation = np.log(300.0), 0.3
    counts = stats.poisson(300.0 / (1.0 - inflation))
    inside = [("interval", 1.0, 6.0), ("interval", 400.0, 430.0)]
    zip_ = named("zero_inflated_poisson")
    found = of_bounds(zip_, {"inflation": inflation}, f, inside)
    expected = np.log1p(-inflation) + np.array(
        [np.logaddexp.reduce(counts.logpmf(np.arange(a + 1, b + 1))) for _, a, b in inside]
    )
    assert_allclose(found[0], expected, rtol=1e-8)
    assert np.isfinite(found).all()


@pytest.mark.slow
def test_bounds_of_counts_by_pymc_far_from_the_zeros():
    f = np.log(300.0)
    own = bx.likelihoods.custom(
        lambda f, exposure: pm.ZeroInflatedPoisson.dist(psi=0.7, mu=pm.math.exp(f)),
        mean=lambda f, exposure: 0.7 * pm.math.exp(f),
        support="counts",
    )
    rows = [("left", 200.0, 0.0), ("left", 0.0, 0.0), ("right", 385.0, 0.0), ("right", 0.0, 0.0)]
    counts = stats.poisson(300.0)
    p = np.array([counts.cdf(200.0), counts.cdf(0.0), counts.sf(385.0), counts.sf(0.0)])
    p = 0.7 * p + 0.3 * np.array([1.0, 1.0, 0.0, 0.0])
    assert_allclose(of_bounds(own, {}, f, rows)[0], np.log(p), atol=1e-4)


@pytest.mark.parametrize("name", ["weibull", "poisson", "gamma"])
def test_bounds_of_rows_left_out_have_the_probabilities_of_sums(name):
    """Also far from where they are likely, where the slope in f may be 1e30."""
    likelihood, sds = named(name), np.array([0.5, 1.0, 3.0])
    mean, sd = (v.ravel() for v in np.meshgrid([-8.0, -3.0, 0.5, 3.0, 8.0], sds))
    f = np.linspace(-25.0, 25.0, 2_501)
    known = {"shape": pt.as_tensor(np.float64(5.0))}
    for kind, upper in (("left", np.inf), ("right", np.inf), ("interval", 5.0)):
        given = Censored(likelihood, (kind,))
        row = np.array([1.0, upper, CENSORING.index(kind)])
        every, rows = np.tile(row, (len(f), 1)), np.tile(row, (len(mean), 1))
        y = np.full(len(f), 2.0)
        log_p = given.logp(*map(pt.as_tensor, (f, y)), known, pt.as_tensor(every))
        moments = map(pt.as_tensor, (y[: len(mean)], mean, sd**2))
        left_out = given.log_predictive(*moments, known, pt.as_tensor(rows))
        log_p, found = pytensor.function([], [log_p, left_out], mode=MODE)()
        heights = log_p + stats.norm(mean[:, None], sd[:, None]).logpdf(f)
        summed = np.logaddexp.reduce(heights + np.log(f[1] - f[0]), axis=1)
        assert_allclose(found, summed, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("likelihood", "bound"),
    [
        ("normal", ("right", -1e6)),
        ("poisson", ("left", 1e6)),
        ("gamma", ("right", 1e-300)),
        pytest.param("weibull", ("right", 1e-300), marks=pytest.mark.slow),
        ("student_t", ("right", -1e9)),
        ("asymmetric_laplace", ("left", 1e6)),
        ("ordinal", ("left", 4)),
        pytest.param("beta", ("right", 1e-200), marks=pytest.mark.slow),
        pytest.param("zero_inflated_poisson", ("left", 1e6), marks=pytest.mark.slow),
        pytest.param("binomial", ("left", 9), marks=pytest.mark.slow),
    ],
)
def test_a_bound_that_says_nothing_is_no_row(likelihood, bound):
    y = RESPONSES[likelihood].copy()
    censoring = np.full(N, "none", dtype=object)
    censoring[:3], y[:3] = bound
    trials = [{"trials": np.full(m, 9)} if likelihood == "binomial" else {} for m in (N, N - 3)]
    known = {"likelihood": likelihood, "scale": False}
    whole = bx.GP(X, y, censoring=censoring, **known, **trials[0])
    fewer = bx.GP(X[3:], y[3:], **known, **trials[1])
    x = 0.1 * np.arange(1.0, 1.0 + sum(np.size(v) for v in theta_of(whole).values()))
    values = [density_at(m, x)[0] for m in (whole, fewer)]
    assert_allclose(*values, rtol=1e-9)
    found = [bx.predictions(m, theta_of(m), X[:4], on="latent", **SUMMARY) for m in (whole, fewer)]
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[0][name], found[1][name], atol=1e-8)


@pytest.mark.parametrize(
    "likelihood",
    [
        "gamma",
        "negative_binomial",
        "student_t",
        "asymmetric_laplace",
        pytest.param("beta", marks=pytest.mark.slow),
    ],
)
def test_a_density_with_bounds_has_the_gradient_of_its_differences(likelihood):
    """Sums over f depend on the hyperparameters of the likelihood, too."""
    y = RESPONSES["poisson" if likelihood in COUNTED else likelihood] + (likelihood == "gamma")
    bound = np.quantile(y, 0.7, method="lower")
    y, kinds = np.minimum(y, bound), np.where(y < bound, "none", "right")
    model = bx.GP(X, y, likelihood=likelihood, censoring=kinds, scale=False)
    count, step = len(theta_of(model)) + 1, 1e-4
    x = np.array([0.1, -0.2, 0.3, 0.4, 0.5])[:count]
    density = Density(model.objective, jacobian=True).value_and_slope()
    values = [float(density(x + s * e)[0]) for e in np.eye(count) for s in (step, -step)]
    differences = (np.array(values[::2]) - values[1::2]) / (2.0 * step)
    assert_allclose(density(x)[1], differences, rtol=1e-5, atol=1e-5)


def test_bounds_far_above_a_weibull_row_leave_the_density_its_slopes():
    """The hazard up to these bounds has no number, and the probability of less is 1."""
    kinds = np.resize(["left", "none", "none"], N)
    y = np.where(kinds == "left", 5.0, RESPONSES["weibull"])
    model = bx.GP(X, y, likelihood="weibull", censoring=kinds, scale=False)
    x, step = np.array([0.1, -0.2, 0.3, 3.0]), 1e-5
    value, slope = density_at(model, x)
    ends = [[density_at(model, x + s * e)[0] for s in (step, -step)] for e in np.eye(4)]
    assert np.isfinite(value)
    assert_allclose(slope, np.subtract(*np.transpose(ends)) / (2.0 * step), rtol=1e-6, atol=1e-6)


def test_a_narrow_interval_is_its_width_times_the_density():
    """In units of y, where the model scales it; and the posterior is that of the values."""
    y, width = RESPONSES["normal"], 1e-5
    ends = pd.DataFrame({"low": y - width / 2.0, "high": y + width / 2.0})
    model = bx.GP(X, ends, censoring=["interval"] * N)
    plain = bx.GP(X, y)
    x = np.array([0.1, -0.2, 0.3, -0.4])
    # Centers and scales are those of the lower ends.
    expected = density_at(plain, x)[0] + N * np.log(width)
    assert_allclose(density_at(model, x)[0], expected, rtol=1e-6)
    both = [bx.log_likelihood(m, theta_of(m), progressbar=False) for m in (model, plain)]
    terms = [found["log_likelihood"] for found in both]
    assert_allclose(terms[0], terms[1] + np.log(width), atol=1e-4)


def test_an_interval_without_an_end_is_a_lower_bound():
    y = RESPONSES["normal"]
    ends = pd.DataFrame({"low": y, "high": np.where(y > 0, np.inf, y + 1.0)})
    model = bx.GP(X, ends, censoring=["interval"] * N)
    bounded = bx.GP(X, ends.assign(high=y + 1.0), censoring=np.where(y > 0, "right", "interval"))
    x = np.array([0.1, -0.2, 0.3, -0.4])
    assert_allclose(density_at(model, x)[0], density_at(bounded, x)[0], rtol=1e-12)


def test_what_is_known_of_rows_is_saved_and_sampled(tmp_path):
    y = np.minimum(RESPONSES["weibull"], 1.0)
    known = {"weights": WEIGHTS, "censoring": np.where(y < 1.0, "none", "right")}
    model = bx.GP(X, y, likelihood="weibull", **known)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, again = bx.load(tmp_path / "fit.nc")
    fits = (model, idata), (loaded, again)
    both = [bx.predictions(*fit, on="latent", **SUMMARY) for fit in fits]
    assert_allclose(both[0]["f_mean"], both[1]["f_mean"], atol=1e-12)
    assert (loaded.specification.censored, loaded.specification.weighted) == (("right",), True)
    found = bx.loo_predictions(model, idata, progressbar=False)
    assert "pit" not in found and np.isnan(found["residual"].values[y == 1.0]).all()


def test_a_model_of_latent_values_has_the_density_of_its_rows():
    y = np.minimum(RESPONSES["normal"], 1.0)
    known = {"weights": WEIGHTS, "censoring": np.where(y < 1.0, "none", "right")}
    model = bx.GP(X, y, priors={"sigma": 0.5}, **known)
    point = model.pymc.initial_point()
    names = [rv.name for rv in model.pymc.observed_RVs + model.pymc.potentials]
    variables = [*model.pymc.observed_RVs, *model.pymc.potentials]
    terms = model.pymc.compile_fn(model.pymc.logp(variables, sum=False), point_fn=True, mode=MODE)(
        point
    )
    assert names == ["y", "y_censored", "y_weighted"]
    # All latent values are 0 there, which is the mean of y.
    center, sd = np.average(y, weights=WEIGHTS), 0.5 * model.training.y_scaling.scale
    of = stats.norm(center, sd)
    expected = WEIGHTS @ np.where(y < 1.0, of.logpdf(y), of.logsf(1.0))
    assert_allclose(sum(float(np.sum(term)) for term in terms), expected, rtol=1e-10)


BELOW = ["left"] * (N - 1) + ["none"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": np.full(N, 1.0 / N)}, "weights sum to 1, so all rows together count as one"),
        ({"censoring": ["right"] * N}, "'left' or 'right' in every row"),
    ],
)
def test_rows_that_say_nearly_nothing_are_named(given, message):
    with pytest.warns(UserWarning, match=message):
        bx.GP(X, RESPONSES["normal"], **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": np.zeros(N)}, "weights is 0 at position 0, but must be above 0"),
        ({"censoring": ["none"] * (N - 1) + ["dead"]}, "'dead' at position 15"),
        ({"censoring": ["interval"] * N}, "no upper end"),
        (
            {
                "censoring": ["left"] * (N - 1) + ["none"],
                "likelihood": "bernoulli",
                "y": "bernoulli",
            },
            "no bounds of y. For ordered categories",
        ),
        (
            {"censoring": ["none"] * 9 + ["right"] * 7, "likelihood": "ordinal", "y": "poisson"},
            "no y is above that",
        ),
        (
            {
                "censoring": ["right"] * (N - 1) + ["none"],
                "likelihood": "binomial",
                "trials": 6 * [4] + [9] * 10,
                "y": "poisson",
            },
            "no y is above that",
        ),
        (
            {
                "censoring": ["left"] * (N - 1) + ["none"],
                "likelihood": "categorical",
                "y": "bernoulli",
            },
            "several latent values of a row, so no bounds",
        ),
    ],
)
def test_what_rows_cannot_have_is_refused(given, message):
    y = RESPONSES[given.pop("y", "normal")]
    with pytest.raises(ValueError, match=message):
        bx.GP(X, y, **given)


@pytest.mark.parametrize(
    "options",
    [
        {"likelihood": "poisson"},
        {"censoring": ["right"] + ["none"] * (N - 1)},
    ],
)
def test_a_gpx_with_weights_has_deviations_with_normal_noise_alone(options):
    with pytest.raises(ValueError, match="sigma_w"):
        bx.GPX(X, RESPONSES["poisson"], weights=WEIGHTS, **options)


@pytest.mark.parametrize("estimated", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["weibull", "loglogistic"])
def test_a_linear_kernel_gives_coefficients_of_lifelines(name, estimated):
    """With right-censored durations, and the shape that lifelines found, or that a fit finds."""
    stored = json.loads(lifelines_values.STORED.read_text())[name]
    frame, time, known = lifelines_values.rows()
    model = bx.GP(
        frame.assign(intercept=1.0),
        time,
        kernel="linear",
        likelihood=name,
        censoring=np.where(known, "none", "right"),
        scale=False,
        priors={"amplitude": 1e3} | ({} if estimated else {"shape": stored["shape"]}),
    )
    idata = model.fit("map", seed=1, progressbar=False) if estimated else {}
    found = bx.derivatives(model, idata, obs=[0], on="latent", **SUMMARY)
    off = found["derivative_mean"].values[0, :2] - stored["slopes"]
    most = 0.1 if estimated else 1e-4  # a fit's shape has a prior, and maximizes the evidence
    assert (np.abs(off) < most * np.array(stored["errors"])).all()
    # The errors of lifelines include that of the shape.
    assert_allclose(found["derivative_sd"].values[0, :2], stored["errors"], rtol=0.05)


def test_weights_give_the_coefficients_of_weighted_least_squares():
    y, sigma = RESPONSES["normal"], 0.4
    priors = {"amplitude": 1e4, "sigma": sigma}
    model = bx.GP(X, y, kernel="linear", weights=WEIGHTS, scale=False, priors=priors)
    found = bx.derivatives(model, {}, obs=[0], **SUMMARY)
    covariance = np.linalg.inv(X.T @ (WEIGHTS[:, None] * X)) * sigma**2
    assert_allclose(found["derivative_sd"].values[0], np.sqrt(np.diag(covariance)), rtol=1e-5)
    slopes = covariance @ X.T @ (WEIGHTS * y) / sigma**2
    assert_allclose(found["derivative_mean"].values[0], slopes, rtol=1e-5)


def test_weights_that_drive_the_noise_to_0_are_named():
    with pytest.warns(UserWarning, match="weights have a mean of 1.25"):
        bx.GP(X, RESPONSES["normal"], weights=WEIGHTS)


def test_averages_over_training_rows_count_each_by_its_weight():
    """Relevance, interactions, importances, components and medians are those of repeated rows."""
    weights = np.tile([1, 3], N // 2)
    kinds = pd.Categorical(np.tile([*"abcb"], N // 4))
    rows = pd.DataFrame(X, columns=["p", "q"]).assign(kind=kinds)
    y = np.where(X[:, 0] > 0, np.sin(3 * X[:, 0]), X[:, 1])
    again = np.repeat(np.arange(N), weights)
    theta = {"lengthscale": [0.7, 1.5, 1.0], "amplitude": 1.0}
    options = {"scale": False, "priors": {"sigma": 0.2}}
    one = bx.GP(rows, y, weights=weights, **options)
    many = bx.GP(rows.loc[again].reset_index(drop=True), y[again], **options)
    quiet, held = {"progressbar": False}, {"keep": "summary", "progressbar": False}
    found, expected = (
        (
            bx.relevance(model, theta, **quiet)["average_relevance"],
            bx.interactions(model, theta, **quiet)["average_interaction"],
            bx.attributions(model, theta, rows[:1], baseline="median", **held)["attribution_mean"],
        )
        for model in (one, many)
    )
    for own, other in zip(found, expected, strict=True):
        assert_allclose(own, other, rtol=1e-9)
    own = {"linear_amplitude": 0.5, "expquad_amplitude": 1.0, "expquad_lengthscale": [1.0] * 3}
    shares = [
        bx.components(bx.GP(table, v, kernel="linear + expquad", **w, **options), own, **held)
        for table, v, w in (
            (rows, y, {"weights": weights}),
            (rows.loc[again].reset_index(drop=True), y[again], {}),
        )
    ]
    assert_allclose(shares[0]["share"], shares[1]["share"], rtol=1e-9)


def test_importances_count_rows_by_their_weights():
    """Averages of exact derivatives of a linear function squared, and columns drawn by weight."""
    from bayes_gpx.explain.importances import sobol

    weights = np.tile([1.0, 5.0], N // 2)
    found = [
        sobol(lambda x: (x[:, 0] ** 2 + x[:, 1])[None, None], X, seed, counted=weights)
        for seed in range(20)
    ]
    squares, plain = X[:, 0] ** 2, X[:, 1]
    variance = [
        np.average((v - np.average(v, weights=weights)) ** 2, weights=weights)
        for v in (squares, plain)
    ]
    first = np.mean([own[0][0][0, 0] for own in found], axis=0)
    assert_allclose(first, np.array(variance) / sum(variance), atol=0.01)


@pytest.mark.parametrize("low", [-3.0, -np.inf, np.nan])
@pytest.mark.parametrize("framed", [False, True])
def test_the_upper_end_is_the_bound_of_a_left_censored_row(low, framed):
    """In a table of both ends, where the lower one says nothing."""
    y = RESPONSES["normal"]
    kinds = np.where(y < -0.3, "left", "interval")
    left = kinds == "left"
    ends = np.column_stack([np.where(left, low, y - 0.1), np.where(left, -0.3, y + 0.1)])
    same = np.column_stack([np.where(left, -0.3, y - 0.1), ends[:, 1]])
    theta = {"lengthscale": [0.8, 0.8], "amplitude": 1.0, "sigma": 0.3}
    found, expected = (
        bx.predictions(
            bx.GP(X, pd.DataFrame(table) if framed else table, censoring=kinds),
            theta,
            keep="summary",
            progressbar=False,
        )["f_mean"]
        for table in (ends, same)
    )
    assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="censoring is 'none' at position 0, where y goes from"):
        bx.GP(X, ends + [[0.0, 1.0]], censoring=np.full(N, "none"))
