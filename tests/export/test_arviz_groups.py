"""Every function of ArviZ with `group=` reads every kind of explanation that `attach` put there."""

import inspect
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.export.long_form import equally_weighed
from known_draws import known, scattered

QUIET = {"progressbar": False}
DRAWS = 60

ARRAYS = "takes arrays or Datasets alone: tree[group].dataset"

OF_RESPONSES = "compares replicated responses with observed ones; test_predictive_checks.py"
OF_LIKELIHOOD = "needs log densities of responses; test_predictive_checks.py"
ELSEWHERE = {
    "bayesian_r2": "takes the predicted mean and the scale of a regression",
    "bfmi": "reads the energy of NUTS in sample_stats",
    "ecdf": ARRAYS,
    "kde2d": ARRAYS,
    "generate_survival_curves": OF_RESPONSES,
    "loo_expectations": OF_LIKELIHOOD,
    "loo_influence": OF_LIKELIHOOD,
    "plot_ecdf_pit": "reads probability integral transforms, between 0 and 1",
    "plot_lm": OF_RESPONSES,
    "plot_loo_interval": OF_LIKELIHOOD,
    "plot_loo_pava": OF_LIKELIHOOD,
    "plot_loo_pit": OF_LIKELIHOOD,
    "plot_ppc_censored": OF_RESPONSES,
    "plot_ppc_dist": OF_RESPONSES,
    "plot_ppc_dist_pit": OF_RESPONSES,
    "plot_ppc_interval": OF_RESPONSES,
    "plot_ppc_pava": OF_RESPONSES,
    "plot_ppc_pava_residuals": OF_RESPONSES,
    "plot_ppc_pit": OF_RESPONSES,
    "plot_ppc_rootogram": OF_RESPONSES,
    "plot_ppc_tstat": OF_RESPONSES,
    "plot_prior_posterior": "its groups are those of the prior and the posterior",
    "psense": "its group is the log prior or the log likelihood; bx.power_scaling",
    "residual_r2": OF_RESPONSES,
    "weight_predictions": OF_RESPONSES,
}
"""Functions that need other data than the group of an explanation."""


def by_argument(of):
    """Functions of ArviZ that have an argument of this name, by their own."""
    found = {}
    for name in sorted(dir(az)):
        function = getattr(az, name)
        if inspect.isfunction(function) and of in inspect.signature(function).parameters:
            found[name] = function
    return found


def two_chains(model, theta):
    """A fit with given draws, in two chains."""
    one = known(model, scattered(theta, 2 * DRAWS))["posterior"].to_dataset()
    halves = [one.isel(draw=slice(k, None, 2)).assign_coords(chain=[k]) for k in (0, 1)]
    halves = [half.assign_coords(draw=range(DRAWS)) for half in halves]
    return xr.DataTree.from_dict({"posterior": xr.concat(halves, "chain")})


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"])
    y = X["a"] ** 2 + 0.1 * rng.normal(size=12)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    gp, gpx = bx.GP(X, y), bx.GPX(X, y)
    additive = bx.GP(X, y, kernel=lambda d: bx.Additive(d, [1.0, 1.0], 2, measure="gaussian"))
    return {
        "gp": (gp, two_chains(gp, theta)),
        "gpx": (gpx, two_chains(gpx, theta | {"sigma_w": 0.3})),
        "additive": (additive, two_chains(additive, {"sigma": 0.3})),
    }


def components(*fit):
    """All but the constant: dots of numbers that differ by round-off alone never end in ArviZ."""
    found = bx.components(*fit, obs=[3], seed=1, **QUIET)
    return found.sel(component=found["component"] != "constant")


