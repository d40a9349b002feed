"""Likelihoods against SciPy, mpmath at 60 digits and PyMC, far into the tails."""

from functools import cache, partial

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode
from scipy import stats

from bayes_gpx.density import MODE
from bayes_gpx.likelihoods import named

F = np.array([-40.0, -12.3, -5.001, -4.999, -1.7, 0.0, 0.4, 3.1, 8.2, 20.0, 40.0])
THETA = {"sigma": 0.7, "nu": 3.3, "dispersion": 1.8}
EXPOSURE = 2.5

ELEMENTWISE = [
    ("normal", "identity", (0.3,)),
    ("student_t", "identity", (0.3, -35.0)),
    ("bernoulli", "logit", (0.0, 1.0)),
    ("bernoulli", "probit", (0.0, 1.0)),
    ("poisson", "log", (0.0, 1.0, 300.0)),
    ("negative_binomial", "log", (0.0, 1.0, 300.0)),
]
FULL_MODE = Mode(linker="py", optimizer="fast_run")
"""With the rewrites that PyMC's own Bernoulli needs to be right in the tails."""

KINDS = [case[:2] for case in ELEMENTWISE]
KINDS_BY_NAME = dict(KINDS)
TAKES_EXPOSURE = ("poisson", "negative_binomial")


@cache
def function(name, link, what):
    """Compile one method of a likelihood; a function of its arrays, theta and the exposure."""
    likelihood = named(name, link)
    arrays = {
        "given": ["f", "y"],
        "alone": ["f"],
        "response": ["f"],
        "expected": ["mean", "variance"],
        "log_predictive": ["y", "mean", "variance"],
    }[what]
    arrays = [pt.dvector(array) for array in arrays]
    theta = {key: pt.dscalar(key) for key in THETA}
    exposure = pt.dvector("exposure")
    used = exposure if name in TAKES_EXPOSURE else None
    if what == "given":
        logp = likelihood.logp(*arrays, theta, used)
        derivatives = likelihood.derivatives(*arrays, theta, used)
        slopes = [
            pt.grad(total.sum(), list(theta.values()), disconnected_inputs="ignore")
            for total in (logp, derivatives[0], derivatives[1])
        ]
        outputs = [logp, *derivatives, *[slope for of_one in slopes for slope in of_one]]
    elif what == "alone":
        outputs = [likelihood.fisher(*arrays, theta, used)]
    elif what == "log_predictive":
        outputs = [likelihood.log_predictive(*arrays, theta, used)]
    else:
        outputs = list(getattr(likelihood, what)(*arrays, used))
    inputs = [*arrays, *theta.values(), exposure]
    compiled = pytensor.function(inputs, outputs, mode=MODE, on_unused_input="ignore")

    def call(*values, exposure=EXPOSURE, **theta):
        values = np.broadcast_arrays(*[np.atleast_1d(np.asarray(v, float)) for v in values])
        hyper = [np.asarray(value, float) for value in {**THETA, **theta}.values()]
        return compiled(*values, *hyper, np.full(len(values[0]), float(exposure)))

    return call


def log_density(name, link, y, f, **theta):
    """Log density of y given f from textbook formulas, for mpmath numbers."""
    sigma, nu, a = (mp.mpf(value) for value in {**THETA, **theta}.values())
    y, f = mp.mpf(y), mp.mpmathify(f)
    if name == "normal":
        return -mp.log(sigma * mp.sqrt(2 * mp.pi)) - ((y - f) / sigma) ** 2 / 2
    if name == "student_t":
        constant = mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(nu * mp.pi) / sigma
        return mp.log(constant) - (nu + 1) / 2 * mp.log(1 + ((y - f) / sigma) ** 2 / nu)
    if name == "bernoulli":
        z = f if y else -f
        return -mp.log(1 + mp.exp(-z)) if link == "logit" else mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)
    mu = EXPOSURE * mp.exp(f)
    if name == "poisson":
        return y * mp.log(mu) - mu - mp.loggamma(y + 1)
    choose = mp.loggamma(y + a) - mp.loggamma(a) - mp.loggamma(y + 1)
    return choose + a * mp.log(a / (a + mu)) + y * mp.log(mu / (a + mu))


def mean_response(name, link, f):
    """Mean of y given f from textbook formulas, for mpmath numbers."""
    if name == "bernoulli":
        return 1 / (1 + mp.exp(-f)) if link == "logit" else mp.erfc(-f / mp.sqrt(2)) / 2
    return EXPOSURE * mp.exp(f) if name in TAKES_EXPOSURE else f


@pytest.mark.parametrize(("name", "link", "ys"), ELEMENTWISE)
def test_density_and_derivatives_are_right_in_the_tails(name, link, ys):
    for y in ys:
        found = np.array(function(name, link, "given")(F, y)[:4])
        assert np.isfinite(found).all()
        for order in range(4):
            with mp.workdps(400 if link == "probit" else 100):
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
        with mp.workdps(400 if link == "probit" else 100):
            exact = [mp.diff(lambda f: mean_response(name, link, f), mp.mpf(f), order) for f in F]
        assert_allclose(values, np.array(exact, float), rtol=1e-12, atol=1e-90)


MOMENTS = [(0.3, 0.0), (-1.2, 0.4), (8.0, 1.0), (-30.0, 2.0), (30.0, 2.1), (-4.0, 5.0)]
MOMENTS += [(2.0, 10.0), (30.0, 10.0), (-30.0, 10.0)]


