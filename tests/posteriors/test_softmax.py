"""Laplace's approximation for several classes: evidence, gradient and posterior by other roads."""

import pickle
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import bayes_gpx as bx
from bayes_gpx.likelihoods import named
from bayes_gpx.likelihoods.classification import Categorical
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.laplace import laplace_evidence
from bayes_gpx.posteriors.evidence.softmax import (
    SoftmaxEvidence,
    gathered,
    softmax_laplace,
    softmax_mode,
    spread,
)
from bayes_gpx.posteriors.softmax import Coupled, across


class _Moments(NamedTuple):
    """A Gaussian posterior by its moments."""

    mean: Any
    cov: Any


RNG = np.random.default_rng(5)
N, C = 14, 3
X = RNG.normal(size=(N, 2))
Y = RNG.integers(0, C, size=N) * 1.0
SQUARES = ((X[:, None] - X[None]) ** 2).sum(-1)


def covariance(logs):
    return np.exp(2 * logs[0] - 0.5 * SQUARES / np.exp(2 * logs[1]))


def dense(logs, y=Y, classes=C):
    """Evidence, mode and posterior covariance (class-major) by a general optimiser and NumPy."""
    K = np.kron(np.eye(classes), covariance(logs))
    precision = np.linalg.inv(K)

    def minus(f):
        logp = log_softmax(f.reshape((classes, -1)), axis=0)[y.astype(int), np.arange(len(y))]
        return 0.5 * f @ precision @ f - logp.sum()

    def slope(f):
        p = softmax(f.reshape((classes, -1)), axis=0)
        own = np.arange(classes)[:, None] == y
        return precision @ f - (own - p).ravel()

    f = minimize(minus, np.zeros(len(K)), jac=slope, method="BFGS", options={"gtol": 1e-11}).x
    p = softmax(f.reshape((classes, -1)), axis=0)
    W = np.zeros((classes, len(y), classes, len(y)))
    for i in range(len(y)):
        W[:, i, :, i] = np.diag(p[:, i]) - np.outer(p[:, i], p[:, i])
    W = W.reshape(K.shape)
    evidence = -minus(f) - 0.5 * np.linalg.slogdet(np.eye(len(K)) + K @ W)[1]
    return evidence, f.reshape((classes, -1)).T, np.linalg.inv(precision + W)


def compiled():
    """Function of the logs of amplitude and lengthscale."""
    logs = pt.dvector("logs")
    K = pt.exp(2 * logs[0]) * pt.exp(-0.5 * SQUARES / pt.exp(2 * logs[1]))
    found = softmax_laplace(Categorical(C), K, Y)
    outputs = [found[0], pt.grad(found[0], logs), *found[1:]]
    outputs += softmax_mode(Categorical(C), K, Y)
    return pytensor.function([logs], outputs, mode=MODE)


FUNCTION = compiled()


@pytest.mark.parametrize("logs", [np.array([0.3, -0.4]), np.array([1.2, 0.1])])
def test_evidence_and_moments_are_those_of_dense_algebra(logs):
    logp, _, alpha, covariances, again, slope, _ = FUNCTION(logs)
    evidence, mode, cov = dense(logs)
    assert_allclose(logp, evidence, rtol=1e-7)
    assert_allclose(again, logp, rtol=1e-13)
    assert_allclose(slope, alpha)
    assert_allclose(covariance(logs) @ alpha, mode, atol=1e-5)
    blocks = cov.reshape((C, N, C, N))
    for i in range(N):
        assert_allclose(covariances[i], blocks[:, i, :, i], atol=1e-6)


@pytest.mark.parametrize("logs", [np.array([0.3, -0.4]), np.array([1.2, 0.1])])
def test_the_gradient_is_a_difference_of_the_evidence(logs):
    slope, step = FUNCTION(logs)[1], 1e-5
    for k in range(2):
        way = step * np.eye(2)[k]
        difference = (FUNCTION(logs + way)[0] - FUNCTION(logs - way)[0]) / (2 * step)
        assert_allclose(slope[k], difference, rtol=1e-6, atol=1e-8)


