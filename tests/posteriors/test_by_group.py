"""Coefficients of groups, eliminated group by group, against the same ones as dense columns."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.likelihoods import named
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.by_group import Arrow, BestByGroup, ByGroup
from bayes_gpx.posteriors.evidence.normal import low_rank_logp
from bayes_gpx.posteriors.evidence.row_bounds import variational
from bayes_gpx.posteriors.strategies.by_group import ByGroup as Strategy

RNG = np.random.default_rng(46)
N, M, K, G = 40, 4, 2, 6
F, E = RNG.normal(size=(N, M)), RNG.normal(size=(N, K))
CODES = np.append(RNG.integers(0, G - 2, N - 1), G - 1)  # a group has no row, and one has one row
DENSE = np.hstack([F, (np.eye(G)[CODES][:, :, None] * E[:, None]).reshape((N, -1))])
REST, D = RNG.uniform(0.01, 0.1, N), RNG.uniform(0.1, 0.5, N)
LATENT = DENSE @ RNG.normal(size=DENSE.shape[1])


def likelihood(name):
    found = named(name, None)
    if name == "categorical":
        found = type(found)(3)
    return found


RESPONSES = {
    "normal": LATENT + RNG.normal(size=N),
    "bernoulli": (LATENT > 0.3).astype(float),
    "poisson": RNG.poisson(np.exp(0.4 * LATENT)).astype(float),
    "student_t": LATENT + RNG.standard_t(3, N),
    "categorical": np.digitize(LATENT, [-1.0, 1.0]).astype(float),
}
THETA = {"student_t": {"sigma": 0.4, "nu": 4.0}}


def test_the_arrow_is_the_inverse_of_the_dense_precision():
    order, tau = np.argsort(CODES, kind="stable"), RNG.uniform(0.5, 2.0, N)
    rows = ByGroup(F[order], E[order], np.searchsorted(CODES[order], np.arange(G + 1)))
    arrow, dense = Arrow(rows, tau), DENSE[order]
    P = np.eye(M + G * K) + (dense.T * tau) @ dense
    v, u = RNG.normal(size=M), RNG.normal(size=(G, K))
    assert_allclose(np.concatenate([*map(np.ravel, arrow.solved(v, u))]),
                    np.linalg.solve(P, np.append(v, u)), rtol=1e-12, atol=1e-12)  # fmt: skip
    covariance = np.linalg.inv(P)
    variance, with_v, with_u = arrow.at_rows
    joint = dense @ covariance
    assert_allclose(variance, (joint * dense).sum(axis=1), rtol=1e-11)
    assert_allclose(with_v, joint[:, :M], rtol=1e-10, atol=1e-12)
    own = joint[:, M:].reshape((N, G, K))[np.arange(N), CODES[order]]
    assert_allclose(with_u, own, rtol=1e-10, atol=1e-12)
    logdet = np.linalg.slogdet(P)[1]
    expected = np.trace(covariance) + v @ v + (u**2).sum() - M - G * K + logdet
    assert_allclose(arrow.divergence(v, u), 0.5 * expected, rtol=1e-12)


@pytest.mark.parametrize("name", RESPONSES)
def test_bound_and_slopes_are_those_of_dense_columns(name):
    """The bound, for normal noise the density, and its derivatives in designs and variances."""
    known, y = likelihood(name), pt.constant(RESPONSES[name])
    theta = {k: pt.constant(v) for k, v in THETA.get(name, {}).items()}
    values = [*theta.values()]
    f, e, dense, rest = pt.dmatrices("f", "e", "dense") + [pt.dvector("rest")]
    ones, codes = pt.ones(N), pt.constant(CODES)
    noise = rest if name == "normal" else pt.zeros(N)
    unseen = pt.zeros(N) if name == "normal" else rest
    ours = Strategy().log_density(known, y, f, e, noise, unseen, codes, ones, *values)
    if name == "normal":
        theirs = low_rank_logp(y, dense, rest)
    else:
        theirs = variational(known, dense, rest, y, theta, ones).bound
    slopes = pt.grad(ours, [f, e, rest]), pt.grad(theirs, [dense, rest])
    function = pytensor.function(
        [f, e, dense, rest], [ours, theirs, *slopes[0], *slopes[1]], mode=MODE
    )
    ours, theirs, in_f, in_e, in_rest, in_dense, in_dense_rest = function(
        F, E, DENSE, D if name == "normal" else REST
    )
    assert_allclose(ours, theirs, rtol=1e-9)
    assert_allclose(in_f, in_dense[:, :M], rtol=1e-6, atol=1e-7)
    own = in_dense[:, M:].reshape((N, G, K))[np.arange(N), CODES]
    assert_allclose(in_e, own, rtol=1e-6, atol=1e-7)
    assert_allclose(in_rest, in_dense_rest, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_classes_are_found_where_amplitudes_are_large(classes):
    """From a cold start, where steps of separate classes end nowhere."""
    known = type(named("categorical", None))(classes)
    y = pt.constant(np.digitize(LATENT, np.linspace(-2.0, 2.0, classes - 1)).astype(float))
    ones, zeros, codes = pt.ones(N), pt.zeros(N), pt.constant(CODES)
    ours = Strategy().log_density(known, y, 8.0 * F, E, zeros, pt.constant(REST), codes, ones)
    dense = np.hstack([8.0 * F, DENSE[:, M:]])
    theirs = variational(known, pt.constant(dense), pt.constant(REST), y, {}, ones).bound
    assert_allclose(*pytensor.function([], [ours, theirs], mode=MODE)(), rtol=1e-9)


def test_counts_are_found_where_their_prior_expectation_is_infinite():
    known, y, zeros = likelihood("poisson"), pt.constant(RESPONSES["poisson"]), pt.zeros(N)
    ones, codes, rest = pt.ones(N), pt.constant(CODES), pt.constant(REST)
    ours = Strategy().log_density(known, y, 60.0 * F, E, zeros, rest, codes, ones)
    dense = np.hstack([60.0 * F, DENSE[:, M:]])
    theirs = variational(known, pt.constant(dense), rest, y, {}, ones).bound
    assert_allclose(*pytensor.function([], [ours, theirs], mode=MODE)(), rtol=1e-9)


def test_without_a_posterior_the_bound_is_minus_infinity():
    op = BestByGroup(likelihood("normal"))
    D = np.full(N, np.nan)
    *_, divergence = op(F, E, D, RESPONSES["normal"], np.ones(N), CODES)
    assert divergence.eval() == np.inf
