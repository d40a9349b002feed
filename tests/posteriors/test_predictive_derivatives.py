"""How expected probabilities of several classes change with x: by differences, by functions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

import bayes_gpx as bx
from bayes_gpx.draws import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.points import points
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.jets import Jet

RNG = np.random.default_rng(2)
N = 30
X = RNG.normal(size=(N, 2))
F = np.stack([2 * np.sin(1.5 * X[:, 0]), X[:, 1], np.zeros(N)], axis=1)
LABELS = np.array(list("abc"))[np.argmax(F + RNG.gumbel(size=(N, 3)), axis=1)]
THETA = {"lengthscale": [0.9, 1.3], "amplitude": 1.4}
NEW = np.array([[0.2, -0.4], [1.0, 0.5]])
QUIET = {"progressbar": False}
CASES = [
    (bx.GP, THETA, None),
    pytest.param(bx.GPX, THETA | {"sigma_w": 0.3}, None, marks=pytest.mark.slow),
    pytest.param(bx.GP, THETA, bx.Inducing(10), marks=pytest.mark.slow),
]


def model_of(family, approximation, **options):
    return family(X, LABELS, likelihood="categorical", approximation=approximation, **options)


def jets(model, theta, at, order):
    hyper = hyperparameter_draws(model, theta)
    return next(iter(evaluate.jets(model, hyper, points(model, at), order, **QUIET)))[2:4]


@pytest.mark.parametrize(("family", "theta", "approximation"), CASES)
def test_covariances_between_classes_have_the_derivatives_of_differences(
    family, theta, approximation
):
    model, h = model_of(family, approximation, scale=False), 1e-4
    both = jets(model, theta, NEW, 2)
    for d in range(2):
        ahead, behind = (jets(model, theta, NEW + s * h * np.eye(2)[d], 1) for s in (1, -1))
        for jet, a, b in zip(both, ahead, behind, strict=True):
            assert_allclose(jet.first[:, d], (a.value - b.value) / (2 * h), atol=2e-7)
            assert_allclose(jet.second[:, d], (a.first - b.first) / (2 * h), atol=4e-7)


def test_expected_probabilities_and_their_slopes():
    rng, h = np.random.default_rng(1), 1e-5
    m = [rng.normal(size=shape) for shape in ((4, 3), (4, 2, 3), (4, 2, 2, 3))]
    m[2] = m[2] + m[2].transpose(0, 2, 1, 3)
    roots = rng.normal(size=(4, 3, 3))
    V = [
        roots @ roots.transpose(0, 2, 1) + np.eye(3),
        *(rng.normal(size=s) for s in ((4, 2, 3, 3), (4, 2, 2, 3, 3))),
    ]
    V[1] = 0.1 * (V[1] + V[1].swapaxes(-1, -2))
    V[2] = 0.1 * (V[2] + V[2].swapaxes(-1, -2))
    V[2] = V[2] + V[2].transpose(0, 2, 1, 3, 4)
    found = expected_probabilities(Jet(*m), Jet(*V))

    def at(way):
        parts = [
            jet[0]
            + np.tensordot(way, jet[1], (0, 1))
            + 0.5 * np.einsum("d,e,mde...->m...", way, way, jet[2])
            for jet in (m, V)
        ]
        return np.stack([jet.value for jet in expected_probabilities(*map(Jet, parts))], axis=1)

    draws_of = m[0][:, None] + rng.normal(size=(4, 200_000, 3)) @ np.linalg.cholesky(
        V[0]
    ).transpose(0, 2, 1)
    assert_allclose(at(np.zeros(2)), softmax(draws_of, axis=2).mean(axis=1), atol=8e-3)
    for d in range(2):
        for c, jet in enumerate(found):
            way = h * np.eye(2)[d]
            difference = (at(way) - at(-way))[:, c] / (2 * h)
            assert_allclose(jet.first[:, d], difference, atol=1e-8)
            for e in range(2):
                other, wide = 1e-3 * np.eye(2)[e], 100 * way
                corners = at(wide + other) - at(wide - other) - at(other - wide) + at(-wide - other)
                assert_allclose(jet.second[:, d, e], corners[:, c] / 4e-6, atol=2e-5)


@pytest.mark.parametrize("classes", [2, 3, 6, 10])
def test_probabilities_of_independent_classes_are_an_integral_over_one_number(classes):
    """1 / S = int exp(-t S) dt, so E softmax is an integral of products; shifts change nothing."""
    rng = np.random.default_rng(classes)
    m, sd = rng.normal(size=(3, classes)), rng.uniform(0.5, 3.0, (3, classes))
    shared = 2.0 * np.ones((classes, classes))
    V = sd[:, :, None] * sd[:, None] * np.eye(classes) + shared
    z = np.linspace(-9.0, 9.0, 401)
    weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    log_t = np.linspace(-45.0, 45.0, 1801)
    f = m[..., None] + sd[..., None] * z  # (row, class, node)
    inner = np.exp(f)[..., None] * np.exp(log_t)
    lost = np.einsum("rcnt,n->rct", np.exp(-inner), weights)
    own = np.einsum("rcnt,n->rct", inner * np.exp(-inner), weights)
    others = np.stack([np.delete(lost, c, axis=1).prod(axis=1) for c in range(classes)], axis=1)
    expected = (own * others).sum(axis=-1) * (log_t[1] - log_t[0])
    assert_allclose(expected.sum(axis=1), 1.0, atol=1e-9)
    found = np.stack([jet.value for jet in expected_probabilities(Jet(m), Jet(V))], axis=1)
    assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("number", [200, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("family", "theta", "approximation"), CASES[:2])
def test_exact_means_are_those_of_functions(family, theta, approximation, number):
    model = model_of(family, approximation)
    asked = {"draws": number, "seed": 0, **QUIET}
    slopes = bx.derivatives(model, theta, NEW, **asked)
    shares = bx.attributions(model, theta, NEW, **asked)
    for found, name in ((slopes, "derivative"), (shares, "attribution"), (shares, "difference")):
        error = found[name].values.std(axis=(0, 1)) / np.sqrt(number)
        apart = np.abs(found[name].values.mean(axis=(0, 1)) - found[f"{name}_mean"].values)
        assert (apart < 5 * error + 4e-3).all()
    assert shares["completeness_residual"].max() < 1e-6


def test_relevance_of_classes_is_the_divergence_of_their_probabilities():
    model = model_of(bx.GP, None)
    exact = bx.relevance(model, THETA, NEW, **QUIET)
    steps = bx.relevance(model, THETA, NEW, method="finite_difference", **QUIET)
    assert_allclose(exact["relevance"], steps["relevance"], rtol=2e-3)
    pairs = bx.interactions(model, THETA, NEW, **QUIET)["interaction"].values[0, 0]
    assert_allclose(pairs, pairs.transpose(0, 2, 1))
    assert (pairs[:, 0, 1] > 0).all()
