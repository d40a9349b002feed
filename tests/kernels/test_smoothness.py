"""Kernels that a user wrote: differentiated exactly, as often as is measured, or refused."""

import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.gp import cov
from test_kernels import ORDERS, TWO, awkward_pairs, points, warped_input

import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE


class Clipped(cov.Covariance):
    """Through PyMC's squared distance, whose gradient is lost where round-off is clipped."""

    def full(self, X, Xs=None):
        X, Xs = self._slice(X, X if Xs is None else Xs)
        return pt.exp(-0.5 * cov.ExpQuad(self.input_dim, ls=0.8).square_dist(X, Xs))


class Cauchy(cov.Covariance):
    """On differences, with a lengthscale of its own."""

    def __init__(self, input_dim, ls, active_dims=None):
        super().__init__(input_dim, active_dims)
        self.ls = ls

    def full(self, X, Xs=None):
        X, Xs = self._slice(X, X if Xs is None else Xs)
        return 1.0 / (1.0 + pt.sqr((X[:, None] - Xs[None]) / self.ls).sum(-1))


def cauchy(x, xs, m=np):
    return 1 / (1 + (((x[..., TWO] - xs[..., TWO]) / 0.8) ** 2).sum(-1))


class Profile(cov.Stationary):
    """A stationary kernel by its profile alone."""

    def full_from_distance(self, dist, squared=False):
        return 1.0 / (1.0 + (dist if squared else dist**2))


class Rough(cov.Stationary):
    """Matern32 in PyMC's way, with a square root that is offset by 1e-12."""

    def full_from_distance(self, dist, squared=False):
        z = math.sqrt(3.0) * (self._sqrt(dist) if squared else dist)
        return (1.0 + z) * pt.exp(-z)


class Rougher(cov.Matern12):
    """A subclass is the user's, even when it changes nothing."""


@pytest.mark.parametrize(
    "cov_func", [Cauchy(3, 0.8, active_dims=TWO), Profile(3, ls=0.8, active_dims=TWO)]
)
def test_user_kernel_is_differentiated_exactly(cov_func):
    kernel = from_pymc(cov_func * 2.0)
    assert kernel.smoothness == 2
    x, xs = awkward_pairs("user")
    X = points("user", 5)
    outputs = [kernel.gram(X), kernel.diag(X), *(kernel.derivative(x, xs, *o) for o in ORDERS)]
    gram, diag, *jets = pytensor.function([], outputs, mode=MODE)()
    np.testing.assert_allclose(gram, 2 * cauchy(X[:, None], X[None]), rtol=1e-12)
    np.testing.assert_allclose(diag, 2 * np.ones(5), rtol=1e-15)
    for order, jet in zip(ORDERS, jets, strict=True):
        truth = [2 * oracle.derivative(cauchy, *p, *order) for p in zip(x, xs, strict=True)]
        np.testing.assert_allclose(jet, truth, rtol=1e-13, atol=1e-13 * np.abs(truth).max())


@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 10])
def test_user_kernel_through_a_clipped_distance_keeps_its_values_only(d):
    kernel = from_pymc(Clipped(d))
    X = np.random.default_rng(d).normal(size=(5, d))
    gram = kernel.gram(X).eval(mode=MODE)
    np.testing.assert_allclose(gram, oracle.expquad(X, X, 0.8), rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"Clipped has no gradient.*finite differences.*not square_dist"
    ):
        kernel.derivative(X, X, 0, 1)


@pytest.mark.parametrize(
    "ls", [1.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.02, 300.0))]
)
def test_smoothness_of_user_kernels_is_measured(ls):
    smoothness = {Cauchy: 2, Profile: 2, Rough: 1, Rougher: 0}
    for kind, expected in smoothness.items():
        assert from_pymc(kind(2, ls=ls)).smoothness == expected


@pytest.mark.slow
def test_user_kernel_with_random_and_free_hyperparameters():
    with pm.Model():
        ls = pm.InverseGamma("ls", 3.0, 2.0, shape=2)
        assert from_pymc(pm.HalfNormal("eta") * Cauchy(2, ls)).smoothness == 2
    assert from_pymc(Cauchy(2, pt.vector("free"))).smoothness == 2


# ---- refusals ----


@pytest.mark.parametrize(
    ("cov_func", "order", "message"),
    [
        (cov.Matern32(3, ls=1.0), (2, 1), "Matern32 has no Hessian.*Use Matern52 or ExpQuad"),
        (cov.Matern12(3, ls=1.0), (1, 0), "Matern12 has no gradient.*Use Matern32"),
        (cov.Exponential(3, ls=1.0), (1, 1), "Exponential has no gradient.*Use Matern32"),
        (cov.Matern12(3, ls=1.0), (0, 2), "Matern12 has no Hessian.*Use Matern52 or ExpQuad"),
        (
            cov.ExpQuad(3, ls=1.0) + 2.0 * cov.Matern32(3, ls=1.0) * cov.Linear(3, c=0.0),
            (1, 2),
            "Matern32 has no Hessian.*Use Matern52 or ExpQuad",
        ),
        (warped_input(cov.Matern32(2, ls=1.0)), (2, 2), "Matern32 has no Hessian"),
        (cov.Matern32(3, ls=1.0) ** 2, (2, 1), "Matern32 has no Hessian"),
        (cov.Coregion(1, W=np.ones((2, 1)), kappa=np.ones(2)), (1, 0), "Coregion has no gradient"),
        (cov.ExpQuad(3, ls=1.0), (3, 1), "2 times in each point, not 3 and 1"),
    ],
)
def test_derivatives_that_do_not_exist_are_refused(cov_func, order, message):
    with pytest.raises(ValueError, match=message):
        from_pymc(cov_func).derivative(np.zeros((2, 3)), np.ones((2, 3)), *order)


@pytest.mark.parametrize(
    "cov_func",
    [
        cov.ExpQuad(3, ls=1.0) + cov.WhiteNoise(0.1),
        cov.ExpQuad(3, ls=1.0) * np.ones((4, 4)),
        cov.ExpQuad(3, ls=1.0) * pt.vector("eta"),
    ],
)
def test_what_is_no_function_of_the_points_is_refused(cov_func):
    with pytest.raises(
        ValueError, match="(?s)covariance function of points and no scalar.*likelihood"
    ):
        from_pymc(cov_func)
