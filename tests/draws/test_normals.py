"""Draws of f and of its smooth part, by their joint normal distribution."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.draws.normals import with_deviations


@pytest.mark.parametrize("W", [0.0, 3.0])
def test_f_and_its_smooth_part_are_drawn_jointly(W):
    """S and d are independent a priori, and a site of precision W is on f = s + d."""
    A, D, site = 0.8, 0.3, 1.7
    prior = np.array([[A, A], [A, A + D]])  # of s and f
    gain = prior[:, 1] * W / (1.0 + W * prior[1, 1])
    mean, cov = gain * site, prior - np.outer(gain, prior[1])
    moments = [(mean[[k]][:, None], cov[[k], [k]][:, None]) for k in (0, 1)]
    normal, other = np.random.default_rng(0).standard_normal((2, 200_000, 1, 1))
    drawn = with_deviations(moments[1], (*moments[0], np.array([[D]])), normal, other)
    found = np.array([v.ravel() for v in drawn])
    assert_allclose(found.mean(axis=1), mean, atol=0.01)
    assert_allclose(np.cov(found), cov, atol=0.01)
