"""ArviZ's checks run on the fits of labels and counts, on numbers that another road confirms."""

import warnings
from contextlib import nullcontext

import arviz as az
import matplotlib
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from arviz_stats.loo import loo_pit
from numpy.testing import assert_allclose

import bayes_gpx as bx
from known_draws import known, scattered

matplotlib.use("Agg")
RNG = np.random.default_rng(12)
N = 70
X = RNG.normal(size=(N, 1))
F = 2 * np.sin(1.5 * X[:, 0])
Y = {
    "bernoulli": np.where(F + RNG.logistic(size=N) > 0, "yes", "no"),
    "poisson": RNG.poisson(np.exp(0.5 * F + 1)),
}
PLOTS = {
    "bernoulli": az.plot_ppc_pava,
    "poisson": az.plot_ppc_rootogram,
}
QUIET = {"progressbar": False}


@pytest.fixture(scope="module", params=Y)
def checked(request):
    name = request.param
    model = bx.GP(X, Y[name], likelihood=name)
    idata = known(model, scattered({"lengthscale": [1.0], "amplitude": 1.5}, 150))
    terms = bx.log_likelihood(model, idata, **QUIET)["log_likelihood"]
    idata["log_likelihood"] = xr.DataTree(terms.to_dataset(name="y"))
    return name, model, idata, bx.predictive_checks(model, idata, seed=2, **QUIET)


def test_checks_are_drawn(checked, tmp_path):
    name, _, _, tree = checked
    PLOTS[name](tree).savefig(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 5000


@pytest.mark.parametrize(
    "likelihood",
    ["normal", *(pytest.param(k, marks=pytest.mark.slow) for k in ("student_t", *Y))],
)
def test_arviz_leaves_rows_out_by_weights_of_the_replications(likelihood):
    """To Monte Carlo error as the closed form, which integrates over f."""
    y = Y.get(likelihood, F + np.random.default_rng(3).normal(size=N))
    options = {} if likelihood == "normal" else {"likelihood": likelihood}
    model = bx.GP(X, y, **options)
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.7, "nu": 5.0}
    theta = {name: theta[name] for name in model.hyperparameters}
    idata = known(model, scattered(theta, 1500))
    tree = bx.predictive_checks(model, idata, seed=1, **QUIET)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of rows not compared
        exact = bx.loo_predictions(model, idata, seed=1, **QUIET)
        left_out = az.loo(tree, pointwise=True)
    reliable = left_out.pareto_k < 0.5
    assert reliable.mean() > 0.7
    apart = np.abs(left_out.elpd_i.values - exact["elpd"].values)
    assert apart[reliable].max() < 0.1
    plot = az.plot_loo_pit(tree, backend="none")
    assert "ecdf_lines" in plot.viz
    if likelihood in ("normal", "student_t"):
        pit = loo_pit(tree)["y"].values
        assert np.abs(pit - exact["pit"].values)[reliable].max() < 5 * 0.5 / np.sqrt(300)


def test_draws_are_those_of_the_verb(checked):
    name, model, idata, tree = checked
    drawn = tree["posterior_predictive"]["y"]
    found = bx.predictions(model, idata, seed=2, **QUIET)
    assert_allclose(drawn, found["y"])
    mean = found["probability_mean" if name == "bernoulli" else "rate_mean"]
    error = drawn.mean(("chain", "draw")) - mean
    assert np.all(np.abs(error) < 5 * drawn.std(("chain", "draw")).clip(0.02) / np.sqrt(150))
    observed = tree["observed_data"]["y"].values
    assert_allclose(observed, Y[name] == "yes" if name == "bernoulli" else Y[name])
    assert "posterior_predictive" not in idata


def test_one_draw_is_replicated(checked):
    name, model, _, _ = checked
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    tree = bx.predictive_checks(model, theta, joint=True, seed=0, **QUIET)
    assert tree["posterior_predictive"]["y"].sizes["draw"] == 1000


