"""Priors drawn, set from the data's spacing, and their say in explanations."""

from contextlib import nullcontext

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from pymc.distributions.transforms import Interval
from scipy.stats import halfnorm, lognorm, multivariate_normal

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE
from known_draws import known, scattered

QUIET = {"progressbar": False, "seed": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    return X, np.sin(2 * X["a"]) + 0.3 * X["b"] + rng.normal(0, 0.3, 30)


def tails(prior, columns):
    """What lies below and above the prior's bounds, by PyMC's own distribution function."""
    with pm.Model(coords={"feature": columns}):
        made = prior("lengthscale", "feature")
    below, within = (np.exp(pm.logcdf(made, bound).eval(mode=MODE)) for bound in prior.bounds)
    return below, 1 - within


@pytest.mark.parametrize("mass", [0.5, 0.9, 0.99])
def test_the_mass_lies_between_the_bounds_with_equal_tails(data, mass):
    prior = bx.lengthscale_prior(data[0], mass=mass)
    assert_allclose(tails(prior, ["a", "b"]), np.full((2, 2), (1 - mass) / 2), rtol=1e-6)


def test_bounds_are_spacing_and_range():
    even = pd.DataFrame({"t": np.arange(40.0)})
    sd = even["t"].std(ddof=0)
    assert_allclose(bx.lengthscale_prior(even).bounds[:, 0], [1 / sd, 39 / sd])
    assert_allclose(bx.lengthscale_prior(even, scale=False).bounds[:, 0], [1.0, 39.0])
    two = bx.lengthscale_prior(pd.DataFrame({"t": [0.0, 1.0] * 5}), scale=False).bounds[:, 0]
    assert_allclose(two, [10**-0.5, 10**0.5])
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(40), "D")
    dated = bx.lengthscale_prior(pd.DataFrame({"day": days})).bounds
    assert_allclose(dated, bx.lengthscale_prior(np.arange(40.0)[:, None]).bounds)
    with pytest.raises(ValueError, match="constant columns .'x1'.*Drop them"):
        bx.lengthscale_prior(np.column_stack([np.arange(9.0), np.ones(9)]), scale=False)
    level = pd.DataFrame({"k": pd.Categorical(list("abcabcabc"))})
    assert_allclose(bx.lengthscale_prior(level).bounds.prod(), 3.0)  # squared distance of levels
    units = even * 1000 + 7
    assert_allclose(bx.lengthscale_prior(units).bounds, bx.lengthscale_prior(even).bounds)
    with pytest.raises(ValueError, match="mass is 1.5"):
        bx.lengthscale_prior(even, mass=1.5)


@pytest.mark.parametrize("ard", [True, False])
def test_the_model_takes_it_and_its_prior_is_drawn_by_pymc_and_arviz(data, ard):
    X, y = data
    X = X.assign(kind=pd.Categorical(np.resize(["u", "v", "w"], 30)))
    prior = bx.lengthscale_prior(X)
    model = bx.GP(X, y, priors={"lengthscale": prior}, ard=ard)
    drawn = pm.sample_prior_predictive(
        400, model=model.pymc, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    name = "lengthscale"
    values = drawn["prior"][name].values[0].reshape(400, -1)
    low, high = prior.bounds if ard else (prior.bounds[0].min(), prior.bounds[1].max())
    inside = ((values > low) & (values < high)).mean(axis=0)
    assert_allclose(inside, 0.9, atol=0.06)  # of 400 draws, four standard errors
    theta = {"lengthscale": np.ones(3 if ard else ()), "amplitude": 1.0, "sigma": 0.3}
    own = known(model, scattered(theta, 50))["posterior"].to_dataset()
    drawn["posterior"] = xr.DataTree(own.drop_dims("feature"))
    pc = az.plot_prior_posterior(drawn, var_names=["amplitude", "sigma"], backend="none")
    assert {"amplitude", "sigma"} <= set(pc.viz["prior_dist" if "prior_dist" in pc.viz else "dist"])
    az.plot_dist(drawn, group="prior", var_names=[name], backend="none")
    az.plot_ppc_dist(drawn, group="prior_predictive", backend="none")


@pytest.fixture(scope="module")
def fitted(data):
    """One free hyperparameter under a prior far from what the data say, and under a vague one."""
    theta = {"lengthscale": 1.0, "amplitude": 1.0}
    found = {}
    for how, (mu, sigma) in {"strong": (np.log(2.0), 0.15), "vague": (-1.0, 3.0)}.items():
        prior = lambda name, at=mu, s=sigma: pm.LogNormal(name, mu=at, sigma=s)  # noqa: E731
        model = bx.GP(*data, priors=theta | {"sigma": prior})
        found[how] = model, model.fit("laplace", draws=300, **QUIET), (mu, sigma)
    return found


def test_log_prior_and_log_likelihood_are_the_densities(fitted, data):
    model, idata, (mu, sigma) = fitted["strong"]
    tree = bx.power_scaling(model, idata)
    assert list(tree["log_prior"].data_vars) == ["sigma"]
    drawn = idata["posterior"]["sigma"].values
    expected = lognorm(s=sigma, scale=np.exp(mu)).logpdf(drawn)
    assert_allclose(tree["log_prior"]["sigma"], expected, rtol=1e-8)
    X, y = data
    x = ((X - X.mean()) / X.std(ddof=0)).to_numpy()
    K = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)) + drawn[0, 5] ** 2 * np.eye(30)
    law = multivariate_normal(np.full(30, y.mean()), y.var(ddof=0) * K)
    assert_allclose(tree["log_likelihood"]["y"].values[0, 5], law.logpdf(y), rtol=1e-8)


