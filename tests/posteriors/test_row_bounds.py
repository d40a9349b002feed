"""The evidence through coefficients as sums over blocks of rows, by dense formulas."""

import tracemalloc

import mpmath
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods import named
from bayes_gpx.numerics import row_sums
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.base import Conditioning
from bayes_gpx.posteriors.evidence import variational
from bayes_gpx.posteriors.strategies import choice
from bayes_gpx.posteriors.strategies.low_rank import LowRankNormal
from bayes_gpx.posteriors.strategies.variational import Variational
from bayes_gpx.processes.operators import evaluate

RNG = np.random.default_rng(sum(map(ord, "row bounds")))
N, D, SIZE = 45, 2, 17
X, EXPOSURE = RNG.normal(size=(N, D)), RNG.uniform(0.5, 2.0, size=N)
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1]
RESPONSES = {
    "normal": SIGNAL + 0.1 * RNG.normal(size=N),
    "student_t": SIGNAL + 0.1 * RNG.standard_t(4, size=N),
    "poisson": RNG.poisson(np.exp(SIGNAL)),
    "categorical": np.array(list("abc"))[RNG.integers(0, 3, size=N)],
}
MODELS = {
    "normal": (bx.GP, "normal", bx.Inducing(6)),
    "weighed": (bx.GPX, "normal", bx.RandomFeatures(6)),
    "counts": (bx.GPX, "poisson", bx.Inducing(6)),
    "heavy tails": (bx.GP, "student_t", bx.HSGP(3, 1.5)),
    "classes": (bx.GP, "categorical", bx.Inducing(5)),
}


@pytest.fixture
def blocks(monkeypatch):
    """Function that has designs counted as large, and summed in blocks of so many rows."""

    def set_size(size):
        for module in (choice, variational):
            monkeypatch.setattr(module, "KEPT", 0)
        monkeypatch.setattr(row_sums, "ROWS", size)

    return set_size


def model_of(name):
    kind, likelihood, approximation = MODELS[name]
    return kind(X, RESPONSES[likelihood], likelihood=likelihood, approximation=approximation)


def density_of(name):
    """Log density with gradient of the hyperparameters, and a point."""
    density = Density(model_of(name).objective, jacobian=False)
    at = density.unconstrain({})
    return density.value_and_slope(), at + 0.2 * np.random.default_rng(1).normal(size=at.size)


