"""Predictions of a GPX: f with each sample's own deviation, and z' g without, drawn together.

The oracle writes down the joint normal of z' g and f at all rows, and conditions it densely.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from oracle import expquad

RNG = np.random.default_rng(4)
N, M, DRAWS = 14, 3, 20_000
X, Z = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2))
X_NEW, Z_NEW = RNG.normal(size=(M, 2)), RNG.normal(size=(M, 2))
Y = np.sin(X[:, 0]) * Z[:, 0] + 0.3 * Z[:, 1] * RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(Y))
THETA = {"lengthscale": [1.1, 1.7], "amplitude": 0.9, "sigma_w": 0.6}
OPTIONS = {"draws": DRAWS, "seed": 1, "progressbar": False}


def joint_prior():
    """Covariances of s = z' g and of f = s + z' eps_w at training and new rows, (2, 17, 17)."""
    x, z = np.vstack([X, X_NEW]), np.vstack([Z, Z_NEW])
    smooth = 0.81 * expquad(x, x, np.array(THETA["lengthscale"])) * (z @ z.T)
    return smooth, smooth + np.diag(0.36 * (z**2).sum(axis=1))


def conditioned(y, noise):
    """Moments of (s, f), stacked, given y = f + noise of these variances at training rows."""
    smooth, whole = joint_prior()
    prior = np.block([[smooth, smooth], [smooth, whole]])
    seen = slice(N + M, 2 * N + M)  # f at training rows
    C = prior[seen, seen] + np.diag(noise)
    gain = np.linalg.solve(C, prior[seen]).T
    return gain @ y, prior - gain @ prior[seen]


def laplace(counts):
    """Sites at the mode of f given counts with a log link: pseudo-responses and variances."""
    K, f = joint_prior()[1][:N, :N], np.zeros(N)
    for _ in range(200):
        rate = np.exp(f)
        target = f + (counts - rate) / rate
        f = 0.5 * f + 0.5 * K @ np.linalg.solve(K + np.diag(1 / rate), target)
    return target, 1 / rate


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("rows", ["training", "new"])
@pytest.mark.parametrize("likelihood", ["normal", "poisson"])
def test_moments_and_draws_are_those_of_the_dense_joint_normal(likelihood, rows, joint):
    if likelihood == "normal":
        model, theta = bx.GPX(X, Y, Z, scale=False), THETA | {"sigma": 0.3}
        mean, cov = conditioned(Y, np.full(N, 0.09))
    else:
        model, theta = bx.GPX(X, COUNTS, Z, likelihood="poisson", scale=False), THETA
        mean, cov = conditioned(*laplace(COUNTS))
    new = rows == "new"
    given = (X_NEW, Z_NEW) if new else (None, None)
    found = bx.predictions(model, theta, *given, joint=joint, **OPTIONS)
    at = np.arange(N, N + M) if new else np.arange(N)
    for start, name in ((0, "smooth"), (N + M, "f")):
        own, sd = mean[start + at], np.sqrt(np.diag(cov)[start + at])
        assert_allclose(found[f"{name}_mean"], own, atol=1e-6)
        assert_allclose(found[f"{name}_sd"], sd, rtol=1e-6)
        ends = np.stack([own - 1.6448536 * sd, own + 1.6448536 * sd], axis=1)
        assert_allclose(found[f"{name}_interval"], ends, atol=1e-5)
    drawn = np.concatenate([found["smooth"].values[0], found["f"].values[0]], axis=1)
    both = np.concatenate([at, N + M + at])
    exact, sampled = cov[np.ix_(both, both)], np.cov(drawn.T)
    error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / DRAWS)
    apart = np.abs(sampled - exact) / error
    within = np.tile(np.eye(len(at), dtype=bool), (2, 2))  # s and f of one row
    assert apart[within].max() < 5
    if joint:
        assert apart.max() < 5


def test_what_has_no_deviations_has_one_part_alone():
    theta = {"lengthscale": [1.1, 1.7], "amplitude": 0.9, "sigma": 0.3}
    assert "smooth" not in bx.predictions(bx.GP(X, Y), theta, progressbar=False)
    model = bx.GPX(X, Y, Z, priors={"sigma_w": 0.0})
    found = bx.predictions(model, theta, **OPTIONS)
    assert_allclose(found["smooth"], found["f"], atol=1e-10)
    assert_allclose(found["smooth_sd"], found["f_sd"], rtol=1e-9)


@pytest.mark.parametrize("approximation", [bx.Inducing(6), bx.HSGP((6, 6)), bx.RandomFeatures(40)])
def test_with_approximations_deviations_are_those_of_new_samples(approximation):
    model = bx.GPX(X, Y, Z, approximation=approximation)
    theta = THETA | {"sigma": 0.3}
    found = bx.predictions(model, theta, X_NEW, Z_NEW, **OPTIONS)
    scaled = model.training.Z_scaling.apply(Z_NEW)
    own = 0.36 * model.training.y_scaling.scale**2 * (scaled**2).sum(axis=1)
    assert_allclose(found["f_sd"] ** 2 - found["smooth_sd"] ** 2, own, rtol=1e-6)
    assert_allclose(found["f_mean"], found["smooth_mean"], rtol=1e-9)
    apart = (found["f"] - found["smooth"]).values[0]
    assert_allclose(apart.var(axis=0), own, rtol=0.06)
    trained = bx.predictions(model, theta, **OPTIONS)
    assert np.isfinite(trained["smooth"]).all()
