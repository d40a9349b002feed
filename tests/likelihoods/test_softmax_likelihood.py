"""The softmax likelihood of C latent values."""

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode

from bayes_gpx.likelihoods import named
from bayes_gpx.numerics.compile_modes import MODE
from responses import function

CATEGORICAL = named("categorical")
F = np.array([[0.3, -1.2, 0.8], [40.0, 0.0, -40.0], [-40.0, 39.0, 38.0], [2.0, 2.0, 2.0]])
Y = np.array([2.0, 2.0, 0.0, 1.0])


@pytest.fixture(scope="module")
def evaluate():
    f, y, M = pt.dmatrix(), pt.dvector(), pt.dtensor3()
    probability, slope, _ = CATEGORICAL.response(f)
    gradient, hessian = CATEGORICAL.derivatives(f, y)
    logp = CATEGORICAL.logp(f, y)
    autodiff = pt.grad(logp.sum(), f)
    outputs = [logp, gradient, hessian, probability, slope, CATEGORICAL.contracted(f, M), autodiff]
    return pytensor.function([f, y, M], outputs, mode=MODE)


def log_p(c, *f):
    return f[c] - mp.log(mp.fsum(mp.exp(v) for v in f))


def partial_derivative(c, f, orders, h=log_p):
    with mp.workdps(140):
        return float(mp.diff(lambda *f: h(c, *f), [mp.mpf(v) for v in f], orders))


def unit(*places):
    return tuple(sum(place == k for place in places) for k in range(3))


def test_density_and_its_derivatives_in_the_tails(evaluate):
    logp, gradient, hessian, *_, autodiff = evaluate(F, Y, np.zeros((4, 3, 3)))
    for i, (f, y) in enumerate(zip(F.tolist(), Y.astype(int), strict=True)):
        assert_allclose(logp[i], partial_derivative(y, f, unit()), rtol=1e-12)
        exact = [partial_derivative(y, f, unit(c)) for c in range(3)]
        assert_allclose(gradient[i], exact, rtol=1e-12)
        assert_allclose(autodiff[i], exact, rtol=1e-12, atol=1e-16)
        exact = [[-partial_derivative(y, f, unit(c, k)) for k in range(3)] for c in range(3)]
        assert_allclose(hessian[i], exact, rtol=1e-12)


def test_density_and_gradient_by_one_exponential_where_it_would_overflow():
    f, y = pt.dmatrix(), pt.dvector()
    found = pytensor.function([f, y], CATEGORICAL.logp_and_slopes(f, y, {}), mode=MODE)
    values = np.vstack([F, [[900.0, 899.0, -900.0], [-800.0, -800.0, -801.0]]])
    labels = np.append(Y, [1.0, 2.0])
    logp, gradient = found(values, labels)
    for i, (f, y) in enumerate(zip(values.tolist(), labels.astype(int), strict=True)):
        assert_allclose(logp[i], partial_derivative(y, f, unit()), rtol=1e-12, atol=1e-15)
        exact = [partial_derivative(y, f, unit(c)) for c in range(3)]
        assert_allclose(gradient[i], exact, rtol=1e-12, atol=1e-15)


def test_probabilities_and_their_derivatives(evaluate, rng):
    M = rng.normal(size=(4, 3, 3))
    _, _, _, probability, slope, contracted, _ = evaluate(F, Y, M)
    softmax = lambda c, *f: mp.exp(log_p(c, *f))  # noqa: E731
    assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(slope.sum(axis=1), 0.0, atol=1e-16)
    assert_allclose(contracted.sum(axis=1), 0.0, atol=1e-15)
    for i, f in enumerate(F.tolist()):
        exact = [partial_derivative(c, f, unit(), softmax) for c in range(3)]
        assert_allclose(probability[i], exact, rtol=1e-13)
        for c in range(3):
            exact = [partial_derivative(c, f, unit(j), softmax) for j in range(3)]
            assert_allclose(slope[i, c], exact, rtol=1e-12)
            second = [
                [partial_derivative(c, f, unit(j, k), softmax) for k in range(3)] for j in range(3)
            ]
            assert_allclose(contracted[i, c], np.sum(M[i] * second), rtol=1e-12, atol=1e-15)


def test_contracted_is_the_slope_of_a_trace_with_the_information(rng):
    """What the gradient of Laplace's log determinant needs."""
    f, M = pt.dmatrix(), rng.normal(size=(4, 3, 3))
    M = M + M.swapaxes(1, 2)
    trace = (CATEGORICAL.fisher(f) * M).sum()
    slope, found = pytensor.function(
        [f], [pt.grad(trace, f), CATEGORICAL.contracted(f, M)], mode=MODE
    )(F)
    assert_allclose(found, slope, rtol=1e-10, atol=1e-14)


def test_two_classes_are_the_logit_likelihood(evaluate):
    f = np.linspace(-40, 40, 9)
    for y in (0.0, 1.0):
        pair = np.stack([np.zeros(9), f], axis=1)
        logp, gradient, hessian, probability, slope, *_ = evaluate(
            pair, np.full(9, y), np.zeros((9, 2, 2))
        )
        expected = function("bernoulli", "logit", "given")(f, y)
        assert_allclose(logp, expected[0], rtol=1e-12)
        assert_allclose(gradient[:, 1], expected[1], rtol=1e-12)
        assert_allclose(-hessian[:, 1, 1], expected[2], rtol=1e-12)
        value, first, _ = function("bernoulli", "logit", "response")(f)
        assert_allclose([probability[:, 1], slope[:, 1, 1]], [value, first], rtol=1e-12)


def test_distribution_in_pymc_has_the_same_density(evaluate):
    with pm.Model() as model:
        latent = pm.Flat("f", shape=F.shape)
        made = CATEGORICAL.dist("y", latent, observed=Y.astype(int))
    full = Mode(linker="py", optimizer="fast_run")
    found = model.compile_logp(vars=[made], sum=False, mode=full)({"f": F})[0]
    assert_allclose(found, evaluate(F, Y, np.zeros((4, 3, 3)))[0], rtol=1e-12)


def test_draws_have_the_right_frequencies(evaluate, rng):
    drawn = CATEGORICAL.draw(np.repeat(F[:1], 40000, axis=0), {}, rng)
    probability = evaluate(F, Y, np.zeros((4, 3, 3)))[3][0]
    assert_allclose(np.bincount(drawn.astype(int)) / 40000, probability, atol=0.01)