def in_one_matrix(K, y, classes):
    """Evidence, its derivative in K, and posterior covariance (class-major), by (n C)^2 numbers."""
    n, eye = len(y), np.eye(classes)
    prior, own = np.kron(eye, K), (np.arange(classes)[:, None] == y).ravel()
    f, at = np.zeros(n * classes), np.tile(np.arange(n), classes)
    for _ in range(60):
        p = softmax(f.reshape((classes, n)), axis=0).ravel()
        W = np.diag(p) - np.where(at[:, None] == at, np.outer(p, p), 0.0)
        goal = np.linalg.solve(np.eye(n * classes) + prior @ W, prior @ (W @ f + own - p))
        f += min(1.0, 2.0 / np.abs(goal - f).max()) * (goal - f)
    alpha = own - p
    B = np.eye(n * classes) + prior @ W
    covariance = np.linalg.solve(B, prior)
    logp = np.log(p[own]).sum() - 0.5 * alpha @ f - 0.5 * np.linalg.slogdet(B)[1]
    # With dW = sum_c T_c df_c, the mode moves by (I + K W)^-1 dK alpha.
    pull = np.empty(n * classes)
    for i, c in np.ndindex(n, classes):
        rows = np.arange(classes) * n + i
        q = p[rows]
        T = q[c] * (np.diag(eye[c] - q) - np.outer(eye[c] - q, q) - np.outer(q, eye[c] - q))
        pull[c * n + i] = -0.5 * (T.T * (covariance[np.ix_(rows, rows)])).sum()
    moved = np.linalg.solve(B.T, pull)
    whole = 0.5 * np.outer(alpha, alpha) + np.outer(moved, alpha) - 0.5 * W @ np.linalg.inv(B)
    summed = sum(whole[c * n : (c + 1) * n, c * n : (c + 1) * n] for c in range(classes))
    return logp, 0.5 * (summed + summed.T), covariance


@pytest.mark.parametrize(("amplitude", "most"), [(1.0, 1e-11), (50.0, 1e-8)])
def test_blocks_give_what_one_matrix_of_all_latent_values_gives(amplitude, most):
    """With the large amplitude some probabilities are below 1e-8."""
    rng, n, classes = np.random.default_rng(1), 40, 4
    x = rng.normal(size=(n, 2))
    y = np.argmax(x @ rng.normal(size=(2, classes)) + 0.1 * rng.gumbel(size=(n, classes)), axis=1)
    K = amplitude**2 * np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(-1) / 4.0) + 1e-3 * np.eye(n)
    symbol = pt.dmatrix("K")
    found = softmax_laplace(Categorical(classes), symbol, 1.0 * y)
    outputs = [found[0], pt.grad(found[0], symbol), *found[1:]]
    logp, in_K, alpha, blocks = pytensor.function([symbol], outputs, mode=MODE)(K)
    evidence, slope, covariance = in_one_matrix(K, y, classes)
    assert (np.eye(classes)[y] - alpha).min() < 1e-8 or amplitude == 1.0
    assert_allclose(logp, evidence, rtol=most)
    assert_allclose(in_K, slope, atol=most * np.abs(slope).max())
    each = covariance.reshape((classes, n, classes, n))
    expected = np.stack([each[:, i, :, i] for i in range(n)])
    assert_allclose(blocks, expected, atol=most * np.abs(expected).max())


def test_two_classes_are_a_logit_of_their_difference():
    y, logs = (Y > 0) * 1.0, np.array([0.5, -0.2])
    K = covariance(logs)
    two = SoftmaxEvidence(Categorical(2))(K, y)[0]
    one = laplace_evidence(named("bernoulli"), 2 * K, y, {}, np.ones(N))[0]
    values = pytensor.function([], [two, one], mode=MODE)()
    assert_allclose(values[0], values[1], rtol=1e-9)


def test_the_factor_squares_to_the_information():
    p, v = softmax(RNG.normal(size=(5, 4)), axis=1), RNG.normal(size=(5, 4))
    information = p[:, :, None] * np.eye(4) - p[:, :, None] * p[:, None]
    expected = (information @ v[:, :, None])[:, :, 0]
    assert_allclose(spread(p, gathered(p, v)), expected, atol=1e-15)
    other = RNG.normal(size=(5, 4))
    assert_allclose((spread(p, v) * other).sum(), (v * gathered(p, other)).sum())


