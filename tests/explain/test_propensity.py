"""Propensities are predicted across folds, and returned as a column of the user's table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

OPTIONS = {"seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"], index=range(7, 67))
    truth = 1 / (1 + np.exp(-2 * X["a"]))
    return X, (rng.uniform(size=60) < truth).astype(int).rename("drug"), truth


def test_a_propensity_comes_from_the_other_folds(data):
    """Each fold's rows get the predictions of a GP of all other rows; folds are stratified."""
    X, drug, truth = data
    found = bx.with_propensity(X, drug, folds=2, **OPTIONS)
    assert found.columns.tolist() == ["a", "b", "propensity"]
    pd.testing.assert_frame_equal(found[["a", "b"]], X)
    assert np.corrcoef(found["propensity"], truth)[0, 1] > 0.8
    shuffled = np.random.default_rng(1).permutation(60)
    order = np.concatenate([shuffled[drug.values[shuffled] == value] for value in (0, 1)])
    fold = np.empty(60, int)
    fold[order] = np.arange(60) % 2
    Z = (X - X.mean()) / X.std(ddof=0)
    for k in range(2):
        model = bx.GP(Z[fold != k], drug[fold != k], likelihood="bernoulli", scale=False)
        fit = model.fit("map", seed=1, progressbar=False)
        told = bx.predictions(model, fit, Z[fold == k], keep="summary", progressbar=False)
        assert_allclose(found["propensity"][fold == k], told["probability_mean"], rtol=1e-5)
        counts = np.bincount(drug[fold == k], minlength=2)
        assert (abs(counts - np.bincount(drug) / 2) <= 1).all()


def test_every_kind_of_table_gets_the_same_column(data):
    """Frames, arrays, words, and the treatment by the name of its column."""
    X, drug, _ = data
    found = bx.with_propensity(X, drug, folds=2, **OPTIONS)["propensity"].to_numpy()
    array = bx.with_propensity(
        X.to_numpy(), drug.map({0: "no", 1: "yes"}).array, folds=2, **OPTIONS
    )
    assert_allclose(array, np.column_stack([X, found]), rtol=1e-12)
    named = bx.with_propensity(pl.from_pandas(X.join(drug)), "drug", folds=2, **OPTIONS)
    assert named.columns == ["a", "b", "drug", "propensity"]
    assert_allclose(named["propensity"].to_numpy(), found, rtol=1e-12)


def test_columns_that_are_constant_in_a_fold(data):
    X, drug, _ = data
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), "D")
    site = pd.Categorical(["north"] * 59 + ["south"], categories=["north", "south", "west"])
    table = X.assign(rare=np.arange(60) == 5, site=site, day=days)
    found = bx.with_propensity(table, drug, folds=2, **OPTIONS)["propensity"]
    assert found.between(0.0, 1.0, inclusive="neither").all()


def test_rows_without_a_treatment_get_the_mean_of_all_folds(data):
    """New rows do not change the others, and a copy of a row lies among its folds' predictions."""
    X, drug, _ = data
    rows = pd.concat([X, X.iloc[:1]], ignore_index=True)
    known = drug.astype(float).tolist()
    found = bx.with_propensity(rows, [*known, np.nan], folds=2, **OPTIONS)["propensity"]
    alone = bx.with_propensity(X, drug, folds=2, **OPTIONS)["propensity"]
    assert_allclose(found[:-1], alone, rtol=1e-9)
    assert 0.0 < found.iloc[-1] < 1.0 and found.iloc[-1] != found.iloc[0]


@pytest.mark.slow
def test_more_rows_than_an_exact_model_takes_have_inducing_points():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1300, 2))
    truth = 1 / (1 + np.exp(-X[:, 0]))
    found = bx.with_propensity(X, rng.uniform(size=1300) < truth, folds=2, **OPTIONS)[:, -1]
    assert np.corrcoef(found, truth)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"treatment": np.arange(60)}, "Pass a treatment with two values"),
        ({"treatment": np.arange(60) < 3}, "at least as many rows as there are folds, 5"),
        ({"treatment": "c"}, "'c'"),
        ({"X": "propensity"}, "has a column 'propensity' already"),
        ({"folds": 1}, "folds"),
    ],
)
def test_what_is_refused(data, change, message):
    X, drug, _ = data
    if "X" in change:
        change = {"X": X.rename(columns={"a": "propensity"})}
    with pytest.raises(ValueError, match=message):
        bx.with_propensity(**({"X": X, "treatment": drug} | change), **OPTIONS)


def test_the_probability_is_that_of_the_second_level(data):
    """As in effects of the treatment, whatever the order of the alphabet."""
    X, drug, _ = data
    found = bx.with_propensity(X, drug, folds=2, **OPTIONS)["propensity"]
    words = drug.map({0: "untreated", 1: "treated"})
    levels = pd.CategoricalDtype(["untreated", "never", "treated"])
    named = bx.with_propensity(X, words.astype(levels), folds=2, **OPTIONS)["propensity"]
    assert_allclose(named, found)
    enum = pl.DataFrame(X.reset_index(drop=True)).with_columns(
        drug=pl.Series(words.tolist(), dtype=pl.Enum(["untreated", "treated"]))
    )
    assert_allclose(bx.with_propensity(enum, "drug", folds=2, **OPTIONS)["propensity"], found)


@pytest.mark.parametrize(
    ("X", "treatment", "said"),
    [
        (np.zeros((4, 1)), np.array([1, "a", 1, "a"], object), "several types, int and str"),
        (np.zeros((4, 1)), "drug", "X has no column names"),
    ],
)
def test_what_is_no_treatment_is_refused(X, treatment, said):
    with pytest.raises(ValueError, match=said):
        bx.with_propensity(X, treatment, **OPTIONS)
