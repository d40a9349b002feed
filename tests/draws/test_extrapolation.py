"""Rows that leave the training data: which, in what columns, and how far."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayes_gpx as bx
from bayes_gpx.draws.points import points, rows_outside


@pytest.fixture(scope="module")
def model():
    X = pd.DataFrame({"age": np.linspace(20.0, 70.0, 11), "dose": np.linspace(0.0, 1.0, 11) ** 2})
    return bx.GP(X, np.sin(X["age"] / 10))


def told(model, new):
    return rows_outside(model, points(model, new))


@pytest.mark.parametrize(
    ("age", "dose", "leaves"),
    [
        (20.0, 1.0, False),
        (5.1, 0.5, False),  # the range is 50, and 0.3 of it 15
        (4.9, 0.5, True),
        (85.0, 0.5, False),  # no more than that
        (85.1, 0.5, True),
        (50.0, -0.31, True),
        (50.0, 1.29, False),
    ],
)
def test_a_row_leaves_by_more_than_a_share_of_the_range(model, age, dose, leaves):
    new = pd.DataFrame({"age": [40.0, age], "dose": [0.5, dose]})
    assert (told(model, new) is not None) == leaves


def test_what_is_told(model):
    new = pd.DataFrame({"age": [1.0, 90.0, 50.0, 88.0], "dose": [0.5, 0.5, 0.5, 3.0]})
    message = told(model, new)
    assert message.startswith("3 of 4 rows leave the training data: ")
    assert "age in 3, as far as 90 (trained on 20 to 70)" in message
    assert "dose in 1, as far as 3 (trained on 0 to 1)" in message


def test_a_kernel_that_continues_trends_is_named(model):
    """The advice holds: by the same rows a line is continued with it, and not without it."""
    t = np.arange(20.0)[:, None]
    far, last = np.array([[40.0]]), {}
    for kernel in ("expquad", "linear + expquad"):
        line = bx.GP(t, 3.0 * t[:, 0], kernel=kernel)
        said = told(line, far)
        assert said.endswith("kernel='linear + expquad' continues trends.") == (kernel == "expquad")
        theta = {name: 1.0 for name in line.hyperparameters if "amplitude" in name}
        theta |= {name: [1.0] for name in line.hyperparameters if "lengthscale" in name}
        options = {"keep": "summary", "progressbar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bx.ExtrapolationWarning)
            last[kernel] = bx.predictions(line, theta | {"sigma": 0.01}, far, **options)["f_mean"]
    assert abs(last["linear + expquad"] - 120.0) < 10.0
    assert abs(last["expquad"] - 28.5) < 3.0  # the mean of the response


@pytest.mark.parametrize(("outside", "rows", "said"), [(3, 5, True), (4, 8, False), (4, 4, False)])
def test_most_rows_beyond_the_same_end_are_a_forecast(model, outside, rows, said):
    """By a hundredth of the range, as the next steps of a series; the last of ten, say, is none."""
    age = np.where(np.arange(rows) < outside, 70.5, 45.0)
    new = pd.DataFrame({"age": age, "dose": 0.5})
    assert (told(model, new) is not None) == said


@pytest.mark.parametrize(("far", "said"), [(75.5, True), (74.5, False)])
def test_a_tenth_of_the_rows_by_a_tenth_of_the_range_is_too_much(model, far, said):
    """As after a change of a uniform column by its sd."""
    age = np.where(np.arange(20) < 4, far, 45.0)
    assert (told(model, pd.DataFrame({"age": age, "dose": 0.5})) is not None) == said
    for rows in (20, 6):
        fewer = pd.DataFrame({"age": np.where(np.arange(rows) < 3, far, 45.0), "dose": 0.5})
        assert told(model, fewer) is None


def test_all_rows_of_a_forecast_are_counted(model):
    """Also those that are near: the margin decides whether anything is told, not what."""
    new = pd.DataFrame({"age": 70.0 + np.arange(1, 91) / 4, "dose": np.linspace(1.1, 0.2, 90)})
    message = told(model, new)
    assert message.startswith("90 of 90 rows leave the training data: age in 90, as far as 92.5 ")
    assert f"; dose in {(new['dose'] > 1).sum()}, as far as 1.1 (trained on 0 to 1). The" in message


def test_dates_and_integers_are_told_in_full():
    X = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=8), "t": 1_700_000_000})
    X["t"] += [0, 3, 1, 2, 7, 5, 4, 6]
    model = bx.GP(X, np.arange(8.0) ** 2)
    new = pd.DataFrame({"day": [pd.Timestamp("2020-02-01")], "t": [1_700_000_090]})
    message = told(model, new)
    assert "day in 1, as far as 2020-02-01 (trained on 2020-01-01 to 2020-01-08)" in message
    assert "t in 1, as far as 1700000090 (trained on 1700000000 to 1700000007)" in message


def test_not_more_columns_are_named_than_a_person_reads(rng):
    many = bx.GP(rng.uniform(size=(12, 9)), np.arange(12.0))
    said = told(many, np.full((1, 9), 5.0))
    assert "x5 in 1" in said and "x6" not in said and "; and 3 more columns. The" in said


def test_training_rows_and_categories_leave_nothing():
    X = pd.DataFrame({"a": np.arange(8.0), "kind": pd.Categorical(list("xyxyxyxy"), list("xyz"))})
    model = bx.GP(X, np.sin(X["a"]))
    unseen = X[:1].assign(kind=pd.Categorical(["z"], list("xyz")))
    assert told(model, unseen) is None and told(model, None) is None
    assert "a in 1" in told(model, unseen.assign(a=9.2))


def test_a_constant_column_is_left_by_any_other_value():
    model = bx.GP(np.column_stack([np.arange(5.0), np.ones(5)]), np.arange(5.0), scale=False)
    assert told(model, np.array([[2.0, 1.0]])) is None
    assert "x1 in 1, as far as 1.5 (trained on 1 to 1)" in told(model, np.array([[2.0, 1.5]]))


@pytest.fixture
def weighed():
    rng = np.random.default_rng(1)
    X, Z = rng.uniform(size=(12, 1)), pd.DataFrame({"size": rng.uniform(5.0, 6.0, 12)})
    return bx.GPX(X, rng.normal(size=12), Z, intercept=True)


def test_features_that_are_weighed_are_looked_at_too(weighed):
    new = np.full((3, 1), 0.5)
    inside, outside = pd.DataFrame({"size": [5.5] * 3}), pd.DataFrame({"size": [5.5, 5.5, 8.0]})
    assert rows_outside(weighed, points(weighed, new, inside)) is None
    said = rows_outside(weighed, points(weighed, new, outside))
    assert said.startswith("1 of 3 rows") and "size in 1, as far as 8 (trained on 5" in said
    assert rows_outside(weighed, points(weighed, new, needs_z=False)) is None


QUIET = {"draws": 5, "progressbar": False}
VERBS = ["predictions", "derivatives", "slopes", "attributions", "weights", "contributions"]


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_warn_once_at_the_line_that_called_them(weighed, verb):
    theta = {"lengthscale": [0.4], "amplitude": 1.0, "sigma": 0.3, "sigma_w": 0.1}
    far, Z = np.array([[0.5], [9.0]]), pd.DataFrame({"size": [5.5, 5.2]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(bx, verb)(weighed, theta, far, Z, **QUIET)
    assert [w.category for w in caught] == [bx.ExtrapolationWarning]
    assert caught[0].filename == __file__
    assert str(caught[0].message).startswith("1 of 2 rows leave the training data: x0 in 1, as far")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(bx, verb)(weighed, theta, far[:1], Z[:1], **QUIET)
        getattr(bx, verb)(weighed, theta, **QUIET)


def test_a_baseline_may_lie_outside_of_the_data(model):
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bx.attributions(model, theta, model.training.X.values[:2], baseline="zero", **QUIET)


def test_rows_held_out_at_random_seldom_leave_the_data():
    """In 20 splits of the diabetes data into four fifths and one fifth."""
    X = bx.datasets.load("diabetes").X.to_numpy(float)
    model, left = bx.GP(X[:5], np.arange(5.0), scale=False), 0
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(X))
        held_out, kept = order[:88], order[88:]
        frame = replace(model.training.X, values=X[kept])
        split = SimpleNamespace(training=replace(model.training, X=frame))
        where = replace(points(model, X[:1]), inputs={"X": X[held_out]}, X_values=X[held_out])
        left += rows_outside(split, where) is not None
    assert left == 0
