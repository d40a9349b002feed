"""Densities by blocks of rows, by the same densities from whole matrices."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics import threads, upper_blocks
from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE
from bayes_gpx.numerics.threads import _Limit
from bayes_gpx.numerics.upper_blocks import ByUpperBlocks, UpperBlocks
from bayes_gpx.posteriors.evidence.normal import NormalEvidence

RNG = np.random.default_rng(sum(map(ord, "upper blocks")))
N = 61
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=N)
LABELS = RNG.choice(["a", "b"], N)
BY_BLOCKS = MODE.register((ByUpperBlocks(), 93))
LOWER = np.tri(N, k=-1, dtype=bool)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Seven rows in the first block; the last one has fewer."""
    monkeypatch.setattr(upper_blocks, "FROM", 2)
    monkeypatch.setattr(upper_blocks, "NUMBERS", 7 * N)
    monkeypatch.setattr(upper_blocks, "LEAST_ROWS", 1)


def density(model):
    return Density(model.objective, jacobian=True)


def blocks_in(function):
    return [n.op for n in function.maker.fgraph.toposort() if isinstance(n.op, UpperBlocks)]


MODELS = {
    "one lengthscale": lambda: bx.GP(X, Y, ard=False),
    "lengthscales": lambda: bx.GP(X, Y),
    "polynomial": lambda: bx.GP(X, Y, kernel="polynomial", ard=False),
    "smooth": lambda: bx.GP(X, Y, kernel="matern52"),
    "sum": lambda: bx.GP(X, Y, kernel="matern32 + linear"),
    "product": lambda: bx.GP(X, Y, kernel="periodic * ratquad", ard=False),
    "additive": lambda: bx.interaction_model(bx.GP(X, Y), [("x0", "x1")]),
    "weights": lambda: bx.GPX(X, Y),
    "sparse weights": lambda: bx.GPX(X, Y, weight_prior="horseshoe"),
    "groups": lambda: bx.GP(X, Y, groups=LABELS),
}


@pytest.mark.parametrize("name", MODELS)
def test_densities_are_those_of_whole_matrices(name, monkeypatch):
    model = MODELS[name]()
    ours = density(model)
    assert len(blocks_in(ours._value_and_slope.own)) == 2
    monkeypatch.setattr(upper_blocks, "FROM", 1_000_000)
    theirs = density(model)
    assert not blocks_in(theirs._value_and_slope.own)
    for _ in range(2):  # the second one into the matrices of the first
        x = ours.unconstrain({}) + 0.3 * RNG.normal(size=len(ours.unconstrain({})))
        found, expected = (of.value_and_slope()(x) for of in (ours, theirs))
        assert_allclose(found[0], expected[0], rtol=1e-12)
        assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-9)


def random_graph(matrix, variances):
    """A density, its slopes and what comes on the way, with a matrix of data."""
    scale, y = pt.dscalar("scale"), pt.as_tensor(Y)
    diagonal = np.arange(N)
    C = pt.exp(-pt.as_tensor(matrix) * scale) / (1.0 + scale)
    C = C[diagonal, diagonal].inc(pt.as_tensor(variances) * scale)
    logp = NormalEvidence()(C, y)[0]
    return [scale], [logp, pt.grad(logp, scale)]


D = ((X[:, None] - X) ** 2).sum(axis=2)


@pytest.mark.parametrize("variances", [0.3, RNG.uniform(0.2, 0.4, N)], ids=["one", "each"])
def test_nothing_below_the_diagonal_counts(variances):
    plain = pytensor.function(*random_graph(D, variances), mode=Mode("py", None))
    # The corner of a block that is below the diagonal is computed, and multiplied by zero.
    above = np.where(LOWER, 9.0, D)
    function = pytensor.function(*random_graph(above, variances), mode=BY_BLOCKS)
    assert len(blocks_in(function)) == 2
    for scale in (0.7, 1.3):
        assert_allclose(function(scale), plain(scale), rtol=1e-12)
        C = np.exp(-scale * D) / (1.0 + scale) + np.diag(scale * variances * np.ones(N))
        expected = -0.5 * Y @ np.linalg.solve(C, Y) - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
        assert_allclose(function(scale)[0], expected, rtol=1e-12)


def test_what_others_need_is_computed_as_a_whole():
    scale = pt.dscalar("scale")
    K = pt.exp(-pt.as_tensor(D) * scale)
    rows = K.sum(axis=1)
    diagonal = np.arange(N)
    C = (K / (rows[:, None] * rows[None]))[diagonal, diagonal].inc(0.1)
    logp = NormalEvidence()(C, pt.as_tensor(Y))[0]
    outputs = [logp, pt.grad(logp, scale), K]
    function = pytensor.function([scale], outputs, mode=BY_BLOCKS)
    plain = pytensor.function([scale], outputs, mode=MODE)
    assert blocks_in(function)
    for ours, theirs in zip(function(0.8), plain(0.8), strict=True):
        assert_allclose(ours, theirs, rtol=1e-11)


