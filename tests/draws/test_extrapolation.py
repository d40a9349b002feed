"""Rows that leave the training data: which, in what columns, and how far."""

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
    return rows_outside(model, points(model, new).X_values)


@pytest.mark.parametrize(
    ("age", "dose", "leaves"),
    [
        (20.0, 1.0, False),
        (15.1, 0.5, False),  # the range is 50: a tenth is 5
        (14.9, 0.5, True),
        (74.9, 0.5, False),
        (75.1, 0.5, True),
        (50.0, -0.11, True),
        (50.0, 1.09, False),
    ],
)
def test_a_row_leaves_by_more_than_a_tenth_of_the_range(model, age, dose, leaves):
    new = pd.DataFrame({"age": [40.0, age], "dose": [0.5, dose]})
    assert (told(model, new) is not None) == leaves


def test_what_is_told(model):
    new = pd.DataFrame({"age": [10.0, 90.0, 50.0, 80.0], "dose": [0.5, 0.5, 0.5, 3.0]})
    message = told(model, new)
    assert message.startswith("3 of 4 rows leave the training data: ")
    assert "age in 3, as far as 90 (trained on 20 to 70)" in message
    assert "dose in 1, as far as 3 (trained on 0 to 1)" in message


def test_training_rows_and_categories_leave_nothing():
    X = pd.DataFrame({"a": np.arange(8.0), "kind": pd.Categorical(list("xyxyxyxy"), list("xyz"))})
    model = bx.GP(X, np.sin(X["a"]))
    unseen = X[:1].assign(kind=pd.Categorical(["z"], list("xyz")))
    assert told(model, unseen) is None and told(model, None) is None
    assert "a in 1" in told(model, unseen.assign(a=9.0))


def test_a_constant_column_is_left_by_any_other_value():
    model = bx.GP(np.column_stack([np.arange(5.0), np.ones(5)]), np.arange(5.0), scale=False)
    assert told(model, np.array([[2.0, 1.0]])) is None
    assert "x1 in 1, as far as 1.5 (trained on 1 to 1)" in told(model, np.array([[2.0, 1.5]]))
