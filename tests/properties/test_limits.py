"""Limits in which the models become something that others compute."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 1.2, "sigma": 0.4}


@pytest.fixture(scope="module")
def plain(regression):
    """Standardised arrays, for peers that do not scale."""
    X, _, y, X_new, _ = regression
    center, scale = X.mean().values, X.std(ddof=0).values
    x, x_new = (X.values - center) / scale, (X_new.values - center) / scale
    return x, ((y - y.mean()) / y.std(ddof=0)).values, x_new


def sklearn_fit(x, y):
    kernel = ConstantKernel(THETA["amplitude"] ** 2) * RBF(THETA["lengthscale"])
    return GaussianProcessRegressor(kernel, alpha=THETA["sigma"] ** 2, optimizer=None).fit(x, y)


def test_gp_is_scikit_learns(plain):
    x, y, x_new = plain
    peer = sklearn_fit(x, y)
    model = bx.GP(x, y, scale=False)
    mean, sd = peer.predict(x_new, return_std=True)
    found = bx.predictions(model, THETA, x_new, draws=2, seed=1)
    assert_allclose(found["f_mean"], mean, rtol=1e-9)
    assert_allclose(found["f_sd"], sd, rtol=1e-9)
    evidence = bx.log_likelihood(model, THETA)["log_marginal_likelihood"].item()
    assert_allclose(evidence, peer.log_marginal_likelihood_value_, rtol=1e-10)


def test_gp_is_pymcs(plain):
    x, y, x_new = plain
    with pm.Model():
        cov = THETA["amplitude"] ** 2 * pm.gp.cov.ExpQuad(2, ls=np.array(THETA["lengthscale"]))
        gp = pm.gp.Marginal(cov_func=cov)
        gp.marginal_likelihood("y", X=x, y=y, sigma=THETA["sigma"], jitter=0.0)
        mean, variance = gp._predict_at(x_new, diag=True, pred_noise=True, jitter=0.0)
        mean, variance = pytensor.function([], [mean, variance], mode=MODE)()
    found = bx.predictions(bx.GP(x, y, scale=False), THETA, x_new, draws=2, seed=1)
    assert_allclose(found["y_mean"], mean, rtol=1e-8)
    assert_allclose(found["y_sd"], np.sqrt(variance), rtol=1e-8)


def test_gpx_of_one_constant_feature_without_own_noise_is_the_gp(plain):
    x, y, x_new = plain
    theta = {**THETA, "sigma_w": 0.0}
    gpx = bx.GPX(x, y, np.ones((len(y), 1)), scale=False)
    gp = bx.GP(x, y, scale=False)
    found = bx.predictions(gpx, theta, x_new, np.ones((len(x_new), 1)), draws=2, seed=1)
    expected = bx.predictions(gp, THETA, x_new, draws=2, seed=1)
    for name in ("f_mean", "f_sd", "y_sd"):
        assert_allclose(found[name], expected[name], rtol=1e-12)
    weight = bx.weights(gpx, theta, x_new, draws=2, seed=1)
    assert_allclose(weight["weight_mean"].squeeze(), expected["f_mean"], rtol=1e-12)


@pytest.mark.parametrize("sigma_w", [0.0, 0.3])
def test_huge_lengthscale_is_bayesian_linear_regression(plain, sigma_w):
    """Constant g: y = z'(g + eps_w) + noise, a linear model whose noise grows with |z|."""
    x, y, x_new = plain
    Z = np.column_stack([x, np.ones(len(y))])
    theta = {"lengthscale": 1e6, "amplitude": 0.8, "sigma_w": sigma_w, "sigma": 0.4}
    model = bx.GPX(x, y, Z, scale=False)
    found = bx.weights(model, theta, x_new, smooth=True, covariance=True, draws=2, seed=1)
    noise = 0.4**2 + sigma_w**2 * (Z**2).sum(axis=1)
    precision = Z.T @ (Z / noise[:, None]) + np.eye(3) / 0.8**2
    cov = np.linalg.inv(precision)
    mean = cov @ (Z.T @ (y / noise))
    # k = 1 - O((distance / 1e6)^2), about 1e-11.
    assert_allclose(found["weight_mean"], np.tile(mean, (len(x_new), 1)), rtol=1e-8, atol=1e-8)
    assert_allclose(found["weight_cov"], np.tile(cov, (len(x_new), 1, 1)), rtol=1e-8, atol=1e-8)


def test_own_noise_distinguishes_a_training_sample_from_a_new_one_at_its_place(regression):
    X, Z, y, _, _ = regression
    model = bx.GPX(X, y, Z)
    theta = {**THETA, "sigma_w": 0.5}
    own = bx.weights(model, theta, draws=2, seed=1)
    new = bx.weights(model, theta, X, Z, draws=2, seed=1)
    smooth = bx.weights(model, theta, smooth=True, draws=2, seed=1)
    assert np.abs(own["weight_mean"] - new["weight_mean"]).max() > 0.1
    assert np.abs(own["weight_sd"] - new["weight_sd"]).max() > 0.1
    assert_allclose(new["weight_mean"], smooth["weight_mean"], rtol=1e-9)
    unit = y.std(ddof=0) / Z.std(ddof=0).values
    added = new["weight_sd"] ** 2 - smooth["weight_sd"] ** 2
    assert_allclose(added, np.tile((0.5 * unit) ** 2, (len(y), 1)), rtol=1e-8)