def test_the_posterior_of_slopes_couples_classes():
    logs = np.array([0.3, -0.4])
    *_, alpha, root = FUNCTION(logs)
    kernel = np.exp(2 * logs[0]) * pm.gp.cov.ExpQuad(2, ls=np.exp(logs[1]))
    process, new = bx.GaussianProcess(kernel), np.array([[0.2, -0.3], [1.0, 0.4]])
    joint = Coupled(process, bx.operators.evaluate(X), pt.as_tensor(alpha), pt.as_tensor(root), Y)
    slope, value = bx.operators.gradient(new), bx.operators.evaluate(new)
    of = [joint.of(c) for c in range(C)]
    parts = [q(value) for q in of]
    outputs = [q(slope).cov for q in of] + [q(slope).mean for q in of]
    outputs += [*across(parts), of[1](slope).cross(parts[1])]
    *found, mean, block, cross = pytensor.function([], outputs, mode=MODE)()
    K = covariance(logs)
    cov_u = dense(logs)[2].reshape((C, N, C, N))
    seen = bx.operators.evaluate(X)
    K_Lu, K_LL = (
        pytensor.function([], process.covariance(slope, other), mode=MODE)()
        for other in (seen, slope)
    )
    back = np.linalg.solve(K, K_Lu.T).T
    for c in range(C):
        expected = K_LL + back @ (cov_u[c, :, c] - K) @ back.T
        assert_allclose(found[c], expected, atol=2e-6)
        assert_allclose(found[C + c], K_Lu @ alpha[:, c], atol=1e-9)
    K_fu = np.exp(2 * logs[0] - 0.5 * ((new[:, None] - X) ** 2).sum(-1) / np.exp(2 * logs[1]))
    to = np.linalg.solve(K, K_fu.T).T
    for i in range(2):
        for c in range(C):
            for k in range(C):
                prior = (c == k) * (np.exp(2 * logs[0]) - to[i] @ K @ to[i])
                assert_allclose(block[i, c, k], prior + to[i] @ cov_u[c, :, k] @ to[i], atol=2e-6)
    K_Lf = pytensor.function([], process.covariance(slope, value), mode=MODE)()
    whole = K_Lf + back @ (cov_u[1, :, 1] - K) @ to.T
    for i in range(2):
        assert_allclose(cross[i], whole[2 * i : 2 * i + 2, i], atol=2e-6)


def test_expectations_over_several_latent_values():
    likelihood, rng = Categorical(C), np.random.default_rng(0)
    mean, root = rng.normal(size=(4, C)), 0.8 * np.tril(rng.normal(size=(4, C, C)))
    y = np.array([0.0, 1.0, 2.0, 1.0])
    inputs = [pt.as_tensor(v) for v in (mean, root)]
    outputs = [likelihood.expected(*inputs).value, likelihood.log_predictive(y, *inputs)]
    expected, log_p = pytensor.function([], outputs, mode=MODE)()
    f = mean[:, None] + rng.normal(size=(4, 400_000, C)) @ root.transpose(0, 2, 1)
    truth = softmax(f, axis=2).mean(axis=1)
    assert_allclose(expected, truth, atol=6e-3)
    assert_allclose(expected.sum(axis=1), 1.0)
    assert_allclose(np.exp(log_p), expected[np.arange(4), y.astype(int)])


def test_the_op_can_be_stored_and_fails_quietly():
    op = pickle.loads(pickle.dumps(SoftmaxEvidence(Categorical(C))))
    assert op == SoftmaxEvidence(Categorical(C))
    logp, in_K, *_ = pytensor.function([], op(np.full((N, N), np.nan), Y), mode=MODE)()
    assert logp == -np.inf and not in_K.any()


def test_a_search_goes_on_where_the_last_one_ended():
    search, calls = SoftmaxEvidence(Categorical(classes=C))._search, []
    local = search.local
    search._own.functions = (lambda *given: calls.append(given) or local(*given),)
    K = covariance([0.5, 0.2])
    search.mode(K, [Y])
    first = len(calls)
    search.mode((1.0 + 1e-12) * K, [Y])
    # At 0, where the last one ended, with K^-1 f from there, and one step.
    assert first > len(calls) - first == 4


def test_classes_without_a_common_posterior_are_independent():
    """Stacked by observation, then class, with covariances of each class between observations."""
    mean, roots = RNG.normal(size=(C, 4)), RNG.normal(size=(C, 4, 4))
    cov = roots @ roots.transpose(0, 2, 1)
    parts = [_Moments(pt.as_tensor(m), pt.as_tensor(V)) for m, V in zip(mean, cov, strict=True)]
    stacked, between = (part.eval(mode=MODE) for part in across(parts, joint=True))
    assert_allclose(stacked.reshape((4, C)), mean.T)
    for c in range(C):
        for k in range(C):
            expected = cov[c] if c == k else np.zeros((4, 4))
            assert_allclose(between[c::C, k::C], expected)
