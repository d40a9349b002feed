"""Families of likelihoods against SciPy's densities, limits and searches."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from scipy.special import expit, gamma

import bayes_gpx as bx
from bayes_gpx.cli import main
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.derived import FARTHEST
from bayes_gpx.numerics.compile_modes import MODE

QUIET = {"progressbar": False}


def inflated(base):
    """Counts of a distribution `base(rate)` of SciPy, with zeros of their own."""

    def of(f, inflation, **rest):
        counts = base(np.exp(f) / (1.0 - inflation), **rest)

        class Inflated:
            def logpdf(self, y):
                p = (1.0 - inflation) * counts.pmf(y)
                return np.log(np.where(y == 0, inflation + p, p))

            def cdf(self, y):
                return inflation + (1.0 - inflation) * counts.cdf(y)

            def mean(self):
                return (1.0 - inflation) * counts.mean()

        return Inflated()

    return of


FAMILIES = {
    "lognormal": (
        lambda f, sigma: stats.lognorm(sigma, scale=np.exp(f - sigma**2 / 2)),
        {"sigma": 0.7},
    ),
    "gamma": (lambda f, shape: stats.gamma(shape, scale=np.exp(f) / shape), {"shape": 2.5}),
    "weibull": (
        lambda f, shape: stats.weibull_min(shape, scale=np.exp(f) / gamma(1 + 1 / shape)),
        {"shape": 1.7},
    ),
    "loglogistic": (lambda f, shape: stats.fisk(shape, scale=np.exp(f)), {"shape": 3.5}),
    "beta": (
        lambda f, precision: stats.beta(precision * expit(f), precision * expit(-f)),
        {"precision": 9.0},
    ),
    "zero_inflated_poisson": (inflated(stats.poisson), {"inflation": 0.3}),
    "zero_inflated_negative_binomial": (
        inflated(lambda rate, dispersion: stats.nbinom(dispersion, 1 / (1 + rate / dispersion))),
        {"inflation": 0.3, "dispersion": 2.0},
    ),
}  # fmt: skip
ALL = pytest.mark.parametrize("name", FAMILIES)


def responses(name):
    """Some possible y."""
    if named(name).discrete:
        return np.array([0.0, 1.0, 4.0, 19.0])
    return np.array([0.02, 0.4, 0.9, 0.99]) * (1.0 if name == "beta" else 6.0)


def symbols(theta):
    """Hyperparameters in double precision."""
    return {name: pt.as_tensor(np.float64(value)) for name, value in theta.items()}


@ALL
def test_densities_are_scipys(name):
    make, theta = FAMILIES[name]
    likelihood, f = named(name), np.array([-1.2, 0.0, 0.4, 2.0])
    y = responses(name)
    found = [
        likelihood.logp(pt.as_tensor(f), pt.as_tensor(y), symbols(theta)),
        likelihood.cumulative(pt.as_tensor(f), pt.as_tensor(y), symbols(theta)),
        likelihood.response(pt.as_tensor(f)).value,
    ]
    logp, below, mean = pm.draw(found, mode=MODE)
    exact = make(f, **theta)
    assert_allclose(logp, exact.logpdf(y), rtol=1e-10)
    assert_allclose(below, exact.cdf(y), rtol=1e-8)
    center = exact.median() if likelihood.level else exact.mean()
    assert_allclose(mean, center, rtol=1e-10)


@ALL
def test_variance_and_information_are_averages_over_y(name):
    """The information is the mean square of the slope, by differences of SciPy's density."""
    make, theta = FAMILIES[name]
    likelihood, h = named(name), 1e-5
    for f in (-0.5, 0.8):
        exact = make(f, **theta)
        if likelihood.discrete:
            y = np.arange(60.0)
            weights = np.exp(exact.logpdf(y))
        else:  # quantiles in the middle of equal steps of a logistic variable
            u, step = np.linspace(-34.0, 34.0, 200_001, retstep=True)
            y = exact.isf(expit(-u)) if name != "beta" else exact.ppf(expit(u))
            weights = expit(u) * expit(-u) * step
        slope = (make(f + h, **theta).logpdf(y) - make(f - h, **theta).logpdf(y)) / (2 * h)
        known = np.isfinite(slope)
        information = weights[known] @ slope[known] ** 2
        center = exact.median() if likelihood.level else exact.mean()
        found = pm.draw(likelihood.fisher(pt.as_tensor(np.array([f])), symbols(theta)), mode=MODE)
        assert_allclose(found, information, rtol=1e-4)
        spread = weights[known] @ (y[known] - center) ** 2
        assert_allclose(likelihood.variance(f, theta), spread, rtol=1e-3)


