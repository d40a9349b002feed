"""Likelihoods against SciPy, mpmath and PyMC, far into the tails."""

from functools import partial

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode
from scipy import stats

from bayes_gpx.likelihoods import named
from responses import (
    ELEMENTWISE,
    EXPOSURE,
    KINDS,
    KINDS_BY_NAME,
    TAKES_EXPOSURE,
    THETA,
    function,
    log_density,
    mean_response,
)

F = np.array([-40.0, -12.3, -5.001, -4.999, -1.7, 0.4, 3.1, 20.0, 40.0])
FULL_MODE = Mode(linker="py", optimizer="fast_run")
"""With the rewrites that PyMC's own Bernoulli needs to be right in the tails."""


@pytest.mark.parametrize(("name", "link", "ys"), ELEMENTWISE)
def test_density_and_derivatives_are_right_in_the_tails(name, link, ys):
    for y in ys:
        found = np.array(function(name, link, "given")(F, y)[:4])
        assert np.isfinite(found).all()
        for order in range(4):
            with mp.workdps(130):
                exact = [mp.diff(partial(log_density, name, link, y), mp.mpf(f), order) for f in F]
            assert_allclose(found[order], np.array(exact, float), rtol=1e-10, atol=1e-90)


def test_logit_and_probit_at_700():
    far = np.array([-700.0, 700.0])
    logp, first, second, third = function("bernoulli", "logit", "given")(far, 1.0)[:4]
    assert_allclose(logp, [-700.0, -np.exp(-700.0)], rtol=1e-12)
    assert_allclose(first, [1.0, np.exp(-700.0)], rtol=1e-12)
    assert_allclose(-second, np.exp([-700.0, -700.0]), rtol=1e-12)
    assert_allclose(third, [-np.exp(-700.0), np.exp(-700.0)], rtol=1e-12)
    logp, first, second, third = function("bernoulli", "probit", "given")(far, 1.0)[:4]
    # Mills's ratio at t: log cdf(-t) = -t^2 / 2 - log(t sqrt(2 pi)) - 1 / t^2 + ...
    series = -(700.0**2) / 2 - np.log(700 * np.sqrt(2 * np.pi)) - 700.0**-2
    assert_allclose(logp, [series, 0.0], rtol=1e-14)
    assert_allclose(first, [700 + 1 / 700 - 2 / 700**3, 0.0], rtol=1e-14)
    assert_allclose(second, [-1 + 700.0**-2 - 6 * 700.0**-4, 0.0], rtol=1e-14)
    assert_allclose(third, [2 / 700**3 - 24 / 700**5, 0.0], rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "theta"),
    [
        ("student_t", {"nu": 0.4}),
        ("student_t", {"nu": 49.9}),
        ("student_t", {"nu": 50.1}),
        ("student_t", {"nu": 1e9}),
        ("negative_binomial", {"dispersion": 1e-3}),
        ("negative_binomial", {"dispersion": 24.9}),
        ("negative_binomial", {"dispersion": 25.1}),
        ("negative_binomial", {"dispersion": 1e9}),
    ],
)
def test_density_for_any_shape_of_the_distribution(name, theta):
    for y in (0.0, 7.0, 5000.0):
        found = function(name, KINDS_BY_NAME[name], "given")([1.3], y, **theta)[0]
        with mp.workdps(60):
            exact = float(log_density(name, None, y, 1.3, **theta))
        assert_allclose(found, exact, rtol=1e-11)


