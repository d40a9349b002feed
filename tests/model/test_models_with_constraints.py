"""Constraints of a model: how they are read, kept and refused, and how they fare."""

import pickle

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from bayes_gpx.draws.constraints_met import ConstraintConflictWarning, constraints_met
from bayes_gpx.model.constraints import (
    Curvature,
    Decreasing,
    Increasing,
    Interaction,
    Slope,
    Value,
    Weight,
)
from bayes_gpx.numerics.compile_modes import MODE

THETA = {"lengthscale": [1.2, 1.5], "amplitude": 1.0, "sigma": 0.4}
QUIET = {"progressbar": False, "seed": 1}


@pytest.fixture
def table():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 10), "age": rng.uniform(20, 70, 10)})
    y = pd.Series(5 + 0.8 * X["dose"] - 0.05 * X["age"] + rng.normal(0, 1, 10), name="effect")
    return X, y


def statements(model):
    return model.specification.constraints.statements


def test_points_are_spread_along_the_feature(table):
    X, y = table
    model = bx.GP(X, y, constraints=[Increasing("dose", at=3)])
    scaling = model.training.X_scaling
    points = np.array([s.x for s in statements(model)]) * scaling.scale + scaling.center
    low, high = X["dose"].min(), X["dose"].max()
    assert_allclose(points[:, 0], [low, (low + high) / 2, high])
    for dose, age in points:
        nearest = (X["dose"] - dose).abs().idxmin()
        assert_allclose(age, X["age"][nearest])


def test_numbers_are_in_user_units(table):
    X, y = table
    constraints = [
        Slope("dose", mean=0.8, sd=0.1, at=X[:1]),
        Slope("age", low=-1.0, at=X[:1]),
        Curvature("age", low=-0.5, high=0.25, at=X[:1]),
        Interaction("dose", "age", sd=0.3, at=X[:1]),
        Value(X[:1], 4.0, 0.5),
        Decreasing("age", at=X[:1], strength=0.2),
    ]
    model = bx.GP(X, y, constraints=constraints)
    sy, (sd, sa) = y.std(ddof=0), X.std(ddof=0)
    expected = [
        (0.8 * sd / sy, 0.8 * sd / sy, 0.1 * sd / sy),
        (-1.0 * sa / sy, np.inf, 0.01),
        (-0.5 * sa**2 / sy, 0.25 * sa**2 / sy, 0.01),
        (0.0, 0.0, 0.3 * sd * sa / sy),
        ((4.0 - y.mean()) / sy, (4.0 - y.mean()) / sy, 0.5 / sy),
        (-np.inf, 0.0, 0.2),
    ]
    found = [(s.low, s.high, s.sd) for s in statements(model)]
    assert_allclose(found, expected, rtol=1e-12)
    raw = bx.GP(X, y, constraints=constraints, scale=False)
    assert_allclose(statements(raw)[1].sd, 0.01 * sy / sa, rtol=1e-12)
    assert_allclose(statements(raw)[4].low, 4.0)
    said = "Slope dose, Slope age, Curvature age, Interaction dose age, Value, Decreasing age"
    assert f"Constraints               {said}\n" in repr(model)


def test_signs_are_kept_and_intervals_shrink(table):
    X, y = table
    plain, signed = bx.GP(X, y), bx.GP(X, y, constraints=[Increasing("dose", at=X[:4])])
    before = bx.derivatives(plain, THETA, X[:4], **QUIET)
    after = bx.derivatives(signed, THETA, X[:4], **QUIET)
    means = [d["derivative_mean"].sel(feature="dose") for d in (before, after)]
    sds = [d["derivative_sd"].sel(feature="dose") for d in (before, after)]
    assert (means[1] > 0).all()
    assert (sds[1] < sds[0]).all()
    assert not np.allclose(*means, rtol=1e-2)


@pytest.mark.parametrize("sigma", [0.01, 0.1, 1.0])
def test_a_bound_that_says_nothing_beside_constraints_is_no_row(table, sigma):
    """Also where noise is small: other rows are then known all but exactly."""
    X, y = table
    kinds, bound = np.where(np.arange(10) == 4, "right", "none"), y.where(y.index != 4, -1e6)
    told = {"constraints": [Slope("dose", mean=0.8, sd=0.1, at=X[:3])], "scale": False}
    theta = {"lengthscale": [3.0, 20.0], "amplitude": 2.0, "sigma": sigma}
    whole = bx.GP(X, bound, censoring=kinds, **told)
    others = bx.GP(X[kinds == "none"], y[kinds == "none"], **told)
    found = [bx.predictions(m, theta, X, keep="summary", **QUIET) for m in (whole, others)]
    for name in ("f_mean", "f_sd"):
        assert_allclose(found[0][name], found[1][name], rtol=1e-5, atol=1e-7)
    terms = [bx.log_likelihood(m, theta, progressbar=False) for m in (whole, others)]
    assert_allclose(*(t["log_marginal_likelihood"] for t in terms), rtol=1e-5)


