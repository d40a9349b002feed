"""Several outputs of each row: sums of Kronecker products with gaps, against dense NumPy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy.stats import multivariate_normal, norm

import bayes_gpx as bx
import oracle
from bayes_gpx.numerics.compile_modes import MODE

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 2))
F = np.sin(X[:, 0])
Y = np.column_stack([F, 3.0 - 2.0 * F + X[:, 1], X[:, 1]]) + 0.2 * RNG.normal(size=(9, 3))
Y[2, 1] = Y[4, 0] = Y[4, 2] = Y[7] = np.nan
KNOWN = ~np.isnan(Y).ravel()
X_NEW = RNG.normal(size=(4, 2))
LENGTHS = np.array([[0.9, 1.4], [1.2, 0.8], [2.0, 1.0]])
OF_FACTORS, LOADING = np.array([[1.1, 1.6], [0.7, 2.5]]), RNG.normal(size=(3, 2))
AMPLITUDE, SIGMA = np.array([0.5, 0.8, 1.1]), np.array([0.3, 0.2, 0.4])
OWN = {"lengthscale": LENGTHS, "amplitude": AMPLITUDE, "sigma": SIGMA}
THETA = OWN | {"factor_lengthscale": OF_FACTORS, "loading": LOADING}
QUIET = {"progressbar": False, "keep": "summary"}
EXACT = {"rtol": 1e-9, "atol": 1e-9}
NAMES = ["y0", "y1", "y2"]


def blocks(left, right, k=oracle.expquad):
    """Covariances of all outputs at points, (m, q, n, q): a sum of Kronecker products."""
    total = 0.0
    for r in range(2):
        B = np.outer(LOADING[:, r], LOADING[:, r])
        total = total + np.kron(k(left, right, OF_FACTORS[r]), B)
    for o in range(3):
        own = np.zeros((3, 3))
        own[o, o] = AMPLITUDE[o] ** 2
        total = total + np.kron(k(left, right, LENGTHS[o]), own)
    return total


def covariance_of_y():
    noise = np.kron(np.eye(9), np.diag(SIGMA**2))
    return (blocks(X, X) + noise)[KNOWN][:, KNOWN]


def conditioned(prior, cross):
    """Mean and variance of what has such a prior and covariance with the observed y."""
    C, y = covariance_of_y(), Y.ravel()[KNOWN]
    mean = cross @ np.linalg.solve(C, y)
    return mean, np.diag(prior - cross @ np.linalg.solve(C, cross.T))


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, Y, correlation=2, scale=False)


def test_density_is_that_of_kronecker_products_with_gaps_deleted(model):
    found = bx.log_likelihood(model, THETA, progressbar=False)
    C, y = covariance_of_y(), Y.ravel()[KNOWN]
    expected = multivariate_normal(np.zeros(len(y)), C).logpdf(y)
    np.testing.assert_allclose(found["log_marginal_likelihood"].item(), expected, rtol=1e-10)
    H = np.linalg.inv(C)
    left_out = norm(y - H @ y / np.diag(H), np.diag(H) ** -0.5).logpdf(y)
    assert found["log_likelihood"].dims == ("chain", "draw", "obs", "output")
    terms = found["log_likelihood"].values.ravel()
    np.testing.assert_allclose(terms[KNOWN], left_out, **EXACT)
    assert np.isnan(terms[~KNOWN]).all()


def test_predictions_of_all_outputs(model):
    found = bx.predictions(model, THETA, X_NEW, **QUIET)
    mean, variance = conditioned(blocks(X_NEW, X_NEW), blocks(X_NEW, X)[:, KNOWN])
    assert found["f_mean"].dims == ("obs", "output")
    assert found["output"].values.tolist() == NAMES
    np.testing.assert_allclose(found["f_mean"].values.ravel(), mean, **EXACT)
    np.testing.assert_allclose(found["f_sd"].values.ravel(), np.sqrt(variance), **EXACT)
    of_y = np.sqrt(variance.reshape((4, 3)) + SIGMA**2)
    np.testing.assert_allclose(found["y_sd"], of_y, **EXACT)
    at_rows = bx.predictions(model, THETA, **QUIET)
    mean, _ = conditioned(blocks(X, X), blocks(X, X)[:, KNOWN])
    np.testing.assert_allclose(at_rows["f_mean"].values.ravel(), mean, **EXACT)


def test_derivatives_are_those_of_finite_differences(model):
    found = bx.derivatives(model, THETA, X_NEW, **QUIET)
    h, prior, cross = 1e-4, [], []
    for j in range(2):
        step = h * np.eye(2)[j]
        high, low = X_NEW + step, X_NEW - step
        cross = (blocks(high, X) - blocks(low, X))[:, KNOWN] / (2 * h)
        prior = (blocks(high, high) - blocks(high, low) - blocks(low, high) + blocks(low, low)) / (
            4 * h**2
        )
        mean, variance = conditioned(prior, cross)
        close = {"rtol": 1e-5, "atol": 1e-6}
        of_j = found.isel(feature=j)
        np.testing.assert_allclose(of_j["derivative_mean"].values.ravel(), mean, **close)
        np.testing.assert_allclose(of_j["derivative_sd"].values.ravel() ** 2, variance, **close)


def test_components_contain_each_output_and_what_outputs_share():
    """With the covariances of each summand, of all outputs, in NumPy."""
    linear, of_linear = np.array([0.6, 0.4, 0.9]), np.random.default_rng(6).normal(size=(3, 2))
    slopes = np.diag(linear**2) + of_linear @ of_linear.T
    each = {"linear": lambda A, B: np.kron(A @ B.T, slopes), "expquad": blocks}
    theta = {"sigma": SIGMA, "linear_amplitude": linear, "linear_loading": of_linear}
    theta |= {"expquad_lengthscale": LENGTHS, "expquad_amplitude": AMPLITUDE}
    theta |= {"factor_expquad_lengthscale": OF_FACTORS, "expquad_loading": LOADING}
    summed = bx.GP(X, Y, correlation=2, scale=False, kernel="linear + expquad")
    found = bx.components(summed, theta, X_NEW, covariance=True, **QUIET)
    noise = np.kron(np.eye(9), np.diag(SIGMA**2))
    C = (sum(k(X, X) for k in each.values()) + noise)[KNOWN][:, KNOWN]
    cross = np.stack([k(X_NEW, X)[:, KNOWN] for k in each.values()])
    mean = (cross @ np.linalg.solve(C, Y.ravel()[KNOWN])).reshape((2, 4, 3))
    cov = -np.einsum("aij,jk,bik->iab", cross, np.linalg.inv(C), cross)
    for a, k in enumerate(each.values()):
        cov[:, a, a] += np.diag(k(X_NEW, X_NEW))
    assert found["component"].values.tolist() == list(each)
    dims = "obs", "output", "component"
    np.testing.assert_allclose(
        found["component_mean"].transpose(*dims), mean.transpose(1, 2, 0), **EXACT
    )
    within = found["component_cov"].transpose(*dims, "component_bis")
    np.testing.assert_allclose(within, cov.reshape((4, 3, 2, 2)), **EXACT)
    f = bx.predictions(summed, theta, X_NEW, **QUIET)["f_mean"]
    np.testing.assert_allclose(found["component_mean"].sum("component"), f, **EXACT)


SLOW = pytest.param(bx.shapley_values, marks=pytest.mark.slow)


@pytest.mark.parametrize("verb", [bx.attributions, SLOW])
def test_attributions_sum_to_the_difference(model, verb):
    baseline = np.array([0.1, -0.4])
    found = verb(model, THETA, X_NEW, baseline=baseline, **QUIET)
    start = np.tile(baseline, (4, 1))
    cross = (blocks(X_NEW, X) - blocks(start, X))[:, KNOWN]
    both = blocks(X_NEW, start)
    prior = blocks(X_NEW, X_NEW) - both - both.T + blocks(start, start)
    mean, variance = conditioned(prior, cross)
    np.testing.assert_allclose(
        found["attribution_mean"].sum("feature").values.ravel(), mean, **EXACT
    )
    np.testing.assert_allclose(found["difference_sd"].values.ravel() ** 2, variance, **EXACT)
    assert found["baseline"].dims == ("feature",)


def options(verb):
    return {"progressbar": False} | ({} if verb == "relevance" else {"keep": "summary"})


def test_without_correlation_outputs_are_models_of_their_own():
    """Each is scaled by its own mean and sd, and explained in units of its own."""
    values = np.where(np.isnan(Y), 0.5, Y) * [1.0, 10.0, 0.1] + 5.0
    frame, table = pd.DataFrame(X, columns=["u", "v"]), pd.DataFrame(values, columns=list("abc"))
    table = table[["a", "b"]]
    theta_of_both = {key: values[:2] for key, values in OWN.items()}
    together, verbs = (
        bx.GP(frame, table),
        {
            "predictions": "y",
            "relevance": "relevance",
        },
    )
    joint = bx.log_likelihood(together, theta_of_both, progressbar=False)
    evidence = joint["log_marginal_likelihood"].item()
    for o, name in enumerate(table):
        alone, theta = bx.GP(frame, table[name]), {key: values[o] for key, values in OWN.items()}
        own = bx.log_likelihood(alone, theta, progressbar=False)
        evidence -= own["log_marginal_likelihood"].item()
        found = joint["log_likelihood"].sel(output=name)
        np.testing.assert_allclose(found, own["log_likelihood"], **EXACT)
        for verb, variable in verbs.items():
            expected = getattr(bx, verb)(alone, theta, X_NEW, **options(verb))
            found = getattr(bx, verb)(together, theta_of_both, X_NEW, **options(verb)).sel(
                output=name
            )
            for part in (f"{variable}_mean", f"{variable}_sd"):
                np.testing.assert_allclose(found[part], expected[part], **EXACT)
            assert found["units"].item() == expected.attrs["units"]
    assert abs(evidence) < 1e-9
    more = {"draws": 5, "progressbar": False}
    found = bx.importances(together, theta_of_both, X_NEW, seed=1, **more)
    found = found["mean_absolute_derivative"]
    assert found.attrs["units"] == "each output's own"
    seeds = np.random.SeedSequence(1).generate_state(2)
    for name, seed in zip(table, seeds, strict=True):
        own = together.of_output(name)
        expected = bx.importances(own, theta_of_both, X_NEW, seed=int(seed), **more)
        np.testing.assert_array_equal(found.sel(output=name), expected["mean_absolute_derivative"])


def test_a_table_of_one_output_is_that_output():
    y = np.where(np.isnan(Y[:, 0]), 0.0, Y[:, 0])
    table, alone = bx.GP(X, y[:, None], priors={"sigma": 0.3}), bx.GP(X, y, priors={"sigma": 0.3})
    theta = {"lengthscale": LENGTHS[0], "amplitude": 0.5}
    each = {name: [value] for name, value in theta.items()}
    found = bx.log_likelihood(table, each, progressbar=False)["log_marginal_likelihood"].item()
    expected = bx.log_likelihood(alone, theta, progressbar=False)["log_marginal_likelihood"].item()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    logps = []
    for model, values in ((table, each), (alone, theta)):
        at = {f"{name}_log__": np.log(value) for name, value in values.items()}
        logps.append(float(model.pymc.compile_logp(mode=MODE)(at)))
    np.testing.assert_allclose(*logps, rtol=1e-12)


def test_rows_that_are_left_out_are_left_out_with_all_their_outputs(model):
    found = bx.loo_predictions(model, THETA, groups=np.arange(9), seed=1, progressbar=False)
    C, y = covariance_of_y(), Y.ravel()[KNOWN]
    row = np.repeat(np.arange(9), 3)[KNOWN]
    assert found["group"].values.tolist() == [0, 1, 2, 3, 4, 5, 6, 8]
    for k in found["group"].values:
        out, rest = row == k, row != k
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, out)]).T
        mean = gain @ y[rest]
        cov = C[np.ix_(out, out)] - gain @ C[np.ix_(rest, out)]
        expected = multivariate_normal(mean, cov).logpdf(y[out])
        np.testing.assert_allclose(found["elpd_group"].sel(group=k), expected, rtol=1e-8)
        known = found.isel(obs=int(k))["y_mean"].values
        np.testing.assert_allclose(known[~np.isnan(known)], mean, rtol=1e-8)
        sd = found.isel(obs=int(k))["y_sd"].values
        np.testing.assert_allclose(sd[~np.isnan(sd)], np.sqrt(np.diag(cov)), rtol=1e-8)


@pytest.mark.slow
def test_functions_of_one_seed_are_those_of_all_outputs(model):
    draws, options = 400, {"seed": 3, "progressbar": False}
    f = []
    for name in ("y0", "y1"):
        functions = bx.sample_functions(model.of_output(name), THETA, draws=draws, **options)
        f.append(functions.predictions(X_NEW[:1])["f"].values.ravel())
    together = bx.sample_functions(model, THETA, draws=draws, **options).predictions(X_NEW[:1])
    for name, own in zip(("y0", "y1"), f, strict=True):
        np.testing.assert_array_equal(together["f"].sel(output=name).values.ravel(), own)
    assert together.attrs["dependence"].endswith("joint over outputs")
    cross = blocks(X_NEW[:1], X)[:, KNOWN]
    cov = blocks(X_NEW[:1], X_NEW[:1]) - cross @ np.linalg.solve(covariance_of_y(), cross.T)
    mean, _ = conditioned(blocks(X_NEW[:1], X_NEW[:1]), cross)
    sd = np.sqrt(np.diag(cov))[:2]
    np.testing.assert_array_less(np.abs(np.mean(f, axis=1) - mean[:2]), 4 * sd / np.sqrt(draws))
    error = np.sqrt((cov[0, 1] ** 2 + np.prod(sd**2)) / draws)
    assert abs(np.cov(f)[0, 1] - cov[0, 1]) < 4 * error


@pytest.fixture(scope="module")
def fitted():
    table = pd.DataFrame(Y[:, :2], columns=["heat", "cold"])
    model = bx.GP(X, table, correlation=1, priors={"sigma": 0.3, "factor_lengthscale": 1.0})
    # In the logs of amplitudes, nine rows have their mode where outputs share nothing.
    return model, model.fit("map", progressbar=False, jacobian=False)


def test_a_fit_has_loadings_of_outputs_and_their_covariance(fitted):
    posterior = fitted[1]["posterior"]
    assert posterior["lengthscale"].dims[2:] == ("output", "feature")
    assert posterior["loading"].dims[2:] == ("output", "factor")
    W = posterior["loading"].values[0, 0]
    assert posterior["output_covariance"].dims[2:] == ("output", "output_bis")
    np.testing.assert_allclose(posterior["output_covariance"].values[0, 0], W @ W.T, rtol=1e-12)
    assert posterior["output"].values.tolist() == ["heat", "cold"]
    assert W[0, 0] * W[1, 0] < 0.0  # the second output falls where the first one rises
    assert fitted[1]["observed_data"]["y"].dims == ("cell",)


def test_a_saved_model_is_the_same(fitted, tmp_path):
    model, idata = fitted
    bx.save(model, idata, tmp_path / "model.nc")
    loaded, again = bx.load(tmp_path / "model.nc")
    assert loaded.signature == model.signature
    np.testing.assert_array_equal(loaded.training.outputs.values, Y[:, :2])
    expected = bx.predictions(model, idata, X_NEW, **QUIET)
    found = bx.predictions(loaded, again, X_NEW, **QUIET)
    np.testing.assert_array_equal(found["y_mean"], expected["y_mean"])


def test_draws_of_outputs_differ(fitted):
    found = bx.predictions(*fitted, X_NEW, seed=1, draws=3, progressbar=False)
    apart = (found["f"] - found["f_mean"]) / found["f_sd"]
    assert not np.allclose(apart.sel(output="heat"), apart.sel(output="cold"))


def test_an_executor_explains_rows_and_not_cells(model, tmp_path):
    options = {"draws": 3, "seed": 1, "progressbar": False, "path": tmp_path / "draws"}
    with ThreadPoolExecutor(1) as executor:
        found = bx.predictions(model, THETA, executor=executor, **QUIET)
        stored = bx.predictions(model, THETA, executor=executor, **options)
    assert stored["f"].dims == ("chain", "draw", "obs", "output")
    np.testing.assert_array_equal(stored["f_mean"], found["f_mean"])
    expected = bx.predictions(model, THETA, **QUIET)
    np.testing.assert_allclose(found["y_mean"], expected["y_mean"], **EXACT)


def test_a_model_says_what_its_outputs_are(model):
    assert "Outputs                    3: y0, y1, y2; 21 of 27 values observed" in repr(model)
    assert "Functions that they share  2" in repr(model)


def test_levels_of_a_column_share_the_lengthscales_of_an_output():
    frame = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(list("abcabcabc"))})
    table = pd.DataFrame({"u": pd.array([1, 2, None] * 3, dtype="Int64"), "v": X[:, 1]})
    model = bx.GP(frame, table, correlation=1)
    assert model.dims_of("lengthscale") == ("output", "feature")
    each = {**dict.fromkeys(model.hyperparameters, 0.5), "lengthscale": [[1.0, 2.0], [3.0, 4.0]]}
    lengths = model.fixed_hyperparameters(each)["lengthscale"]
    np.testing.assert_array_equal(lengths, [[1.0, 2.0, 2.0, 2.0], [3.0, 4.0, 4.0, 4.0]])
    assert model.training.y.tolist()[:4] == [1.0, X[0, 1], 2.0, X[1, 1]]
    prior = pm.draw(model.pymc["y"], random_seed=1, mode=MODE)
    assert prior.shape == (15,) and np.isfinite(prior).all()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.where(np.arange(9)[:, None] == 2, np.inf, Y), "infinite values.*row 2.*not observed"),
        (pd.DataFrame({"a": list("abcabcabc"), "b": Y[:, 0]}), "holds 'a'.*one column of labels"),
    ],
)
def test_what_is_no_number_in_a_table_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, table)


def test_what_outputs_share_is_drawn_from_the_prior():
    """Of one factor, whose product with itself PyTensor's rewrites get wrong; see `squared`."""
    model = bx.GP(X, Y, correlation=1).pymc
    variables = [model["output_covariance"], model["loading"]]
    found, W = pm.draw(variables, random_seed=1, mode=Mode(linker="py", optimizer="fast_run"))
    np.testing.assert_allclose(found, W @ W.T)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": lambda d: None}, "a kernel by its name"),
        (
            {"constraints": [bx.constraints.Increasing("x0")]},
            "given together with a table of outputs",
        ),
        ({"representation": "hierarchy"}, "representation='collapsed'"),
        ({"correlation": 4}, "at most as many shared functions"),
        ({"correlation": -1}, "Pass a whole number of at least 0"),
        ({"likelihood": "poisson"}, "y is negative|y is fractional"),
        ({"likelihood": "categorical"}, "must have one dimension"),
    ],
)
def test_what_does_not_go_with_outputs_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(X, Y, **options)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.where(np.isnan(Y), np.inf, Y), "infinite values"),
        (Y[:8], "9 rows and y has 8"),
        (np.column_stack([Y[:, 0], np.full(9, np.nan)]), "0 observed values"),
        (np.column_stack([Y[:, 0], np.full(9, 2.0)]), "column 'y1', is constant"),
        (pd.DataFrame(Y, columns=["a", "b", "a"]), "repeated column names"),
        (pd.DataFrame(Y, index=list("abcdefghi")[::-1]), None),
    ],
)
def test_tables_of_outputs_that_cannot_be_read(table, message):
    if message is None:
        frame, message = pd.DataFrame(X, index=list("abcdefghi")), "index of y differs"
        with pytest.raises(ValueError, match=message):
            bx.GP(frame, table)
        return
    with pytest.raises(ValueError, match=message):
        bx.GP(X, table)