@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_rows_give_the_density_of_all_rows(name, blocks):
    whole, x = density_of(name)
    value, slope = whole(x)
    blocks(SIZE)
    evaluate, x = density_of(name)
    found, slopes = evaluate(x)
    assert_allclose(found, value, rtol=1e-10)
    assert_allclose(slopes, slope, rtol=1e-6, atol=1e-7 * np.abs(slope).max())
    moves = 1e-5 * np.eye(len(x))
    differences = [(evaluate(x + m)[0] - evaluate(x - m)[0]) / 2e-5 for m in moves]
    assert_allclose(slopes, differences, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def given_of(likelihood, y, theta):
    process = bx.GaussianProcess(1.3 * pm.gp.cov.ExpQuad(D, ls=0.9))
    known = {name: pt.as_tensor(value) for name, value in theta.items()}
    arrays = pt.as_tensor(X), pt.as_tensor(y), None, pt.as_tensor(EXPOSURE)
    inducing = evaluate(pt.as_tensor(X[:7] + 0.1), smooth=True)
    return Conditioning(process, named(likelihood), known, *arrays, inducing)


def numbers(*graphs):
    return pytensor.function([], graphs, mode=MODE)()


@pytest.mark.parametrize("sigma", [0.3, 1e-3])
def test_normal_evidence_keeps_its_digits_at_small_noise(sigma, blocks):
    blocks(SIZE)
    y = RESPONSES["normal"] - RESPONSES["normal"].mean()
    given, strategy = given_of("normal", y, {"sigma": sigma}), LowRankNormal()
    seen, found = strategy.design(given), strategy.condition(given)
    F, unseen, value, mean = numbers(seen.F, seen.unseen, strategy.by_rows(given), found.alpha)
    with mpmath.workdps(40):
        F, y = mpmath.matrix(F), mpmath.matrix(y)
        covariance = F * F.T + mpmath.mpf(sigma) ** 2 * mpmath.eye(N)
        root = mpmath.cholesky(covariance)
        alpha = mpmath.lu_solve(covariance, y)
        logdet = sum(mpmath.log(root[i, i]) for i in range(N))
        square = (y.T * alpha)[0] + mpmath.fsum(unseen) / mpmath.mpf(sigma) ** 2
        expected = -square / 2 - logdet - N * mpmath.log(2 * mpmath.pi) / 2
        coefficients = [float(v) for v in F.T * alpha]
    assert_allclose(value, float(expected), rtol=1e-11)
    assert_allclose(mean, coefficients, rtol=1e-7)


def test_the_bound_for_counts_is_that_of_its_posterior(blocks):
    """By closed forms of the Poisson likelihood, at a posterior that no step improves."""
    blocks(SIZE)
    y = RESPONSES["poisson"] * 1.0
    given, strategy = given_of("poisson", y, {}), Variational()
    seen, found = strategy.design(given), strategy.condition(given)
    graphs = seen.F, seen.unseen, strategy.by_rows(given), found.alpha, found.root
    F, rest, value, m, root = numbers(*graphs)

    def bound(m, V):
        mean, variance = F @ m, np.einsum("nm,mk,nk->n", F, V, F) + rest
        rate = EXPOSURE * np.exp(mean + variance / 2)
        terms = y * (mean + np.log(EXPOSURE)) - rate - gammaln(y + 1)
        gap = m @ m + np.trace(V) - len(m) - np.linalg.slogdet(V)[1]
        return terms.sum() - gap / 2, F.T @ (y - rate) - m, np.eye(len(m)) + (F.T * rate) @ F

    expected, slope, precision = bound(m, np.linalg.inv(root @ root.T))
    assert_allclose(value, expected, rtol=1e-10)
    assert_allclose(slope, 0.0, atol=1e-7)
    assert_allclose(root @ root.T, precision, rtol=1e-7)


@pytest.mark.parametrize("name", ["normal", "counts"])
def test_no_array_of_the_design_s_size_is_made(name, blocks):
    kind, likelihood, approximation = MODELS[name]
    n, M, rng = 4000, 40, np.random.default_rng(2)
    x = rng.normal(size=(n, D))
    y = rng.poisson(2.0, size=n) + (likelihood == "normal") * rng.normal(size=n)
    blocks(128)
    priors = {"sigma_w": 0.0} if kind is bx.GPX else {}  # deviations are one for each row
    options = {"likelihood": likelihood, "priors": priors}
    model = kind(x, y, approximation=bx.Inducing(M), **options)
    density = Density(model.objective, jacobian=False)
    evaluate, at = density.value_and_slope(), density.unconstrain({})
    evaluate(at)
    tracemalloc.start()
    value, _ = evaluate(at + 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(value)
    assert peak < 8 * n * M


def test_distances_of_all_rows_are_not_made(blocks):
    """With one lengthscale they do not depend on hyperparameters, and could be made beforehand."""
    n, M, rng = 60_000, 100, np.random.default_rng(2)
    x, y = rng.normal(size=(n, D)), rng.normal(size=n)
    blocks(1024)
    model = bx.GP(x, y, approximation=bx.Inducing(M), ard=False)
    tracemalloc.start()
    density = Density(model.objective, jacobian=False)
    evaluate = density.value_and_slope()
    assert np.isfinite(evaluate(density.unconstrain({}))[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * M


def test_a_fit_in_blocks_is_a_fit_in_one(blocks):
    whole = model_of("normal").fit("map", progressbar=False)["posterior"]
    blocks(SIZE)
    model = model_of("normal")
    found = model.fit("map", progressbar=False)
    for variable, expected in whole.items():
        assert_allclose(found["posterior"][variable], expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(bx.predictions(model, found)["f_mean"]).all()


def test_responses_are_drawn_where_the_density_is_in_blocks(blocks):
    theta = {"lengthscale": 0.8 * np.ones(D), "amplitude": 1.2, "sigma_w": 0.3, "sigma": 0.4}
    drawn = []
    for size in (None, SIZE):
        if size is not None:
            blocks(size)
        known = pm.do(model_of("weighed").pymc, theta)
        drawn.append(pm.draw(known["y"], draws=3000, random_seed=3, mode=MODE))
    variances = [draws.var(axis=0) for draws in drawn]
    # The standard error of a difference of two logs of variances is sqrt(4 / 3000).
    assert_allclose(np.log(variances[1]), np.log(variances[0]), atol=5 * np.sqrt(4 / 3000))
