"""Groups with approximations and on the response scale: exact models, limits, random functions."""

from functools import partial

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(46)
X = pd.DataFrame(RNG.normal(size=(24, 2)), columns=["age", "dose"])
G = np.array(list("aabbccddaabbccddabcdabcd"))
F = np.sin(X["age"]) * X["dose"] + (G == "a") - (G == "c")
X_NEW, G_NEW = X.iloc[:5] + 0.1, np.array(["a", "c", "new", "other", "new"])
THETA = {"lengthscale": [0.9, 1.4], "amplitude": 1.3, "group_amplitude": 0.7}
GP = THETA | {"sigma": 0.3}
GPX = GP | {"sigma_w": 0.25}
RESPONSES = {
    "normal": F + 0.1 * RNG.normal(size=24),
    "bernoulli": (F > 0).astype(int),
    "poisson": RNG.poisson(np.exp(0.5 * F)),
    "student_t": F + 0.1 * RNG.normal(size=24),
    "categorical": np.digitize(F, [-0.5, 0.5]),
}
NOISE = {"normal": {"sigma": 0.3}, "student_t": {"sigma": 0.3, "nu": 5.0}}
QUIET = {"progressbar": False, "keep": "summary"}
EVERY = bx.Inducing(X.to_numpy())
APPROXIMATIONS = {"inducing": bx.Inducing(6), "sines": bx.HSGP(4), "waves": bx.RandomFeatures(20)}


DRAWN = "y_", "rate_", "probability_", "response_"
"""Of what moments are those of draws, where noise is not normal."""


def close(found, expected, rtol=1e-6):
    """Equal moments, but for those of draws."""
    moments = [name for name in expected.data_vars if name.endswith(("_mean", "_sd", "elpd"))]
    names = [name for name in moments if not name.startswith(DRAWN)]
    assert names
    for name in names:
        largest = float(abs(expected[name]).max())
        np.testing.assert_allclose(found[name], expected[name], atol=rtol * largest, rtol=0)


@pytest.fixture(scope="module", params=["GP", "GPX"])
def pair(request):
    """An exact model with groups, and one with an inducing point at each row; hyperparameters."""
    kind, theta, options = bx.GP, GP, {}
    if request.param == "GPX":
        kind, theta, options = bx.GPX, GPX, {"intercept": True}
    y = RESPONSES["normal"]
    every = kind(X, y, groups=G, approximation=EVERY, **options)
    return kind(X, y, groups=G, **options), every, theta


def test_inducing_points_at_all_rows_are_exact(pair):
    exact, every, theta = pair
    new = {"groups_new": G_NEW, **QUIET}
    for verb in (bx.predictions, bx.derivatives, bx.attributions):
        close(verb(every, theta, X_NEW, **new), verb(exact, theta, X_NEW, **new))
    close(bx.predictions(every, theta, **QUIET), bx.predictions(exact, theta, **QUIET))
    if isinstance(exact, bx.GPX):
        close(bx.weights(every, theta, X_NEW, **new), bx.weights(exact, theta, X_NEW, **new))
        close(bx.contributions(every, theta, **QUIET), bx.contributions(exact, theta, **QUIET))


def test_contrasts_of_rows_in_several_groups_are_exact(pair):
    """Averages over rows, and joint draws, need covariances across groups."""
    exact, every, theta = pair
    rows = {"groups_new": G_NEW, "by": np.array(list("uvuvu")), "covariance": True, **QUIET}
    asked = [(bx.predictions, {}, "f"), (bx.derivatives, {}, "derivative")]
    if isinstance(exact, bx.GPX):
        asked[0] = bx.weights, {"smooth": True}, "weight"
    for verb, of, name in asked:
        of_exact, of_every = (verb(m, theta, X_NEW, **of, **rows) for m in (exact, every))
        close(of_every, of_exact)
        between = [found[f"{name}_cov"].values for found in (of_every, of_exact)]
        np.testing.assert_allclose(*between, atol=1e-6 * abs(between[1]).max())