def test_responses_are_drawn_given_the_data():
    """Jointly, with the covariance of the dense formula; PyMC's own know nothing of the data."""
    x = np.linspace(0, 3, 12)[:, None]
    y = np.sin(2 * x[:, 0]) + 0.1 * RNG.normal(size=12)
    model = bx.GP(x, y, scale=False)
    theta = {"lengthscale": [0.6], "amplitude": 1.0, "sigma": 0.1}
    tree = bx.sample_posterior_predictive(model, theta, seed=1, **QUIET)
    assert list(tree.children) == ["posterior_predictive", "observed_data"]
    drawn = tree["posterior_predictive"]["y"].values[0]
    K = np.exp(-((x - x.T) ** 2) / (2 * 0.6**2))
    C = K + 0.01 * np.eye(12)
    mean, cov = K @ np.linalg.solve(C, y), K - K @ np.linalg.solve(C, K) + 0.01 * np.eye(12)
    sd = np.sqrt(np.diag(cov))
    assert_allclose(drawn.mean(0), mean, atol=(5 * sd / np.sqrt(1000)).max())
    assert np.abs(np.cov(drawn.T) - cov).max() < 5 * np.sqrt(2 / 1000) * sd.max() ** 2
    idata = known(model, [theta] * 60)
    options = {"random_seed": 1, "compile_kwargs": {"mode": "FAST_COMPILE"}} | QUIET
    with pytest.warns(bx.PosteriorPredictiveWarning, match="Use bx.sample_posterior") as warned:
        blind = pm.sample_posterior_predictive(idata, model=model.pymc, **options)
    assert [warning.filename for warning in warned] == [__file__]
    with model.pymc, pytest.warns(bx.PosteriorPredictiveWarning):
        pm.sample_posterior_predictive(idata, var_names=["y"], **options)
    given = bx.sample_posterior_predictive(model, idata, seed=1, **QUIET)
    few = bx.sample_posterior_predictive(model, idata, num_draws=7, seed=1, **QUIET)
    assert few["posterior_predictive"]["y"].sizes == {"chain": 1, "draw": 7, "obs": 12}
    likeness = [
        np.mean([np.corrcoef(one, y)[0, 1] for one in found["posterior_predictive"]["y"].values[0]])
        for found in (blind, given)
    ]
    assert likeness[0] < 0.5 and likeness[1] > 0.95


def test_nothing_is_said_of_draws_from_the_prior_or_of_other_variables():
    """Warnings are errors here."""
    x, mode = np.linspace(0, 3, 8)[:, None], {"mode": "FAST_COMPILE"}
    model = bx.GP(x, np.sin(x[:, 0]), scale=False)
    idata = known(model, [{"lengthscale": [0.6], "amplitude": 1.0, "sigma": 0.1}] * 3)
    pm.sample_prior_predictive(2, model=model.pymc, random_seed=1, compile_kwargs=mode)
    pm.draw(model.pymc["y"], random_seed=1, mode="FAST_COMPILE")
    options = {"model": model.pymc, "compile_kwargs": mode} | QUIET
    again = pm.sample_posterior_predictive(idata, var_names=["sigma"], **options)
    assert_allclose(again["posterior_predictive"]["sigma"], 0.1)


@pytest.mark.parametrize("latent", [False, True])
def test_latent_values_that_are_not_in_the_fit_are_drawn_from_the_prior(checked, latent):
    _, model, idata, _ = checked
    options = {"model": model.pymc, "compile_kwargs": {"mode": "FAST_COMPILE"}} | QUIET
    own = idata["posterior"].to_dataset().isel(draw=slice(2))
    if latent:
        dims = model.pymc.named_vars_to_dims["y_white"]
        own = own.assign(y_white=(("chain", "draw", *dims), np.zeros((1, 2, N))))
        own = own.assign_coords({dims[0]: model.training.X.index})
    with nullcontext() if latent else pytest.warns(bx.PosteriorPredictiveWarning):
        pm.sample_posterior_predictive(own, **options)


def test_new_samples_have_predictions(checked):
    name, model, idata, _ = checked
    new = bx.sample_posterior_predictive(model, idata, X[:3], seed=2, **QUIET)
    assert list(new.children) == ["predictions"]
    expected = bx.predictions(model, idata, X[:3], joint=True, seed=2, **QUIET)["y"]
    assert_allclose(new["predictions"]["y"], expected)
    assert new["predictions"]["y"].dtype.kind == "i"


def test_too_many_rows_to_draw_jointly_are_refused_with_the_cure(checked):
    _, model, idata, _ = checked
    with pytest.raises(ValueError, match="6000 rows would be drawn jointly.*joint=False"):
        bx.sample_posterior_predictive(model, idata, np.zeros((6000, 1)), **QUIET)