def left_out(*fit):
    """Of one row; others of so few have a large Pareto k, of which ArviZ warns."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return bx.loo_predictions(*fit, seed=1, **QUIET).isel(obs=[3])


EXPLANATIONS = {
    "predictions": ("gpx", lambda *fit: bx.predictions(*fit, obs=[3], seed=1, **QUIET)),
    "weights": ("gpx", lambda *fit: bx.weights(*fit, obs=[3], seed=1, **QUIET)),
    "contributions": ("gpx", lambda *fit: bx.contributions(*fit, obs=[3], seed=1, **QUIET)),
    "derivatives": ("gp", lambda *fit: bx.derivatives(*fit, obs=[3], seed=1, **QUIET)),
    "attributions": ("gp", lambda *fit: bx.attributions(*fit, obs=[3], seed=1, **QUIET)),
    "shapley_values": ("gp", lambda *fit: bx.shapley_values(*fit, obs=[3], seed=1, **QUIET)),
    "comparisons": (
        "gp",
        lambda *fit: bx.comparisons(
            *fit, variables={"a": [0, 1], "b": [0, 1]}, obs=[3], seed=1, **QUIET
        ),
    ),
    "components": ("additive", components),
    "sobol": ("additive", lambda *fit: bx.sobol_indices(*fit, **QUIET)),
    "slopes": ("gp", lambda *fit: bx.slopes(*fit, seed=1, **QUIET)),
    "relevance": ("gp", lambda *fit: bx.relevance(*fit, **QUIET).isel(obs=[3])),
    "interactions": (
        "gp",
        lambda *fit: bx.interactions(*fit, **QUIET).isel(obs=[3], feature=[0], feature_bis=[1]),
    ),
    "loo_predictions": ("gp", left_out),
}


@pytest.fixture(scope="module", params=EXPLANATIONS)
def attached(request, fits):
    which, explain = EXPLANATIONS[request.param]
    found = explain(*fits[which])
    return bx.attach(fits[which][1], found=found), found


def arguments(name, tree):
    """Options that a function needs beside a tree and a group."""
    drawn = tree["found"].to_dataset()
    first = next(iter(drawn.data_vars))
    places = {dim: drawn[dim].values[0] for dim in drawn[first].dims[2:]}
    known = {
        "ci_in_rope": {"rope": (-0.1, 0.1)},
        "combine_plots": {"plots": [(az.plot_dist, {}), (az.plot_rank, {})], "var_names": [first]},
        "diagnose": {"show_diagnostics": False},
        "kl_divergence": {"data2": tree, "num_samples": 50},
        "wasserstein": {"data2": tree, "num_samples": 50},
        "rhat_nested": {"superchain_ids": [0, 1]},
        "plot_pair": {"var_names": [first]},
        "plot_pair_focus": {"focus_var": first, "focus_var_coords": places},
    }
    return known.get(name, {})


def test_every_function_reads_every_kind_of_explanation(attached):
    tree, _ = attached
    functions = by_argument("group")
    assert ELSEWHERE.keys() <= functions.keys()
    failed = {}
    for name, function in functions.items():
        single = len(tree["found"].data_vars) == tree["found"].to_dataset().sizes.get("obs") == 1
        if name in ELSEWHERE or (name == "plot_parallel" and single):  # of two numbers or more
            continue
        options = arguments(name, tree) | (
            {"backend": "none"} if "backend" in inspect.signature(function).parameters else {}
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of few draws, which ArviZ has much to say about
                function(tree, group="found", **options)
        except Exception as failure:  # all of them are reported together
            failed[name] = repr(failure)
    assert not failed


def test_values_are_those_of_the_draws(attached):
    """By a NumPy reduction, and for a result that was not attached by naming its variables."""
    tree, found = attached
    found = equally_weighed(found)
    drawn = [name for name in found if {"chain", "draw"} <= set(found[name].dims)]
    means, alone = az.mean(tree, group="found", round_to="none"), az.hdi(found, var_names=drawn)
    intervals = az.hdi(tree, group="found")
    for name in drawn:
        np.testing.assert_allclose(means[name], found[name].values.mean((0, 1)), atol=1e-12)
        np.testing.assert_array_equal(intervals[name], alone[name])
