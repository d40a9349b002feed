"""Two derivatives in each point: kernels against mpmath, at equal, close and distant points."""

import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from pymc.gp import cov
from test_kernels import ARD, CASES, CENTER, LS, SHAPE, awkward_pairs, pair, points, times
from test_smoothness import Cauchy, Profile, cauchy

import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.kernels.tensor_products import partitions
from bayes_gpx.numerics.compile_modes import MODE

HIGH = [(2, 1), (1, 2), (2, 2)]
PERIOD = np.array([1.7, 0.9, 3.0])
TWICE = {name: case[:2] for name, case in CASES.items() if case[2] >= 2} | {
    "periodic times linear": (
        cov.Periodic(3, period=PERIOD, ls=ARD) * cov.Linear(3, c=CENTER),
        times(pair(oracle.periodic, ARD, PERIOD), pair(oracle.linear, CENTER)),
    ),
    "user": (Cauchy(3, 0.8, active_dims=[2, 0]), cauchy),
    "user profile": (Profile(3, ls=0.8, active_dims=[2, 0]), cauchy),
}


def jets(cov_func, x, xs, orders=HIGH):
    kernel = from_pymc(cov_func)
    left, right = (pt.tensor(label, shape=(None, 3)) for label in ("x", "xs"))
    outputs = [kernel.derivative(left, right, *order) for order in orders]
    found = pytensor.function([left, right], outputs, mode=MODE)(x, xs)
    return dict(zip(orders, found, strict=True))


FAST = ("expquad", "matern52", "polynomial", "linear", "user profile")
every_case = [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in TWICE]


@pytest.mark.parametrize("name", every_case)
def test_derivatives_are_those_of_the_oracle(name):
    cov_func, truth_of = TWICE[name]
    x, xs = awkward_pairs(name)
    n = len(x)
    both = jets(cov_func, np.concatenate([x, xs]), np.concatenate([xs, x]))
    found = {order: jet[:n] for order, jet in both.items()}
    for order in HIGH[::2]:
        truth = np.array([oracle.derivative(truth_of, *p, *order) for p in zip(x, xs, strict=True)])
        axes = tuple(range(1, truth.ndim))
        size = np.maximum(abs(truth).max(axis=axes, keepdims=True), abs(truth[:4]).max())
        error = abs(found[order] - truth)
        assert (error <= 3e-14 * size).all(), (order, (error / size).max())
    exchanged = both[2, 1][n:].transpose(0, 3, 1, 2)
    assert_allclose(found[1, 2], exchanged, rtol=0, atol=1e-13 * abs(exchanged).max())


