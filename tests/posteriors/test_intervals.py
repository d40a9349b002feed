"""Expectation propagation for normals in boxes: moments, probabilities and gradients."""

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.constraints import joint_logp, sites, with_sites
from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401
from bayes_gpx.posteriors.evidence.intervals import interval_sites, truncated_moments

INF = np.inf


@pytest.mark.parametrize(
    ("low", "high", "tolerance"),
    [
        (-1.0, 2.0, 1e-12), (0.0, INF, 1e-12), (-INF, -3.0, 1e-11), (-INF, 8.0, 1e-12),
        (30.0, INF, 1e-12), (-INF, -70.0, 1e-12), (-INF, -5.01, 1e-12), (-INF, -4.99, 1e-10),
        (8.0, 8.5, 1e-9), (-40.0, -39.0, 1e-12), (12.0, 14.0, 1e-8),
        (0.3, 0.301, 1e-6), (1.0, 1.0 + 1e-7, 1e-8), (-0.001, 0.002, 1e-6),
    ],
)  # fmt: skip
def test_moments_of_a_truncated_normal(low, high, tolerance):
    with mpmath.workdps(1300):  # the smallest probability is below 1e-1000
        a, b = mpmath.mpf(low), mpmath.mpf(high)

        def pdf(x):
            return mpmath.npdf(x) if mpmath.isfinite(x) else mpmath.mpf(0)

        def times(x):
            return x * pdf(x) if mpmath.isfinite(x) else mpmath.mpf(0)

        tails = [mpmath.erfc(z / mpmath.sqrt(2)) / 2 for z in (a, b)]
        Z = tails[0] - tails[1]
        mean = (pdf(a) - pdf(b)) / Z
        variance = 1 + (times(a) - times(b)) / Z - mean**2
        expected = [float(v) for v in (mpmath.log(Z), mean, variance)]
    assert_allclose(truncated_moments(low, high), expected, rtol=tolerance)


def problem(rng, k=3, n=4):
    """Covariance of y and of k values, y, and bounds of which one states a value."""
    A = rng.normal(size=(n + k, 2 * (n + k)))
    C = A @ A.T / (n + k)
    low, high = rng.normal(size=k) - 0.5, np.full(k, INF)
    high[1] = low[1] + 1.0
    low[0] = high[0] = 0.4
    return C, rng.normal(size=n), low, high


def test_a_single_interval_is_exact(rng):
    """One site's posterior has the moments of the truncated normal; its evidence is exact."""
    C, y, low, high = problem(rng, k=2)
    value = np.append(y, low[0])
    gain = np.linalg.solve(C[:-1, :-1], C[:-1, -1])
    mean, sd = gain @ value, np.sqrt(C[-1, -1] - gain @ C[:-1, -1])
    bounds = (low[1] - mean) / sd, (high[1] - mean) / sd
    logp, shift, share = truncated_moments(*bounds)
    found, function = interval_sites(C, y, low, high), _compiled()
    precision = 1 / sd**2 + 1 / found[1][1]
    assert found[0][0] == 0.4 and found[1][0] == 0.0
    assert_allclose(1 / precision, sd**2 * share, rtol=1e-9)
    assert_allclose((mean / sd**2 + found[0][1] / found[1][1]) / precision, mean + sd * shift)
    known = multivariate_normal(np.zeros(5), C[:-1, :-1]).logpdf(value)
    assert_allclose(function(C, y, low, high)[0], known + logp, rtol=1e-10)


@pytest.mark.parametrize("width", [1e-3, 1e-5, 1e-8])
def test_narrow_intervals_have_their_width_times_the_density(width, rng):
    """Own variances of width^2 / 12 are differences of numbers of size 1."""
    S, y, middle = problem(rng)[0], rng.normal(size=4), 0.3 * rng.normal(size=3)
    found = interval_sites(S, y, middle - width / 2, middle + width / 2)
    assert_allclose(found[0], middle, atol=1e-6 * width + 1e-3 * width**2)
    assert_allclose(found[1], width**2 / 12, rtol=10 * width + 1e-6)
    noisy = S + np.diag([*np.zeros(4), *found[1]])
    joint = multivariate_normal(np.zeros(7), noisy).logpdf([*y, *found[0]]) + found[2]
    density = multivariate_normal(np.zeros(7), S).logpdf([*y, *middle])
    assert_allclose(joint, density + 3 * np.log(width), atol=100 * width**2 + 1e-7)


