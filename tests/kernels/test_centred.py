"""Kernels of functions with mean zero, against closed forms, adaptive quadrature and averages."""

import math

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import dblquad, quad

import bayes_gpx as bx
from bayes_gpx.kernels.centred import measures
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.kernels.summands import summands
from bayes_gpx.numerics.compile_modes import MODE

X, XS = np.array([[-1.3], [0.2], [2.1]]), np.array([[0.7], [-0.4]])
DATA = np.array([[0.1], [0.5], [0.5], [2.0], [-1.0]])
LS = 0.8


def expquad(x, xs):
    return np.exp(-((x - xs) ** 2) / (2 * LS**2))


def of_gaussian(x, xs, mean=0.3, sd=1.4):
    """Products and convolutions of normal densities, in closed form."""

    def one(x):
        total = LS**2 + sd**2
        return LS / math.sqrt(total) * np.exp(-((x - mean) ** 2) / (2 * total))

    return expquad(x, xs) - one(x) * one(xs) * math.sqrt(LS**2 + 2 * sd**2) / LS


def of_uniform(x, xs, low=-2.0, high=3.0):
    width = high - low

    def one(x):
        each = [quad(lambda s, at=at: expquad(at, s), low, high)[0] / width for at in x.ravel()]
        return np.reshape(each, x.shape)

    both = dblquad(expquad, low, high, low, high)[0] / width**2
    return expquad(x, xs) - one(x) * one(xs) / both


def of_data(x, xs):
    both = np.mean([[expquad(s, t) for s in DATA] for t in DATA])
    one, other = (np.mean([expquad(points, s) for s in DATA], axis=0) for points in (x, xs))
    return expquad(x, xs) - one * other / both


CASES = {
    "gaussian": (("gaussian", 0.3, 1.4), of_gaussian),
    "uniform": (("uniform", -2.0, 3.0), of_uniform),
    "empirical": (DATA, of_data),
}


@pytest.mark.parametrize(("measure", "expected"), CASES.values(), ids=CASES)
def test_values_are_those_of_the_measure(measure, expected):
    cov_func = bx.Additive(1, LS, measure=measure)
    x, xs = map(pt.as_tensor, (X, XS))
    kernel = from_pymc(cov_func)
    asked = [cov_func(X, XS), cov_func(X), cov_func(X, diag=True)]
    asked += [kernel.value(x, xs), kernel.gram(x), kernel.diag(x)]
    asked += [kernel.derivative(x[:, None], xs, 0, 0)]
    found = pytensor.function([], asked, mode=MODE)()
    across, within = expected(X, XS.T), expected(X, X.T)
    for values, truth in zip(found, [across, within, np.diag(within)] * 2 + [across], strict=True):
        assert_allclose(values, truth, atol=1e-10)


def test_derivatives_are_those_of_finite_differences():
    kernel = from_pymc(bx.Additive(2, [0.8, 1.2], 2, [1.0, 0.5], measure="gaussian"))
    x, xs, step = np.array([[0.3, -1.0]]), np.array([[-0.4, 0.6]]), 1e-5
    orders = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    asked = [kernel.derivative(pt.as_tensor(x), pt.as_tensor(xs), i, j) for i, j in orders]
    for i, j in orders:
        for sign in (1.0, -1.0):
            ends = pt.as_tensor(x + sign * step * np.eye(2))
            asked.append(kernel.derivative(ends, pt.as_tensor(xs), i - 1, j))
    found = pytensor.function([], asked, mode=MODE)()
    for own, up, down in zip(found[:5], found[5::2], found[6::2], strict=True):
        assert_allclose(own[0], (up - down) / (2.0 * step), atol=1e-8)


def test_effects_have_mean_zero_along_each_of_their_features():
    rows = np.random.default_rng(0).normal(size=(6, 3))
    kernel = from_pymc(bx.Additive(3, [0.8, 1.0, 1.5], 2, [1.0, 0.5], measure=rows))
    fixed, parts = pt.as_tensor(np.array([[0.4, 0.9, -1.0]])), summands(kernel, 3, 2)
    moved = [np.tile([0.3, -0.2, 1.1], (6, 1)) for _ in range(3)]
    for column, points in enumerate(moved):
        points[:, column] = rows[:, column]
    values = [pt.stack([p.kernel.value(pt.as_tensor(x), fixed) for p in parts]) for x in moved]
    for column, found in enumerate(pytensor.function([], values, mode=MODE)()):
        own = np.array([column in part.columns for part in parts])
        assert_allclose(found[own].mean(axis=1), 0.0, atol=1e-15)
        assert (np.abs(found[~own]) > 1e-3).all()


def test_by_default_measures_have_mean_0_and_variance_1():
    for measure in ("gaussian", "uniform"):
        points, weights = measures(measure, 2)[1]
        assert_allclose(
            [weights.sum(), weights @ points, weights @ points**2], [1, 0, 1], atol=1e-12
        )


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("normal", "Pass 'gaussian' or"),
        (("uniform", 1.0), "Pass 'gaussian' or"),
        (("uniform", 1.0, 0.0), "low first"),
        (("gaussian", 0.0, 0.0), "positive"),
        (("gaussian", np.nan, 1.0), "finite"),
        (np.zeros((3, 2)), "finite rows of 1 columns"),
    ],
)
def test_what_is_no_measure_is_refused(measure, words):
    with pytest.raises(ValueError, match=words):
        bx.Additive(1, LS, measure=measure)


def test_lengthscales_have_gradients():
    ls = pt.dvector()
    total = pt.sin(bx.Additive(2, ls, measure="gaussian").full(np.hstack([X, X[::-1]]))).sum()
    function = pytensor.function([ls], [total, pt.grad(total, ls)], mode=MODE)
    at, step = np.array([0.8, 1.3]), 1e-6
    ends = [[function(at + sign * step * own)[0] for sign in (1, -1)] for own in np.eye(2)]
    expected = [(up - down) / (2.0 * step) for up, down in ends]
    assert_allclose(function(at)[1], expected, rtol=1e-6)
