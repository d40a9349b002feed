"""Several outputs as GPX, with groups and with approximations: separate models, and exact ones."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(22)
X = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["age", "dose"])
G = np.array(list("abcd" * 5))
F = np.sin(X["age"]) * X["dose"] + (G == "a") - (G == "c")
Y = np.column_stack([F + 0.1 * RNG.normal(size=20), 0.5 * F + 0.2 * RNG.normal(size=20)])
Y[3, 1] = np.nan
X_NEW, G_NEW = X.iloc[:5] + 0.1, np.array(["a", "c", "new", "other", "new"])
THETA = {
    "lengthscale": np.array([[0.9, 1.4], [1.0, 1.2]]),
    "amplitude": np.array([1.3, 0.8]),
    "sigma": np.array([0.3, 0.4]),
}
SHARED = {"factor_lengthscale": [[1.1, 0.8]], "loading": [[0.5], [0.7]]}
LEVELS = {"group_amplitude": np.array([0.7, 0.4])}
QUIET = {"progressbar": False, "keep": "summary"}
APPROXIMATIONS = [None, bx.Inducing(6), bx.HSGP(4), bx.RandomFeatures(20)]
KINDS = {"GP": (bx.GP, {}), "GPX": (bx.GPX, {"sigma_w": np.array([0.2, 0.3])})}


def close(found, expected, rtol=1e-6):
    names = [name for name in expected.data_vars if name.endswith(("_mean", "_sd", "elpd"))]
    assert names
    for name in names:
        largest = float(abs(expected[name]).max())
        assert_allclose(found[name], expected[name], atol=rtol * largest, rtol=0)


CASES = [(k, g) for k in KINDS for g in (False, True)]
QUICK = ("GP", True), ("GPX", False)


@pytest.fixture(
    scope="module",
    params=[c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES],
    ids=str,
)
def case(request):
    """Kind of the model, hyperparameters, and options with groups or without."""
    kind, grouped = request.param
    family, own = KINDS[kind]
    theta = THETA | own | (LEVELS if grouped else {})
    return family, theta, {"groups": G} if grouped else {}, {"groups_new": G_NEW} if grouped else {}


def test_inducing_points_at_all_rows_are_exact(case):
    """With a function that the outputs share, and a gap, whose row is a new one for its output."""
    family, theta, options, new = case
    theta = theta | SHARED
    exact = family(X, Y, correlation=1, **options)
    every = family(X, Y, correlation=1, approximation=bx.Inducing(X.to_numpy()), **options)
    for verb, rows in (
        (bx.predictions, {"X_new": X_NEW, **new}),
        (bx.predictions, {}),
        # Attributions of a GPX with groups, without outputs, are in `test_approximated_groups`.
        *([] if family is bx.GPX and new else [(bx.attributions, {"X_new": X_NEW, **new})]),
        *([(bx.weights, {})] if family is bx.GPX else []),
    ):
        close(verb(every, theta, **rows, **QUIET), verb(exact, theta, **rows, **QUIET))
    name = "log_marginal_likelihood"
    densities = [bx.log_likelihood(m, theta, progressbar=False)[name] for m in (exact, every)]
    assert_allclose(*densities, rtol=1e-6)
    close(*(bx.loo_predictions(m, theta, progressbar=False) for m in (every, exact)))


SUMMED = {
    "linear_amplitude": np.array([0.6, 0.4]),
    "expquad_lengthscale": THETA["lengthscale"],
    "expquad_amplitude": THETA["amplitude"],
    "sigma": THETA["sigma"],
}
SHARED_SUMMED = {
    "factor_expquad_lengthscale": SHARED["factor_lengthscale"],
    "linear_loading": [[0.3], [-0.6]],
    "expquad_loading": SHARED["loading"],
}
GROUPED = pytest.mark.parametrize("grouped", [False, True], ids=["alone", "with groups"])


@GROUPED
@pytest.mark.parametrize(
    "approximation",
    [None, *(pytest.param(a, marks=pytest.mark.slow) for a in APPROXIMATIONS[1:])],
    ids=str,
)
def test_components_without_correlation_are_those_of_separate_models(approximation, grouped):
    table = np.where(np.isnan(Y), 0.1, Y) + [0.0, 5.0]
    theta, new = SUMMED | (LEVELS if grouped else {}), {"groups_new": G_NEW} if grouped else {}
    options = {"kernel": "linear + expquad", "approximation": approximation}
    options |= {"groups": G} if grouped else {}
    asked = {"X_new": X_NEW, "covariance": True} | new | QUIET
    found = bx.components(bx.GP(X, table, **options), theta, **asked)
    for o, name in enumerate(("y0", "y1")):
        own = {hyper: value[o] for hyper, value in theta.items()}
        expected = bx.components(bx.GP(X, table[:, o], **options), own, **asked)
        close(found.sel(output=name), expected, 1e-9)
        cov = found["component_cov"].sel(output=name)
        assert_allclose(cov, expected["component_cov"], atol=1e-9)


def test_outputs_have_a_constant_where_one_of_them_has_a_mean():
    table = np.column_stack([np.tile([-1.0, 1.0], 10), np.tile([4.0, 6.0], 10)])
    found = bx.components(bx.GP(X, table), THETA, X_NEW, **QUIET)
    assert found["component"].values.tolist() == ["expquad", "constant"]
    assert (found["component_mean"].sel(component="constant") == [0.0, 5.0]).all()


@pytest.mark.slow
@GROUPED
@pytest.mark.parametrize(
    ("approximation", "rtol"), [(bx.Inducing(X.to_numpy()), 1e-6), (bx.HSGP([24, 24], 3.0), 1e-4)]
)
def test_components_of_near_exact_approximations_are_exact(approximation, rtol, grouped):
    theta, new, options = SUMMED | SHARED_SUMMED, {}, {"kernel": "linear + expquad"}
    if grouped:
        theta, new, options = theta | LEVELS, {"groups_new": G_NEW}, options | {"groups": G}
    rows = X_NEW.clip(X.min(), X.max(), axis=1)
    exact, near = (
        bx.GP(X, Y, correlation=1, approximation=a, **options) for a in (None, approximation)
    )
    found, expected = (bx.components(m, theta, rows, **new, **QUIET) for m in (near, exact))
    close(found, expected, rtol)
    f = bx.predictions(near, theta, rows, **new, **QUIET)["f_mean"]
    assert_allclose(found["component_mean"].sum("component"), f, atol=1e-9)


# Half of all combinations, with all pairs of kind, groups and approximation; the rest are slow.
CASES = [(k, g) for k in KINDS for g in (False, True)]
HALVES = [
    pytest.param(
        each,
        approximation,
        marks=pytest.mark.slow if (a + (each[0] == "GPX") + each[1]) % 2 else (),
        id=f"{each}-{approximation}",
    )
    for each in CASES
    for a, approximation in enumerate(APPROXIMATIONS)
]


@pytest.mark.parametrize(("case", "approximation"), HALVES, indirect=["case"])
def test_without_correlation_outputs_are_models_of_their_own(case, approximation):
    family, theta, options, new = case
    table = np.where(np.isnan(Y), 0.1, Y)
    model = family(X, table, approximation=approximation, **options)
    found = bx.predictions(model, theta, X_NEW, **new, **QUIET)
    training = bx.predictions(model, theta, **QUIET)
    for o, name in enumerate(("y0", "y1")):
        alone = family(X, table[:, o], approximation=approximation, **options)
        own = {hyper: value[o] for hyper, value in theta.items()}
        expected = bx.predictions(alone, own, X_NEW, **new, **QUIET)
        close(found.sel(output=name), expected)
        close(training.sel(output=name), bx.predictions(alone, own, **QUIET))


def test_random_functions_of_an_output_have_its_moments(case):
    family, theta, options, new = case
    model = family(X, Y, correlation=1, approximation=bx.HSGP(4), **options).of_output("y1")
    draws = 1000
    theta = theta | SHARED | ({"sigma_w": np.zeros(2)} if family is bx.GPX else {})
    functions = bx.sample_functions(model, theta, draws=draws, seed=2, progressbar=False)
    f = functions.predictions(X_NEW, **new)["f"].values.reshape((draws, -1))
    expected = bx.predictions(model, theta, X_NEW, **new, **QUIET)
    sd = expected["f_sd"].values
    assert_allclose(f.mean(axis=0), expected["f_mean"], atol=5 * sd.max() / np.sqrt(draws))
    assert_allclose(f.std(axis=0), sd, rtol=0.11)  # five standard errors


def test_a_fit_is_kept(case, tmp_path):
    """Weights of each feature have an amplitude for each output."""
    family, _, options, new = case
    own = {"weight_prior": "per_feature"} if family is bx.GPX else {}
    options = {**options, **own, "approximation": bx.HSGP(3), "correlation": 1}
    model = family(X, Y, **options)
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "model.nc")
    again, kept = bx.load(tmp_path / "model.nc")
    found = (bx.predictions(*m, X_NEW, **new, **QUIET) for m in ((model, idata), (again, kept)))
    close(*found, rtol=1e-12)


COUNTS = RNG.poisson(np.exp(np.nan_to_num(Y))).astype(float)
RESPONSES = {
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "bernoulli": pd.DataFrame(np.where(COUNTS > 1, "yes", "no"), columns=["y0", "y1"]),
    "student_t": np.nan_to_num(Y),
}
NOISE = {"student_t": {"sigma": 0.3, "nu": 4.0}, "negative_binomial": {"dispersion": 2.0}}


@pytest.mark.parametrize(
    "approximation", [None, pytest.param(bx.HSGP(4), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize(
    "likelihood",
    ["bernoulli", "student_t"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("poisson", "negative_binomial")],
)
def test_other_likelihoods_have_models_of_their_own_too(likelihood, approximation):
    """Hyperparameters of their noise are shared, all others belong to an output."""
    table, options = RESPONSES[likelihood], {"likelihood": likelihood}
    options["approximation"] = approximation
    model, noise = bx.GP(X, table, **options), NOISE.get(likelihood, {})
    plain = {name: THETA[name] for name in ("lengthscale", "amplitude")}
    of_all = bx.predictions(model, plain | noise, X_NEW, **QUIET)
    left = bx.loo_predictions(model, plain | noise, progressbar=False)
    for o, name in enumerate(("y0", "y1")):
        y = table[name] if hasattr(table, "columns") else table[:, o]
        alone, own = bx.GP(X, y, **options), {k: v[o] for k, v in plain.items()} | noise
        expected = bx.predictions(alone, own, X_NEW, **QUIET)
        for variable in ("f_mean", "f_sd"):
            assert_allclose(of_all[variable].sel(output=name), expected[variable], atol=1e-8)
        own_left = bx.loo_predictions(alone, own, progressbar=False)
        assert_allclose(left["elpd"].sel(output=name), own_left["elpd"], atol=1e-7)


@pytest.mark.parametrize(
    "likelihood", [pytest.param("poisson", marks=pytest.mark.slow), "bernoulli"]
)
def test_counts_and_labels_with_gaps_are_fitted_and_kept(likelihood, tmp_path):
    table = pd.DataFrame(RESPONSES[likelihood], columns=["y0", "y1"]).astype(object)
    table.loc[2, "y1"] = None
    table = table if likelihood == "bernoulli" else table.astype(float)
    options = {"exposure": np.linspace(1, 2, 20)} if likelihood == "poisson" else {}
    model = bx.GP(X, table, likelihood=likelihood, correlation=1, **options)
    assert model.training.n == 39
    prior = pm.sample_prior_predictive(
        2, model=model.pymc, random_seed=1, compile_kwargs={"mode": MODE}
    )
    assert prior["prior_predictive"]["y"].dims == ("chain", "draw", "cell")
    if likelihood == "poisson":
        _check_latent_values(model, prior["prior"].to_dataset().isel(draw=[0]))
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "model.nc")
    again, kept = bx.load(tmp_path / "model.nc")
    assert again.training.labels == model.training.labels
    pairs = (again, kept), (model, idata)
    found, expected = (bx.predictions(*m, X_NEW, seed=1, **QUIET) for m in pairs)
    close(found, expected, rtol=1e-12)
    mean = "rate_mean" if likelihood == "poisson" else "probability_mean"
    assert expected[mean].dims == ("obs", "output")
    slopes = bx.derivatives(model, idata, X_NEW, seed=1, draws=20, **QUIET)
    assert np.isfinite(slopes["derivative_mean"]).all()


def _check_latent_values(model, draw):
    """Given sampled latent values, f at the observed cells is that of the PyMC model."""
    free, y = model.pymc.free_RVs, model.pymc["y"]
    rate = pytensor.function(
        free, y.owner.op.dist_params(y.owner)[0], on_unused_input="ignore", mode=MODE
    )
    values = rate(*(draw[rv.name].values[0, 0] for rv in free))
    given = xr.DataTree.from_dict({"posterior": draw})
    found = bx.predictions(model, given, **QUIET)["f_mean"].values
    f = np.log(values / model.training.exposures)
    # Latent values have a jitter of 1e-4 standard deviations, which predictions smooth away.
    assert_allclose(found[model.training.outputs.observed], f, atol=1e-3)
