"""A paragraph about a result: each number in it is a number of the result, beside its name."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from test_json_form import DRAWN, FUNCTIONS, QUIET, called

import bayes_gpx as bx
import matrix_of_calls
from bayes_gpx.reporting.page import number


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_has_a_paragraph(function):
    found, *_ = called(function)
    text = bx.describe(found)
    assert text.startswith("We estimated the ") and text.endswith(".")
    assert not re.search(r"because|not finite|nan|None|\{|\n|  ", text)
    assert ("likelihood is " in text) == ("likelihood" in found.attrs)
    assert ("Brackets give the 90%" in text) == bool(re.search(r"\[\S+, \S+\]", text))


@pytest.fixture
def shares():
    """Two rows and three features with odd names: a rise, a fall, and no change."""
    mean = np.array([[2.5, -30.0, 0.0], [-0.125, 4.0, 1e-9]])
    ends = mean[..., None] + np.array([-1.0, 3.0])
    return xr.Dataset(
        {
            "attribution_mean": (("obs", "feature"), mean),
            "attribution_sd": (("obs", "feature"), np.ones((2, 3))),
            "attribution_interval": (("obs", "feature", "ci_bound"), ends),
            "value": (("obs", "feature"), [[1.0, -2.0, 3.5]] * 2),
            "baseline": ("feature", [0.5, -0.25, 7.0]),
        },
        {
            "obs": ["Anna; B.", "{x}"],
            "feature": ["dose [mg]", "größe\nin cm", "a: b"],
            "ci_bound": ["lower", "upper"],
        },
        {"units": "mmHg", "baseline": "median", "ci_prob": 0.975, "method": "shapley"},
    )


def test_numbers_stand_beside_their_odd_names_with_their_signs(shares):
    text = bx.describe(shares)
    assert (
        "Observation Anna; B.: dose [mg] 1 (baseline 0.5): +2.5 [1.5, 5.5]; größe in cm -2 "
        "(baseline -0.25): -30 [-31, -27]; a: b 3.5 (baseline 7): 0 [-1, 3]." in text
    )
    assert "Observation {x}: dose [mg] 1 (baseline 0.5): -0.125 [-1.12, 2.88];" in text
    assert "(unit: mmHg; against the baseline 'median')" in text
    assert "by Shapley values" in text
    assert "Brackets give the 97.5% equal-tailed credible interval." in text


def test_obs_chooses_rows_and_long_results_are_cut(shares):
    assert "Anna" not in bx.describe(shares, obs="{x}")
    with pytest.raises(ValueError, match="obs"):
        bx.describe(shares, obs="c")
    many = shares.isel(obs=[0] * 5).assign_coords(obs=range(5))
    text = bx.describe(many)
    assert text.count("Observation ") == 3 and "The result has 2 more observations." in text
    assert bx.describe(many, obs=[0, 1, 2, 3]).count("Observation ") == 4
    wide = shares.isel(feature=[0, 1, 2] * 3).assign_coords(feature=list("abcdefghi"))
    text = bx.describe(wide, obs="Anna; B.")
    assert [*re.findall(r"(\w) -?\d\S* \(base", text)] == ["b", "e", "h", "a", "d", "g"]
    assert "; 3 others are left out." in text


def test_averages_are_described_until_rows_are_chosen():
    found, *_ = called("slopes")
    low, high = found["average_slope_interval"].sel(feature="a").values
    mean = float(found["average_slope_mean"].sel(feature="a"))
    text = f"a: {'+' if mean > 0 else ''}{number(mean)} [{number(low)}, {number(high)}]"
    assert text in bx.describe(found)
    assert "average" not in bx.describe(found, obs=0)
    since = found.assign_coords(unit=("feature", ["kg", *[""] * (found.sizes["feature"] - 1)]))
    assert text.replace("a: ", "a (per kg): ") in bx.describe(since)
    with pytest.raises(
        ValueError, match="result of importances has no observations. Leave obs out"
    ):
        bx.describe(called("importances")[0], obs=0)


def test_probabilities_of_a_gap_beyond_a_size_are_described():
    of_m, of_n = [0.0, 3.0, 4.0, -6.0], [0.0] * 4
    drawn = xr.DataArray(
        np.stack([of_m, of_n], axis=-1)[None, :, :, None],
        {"by": ["m", "n"], "feature": ["x"]},
        ["chain", "draw", "by", "feature"],
    )
    found = xr.Dataset({"attribution": drawn}, attrs={"units": "cm", "ci_prob": 0.9})
    text = bx.describe(bx.group_differences(found, size=2.0))
    assert ", above 2 with probability 0.5 and below -2 with 0.25" in text


def test_treatment_effects_state_their_assumptions():
    found, *_ = called("treatment_effects")
    assert found.attrs["assumptions"] in bx.describe(found)


def test_levels_dates_labels_and_draws_are_named():
    assert "kind blue: " in bx.describe(called("partial_dependence")[0])
    _, built, theta = called("comparisons")
    rows = matrix_of_calls.new_rows(built)["X_new"]
    found = bx.attributions(built, theta, rows, keep="summary", **QUIET)
    assert f"kind {rows['kind'].iloc[1]}: " in bx.describe(found, obs=1)
    own = bx.attributions(built, theta, rows, baseline=rows[:1], keep="summary", **QUIET)
    assert own["baseline_level"].sel(feature="kind") == rows["kind"].iloc[0]
    said = f"kind {rows['kind'].iloc[1]} (baseline {rows['kind'].iloc[0]}): "
    assert said in bx.describe(own, obs=1)
    assert found["unit"].sel(feature="day") == "days since 2024-01-01"
    assert "day 2024-01-08 (baseline " in bx.describe(found, obs=1)
    steep = bx.derivatives(built, theta, rows, keep="summary", **QUIET)
    assert f"a {rows['a'].iloc[0]:.4g}: " in bx.describe(steep, obs=0)
    up = pd.Series(["no", "yes"] * 7, name="ill")
    X = pd.DataFrame({"a": np.linspace(-1, 1, 14)})
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    model = bx.GP(X, up, likelihood="bernoulli")
    text = bx.describe(bx.predictions(model, theta, X[:1], draws=20, seed=1, **QUIET))
    assert text.startswith("We estimated the probability of yes at x (unit: probability).")


@pytest.mark.parametrize(
    ("likelihood", "on", "words"),
    [
        (bx.likelihoods.asymmetric_laplace(0.9), "response", "derivative of quantile(x)"),
        (bx.likelihoods.asymmetric_laplace(0.9), "latent", "derivative of quantile(x)"),
        ("heteroscedastic_normal", "response", "derivative of mean or sd(x)"),
        ("heteroscedastic_normal", "latent", "derivative of f(x)"),
        ("poisson", "response", "derivative of mean response(x)"),
    ],
)
def test_explained_functions_are_named(likelihood, on, words):
    X, y = np.linspace(-1, 1, 14)[:, None], np.arange(14) % 4
    several = likelihood == "heteroscedastic_normal"
    theta = {"lengthscale": [[1.0], [2.0]] if several else [1.0]}
    theta |= {"amplitude": [0.5, 0.3] if several else 0.5}
    theta |= {"sigma": 0.3} if isinstance(likelihood, bx.likelihoods.Likelihood) else {}
    model = bx.GP(X, y, likelihood=likelihood)
    found = bx.derivatives(model, theta, X[:1], on=on, draws=20, seed=1, **QUIET)
    assert words in bx.describe(found)


def test_a_single_draw_has_no_interval():
    found, built, _ = called("relevance")
    assert "These estimates have no intervals." in bx.describe(found)
    assert "(unit: per standard deviation of the feature)" in bx.describe(found)
    assert "(unit: per unit of the feature)" in bx.describe(found, obs=[0])
    several = bx.relevance(built, DRAWN, built.training.X.values[:1], **QUIET)
    assert "Brackets give" in bx.describe(several)


def test_dates_and_features_of_two_values_are_described():
    when = pd.date_range("2020-01-01", periods=12, freq="30D")
    X = pd.DataFrame({"when": when, "smokes": [0, 1] * 6})
    model = bx.GP(X, np.arange(12.0) + 2.0 * X["smokes"])
    theta = {"lengthscale": [200.0, 2.0], "amplitude": 5.0, "sigma": 0.2}
    slopes = bx.describe(bx.slopes(model, theta, seed=1, **QUIET))
    assert "when (per day): " in slopes
    assert "Only 0 and 1 occur in smokes: " in slopes
    smokers = bx.slopes(model, theta, X[X["smokes"] == 1], seed=1, **QUIET)
    assert "Only 0 and 1" not in bx.describe(smokers)
    found = bx.relevance(model, theta, **QUIET)
    assert found["unit"].values.tolist() == ["days since 2020-01-01", ""]
    sds = [30.0 * np.std(np.arange(12)), 0.5]
    a, b = found["relevance"].values[0, 0].mean(axis=0) * sds
    assert f"when: {a:.3g}; smokes: {b:.3g}." in bx.describe(found)


def test_groups_that_were_asked_for_are_described():
    X = pd.DataFrame({"a": np.linspace(-1, 1, 12), "t": pd.Categorical(["no", "yes"] * 6)})
    X["g"] = pd.Categorical(["u", "u", "v", "v"] * 3)
    model = bx.GP(X, X["a"] + 2.0 * (X["t"] == "yes"))
    theta = {"lengthscale": [1.0, 1.0, 1.0], "amplitude": 1.0, "sigma": 0.2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few rows
        found = bx.treatment_effects(model, theta, treatment="t", by="g", seed=1, **QUIET)
    means = found["effect_mean"].values
    said = bx.describe(found)
    for label, mean in zip("uv", means, strict=True):
        assert f"Average over observations, {label}: +{number(mean)} " in said


def test_dates_of_rows_and_ratios_are_written_as_such():
    days = pd.date_range("1987-06-01", periods=12)
    X = pd.DataFrame({"a": np.linspace(-1, 1, 12)}, index=days)
    model, theta = bx.GP(X, pd.Series(3.0 + X["a"], days)), {"lengthscale": [2.0], "amplitude": 1.0}
    theta["sigma"] = 0.1
    known = bx.comparisons(model, theta, obs=days[:1], comparison="ratio", seed=1, **QUIET)
    said = bx.describe(known)
    assert "Observation 1987-06-01: a +1 sd: " in said and "sd: +" not in said
