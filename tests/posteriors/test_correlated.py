"""Classes that correlate: Laplace's approximation against Newton's method with dense matrices."""

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle
from bayes_gpx.likelihoods.classification import Categorical
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.base import WHITENED, Conditioning
from bayes_gpx.posteriors.evidence.correlated import (
    CorrelatedEvidence,
    correlated_laplace,
    correlated_mode,
)
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace
from bayes_gpx.posteriors.strategies.correlated import CorrelatedLaplace, CorrelatedValues
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.indexed_process import IndexedProcess, Loaded, Part, in_groups

RNG = np.random.default_rng(7)
N, C = 12, 4
X, NEW = RNG.normal(size=(N, 2)), RNG.normal(size=(3, 2))
Y = RNG.integers(0, C, size=N) * 1.0
LOADINGS = RNG.normal(size=(2, C, 2))
SHARED = 0.3 * np.eye(C) + LOADINGS @ LOADINGS.transpose(0, 2, 1)


def parts(left, right, amplitude=1.0):
    """Covariances of a squared exponential and of a linear kernel, (2, m, n)."""
    squares = ((left[:, None] - right) ** 2).sum(-1)
    return np.stack([amplitude**2 * np.exp(-0.5 * squares), 0.5 * left @ right.T])


def prior(left, right, amplitude=1.0, shared=SHARED):
    """Covariance of all classes' values, rows first: a sum of Kronecker products."""
    return sum(np.kron(K, B) for K, B in zip(parts(left, right, amplitude), shared, strict=True))


def dense(K):
    return oracle.softmax_laplace(K, Y, C)


def compiled():
    K, shared = pt.dtensor3("K"), pt.dtensor3("shared")
    found = correlated_laplace(Categorical(C), K, shared, Y)
    outputs = [*found, *pt.grad(found[0], [K, shared])]
    outputs += correlated_mode(Categorical(C), K, shared, Y)
    return pytensor.function([K, shared], outputs, mode=MODE)


FUNCTION = compiled()


@pytest.mark.parametrize(("amplitude", "most"), [(1.0, 1e-12), (50.0, 1e-9)])
def test_evidence_and_moments_are_those_of_dense_algebra(amplitude, most):
    """The large amplitude makes rows whose label is all but certain."""
    logp, alpha, covariance, _, _, again, slope, _ = FUNCTION(parts(X, X, amplitude), SHARED)
    evidence, expected, _, cov = dense(prior(X, X, amplitude))
    assert_allclose(logp, evidence, rtol=1e-12)
    assert_allclose(again, logp, rtol=1e-14)
    assert_allclose(alpha, expected, atol=1e-11)
    assert_allclose(slope, alpha, atol=1e-15)
    by_row = cov.reshape((N, C, N, C))
    expected = np.stack([by_row[i, :, i] for i in range(N)])
    assert_allclose(covariance, expected, atol=most * np.abs(expected).max())


@pytest.mark.parametrize("amplitude", [1.0, 50.0])
def test_gradients_are_differences_of_the_dense_evidence(amplitude):
    K, step = parts(X, X, amplitude), 1e-5
    in_K, in_shared = FUNCTION(K, SHARED)[3:5]
    way = RNG.normal(size=K.shape)
    way = step * (way + way.transpose(0, 2, 1))
    across = RNG.normal(size=SHARED.shape)
    across = step * (across + across.transpose(0, 2, 1))

    def evidence(K, shared):
        return dense(sum(np.kron(*both) for both in zip(K, shared, strict=True)))[0]

    both = evidence(K + way, SHARED) - evidence(K - way, SHARED)
    assert_allclose(2.0 * (in_K * way).sum(), both, rtol=1e-6)
    both = evidence(K, SHARED + across) - evidence(K, SHARED - across)
    assert_allclose(2.0 * (in_shared * across).sum(), both, rtol=1e-6)


def test_without_correlation_classes_are_those_of_the_block_form():
    K = parts(X, X)[0]
    logp, alpha, covariance, in_K, *_ = FUNCTION(np.stack([K, 0.0 * K]), np.stack([np.eye(C)] * 2))
    symbol = pt.dmatrix("K")
    found = softmax_laplace(Categorical(C), symbol, Y)
    block = pytensor.function([symbol], [*found, pt.grad(found[0], symbol)], mode=MODE)(K)
    for ours, theirs in zip([logp, alpha, covariance, in_K[0]], block, strict=True):
        assert_allclose(ours, theirs, atol=1e-11)


