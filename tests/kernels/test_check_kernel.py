"""The check for writers of kernels: what is right passes, and what is wrong is named."""

import math
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.gp import cov
from test_kernels import CASES

import bayes_gpx as bx
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.elementary import Automatic
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.testing import check_kernel

SLOW = (
    *("gibbs", "warped", "warped matern52 of one column", "warped linear"),
    *("expquad isotropic", "expquad columns", "matern52 columns", "matern32 isotropic"),
    *("linear columns", "ratquad, large alpha", "polynomial of degree 1", "wrapped periodic"),
    *("sum", "power", "product of sums"),
)
"""To compile, or near relatives of others."""

QUICK = [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in CASES]


@pytest.mark.parametrize("name", QUICK)
def test_every_kernel_passes(name):
    check_kernel(CASES[name][0], 3, far=0.0 if "warped" in name else 1e6)


def test_a_callable_kernel_passes_with_its_priors():
    check_kernel(lambda d: pm.HalfNormal("size") ** 2 * cov.Matern52(d, ls=pm.Gamma("l", 5, 5)), 2)
    check_kernel(lambda d: bx.Additive(d, ls=[0.8, 1.2], variances=[1.0, 0.5]), 2)


@dataclass(frozen=True, eq=False)
class Scaled(Kernel):
    """A kernel of which the derivative in some slots is multiplied."""

    of: Kernel
    slots: tuple
    factor: float

    def _jet(self, pairs, slots):
        jet = self.of._jet(pairs, slots)
        return jet if jet is None or slots != self.slots else self.factor * jet


@pytest.mark.parametrize(
    ("slots", "factor", "named"),
    [
        ((0,), -1.0, r"orders \(1, 0\).* is .*expected .*they differ by"),
        ((1,), 2.0, r"orders \(0, 1\)"),
        ((0, 1), -1.0, r"orders \(1, 1\)"),
        ((0, 0), 2.0, r"orders \(2, 0\)"),
        ((0, 1, 1), 1.001, r"orders \(1, 2\)"),
        ((0, 0, 1, 1), 0.999, r"orders \(2, 2\)"),
        ((), 1.5, "value of points that are apart, in a matrix"),
    ],
)
def test_a_wrong_derivative_is_named(slots, factor, named):
    kernel = from_pymc(cov.ExpQuad(2, ls=[0.7, 1.3]))
    wrong = Scaled(kernel, slots, factor)
    if not slots:
        wrong = Matrix(kernel)
    with pytest.raises(AssertionError, match=named):
        check_kernel(wrong, 2)


@pytest.mark.parametrize(
    ("covariance", "slots"),
    [
        pytest.param(cov.Cosine(1, ls=0.7), (0, 0, 1, 1), marks=pytest.mark.slow),
        pytest.param(cov.Cosine(1, ls=30.0), (0, 0, 1, 1), marks=pytest.mark.slow),
        (cov.ExpQuad(1, ls=0.01), (0, 1, 1)),
        (cov.Matern52(1, ls=0.01), (0, 0, 1, 1)),
        (cov.Matern32(1, ls=0.003), (0, 1)),
        pytest.param(cov.RatQuad(1, alpha=0.6, ls=0.01), (0, 1), marks=pytest.mark.slow),
        pytest.param(cov.Periodic(1, period=0.02, ls=0.5), (0, 0), marks=pytest.mark.slow),
        pytest.param(cov.ExpQuad(2, ls=[0.01, 1e4]), (0, 0, 1, 1), marks=pytest.mark.slow),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, cov.Covariance) else str(case),
)
def test_a_thousandth_is_found_at_every_lengthscale(covariance, slots):
    kernel = from_pymc(covariance)
    check_kernel(kernel, covariance.input_dim)
    with pytest.raises(AssertionError, match=r"derivative of orders .* at points that are"):
        check_kernel(Scaled(kernel, slots, 1.001), covariance.input_dim)


@dataclass(frozen=True, eq=False)
class Matrix(Kernel):
    """A kernel whose matrices of values are not made of its values."""

    of: Kernel

    def _jet(self, pairs, slots):
        jet = self.of._jet(pairs, slots)
        return 1.5 * jet if pairs.matrix else jet


@pytest.mark.parametrize(
    ("profile", "declared"),
    [
        pytest.param(lambda z: (1.0 + z) * pt.exp(-z), 2, id="Matern32", marks=pytest.mark.slow),
        pytest.param(lambda z: pt.exp(-z), 1, id="Matern12"),
    ],
)
def test_a_smoothness_that_is_too_large_is_named(profile, declared):
    def covariance(X, Xs):
        return profile(pt.sqrt(3.0 * pt.sqr(X[:, None] - Xs[None]).sum(-1) + 1e-16))

    check_kernel(Automatic(covariance, "Rough", declared - 1), 2)
    with pytest.raises(AssertionError, match=rf"orders \(.*{declared}.*\) at points that"):
        check_kernel(Automatic(covariance, "Rough", declared), 2)


def test_derivatives_beyond_the_declared_smoothness_are_to_be_refused():
    class Lax(Scaled):
        smoothness = 1

    kernel = from_pymc(cov.ExpQuad(2, ls=0.9))
    with pytest.raises(
        AssertionError, match="declares smoothness 1, but has derivatives of order 2"
    ):
        check_kernel(Lax(kernel, (), 1.0), 2)


class OfDifferences(cov.Covariance):
    """A function of squared differences."""

    def __init__(self, profile, diag=1.0):
        super().__init__(1)
        self.profile, self.variance = profile, diag

    def diag(self, X):
        return pt.full((X.shape[0],), self.variance)

    def full(self, X, Xs=None):
        Xs = X if Xs is None else Xs
        return self.profile(pt.sqr(X[:, None] - Xs[None]).sum(-1))


class Products(OfDifferences):
    """The same by squares of what is far from 0, which cancel."""

    def full(self, X, Xs=None):
        Xs = X if Xs is None else Xs
        squares = pt.sqr(X).sum(-1)[:, None] + pt.sqr(Xs).sum(-1)[None]
        return self.profile(squares - 2.0 * pt.dot(X, Xs.T))


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        pytest.param(
            OfDifferences(lambda s: 1.0 / (1.0 + s), diag=2.0),
            r"covariance function's diag is 2.*expected 1",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            OfDifferences(lambda s: 1.0 - 0.3 * s),
            "not positive definite.* eigenvalues go from -",
            marks=pytest.mark.slow,
        ),
        (Products(lambda s: 1.0 / (1.0 + s)), r"moved by 1\.04858e\+06"),
    ],
    ids=["diagonal", "indefinite", "cancels"],
)
def test_what_is_wrong_of_a_users_own_covariance_function_is_named(kernel, said):
    with pytest.raises(AssertionError, match=said):
        check_kernel(kernel, 1)


@pytest.mark.slow
def test_a_covariance_function_of_a_users_own():
    check_kernel(OfDifferences(lambda s: 1.0 / (1.0 + s)), 1)


def test_an_indefinite_kernel_is_named():
    with pytest.raises(AssertionError, match="not positive definite.* eigenvalues go from -"):
        check_kernel(-1.0 * cov.ExpQuad(1, ls=0.9), 1)


def test_an_infinite_smoothness_is_checked_to_the_second_order():
    assert from_pymc(cov.ExpQuad(1, ls=1.0)).smoothness == math.inf
    check_kernel(from_pymc(cov.ExpQuad(1, ls=np.float64(1.0))), 1)