def test_what_becomes_of_constraints(table):
    """Moments and probabilities of the group, from what the verbs say of two models."""
    X, y = table
    at = X[2:4]
    constraints = [Slope("dose", low=0.2, high=1.0, at=at), Value(at, y[2:4], 0.5)]
    plain, model = bx.GP(X, y), bx.GP(X, y, constraints=constraints)
    found = constraints_met(model, THETA, progressbar=False)
    assert_array_equal(found["constraint"], ["Slope dose", "Value"])
    assert_array_equal(found["constraint_of_statement"], ["Slope dose"] * 2 + ["Value"] * 2)
    assert_allclose(found["low"], [0.2, 0.2, *y[2:4]])
    assert_allclose(found["high"], [1.0, 1.0, *y[2:4]])
    for name, own in (("data", plain), ("posterior", model)):
        slope = bx.derivatives(own, THETA, at, **QUIET).sel(feature="dose")
        f = bx.predictions(own, THETA, at, **QUIET)
        for moment in ("mean", "sd"):
            expected = [*slope[f"derivative_{moment}"].values, *f[f"f_{moment}"].values]
            assert_allclose(found[f"{name}_{moment}"], expected, rtol=1e-8)
        rng = np.random.default_rng(0)
        draws = rng.normal(slope["derivative_mean"], slope["derivative_sd"], (100_000, 2))
        share = ((draws > 0.2) & (draws < 1.0)).mean(axis=0)
        assert_allclose(found[f"{name}_probability"][:2], share, atol=4 * 0.5 / np.sqrt(100_000))
    slopes = bx.derivatives(model, THETA, X, **QUIET).sel(feature="dose")
    draws = rng.normal(slopes["derivative_mean"], slopes["derivative_sd"], (100_000, len(X)))
    outside = 1 - ((draws > 0.2) & (draws < 1.0)).mean()
    assert_allclose(found["violation"][0], outside, atol=0.01)
    assert np.isnan(found["violation"][1])


def test_a_fit_is_kept_with_its_constraints(table, tmp_path):
    X, y = table
    model = bx.GP(X, y, constraints=[Increasing("dose", at=2), Value(X[:1], y[:1], 0.5)])
    idata = model.fit("map", progressbar=False)
    xr.testing.assert_identical(
        idata["constraints"].to_dataset(), constraints_met(model, idata, progressbar=False)
    )
    bx.save(model, idata, tmp_path / "m.nc")
    loaded, again = bx.load(tmp_path / "m.nc")
    assert loaded.specification == model.specification
    xr.testing.assert_identical(
        again["constraints"].to_dataset(), idata["constraints"].to_dataset()
    )
    expected = bx.predictions(model, idata, **QUIET)["y"]
    assert_array_equal(bx.predictions(loaded, again, **QUIET)["y"], expected)
    assert pickle.loads(pickle.dumps(model)).specification == model.specification
    with pytest.raises(ValueError, match="idata belongs to another model"):
        bx.predictions(bx.GP(X, y), idata, **QUIET)


def test_a_constraint_that_the_data_contradict_is_reported(table):
    X, y = table
    model = bx.GP(X, y, constraints=[Value(X[:1], y[0] + 50.0, 0.1), Increasing("dose")])
    with pytest.warns(
        ConstraintConflictWarning, match=r"The data alone give \['Value'\] a probability below"
    ):
        found = constraints_met(model, THETA, progressbar=False)
    assert found["data_probability"][0] < 1e-6


def test_y_is_drawn_given_constraints(table):
    """Prior draws of y at a row whose value is known are near that value."""
    X, y = table
    model = bx.GP(
        X, y, constraints=[Value(X[:1], 9.0, 1e-3)],
        priors={"sigma": 0.01, "lengthscale": [1.0, 1.0], "amplitude": 1.0},
    )  # fmt: skip
    drawn = pm.draw(model.pymc["y"], 400, random_seed=1, mode=MODE)
    sd = 0.01 * y.std(ddof=0)
    assert abs(drawn[:, 0].mean() - 9.0) < 4 * sd / np.sqrt(400) + 1e-3
    assert_allclose(drawn[:, 0].std(), np.hypot(sd, 1e-3), rtol=4 / np.sqrt(800))
    assert drawn[:, -1].std() > 10 * sd


