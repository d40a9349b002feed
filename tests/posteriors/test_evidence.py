"""The log-density Op: value, gradient, backends, failure."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence import numba_forms  # noqa: F401
from bayes_gpx.posteriors.evidence.normal import (
    NormalEvidence,
    left_out,
    normal_logp,
    terms_left_out,
)
from oracle import log_normal

C, y = pt.dmatrix("C"), pt.dvector("y")


def positive_definite(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T + 0.5 * np.eye(n)


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA"])
def test_value_and_gradient_agree_with_algebra_on_every_backend(rng, mode):
    logp = normal_logp(y, C)
    function = pytensor.function([C, y], [logp, *pt.grad(logp, [C, y])], mode=mode)
    covariance, response = positive_definite(rng, 9), rng.normal(size=9)
    value, in_C, in_y = function(covariance, response)
    alpha = np.linalg.solve(covariance, response)
    assert_allclose(value, log_normal(response, covariance), rtol=1e-12)
    in_both = (np.outer(alpha, alpha) - np.linalg.inv(covariance)) / 2
    assert_allclose(in_C, np.triu(in_both) + np.triu(in_both, 1), rtol=1e-9)  # reads one triangle
    assert_allclose(in_y, -alpha, rtol=1e-10)
    failed = function(-covariance, response)
    assert failed[0] == -np.inf
    assert not failed[1].any() and not failed[2].any()


def test_inputs_are_left_as_they_were(rng):
    covariance, response = positive_definite(rng, 6), rng.normal(size=6)
    copies = covariance.copy(), response.copy()
    function = pytensor.function([C, y], normal_logp(y, C), mode=MODE)
    function(covariance, response)
    assert_allclose((covariance, response)[0], copies[0], rtol=0)
    assert_allclose(response, copies[1], rtol=0)


def left_out_moments() -> list:
    """Log density of y, and mean and variance of each y_i given the others."""
    logp, alpha, precision = left_out(y, C)
    return [logp, y - alpha / precision, 1.0 / precision]


def test_leave_one_out_is_conditioning(rng):
    covariance, response = positive_definite(rng, 8), rng.normal(size=8)
    function = pytensor.function([C, y], left_out_moments(), mode=MODE)
    logp, mean, variance = function(covariance, response)
    assert_allclose(logp, log_normal(response, covariance))
    for i in range(8):
        others = np.delete(np.arange(8), i)
        gain = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, i])
        assert_allclose(mean[i], gain @ response[others], rtol=1e-9, atol=1e-12)
        assert_allclose(variance[i], covariance[i, i] - gain @ covariance[others, i], rtol=1e-9)


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA"])
def test_terms_left_out_are_densities_without_a_row(rng, mode):
    covariance, response = positive_definite(rng, 8), rng.normal(size=8)
    response[3] = 40.0
    function = pytensor.function([C, y], NormalEvidence()(C, y), mode=mode)
    logp, slope, alpha = function(covariance, response)
    for i, term in enumerate(terms_left_out(np.diagonal(slope), alpha)):
        others = np.delete(np.arange(8), i)
        without = log_normal(response[others], covariance[np.ix_(others, others)])
        assert_allclose(term, logp - without, rtol=1e-9)
    assert np.isnan(terms_left_out(np.array([2.0]), np.array([1.0]))).all()


def test_leave_one_out_without_a_factor_is_not_finite(rng):
    covariance = positive_definite(rng, 4) - 100.0 * np.eye(4)
    logp, mean, variance = pytensor.function([C, y], left_out_moments(), mode=MODE)(
        covariance, np.ones(4)
    )
    assert logp == -np.inf
    assert not np.isfinite(mean).any() and not np.isfinite(variance).any()


def test_gradients_of_what_is_left_out_are_finite_differences(rng):
    """Of each output by itself, and of all in one sum: in C along a symmetric step, and in y."""
    covariance, response = positive_definite(rng, 7), rng.normal(size=7)
    a, q = rng.normal(size=(2, 7))
    across, along = rng.normal(size=(7, 7)), rng.normal(size=7)
    across += across.T
    logp, mean, variance = left_out_moments()
    sums = [1.7 * logp, mean @ a, variance @ q, 1.7 * logp + mean @ a + variance @ q]
    for total in sums:
        slopes = pt.grad(total, [C, y])
        function = pytensor.function([C, y], [total, *slopes], mode=MODE)
        _, in_C, in_y = function(covariance, response)
        step = 1e-6
        above, below = (function(covariance + e * across, response)[0] for e in (step, -step))
        assert_allclose((in_C * across).sum(), (above - below) / (2 * step), rtol=1e-6)
        above, below = (function(covariance, response + e * along)[0] for e in (step, -step))
        assert_allclose(in_y @ along, (above - below) / (2 * step), rtol=1e-6, atol=1e-8)
    assert not np.any(pytensor.function([C, y], slopes[0], mode=MODE)(-covariance, response))


def test_shapes_are_inferred_without_computing():
    outputs = NormalEvidence()(C, y)
    shape = pytensor.function([C, y], outputs[1].shape, mode=MODE)
    assert_allclose(shape(np.full((3, 3), np.nan), np.zeros(3)), [3, 3])


@pytest.mark.parametrize("family", ["GP", "GPX", "GPX per_feature", "GPX horseshoe"])
def test_model_gradient_is_the_finite_difference(regression, family):
    X, Z, y, _, _ = regression
    if family == "GP":
        model = bx.GP(X, y, kernel="matern52 + linear")
    else:
        model = bx.GPX(X, y, Z, weight_prior=(family.split() + ["shared"])[1])
    density = Density(model._pymc, jacobian=True)
    function = density.value_and_slope()
    x = density.unconstrain({}) + 0.1 * np.arange(len(density.unconstrain({})))
    _, slope = function(x)
    step = 1e-5
    numeric = [
        (function(x + step * e)[0] - function(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))
    ]
    # Central differences of a value of about 100 with step 1e-5: round-off 1e-9.
    assert_allclose(slope, numeric, rtol=1e-6, atol=1e-7)