def test_the_fourth_derivative_of_matern52_meets_its_limit():
    """F_3 and F_4 grow without bound where they meet differences that vanish."""
    at = cov.Matern52(3, ls=ARD)
    x = points("limit", 1) + np.zeros((40, 1))
    step = np.array([1.0, -2.0, 0.5]) * np.logspace(-170, 0, 40)[:, None]
    found = jets(at, np.zeros((40, 3)), step)[2, 2]
    assert np.isfinite(found).all()
    limit = jets(at, x[:1], x[:1])[2, 2][0]
    eye = np.eye(3) / ARD**2
    pairs = [np.einsum(path, eye, eye) for path in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl")]
    assert_allclose(limit, 25 / 3 * sum(pairs), rtol=1e-14)
    distance = np.linalg.norm(step / ARD, axis=1)
    error = abs(found - limit).max(axis=(1, 2, 3, 4))
    assert (error <= 600 * distance + 1e-13 * limit.max()).all()
    assert (error[-2:] > 1e-2).all()


@pytest.mark.parametrize("name", ["expquad", "matern52", "ratquad", "periodic", "polynomial"])
def test_value_gradient_and_hessian_vary_jointly(name):
    """Their joint covariance over points is symmetric and has no negative eigenvalue."""
    n, orders = 4, [(i, j) for i in range(3) for j in range(3)]
    X = points(name, n)
    first, second = np.divmod(np.arange(n * n), n)
    found = jets(TWICE[name][0], X[first], X[second], orders)
    joint = np.block(
        [
            [
                found[i, j].reshape((n, n, 3**i, 3**j)).swapaxes(1, 2).reshape((n * 3**i, -1))
                for j in range(3)
            ]
            for i in range(3)
        ]
    )
    assert_allclose(joint, joint.T, rtol=0, atol=1e-13 * abs(joint).max())
    eigenvalues = np.linalg.eigvalsh(joint)
    assert eigenvalues[0] > -1e-13 * eigenvalues[-1]


@pytest.mark.parametrize(
    "cov_func",
    [
        cov.ExpQuad(3, ls=LS),
        pytest.param(cov.Matern52(3, ls=LS) * cov.Linear(3, c=SHAPE), marks=pytest.mark.slow),
        cov.RatQuad(3, alpha=SHAPE, ls=LS),
        cov.Periodic(3, period=SHAPE, ls=LS),
    ],
)
def test_gradients_of_hyperparameters(cov_func):
    """Finite where points coincide, and those of differences."""
    X = points("hyper", 3)
    jet = from_pymc(cov_func).derivative(X[[0, 0, 1]], X[[0, 1, 1]] + 1e-9 * X[[0, 0, 1]], 2, 2)
    weights = np.random.default_rng(1).normal(size=(3, 3, 3, 3, 3))
    total = (jet * weights).sum()
    gradients = pt.grad(total, [LS, SHAPE], disconnected_inputs="ignore")
    function = pytensor.function(
        [LS, SHAPE], [total, *gradients], mode=MODE, on_unused_input="ignore"
    )
    _, by_ls, by_shape = function(ARD, 0.8)
    moves = 1e-5 * np.eye(4)
    slopes = [
        (function(ARD + move[:3], 0.8 + move[3])[0] - function(ARD - move[:3], 0.8 - move[3])[0])
        / 2e-5
        for move in moves
    ]
    assert_allclose([*by_ls, by_shape], slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


def test_partitions_are_counted_by_bell():
    assert [len(set(partitions(order))) for order in range(6)] == [1, 1, 2, 5, 15, 52]
    for blocks in partitions(4):
        assert sorted(sum(blocks, ())) == [0, 1, 2, 3]


class PlainMatern52(cov.Stationary):
    """Matern52 in PyMC's way, whose second derivatives of the profile cancel near 0."""

    def full_from_distance(self, dist, squared=False):
        z = math.sqrt(5.0) * (self._sqrt(dist) if squared else dist)
        return (1.0 + z + z**2 / 3.0) * pt.exp(-z)


def test_a_hessian_that_round_off_ruins_is_refused():
    kernel = from_pymc(PlainMatern52(1, ls=1.0))
    assert kernel.smoothness == 1
    with pytest.raises(ValueError, match="PlainMatern52 has no Hessian.*finite differences"):
        kernel.derivative(np.zeros((1, 1)), np.zeros((1, 1)), 2, 2)


def test_random_hyperparameters_scale_the_fourth_derivative():
    with pm.Model():
        ls, eta = pm.Gamma("ls", 4.0, 4.0, shape=3), pm.HalfNormal("eta")
        kernel = from_pymc(eta**2 * cov.Matern52(3, ls=ls))
    X = points("random", 2)
    drawn = [ls, eta, kernel.derivative(X, X[::-1], 2, 2)]
    ls, eta, jet = pm.draw(drawn, random_seed=1, mode=MODE)
    truth = [
        eta**2 * oracle.derivative(pair(oracle.matern52, ls), *p, 2, 2)
        for p in zip(X, X[::-1], strict=True)
    ]
    assert_allclose(jet, truth, rtol=1e-12, atol=1e-12 * np.abs(truth).max())
