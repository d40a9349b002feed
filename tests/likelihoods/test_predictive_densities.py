"""Expectations and predictive densities against mpmath's quadrature."""

from functools import partial

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.gaussian_expectations import log_student_normal
from responses import ELEMENTWISE, EXPOSURE, KINDS, TAKES_EXPOSURE, THETA, function, log_density

MOMENTS = [(0.3, 0.0), (-1.2, 0.4), (-30.0, 2.0), (30.0, 2.1), (-4.0, 5.0)]
MOMENTS += [(2.0, 10.0), (-30.0, 10.0)]


def gaussian_integral(log_h, mean, sd, reach):
    """E[exp(log_h(f))] where f ~ N(mean, sd^2), by Gauss-Legendre panels of mpmath numbers.

    They cover where the integrand is above exp(-40) of its peak, within `reach` or 16 sd of the
    mean.
    """
    if sd == 0:
        return mp.exp(log_h(mp.mpf(mean)))
    height = lambda f: log_h(f) - ((f - mp.mpf(mean)) / sd) ** 2 / 2  # noqa: E731
    low, high = min(reach[0], mean - 16 * sd), max(reach[1], mean + 16 * sd)
    for _ in range(3):
        f = np.linspace(low, high, 60)
        seen = np.array([float(height(value)) for value in f.tolist()])
        seen = np.flatnonzero(seen > seen.max() - 40)
        low, high = f[max(seen[0] - 1, 0)], f[min(seen[-1] + 1, 59)]
    x, w = np.polynomial.legendre.leggauss(12)
    edges = np.linspace(low, high, 31)
    half = (edges[1] - edges[0]) / 2
    f = (edges[:-1, None] + half * (x + 1)).ravel()
    heights = np.array([height(value) for value in f.tolist()])
    total = mp.fsum(np.tile(w, 30) * half * [mp.exp(value) for value in heights])
    return total / (sd * mp.sqrt(2 * mp.pi))


@pytest.mark.parametrize(("name", "link"), KINDS)
def test_expected_response_and_its_derivatives(name, link):
    means, sds = np.array(MOMENTS).T
    found = np.array(function(name, link, "expected")(means, sds**2))
    if name in TAKES_EXPOSURE:
        assert_allclose(found, [EXPOSURE * np.exp(means + sds**2 / 2)] * 3, rtol=1e-14)
        return
    if name != "bernoulli":
        assert_allclose(found, [means, np.ones(7), np.zeros(7)])
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
    assert_allclose(found[2], exact[2], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "link", "ys"), ELEMENTWISE)
def test_log_predictive_density(name, link, ys):
    means, sds = np.array(MOMENTS).T
    for y in ys[::2] if name in TAKES_EXPOSURE else ys:
        (found,) = function(name, link, "log_predictive")(y, means, sds**2)
        log_p = partial(log_density, name, link, y)
        if name == "student_t":
            exact = [float(mp.log(mixed_integral(log_p, y, *moments))) for moments in MOMENTS]
        else:
            reach = (-40, max(40, y)) if name == "normal" else (-40, 40)
            exact = [float(mp.log(gaussian_integral(log_p, *m, reach))) for m in MOMENTS]
        assert_allclose(found, exact, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "link", "ys"), [own for own in ELEMENTWISE if own[0] != "student_t"]
)
def test_moments_given_a_response(name, link, ys):
    """Of f given y, which tells next to nothing in some cases, and nearly all in others."""
    cases = [own for own in MOMENTS if own[1] > 0]
    means, sds = np.array(cases).T
    for y in ys[::2] if name in TAKES_EXPOSURE else ys:
        found = np.array(function(name, link, "posterior_moments")(y, means, sds**2))
        log_p = partial(log_density, name, link, y)
        for own, mean, variance in zip(cases, *found, strict=True):
            total = gaussian_integral(log_p, *own, (-40, 40))

            def spread(around, own=own, log_p=log_p, total=total):
                """E[(f - around)^2] given y."""
                square = lambda f: log_p(f) + 2 * mp.log(abs(f - around))  # noqa: E731
                return float(gaussian_integral(square, *own, (-40, 40)) / total)

            sd = np.sqrt(variance)
            assert_allclose(spread(mean), variance, rtol=1e-9)
            # Which would not be symmetric around another value than the mean.
            assert_allclose(spread(mean + sd), spread(mean - sd), rtol=1e-8)


@pytest.mark.parametrize(
    ("nu", "sigma", "y"), [(0.5, 0.01, 9.0), (1.0, 1e-3, -2.0), (30.0, 0.01, 4.0), (1e4, 0.2, 3.0)]
)
def test_log_predictive_density_of_outliers(nu, sigma, y):
    log_p = partial(log_density, "student_t", None, y, nu=nu, sigma=sigma)
    for sd in (1e-4, 0.3, 5.0):
        call = function("student_t", "identity", "log_predictive")
        (found,) = call(y, [0.1], [sd**2], sigma=sigma, nu=nu)
        exact = float(mp.log(mixed_integral(log_p, y, 0.1, sd, sigma)))
        assert_allclose(found[0], exact, rtol=1e-10, atol=1e-11)


def test_log_predictive_density_of_nearly_normal_noise_much_narrower_than_the_latent():
    theta = {"nu": 1e4, "sigma": 1e-3}
    for y in (0.1, 4.0, 12.0):
        (found,) = function("student_t", "identity", "log_predictive")(y, [0.1], [1.0], **theta)
        log_p = partial(log_density, "student_t", None, y, **theta)
        exact = float(mp.log(mixed_integral(log_p, y, 0.1, 1.0, 1e-3)))
        assert_allclose(found[0], exact, rtol=1e-10, atol=1e-11)
        assert_allclose(found[0], -0.5 * np.log(2 * np.pi) - (y - 0.1) ** 2 / 2, atol=1e-4)


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


@pytest.mark.parametrize("nu", [0.5, 4.0, 300.0])
def test_outliers_of_a_known_mean_have_students_density(nu):
    """However far from the mean, and however close to normal the noise."""
    distance = np.array([0.0, 3.0, 30.0, 1000.0])
    inputs = [*pt.dvectors("distance", "variance"), *pt.dscalars("sigma", "nu")]
    density = pytensor.function(inputs, log_student_normal(*inputs), mode=MODE)
    expected = stats.t.logpdf(distance / 0.7, nu) - np.log(0.7)
    assert_allclose(density(distance, np.full(4, 1e-14), 0.7, nu), expected, rtol=1e-7)


@pytest.mark.parametrize(("name", "link"), KINDS[2:])
def test_predictive_probabilities_sum_to_one(name, link):
    ys = np.arange(2.0 if name == "bernoulli" else 4000.0)
    for mean, sd in [(0.4, 0.0), (-1.0, 1.0), (2.0, 0.9)]:
        (log_p,) = function(name, link, "log_predictive")(ys, mean, sd**2)
        assert_allclose(np.exp(log_p).sum(), 1.0, rtol=1e-4 if len(ys) > 2 else 1e-12)