@ALL
def test_log_densities_go_on_as_straight_lines(name):
    """Far out, so that nothing overflows: with the height and slope of the last point."""
    theta = FAMILIES[name][1]
    likelihood, y = named(name), responses(name)[1:3]
    f = np.array([FARTHEST - 1e-4, FARTHEST, FARTHEST + 5.0, FARTHEST + 10.0])[:, None]
    grid = pt.as_tensor(f + 0.0 * y)
    found = likelihood.logp(grid, pt.as_tensor(y + 0.0 * f), symbols(theta))
    logp = pm.draw(found, mode=MODE)
    slope = (logp[1] - logp[0]) / 1e-4
    assert np.isfinite(logp).all()
    if name == "lognormal":  # in closed form, which does not overflow: a parabola
        assert_allclose(logp[3] - 2.0 * logp[2] + logp[1], -25.0 / theta["sigma"] ** 2)
        return
    if name == "loglogistic":
        slope = np.full(2, -theta["shape"])
    assert_allclose(logp[2] - logp[1], 5.0 * slope, rtol=1e-4, atol=1e-3)
    assert_allclose(logp[3] - logp[2], logp[2] - logp[1], rtol=1e-10)


@ALL
def test_modes_are_those_of_a_dense_search(name):
    make, theta = FAMILIES[name]
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 1))
    y = named(name).draw(np.sin(2.0 * X[:, 0]), theta, rng)
    model = bx.GP(X, y, likelihood=name, scale=False)
    found = bx.predictions(
        model, {"lengthscale": [1.0], "amplitude": 1.0, **theta}, on="latent", **QUIET
    )
    K = np.exp(-0.5 * (X - X.T) ** 2)
    values, vectors = np.linalg.eigh(K)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    height = lambda v: 0.5 * v @ v - make(L @ v, **theta).logpdf(y).sum()  # noqa: E731
    mode = L @ optimize.minimize(height, np.zeros(12), method="BFGS", tol=1e-9).x
    assert_allclose(found["f_mean"], mode, atol=2e-4)
    W = information(name, mode, y)
    covariance = K - K @ np.linalg.solve(K + np.diag(1.0 / W), K)
    assert_allclose(found["f_sd"], np.sqrt(np.diag(covariance)), rtol=2e-3)


def information(name, f, y, h=1e-4):
    """What Laplace's approximation takes by the words that fits have in an attribute."""
    make, theta = FAMILIES[name]
    low, here, high = (make(f + step, **theta).logpdf(y) for step in (-h, 0.0, h))
    slope, observed = (high - low) / (2.0 * h), (2.0 * here - low - high) / h**2
    return {
        "observed": observed,
        "observed, kept positive": (observed + np.sqrt(observed**2 + 0.01 * slope**4)) / 2.0,
        "Fisher": pm.draw(named(name).fisher(pt.as_tensor(f), symbols(theta)), mode=MODE),
    }[named(name).information_at_mode]


@pytest.mark.parametrize("name", [name for name in FAMILIES if "inflated" in name])
def test_slopes_of_densities_with_an_information_that_depends_on_y(name):
    theta = FAMILIES[name][1]
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 1))
    y = named(name).draw(2.0 * np.sin(2.0 * X[:, 0]), theta, rng)
    density = Density(bx.GP(X, y, likelihood=name).objective, jacobian=True)
    at, height = density.unconstrain({**theta, "amplitude": 1.5}), density.value_and_slope()
    steps = 1e-5 * np.eye(len(at))
    slopes = [(height(at + step)[0] - height(at - step)[0]) / 2e-5 for step in steps]
    assert_allclose(height(at)[1], slopes, rtol=1e-5, atol=1e-6)


