"""Normal noise with a sd that is a process, through inducing points or basis functions."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

import bayes_gpx as bx

RNG = np.random.default_rng(8)
N = 14
X = np.sort(RNG.uniform(-2.0, 2.0, size=(N, 1)), axis=0)
Y = 3.0 + 2.0 * (np.sin(2.0 * X[:, 0]) + np.exp(X[:, 0] / 2.0 - 1.0) * RNG.normal(size=N))
NEW = np.array([[-1.0], [0.3], [2.2]])
THETA = {"lengthscale": [[0.8], [1.7]], "amplitude": [1.0, 0.6]}
CENTERS = np.array([Y.mean(), np.log(Y.std()) - 1.0])
QUIET = {"keep": "summary", "progressbar": False}


def prior(left, right):
    """Prior covariances (2, k, n) in user units at `THETA`."""
    left, right = ((v[:, 0] - X.mean()) / X.std() for v in (left, right))
    squares = (left[:, None] - right) ** 2
    each = zip((0.8, 1.7), (Y.std(), 0.6), (0.0, 1.5), strict=True)
    return np.stack([a**2 * np.exp(-0.5 * squares / h**2) + b**2 for h, a, b in each])


@pytest.fixture(scope="module")
def best():
    """Sites (N, 2) of the best independent normals of both functions, by a general optimizer.

    At the best, means are K nu and covariances (K^-1 + diag(lambda))^-1: Opper and Archambeau, "The
    variational Gaussian approximation revisited" (2009).
    """
    K = prior(X, X)

    def moments(x):
        nu, lam = x[: 2 * N].reshape((2, N)), np.exp(x[2 * N :].reshape((2, N)))
        mean = np.stack([K[c] @ nu[c] for c in range(2)], axis=1)
        C = [np.linalg.inv(K[c] + np.diag(1.0 / lam[c])) for c in range(2)]
        variance = np.stack([np.diag(K[c] - K[c] @ C[c] @ K[c]) for c in range(2)], axis=1)
        return nu, lam, mean, variance, C

    def loss(x):
        """KL(q || prior) - E log p, and its gradient."""
        nu, lam, mean, variance, C = moments(x)
        m, s = (mean + CENTERS).T
        precision = np.exp(-2.0 * s + 2.0 * variance[:, 1])
        square = ((Y - m) ** 2 + variance[:, 0]) * precision
        value = -(-0.5 * square - s - 0.5 * np.log(2.0 * np.pi)).sum()
        slopes = (Y - m) * precision, square - 1.0
        in_variances = -0.5 * precision, -square
        gradient = np.zeros((2, 2, N))
        for c in range(2):
            left = np.eye(N) + lam[c] * K[c]
            value += 0.5 * nu[c] @ K[c] @ nu[c] - 0.5 * np.trace(C[c] @ K[c])
            value += 0.5 * np.linalg.slogdet(left)[1]
            S = K[c] - K[c] @ C[c] @ K[c]
            gradient[0, c] = K[c] @ (nu[c] - slopes[c])
            gradient[1, c] = lam[c] * (S**2 @ (0.5 * lam[c] + in_variances[c]))
        return value, gradient.ravel()

    start = np.concatenate([np.zeros(2 * N), np.zeros(N), np.full(N, np.log(2.0))])
    options = {"gtol": 1e-7, "maxiter": 5000}
    found = optimize.minimize(loss, start, jac=True, method="BFGS", options=options)
    return -found.fun, *moments(found.x)


@pytest.fixture(scope="module")
def whole():
    """With an inducing point in each row, nothing but the form of the posterior is approximate."""
    options = {"likelihood": "heteroscedastic_normal", "approximation": bx.Inducing(X)}
    return bx.GP(X, Y, **options)


def test_predictions_are_those_of_the_best_normals(whole, best):
    found = bx.predictions(whole, THETA, NEW, **QUIET)
    _, nu, lam, *_, C = best
    across, own = prior(NEW, X), prior(NEW, NEW)
    for c in range(2):
        mean = CENTERS[c] + across[c] @ nu[c]
        variance = np.diag(own[c] - across[c] @ C[c] @ across[c].T)
        assert_allclose(found["f_mean"].values[:, c], mean, atol=2e-4)
        assert_allclose(found["f_sd"].values[:, c], np.sqrt(variance), rtol=2e-4)


def test_left_out_rows_are_those_of_the_cavity(whole, best):
    """Of a row whose site is removed; at the best normals sites are derivatives of E[log p]."""
    found = bx.loo_predictions(whole, THETA, progressbar=False, seed=1)
    *_, mean, variance, _ = best
    m, s = (mean + CENTERS).T
    precision = np.exp(-2.0 * s + 2.0 * variance[:, 1])
    square = ((Y - m) ** 2 + variance[:, 0]) * precision
    tau = np.stack([precision, 2.0 * square], axis=1)
    slope = np.stack([(Y - m) * precision, square - 1.0], axis=1)
    alone = 1.0 / (1.0 / variance - tau)
    (m, V), (s, U) = zip((mean + CENTERS - alone * slope).T, alone.T, strict=True)
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    sds = np.sqrt(V[:, None] + np.exp(2.0 * (s[:, None] + np.sqrt(U)[:, None] * z)))
    density = stats.norm.pdf(Y[:, None], m[:, None], sds) @ (weights / weights.sum())
    assert_allclose(found["elpd"], np.log(density), atol=1e-3)


APPROXIMATIONS = {
    "HSGP": bx.HSGP(30, 3.0),
    "Inducing": bx.Inducing(10),
    "RandomFeatures": bx.RandomFeatures(40),
}


@pytest.fixture(scope="module", params=APPROXIMATIONS)
def model(request):
    options = {"approximation": APPROXIMATIONS[request.param]}
    return bx.GP(X, Y, likelihood="heteroscedastic_normal", **options)


@pytest.mark.parametrize("model", ["HSGP", "Inducing"], indirect=True)
def test_coefficients_are_near_the_best_normals(model, whole):
    found, expected = (bx.predictions(one, THETA, NEW[:2], **QUIET) for one in (model, whole))
    for name in ("f_mean", "f_sd", "y_mean", "sd_mean", "sd_sd"):
        assert_allclose(found[name], expected[name], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("model", ["HSGP", "RandomFeatures"], indirect=True)
@pytest.mark.filterwarnings("ignore")  # of four draws
def test_sampled_coefficients_are_functions_of_the_pymc_model(model):
    """At the training rows, f of each draw gives the log density that PyMC's graph has."""
    options = {"approximation": model.specification.approximation, "priors": THETA}
    sampled = bx.GP(X, Y, likelihood="heteroscedastic_normal", **options)
    short = {"draws": 4, "tune": 4, "chains": 1, "seed": 1, "progressbar": False}
    idata = sampled.fit("nuts", latent="sample", **short)
    f = bx.predictions(sampled, idata, on="latent", progressbar=False)["f"].values
    found = stats.norm.logpdf(Y, f[..., 0], np.exp(f[..., 1]))
    quiet = {"extend_inferencedata": False, "progressbar": False}
    expected = pm.compute_log_likelihood(idata, model=sampled.pymc, **quiet)
    assert_allclose(found, expected["y"], atol=1e-8)