def gaussian_integral(log_h, mean, sd, reach):
    """E[exp(log_h(f))] where f ~ N(mean, sd^2), by mpmath's Gauss-Legendre quadrature.

    On panels over where the integrand is above exp(-40) of its peak; this lies within `reach` or
    16 sd of the mean.
    """
    if sd == 0:
        return mp.exp(log_h(mp.mpf(mean)))
    height = lambda f: log_h(f) - ((f - mp.mpf(mean)) / sd) ** 2 / 2  # noqa: E731
    low, high = min(reach[0], mean - 16 * sd), max(reach[1], mean + 16 * sd)
    for _ in range(3):
        f = np.linspace(low, high, 80)
        seen = np.array([float(height(value)) for value in f.tolist()])
        seen = np.flatnonzero(seen > seen.max() - 40)
        low, high = f[max(seen[0] - 1, 0)], f[min(seen[-1] + 1, 79)]
    top = height(mp.mpf((low + high) / 2))
    panels = np.linspace(low, high, 60).tolist()
    whole = mp.quad(lambda f: mp.exp(height(f) - top), panels, method="gauss-legendre", maxdegree=3)
    return whole * mp.exp(top) / (sd * mp.sqrt(2 * mp.pi))


@pytest.mark.parametrize(("name", "link"), KINDS)
def test_expected_response_and_its_derivatives(name, link):
    means, sds = np.array(MOMENTS).T
    found = np.array(function(name, link, "expected")(means, sds**2))
    if name in TAKES_EXPOSURE:
        assert_allclose(found, [EXPOSURE * np.exp(means + sds**2 / 2)] * 3, rtol=1e-14)
        return
    if name != "bernoulli":
        assert_allclose(found, [means, np.ones(9), np.zeros(9)])
        return
    log_p = partial(log_density, name, link, 1.0)
    log_slope = (lambda f: log_p(f) + log_p(-f)) if link == "logit" else (lambda f: -f * f / 2)
    up = lambda f: log_slope(f) + mp.log(1 + mp.tanh(f / 2))  # noqa: E731
    exact = np.empty((3, len(means)))
    for place, moments in enumerate(MOMENTS):
        value, slope = (gaussian_integral(h, *moments, (-40, 40)) for h in (log_p, log_slope))
        if link == "logit":
            curvature = slope - gaussian_integral(up, *moments, (-40, 40))
        else:
            slope /= mp.sqrt(2 * mp.pi)
            mean, sd = moments
            curvature = -slope * mean / (1 + sd**2)
        exact[:, place] = value, slope, curvature
    assert_allclose(found[:2], exact[:2], rtol=1e-10)
    assert_allclose(found[2], exact[2], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "link", "ys"), ELEMENTWISE)
def test_log_predictive_density(name, link, ys):
    means, sds = np.array(MOMENTS).T
    for y in ys:
        (found,) = function(name, link, "log_predictive")(y, means, sds**2)
        log_p = partial(log_density, name, link, y)
        if name == "student_t":
            exact = [float(mp.log(mixed_integral(log_p, y, *moments))) for moments in MOMENTS]
        else:
            reach = (-40, max(40, y)) if name == "normal" else (-40, 40)
            exact = [float(mp.log(gaussian_integral(log_p, *m, reach))) for m in MOMENTS]
        assert_allclose(found, exact, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("nu", "sigma", "y"), [(0.5, 0.01, 9.0), (1.0, 1e-3, -2.0), (30.0, 0.01, 4.0), (1e4, 0.2, 3.0)]
)
def test_log_predictive_density_of_outliers(nu, sigma, y):
    log_p = partial(log_density, "student_t", None, y, nu=nu, sigma=sigma)
    for sd in (1e-4, 0.3, 5.0):
        call = function("student_t", "identity", "log_predictive")
        (found,) = call(y, [0.1], [sd**2], sigma=sigma, nu=nu)
        exact = float(mp.log(mixed_integral(log_p, y, 0.1, sd, sigma)))
        assert_allclose(found[0], exact, rtol=1e-10, atol=1e-12)


def mixed_integral(log_p, y, mean, sd, sigma=THETA["sigma"]):
    """As `gaussian_integral`, for a density that peaks at y with poles beside it."""
    if sd == 0:
        return mp.exp(log_p(mp.mpf(mean)))
    near = [y + s * sigma * 2.0**k for k in range(-2, 30) for s in (-1, 1)] + [y]
    low, high = min(y, mean) - 12 * sd, max(y, mean) + 12 * sd
    points = [*near, *np.linspace(low, high, 80), *(mean + sd * np.arange(-12, 13))]
    points = sorted({float(p) for p in points if low <= p <= high})
    integrand = lambda f: mp.exp(log_p(f)) * mp.npdf(f, mean, sd)  # noqa: E731
    return mp.quad(integrand, points, method="gauss-legendre", maxdegree=4)


@pytest.mark.parametrize(("name", "link"), KINDS[2:])
def test_predictive_probabilities_sum_to_one(name, link):
    ys = np.arange(2.0 if name == "bernoulli" else 4000.0)
    for mean, sd in [(0.4, 0.0), (-1.0, 1.0), (2.0, 0.9)]:
        (log_p,) = function(name, link, "log_predictive")(ys, mean, sd**2)
        assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-4 if len(ys) > 2 else 1e-12)


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


def test_counts_beyond_any_integer_are_drawn(rng):
    drawn = named("poisson").draw(np.array([50.0, 2.0]), {}, rng)
    assert drawn[0] == np.exp(50.0)
    assert drawn[1] < 40
