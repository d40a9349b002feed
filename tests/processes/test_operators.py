"""Operators that the package does not know: a class, told by other operators, is enough."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes.base import WeightedSums
from bayes_gpx.processes.indexed_process import IndexedProcess, Loaded, Part, in_groups
from bayes_gpx.processes.operators import Combination, Gradient, Smooth, Value

OPS = bx.operators
STEP, D = 0.7, 2


@dataclass(frozen=True, eq=False)
class Contrast(Smooth):
    """How much f rises when the first feature does, and its slope there: two numbers at a point."""

    name: ClassVar = "contrast"
    axes: ClassVar = 1

    def opened(self, other):
        step = STEP * np.eye(D)[0]
        ends = Value(self.x + step, smooth=True), Value(self.x - step, smooth=True)

        def combine(end, start, slope):
            slope = slope.reshape((-1, D, slope.shape[1]))[:, 0]
            return pt.stack([end - start, slope], axis=1).reshape((-1, slope.shape[1]))

        return Combination((*ends, Gradient(self.X)), combine)


def plainly(x, z):
    """The same as a list of values' operators and a matrix."""
    step = STEP * np.eye(D)[0]
    asked = OPS.stack(
        OPS.evaluate(x + step, z, smooth=True),
        OPS.evaluate(x - step, z, smooth=True),
        OPS.gradient(x, z),
    )
    m = len(x)
    matrix = np.zeros((2 * m, (2 + D) * m))
    for i in range(m):
        matrix[2 * i, [i, m + i]] = 1.0, -1.0
        matrix[2 * i + 1, 2 * m + D * i] = 1.0
    return asked, matrix


@pytest.mark.parametrize(
    "kind",
    ["GP", "basis GPX", *(pytest.param(k, marks=pytest.mark.slow) for k in ("GPX", "basis"))],
)
def test_a_new_operator_needs_nothing_but_its_class(rng, kind):
    x, other = rng.normal(size=(2, 3, D))
    z = rng.normal(size=(3, 2)) if "GPX" in kind else None
    kernel = pm.gp.cov.ExpQuad(D, ls=[0.8, 1.3])
    weights = bx.WeightProcess(kernel, sigma_w=0.2, amplitude=np.array([0.7, 1.2]))
    process = bx.GaussianProcess(kernel) if z is None else weights
    if "basis" in kind:
        process = bx.expanded(process, bx.HSGP(4, 2.0), pt.as_tensor(rng.normal(size=(9, D))))
    contrast, (parts, matrix) = Contrast(x, z), plainly(x, z)
    beside = [
        OPS.evaluate(other, z, smooth=True),
        OPS.gradient(other, z),
        OPS.difference(other, np.zeros(D), z),
        OPS.integrated_gradient(other, np.zeros(D), z),
        OPS.integrated_gradient(other, np.ones((2, D)), z),
    ]
    graphs = [process.covariance(contrast, M) for M in beside]
    graphs += [process.covariance(M, contrast).T for M in beside]
    graphs += [process.covariance(parts, M) for M in beside]
    graphs += [process.covariance(contrast, contrast), process.covariance(parts, parts)]
    graphs += [process.block(contrast), process.variance(contrast)]
    *pairs, own, whole, block, variance = pytensor.function([], graphs, mode=MODE)()
    expected = [matrix @ K for K in pairs[10:]]
    for found, K in zip(pairs[:10], expected * 2, strict=True):
        assert_allclose(found, K, atol=1e-8)  # attributions beside slopes: 16 nodes of each path
    expected = matrix @ whole @ matrix.T
    assert_allclose(own, expected, atol=1e-12)
    assert_allclose(variance, np.diag(expected), atol=1e-12)
    for i in range(3):
        rows = slice(2 * i, 2 * i + 2)
        assert_allclose(block[i], expected[rows, rows], atol=1e-12)