def test_densities_and_rows_left_out_are_exact(pair):
    exact, every, theta = pair
    of_exact, of_every = (bx.log_likelihood(m, theta, progressbar=False) for m in (exact, every))
    name = "log_marginal_likelihood"
    np.testing.assert_allclose(of_every[name], of_exact[name], rtol=1e-6)
    others = np.array(list("pqrstu"))[np.arange(24) // 4]
    for groups in (None, G, others):
        left = (bx.loo_predictions(m, theta, groups=groups, progressbar=False) for m in pair[:2])
        of_exact, of_every = left
        close(of_every, of_exact)
        if groups is not None:
            np.testing.assert_allclose(of_every["elpd_group"], of_exact["elpd_group"], rtol=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "name"),
    [
        # Strategies see basis functions alone: sines and waves take turns in the quick tests.
        pytest.param(
            likelihood, name, marks=pytest.mark.slow if name == ("sines", "waves")[k % 2] else ()
        )
        for k, likelihood in enumerate(RESPONSES)
        for name in APPROXIMATIONS
    ],
)
def test_without_amplitude_there_are_no_groups(name, likelihood):
    """The approximation without groups has code of its own for each likelihood."""
    options = {"likelihood": likelihood, "approximation": APPROXIMATIONS[name]}
    model = bx.GP(X, RESPONSES[likelihood], groups=G, **options)
    without = bx.GP(X, RESPONSES[likelihood], **options)
    plain = {k: v for k, v in THETA.items() if k != "group_amplitude"} | NOISE.get(likelihood, {})
    theta = plain | {"group_amplitude": 0.0}
    new = {"groups_new": G_NEW, **QUIET}
    close(
        bx.predictions(model, theta, X_NEW, **new), bx.predictions(without, plain, X_NEW, **QUIET)
    )
    left = (bx.loo_predictions(*m, progressbar=False) for m in ((model, theta), (without, plain)))
    close(*left)


@pytest.mark.parametrize("approximation", [None, *APPROXIMATIONS.values()])
@pytest.mark.parametrize("kind", ["GP", pytest.param("GPX", marks=pytest.mark.slow)])
def test_random_functions_of_groups_have_the_moments_of_the_posterior(kind, approximation):
    """Also those of new groups, whose rows share one function."""
    family, theta = (bx.GP, GP) if kind == "GP" else (bx.GPX, GPX | {"sigma_w": 0.0})
    options = {} if kind == "GP" else {"intercept": True, "priors": {"sigma_w": 0.0}}
    model = family(X, RESPONSES["normal"], groups=G, approximation=approximation, **options)
    new = {"groups_new": G_NEW}
    draws = 1000
    functions = bx.sample_functions(model, theta, draws=draws, seed=1, progressbar=False)
    f = functions.predictions(X_NEW, **new)["f"].values.reshape((draws, -1))
    expected = bx.predictions(model, theta, X_NEW, **new, **QUIET)
    joint = bx.predictions(model, theta, X_NEW, **new, progressbar=False, joint=True, draws=16000)
    mean, sd = expected["f_mean"].values, expected["f_sd"].values
    np.testing.assert_allclose(f.mean(axis=0), mean, atol=5 * sd.max() / np.sqrt(draws))
    # Five standard errors of an sd, 1 / sqrt(2 draws), and four of a covariance, sqrt(2 / draws).
    np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.11)
    between = np.cov(joint["f"].values.reshape((16000, -1)).T)
    np.testing.assert_allclose(np.cov(f.T), between, atol=0.18 * between.max())


@pytest.mark.parametrize("approximation", [None, bx.HSGP(4)])
def test_comparisons_of_probabilities_are_differences_of_predictions(approximation):
    """By random functions, in the group of each row; the probabilities are exact by quadrature."""
    options = {"likelihood": "bernoulli", "approximation": approximation}
    model, draws = bx.GP(X, RESPONSES["bernoulli"], groups=G, **options), 1000
    new = {"groups_new": G_NEW, **QUIET}
    options = {"variables": {"age": (-0.5, 0.5)}, "draws": draws, "seed": 1, **new}
    found = bx.comparisons(model, THETA, X_NEW, **options)
    ends = []
    for value in (-0.5, 0.5):
        moved = bx.predictions(model, THETA, X_NEW.assign(age=value), **new)
        ends.append(moved["probability_mean"].values)
    error = found["comparison_sd"].values.max() / np.sqrt(draws)
    np.testing.assert_allclose(found["comparison_mean"][:, 0], ends[1] - ends[0], atol=5 * error)


