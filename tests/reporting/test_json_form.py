"""JSON that others can check: every number of a result, and the facts that an auditor asks for."""

import json
import warnings
from importlib.resources import files

import jsonschema
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
import matrix_of_calls
from bayes_gpx import explain
from bayes_gpx.inference import laplace
from bayes_gpx.reporting.fit import Fit
from bayes_gpx.reporting.sections import inference

QUIET = {"progressbar": False}
THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
SCHEMA = json.loads(files("bayes_gpx").joinpath("schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def read(text):
    """Parse strictly and validate."""
    said = json.loads(text, parse_constant=refuse)
    VALID.validate(said)
    return said


CALLS = {
    "predictions": ("GP expquad", {"keep": "summary"}),
    "attributions": ("GP counts", {"keep": "summary", "on": "latent"}),
    "shapley_values": ("GP expquad", {"draws": 20, "seed": 1}),
    "derivatives": ("GP outputs", {"keep": "summary"}),
    "slopes": ("GP expquad", {"draws": 20, "seed": 1}),
    "path_slopes": ("GP expquad", {"draws": 20, "seed": 1, "obs": [0]}),
    "comparisons": ("GP of categories", {"draws": 20, "seed": 1}),
    "partial_dependence": ("GP of categories", {"steps": 3, "keep": "draws", "draws": 20}),
    "components": ("GP additive", {"keep": "summary"}),
    "weights": ("GPX", {"keep": "summary"}),
    "contributions": ("GPX", {"keep": "summary"}),
    "relevance": ("GP expquad", {}),
    "interactions": ("GP expquad", {}),
    "importances": ("GP expquad", {"draws": 3, "seed": 1}),
    "treatment_effects": ("GP expquad", {"treatment": "a", "keep": "summary"}),
    "sobol_indices": ("GP orthogonal", {}),
    "log_likelihood": ("GP expquad", {}),
    "loo_predictions": ("GP expquad", {"seed": 1}),
}
"""A model and options for each explanation function."""

OF_ROWS = {"sobol_indices", "log_likelihood", "loo_predictions"}
"""Functions of the training rows."""

DRAWN = xr.DataTree.from_dict(
    {
        "/posterior": xr.Dataset(
            {
                "lengthscale": (("chain", "draw", "feature"), [[[0.9, 1.7], [1.2, 1.1], [2, 0.7]]]),
                "amplitude": (("chain", "draw"), [[0.8, 0.9, 1.0]]),
                "sigma": (("chain", "draw"), [[0.4, 0.3, 0.2]]),
            },
            {"chain": [0], "draw": [0, 1, 2], "feature": ["a", "b"]},
        )
    }
)
"""Three draws of the hyperparameters."""


def called(function):
    """A result of a function, with its model and hyperparameters."""
    if function == "ranking":
        built, _ = matrix_of_calls.model("GP expquad")
        X = matrix_of_calls.new_rows(built)["X_new"]
        return bx.ranking(bx.relevance(built, DRAWN, X, **QUIET)), built, DRAWN
    if function in ("reasons", "group_differences"):
        built, theta = matrix_of_calls.model("GP expquad")
        options = {"by": ["p", "q", "q", "p"]} if function == "group_differences" else {}
        X = built.training.X.values[:4]
        found = bx.attributions(built, theta, X, draws=20, seed=1, **options, **QUIET)
        return getattr(bx, function)(found), built, theta
    if function == "next_rows":
        built, theta = matrix_of_calls.model("GP expquad")
        X = matrix_of_calls.new_rows(built)["X_new"]
        found = bx.next_rows(built, theta, X, question="attributions", seed=1, **QUIET)
        return found, built, theta
    name, options = CALLS[function]
    built, theta = matrix_of_calls.model(name)
    rows = {} if function in OF_ROWS else matrix_of_calls.new_rows(built)
    return getattr(bx, function)(built, theta, **rows, **options, **QUIET), built, theta


FUNCTIONS = [*CALLS, "ranking", "next_rows", "reasons", "group_differences"]


@pytest.fixture(scope="module", params=FUNCTIONS)
def result(request):
    return request.param, *called(request.param)


def test_every_explanation_function_is_called():
    others = {"sample_functions", "with_propensity", "RandomFunctions"}
    assert {*FUNCTIONS} == {*explain.__all__} - others


def test_each_function_has_a_valid_text_with_its_estimand_and_unit(result):
    function, found, built, theta = result
    said = read(bx.to_json(found, model=built, idata=theta))
    assert said["function"] == function
    assert said["estimands"].keys() == said["units"].keys()
    assert not any("{" in words for words in said["estimands"].values())
    names = [str(n) for n in found.data_vars if found[n].dtype.kind in "fb"]
    described = tuple(said["estimands"])
    rows = ("value", "baseline", "level", "exposure", "log_weights")
    assert [n for n in names if not n.startswith(described + rows)] == []


def test_each_number_is_read_back(result):
    _, found, _, _ = result
    again = bx.from_json(bx.to_json(found))
    drawn = {n for n, v in found.variables.items() if {"chain", "draw"} & {*v.dims}}
    assert not drawn & {*again.variables}
    for name in found.variables.keys() - drawn:
        assert again[name].dims == found[name].dims
        values = found[name].values
        if values.dtype.kind == "f":
            values = np.where(np.isfinite(values), values, np.nan)
        assert_array_equal(again[name], values)
    xr.testing.assert_identical(again, bx.from_json(bx.to_json(again)))


def test_the_layout_is_that_of_xarray(result):
    _, found, _, _ = result
    text = bx.to_json(found)
    plain, typed = xr.Dataset.from_dict(json.loads(text)["numbers"]), bx.from_json(text)
    assert {*plain.variables} == {*typed.variables}
    for name in typed.variables:
        assert_array_equal(plain[name].astype(typed[name].dtype).values, typed[name].values)


def test_draws_leave_their_mean_sd_and_interval():
    built, _ = matrix_of_calls.model("GP expquad")
    X = matrix_of_calls.new_rows(built)["X_new"]
    found = bx.importances(built, DRAWN, X, measures=["inverse_lengthscale"], **QUIET)
    again = bx.from_json(bx.to_json(found.assign_attrs(ci_prob=0.5)))
    draws = found["inverse_lengthscale"].values[0]
    assert_allclose(again["inverse_lengthscale_mean"], draws.mean(axis=0))
    assert_allclose(again["inverse_lengthscale_sd"], draws.std(axis=0))
    ends = np.quantile(draws, [0.25, 0.75], axis=0).T
    assert_allclose(again["inverse_lengthscale_interval"], ends)


def test_a_single_draw_claims_no_certainty():
    found, *_ = called("importances")
    text = bx.to_json(found.isel(draw=[0]))
    again = bx.from_json(text)
    assert again["sobol_total_mean"].notnull().all()
    assert again["sobol_total_sd"].isnull().all()
    assert "sobol_total_interval" not in again
    assert read(text)["intervals"] is None
    curves, *_ = called("partial_dependence")
    assert "ice_interval" not in bx.from_json(bx.to_json(curves.isel(draw=[0])))


@pytest.fixture
def odd():
    """A result with labels that are hard to write."""
    names = ['quote " and \\', "größe, \U0001f600", "{x}", "two\nlines"]
    return xr.Dataset(
        {
            "attribution_mean": (("obs", "feature"), [[1.5, np.nan, np.inf, -np.inf]] * 2),
            "value": (("obs", "feature"), np.zeros((2, 4), "int64")),
            "kept": ("obs", [True, False]),
            "mixed": ("obs", np.array(["a", True], object)),
            "empty": (("obs", "none"), np.zeros((2, 0))),
        },
        {
            "obs": pd.DatetimeIndex(["2024-02-29T00:00:00.0", "1969-12-31T23:59:59.5"]),
            "feature": names,
            "when": ("feature", np.array(["2024-01-01", "NaT"] * 2, "datetime64[D]")),
        },
        {"baseline": "given", "units": "mmHg °", "list": ["a", 1], "number": np.float64(2.5)},
    )


def test_dates_text_booleans_and_odd_names_survive(odd):
    text = bx.to_json(odd)
    assert text.isascii()
    again, said = bx.from_json(text), read(text)
    for name in odd.variables.keys() - {"attribution_mean"}:
        assert_array_equal(again[name].values, odd[name].values)
        assert again[name].dtype == odd[name].dtype
    assert_array_equal(again["attribution_mean"], [[1.5, np.nan, np.nan, np.nan]] * 2)
    assert said["numbers"]["data_vars"]["attribution_mean"]["data"][0] == [1.5, None, None, None]
    assert again.attrs == odd.attrs
    assert said["baseline"] == {"name": "given", "values": None}


def test_other_datasets_and_versions_are_refused():
    with pytest.raises(ValueError, match="only the variables \\['z'\\]. Pass the result"):
        bx.to_json(xr.Dataset({"z": 1.0}))
    with pytest.raises(ValueError, match="idata was given without model"):
        bx.to_json(xr.Dataset({"f_mean": 1.0}), idata={})
    with pytest.raises(ValueError, match="version 99"):
        bx.from_json('{"version": 99}')


def test_the_schema_is_valid_and_refuses_texts_with_less(odd):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    said = read(bx.to_json(odd))
    for name in said:
        assert not VALID.is_valid({k: v for k, v in said.items() if k != name})
    assert not VALID.is_valid(said | {"version": 2})


@pytest.fixture(scope="module")
def audited():
    """A fit by NUTS, too short on purpose, and attributions from it; the text, and all facts."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(20, 2)), list(range(100, 120)), ["dose", "age"])
    model = bx.GP(X, pd.Series(np.sin(X["dose"]), name="pressure"), priors={"sigma": 0.1})
    with pytest.warns(UserWarning):
        idata = model.fit("nuts", draws=20, tune=20, chains=2, seed=7, **QUIET)
    new = pd.DataFrame([[0.1, 0.2], [0.5, 40.0]], ["p", "q"], X.columns)
    found = bx.attributions(model, idata, new, baseline="median", ci_prob=0.8, seed=1, **QUIET)
    return read(bx.to_json(found, model=model, idata=idata)), model, idata, found, X


def test_the_text_names_seeds_and_warnings(result):
    """Of every function with a seed; `ranking` keeps those of its Dataset."""
    function, found, built, theta = result
    said = read(bx.to_json(found, model=built, idata=theta))
    given = {"next_rows": 1, "reasons": 1, "group_differences": 1, "ranking": None}.get(
        function, CALLS.get(function, [0, {}])[1].get("seed")
    )
    assert said["seed"] == {"fit": None, "call": given}
    assert said["warnings"] == [] and "warnings" not in found.attrs


def test_warnings_of_a_call_stay_with_its_result(audited, tmp_path):
    said, *_, found, _ = audited
    (text,) = said["warnings"]
    assert text.startswith("ExtrapolationWarning: ") and "as far as 40" in text
    assert said["seed"] == {"fit": 7, "call": 1}
    found.to_netcdf(tmp_path / "found.nc")
    with xr.open_dataset(tmp_path / "found.nc") as again:
        assert read(bx.to_json(again))["warnings"] == [text]


def test_warnings_are_kept_if_the_user_filters_them():
    built, theta = matrix_of_calls.model("GP expquad")
    X = matrix_of_calls.new_rows(built)["X_new"] + 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bx.ExtrapolationWarning)
        found = bx.slopes(built, theta, X, draws=5, **QUIET)
        near = bx.slopes(built, theta, X - 100.0, draws=5, **QUIET)
    assert len(found.attrs["warnings"]) == 1  # not that of the derivatives within
    assert "warnings" not in near.attrs and "seed" not in near.attrs


def test_completeness_is_the_largest_error_of_a_sum():
    found = xr.Dataset(
        {
            "attribution_mean": (("obs", "feature"), [[1.0, 2.0], [-3.0, -5.0]]),
            "difference_mean": ("obs", [3.0, -8.5]),
            "completeness_residual": ("obs", [0.0, 0.5]),
        }
    )
    said = read(bx.to_json(found))
    assert said["completeness"] == {"largest_error": 0.5, "largest_sum": 8.5}
    assert read(bx.to_json(found.drop_vars("completeness_residual")))["completeness"] is None


def test_cautions_tell_of_chains_and_of_rows_outside_the_data(audited):
    said = audited[0]
    assert said["convergence"]["summary"] in said["cautions"]
    assert any("age in 1, as far as 40" in text for text in said["cautions"])


def test_cautions_tell_of_weighted_draws_that_did_not_converge(monkeypatch):
    """The same sentence as the fit's warning, and none where weights are even enough."""
    built, _ = matrix_of_calls.model("GP expquad")
    monkeypatch.setitem(laplace.ROUNDS, "not converged", 2)
    for bad, state in ((100, "converged"), (10**6, "not converged")):
        monkeypatch.setattr(laplace, "BAD_EFFECTIVE", bad)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", bx.ConvergenceWarning)
            idata = built.fit("laplace", draws=100, seed=1, **QUIET)
        told = [w for w in caught if w.category is bx.ConvergenceWarning]
        found = bx.predictions(built, idata, keep="summary", **QUIET)
        said = read(bx.to_json(found, model=built, idata=idata))
        assert said["convergence"]["state"] == state
        assert said["convergence"]["pareto_k"] == idata.attrs["khat"]
        far = [text for text in said["cautions"] if "Pareto k of the weights" in text]
        assert len(far) == len(told) == (state != "converged")
        assert all(text in str(told[0].message) for text in far)


def test_the_digest_changes_with_a_single_response(audited):
    said, _, _, found, X = audited
    y = np.sin(X["dose"]).rename("pressure")
    same = read(bx.to_json(found, model=bx.GP(X, y, priors={"sigma": 0.1})))["digests"]
    assert same == said["digests"]
    y.iloc[3] += 1e-9
    other = read(bx.to_json(found, model=bx.GP(X, y, priors={"sigma": 0.1})))["digests"]
    assert other["data"] != same["data"] and other["model"] == same["model"]
    assert read(bx.to_json(found))["digests"] is None


def test_weighted_draws_of_files_without_their_state_are_said_to_be_unknown():
    built, _ = matrix_of_calls.model("GP expquad")
    idata = built.fit("laplace", draws=100, seed=1, **QUIET)
    for name in ("convergence", "convergence_summary"):
        del idata.attrs[name]
    (said,) = inference._convergence(Fit(built, idata))
    assert "not recorded" in said.text and said.tone == "note"


def test_codes_of_labels_have_no_average():
    X = np.arange(12.0)[:, None]
    model = bx.GP(X, np.resize(["u", "v", "w"], 12), likelihood="categorical")
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    found = bx.predictions(model, theta, X[:2], seed=1, progressbar=False)
    assert "y" in found and "y_mean" not in bx.from_json(bx.to_json(found))
    assert "probability_mean" in bx.from_json(bx.to_json(found))
