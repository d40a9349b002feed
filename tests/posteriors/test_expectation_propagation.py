"""Expectation propagation of labels, counts and bounds: against grids of weights, and gradients."""

from functools import cache

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import multivariate_normal, nbinom, poisson

from bayes_gpx.likelihoods import named
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401
from bayes_gpx.posteriors.evidence.expectation_propagation import all_sites
from bayes_gpx.posteriors.strategies.propagation import _evidence

INF = np.inf
KINDS = [
    ("bernoulli", "logit", {}),
    ("bernoulli", "probit", {}),
    ("poisson", None, {}),
    ("negative_binomial", None, {"dispersion": 1.7}),
]


@cache
def function_of(name, link=None, mode=MODE):
    """Log evidence, its gradient in C and hyperparameters, and the sites."""
    likelihood = named(name, link)
    C, arrays = pt.dmatrix("C"), pt.dvectors("y", "exposure", "low", "high")
    y, exposure, *bounds = arrays
    theta = {key: pt.dscalar(key) for key in likelihood.hyperparameters}
    found = all_sites(likelihood, C, y, theta, exposure, *bounds)
    evidence = _evidence(C, found)
    slopes = pt.grad(evidence, [C, *theta.values()])
    outputs = [evidence, *slopes, *found[:4]]
    inputs = [C, *arrays, *theta.values()]
    return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")


def problem(rng, name, n=6):
    """Covariance of f at n rows and of three values, responses, exposure, and bounds."""
    A = rng.normal(size=(n + 3, 3 * (n + 3)))
    C = 1.5 * A @ A.T / A.shape[1]
    C[range(n, n + 3), range(n, n + 3)] += 1e-2
    y = rng.integers(0, 2, n) if name == "bernoulli" else rng.poisson(3.0, n)
    bounds = np.array([0.4, 0.1, -0.3]), np.array([0.4, INF, 0.9])
    return C, y.astype(float), np.full(n, 1.3), *bounds


def log_probability(name, link, y, f, exposure, dispersion=None):
    if name == "bernoulli":
        sign = 2 * y - 1
        return log_ndtr(sign * f) if link == "probit" else np.log(expit(sign * f))
    rate = exposure * np.exp(f)
    if name == "poisson":
        return poisson.logpmf(y, rate)
    return nbinom.logpmf(y, dispersion, dispersion / (dispersion + rate))


def test_normal_noise_is_exact(rng):
    """Then the sites are the data, and what bounds know is as `joint_logp` has it."""
    C, y, exposure, low, high = problem(rng, "poisson")
    high[1:] = low[1:] = 0.3, -0.2  # values, so that nothing is approximate
    y, sigma, n = y - 3.0, 1.4, len(y)
    evidence, in_C, in_sigma, mean, variance, center, spread = function_of("normal")(
        C, y, exposure, low, high, sigma
    )
    noisy = C + np.diag([*[sigma**2] * n, 0, 0, 0])
    seen = np.append(y, low)
    joint = multivariate_normal(np.zeros(n + 3), noisy)
    assert_allclose(evidence, joint.logpdf(seen), rtol=1e-10)
    assert_allclose(mean, seen, rtol=1e-8, atol=1e-8)
    assert_allclose(variance, [*[sigma**2] * n, 0, 0, 0], rtol=1e-8)
    for i in range(n):
        rest = np.delete(np.arange(n + 3), i)
        gain = np.linalg.solve(noisy[np.ix_(rest, rest)], noisy[rest, i])
        assert_allclose(center[i], gain @ seen[rest], rtol=1e-8, atol=1e-9)
        assert_allclose(spread[i], C[i, i] - gain @ noisy[rest, i], rtol=1e-8)
    inverse = np.linalg.inv(noisy)
    exact = 0.5 * (np.outer(inverse @ seen, inverse @ seen) - inverse)
    assert_allclose(np.triu(in_C) + np.tril(in_C).T, 2 * np.triu(exact), rtol=1e-7, atol=1e-8)
    assert_allclose(in_sigma, 2 * sigma * np.trace(exact[:n, :n]), rtol=1e-7)


@pytest.mark.parametrize(("name", "link", "theta"), KINDS)
def test_moments_and_evidence_are_those_of_weighed_draws(rng, name, link, theta):
    """Within the Monte Carlo error and what is known of EP's own, 1 % of an sd."""
    C, y, exposure, low, high = problem(rng, name)
    n, known = len(y), 6
    evidence, *_, mean, variance, _, _ = function_of(name, link)(
        C, y, exposure, low, high, *theta.values()
    )
    noisy = C + np.diag(variance)
    gain = np.linalg.solve(noisy, C).T
    rest = np.delete(np.arange(n + 3), known)  # the known value's own variance is round-off
    found, sd = (gain @ mean)[rest], np.sqrt(np.diag(C - gain @ C)[rest])
    # Draws given the known value, weighed by the density of y where the bounds hold.
    slope = C[rest, known] / C[known, known]
    cov = C[np.ix_(rest, rest)] - np.outer(slope, C[known, rest])
    draws = rng.multivariate_normal(slope * low[0], cov, 300_000)
    inside = ((draws[:, n:] > low[1:]) & (draws[:, n:] < high[1:])).all(axis=1)
    draws = draws[inside]
    logs = log_probability(name, link, y, draws[:, :n], exposure, **theta).sum(axis=1)
    weights = np.exp(logs)
    alone = -0.5 * (np.log(2 * np.pi * C[known, known]) + low[0] ** 2 / C[known, known])
    effective = weights.sum() ** 2 / (weights**2).sum()
    assert effective > 1000
    exact = np.log(weights.sum() / len(inside)) + alone
    assert abs(evidence - exact) < 4 / np.sqrt(effective) + 0.02
    share = weights / weights.sum()
    centre = share @ draws
    spread = np.sqrt(share @ (draws - centre) ** 2)
    assert (np.abs(found - centre) < spread * (4 / np.sqrt(effective) + 0.02)).all()
    assert (np.abs(sd / spread - 1) < 4 / np.sqrt(effective) + 0.02).all()
    assert not np.allclose(found, slope * low[0], atol=0.1)