def test_a_strong_prior_is_flagged_and_a_vague_one_is_not(fitted, caplog):
    said = {}
    for how, (model, idata, _) in fitted.items():
        some = bx.attributions(model, idata, obs=[0, 4], **QUIET)
        more = bx.derivatives(model, idata, obs=[7], **QUIET)
        said[how] = az.psense_summary(bx.power_scaling(model, idata, some, more))
    rows = said["strong"].index
    assert {"sigma", "attribution[0, a]", "difference[4]"} <= set(rows)
    assert sum(row.startswith("derivative[7") for row in rows) == 2
    assert said["strong"].loc["sigma", "diagnosis"] == "potential prior-data conflict"
    assert said["vague"].loc["sigma", "diagnosis"] == "✓"
    assert said["strong"].loc["sigma", "prior"] > 5 * said["vague"].loc["sigma", "prior"]
    assert said["vague"]["prior"].max() < 0.05


def test_latent_values_are_no_hyperparameters(data):
    X, y = data
    model = bx.GP(X, y > 0, likelihood="bernoulli", priors={"lengthscale": 1.0})
    idata = known(model, scattered({"lengthscale": np.ones(2), "amplitude": 1.0}, 100))
    tree = bx.power_scaling(model, idata)
    assert list(tree["log_prior"].data_vars) == ["amplitude"]
    expected = halfnorm(scale=2.0).logpdf(idata["posterior"]["amplitude"].values)
    assert_allclose(tree["log_prior"]["amplitude"], expected, rtol=1e-8)
    assert np.isfinite(az.psense(tree, group="likelihood")["amplitude"])


@pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")
def test_what_has_no_draws_of_the_fit_is_refused(fitted, data):
    model, idata, _ = fitted["vague"]
    for options in ({"keep": "summary"}, {"num_draws": 10}):
        found = bx.attributions(model, idata, obs=[0], **options, **QUIET)
        with pytest.raises(ValueError, match="no draws, or other ones"):
            bx.power_scaling(model, idata, found)
    twice = [bx.derivatives(model, idata, obs=[0], **QUIET)] * 2
    with pytest.raises(ValueError, match=r"two 'derivative'.*rename"):
        bx.power_scaling(model, idata, *twice)
    with pytest.raises(ValueError, match="one draw"):
        bx.power_scaling(model, model.fit("map", progressbar=False))
    with pytest.raises(ValueError, match="belongs to another model"):
        bx.power_scaling(model, bx.GP(*data).fit("laplace", draws=10, **QUIET))


@pytest.mark.parametrize("least", [1e-3, -1.0])
def test_bounds_of_a_transform_may_be_numbers(data, least):
    """A prior with density below 0 is refused, others not."""

    def sigma(name):
        return pm.Normal(name, 0.5, 0.2, transform=Interval(least, 10.0))

    refused = pytest.raises(ValueError, match="sigma has density below 0")
    with nullcontext() if least > 0.0 else refused:
        bx.GP(*data, priors={"sigma": sigma})


def test_a_model_of_some_features_has_their_bounds():
    X = pd.DataFrame({"a": np.arange(9.0), "b": np.sqrt(np.arange(9.0)), "c": [0.0, 1.0, 5.0] * 3})
    prior = bx.lengthscale_prior(X)
    part = bx.GP(X, X["b"], priors={"lengthscale": prior}).of_features(["c", "a"])
    assert list(part.training.X.sources) == ["a", "c"]
    assert_allclose(part.priors["lengthscale"].bounds, prior.bounds[:, [0, 2]])


def test_a_prior_of_other_features_is_refused():
    X = np.random.default_rng(1).normal(size=(20, 3))
    with pytest.raises(ValueError, match="lengthscale_prior was given 3 features, and the model"):
        bx.GP(X[:, :1], X[:, 0], priors={"lengthscale": bx.lengthscale_prior(X)})