def test_densities_agree_with_scipy(rng):
    f, mu = rng.normal(size=9), EXPOSURE * np.exp(1.2)
    counts = np.arange(9.0)
    sigma, nu, a = THETA.values()
    for (name, link), y, expected in [
        (("normal", "identity"), f, stats.norm.logpdf(f, 1.2, sigma)),
        (("student_t", "identity"), f, stats.t.logpdf(f, nu, 1.2, sigma)),
        (("poisson", "log"), counts, stats.poisson.logpmf(counts, mu)),
        (("negative_binomial", "log"), counts, stats.nbinom.logpmf(counts, a, a / (a + mu))),
    ]:
        assert_allclose(function(name, link, "given")(1.2, y)[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "key"),
    [("normal", "sigma"), ("student_t", "sigma"), ("student_t", "nu")]
    + [("negative_binomial", "dispersion")],
)
def test_slopes_in_hyperparameters(name, key):
    """Of the density and its first two derivatives: what a Laplace gradient needs."""
    call, link = function(name, KINDS_BY_NAME[name], "given"), KINDS_BY_NAME[name]
    place = list(THETA).index(key)
    for value in (0.3, 4.0, 60.0):
        found = call([0.8], 3.0, **{key: value})[4:]
        for order in range(3):
            with mp.workdps(60):
                exact = mp.diff(
                    lambda t, order=order: mp.diff(
                        lambda f: log_density(name, link, 3.0, f, **{key: t}), mp.mpf(0.8), order
                    ),
                    mp.mpf(value),
                )
            assert_allclose(found[3 * order + place], float(exact), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(("name", "link"), KINDS)
def test_fisher_information_is_the_expected_squared_slope(name, link):
    f = np.array([-3.0, 0.2, 2.0])
    (found,) = function(name, link, "alone")(f)
    for place, value in enumerate(f):
        if name in ("normal", "student_t"):
            ys = value + np.sinh(np.linspace(-30, 30, 40001))
            weights = np.gradient(ys)
        else:
            ys = np.arange(2.0 if name == "bernoulli" else 2000.0)
            weights = np.ones(len(ys))
        logp, slope = function(name, link, "given")(value, ys)[:2]
        assert_allclose(found[place], np.sum(weights * np.exp(logp) * slope**2), rtol=1e-5)


def test_fisher_information_of_labels_in_the_tails():
    assert_allclose(function("bernoulli", "logit", "alone")(F)[0], 1 / (2 + 2 * np.cosh(F)))
    with mp.workdps(400):
        exact = [mp.npdf(f) ** 2 / (mp.ncdf(f) * mp.ncdf(-f)) for f in F.tolist()]
    exact = np.array(exact, float)
    assert_allclose(function("bernoulli", "probit", "alone")(F)[0], exact, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("name", "link"), KINDS)
def test_response_and_its_derivatives(name, link):
    found = function(name, link, "response")(F)
    for order, values in enumerate(found):
        with mp.workdps(130):
            exact = [mp.diff(lambda f: mean_response(name, link, f), mp.mpf(f), order) for f in F]
        assert_allclose(values, np.array(exact, float), rtol=1e-12, atol=1e-90)


@pytest.mark.parametrize(("name", "link", "ys"), ELEMENTWISE)
def test_distribution_in_pymc_has_the_same_density(name, link, ys):
    likelihood, f = named(name, link), F
    exposure = EXPOSURE if name in TAKES_EXPOSURE else None
    for y in ys:
        kind = float if name in ("normal", "student_t") else int
        observed = np.full(len(f), kind(y))
        with pm.Model(coords={"obs": range(len(f))}) as model:
            latent = pm.Flat("f", dims="obs")
            theta = {key: pt.as_tensor(value) for key, value in THETA.items()}
            made = likelihood.dist("y", latent, theta, exposure, observed=observed, dims="obs")
        assert model.named_vars["y"] is made
        logp = model.compile_logp(vars=[made], sum=False, mode=FULL_MODE)({"f": f})[0]
        assert_allclose(logp, function(name, link, "given")(f, y)[0], rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize(("name", "link"), KINDS)
def test_draws_have_the_right_mean(name, link, rng):
    f = np.repeat([-1.0, 0.5, 1.5], 40000)
    exposure = EXPOSURE if name in TAKES_EXPOSURE else None
    drawn = named(name, link).draw(f, {**THETA, "nu": 9.0}, rng, exposure).reshape(3, -1)
    expected = function(name, link, "response")(f[::40000])[0]
    assert (np.abs(drawn.mean(axis=1) - expected) < 4 * drawn.std(axis=1) / 200).all()
    information = function(name, link, "alone")(f[::40000], nu=9.0)[0]
    if name not in ("normal", "student_t"):
        slope = function(name, link, "response")(f[::40000])[1]
        assert_allclose(drawn.var(axis=1), slope**2 / information, rtol=0.06)


@pytest.mark.parametrize(
    ("name", "theta"), [("beta", {"precision": 0.02}), ("gamma", {"shape": 1e-3})]
)
def test_draws_that_round_to_the_end_of_the_support_are_in_it(name, theta, rng):
    """So that they can be fitted: half of these are nearer to an end than any number."""
    likelihood, f = named(name), np.repeat([-2.0, 0.0, 2.0], 100)
    y = likelihood.draw(f, theta, rng)
    assert (likelihood.read(y)[0] == y).all()
    known = {key: pt.as_tensor(np.float64(value)) for key, value in theta.items()}
    logp = likelihood.logp(pt.as_tensor(f), pt.as_tensor(y), known)
    assert np.isfinite(logp.eval()).all()


def test_counts_beyond_any_integer_are_drawn(rng):
    drawn = named("poisson").draw(np.array([50.0, 2.0]), {}, rng)
    assert drawn[0] == np.exp(50.0)
    assert drawn[1] < 40