def test_only_differences_between_classes_are_seen():
    """The evidence is that of H B H, H the centring matrix: softmax leaves out what all share."""
    H = np.eye(C) - 1.0 / C
    found = [FUNCTION(parts(X, X), shared)[0] for shared in (SHARED, H @ SHARED @ H)]
    assert_allclose(*found, rtol=1e-12)


def test_the_operation_can_be_stored_and_fails_quietly():
    op = pickle.loads(pickle.dumps(CorrelatedEvidence(Categorical(C))))
    assert op == CorrelatedEvidence(Categorical(C))
    outputs = op(np.full((2, N, N), np.nan), SHARED, Y)
    logp, in_K, in_shared, *_ = pytensor.function([], outputs, mode=MODE)()
    assert logp == -np.inf and not in_K.any() and not in_shared.any()
    K = pt.dtensor3("K")
    with pytest.raises(NotImplementedError, match="only the log evidence"):
        pt.grad(op(K, SHARED, Y)[3].sum(), K)


def process():
    kernels = pm.gp.cov.ExpQuad(2, ls=1.0), 0.5 * pm.gp.cov.Linear(2, c=0.0)
    each = tuple(bx.GaussianProcess(kernel) for kernel in kernels)
    return ClassProcess(each, pt.as_tensor(SHARED))


def test_the_process_is_one_of_outputs_with_codes():
    """The class is a column of codes there, and the vector of an operator is by observations."""
    mixing = [np.linalg.cholesky(B) for B in SHARED]
    kernels = [part for part in process().parts for _ in range(C)]
    loadings = np.hstack(mixing).T
    pairs = zip(kernels, loadings, strict=True)
    coded = IndexedProcess([Part(kernel, (Loaded(pt.constant(m)),)) for kernel, m in pairs])
    codes = np.tile(np.arange(C), len(NEW))
    value, slope = bx.operators.evaluate, bx.operators.gradient
    cells = in_groups(np.repeat(NEW, C, axis=0), codes)
    ours = process().covariance(value(NEW), value(NEW)), process().variance(value(NEW))
    theirs = coded.covariance(value(cells), value(cells)), coded.variance(value(cells))
    block = process().block(slope(NEW)), process().covariance(slope(NEW), slope(NEW))
    *found, block, whole = pytensor.function([], [*ours, *theirs, *block], mode=MODE)()
    assert_allclose(found[0], found[2], atol=1e-12)
    assert_allclose(found[1], found[3], atol=1e-12)
    assert_allclose(block[1], whole[2 * C : 4 * C, 2 * C : 4 * C], atol=1e-12)


def asked(strategy, theta):
    given = Conditioning(
        process(), Categorical(C), theta, pt.as_tensor(X), pt.as_tensor(Y), exposure=pt.ones(N)
    )
    return given, strategy, strategy.condition(given)


