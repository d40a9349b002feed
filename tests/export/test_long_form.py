"""Long form: every number of a verb's Dataset, under the row labels that the user's frame had."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx
from known_draws import known

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
OPTIONS = {"draws": 100, "seed": 2, "progressbar": False}
MOMENTS = ("mean", "sd", "lower", "upper")


@pytest.fixture(scope="module")
def model(regression):
    return bx.GP(*regression[::2][:2])


@pytest.fixture(scope="module")
def new(regression):
    return pd.DataFrame(np.asarray(regression[3]), list("pqrs"), ["age", "dose"])


def test_every_number_stands_beside_its_row_and_feature(model, new):
    found = bx.attributions(model, THETA, new, **OPTIONS)
    frame = bx.to_pandas(found, ci_prob=0.8)
    quantities = [f"{q}_{m}" for q in ("attribution", "difference") for m in MOMENTS]
    assert list(frame) == ["row", "feature", "value", *quantities]
    assert len(frame) == 8
    for _, line in frame.sample(frac=1, random_state=1).iterrows():
        at = {"obs": line["row"], "feature": line["feature"]}
        assert line["value"] == new.loc[line["row"], line["feature"]]
        assert line["attribution_mean"] == found["attribution_mean"].sel(at).item()
        assert line["attribution_sd"] == found["attribution_sd"].sel(at).item()
        assert line["difference_sd"] == found["difference_sd"].sel(obs=line["row"]).item()
        low, high = np.quantile(found["attribution"].sel(at), [0.1, 0.9])
        assert_allclose([line["attribution_lower"], line["attribution_upper"]], [low, high])


def test_without_draws_intervals_are_normal(model, new):
    frame = bx.to_pandas(bx.derivatives(model, THETA, new, keep="summary"), ci_prob=0.9)
    ends = norm(frame["derivative_mean"], frame["derivative_sd"]).ppf([[0.05]] * 2 + [[0.95]] * 2)
    assert_allclose(frame["derivative_lower"], ends[0])
    assert_allclose(frame["derivative_upper"], ends[3])


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["b", "a", "d", "c"]),
        pd.Index([30, 10, 20, 5]),
        pd.date_range("2020-01-01", periods=4),
        pd.MultiIndex.from_product([["x", "y"], [1, 2]]),
    ],
    ids=["text", "numbers", "dates", "levels"],
)
def test_rows_keep_the_index_of_the_frame(model, new, index):
    frame = bx.to_pandas(bx.predictions(model, THETA, new.set_axis(index), **OPTIONS))
    several = index.nlevels > 1
    expected = ["/".join(map(str, label)) for label in index] if several else index.tolist()
    assert frame["row"].tolist() == expected
    assert list(frame)[:5] == ["row", "f_mean", "f_sd", "f_lower", "f_upper"]
    assert len(frame) == 4


def test_rows_keep_the_coordinate_of_an_array_and_go_to_polars(model, new):
    given = xr.DataArray(new.values, {"place": list("wxyz"), "f": list(new)}, ["place", "f"])
    frame = bx.to_pandas(bx.predictions(model, THETA, given, **OPTIONS))
    assert pl.from_pandas(frame)["row"].to_list() == ["w", "x", "y", "z"]
    plain = bx.to_pandas(bx.predictions(model, THETA, pl.from_pandas(new), **OPTIONS))
    assert plain["row"].tolist() == [0, 1, 2, 3]


def test_baselines_and_pairs_of_features_have_columns_of_their_own(model, new):
    starts = {"low": new.loc["p"], "high": new.loc["q"]}
    apart = bx.attributions(model, THETA, new, baseline=starts, **OPTIONS)
    frame = bx.to_pandas(apart)
    assert list(frame)[:4] == ["row", "feature", "baseline", "value"]
    assert len(frame) == 16
    at_start = frame[(frame["row"] == "p") & (frame["baseline"] == "low")]
    assert_allclose(at_start["attribution_mean"], 0.0, atol=1e-12)
    second = bx.derivatives(model, THETA, new, order=2, **OPTIONS)
    pairs = bx.to_pandas(second).set_index(["row", "feature", "feature_bis"])
    expected = second["second_derivative_mean"].sel(obs="r", feature="age", feature_bis="dose")
    assert pairs.loc[("r", "age", "dose"), "second_derivative_mean"] == expected.item()


def test_signs_have_their_probabilities_and_draws_alone_their_moments(model, new):
    found = bx.slopes(model, THETA, new, **OPTIONS)
    frame = bx.to_pandas(found)
    expected = found["derivative_probability_positive"].values.ravel()
    assert_allclose(frame["derivative_probability_positive"], expected)
    shares = xr.Dataset({"share": (("chain", "draw", "feature"), [[[1.0], [3.0]]])})
    assert bx.to_pandas(shares).loc[0, ["share_mean", "share_sd"]].tolist() == [2.0, 1.0]


def test_what_no_verb_returned_is_refused(model, new):
    with pytest.raises(ValueError, match=r"no draws and no means.*bx\.attributions"):
        bx.to_pandas(xr.Dataset({"value": ("obs", [1.0])}))
    with pytest.raises(ValueError, match=r"ci_prob is 2"):
        bx.to_pandas(bx.predictions(model, THETA, new, **OPTIONS), ci_prob=2)


def test_every_result_has_a_long_form(model, new):
    """Also of one draw, without moments, and with intervals alone."""
    fit = {"sigma": 0.3, "lengthscale": [1.0, 1.0], "amplitude": 1.0}
    columns = {
        "relevance": (bx.relevance(model, fit, new), ["relevance_mean"]),
        "interactions": (bx.interactions(model, fit, new), ["interaction_mean"]),
        "reasons": (
            bx.reasons(bx.attributions(model, fit, new, seed=1)),
            ["reason", "reason_mean"],
        ),
        "jackknife": (
            bx.jackknife_plus(model, fit, new, ci_prob=0.5, progressbar=False),
            ["jackknife_mean", "jackknife_lower", "jackknife_upper"],
        ),
        "next_rows": (
            bx.next_rows(model, fit, new, question="maximum", progressbar=False),
            ["score", "f_mean", "f_lower"],
        ),
        "loo": (
            bx.loo_predictions(model, fit, seed=1, progressbar=False),
            ["y_mean", "elpd", "pit"],
        ),
    }
    for name, (found, expected) in columns.items():
        frame = bx.to_pandas(found)
        assert {*expected} <= {*frame}, name
        assert not [c for c in frame if c.startswith("log_weights")]
    one = bx.to_pandas(columns["relevance"][0])
    assert "average_relevance_sd" not in one and "average_relevance_mean" in one
    interval = columns["jackknife"][0]["jackknife_interval"].values
    frame = bx.to_pandas(columns["jackknife"][0])
    assert_allclose(frame[["jackknife_lower", "jackknife_upper"]], interval)
    assert frame["row"].tolist() == [*"pqrs"]


def test_draws_of_unequal_weight_are_counted_by_it():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, 1))
    y = np.where(np.arange(20) == 4, 3.0, np.sin(X[:, 0]) + 0.3 * rng.normal(size=20))
    model = bx.GP(X, y, scale=False)
    thetas = [
        {"lengthscale": [ls], "amplitude": 1.0, "sigma": s}
        for ls, s in zip(rng.uniform(0.3, 3.0, 300), rng.uniform(0.2, 1.5, 300), strict=True)
    ]
    idata = known(model, thetas)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of Pareto k
        found = bx.loo_predictions(model, idata, seed=1, progressbar=False)
    frame, attached = bx.to_pandas(found, ci_prob=0.8), bx.attach(idata, loo=found)["loo"]["y"]
    plain = found["y"].isel(obs=4).mean().item()
    assert abs(attached.isel(obs=4).mean() - plain) > 0.2 * float(found["y"].isel(obs=4).std())
    for row in (0, 4):
        one = found.isel(obs=row, chain=0)
        weights = np.exp(one["log_weights"].values)
        ends = np.quantile(one["y"].values, [0.1, 0.9], weights=weights, method="inverted_cdf")
        near = float(one["y"].std()) / 10
        assert_allclose(frame.loc[row, ["y_lower", "y_upper"]].astype(float), ends, atol=near)
        mean = weights @ one["y"].values
        assert_allclose(attached.isel(obs=row).mean(), mean, atol=near)
    assert "log_weights" not in attached.coords
    with pytest.raises(ValueError, match="draws of unequal weight"):
        bx.power_scaling(model, idata, found)


def test_bounds_of_summaries_are_possible():
    X = np.linspace(-1.0, 1.0, 12)[:, None]
    theta = {"lengthscale": [0.3], "amplitude": 3.0}
    quick = {"keep": "summary", "seed": 1, "progressbar": False}
    for y, likelihood, name in (
        (X[:, 0] > 0, "bernoulli", "probability"),
        (9 * [0] + [0, 4, 9], "poisson", "rate"),
    ):
        model = bx.GP(X, np.asarray(y), likelihood=likelihood)
        found = bx.predictions(model, theta, **quick)
        frame = bx.to_pandas(found, ci_prob=0.95)  # of which it has no quantiles
        ends = found[f"{name}_mean"].values - norm.ppf(0.975) * found[f"{name}_sd"].values
        assert ends.min() < 0.0
        assert_allclose(frame[f"{name}_lower"], np.maximum(ends, 0.0), rtol=1e-6)
        assert (frame[f"{name}_upper"] <= (1.0 if name == "probability" else np.inf)).all()


def test_codes_of_labels_have_no_moments():
    X = np.linspace(-1.0, 1.0, 12)[:, None]
    model = bx.GP(X, np.where(X[:, 0] > 0, "b", "a"), likelihood="bernoulli")
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    frame = bx.to_pandas(bx.predictions(model, theta, seed=1, progressbar=False))
    assert "probability_mean" in frame and "y_mean" not in frame


@pytest.mark.parametrize("likelihood", ["gamma", "poisson", "ordinal"])
def test_a_new_response_has_the_mean_of_the_mean_response(likelihood, rng):
    """Also where a few draws of y have another mean."""
    X, y = rng.normal(size=(12, 1)), np.arange(12) % 3 + 1.0
    model = bx.GP(X, y, likelihood=likelihood)
    fit = model.fit("map", progressbar=False)
    found = bx.predictions(model, fit, draws=20, seed=1, progressbar=False)
    mean = found["response_mean"].values
    assert np.abs(found["y"].mean(["chain", "draw"]).values - mean).max() > 0.1
    assert_allclose(bx.to_pandas(found)["y_mean"], mean)
    assert_allclose(bx.from_json(bx.to_json(found))["y_mean"], mean)
