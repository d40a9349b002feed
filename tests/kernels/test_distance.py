"""Squared distances as one operation, in Python and in machine code; clusters far apart."""

import mpmath
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle
from bayes_gpx.inference.log_density import Density
from bayes_gpx.kernels.distance import squared_distances
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.normal import normal_logp
from bayes_gpx.posteriors.evidence.numba_forms import NATIVE_MODE


@pytest.mark.parametrize(
    "mode", [MODE, pytest.param(NATIVE_MODE, marks=pytest.mark.slow)], ids=["python", "native"]
)
@pytest.mark.parametrize("one", [True, False])
def test_distances_and_their_pullback(rng, mode, one):
    A, B, G = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    if one:
        B, G = A, rng.normal(size=(5, 5))
    a, b = pt.dmatrix(), pt.dmatrix()
    distances = squared_distances(a) if one else squared_distances(a, b)
    slopes = pt.grad((G * distances).sum(), [a] if one else [a, b])
    function = pytensor.function([a, b], [distances, *slopes], mode=mode, on_unused_input="ignore")
    found, *slopes = function(A, B)
    apart = A[:, None] - B[None]
    assert_allclose(found, (apart**2).sum(axis=2), atol=1e-14)
    left, right = 2 * (G[..., None] * apart).sum(axis=1), -2 * (G[..., None] * apart).sum(axis=0)
    for slope, expected in zip(slopes, [left + right] if one else [left, right], strict=True):
        assert_allclose(slope, expected, atol=1e-13)
    if one:
        assert (np.diagonal(found) == 0).all()


def test_round_off_is_clipped():
    A = 1e8 + np.array([[0.0], [1.0], [1.0]])
    for points in ((A,), (A, A.copy())):
        assert (squared_distances(*points).eval(mode=MODE) >= 0).all()


@pytest.mark.parametrize(
    "mode", [MODE, pytest.param(NATIVE_MODE, marks=pytest.mark.slow)], ids=["python", "native"]
)
@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("spread", [1.0, 1e8])
def test_scaled_distances_and_slopes_in_the_scale(rng, mode, one, spread):
    """Against differences: those of rows near each other too, far from the others."""
    A = rng.normal(size=(6, 3)) + spread * np.repeat([[0.0], [1.0]], 3, axis=0)
    B, scale = A if one else A[::-1] + 0.1, np.array([0.7, 1.0, 1.3])
    G = rng.normal(size=(6, 6)) * (np.abs(A[:, None] - B[None]).sum(axis=2) < 100)
    a, b, s = pt.dmatrix(), pt.dmatrix(), pt.dvector()
    distances = squared_distances(*([a] if one else [a, b]), scale=s)
    outputs = [distances, pt.grad((G * distances).sum(), s)]
    function = pytensor.function([a, b, s], outputs, mode=mode, on_unused_input="ignore")
    found, slope = function(A, B, scale)
    apart = (A[:, None] - B[None]) / scale
    assert_allclose(found, (apart**2).sum(axis=2), rtol=1e-13, atol=1e-13)
    assert_allclose(slope, -2 * np.einsum("ij,ijk->k", G, apart**2) / scale, rtol=1e-12)


KERNELS = {
    "expquad": (pm.gp.cov.ExpQuad, {}),
    "matern52": (pm.gp.cov.Matern52, {}),
    "matern32": (pm.gp.cov.Matern32, {}),
    "matern12": (pm.gp.cov.Matern12, {}),
    "exponential": (pm.gp.cov.Exponential, {}),
    "ratquad": (pm.gp.cov.RatQuad, {"alpha": 0.7}),
    "periodic": (pm.gp.cov.Periodic, {"period": 1.7}),
}