def test_a_wide_lognormal_density_is_a_parabola():
    """It is centered at f = 72, beyond the f of rates that overflow."""
    f, y, sigma = np.array([-300.0, 0.0, 50.0, 72.0, 300.0]), np.full(5, 2.0), 12.0
    found = pm.draw(named("lognormal").logp(f, y, {"sigma": sigma}), mode=MODE)
    assert_allclose(found, stats.norm(f - sigma**2 / 2, sigma).logpdf(np.log(y)) - np.log(y))


@ALL
def test_impossible_responses_are_refused(name):
    likelihood = named(name)
    y = np.array([0.3, 0.5, -1.0, 0.7]) if not likelihood.discrete else np.array([1, 2, 0.5, 3])
    said = {"counts": "'gamma' or 'lognormal'"}.get(likelihood.support, "'normal' or 'student_t'")
    with pytest.raises(ValueError, match=rf"y is {y[2]} at position 2, but .*likelihood={said}"):
        bx.GP(np.eye(4), y, likelihood=name)


def logp(name, theta, shift=0.0):
    """Log densities at some f and y."""
    f, y = pt.as_tensor(np.array([-1.0, 0.5, 2.0])), pt.as_tensor(np.array([0.0, 2.0, 9.0]))
    return pm.draw(named(name).logp(f, y + shift, symbols(theta)), mode=MODE)


def test_limits():
    poisson, binomial = logp("poisson", {}), logp("negative_binomial", {"dispersion": 2.0})
    assert_allclose(logp("zero_inflated_poisson", {"inflation": 0.0}), poisson, rtol=1e-12)
    theta = {"inflation": 0.0, "dispersion": 2.0}
    assert_allclose(logp("zero_inflated_negative_binomial", theta), binomial, rtol=1e-12)
    theta = {"inflation": 0.3, "dispersion": 1e9}
    inflated = logp("zero_inflated_poisson", {"inflation": 0.3})
    assert_allclose(logp("zero_inflated_negative_binomial", theta), inflated, rtol=1e-7)
    exponential = stats.expon(scale=np.exp([-1.0, 0.5, 2.0])).logpdf(np.array([1.0, 3.0, 10.0]))
    for name in ("gamma", "weibull"):
        assert_allclose(logp(name, {"shape": 1.0}, shift=1.0), exponential, rtol=1e-10)


def test_a_gamma_model_answers_on_the_scale_of_y_whatever_its_unit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 1))
    y = rng.gamma(5.0, np.exp(np.sin(X[:, 0])) / 5.0)
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "shape": 5.0}
    found = [
        bx.predictions(bx.GP(X, unit * y, likelihood="gamma"), theta, seed=1, draws=4, **QUIET)
        for unit in (1.0, 1000.0)
    ]
    assert_allclose(1000.0 * found[0]["mean_mean"], found[1]["mean_mean"], rtol=1e-8)
    assert np.corrcoef(found[0]["mean_mean"], np.exp(np.sin(X[:, 0])))[0, 1] > 0.8


def test_the_command_takes_a_family(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.normal(size=20)
    y = rng.gamma(5.0, np.exp(np.sin(x)) / 5.0)
    rows = "\n".join(f"{a},{b}" for a, b in zip(x, y, strict=True))
    (tmp_path / "data.csv").write_text(f"x,y\n{rows}\n")
    words = ["fit", f"{tmp_path}/data.csv", "--target", "y", "--model", "gp", "--method", "map"]
    assert main([*words, "--likelihood", "gamma", "--out", f"{tmp_path}/run", "--quiet"]) == 0
    model, idata = bx.load(f"{tmp_path}/run/fit.nc")
    assert model.specification.likelihood == "gamma" and "shape" in idata["posterior"]


def test_the_search_arrives_where_expected_information_alone_does_not():
    rng = np.random.default_rng(85)
    X = rng.normal(size=(25, 2))
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) + 1e-9 * np.eye(25)
    name, theta = "zero_inflated_negative_binomial", {"inflation": 0.3, "dispersion": 3.0}
    y = named(name).draw(np.linalg.cholesky(K) @ rng.normal(size=25), theta, rng)
    model = bx.GP(X, y, likelihood=name, scale=False)
    known = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, **theta}
    assert np.isfinite(bx.predictions(model, known, on="latent", **QUIET)["f_mean"]).all()