def test_pairs_that_nothing_is_known_of_say_so(rng):
    @dataclass(frozen=True, eq=False)
    class Unknown(Smooth):
        name: ClassVar = "unknown"
        axes: ClassVar = 0

    x = rng.normal(size=(3, D))
    process = bx.GaussianProcess(pm.gp.cov.ExpQuad(D, ls=1.0))
    with pytest.raises(ValueError, match="covariance of unknown with evaluate"):
        process.covariance(Unknown(x), OPS.evaluate(x))
    with pytest.raises(ValueError, match="weight is defined for a WeightProcess"):
        process.covariance(OPS.evaluate(x), OPS.weight(x))


@pytest.mark.parametrize("baselines", [1, 3])
def test_attributions_and_differences_are_exact_in_either_order(rng, baselines):
    """Over paths of many lengthscales, where quadratures are not; sums are the differences."""
    gp = bx.GaussianProcess(pm.gp.cov.Matern32(D, ls=[0.7, 0.7]))
    x, start = pt.constant(6.0 * rng.normal(size=(3, D))), -8.0 + rng.normal(size=(baselines, D))
    start = start if baselines > 1 else start[0]
    parts, whole = OPS.integrated_gradient(x, start), OPS.difference(x, start)
    pairs = [(parts, whole), (whole, parts), (whole, whole)]
    pairs += [(parts, parts)] if baselines == 1 else []
    graphs = [gp.covariance(*pair) for pair in pairs]
    mixed, turned, own, *joint = pytensor.function([], graphs, mode=MODE)()
    assert_allclose(mixed, turned.T, atol=1e-12)
    assert_allclose(mixed.reshape((3, D, 3)).sum(axis=1), own, atol=1e-8)
    for one in joint:
        assert_allclose(one.reshape((3, D, 3, D)).sum(axis=(1, 3)), own, atol=1e-8)


def test_gradients_of_features_that_are_the_points_have_both_slopes(rng):
    """Of basis functions times features, which both change with x: against differences."""
    points, step = pt.tensor("x", shape=(None, D)), 1e-5
    kernel = pm.gp.cov.ExpQuad(D, ls=[0.8, 1.3])
    prior = bx.WeightProcess(kernel, sigma_w=0.2, amplitude=np.array([0.7, 1.2]))
    X = pt.constant(rng.normal(size=(9, D)))
    process = bx.expanded(prior, bx.HSGP(3, 1.5), X)
    asked = OPS.evaluate(points, points, smooth=True), OPS.gradient(points, points, tied=True)
    function = pytensor.function([points], [process.design(one) for one in asked], mode=MODE)
    x = rng.normal(size=(4, D))
    moves = step * np.eye(D)
    slopes = [(function(x + m)[0] - function(x - m)[0]) / (2 * step) for m in moves]
    found = function(x)[1].reshape((4, D, -1))
    assert_allclose(found, np.stack(slopes, axis=1), atol=1e-8)


def test_samples_with_their_own_noise_stand_beside_slopes(rng):
    """In a stack of an expanded process only f and weights of equal samples share their noise."""
    x, z = rng.normal(size=(4, D)), rng.normal(size=(4, 2))
    kernel = pm.gp.cov.ExpQuad(D, ls=[0.8, 1.3])
    amplitude = np.array([0.7, 1.2])
    prior = bx.WeightProcess(kernel, sigma_w=0.5, amplitude=amplitude, n_features=2)
    process = bx.expanded(prior, bx.HSGP(3, 1.5), pt.constant(x))
    operators = {}
    for smooth in (False, True):
        asked = {"sample": np.arange(4), "smooth": smooth}
        values, weights = OPS.evaluate(x, z, **asked), OPS.weight(x, **asked)
        operators[smooth] = OPS.stack(values, OPS.gradient(x, z), weights)
    graphs = [process.covariance(both, both) for both in operators.values()]
    own, smooth = pytensor.function([], graphs, mode=MODE)()
    reach = np.zeros((4 + 4 * D + 8, 8))  # from deviations of weights, one of each row and feature
    reach[-8:] = np.eye(8)
    for i in range(4):
        reach[i, 2 * i : 2 * i + 2] = z[i]
    assert_allclose(own - smooth, 0.25 * reach @ reach.T, atol=1e-12)


