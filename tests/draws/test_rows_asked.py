"""Which rows a call is about: masks, and columns given beside the rows, by label."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx

THETA = {"lengthscale": np.ones(2), "amplitude": 1.0, "sigma": 0.3}
QUIET = {"keep": "summary", "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"], index=[*"abcdefghijkl"])
    return X, pd.Series(rng.normal(size=12), X.index), bx.GP(X, rng.normal(size=12))


def test_a_mask_means_these_rows_though_labels_repeat(rows):
    X, y, _ = rows
    twice = X.set_axis([*"aabbccddeeff"])
    model, mask = bx.GP(twice, y.to_numpy()), np.tile([True, False], 6)
    found = bx.predictions(model, THETA, obs=mask, **QUIET)
    whole = bx.predictions(model, THETA, **QUIET)
    assert_array_equal(found["obs"], [*"abcdef"])
    assert_allclose(found["f_mean"], whole["f_mean"][mask], rtol=1e-12)
    # A label means all of its rows.
    assert bx.predictions(model, THETA, obs=["a"], **QUIET).sizes["obs"] == 2
    with pytest.raises(ValueError, match="none given"):
        bx.predictions(model, THETA, obs=np.zeros(12, bool), **QUIET)


@pytest.mark.parametrize("likelihood, name", [("normal", "by"), ("poisson", "exposure")])
def test_columns_with_labels_in_another_order_are_refused(rows, likelihood, name):
    X, y, _ = rows
    theta = {k: v for k, v in THETA.items() if likelihood == "normal" or k != "sigma"}
    counts = {"exposure": np.arange(1.0, 13.0)} if name == "exposure" else {}
    model = bx.GP(X, y.round().abs(), likelihood=likelihood, **counts)
    given = pd.Series([1.0, 2.0, 3.0] * 2, X.index[:6])
    same = bx.predictions(model, theta, X[:6], seed=1, **{name: given}, **QUIET)
    plain = bx.predictions(model, theta, X[:6], seed=1, **{name: given.to_numpy()}, **QUIET)
    assert_array_equal(same["f_mean"], plain["f_mean"])
    with pytest.raises(ValueError, match=f"The index of {name} differs from the index of the rows"):
        bx.predictions(model, theta, X[:6][::-1], **{name: given}, **QUIET)


def test_columns_for_all_rows_follow_those_that_are_explained(rows):
    X, _, model = rows
    labels = pd.Series([*"uuuvvv"] * 2, X.index)
    some = bx.predictions(model, THETA, obs=["b", "f"], by=labels, **QUIET)
    alone = bx.predictions(model, THETA, obs=["b", "f"], by=labels[["b", "f"]], **QUIET)
    assert_array_equal(some["f_mean"], alone["f_mean"])
    with pytest.raises(ValueError, match="by has 12 values. Pass one for each of 5 rows"):
        bx.predictions(model, THETA, X[:5], by=labels, **QUIET)
    with pytest.raises(ValueError, match="not of numbers. Pass labels as one column"):
        bx.predictions(model, THETA, by=labels.to_frame(), **QUIET)
    with pytest.raises(ValueError, match="labels of several types"):
        bx.predictions(model, THETA, by=np.array([1, "a"] * 6, dtype=object), **QUIET)


def test_a_mask_belongs_to_its_rows():
    rows = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 12)})
    y = np.sin(rows["a"])
    model, theta = bx.GP(rows, y), {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.3}
    options = {"keep": "summary", "progressbar": False}
    for mask in (y > 0, (y > 0).to_numpy(), (y > 0).astype("boolean")):
        found = bx.predictions(model, theta, obs=mask, **options)
        assert found["obs"].values.tolist() == rows.index[y > 0].tolist()
    with pytest.raises(ValueError, match="The index of obs differs"):
        bx.predictions(model, theta, obs=(y > 0)[::-1], **options)
    gaps = (y > 0).astype("boolean").where(y < 0.5)
    with pytest.raises(ValueError, match="obs is a mask with missing values"):
        bx.predictions(model, theta, obs=gaps, **options)
    one = bx.attributions(model, theta, progressbar=False).isel(obs=3)
    with pytest.raises(ValueError, match=r"dataset.isel\(obs=\[0\]\)"):
        bx.plot_attributions(one)


def test_an_exposure_that_is_none_is_named():
    rows = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 12)})
    model = bx.GP(rows, np.arange(12), likelihood="poisson", exposure=np.full(12, 2.0))
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    with pytest.raises(ValueError, match="exposure is 0 at position 1. Pass positive finite"):
        bx.predictions(model, theta, rows[:2], exposure=[1.0, 0.0], progressbar=False)


def test_known_ends_belong_to_their_rows():
    rows = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 12)})
    times = np.exp(rows["a"]).rename("time")
    model = bx.GP(rows, times, likelihood="weibull")
    theta = {"lengthscale": [1.0], "amplitude": 1.0, "shape": 2.0}
    found = bx.predictions(model, theta, seed=1, progressbar=False)
    known = pd.Series([True, False] * 6)
    assert 0.5 < bx.metrics.concordance(found, times, known) <= 1.0
    with pytest.raises(ValueError, match="The index of known differs"):
        bx.metrics.concordance(found, times, known[::-1])
