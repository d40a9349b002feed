"""A report begins with errors next to a linear model and the mean, and the strongest effects."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.reporting.page import number
from bayes_gpx.reporting.results import Findings
from bayes_gpx.reporting.sections import summary

RNG = np.random.default_rng(5)
N = 24
X = pd.DataFrame({"dose": RNG.normal(5, 2, N), "age": RNG.normal(50, 9, N)})
X["sort"] = pd.Categorical(RNG.choice(["a", "b"], N))
Y = pd.Series(3 * X["dose"] + 20 * (X["sort"] == "b") + RNG.normal(size=N), name="yield")
THETA = {"lengthscale": [9.0] * 4, "amplitude": 3.0, "sigma": 0.2}


def findings_of(model, idata, X_new=None, y_new=None, **more):
    options = {"y_new": y_new, "obs": None, "baseline": "mean", "seed": 1, **more}
    return Findings(model, idata, X_new, None, **options)


@pytest.fixture(scope="module")
def findings():
    known = X.copy()
    known.attrs["units"] = {"dose": "mg"}
    return findings_of(bx.GP(known, Y), THETA)


def design(frame):
    columns = [np.ones(len(frame)), frame["dose"], frame["age"], frame["sort"] == "b"]
    return np.column_stack(columns).astype(float)


def test_left_out_rivals_are_those_of_refits(findings):
    mean, linear = summary._rivals(findings)
    for i in (0, 7, N - 1):
        others = np.arange(N) != i
        slopes, *_ = np.linalg.lstsq(design(X)[others], Y[others], rcond=None)
        assert_allclose(linear[i], design(X)[i] @ slopes)
        assert_allclose(mean[i], Y[others].mean())


@pytest.mark.parametrize(("likelihood", "name"), [("poisson", "exposure"), ("binomial", "trials")])
def test_rivals_know_exposures_and_trials(likelihood, name):
    """They are of the rate, by least squares in which a row counts as often as its exposure."""
    known = np.arange(3, N + 3)
    counts = np.random.default_rng(3).binomial(known, 0.4)
    model = bx.GP(X, counts, likelihood=likelihood, **{name: known})
    told = findings_of(model, {"lengthscale": [9.0] * 4, "amplitude": 1.0})
    mean, linear = summary._rivals(told)
    for i in (0, 7, N - 1):
        rows = np.repeat(np.delete(np.arange(N), i), np.delete(known, i))
        rates = (counts / known)[rows]
        slopes, *_ = np.linalg.lstsq(design(X)[rows], rates, rcond=None)
        assert_allclose(linear[i], known[i] * (design(X)[i] @ slopes))
        assert_allclose(mean[i], known[i] * rates.mean())
    (said,) = summary._error(told)
    assert "the mean rate of the other observations has" in said.text


def test_a_linear_rival_has_a_level_for_each_group():
    """New groups have the average level."""
    codes = np.minimum(np.arange(N) % 5, 2)
    levels = codes[:, None] == np.arange(3)
    whole = np.column_stack([design(X), levels])
    model, theta = bx.GP(X, Y, groups=codes), THETA | {"group_amplitude": 1.0}
    told = findings_of(model, theta)
    _, linear = summary._rivals(told)
    for i in (0, 7, N - 1):
        others = np.arange(N) != i
        slopes, *_ = np.linalg.lstsq(whole[others], Y[others], rcond=None)
        assert_allclose(linear[i], whole[i] @ slopes)
    (said,) = summary._error(told)
    assert "A linear regression with a level for each group has" in said.text
    new = [np.eye(3)[1], levels.mean(axis=0)]
    slopes, *_ = np.linalg.lstsq(whole, Y, rcond=None)
    _, linear = summary._rivals(findings_of(model, theta, X[:2], Y[:2], groups_new=[1, 7]))
    assert_allclose(linear, np.column_stack([design(X[:2]), new]) @ slopes)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_linear_rival_does_not_depend_on_units(held_out):
    """A column of large numbers, such as populations, hides no other column."""
    new = (X.iloc[:9].assign(dose=lambda frame: frame["dose"] + 1), Y[:9]) if held_out else ()
    large = [frame.assign(age=1e9 * frame["age"]) for frame in (X, *new[:1])]
    _, expected = summary._rivals(findings_of(bx.GP(X, Y), THETA, *new))
    _, linear = summary._rivals(findings_of(bx.GP(large[0], Y), THETA, *large[1:], *new[1:]))
    assert_allclose(linear, expected)


def test_held_out_rivals_learn_from_the_training_rows():
    new = X.iloc[:9].assign(dose=lambda frame: frame["dose"] + 1)
    mean, linear = summary._rivals(findings_of(bx.GP(X, Y), THETA, new, Y[:9]))
    slopes, *_ = np.linalg.lstsq(design(X), Y, rcond=None)
    assert_allclose(linear, design(new) @ slopes)
    assert_allclose(mean, Y.mean())


def test_a_row_that_decides_a_linear_model_alone_leaves_it_out():
    few = X.assign(age=[1.0, *[0.0] * (N - 1)])
    findings = findings_of(bx.GP(few, Y), THETA)
    mean, linear = summary._rivals(findings)
    assert linear is None and np.isfinite(mean).all()
    (said,) = summary._error(findings)
    assert "linear" not in said.text and "The mean of the other observations has" in said.text


def test_the_error_is_that_of_leave_one_out(findings):
    (said,) = summary._error(findings)
    found = bx.loo_predictions(findings.model, THETA, seed=1, progressbar=False)
    error = np.sqrt(np.mean((found["y_mean"].values - Y) ** 2))
    assert f"mean squared error of {number(error)} " in said.text
    assert float(re.search(r"R² ([\d.]+)", said.text)[1]) > 0.9


def test_the_strongest_effects_come_first_with_their_intervals(findings):
    (points,) = summary._effects(findings)
    first, second, third = points.sentences
    assert first.startswith("sort a → b: +") and third.startswith("age higher by")
    spread = X["dose"].std(ddof=0)
    assert len([name for name in points.sentences if name.startswith("sort")]) == 1
    assert second.startswith(f"dose higher by {number(spread, 2)} mg (one sd): +")
    known = {"by": True, "keep": "summary", "seed": 1, "progressbar": False}
    found = bx.comparisons(findings.model, THETA, variables="dose", **known)
    low, high = map(float, re.search(r"\[(.*), (.*)\]", second).groups())
    expected = found["comparison_interval"].values.ravel()
    assert_allclose([low, high], expected, rtol=0.01)
    mean = float(second.split(": +")[1].split()[0])
    assert mean == pytest.approx(found["comparison_mean"].item(), rel=0.01)


def test_effects_on_counts_are_on_their_rate():
    """In a curved function the change by an sd is not the slope times the sd."""
    exposure = np.linspace(1.0, 9.0, N)
    counts = np.random.default_rng(1).poisson(exposure * np.exp(X["dose"] / 2))
    model = bx.GP(X[["dose"]], counts, likelihood="poisson", exposure=exposure)
    told = findings_of(model, {"lengthscale": [2.0], "amplitude": 1.0})
    (points,) = summary._effects(told)
    assert points.heading.startswith("Strongest effects on the rate of y, on average over")
    found = bx.comparisons(model, told.idata, by=True, keep="summary", seed=1, progressbar=False)[
        "comparison_mean"
    ].item()
    assert f": +{number(found)} [" in points.sentences[0]
    slope = told.sloped["average_slope_mean"].item() * X["dose"].std(ddof=0)
    assert abs(slope / found - 1.0) > 0.1


def test_labels_are_compared_with_the_most_frequent():
    labels = np.where(Y > Y.median() - 3, "high", "low")
    findings = findings_of(
        bx.GP(X, labels, likelihood="bernoulli"), {"lengthscale": [9.0] * 4, "amplitude": 2.0}
    )
    (said,) = summary._error(findings)
    most = pd.Series(labels).value_counts(normalize=True).max()
    assert said.text.endswith(f"is right in {most:.0%}.")


def test_columns_of_two_values_change_from_one_to_the_other():
    frame = X.assign(smoker=X["sort"] == "b", day=pd.date_range("2024-03-01", periods=N))
    model = bx.GP(frame.drop(columns="sort"), Y)
    told = findings_of(model, THETA)
    (points,) = summary._effects(told)
    text = " ".join(points.sentences)
    assert "smoker 0 → 1: +" in text and "smoker higher" not in text
    changed = bx.comparisons(
        model, THETA, variables="smoker", by=True, keep="summary", seed=1, progressbar=False
    )
    assert f"{number(changed['comparison_mean'].item())} [" in text
    (day,) = (name for name, *_ in summary._changes(told) if name.startswith("day"))
    assert day == "day higher by 6.9 days (one sd)"
