"""Deviations of weights with other than normal noise, through coefficients, against dense ones.

With inducing points at all rows, the best Gaussian of coefficients and deviations is that of the
latent values under their whole prior. Weights follow from latent values by linear regression.
"""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle
from bayes_gpx.model.inducing_points import bound_by_rows
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.evidence.row_bounds import variational

RNG = np.random.default_rng(46)
N, AMPLITUDE, SIGMA_W, LENGTHSCALE = 18, 0.8, 0.6, np.array([0.9, 1.3])
X, Z = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 3))
X_NEW, Z_NEW = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 3))
F = (Z * np.column_stack([np.sin(X), np.ones(N)])).sum(axis=1) + 0.5 * RNG.normal(size=N)
RESPONSES = {
    "poisson": (RNG.poisson(np.exp(F)), {}),
    "bernoulli": ((F > RNG.logistic(size=N)).astype(int), {}),
    "student_t": (F + 0.3 * RNG.standard_t(2, N), {"sigma": 0.2, "nu": 2.0}),
    "categorical": (np.digitize(F, [-0.7, 0.7]), {}),
}
QUIET = {"keep": "summary", "progressbar": False}


def of_weights(A, B):
    """Covariance of each weight function."""
    return AMPLITUDE**2 * oracle.expquad(A, B, LENGTHSCALE)


def posterior(model, y, hyperparameters, whole):
    """Bound, terms without each row, and means (C, n) and covariances (C, n, n) of f."""
    root, own = pt.constant(np.linalg.cholesky(whole)), model.specification.observation
    theta = {name: pt.constant(value) for name, value in hyperparameters.items()}
    none, ones = pt.zeros(N), pt.ones(N)
    found = variational(own, root, none, pt.constant(y.astype(float)), theta, ones)
    given = pt.constant(y), *found.seen.sites().cavity(), theta, ones
    terms = pt.zeros(N) if own.class_shape else own.score(*given)
    outputs = [found.bound, terms, *found.found]
    bound, terms, mean, precision = pytensor.function([], outputs, mode=MODE)()
    mean, precision = mean.reshape((-1, N)), precision.reshape((-1, N, N))
    half = np.linalg.solve(precision, np.linalg.cholesky(whole).T)
    return bound, terms, mean @ np.linalg.cholesky(whole).T, half.transpose(0, 2, 1) @ half


@pytest.mark.parametrize("name", RESPONSES)
def test_deviations_of_training_rows_are_learnt(name):
    y, hyperparameters = RESPONSES[name]
    theta = {"lengthscale": LENGTHSCALE, "amplitude": AMPLITUDE, "sigma_w": SIGMA_W}
    theta |= hyperparameters
    # In a GPX with its own Z, points have the columns of X followed by those of Z.
    options = {"approximation": bx.Inducing(np.hstack([X, Z])), "scale": False}
    model = bx.GPX(X, y, Z, likelihood=name, **options)
    smooth, size = of_weights(X, X) * (Z @ Z.T), SIGMA_W**2 * (Z**2).sum(axis=1)
    whole = smooth + np.diag(size)
    bound, terms, mean, cov = posterior(model, y, hyperparameters, whole)

    evidence = bx.log_likelihood(model, theta, progressbar=False)["log_marginal_likelihood"]
    assert_allclose(evidence.item(), bound, rtol=1e-6)
    if name != "categorical":  # coupled classes have sites of another kind
        ours = bx.loo_predictions(model, theta, seed=1, progressbar=False)["elpd"]
        assert_allclose(ours, terms, rtol=1e-5)

    def close(found, variable, cross, prior):
        """Moments (m, C, ...) of values with covariances (n, ...) and variances (...)."""
        gain = np.linalg.solve(whole, cross.reshape((N, -1)))
        means = (mean @ gain).reshape((-1, *prior.shape))
        lost = (gain * cross.reshape((N, -1))).sum(axis=0)
        variance = prior.ravel() - lost + np.einsum("na,cnm,ma->ca", gain, cov, gain)
        classes = "class" in found[f"{variable}_mean"].dims
        order = ["class", ...] if classes else [...]
        ours = [found[f"{variable}_{part}"].transpose(*order).values for part in ("mean", "sd")]
        for own, expected in zip(
            ours, (means, np.sqrt(variance).reshape(means.shape)), strict=True
        ):
            assert_allclose(own, expected.reshape(own.shape), rtol=1e-5, atol=1e-6)

    on = {"on": "latent", **QUIET}
    close(bx.predictions(model, theta, **on), "f", whole, np.diag(whole))
    cross = of_weights(X, X_NEW) * (Z @ Z_NEW.T)
    prior = (AMPLITUDE**2 + SIGMA_W**2) * (Z_NEW**2).sum(axis=1)
    close(bx.predictions(model, theta, X_NEW, Z_NEW, **on), "f", cross, prior)
    cross = of_weights(X, X)[:, :, None] * Z[:, None]
    cross = cross + SIGMA_W**2 * np.eye(N)[:, :, None] * Z[:, None]
    prior = np.full((N, 3), AMPLITUDE**2 + SIGMA_W**2)
    close(bx.weights(model, theta, **QUIET), "weight", cross, prior)
    close(bx.contributions(model, theta, **QUIET), "contribution", cross * Z, prior * Z**2)


def test_minibatches_say_that_they_learn_no_deviations():
    y, options = RESPONSES["poisson"][0], {"approximation": bx.Inducing(4)}
    model = bx.GPX(X, y, likelihood="poisson", **options)
    with pytest.warns(bx.FitWarning, match="Minibatches do not learn deviations"):
        bound_by_rows(model, 6)
    bound_by_rows(bx.GPX(X, y, likelihood="poisson", priors={"sigma_w": 0.0}, **options), 6)
