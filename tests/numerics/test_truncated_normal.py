"""Draws of normals between bounds, against rejection sampling and quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ks_1samp, truncnorm

from bayes_gpx.numerics.truncated_normal import truncated_normal

INF = np.inf


def walked(rng, mean, cov, low, high, count=4000):
    k = len(mean)
    return truncated_normal(
        np.tile(mean, (count, 1)), np.broadcast_to(cov, (count, k, k)), low, high, rng
    )


@pytest.mark.parametrize(
    ("mean", "sd", "low", "high"),
    [(0.0, 1.0, 0.0, INF), (-4.0, 0.5, 0.0, INF), (3.0, 2.0, -INF, -1.0), (0.7, 1.0, 0.2, 0.5),
     (0.0, 1.0, -INF, INF), (5.0, 1.0, -1.0, 1.0)],
)  # fmt: skip
def test_one_value_has_the_truncated_distribution(rng, mean, sd, low, high):
    found = walked(rng, np.array([mean]), np.array([[sd**2]]), np.array([low]), np.array([high]))
    exact = truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)
    assert ks_1samp(found[:, 0], exact.cdf).pvalue > 1e-3


def slopes_of(k, lengthscale):
    """Covariance of noisy slopes of a squared exponential process along the range."""
    apart = np.subtract.outer(*[np.linspace(0, 1, k) / lengthscale] * 2)
    return np.exp(-0.5 * apart**2) * (1 - apart**2) + 1e-4 * np.eye(k)


def same_moments(found, kept, sigmas=4.5):
    """Whether means, sds and correlations of two samples agree up to Monte Carlo errors."""
    sizes = 1 / len(found) + 1 / len(kept)
    sd = kept.std(axis=0)
    assert (np.abs(found.mean(axis=0) - kept.mean(axis=0)) < sigmas * sd * np.sqrt(sizes)).all()
    kurtosis = ((kept - kept.mean(axis=0)) ** 4).mean(axis=0) / sd**4
    error = sigmas * np.sqrt((kurtosis - 1) / 4 * sizes)
    assert (np.abs(found.std(axis=0) / sd - 1) < error).all()
    if kept.shape[1] > 1:
        apart = np.corrcoef(found.T) - np.corrcoef(kept.T)
        assert (np.abs(apart) < 2 * sigmas * np.sqrt(sizes)).all()


@pytest.mark.parametrize(
    ("k", "level", "high"), [(2, -1.0, INF), (10, 0.3, INF), (40, 0.3, INF), (6, 0.0, 1.2)]
)
def test_slopes_between_bounds_against_rejection_sampling(rng, k, level, high):
    """As many as make expectation propagation 30 % too narrow, and almost linearly dependent."""
    cov, mean = slopes_of(k, 0.4), level + np.linspace(-0.2, 0.4, k)
    drawn = mean + rng.standard_normal((200_000, k)) @ np.linalg.cholesky(cov).T
    kept = drawn[((drawn > 0) & (drawn < high)).all(axis=1)]
    assert len(kept) > 2000
    same_moments(walked(rng, mean, cov, np.zeros(k), np.full(k, high)), kept)


def test_each_normal_has_its_own_draw(rng):
    """Means, covariances and draws belong together, also where batches are small."""
    count, k = 4000, 3
    mean = np.where(np.arange(count) % 2, 2.0, -1.0)[:, None] * np.ones(k)
    scale = np.where(np.arange(count) % 2, 0.1, 1.0)
    cov = scale[:, None, None] ** 2 * slopes_of(k, 0.4)
    found = truncated_normal(mean, cov, np.zeros(k), np.full(k, INF), rng)
    assert (found >= 0).all()
    assert_allclose(found[1::2].mean(axis=0), 2.0, atol=4.5 * 0.1 / np.sqrt(count / 2))
    drawn = -1 + rng.standard_normal((200_000, k)) @ np.linalg.cholesky(slopes_of(k, 0.4)).T
    same_moments(found[::2], drawn[(drawn > 0).all(axis=1)])
