"""Covariances of Shapley values against sums over all coalitions, in plain NumPy."""

import itertools
import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

import bayes_gpx as bx
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes.covariance import block, covariance
from bayes_gpx.processes.operators import evaluate, gradient, shapley_value
from bayes_gpx.processes.players import factors

RNG = np.random.default_rng(0)
X, XS, BASELINES = RNG.normal(size=(2, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4))
ALONE, TOGETHER = ((0,), (1,), (2,), (3,)), ((0, 2), (1,), (3,))


def on(columns, kernel=pm.gp.cov.ExpQuad, **options):
    return kernel(4, active_dims=columns, **{"ls": 1.2} | options)


KERNELS = {
    "squared exponential": on([0, 1, 2, 3], ls=[0.7, 1.0, 1.5, 2.0]),
    "sum": 2.0 * on([0, 1]) + pm.gp.cov.Linear(4, c=0.3) + pm.gp.cov.Constant(0.5),
    "weighed": on([0, 1, 2, 3]) * pm.gp.cov.Linear(4, c=0.2),
    "of one column each": on([3], pm.gp.cov.Matern52) * on([0, 1, 2]),
    "periodic": on([0, 1, 2, 3], pm.gp.cov.Periodic, period=2.0),
    "additive": bx.Additive(4, [0.7, 1.0, 1.5, 2.0], order=3) + pm.gp.cov.Constant(0.5),
    "additive of some": 2.0 * bx.Additive(4, [0.7, 1.5], variances=[0.4, 0.8], active_dims=[1, 3]),
    "main effects": 2.0 * bx.Additive(4, 1.1, order=1, base=pm.gp.cov.Matern32),
    "orthogonal": bx.Additive(4, [0.7, 1.0, 1.5, 2.0], order=2, measure="gaussian"),
    "additive and weighed": pm.gp.cov.Linear(4, c=0.2) * bx.Additive(4, 1.1, order=2),
    "cubic": 2.0 * pm.gp.cov.Polynomial(4, c=0.3, d=3, offset=0.7),
    "square of some": pm.gp.cov.Polynomial(4, c=0.3, d=2, offset=0.7, active_dims=[1, 2]),
    "no product": on([0, 1, 2, 3], pm.gp.cov.Matern52),
}


def combination(x, players):
    """Points of all coalitions, and the matrix from f there to Shapley values, by definition."""
    count, points, columns = len(players), [], []
    for size in range(count + 1):
        for inside in itertools.combinations(range(count), size):
            column = np.zeros(len(x))
            for k, own in enumerate(players):
                s = size - (k in inside)
                share = math.factorial(s) * math.factorial(count - s - 1) / math.factorial(count)
                column[own[0]] = share if k in inside else -share
            for baseline in BASELINES:
                moved = [c for k in inside for c in players[k]]
                points.append(np.where(np.isin(np.arange(len(x)), moved), x, baseline))
                columns.append(column / len(BASELINES))
    return np.array(points), np.array(columns).T


CASES = [(name, ALONE) for name in KERNELS]
CASES += [(name, TOGETHER) for name in ("sum", "no product")]
LONG = ("additive", "additive of some", "cubic", "square of some")
CASES += [pytest.param(n, TOGETHER, marks=pytest.mark.slow) for n in LONG]


@pytest.mark.parametrize(("name", "players"), CASES)
def test_all_coalitions_give_the_same(name, players):
    cov_func, (x, xs, starts) = KERNELS[name], map(pt.as_tensor, (X, XS, BASELINES))
    L, kernel = shapley_value(x, starts, players=players), from_pymc(cov_func)
    asked = [covariance(kernel, L, M) for M in (evaluate(xs, smooth=True), L)]
    (first, shares), (second, others) = (combination(row, players) for row in X)
    points = np.concatenate([first, second, XS])
    dense = cov_func(points, points)
    *found, K = pytensor.function([], [*asked, block(kernel, L), dense], mode=MODE)()
    W = block_diag(shares, others)
    k = W.shape[1]
    # PyMC adds 1e-12 to squared distances of Matern kernels.
    assert_allclose(found[0], W @ K[:k, k:], atol=1e-11)
    assert_allclose(found[1], W @ K[:k, :k] @ W.T, atol=1e-11)
    whole = found[1].reshape((2, 4, 2, 4))
    assert_allclose(found[2], [whole[0, :, 0], whole[1, :, 1]], atol=1e-11)


@pytest.mark.parametrize("name", [*KERNELS])
def test_which_kernels_need_no_coalitions(name):
    known = factors(from_pymc(KERNELS[name]), ALONE) is not None
    assert known == (name not in ("no product", "additive and weighed"))


def test_jointly_with_slopes_by_opening_up():
    x, starts = map(pt.as_tensor, (X, BASELINES))
    kernel = from_pymc(KERNELS["squared exponential"])
    L = shapley_value(x, starts, players=ALONE)
    step, function = 1e-5, pytensor.function([], covariance(kernel, L, gradient(x)), mode=MODE)
    moved = [X + sign * step * np.eye(4)[0] for sign in (1.0, -1.0)]
    ends = [covariance(kernel, L, evaluate(pt.as_tensor(at), smooth=True)) for at in moved]
    up, down = pytensor.function([], ends, mode=MODE)()
    assert_allclose(function()[:, ::4], (up - down) / (2.0 * step), atol=1e-9)


def test_many_features_of_a_kernel_that_is_no_product_are_refused():
    wide = np.zeros((1, 12))
    L = shapley_value(pt.as_tensor(wide), wide[0], players=tuple((k,) for k in range(12)))
    kernel = from_pymc(pm.gp.cov.Matern52(12, ls=1.0))
    with pytest.raises(ValueError, match="12 features.*no product"):
        block(kernel, L)
    with pytest.raises(ValueError, match="all coalitions of at most 10"):
        covariance(kernel, L, evaluate(pt.as_tensor(wide), smooth=True))
