"""The additive kernel against the sum over all subsets of features."""

from itertools import combinations
from math import prod

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import bayes_gpx as bx
import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.processes import integrated_gradients

LS = np.array([0.7, 1.3, 2.0, 0.9, 1.6])
VARIANCES = np.array([1.0, 0.4, 0.3, 0.2, 0.1])
BASES = {
    "expquad": pm.gp.cov.ExpQuad,
    "matern52": pm.gp.cov.Matern52,
    "periodic": lambda d, ls: pm.gp.cov.Periodic(d, period=2.0 + ls, ls=ls),
    "ratquad": lambda d, ls: pm.gp.cov.RatQuad(d, alpha=0.6, ls=ls),
    "linear": lambda d, ls: pm.gp.cov.Linear(d, c=ls),
}
"""Those of one profile, one of a profile for each, and one whose values have either sign."""
ORDERS = [(i, j) for i in range(3) for j in range(3)]


def one(name):
    def kernel(x, xs, ls, m=np):
        more = {"linear": [], "periodic": [2.0 + ls], "ratquad": [0.6]}
        return getattr(oracle, name).pair(x, xs, ls, *more.get(name, []), m=m)

    return kernel


def brute(d, order, name="expquad"):
    """2^d terms, written out."""

    def at(x, xs, m=np):
        each = [one(name)(x[..., [i]], xs[..., [i]], LS[i], m=m) for i in range(d)]
        return sum(
            VARIANCES[r - 1] * prod(each[i] for i in chosen)
            for r in range(1, order + 1)
            for chosen in combinations(range(d), r)
        )

    return at


def additive(d, order, name="expquad"):
    return bx.Additive(d, LS[:d], order, VARIANCES[:order], BASES[name])


@pytest.mark.parametrize(("d", "order"), [(1, 1), (3, 1), (3, 2), (3, 3), (5, 4), (5, 5)])
def test_values_are_sums_over_subsets(rng, d, order):
    X, Xs = rng.normal(size=(7, d)), rng.normal(size=(4, d))
    X[3] = X[1]
    cov_func = additive(d, order)
    kernel, truth = from_pymc(cov_func), brute(d, order)
    graphs = [kernel.gram(X), kernel.value(X, Xs), kernel.diag(X)]
    graphs += [cov_func(X), cov_func(X, Xs), cov_func(X, diag=True)]
    gram, cross, diag, *pymc = pytensor.function([], graphs, mode=MODE)()
    for found, own in zip((gram, cross, diag), pymc, strict=True):
        assert_allclose(found, own, rtol=1e-12)
    assert_allclose(gram, truth(X[:, None], X[None]), rtol=1e-12)
    assert_allclose(cross, truth(X[:, None], Xs[None]), rtol=1e-12)
    assert_allclose(diag, truth(X, X), rtol=1e-14)


@pytest.mark.parametrize(
    ("d", "order", "name"),
    [
        (2, 2, "expquad"),
        pytest.param(3, 1, "expquad", marks=pytest.mark.slow),
        pytest.param(3, 3, "matern52", marks=pytest.mark.slow),
        (3, 2, "linear"),
        (2, 2, "periodic"),
        pytest.param(2, 2, "ratquad", marks=pytest.mark.slow),
    ],
)
def test_derivatives_are_those_of_the_sum_over_subsets(rng, d, order, name):
    """At separate, equal and close points, and far from 0."""
    x = rng.normal(size=(5, d))
    xs = x + np.array([0.5, 0.0, 1e-9, 0.5, 0.0])[:, None] * rng.normal(size=(5, d))
    if name != "linear":
        x[3:] += 1e6
        xs[3:] += 1e6
    kernel = from_pymc(additive(d, order, name))
    jets = pytensor.function([], [kernel.derivative(x, xs, *o) for o in ORDERS], mode=MODE)()
    for o, jet in zip(ORDERS, jets, strict=True):
        if o in ((0, 0), (1, 0), (1, 1), (2, 1), (2, 2)):
            truth = [
                oracle.derivative(brute(d, order, name), *p, *o) for p in zip(x, xs, strict=True)
            ]
            assert_allclose(jet, truth, rtol=0, atol=1e-13 * np.abs(truth).max())
    mixed = jets[ORDERS.index((2, 2))]
    assert_allclose(mixed, mixed.swapaxes(1, 2), rtol=0, atol=1e-13 * abs(mixed).max())


