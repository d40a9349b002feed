"""Bad input is refused before sampling, by messages that name the place and the cure."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx

THETA = {"lengthscale": 1.0, "amplitude": 1.2, "sigma": 0.4}


CASES = {
    "nan": (
        lambda X, y: (X.assign(age=[np.nan, *X["age"][1:]]), y),
        r"column 'age'.*row .*0.*impute",
    ),
    "infinite": (lambda X, y: (X.assign(dose=np.inf), y), r"column 'dose'.*infinite"),
    "strings": (
        lambda X, y: (X.assign(age=["old"] * len(X)), y),
        r"column 'age'.*'old' \(str\).*get_dummies",
    ),
    "dates": (lambda X, y: (X.assign(age=pd.Timestamp("2020-01-01")), y), "column 'age'.*dates"),
    "constant column": (
        lambda X, y: (X.assign(age=3.0), y),
        r"constant columns \['age'\].*scale=False",
    ),
    "constant y": (lambda X, y: (X, np.full(len(y), 2.0)), "y is constant"),
    "nan in y": (lambda X, y: (X, y.where(y.index != 2)), r"y has 1 missing.*row .*2"),
    "short y": (lambda X, y: (X, y.values[:-1]), "X has 14 rows and y has 13"),
    "column y": (lambda X, y: (X, y.values[:, None]), r"shape \(14, 1\).*ravel"),
    "misaligned y": (
        lambda X, y: (X.set_axis(range(3, 17)), y.set_axis(range(4, 18))),
        "index.*to_numpy",
    ),
    "one dimension": (lambda X, y: (X["age"].values, y), r"shape \(14,\).*reshape"),
    "two rows": (lambda X, y: (X[:2], y[:2]), "2 rows; expected at least 3"),
    "no columns": (lambda X, y: (X[[]], y), "no columns"),
    "repeated names": (
        lambda X, y: (X.set_axis(["a", "a"], axis=1), y),
        r"repeated column names \['a'\]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_training_data(regression, name):
    X, _, y, _, _ = regression
    spoil, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        bx.GP(*spoil(X, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, r"kernel: unknown 'rbf'; expected one of .*expquad"),
        ({"kernel": "expqad"}, "Did you mean 'expquad'"),
        ({"kernel": 3}, "kernel is 3"),
        ({"kernel": lambda d: d}, "returned int"),
        ({"likelihood": "gaussian"}, "likelihood: unknown 'gaussian'"),
        ({"priors": {"lengthscales": 1.0}}, "Did you mean 'lengthscale'"),
        ({"priors": {"sigma": 0.0}}, "sigma is 0.0; expected above 0"),
        ({"priors": {"sigma": -1.0}}, "sigma is -1.0"),
        ({"priors": {"sigma": np.nan}}, "finite number"),
        ({"priors": {"sigma": "big"}}, "finite number"),
        ({"priors": {"lengthscale": [1.0, 2.0, 3.0]}}, r"shape \(3,\); expected a scalar or 2"),
    ],
)
def test_options(regression, options, message):
    X, _, y, _, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.GP(X, y, **options)


def test_options_of_gpx(regression):
    X, Z, y, X_new, Z_new = regression
    with pytest.raises(ValueError, match="weight_prior: unknown 'sparse'"):
        bx.GPX(X, y, weight_prior="sparse")
    with pytest.raises(ValueError, match="X has 14 rows and Z has 13"):
        bx.GPX(X, y, Z[1:])
    with pytest.raises(ValueError, match="column named 'intercept'"):
        bx.GPX(X, y, Z.rename(columns={"a": "intercept"}), intercept=True)
    with pytest.raises(ValueError, match="method: unknown 'mcmc'"):
        bx.GPX(X, y).fit("mcmc")
    theta = {**THETA, "sigma_w": 0.1}
    model = bx.GPX(X, y, Z)
    with pytest.raises(ValueError, match=r"pass Z_new with the columns \['a', 'b', 'c'\]"):
        bx.contributions(model, theta, X_new)
    with pytest.raises(ValueError, match="X_new has 4 rows and Z_new has 3"):
        bx.contributions(model, theta, X_new, Z_new[1:])
    with pytest.raises(ValueError, match="without X_new"):
        bx.contributions(model, theta, None, Z_new)
    with pytest.raises(ValueError, match="weighs X itself"):
        bx.contributions(bx.GPX(X, y), theta, X_new, Z_new)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X[["age"]], r"lacks the columns \['dose'\]"),
        (lambda X: X.values[:, :1], "1 columns; expected 2"),
        (lambda X: X[:0], "0 rows; expected at least 1.*X_new=None"),
        (lambda X: X.assign(age=np.nan), "column 'age'.*missing"),
    ],
)
def test_new_data(regression, spoil, message):
    X, _, y, X_new, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.predictions(bx.GP(X, y), THETA, spoil(X_new))


def test_fixed_hyperparameters(regression):
    X, _, y, _, _ = regression
    model = bx.GP(X, y)
    with pytest.raises(ValueError, match=r"lacks \['sigma'\]"):
        bx.predictions(model, {"lengthscale": 1.0, "amplitude": 1.0})
    with pytest.raises(ValueError, match="unknown 'noise'"):
        bx.predictions(model, {**THETA, "noise": 1.0})
    with pytest.raises(ValueError, match="amplitude is -1.0"):
        bx.predictions(model, {**THETA, "amplitude": -1.0})


def test_verbs(regression):
    X, _, y, _, _ = regression
    model = bx.GP(X, y)
    with pytest.raises(ValueError, match="weights are defined for GPX"):
        bx.weights(model, THETA)
    with pytest.raises(ValueError, match="no rows labelled"):
        bx.predictions(model, THETA, obs=[99])
    with pytest.raises(ValueError, match="keep: unknown 'all'"):
        bx.predictions(model, THETA, keep="all")
    with pytest.raises(ValueError, match="leave `features` and `covariance` out"):
        bx.predictions(model, THETA, features=["age"])
    gpx = bx.GPX(X, y)
    with pytest.raises(ValueError, match="features: unknown 'ages'.*Did you mean 'age'"):
        bx.weights(gpx, {**THETA, "sigma_w": 0.1}, features=["ages"])
    with pytest.raises(ValueError, match="5002 quantities jointly; at most 5000"):
        many = np.tile(X.values[:1], (2501, 1))
        bx.weights(gpx, {**THETA, "sigma_w": 0.1}, many, joint=True)


def test_idata_of_another_model(regression):
    X, Z, y, _, _ = regression
    gp = bx.GP(X, y)
    idata = gp.fit("map", progressbar=False)
    for other in (bx.GPX(X, y), bx.GP(X, y, kernel="matern52"), bx.GP(X, y, ard=False)):
        with pytest.raises(ValueError, match="belongs to another model"):
            bx.predictions(other, idata)
    with pytest.raises(ValueError, match="its observed y differ"):
        bx.predictions(bx.GP(X, y + np.arange(len(y))), idata)
    with pytest.raises(ValueError, match="no group `posterior`"):
        bx.predictions(gp, xr.DataTree())
    with pytest.raises(ValueError, match="laplace.*nuts"):
        bx.log_likelihood(gp, idata)


def test_frames_are_matched_by_name_and_arrays_by_position(regression):
    X, _, y, X_new, _ = regression
    expected = bx.predictions(bx.GP(X, y), THETA, X_new, draws=2, seed=1)
    model = bx.GP(X, y)
    reordered = X_new[["dose", "age"]].assign(extra="ignored")
    named = xr.DataArray(X_new.values, dims=("row", "column"), coords={"column": list(X.columns)})
    for given in (reordered, X_new.values, pl.from_pandas(X_new), named):
        found = bx.predictions(model, THETA, given, draws=2, seed=1)
        assert_allclose(found["f_mean"], expected["f_mean"], rtol=0)
        assert list(found["feature"].values) == ["age", "dose"]


def test_labels_come_back(regression):
    X, _, y, _, _ = regression
    labels = [f"patient {i}" for i in range(len(X))]
    model = bx.GP(X.set_axis(labels), y.set_axis(labels))
    found = bx.predictions(model, THETA, obs=["patient 3", "patient 1"], draws=2, seed=1)
    assert list(found["obs"].values) == ["patient 3", "patient 1"]
    everyone = bx.predictions(model, THETA, draws=2, seed=1)
    assert_allclose(found["f_mean"], everyone["f_mean"].sel(obs=found["obs"]), rtol=1e-12)
    assert found.attrs["units"] == "pressure"
