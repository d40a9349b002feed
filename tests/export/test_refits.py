"""ArviZ's cross-validation by refits: densities by linear algebra, and rows that are left out."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit

import bayes_gpx as bx
from oracle import expquad

RNG = np.random.default_rng(4)
N = 12
X = pd.DataFrame(RNG.normal([3.0, -1.0], [2.0, 0.5], (N, 2)), columns=["a", "b"])
Z = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["c", "d"])
F = np.sin(X["a"]) * Z["c"]
Y = 50.0 + 10.0 * (F + 0.3 * RNG.normal(size=N))


def near(center):
    """A prior narrow enough for Laplace's approximation of so few rows."""
    return lambda name: pm.LogNormal(name, np.log(center), 0.2)


FIXED = {"lengthscale": 1.2, "amplitude": 1.1, "sigma_w": 0.3, "sigma": near(0.3)}
FIT = {"draws": 120, "seed": 1, "progressbar": False}


def scaled(values):
    return ((values - values.mean()) / values.std(ddof=0)).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    model = bx.GPX(X, Y, Z, priors=FIXED)
    return model, model.fit("laplace", **FIT)


def covariance():
    """Prior covariance of f at all rows, on the model's scale."""
    K = 1.1**2 * expquad(scaled(X), scaled(X), np.full(2, 1.2)) + 0.3**2 * np.eye(N)
    return K * (scaled(Z) @ scaled(Z).T)


def test_densities_of_rows_left_out_are_linear_algebra(fitted):
    wrapper, out = bx.SamplingWrapper(*fitted, seed=2), np.array([2, 7, 8])
    rest = np.setdiff1d(np.arange(N), out)
    kept, excluded = wrapper.sel_observations(out)
    idata = wrapper.get_inference_data(wrapper.sample(kept))
    assert idata["posterior"].sizes["draw"] == FIT["draws"]
    found = wrapper.log_likelihood__i(excluded, idata)
    assert found.dims == ("chain", "draw", "obs") and found["obs"].values.tolist() == out.tolist()
    K, y = covariance(), scaled(Y)
    for draw in (0, 50, 119):
        noise = idata["posterior"]["sigma"].values[0, draw] ** 2
        known = np.linalg.inv(K[np.ix_(rest, rest)] + noise * np.eye(len(rest)))
        mean = K[np.ix_(out, rest)] @ known @ y[rest]
        explained = K[np.ix_(out, rest)] @ known @ K[np.ix_(rest, out)]
        variance = np.diag(K)[out] - np.diag(explained) + noise
        unit = Y.std(ddof=0)
        expected = stats.norm.logpdf(Y[out], Y.mean() + unit * mean, unit * np.sqrt(variance))
        assert_allclose(found.values[0, draw], expected, rtol=1e-8)


def test_rows_left_out_are_gone_and_the_scale_stays(fitted):
    kept, excluded = bx.SamplingWrapper(*fitted).sel_observations(3)
    assert kept.X.index.tolist() == [i for i in range(N) if i != 3]
    assert_allclose(kept.y, Y.drop(3))
    assert_allclose(kept.Z.values, Z.drop(3))
    assert excluded.y.tolist() == [Y[3]]
    refitted = fitted[0].of_rows(kept)
    assert refitted.pymc["X"].data.shape == (N - 1, 2)
    assert refitted.training.y_scaling is fitted[0].training.y_scaling


def test_reloo_replaces_the_terms_of_rows_by_refits(fitted):
    model, idata = fitted
    loo = az.loo(idata, pointwise=True)
    worst = loo.pareto_k.values.argsort()[-1:]
    limit = np.sort(loo.pareto_k.values)[-2]
    found = az.reloo(
        bx.SamplingWrapper(model, idata, seed=1), loo, k_threshold=limit, pointwise=True
    )
    assert (found.pareto_k.values[worst] == 0.0).all()
    others = np.setdiff1d(np.arange(N), worst)
    assert_allclose(found.elpd_i.values[others], loo.elpd_i.values[others])
    # One hyperparameter, of 12 rows: importance weights are good, and refits say the same.
    assert_allclose(found.elpd_i.values[worst], loo.elpd_i.values[worst], atol=0.1)


def test_whole_groups_are_left_out(fitted):
    model, idata = fitted
    groups = np.repeat([3, 1], 6)
    wrapper = bx.SamplingWrapper(model, idata, seed=1)
    found = az.loo_kfold(idata, wrapper, k=2, group_by=groups, pointwise=True, save_fits=True)
    left = {tuple(fold["test_indices"]) for fold in found.fold_fits.values()}
    assert left == {(0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11)}
    assert np.isfinite(found.elpd_i).all()


CASES = {
    "bernoulli": ((F > 0).to_numpy(), lambda f, y: np.where(y, expit(f), expit(-f))),
    "poisson": (
        RNG.poisson(3.0 * np.exp(F.to_numpy())),
        lambda f, y: stats.poisson.pmf(y, np.exp(f)),
    ),
}


def wrapped(y, likelihood):
    """A wrapper of a fit that never was: the densities are asked of dicts."""
    model = bx.GP(X, y, likelihood=likelihood)
    names = {name: (["chain", "draw"], np.ones((1, 2))) for name in model.hyperparameters}
    return bx.SamplingWrapper(model, xr.DataTree.from_dict({"posterior": xr.Dataset(names)}))


@pytest.mark.parametrize("likelihood", CASES)
def test_densities_of_other_likelihoods_average_over_f(likelihood):
    """By quadrature over the moments of f that `predictions` gives without the row."""
    y, density = CASES[likelihood]
    wrapper, theta = wrapped(y, likelihood), {"lengthscale": 1.2, "amplitude": 1.1}
    kept, excluded = wrapper.sel_observations(5)
    refitted = wrapper.model.of_rows(kept)
    wrapper.get_inference_data((refitted, None))
    found = wrapper.log_likelihood__i(excluded, theta)
    assert found.shape == (1, 1, 1)
    options = {"on": "latent", "keep": "summary", "progressbar": False}
    f = bx.predictions(refitted, theta, X.iloc[[5]], **options)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    at = f["f_mean"].item() + f["f_sd"].item() * nodes
    expected = np.log((weights * density(at, y[5])).sum() / weights.sum())
    assert_allclose(found.item(), expected, atol=1e-6)


def test_several_classes_without_a_function_are_equally_likely():
    wrapper = wrapped(np.array(["x", "y", "z"])[np.arange(N) % 3], "categorical")
    kept, excluded = wrapper.sel_observations(np.arange(0, N, 3))
    wrapper.get_inference_data((wrapper.model.of_rows(kept), None))
    found = wrapper.log_likelihood__i(excluded, {"lengthscale": 1.0, "amplitude": 1e-6})
    assert_allclose(found, np.log(1.0 / 3.0), atol=1e-5)


def test_what_cannot_be_refitted_is_refused(fitted):
    model, _ = fitted
    with pytest.raises(ValueError, match="one draw"):
        bx.SamplingWrapper(model, model.fit("map", progressbar=False))
    with pm.Model():
        joined = bx.GPX(X, Y, Z, priors=FIXED)
    with pytest.raises(ValueError, match="larger pm.Model"):
        bx.SamplingWrapper(joined, fitted[1])
    with pytest.raises(ValueError, match="another model"):
        bx.SamplingWrapper(bx.GP(X, Y), fitted[1])