def test_correlation_needs_a_table():
    with pytest.raises(ValueError, match="or correlation=0"):
        bx.GP(X, X[:, 0], correlation=1)


def test_verbs_that_know_one_response_say_what_to_ask_instead(model, tmp_path):
    asked, found = model.of_output("y1"), bx.predictions(model, THETA, X_NEW, **QUIET)
    for refused in (
        lambda: bx.report(model, THETA, path=tmp_path / "report.html"),
        lambda: bx.calibrate(model, runs=1, method="laplace"),
        lambda: bx.project(model, THETA),
        lambda: bx.interaction_model(model, [("x0", "x1")]),
        lambda: bx.predictions(model, THETA, path=tmp_path / "draws"),
        lambda: bx.save(asked, THETA, tmp_path / "model.nc"),
        lambda: bx.ranking(bx.relevance(model, THETA, X_NEW, progressbar=False)),
        lambda: bx.plot_predictions(found),
        lambda: bx.plot_waterfall(bx.attributions(model, THETA, X_NEW[:1], **QUIET)),
        lambda: bx.metrics.coverage(found, np.zeros(4)),
    ):
        with pytest.raises(ValueError, match="output|the result of"):
            refused()
    with pytest.raises(ValueError, match="unknown 'y3'"):
        model.of_output("y3")
    with pytest.raises(ValueError, match="one response"):
        bx.GP(X, X[:, 0]).of_output("y")


def test_replicated_responses_are_those_that_were_observed():
    """One for each observed cell, with the density of the response given the f that gave it."""
    shifted = Y * [1.0, 5.0, 0.2][: Y.shape[1]]
    model = bx.GP(X, shifted, correlation=2)
    tree = bx.predictive_checks(model, THETA, seed=1, progressbar=False)
    drawn = bx.predictions(model, THETA, seed=1, progressbar=False, keep="draws")
    outputs = model.training.outputs
    y = drawn["y"].values[..., outputs.observed]
    np.testing.assert_array_equal(tree["posterior_predictive"]["y"], y)
    np.testing.assert_array_equal(tree["observed_data"]["y"], shifted[~np.isnan(Y)])
    sd = np.asarray(THETA["sigma"]) * outputs.scaling.scale
    expected = norm.logpdf(shifted, drawn["f"].values, sd)[..., outputs.observed]
    np.testing.assert_allclose(tree["log_likelihood"]["y"], expected, rtol=1e-9)
    new = bx.sample_posterior_predictive(model, THETA, X_NEW, seed=1, progressbar=False)
    assert new["predictions"]["y"].dims == ("chain", "draw", "obs", "output")
