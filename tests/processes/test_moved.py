"""Averages of values with columns moved to places: as of all rows at every place."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes.players import split

OPS, COV = bx.operators, pm.gp.cov
M, PLACES = 4, 3
KERNELS = {
    "expquad": (lambda: 1.3**2 * COV.ExpQuad(3, ls=[0.8, 1.3, 0.6]), 1),
    "one lengthscale": (lambda: COV.ExpQuad(3, ls=0.9), 1),
    "a vector of one": (lambda: COV.ExpQuad(3, ls=np.array([0.9])), 1),
    "periodic": (lambda: COV.Periodic(3, period=1.7, ls=[0.8, 1.3, 0.6]), 1),
    "sum": (lambda: COV.Linear(3, c=np.array([0.1, 0.2, 0.3])) + COV.ExpQuad(3, ls=1.1) + 0.5, 4),
    "product": (lambda: COV.Linear(3, c=0.4) * COV.ExpQuad(3, ls=[1.0, 0.7, 0.5]), 2),
    "columns": (
        lambda: COV.Matern32(3, ls=0.7, active_dims=[1]) * COV.ExpQuad(3, ls=1.2),
        1,
    ),
    "lists and rows": (
        lambda: COV.Linear(3, c=[0.1, 0.2, 0.3]) * COV.ExpQuad(3, ls=np.array([[1.0, 2.0, 0.7]])),
        2,
    ),
    "periods": (lambda: COV.Periodic(3, period=[1.7, 1.1, 2.0], ls=0.8), 1),
    "rough": (lambda: COV.Matern52(3, ls=[0.8, 1.3, 0.6]), None),
}


@pytest.mark.parametrize("columns", [(1,), (0, 2)])
@pytest.mark.parametrize("name", KERNELS)
def test_covariances_are_those_of_all_rows_at_every_place(rng, name, columns):
    of, count = KERNELS[name]
    x, other = rng.normal(size=(2, M, 3))
    places, weights = rng.normal(size=(PLACES, 3)), rng.normal(size=(M, 2))
    process = bx.GaussianProcess(of())
    pairs = split(process.kernel, 3, columns)
    assert (pairs and len(pairs)) == count
    points = np.repeat(x[:, None], PLACES, axis=1)
    points[:, :, columns] = places[:, columns]
    by_hand = OPS.evaluate(points.reshape((-1, 3)), smooth=True)
    value = OPS.evaluate(other, smooth=True)
    each, sums = (OPS.moved(x, places, columns, w) for w in (None, weights))
    graphs = [process.covariance(L, value) for L in (by_hand, each, sums)]
    graphs += [process.covariance(L, L) for L in (by_hand, each, sums)]
    graphs += [process.covariance(value, sums), process.covariance(sums, each)]
    rows, moved, summed, whole, block, total, turned, mixed = pytensor.function(
        [], graphs, mode=MODE
    )()
    assert_allclose(moved, rows, atol=1e-13)
    assert_allclose(block, whole, atol=1e-13)
    matrix = np.kron(weights.T, np.eye(PLACES))
    assert_allclose(summed, matrix @ rows, atol=1e-13)
    assert_allclose(total, matrix @ whole @ matrix.T, atol=1e-12)
    assert_allclose(turned, summed.T)
    assert_allclose(mixed, matrix @ whole, atol=1e-12)


def test_a_single_column_leaves_nothing_beside():
    x, places = np.zeros((2, 1)), np.array([[0.0], [2.0]])
    process = bx.GaussianProcess(COV.ExpQuad(1, ls=1.0))
    found = process.covariance(OPS.moved(x, places, (0,)), OPS.evaluate(pt.zeros((1, 1))))
    assert_allclose(found.eval().ravel(), np.tile(np.exp([0.0, -2.0]), 2))


@pytest.mark.parametrize("intercept", [False, True])
def test_features_of_a_weight_process_move_with_the_points(rng, intercept):
    def beside(points):
        return np.column_stack([points, np.ones(len(points))]) if intercept else points

    x, other = rng.normal(size=(2, M, 3))
    places, weights, columns = rng.normal(size=(PLACES, 3)), rng.normal(size=(M, 2)), (0, 2)
    amplitude = rng.uniform(0.5, 1.5, 3 + intercept)
    process = bx.WeightProcess(COV.ExpQuad(3, ls=[0.8, 1.3, 0.6]), 0.3, amplitude)
    points = np.repeat(x[:, None], PLACES, axis=1)
    points[:, :, columns] = places[:, columns]
    points = points.reshape((-1, 3))
    by_hand = OPS.evaluate(points, beside(points), smooth=True)
    X, to, W, Z = map(pt.constant, (x, places, weights, beside(x)))
    sums = OPS.moved(X, to, columns, W, Z=Z)
    value = OPS.evaluate(pt.constant(other), pt.constant(beside(other)), smooth=True)
    graphs = [process.covariance(L, R) for L in (by_hand, sums) for R in (value, L)]
    rows, whole, summed, total = pytensor.function([], graphs, mode=MODE)()
    matrix = np.kron(weights.T, np.eye(PLACES))
    assert_allclose(summed, matrix @ rows, atol=1e-12)
    assert_allclose(total, matrix @ whole @ matrix.T, atol=1e-12)