class Parts:
    """Rows in three frames, from the start each time."""

    def __iter__(self):
        frame = pd.DataFrame({"x": X[:, 0], "y": Y})
        return iter([frame[:5], frame[5:6], frame[6:]])


@pytest.mark.parametrize("model", ["HSGP", "Inducing"], indirect=True)
def test_rows_out_of_core_are_those_in_memory(model):
    approximation = model.specification.approximation
    if isinstance(approximation, bx.Inducing):
        approximation = bx.Inducing(X[::2])
    options = {"likelihood": "heteroscedastic_normal", "approximation": approximation}
    both = bx.GP(X, Y, **options), bx.GP(Parts(), "y", **options)
    found = [bx.attributions(one, THETA, NEW[:2], on="latent", **QUIET) for one in both]
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(found[1][name], found[0][name], rtol=1e-6, atol=1e-8)
    fits = [one.fit("map", start=THETA, progressbar=False)["posterior"] for one in both]
    for name in ("lengthscale", "amplitude"):
        assert_allclose(fits[1][name], fits[0][name], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The bound still grew")  # batches of all rows have no noise
def test_minibatches_climb_to_the_bound_of_all_rows():
    options = {"likelihood": "heteroscedastic_normal", "approximation": bx.Inducing(6)}
    priors = {"lengthscale": THETA["lengthscale"]}
    model = bx.GP(X, Y, **options, priors=priors)
    short = {"seed": 1, "progressbar": False}
    found = model.fit("svgp", minibatch=N, steps=600, learning_rate=0.05, **short)["posterior"]
    idata = model.fit("svgp", **short)
    assert_allclose(found["amplitude"], idata["posterior"]["amplitude"], rtol=1e-3)
    kept = idata["variational"].isel(chain=0, draw=0)
    at_points = bx.predictions(model, idata, kept["U"].values, on="latent", **QUIET)
    assert_allclose(at_points["f_mean"], kept["u_mean"] + CENTERS, atol=1e-7)
    variance = (kept["u_chol"].values ** 2).sum(axis=-1).T
    assert_allclose(at_points["f_sd"] ** 2, variance, rtol=1e-4)


def test_a_posterior_is_found_for_few_rows():
    """Residuals decide how certain the log sd is, and the search begins where it is certain."""
    rng, theta = (
        np.random.default_rng(25),
        {"lengthscale": np.ones((2, 2)), "amplitude": [1.0, 0.6]},
    )
    for _ in range(8):
        x, intercept = rng.normal(size=(25, 2)), 1.5 * rng.normal()
        y = np.sin(x[:, 0]) + np.exp(0.6 * np.cos(x[:, 1]) + intercept) * rng.normal(size=25)
        options = {"scale": False, "approximation": bx.Inducing(25)}
        model = bx.GP(x, y, likelihood="heteroscedastic_normal", **options)
        assert np.isfinite(bx.predictions(model, theta, x[:2], **QUIET)["f_mean"]).all()


def test_save_and_load(model, tmp_path):
    idata = model.fit("map", start=THETA, progressbar=False)
    bx.save(model, idata, tmp_path / "model.zip")
    again, kept = bx.load(tmp_path / "model.zip")
    found = [bx.predictions(*pair, X[:3], **QUIET) for pair in ((model, idata), (again, kept))]
    for name in ("f_mean", "y_sd", "sd_mean"):
        assert_allclose(found[1][name], found[0][name], rtol=1e-10)
