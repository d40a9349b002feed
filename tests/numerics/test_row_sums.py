"""Sums over blocks of rows, by the same sums over all rows at once."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.row_sums import RowGraph, RowSums, row_sums

RNG = np.random.default_rng(sum(map(ord, "row sums")))
X, Y = RNG.normal(size=(23, 3)), RNG.normal(size=23)
W, V = RNG.normal(size=(3, 4)), RNG.normal(size=4)


def sums(x, y, w, v):
    """A matrix, a vector and a number."""
    F = pt.exp(pt.dot(x, pt.sqr(w)) / 5)
    return [pt.dot(F.T, F), pt.dot(F.T, y), pt.sqr(y - pt.dot(F, v)).sum()]


def in_blocks(size, w, v, **held):
    x, y = pt.dmatrix("x"), pt.dvector("y")
    return row_sums(sums(x, y, w, v), {x: pt.as_tensor(X), y: pt.as_tensor(Y)}, size=size, **held)


def graphs(made):
    """Sums and their slopes, as functions of parameters."""
    w, v = pt.dmatrix("w"), pt.dvector("v")
    found = made(w, v)
    cost = pt.log(found[0].sum()) * found[2] + pt.sqr(found[1]).sum()
    return pytensor.function([w, v], [*found, *pt.grad(cost, [w, v])], mode=MODE)


# 23 rows: with a last block of one row, of fewer rows, in one block, and in a larger one.
@pytest.mark.parametrize("size", [1, 2, 7, 23, 100])
def test_blocks_sum_to_all_rows(size):
    whole = graphs(lambda w, v: sums(pt.as_tensor(X), pt.as_tensor(Y), w, v))(W, V)
    found = graphs(lambda w, v: in_blocks(size, w, v))(W, V)
    for ours, theirs in zip(found, whole, strict=True):
        assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_what_is_held_has_no_derivative():
    w, v, symbol = pt.dmatrix("w"), pt.dvector("v"), pt.dvector("symbol")
    total = in_blocks(5, w, symbol, held={symbol: 2.0 * v})[2]
    slope = pt.grad(total, [w, v], disconnected_inputs="ignore")
    value, in_w, in_v = pytensor.function([w, v], [total, *slope], mode=MODE)(W, V / 2)
    assert_allclose(value, ((Y - np.exp(X @ W**2 / 5) @ V) ** 2).sum(), rtol=1e-12)
    assert np.abs(in_w).max() > 0.1
    assert not in_v.any()


def test_what_does_not_depend_on_rows_stays_outside():
    x, w = pt.dmatrix("x"), pt.dmatrix("w")
    graph, parameters = RowGraph.of([pt.dot(x, pt.exp(w)).sum()], [x])
    assert [v.owner.inputs[0] for v in parameters] == [w]
    assert len(graph.inputs) == 2


def test_equal_graphs_are_equal_and_others_are_not():
    def made(power):
        x, w = pt.dmatrix("x"), pt.dvector("w")
        return RowSums(RowGraph.of([(pt.dot(x, w) ** power).sum()], [x])[0])

    assert made(2) == made(2)
    assert hash(made(2)) == hash(made(2))
    assert made(2) != made(3)
    again = pickle.loads(pickle.dumps(made(2)))  # noqa: S301
    found = pytensor.function([], again(V[:3, None], X), mode=MODE)()
    assert_allclose(found, ((X @ V[:3]) ** 2).sum(), rtol=1e-12)


def test_a_number_is_found_beside_its_slopes_and_alone_without_them():
    w, v = pt.dmatrix("w"), pt.dvector("v")
    x, y = pt.dmatrix("x"), pt.dvector("y")
    (total,) = row_sums(sums(x, y, w, v)[2:], {x: pt.as_tensor(X), y: pt.as_tensor(Y)}, size=4)
    cost = 3.0 * total + 1.0
    alone = pytensor.function([w, v], cost, mode=MODE)
    both = pytensor.function([w, v], [cost, *pt.grad(cost, [w, v])], mode=MODE)
    for function, slopes in ((alone, False), (both, True)):
        (op,) = [n.op for n in function.maker.fgraph.apply_nodes if isinstance(n.op, RowSums)]
        assert (op.slopes_of is not None) is slopes
    value, in_w, in_v = both(W, V)
    assert value == alone(W, V)
    F = np.exp(X @ W**2 / 5)
    off = F @ V - Y
    assert_allclose(value, 3.0 * off @ off + 1.0, rtol=1e-12)
    assert_allclose(in_v, 6.0 * F.T @ off, rtol=1e-10)
    assert_allclose(in_w, 12.0 / 5 * W * (X.T @ (F * np.outer(off, V))), rtol=1e-10)


def test_second_derivatives_are_refused():
    w, v = pt.dmatrix("w"), pt.dvector("v")
    slope = pt.grad(in_blocks(5, w, v)[2], v)
    with pytest.raises(NotImplementedError, match="first derivatives alone"):
        pt.grad(slope.sum(), v)


def test_threads_do_not_disturb_each_other():
    function = graphs(lambda w, v: in_blocks(4, w, v))
    copies, alone = [function.copy() for _ in range(4)], function(W, V)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda f: [f(W, V) for _ in range(20)][-1], copies)]
    for one in found:
        for ours, theirs in zip(one, alone, strict=True):
            assert (ours == theirs).all()


def test_threads_change_no_bit(monkeypatch):
    function, found = graphs(lambda w, v: in_blocks(4, w, v)), []
    for number in (1, 2, 5):
        monkeypatch.setattr("bayes_gpx.numerics.threads._Limit.threads", number)
        found.append(function(W, V))
    for one in found[1:]:
        for ours, theirs in zip(one, found[0], strict=True):
            assert (ours == theirs).all()


def test_no_rows_sum_to_nothing():
    x, w = pt.dmatrix("x"), pt.dvector("w")
    (total,) = row_sums([pt.dot(x, w).sum()], {x: pt.zeros((0, 3))})
    assert pytensor.function([w], total, mode=MODE)(V[:3]) == 0.0


def test_no_number_is_filled_in_by_python():
    """Gradients of sums have `second`, which has no function of NumPy."""
    x, w = pt.dvector("x"), pt.dvector("w")
    total = (pt.sqr(x[:, None]) * np.arange(5.0)).sum() + pt.outer(x, w).sum()
    slope = pytensor.function([x, w], pt.grad(total, x), mode=MODE)
    assert all(node.op != pt.second for node in slope.maker.fgraph.toposort())
    assert_allclose(slope(Y, V), 20.0 * Y + V.sum(), rtol=1e-12)


class InParts:
    """Rows of parts, which are joined one after the other."""

    def sums(self, of_part, join):
        both = (of_part({"x": X[rows]}) for rows in (slice(9), slice(9, 23)))
        return join(*both)


@pytest.mark.parametrize("rows", [X, InParts()])
def test_outputs_are_joined_by_their_maximum_or_kept_as_well(rows):
    x = pt.dmatrix("x")
    outputs = [x.sum(axis=0), x.max(axis=0), pt.sqr(x)]
    graph = RowGraph([], [], [x], outputs, 4, [np.add, np.maximum, None])
    assert graph != RowGraph([], [], [x], outputs, 4)
    total, largest, kept = pickle.loads(pickle.dumps(graph)).total(rows)  # noqa: S301
    assert_allclose(total, X.sum(axis=0), rtol=1e-12)
    assert np.array_equal(largest, X.max(axis=0))
    assert np.array_equal(np.concatenate(kept), X**2)
