"""What a response may be: reals, counts, labels; every refusal says what to do."""

import dask.dataframe as dask
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from bayes_gpx.data.response import read_labels
from bayes_gpx.likelihoods import KNOWN, named


@pytest.mark.parametrize(
    ("y", "labels", "codes"),
    [
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
        ([7, -3, 7], [-3, 7], [1, 0, 1]),
        ([1.0, 0.0, 1.0], [0, 1], [1, 0, 1]),
        (np.array(["no", "yes", "no"], dtype=object), ["no", "yes"], [0, 1, 0]),
        (pd.Series(["no", "yes", "no"], dtype="category"), ["no", "yes"], [0, 1, 0]),
        (pd.Series([True, False, True], dtype="boolean"), [False, True], [1, 0, 1]),
        (pd.Series([3, 2, 3], dtype="Int64"), [2, 3], [1, 0, 1]),
        (pl.Series(["no", "yes", "no"]), ["no", "yes"], [0, 1, 0]),
        (np.ma.masked_array([4, 5, 4], mask=False), [4, 5], [0, 1, 0]),
    ],
)
def test_labels_are_coded_in_sorted_order(y, labels, codes):
    for name in ("bernoulli", "categorical"):
        found, kept = named(name).read(y)
        assert found.dtype == "float64"
        assert_array_equal(found, codes)
        assert kept.tolist() == labels
        assert [type(label) for label in kept.tolist()] == [type(label) for label in labels]


def test_new_labels_are_coded_as_the_training_labels():
    _, labels = named("categorical").read(["c", "a", "b"])
    found, kept = named("categorical").read(["b", "b"], labels)
    assert_array_equal(found, [1, 1])
    assert_array_equal(kept, labels)
    with pytest.raises(ValueError, match=r"\['d'\], but the training data only have.*'c'.*Drop"):
        named("categorical").read(["b", "d"], labels)
    with pytest.raises(ValueError, match="but the training data only have"):
        named("categorical").read([0, 1], labels)


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("bernoulli", ["a", "a"], "one class only, 'a'.*constant labels"),
        ("categorical", [1, 1, 1], "one class only, 1"),
        ("bernoulli", [0, 1, 2], "3 different labels.*0, 1, 2.*'categorical'"),
        ("bernoulli", list("abcdefgh"), "8 different labels.*'f', ....*'categorical'"),
        ("bernoulli", [0.0, np.nan, 1.0], "1 missing values, the first at position 1. Drop"),
        ("categorical", ["a", None, "b"], "1 missing values, the first at position 1"),
        ("categorical", pd.Series([1, pd.NA], dtype="Int64"), "missing values.*position 1"),
        ("categorical", np.ma.masked_array([1, 2], mask=[True, False]), "missing.*position 0"),
        ("bernoulli", [0.0, 0.5], "holds 0.5, but class labels must.*likelihood='normal'"),
        ("bernoulli", [0.0, np.inf], "holds inf, but class labels must be"),
        ("categorical", np.array(["a", 1], dtype=object), "mixes numbers and strings.*astype"),
        ("categorical", np.array([True, 1], dtype=object), "mixes booleans and numbers"),
        ("categorical", pd.to_datetime(["2020-01-01", "2021-01-01"]), "type .*astype"),
        ("categorical", [[0, 1], [1, 0]], r"shape \(2, 2\), but must have one dimension"),
        ("poisson", [1, -2], "negative at position 1: -2.0, but counts must.*'normal'"),
        ("negative_binomial", [1, 2.5], "fractional at position 1: 2.5.*exposure"),
        ("poisson", [1, np.nan], "1 missing values, the first at position 1"),
        ("poisson", [1, np.inf], "1 infinite values, the first at position 1"),
        ("poisson", ["1", "2"], r"holds text, such as '1', instead of numbers.*astype\(float\)"),
        ("student_t", ["a", "b"], "instead of numbers.*'bernoulli'"),
        ("normal", [0.0, None], "1 missing values, the first at position 1"),
    ],
)
def test_refusals(name, y, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        named(name).read(y)


def test_numbers_are_kept():
    for name in ("normal", "student_t"):
        values, labels = named(name).read(pd.Series([0.5, -2, 3]))
        assert_array_equal(values, [0.5, -2, 3])
        assert labels is None
    values, labels = named("poisson").read([0, 3, 2])
    assert values.dtype == "float64"
    assert_array_equal(values, [0, 3, 2])
    assert labels is None


def test_prior_center_of_counts_is_the_log_of_their_rate():
    y = np.array([0.0, 2.0, 7.0])
    assert_allclose(named("poisson").center(y), np.log(3.0))
    exposure = np.array([1.0, 2.0, 3.0])
    assert_allclose(named("negative_binomial").center(y, exposure), np.log(1.5))
    for name in ("normal", "student_t", "bernoulli", "categorical"):
        assert named(name).center(y) == 0
    with pytest.raises(ValueError, match="0 everywhere.*scale=False"):
        named("poisson").center(np.zeros(3))


def test_likelihoods_by_name_and_link():
    assert named("bernoulli") is KNOWN["bernoulli"]["logit"]
    assert named("bernoulli", "probit") is KNOWN["bernoulli"]["probit"]
    scaled = [name for name in KNOWN if named(name).scaled]
    assert scaled == ["normal", "student_t", "asymmetric_laplace"]
    with pytest.raises(ValueError, match="likelihood: unknown 'gumbel'.*'poisson'"):
        named("gumbel")
    with pytest.raises(ValueError, match="link is 'probit'.*'poisson' expects.*'log'"):
        named("poisson", "probit")


def test_levels_of_ordered_labels_may_be_floats():
    y = pd.Series([0.0, 1.0, 1.0]).astype(pd.CategoricalDtype([1.0, 0.0], ordered=True))
    codes, labels = read_labels(y, two=True)
    assert labels.tolist() == [1, 0] and codes.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("order", [("no", "yes"), ("yes", "no")])
def test_an_ordered_categorical_says_which_class_comes_second(order, tmp_path):
    words = np.array(["yes", "no", "no", "yes", "no"])
    frames = [
        pd.Series(words).astype(pd.CategoricalDtype(["never", *order], ordered=True)),
        pl.Series(words, dtype=pl.Enum(order)),
    ]
    for y in frames:
        codes, labels = read_labels(y, two=True)
        assert tuple(labels) == order
        assert codes.tolist() == [float(word == order[1]) for word in words]
        again, _ = read_labels(words[::-1], labels)
        assert again.tolist() == codes[::-1].tolist()
    model = bx.GP(np.arange(5.0)[:, None], frames[0], likelihood="bernoulli")
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    found = bx.comparisons(model, theta, keep="summary", seed=1, progressbar=False)
    assert found.attrs["units"] == f"probability that y = {order[1]}"
    fit = model.fit("map", progressbar=False)
    bx.save(model, fit, tmp_path / "fit.nc")
    opened, _ = bx.load(tmp_path / "fit.nc")
    assert tuple(opened.training.labels) == order
    np.testing.assert_array_equal(opened.training.y, model.training.y)
    parts = dask.from_pandas(pd.DataFrame({"x": np.arange(5.0), "y": frames[0]}), npartitions=2)
    streamed = bx.GP(parts, "y", likelihood="bernoulli", approximation=bx.HSGP(3, 1.5))
    assert tuple(streamed.training.labels) == order
    # Without an order the labels are sorted.
    assert tuple(read_labels(pd.Categorical(words, order))[1]) == ("no", "yes")