def test_the_evidence_has_its_own_gradient(rng):
    """At a fixed point sites are stationary: differences agree, though sites are held."""
    C, y, low, high = problem(rng, k=4)
    function, way = _compiled(), np.cov(rng.normal(size=(8, 20)))

    def along(t):
        return function(C + t[0] * way, y, low, high)[0]

    slope = (function(C, y, low, high)[1] * way).sum()
    assert_allclose(approx_fprime(np.zeros(1), along, 1e-6)[0], slope, rtol=1e-4)


def _compiled():
    C, y, low, high = pt.dmatrix("C"), *pt.dvectors("y", "low", "high")
    logp = joint_logp(C, y, low, high)
    return pytensor.function([C, y, low, high], [logp, pt.grad(logp, C)], mode=MODE)


def test_numba_finds_the_same(rng):
    given = problem(rng)
    C, y, low, high = pt.dmatrix("C"), *pt.dvectors("y", "low", "high")
    found = sites(C, y, low, high)
    native = pytensor.function([C, y, low, high], [*found, *with_sites(C, y, found)], mode="NUMBA")
    for one, other in zip(native(*given), interval_sites(*given), strict=False):
        assert_allclose(one, other, rtol=1e-12)


def test_what_is_no_covariance_has_no_density(rng):
    C, y, low, high = problem(rng)
    logp, slope = _compiled()(-C, y, low, high)
    assert logp == -INF
    assert not slope.any()


def rejected(rng, S, mean, draws=400_000):
    """Draws of N(mean, S) that have no negative component."""
    g = rng.multivariate_normal(mean, S, draws)
    return g[(g >= 0).all(axis=1)], draws


@pytest.mark.parametrize("k", [1, 3, 5])
def test_signs_against_rejection_sampling(rng, k):
    """Of slopes at points most of a lengthscale apart: sds are off by 2 % at the most."""
    of_mean, of_sd = (0.0, 0.0) if k == 1 else (0.02, 0.02)
    apart = np.subtract.outer(*[np.linspace(0, 1, k) / 0.3] * 2)
    S = np.exp(-0.5 * apart**2) * (1 - apart**2) + 1e-4 * np.eye(k)
    mean = np.linspace(-0.2, 0.6, k)
    kept, draws = rejected(rng, S, mean)
    n = len(kept)
    # A value that is known, which tells nothing of the slopes but their mean.
    C = np.eye(k + 1)
    C[1:, 1:] = S + np.outer(mean, mean)
    C[0, 1:] = C[1:, 0] = mean
    found = interval_sites(C, np.ones(1), np.zeros(k), np.full(k, INF))
    seen, noisy = np.append(1.0, found[0]), C + np.diag([0.0, *found[1]])
    gain = np.linalg.solve(noisy, C[:, 1:]).T
    post_mean, post_sd = gain @ seen, np.sqrt(np.diag(C[1:, 1:] - gain @ C[:, 1:]))
    sd = kept.std(axis=0)
    assert (np.abs(post_mean - kept.mean(axis=0)) < 4 * sd / np.sqrt(n) + of_mean * sd).all()
    kurtosis = ((kept - kept.mean(axis=0)) ** 4).mean(axis=0) / sd**4
    error = 4 * np.sqrt((kurtosis - 1) / (4 * n))
    assert (np.abs(post_sd / sd - 1) < error + of_sd).all()
    joint = _compiled()(C, np.ones(1), np.zeros(k), np.full(k, INF))[0]
    probability, alone = n / draws, -0.5 * (1 + np.log(2 * np.pi))
    miss = 4 * np.sqrt((1 - probability) / n)
    assert abs(joint - alone - np.log(probability)) < miss + 2 * of_sd