def test_four_derivatives_in_five_features_are_differences_of_three():
    kernel, rng, step = from_pymc(additive(5, 5)), np.random.default_rng(2), 1e-5
    x, xs = rng.normal(size=(2, 5))
    moved = xs + step * np.concatenate([np.eye(5), -np.eye(5)])
    graphs = [kernel.derivative(x[None], xs[None], 2, 2)[0], kernel.derivative(x, moved, 2, 1)]
    fourth, third = pytensor.function([], graphs, mode=MODE)()
    slopes = (third[:5] - third[5:]) / (2 * step)
    assert_allclose(fourth, np.moveaxis(slopes, 0, -1), atol=1e-8 * abs(fourth).max())


def test_value_gradient_and_hessian_vary_jointly(rng):
    X, n = rng.normal(size=(4, 3)), 4
    kernel = from_pymc(additive(3, 3))
    graphs = [kernel.derivative(X[:, None], X[None], *o) for o in ORDERS]
    jets = dict(zip(ORDERS, pytensor.function([], graphs, mode=MODE)(), strict=True))
    joint = np.block(
        [
            [
                jets[i, j].reshape((n, n, 3**i, 3**j)).swapaxes(1, 2).reshape((n * 3**i, -1))
                for j in range(3)
            ]
            for i in range(3)
        ]
    )
    assert_allclose(joint, joint.T, rtol=0, atol=1e-13 * abs(joint).max())
    eigenvalues = np.linalg.eigvalsh(joint)
    assert eigenvalues[0] > -1e-13 * eigenvalues[-1]


def test_twenty_features(rng):
    """2^20 terms; equal points have e_r = comb(20, r), and shares of the variance sum to 1."""
    d = 20
    X, ls = rng.normal(size=(6, d)), pt.vector("ls", shape=(d,))
    kernel = from_pymc(bx.Additive(d, ls))
    whole = from_pymc(bx.Additive(d, ls, variances=[1.0] * d))
    gram = kernel.gram(X)
    graphs = [gram, kernel.derivative(X, X[::-1], 1, 1), pt.grad(gram.sum(), ls)]
    graphs += [whole.diag(X), whole.gram(X)]
    gram, mixed, slope, diag, counted = pytensor.function([ls], graphs, mode=MODE)(np.ones(d))
    assert_allclose(np.diag(gram), 1.0, rtol=1e-13)
    assert_allclose(diag, 2.0**d - 1, rtol=1e-13)
    each = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    assert_allclose(counted, (1 + each).prod(axis=2) - 1, rtol=1e-12)
    assert mixed.shape == (6, d, d)
    assert np.isfinite(slope).all()


def test_slopes_of_twenty_features_are_products(rng):
    """With unit variances k + 1 is a product over features."""
    d = 20
    x, xs = rng.normal(size=(2, d))
    kernel = from_pymc(bx.Additive(d, 1.0, variances=[1.0] * d))
    first, mixed = pytensor.function(
        [], [kernel.derivative(x, xs, 1, 0), kernel.derivative(x, xs, 1, 1)], mode=MODE
    )()
    each = np.exp(-0.5 * (x - xs) ** 2)
    rate = -(x - xs) * each / (1 + each)
    whole = (1 + each).prod()
    assert_allclose(first, whole * rate, rtol=1e-12)
    own = (1 - (x - xs) ** 2) * each / (1 + each)
    truth = -whole * np.multiply.outer(rate, rate)
    truth[np.arange(d), np.arange(d)] = whole * own
    assert_allclose(mixed, truth, rtol=1e-11, atol=1e-13 * abs(truth).max())