@pytest.mark.parametrize("kind", ["GP", "GPX"])
def test_coefficients_of_groups_that_were_sampled_are_known(kind):
    """Given them, f at the rows is that of the PyMC model, and a new group has its prior level."""
    family, own = (bx.GP, {}) if kind == "GP" else (bx.GPX, {"priors": {"sigma_w": 0.0}})
    options = {"likelihood": "poisson", "approximation": bx.HSGP(3), "groups": G}
    model = family(X, RESPONSES["poisson"], **options, **own)
    prior = pm.sample_prior_predictive(
        1, model=model.pymc, random_seed=1, compile_kwargs={"mode": MODE}
    )
    given = xr.DataTree.from_dict({"posterior": prior["prior"].to_dataset()})
    found = bx.predictions(model, given, **QUIET)
    free, y = model.pymc.free_RVs, model.pymc["y"]
    rate = pytensor.function(
        free, y.owner.op.dist_params(y.owner)[0], on_unused_input="ignore", mode=MODE
    )
    values = rate(*(given["posterior"][rv.name].values[0, 0] for rv in free))
    np.testing.assert_allclose(found["f_mean"], np.log(values), rtol=1e-10, atol=1e-10)
    assert float(found["f_sd"].max()) < 1e-9
    new = bx.predictions(model, given, X, groups_new=["new"] * 24, **QUIET)
    if kind == "GP":
        level = given["posterior"]["group_amplitude"].item()
        np.testing.assert_allclose(new["f_sd"], level, rtol=1e-10)


def test_levels_of_classes_without_shared_functions_are_those_of_independent_classes():
    """Correlated classes have a Laplace approximation, and processes, of their own."""
    options = {"likelihood": "categorical", "groups": G}
    y, new = RESPONSES["categorical"], {"groups_new": G_NEW, **QUIET}
    model, apart = bx.GP(X, y, correlation=1, **options), bx.GP(X, y, **options)
    theta = THETA | {"loading": np.zeros((3, 1))}
    for verb in (bx.predictions, partial(bx.attributions, on="latent")):
        close(verb(model, theta, X_NEW, **new), verb(apart, THETA, X_NEW, **new))
    functions = bx.sample_functions(model, theta, draws=1000, seed=1, progressbar=False)
    f = functions.predictions(X_NEW, groups_new=G_NEW)["f"].values.reshape((1000, -1))
    expected = bx.predictions(apart, THETA, X_NEW, **new)
    sd = expected["f_sd"].values.ravel()
    error = 5 * sd.max() / np.sqrt(1000)
    np.testing.assert_allclose(f.mean(axis=0), expected["f_mean"].values.ravel(), atol=error)
    np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.11)  # five standard errors


def test_values_at_inducing_points_are_those_of_one_function():
    model = bx.GP(X, RESPONSES["normal"], groups=G, approximation=bx.Inducing(6))
    with pytest.raises(ValueError, match=r"has several functions. Use fit\('map'\)"):
        model.fit("svgp", progressbar=False)


@pytest.mark.parametrize(
    ("approximation", "kind"),
    [
        ("inducing", bx.GPX),
        ("sines", bx.GP),
        pytest.param("inducing", bx.GP, marks=pytest.mark.slow),
        pytest.param("sines", bx.GPX, marks=pytest.mark.slow),
    ],
)
def test_mean_slopes_of_a_probability_are_differences_of_it(kind, approximation):
    """They need how the variance of f changes with x, also of groups' own functions."""
    options = {"approximation": APPROXIMATIONS[approximation], "scale": False, "groups": G}
    Z, z = {}, {}
    if kind is bx.GPX:
        Z, z = {"Z": X.to_numpy() + 1.0}, {"Z_new": X_NEW.to_numpy() + 1.0}
        options["priors"] = {"sigma_w": 0.0}
    model = kind(X, RESPONSES["bernoulli"], **Z, likelihood="bernoulli", **options)
    asked = {"groups_new": G_NEW, **z, **QUIET}
    slopes = bx.derivatives(model, THETA, X_NEW, draws=2, **asked)["derivative_mean"]
    for column in X.columns:
        ends = []
        for step in (1e-4, -1e-4):
            moved = X_NEW.assign(**{column: X_NEW[column] + step})
            ends.append(bx.predictions(model, THETA, moved, **asked)["probability_mean"])
        expected = (ends[0] - ends[1]) / 2e-4
        np.testing.assert_allclose(slopes.sel(feature=column), expected, rtol=1e-5, atol=1e-7)