def test_the_evidence_is_the_density_of_y_that_hyperparameters_are_inferred_by(table):
    """With bounds, whose sites are not the same given y and before."""
    X, y = table
    model = bx.GP(X, y, constraints=[Slope("dose", low=0.5, high=0.9, at=2)])
    pymc = model.pymc
    point = [np.log(THETA[rv.name]) for rv in pymc.free_RVs]
    logp = pytensor.function(pymc.value_vars, pymc.logp(vars=[pymc["y"]]), mode=MODE)
    found = bx.log_likelihood(model, THETA, progressbar=False)
    assert_allclose(found["log_marginal_likelihood"].item(), logp(*point), rtol=1e-9)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("rising", "Pass objects of bx.constraints, such as bx.constraints.Increasing"),
        (Increasing("doze"), "constraints: unknown 'doze'"),
        (Increasing("dose", at=0), "at is 0. Pass a whole number"),
        (Increasing("dose", strength=0.0), "Pass a positive number"),
        (Slope("dose"), "Pass both mean and sd, or one or both of low and high"),
        (Slope("dose", mean=1.0), "Pass both mean and sd"),
        (Slope("dose", mean=1.0, sd=0.1, low=0.0), "Pass both mean and sd"),
        (Slope("dose", mean=np.nan, sd=0.1), "Pass finite numbers"),
        (Slope("dose", low=1.0, high=1.0), "low must be below high"),
        (Curvature("dose", mean=1.0, sd=-1.0), "Pass a positive number"),
        (Interaction("dose", "dose", sd=1.0), "of 'dose' with itself. Pass two"),
        (Weight("dose", low=0.0), "Weight is about a GPX"),
        (Value(np.ones((2, 2)), [1.0, 2.0, 3.0], 1.0), "Value has 2 rows"),
    ],
)
def test_impossible_constraints_are_refused(table, constraint, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(*table, constraints=[constraint])


def test_a_function_may_rise_here_and_fall_there_but_not_both_everywhere(table):
    X, y = table
    with pytest.raises(ValueError, match="both Increasing and Decreasing are about 'dose'"):
        bx.GP(X, y, constraints=[Increasing("dose"), Decreasing("dose")])
    bx.GP(X, y, constraints=[Increasing("dose", at=X[:2]), Decreasing("dose", at=X[5:7])])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "student_t"}, "constraints were given with likelihood='student_t'"),
        (
            {"representation": "hierarchy", "approximation": bx.HSGP(5)},
            "given with representation='hierarchy' in a GPX or with an approximation",
        ),
        ({"likelihood": "student_t"}, "is not concave .* Pass such as approximation=bx.Inducing"),
    ],
)
def test_models_that_cannot_use_constraints_refuse_them(table, options, message):
    with pytest.raises(ValueError, match=message):
        bx.GP(*table, constraints=[Increasing("dose")], **options)


def test_categories_have_no_slopes(table):
    X, y = table
    X = X.assign(site=pd.Categorical(["north", "south"] * 5))
    with pytest.raises(ValueError, match="'site' is categorical and has no slopes"):
        bx.GP(X, y, constraints=[Increasing("site")])


def test_tools_that_lose_constraints_refuse_them(table):
    model = bx.GP(*table, constraints=[Increasing("dose")])
    with pytest.raises(ValueError, match="constraints, which may be about features"):
        model.of_features(["age"])
    with pytest.raises(ValueError, match="has constraints, but truths drawn"):
        bx.calibrate(model, runs=1)
    with pytest.raises(ValueError, match="Pass a model without constraints"):
        bx.project(model, THETA)


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (lambda c: [c.Increasing("a", at=np.int64(5)), c.Decreasing("a")], "both Increasing and"),
        (lambda c: [c.Slope("a", low="0")], "Slope has the value '0'. Pass finite numbers"),
        (lambda c: [c.Increasing("a", strength="x")], "strength 'x'. Pass a positive number"),
        (
            lambda c: [c.Increasing("a", at=[0.0, 1.0])],
            "rows of a constraint: at has shape",
        ),
        (lambda c: "Increasing", "constraints contains 'Increasing'"),
    ],
)
def test_what_is_no_constraint_is_named(constraints, said):
    X = pd.DataFrame({"a": np.linspace(0.0, 1.0, 10)})
    with pytest.raises(ValueError, match=said):
        bx.GP(X, X["a"], constraints=constraints(bx.constraints))