class Exact:
    """A Gaussian process with one kernel and noise of sd 0.1, to 50 digits; y has mean 0."""

    def __init__(self, name, X, X_new, y):
        self.pair, self.parameters = getattr(oracle, name).pair, [*KERNELS[name][1].values()]
        self.X, self.X_new = (
            [[mpmath.mpf(v) for v in x] for x in rows.tolist()] for rows in (X, X_new)
        )
        self.y = mpmath.matrix(y.tolist())

    def kernel(self, rows, columns, lengthscale):
        parameters = [np.array(lengthscale), *map(mpmath.mpf, self.parameters)]
        pairs = [[(np.array(x), np.array(xs)) for xs in columns] for x in rows]
        return mpmath.matrix(
            [[self.pair(*pair, *parameters, m=mpmath) for pair in row] for row in pairs]
        )

    def noisy(self, lengthscale):
        return self.kernel(self.X, self.X, lengthscale) + mpmath.mpf(0.1) ** 2 * mpmath.eye(
            len(self.X)
        )

    def log_density(self, lengthscale):
        C = self.noisy(lengthscale)
        half = sum(mpmath.log(v) for v in (mpmath.cholesky(C)[i, i] for i in range(C.rows)))
        fit = (self.y.T * mpmath.lu_solve(C, self.y))[0]
        return -fit / 2 - half - C.rows * mpmath.log(2 * mpmath.pi) / 2

    def slopes(self, lengthscale):
        step, found = mpmath.mpf(10) ** -15, []
        for k in range(len(lengthscale)):
            moved = [[v + s * step * (i == k) for i, v in enumerate(lengthscale)] for s in (1, -1)]
            up, down = map(self.log_density, moved)
            found.append((up - down) / (2 * step))
        return found

    def posterior(self, lengthscale):
        C, K = self.noisy(lengthscale), self.kernel(self.X_new, self.X, lengthscale)
        prior = self.kernel(self.X_new, self.X_new, lengthscale)
        variance = [
            prior[i, i] - (K[i, :] * mpmath.lu_solve(C, K[i, :].T))[0] for i in range(K.rows)
        ]
        return K * mpmath.lu_solve(C, self.y), variance


def numbers(exact):
    return np.array([[float(v) for v in row] for row in exact.tolist()]).squeeze()


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_clusters_far_apart_are_as_exact_as_one(name, ard):
    """Values, log density, its slopes and the posterior, of two clusters of any gap."""
    d, n = 2, 6
    lengthscale = np.array([0.7, 1.3]) if ard else np.array([0.9])
    points, new, ls = pt.dmatrix(), pt.dmatrix(), pt.dvector()
    cov_func, others = KERNELS[name]
    y = np.random.default_rng(3).normal(size=n)
    gp = bx.GaussianProcess(cov_func(d, ls=ls if ard else ls[0], **others))
    gram = gp.kernel.gram(points)
    log_density = normal_logp(y, gram + 0.01 * pt.eye(n))
    found = bx.posteriors.exact(gp, points, y, 0.1)(bx.operators.evaluate(new))
    outputs = [gram, gp.kernel.value(new, points), log_density, pt.grad(log_density, ls)]
    function = pytensor.function(
        [points, new, ls], [*outputs, found.mean, found.variance], mode=MODE
    )
    for gap in (1.0, 1e3, 1e6, 1e9):
        rng = np.random.default_rng(4)
        X = rng.normal(size=(n, d)) + np.repeat([[0.0], [gap]], n // 2, axis=0)
        X_new = X[[0, n - 1]] + 0.3
        gram, value, log_density, slopes, mean, variance = function(X, X_new, lengthscale)
        with mpmath.workdps(50):
            exact = Exact(name, X, X_new, y)
            every = [mpmath.mpf(v) for v in np.broadcast_to(lengthscale, (d,)).tolist()]
            assert_allclose(gram, numbers(exact.kernel(exact.X, exact.X, every)), atol=2e-15)
            expected = numbers(exact.kernel(exact.X_new, exact.X, every))
            assert_allclose(value, expected, rtol=1e-12, atol=2e-15)
            # round-off in values, times at most 1 / 0.1^2 for each solve
            assert_allclose(log_density, float(exact.log_density(every)), rtol=1e-12)
            slope = np.array(exact.slopes(every), float)
            assert_allclose(slopes, slope if ard else [slope.sum()], rtol=1e-10, atol=1e-11)
            known = exact.posterior(every)
            assert_allclose(mean, numbers(known[0]), atol=1e-12)
            assert_allclose(variance, np.array(known[1], float), atol=1e-12)


def test_many_near_pairs_are_taken_again_in_blocks(rng, monkeypatch):
    monkeypatch.setattr("bayes_gpx.kernels.distance.BLOCK", 64)
    A = rng.normal(size=(40, 3)) + 1e6 * np.repeat([[0.0], [1.0]], 20, axis=0)
    found = squared_distances(pt.as_tensor(A), pt.as_tensor(A[5:]), scale=np.ones(3)).eval(
        mode=MODE
    )
    assert_allclose(found, ((A[:, None] - A[5:]) ** 2).sum(axis=2), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("weight_prior", ["shared", "horseshoe"])
def test_machine_code_gives_the_same_density(regression, weight_prior):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z, kernel="matern52 + linear", weight_prior=weight_prior)._pymc
    few, many = (Density(model, jacobian=True, long_run=many) for many in (False, True))
    x = few.unconstrain({}) + 0.2
    value, slope = few.value_and_slope()(x)
    found, gradient = many.value_and_slope()(x)
    assert_allclose(found, value, rtol=1e-12)
    assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