@pytest.mark.parametrize("sampled", [False, True])
def test_values_and_slopes_have_the_moments_of_dense_algebra(sampled):
    white = RNG.normal(size=(N, C))
    strategy = CorrelatedValues() if sampled else CorrelatedLaplace()
    given, strategy, found = asked(strategy, {WHITENED: pt.as_tensor(white)} if sampled else {})
    of = [strategy.posterior(given, found, c) for c in range(C)]
    value, slope = bx.operators.evaluate(NEW), bx.operators.gradient(NEW)
    f, g = [q(value) for q in of], [q(slope) for q in of]
    outputs = [
        pt.stack([q.mean for q in f], axis=1),
        pt.stack([q.variance for q in f], axis=1),
        pt.stack([pt.stack([q.with_value(o) for o in f], axis=1) for q in f], axis=1),
        f[0].between(f[2]),
        pt.stack([q.mean for q in g], axis=1),
        g[1].cov,
        g[1].mean_alone,
        g[3].block_beyond(g[2]),
        g[3].beyond(f[1]),
        g[3].cross(f[3]),
    ]
    found = pytensor.function([], outputs[:4] if sampled else outputs, mode=MODE)()
    K = prior(X, X)
    if sampled:
        K = K + 1e-8 * np.diag(K).mean() * np.eye(N * C)
        inside = np.linalg.inv(K)
        weights = np.linalg.solve(K, np.linalg.cholesky(K) @ white.ravel()).reshape(white.shape)
    else:
        _, weights, W, _ = dense(K)
        inside = W @ np.linalg.inv(np.eye(N * C) + K @ W)
    step = 1e-5
    ways = [(NEW + step * way, NEW - step * way) for way in np.eye(2)]
    K_fu = prior(NEW, X)
    K_gu = np.stack([(prior(a, X) - prior(b, X)) / (2 * step) for a, b in ways], axis=1)
    K_gu = K_gu.reshape((len(NEW), C, 2, -1)).transpose(0, 2, 1, 3).reshape((-1, N * C))
    mean, slopes = ((rows @ weights.ravel()).reshape((-1, C)) for rows in (K_fu, K_gu))
    cov = (prior(NEW, NEW) - K_fu @ inside @ K_fu.T).reshape((len(NEW), C, len(NEW), C))
    assert_allclose(found[0], mean, rtol=1e-8, atol=1e-9)
    at = range(len(NEW))
    assert_allclose(found[2], [cov[i, :, i] for i in at], atol=1e-8)
    assert_allclose(found[1], [np.diag(cov[i, :, i]) for i in at], atol=1e-8)
    assert_allclose(found[3], cov[:, 0, :, 2], atol=1e-8)
    if sampled:
        return
    assert_allclose(found[4], slopes, atol=1e-7)
    assert_allclose(found[6], slopes[:, 1], atol=1e-7)
    kernels = [[bx.operators.gradient(NEW), other] for other in (slope, value)]
    prior_gg, prior_gf = (
        pytensor.function([], process().covariance(*both), mode=MODE)() for both in kernels
    )
    gg = (prior_gg - K_gu @ inside @ K_gu.T).reshape((len(NEW), 2, C, len(NEW), 2, C))
    gf = (prior_gf - K_gu @ inside @ K_fu.T).reshape((len(NEW), 2, C, len(NEW), C))
    assert_allclose(found[5], gg[:, :, 1, :, :, 1].reshape((2 * len(NEW), -1)), atol=1e-6)
    assert_allclose(found[7], [gg[i, :, 3, i, :, 2] for i in at], atol=1e-6)
    assert_allclose(found[8], [gf[i, :, 3, i, 1] for i in at], atol=1e-6)
    assert_allclose(found[9], [gf[i, :, 3, i, 3] for i in at], atol=1e-6)


def test_what_is_known_without_a_row_is_its_site_taken_out():
    given, strategy, _ = asked(CorrelatedLaplace(), {})
    left = strategy.leave_one_out(given)
    mean, root = pytensor.function([], [left.mean, left.spread], mode=MODE)()
    K = prior(X, X)
    _, slope, W, cov = dense(K)
    f = (K @ slope.ravel()).reshape((N, C))
    for i in range(N):
        at = slice(i * C, (i + 1) * C)
        site, there = W[at, at], cov[at, at]
        apart = np.linalg.inv(np.linalg.inv(there) - site)
        assert_allclose(root[i] @ root[i].T, apart, atol=1e-8)
        centre = apart @ (np.linalg.inv(there) @ f[i] - (site @ f[i] + slope[i]))
        assert_allclose(mean[i], centre, atol=1e-8)


def test_sampled_values_are_known_from_the_others_by_the_prior():
    white = RNG.normal(size=(N, C))
    given, strategy, _ = asked(CorrelatedValues(), {WHITENED: pt.as_tensor(white)})
    left = strategy.leave_one_out(given)
    outputs = [strategy.values(given), left.mean, left.spread]
    f, mean, root = pytensor.function([], outputs, mode=MODE)()
    K = prior(X, X)
    K += 1e-8 * np.diag(K).mean() * np.eye(N * C)
    assert_allclose(f.ravel(), np.linalg.cholesky(K) @ white.ravel(), atol=1e-9)
    for i in range(N):
        at = np.zeros(N * C, bool)
        at[i * C : (i + 1) * C] = True
        gain = np.linalg.solve(K[~at][:, ~at], K[~at][:, at]).T
        assert_allclose(mean[i], gain @ f.ravel()[~at], atol=1e-5)
        apart = K[at][:, at] - gain @ K[~at][:, at]
        assert_allclose(root[i] @ root[i].T, apart, atol=1e-7)