def test_variances_of_weights_are_diagonals_of_their_covariance():
    """Each feature's amplitude and deviation count by their squares, for new and known samples."""
    kernel = pm.gp.cov.Matern52(2, ls=0.8)
    rng = np.random.default_rng(6)
    rows, features = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    prior = bx.WeightProcess(kernel, sigma_w=0.4, amplitude=np.array([0.7, 1.3]), n_features=2)
    for smooth in (False, True):
        for asked in (
            bx.operators.weight(rows, smooth=smooth),
            bx.operators.contribution(rows, features, smooth=smooth),
            bx.operators.evaluate(rows, features, smooth=smooth),
        ):
            whole = prior.covariance(asked, asked).eval()
            np.testing.assert_allclose(prior.variance(asked).eval(), np.diag(whole), rtol=1e-12)
    alone = prior.variance(bx.operators.weight(rows)).eval().reshape((4, 2))
    np.testing.assert_allclose(alone, [[0.7**2 + 0.4**2, 1.3**2 + 0.4**2]] * 4, rtol=1e-12)


def summed_processes():
    """Processes by name, each with operators of gradients at two sets of points."""
    rng = np.random.default_rng(5)
    (x, xs), (z, zs), codes = rng.normal(size=(2, 6, 2)), rng.normal(size=(2, 6, 3)), [0, 1] * 3
    smooth = pm.gp.cov.ExpQuad(2, ls=[0.8, 1.4])
    rough = pm.gp.cov.Matern52(2, ls=0.9, active_dims=[1]) * pm.gp.cov.Linear(2, c=np.ones(2))
    waves = pm.gp.cov.Periodic(2, period=2.0, ls=0.7, active_dims=[0])
    kernels = {"smooth": smooth, "product": smooth * rough, "sum": smooth + 0.3 * waves}
    plain = OPS.gradient(x), OPS.gradient(xs)
    found = {name: (bx.GaussianProcess(kernel), *plain) for name, kernel in kernels.items()}
    weighed = bx.WeightProcess(smooth, amplitude=rng.uniform(0.5, 1.5, 3))
    found["Z held"] = weighed, OPS.gradient(x, z), OPS.gradient(xs, zs)
    ones = [np.column_stack([at, np.ones(6)]) for at in (x, xs)]
    constants = [map(pt.constant, pair) for pair in ((x, ones[0]), (xs, ones[1]))]
    tied = [OPS.gradient(*pair, tied=True) for pair in constants]
    found["Z is X"] = weighed, *tied
    parts = Part(bx.GaussianProcess(smooth), (Loaded(pt.constant([1.0, -0.4])),))
    outputs = IndexedProcess([parts, Part(bx.GaussianProcess(waves), ())])
    found["outputs"] = outputs, *(OPS.gradient(in_groups(at, codes)) for at in (x, xs))
    return found


SUMMED = summed_processes()


@pytest.mark.parametrize(("name", "groups"), [*((name, 2) for name in SUMMED), ("smooth", 21)])
def test_covariances_of_average_slopes_are_sums_over_all_pairs(name, groups, rng):
    process, *slopes = SUMMED[name]
    weights = rng.normal(size=(6, groups))
    sums = [WeightedSums((one,), pt.constant(weights), groups) for one in slopes]
    graphs = [process.covariance(*pair) for pair in (slopes, sums, sums[:1] * 2)]
    graphs.append(process.covariance(slopes[0], slopes[0]))
    rows, between, own, same = pytensor.function([], graphs, mode=MODE)()
    S = np.kron(weights.T, np.eye(2))
    assert_allclose(between, S @ rows @ S.T, rtol=1e-11, atol=1e-11)
    assert_allclose(own, S @ same @ S.T, rtol=1e-11, atol=1e-11)