def test_active_columns_and_own_priors(rng):
    X = rng.normal(size=(5, 4))
    cov_func = 2.0 * bx.Additive(4, LS[:2], 2, VARIANCES[:2], active_dims=[3, 1])
    kernel = from_pymc(cov_func)
    gram, jet = pytensor.function(
        [], [kernel.gram(X), kernel.derivative(X, X[::-1], 1, 0)], mode=MODE
    )()
    assert_allclose(gram, 2 * brute(2, 2)(X[:, None, [3, 1]], X[None][..., [3, 1]]), rtol=1e-12)
    assert np.count_nonzero(jet[:, [0, 2]]) == 0
    with pm.Model():
        ls = pm.Gamma("ls", 4.0, 4.0, shape=4)
        variances = pm.HalfNormal("variances", shape=2)
        gp = pm.gp.Marginal(cov_func=bx.Additive(4, ls, 2, variances))
        gp.marginal_likelihood("y", X, rng.normal(size=5), sigma=0.3)
        assert np.isfinite(pm.draw(pm.modelcontext(None)["y"], random_seed=1, mode=MODE)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 4}, "order is 4, but must be from 1 to the 3 features"),
        ({"order": 0}, "order is 0"),
        ({"ls": [1.0, 2.0]}, r"ls has shape \(2,\), but must have \(3,\)"),
        ({"order": 2, "variances": [1.0]}, r"variances has shape \(1,\), but must have \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bx.Additive(**{"input_dim": 3, "ls": 1.0} | arguments)


def test_a_rough_base_has_no_gradient():
    kernel = from_pymc(bx.Additive(2, 1.0, base=pm.gp.cov.Matern12))
    assert kernel.smoothness == 0
    with pytest.raises(ValueError, match="Matern12 has no gradient"):
        kernel.derivative(np.zeros((1, 2)), np.ones((1, 2)), 1, 0)


SLOPES = {
    "matern52": lambda u: -5 / 3 * u * (1 + 5**0.5 * abs(u)) * np.exp(-(5**0.5) * abs(u)),
    "matern32": lambda u: -3 * u * np.exp(-(3**0.5) * abs(u)),
}
ROUGH = {"matern52": pm.gp.cov.Matern52, "matern32": pm.gp.cov.Matern32}
WHOLE = {
    "additive": lambda base: bx.Additive(3, LS[:3], 2, VARIANCES[:2], base),
    "sum and product": lambda base: (
        prod(base(3, ls=LS[i], active_dims=[i]) for i in range(2))
        + 0.3 * base(3, ls=LS[2], active_dims=[2])
    ),
}
COEFFICIENTS = {  # of which features' kernels are multiplied
    "additive": {(i,): 1.0 for i in range(3)} | {(0, 1): 0.4, (0, 2): 0.4, (1, 2): 0.4},
    "sum and product": {(0, 1): 1.0, (2,): 0.3},
}


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("matern52", "additive"),
        pytest.param("matern32", "sum and product", marks=pytest.mark.slow),
    ],
)
def test_attributions_of_rough_parts_are_cut_at_every_kink(rng, name, whole):
    """Against adaptive quadrature of each piece of the path between kinks."""
    kernel, ls = from_pymc(WHOLE[whole](ROUGH[name])), LS[:3]
    x, xs, baseline = rng.choice([-1.0, 1.0], (2, 3)), rng.normal(size=(3, 3)), 0.1 * np.ones(3)
    x[1] *= 8.0
    found = integrated_gradients.cross(kernel, *(pt.as_tensor(v) for v in (x, baseline, xs))).eval(
        mode=MODE
    )
    value = getattr(oracle, name).pair

    def slope(t, point, other, i):
        u = (baseline + t * (point - baseline) - other) / ls
        each = [float(value(v, 0.0, 1.0)) for v in u[:, None]]
        rate = (point[i] - baseline[i]) * SLOPES[name](u[i]) / ls[i]
        parts = COEFFICIENTS[whole].items()
        return sum(c * rate * prod(each[j] for j in of if j != i) for of, c in parts if i in of)

    for (m, i, n), attribution in np.ndenumerate(found):
        cuts = np.clip((xs[n] - baseline) / (x[m] - baseline), 0, 1)
        ends = np.unique([0.0, *cuts, 1.0])
        pieces = [
            quad(slope, a, b, (x[m], xs[n], i), epsabs=1e-13, epsrel=1e-13, limit=200)[0]
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        assert_allclose(attribution, sum(pieces), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_attributions_are_complete(rng):
    X = rng.normal(size=(12, 2))
    y = X[:, 0] + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=12)
    model = bx.GP(X, y, kernel=lambda d: 0.8**2 * bx.Additive(d, [0.9, 1.4]))
    found = bx.attributions(model, {"sigma": 0.3}, X[:3], keep="summary", progressbar=False)
    assert (found["completeness_residual"] <= 1e-6).all()
    assert (found["completeness_residual_variance"] <= 1e-6).all()
    assert (found["attribution_sd"] > 0).all()