@pytest.mark.parametrize(("name", "link", "theta"), KINDS)
def test_the_evidence_has_its_own_gradient(rng, name, link, theta):
    given, function = problem(rng, name), function_of(name, link)
    C, *rest = given
    way, own = np.cov(rng.normal(size=(len(C), 40))), np.array(list(theta.values()))

    def evidence(t, by=0.0):
        return function(C + t * way, *rest, *(own + by))[0]

    def central(h):
        return (8 * (evidence(h) - evidence(-h)) - evidence(2 * h) + evidence(-2 * h)) / (12 * h)

    found = function(*given, *own)
    assert_allclose(central(1e-3), (found[1] * way).sum(), rtol=1e-5)
    if theta:
        h = 1e-4
        assert_allclose((evidence(0, h) - evidence(0, -h)) / (2 * h), found[2], rtol=1e-5)


def test_a_single_label_is_exact():
    """One site has the tilted moments themselves; the evidence is a closed form."""
    none, C, f = np.zeros(0), np.array([[2.0]]), function_of("bernoulli", "probit")
    evidence, _, mean, variance, center, spread = f(C, np.ones(1), np.ones(1), none, none)
    assert_allclose(evidence, np.log(0.5), rtol=1e-9)
    assert_allclose([center[0], spread[0]], [0.0, 2.0], atol=1e-9)
    precision = 1 / 2.0 + 1 / variance[0]
    density = 2 * np.exp(0) / np.sqrt(2 * np.pi * 3.0)
    assert_allclose(mean[0] / variance[0] / precision, 2.0 * density, rtol=1e-6)
    assert_allclose(1 / precision, 2.0 - 4.0 * density**2, rtol=1e-6)


def test_bounds_that_always_hold_say_nothing(rng):
    C, y, exposure, low, high = problem(rng, "bernoulli")
    function = function_of("bernoulli", "logit")
    wide = function(C, y, exposure, np.full(3, -40.0), np.full(3, INF))
    alone = function(C[:6, :6], y, exposure, np.zeros(0), np.zeros(0))
    assert_allclose(wide[0], alone[0], rtol=1e-9)
    for one, other in zip(wide[2:], alone[2:], strict=True):
        assert_allclose(one[:6], other, rtol=1e-5, atol=1e-6)


def test_rows_at_one_place_share_what_they_say():
    """All sites are the same then, and solve two equations of one variable."""
    n, amplitude, none = 30, 5.0, np.zeros(0)
    C, ones = np.full((n, n), amplitude**2), np.ones(n)
    found = function_of("bernoulli", "probit")(C, ones, ones, none, none)
    mean, variance, center, spread = found[2:]
    assert max(np.ptp(values) / values[0] for values in found[2:]) < 1e-6
    tau, nu = 1 / variance[0], mean[0] / variance[0]
    others = 1 / amplitude**2 + (n - 1) * tau
    assert_allclose([center[0], spread[0]], [(n - 1) * nu / others, 1 / others], rtol=1e-6)
    grid = center[0] + np.sqrt(spread[0]) * np.linspace(-9, 9, 20_001)
    density = ndtr(grid) * np.exp(-0.5 * (grid - center[0]) ** 2 / spread[0])
    share = density / density.sum()
    first = share @ grid
    assert_allclose(first, (others * center[0] + nu) / (others + tau), rtol=1e-6)
    assert_allclose(share @ (grid - first) ** 2, 1 / (others + tau), rtol=1e-6)


def test_what_is_no_covariance_has_no_density(rng):
    C, *rest = problem(rng, "bernoulli")
    found = function_of("bernoulli", "probit")(-C, *rest)
    assert found[0] == -INF
    assert not found[1].any()
    assert np.isnan(found[3]).all()


def test_numba_finds_the_same(rng):
    given = problem(rng, "bernoulli")
    likelihood, C = named("bernoulli", "probit"), pt.dmatrix("C")
    arrays = pt.dvectors("y", "exposure", "low", "high")
    y, exposure, *bounds = arrays
    found = all_sites(likelihood, C, y, {}, exposure, *bounds)
    native = pytensor.function([C, *arrays], found[:4], mode="NUMBA", on_unused_input="ignore")
    for one, other in zip(
        native(*given), function_of("bernoulli", "probit")(*given)[2:], strict=True
    ):
        assert_allclose(one, other, rtol=1e-12)