def test_threads_change_no_bit(monkeypatch):
    function = pytensor.function(*random_graph(D, 0.3), mode=BY_BLOCKS)
    found = []
    for number in (1, 2, 3):
        monkeypatch.setattr(_Limit, "threads", number)
        found.append(function(0.9))
    assert found[0] == found[1] == found[2]


def test_chains_that_share_blas_leave_its_limit_alone(monkeypatch):
    """Of two threads with a limit of two each, neither takes BLAS from the other."""
    function = pytensor.function(*random_graph(D, 0.3), mode=BY_BLOCKS)
    limits = []
    monkeypatch.setattr(threads, "_limit", limits.append)
    monkeypatch.setattr(_Limit, "threads", 2)
    monkeypatch.setattr(threads.BLAS, "_asked", [(2, 0, True)])
    function(0.9)
    assert not limits
    monkeypatch.setattr(threads.BLAS, "_asked", [(2, 0, False)])
    function(0.9)
    assert limits


def test_evidences_of_other_sizes_stay_as_they_are():
    scale, found = pt.dscalar("scale"), []
    for n in (N, N - 10):
        C = pt.exp(-pt.as_tensor(D[:n, :n]) * scale) + 0.1 * np.eye(n)
        found.append(NormalEvidence()(C, pt.as_tensor(Y[:n]))[0])
    outputs = [sum(found), pt.grad(sum(found), scale)]
    values = [pytensor.function([scale], outputs, mode=m)(0.8) for m in (BY_BLOCKS, MODE)]
    assert_allclose(*values, rtol=1e-12)


def test_a_circle_is_left_as_it_is():
    """What follows from slopes would need a sum over what follows from slopes."""
    scale = pt.dscalar("scale")
    K = pt.exp(-pt.as_tensor(D) * scale) + 0.1 * np.eye(N)
    slope = pt.grad(NormalEvidence()(K, pt.as_tensor(Y))[0], K)
    inner = (slope * K).sum(axis=0).sum()
    outputs = [(slope / K).sum(), (slope * pt.log(K) * pt.exp(-inner / 1e3 / K)).sum(axis=0).sum()]
    found, expected = (pytensor.function([scale], outputs, mode=m)(0.02) for m in (BY_BLOCKS, MODE))
    assert np.isfinite(expected).all()
    assert_allclose(found, expected, rtol=1e-10)


def test_sums_that_are_of_no_product():
    """Of slopes divided by a matrix, and of what is subtracted from slopes."""
    scale = pt.dscalar("scale")
    K = pt.exp(-pt.as_tensor(D) * scale) + 0.1
    C = K + np.eye(N)
    evidence = NormalEvidence()(C, pt.as_tensor(Y), return_list=True)
    outputs = [(evidence[1] / K).sum(), (evidence[1] - 2.0 * evidence[1] * K).sum()]
    function = pytensor.function([scale], outputs, mode=BY_BLOCKS)
    assert len(blocks_in(function)) == 2
    K = np.exp(-0.8 * D) + 0.1
    inverse = np.linalg.inv(K + np.eye(N))
    slope = np.triu(np.outer(inverse @ Y, inverse @ Y) - inverse)
    slope[np.diag_indices(N)] /= 2.0
    expected = (slope / K).sum(), (slope - 2.0 * slope * K).sum()
    assert_allclose(function(0.8), expected, rtol=1e-9)


def test_few_rows_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(upper_blocks, "FROM", N + 1)
    assert not blocks_in(pytensor.function(*random_graph(D, 0.3), mode=BY_BLOCKS))


def test_what_was_returned_stays():
    scale, y = pt.dscalar("scale"), pt.as_tensor(Y)
    C = pt.exp(-pt.as_tensor(D) * scale) + 0.1 * np.eye(N)
    evidence = NormalEvidence()(C, y, return_list=True)
    slope = pt.grad(evidence[0], C)
    mode = BUFFERED_MODE.register((ByUpperBlocks(), 93))
    function = pytensor.function([scale], [evidence[1], slope * pt.as_tensor(D), C], mode=mode)
    before = function(0.7)
    kept = [value.copy() for value in before]
    function(1.3)
    for value, then in zip(before, kept, strict=True):
        assert np.array_equal(value, then)
    assert np.isinf(function(-9.0)[1]).sum() == 0
    for value, then in zip(function(0.7), kept, strict=True):
        assert np.array_equal(value, then)
