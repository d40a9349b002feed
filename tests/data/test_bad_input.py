"""Bad input is refused before sampling, by messages that name the place and the cure."""

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
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
    "beyond floats": (lambda X, y: (X.assign(age=10**400), y), r"column 'age'.*infinite"),
    "infinite": (lambda X, y: (X.assign(dose=np.inf), y), r"column 'dose'.*infinite"),
    "strings": (
        lambda X, y: (X.assign(age=["old"] * len(X)), y),
        r"column 'age'.*'old' \(str\).*astype\('category'\)",
    ),
    "durations": (
        lambda X, y: (X.assign(age=pd.Timedelta("1D")), y),
        "column 'age'.*dates or durations instead of numbers",
    ),
    "constant column": (
        lambda X, y: (X.assign(age=3.0), y),
        r"constant columns \['age'\].*scale=False",
    ),
    "numbers of records": (
        lambda X, y: (X.assign(age=2**53 + np.arange(len(X))), y),
        r"columns \['age'\] with values that are equal, or differ by .*Subtract a constant",
    ),
    "one number for all records": (
        lambda X, y: (X.assign(age=2**53 + np.arange(len(X)) % 2), y),
        r"columns \['age'\] with values that are equal, or differ by less than",
    ),
    "y far from 0": (
        lambda X, y: (X, 2**53 + np.arange(len(y))),
        "y has values that are equal, or",
    ),
    "constant y": (lambda X, y: (X, np.full(len(y), 2.0)), "y is constant"),
    "nan in y": (lambda X, y: (X, y.where(y.index != 2)), r"y has 1 missing.*row .*2"),
    "no y": (lambda X, y: (X, None), r"y is None\. Pass a value for each row of X"),
    "levels that are written alike": (
        lambda X, y: (X.assign(kind=pd.Categorical([1, "1"] * (len(X) // 2), [1, "1"])), y),
        "Column 'kind' has different levels that are all written '1'",
    ),
    "true or false": (lambda X, y: (X, y > 2.0), "True or False. Pass likelihood='bernoulli'"),
    "true or false as objects": (
        lambda X, y: (X, (y > 2.0).astype(object)),
        "True or False. Pass likelihood='bernoulli'",
    ),
    "an output that is true or false": (
        lambda X, y: (X, pd.DataFrame({"y": y, "tall": y > 2.0})),
        "y, column 'tall', is True or False",
    ),
    "short y": (lambda X, y: (X, y.values[:-1]), "X has 14 rows and y has 13"),
    "tensor y": (lambda X, y: (X, y.values[:, None, None]), r"shape \(14, 1, 1\)"),
    "misaligned y": (
        lambda X, y: (X.set_axis(range(3, 17)), y.set_axis(range(4, 18))),
        "index.*to_numpy",
    ),
    "shuffled X": (lambda X, y: (X.sample(frac=1, random_state=1), y), "index.*to_numpy"),
    "shuffled y": (lambda X, y: (X, y.sample(frac=1, random_state=1)), "index.*to_numpy"),
    "huge": (lambda X, y: (X.assign(age=X["age"] * 1e200), y), r"\['age'\] too large"),
    "masked": (
        lambda X, y: (np.ma.masked_less(X.values, X.values.min() + 1e-9), y.values),
        "column 'x1'.*1 missing",
    ),
    "a word": (lambda X, y: ("table", y), "X is a str"),
    "a Dataset": (lambda X, y: (X.to_xarray(), y), "to_dataframe"),
    "ragged": (lambda X, y: ([[1, 2], [3]], y), "rows differ in length"),
    "one dimension": (lambda X, y: (X["age"].values, y), r"shape \(14,\).*reshape"),
    "two rows": (lambda X, y: (X[:2], y[:2]), "2 rows, but needs at least 3"),
    "no columns": (lambda X, y: (X[[]], y), "no columns"),
    "repeated names": (
        lambda X, y: (X.set_axis(["a", "a"], axis=1), y),
        r"repeated column names \['a'\]",
    ),
}


def test_a_column_is_no_response_of_classes(regression):
    X, _, y, _, _ = regression
    with pytest.raises(ValueError, match=r"shape \(14, 1\).*ravel"):
        bx.GP(X, (y.values[:, None] > 100) * 1, likelihood="categorical")


@pytest.mark.parametrize("name", CASES)
def test_training_data(regression, name):
    X, _, y, _, _ = regression
    spoil, message = CASES[name]
    with pytest.raises(ValueError, match=message):
        bx.GP(*spoil(X, y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, r"kernel: unknown 'rbf'. Pass one of .*expquad"),
        ({"kernel": "expqad"}, "Did you mean 'expquad'"),
        ({"kernel": 3}, "kernel is 3"),
        ({"kernel": lambda d: d}, "returned int"),
        ({"kernel": pm.gp.cov.ExpQuad(2, ls=1.0)}, "callable kernel.*lambda d"),
        ({"kernel": lambda d: pm.gp.cov.ExpQuad(3, ls=1.0)}, "3 columns; X has 2"),
        ({"priors": [1.0]}, "priors is a list"),
        ({"priors": {"sigma": None}}, "finite number"),
        ({"priors": {"sigma": lambda name: 1 / pm.Gamma("other", 2, 1)}}, "Wrap.*Deterministic"),
        ({"priors": {"sigma": lambda name: None}}, "returned None"),
        (
            {"priors": {"sigma": lambda name: pm.HalfNormal(name, shape=1)}},
            "Pass a distribution of a scalar",
        ),
        (
            {"priors": {"lengthscale": lambda name: pm.HalfNormal(name, shape=3)}},
            "a scalar or 2 values",
        ),
        ({"likelihood": "gaussian"}, "likelihood: unknown 'gaussian'"),
        ({"priors": {"lengthscales": 1.0}}, "Did you mean 'lengthscale'"),
        ({"priors": {"sigma": 0.0}}, "sigma is 0.0. Pass numbers above 0"),
        ({"priors": {"sigma": -1.0}}, "sigma is -1.0"),
        ({"priors": {"sigma": np.nan}}, "finite number"),
        ({"priors": {"sigma": "big"}}, "finite number"),
        ({"priors": {"lengthscale": [1.0, 2.0, 3.0]}}, r"shape \(3,\). Pass a scalar or 2"),
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
    with pytest.raises(ValueError, match=r"Pass Z_new with the columns \['a', 'b', 'c'\]"):
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
        (lambda X: X.values[:, :1], "1 columns, but must have 2"),
        (lambda X: X[:0], "0 rows, but needs at least 1.*X_new=None"),
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
    with pytest.raises(TypeError, match="unexpected keyword argument 'features'"):
        bx.predictions(model, THETA, features=["age"])
    gpx = bx.GPX(X, y)
    with pytest.raises(ValueError, match="features: unknown 'ages'.*Did you mean 'age'"):
        bx.weights(gpx, {**THETA, "sigma_w": 0.1}, features=["ages"])
    with pytest.raises(ValueError, match="5002 quantities would be drawn jointly; at most 5000"):
        many = np.tile(X.values[:1], (2501, 1))
        bx.weights(gpx, {**THETA, "sigma_w": 0.1}, many, joint=True)


def test_idata_of_another_model(regression):
    X, Z, y, _, _ = regression
    gp = bx.GP(X, y)
    idata = gp.fit("map", progressbar=False)
    for other in (bx.GPX(X, y), bx.GP(X, y, kernel="matern52"), bx.GP(X, y, ard=False)):
        with pytest.raises(ValueError, match="belongs to another model"):
            bx.predictions(other, idata)
    with pytest.raises(ValueError, match="its y differ"):
        bx.predictions(bx.GP(X, y + np.arange(len(y))), idata)
    with pytest.raises(ValueError, match="DataTree without a group `posterior`"):
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


def test_rows_of_two_tables_belong_together(regression):
    X, Z, y, X_new, Z_new = regression
    with pytest.raises(ValueError, match="index of Z differs from the index of X"):
        bx.GPX(X, y, Z.sample(frac=1, random_state=1))
    theta = {**THETA, "sigma_w": 0.1}
    with pytest.raises(ValueError, match="index of Z_new differs"):
        bx.contributions(bx.GPX(X, y, Z), theta, X_new, Z_new.iloc[[2, 1, 0, 3]])
    with pytest.warns(UserWarning, match=r"index of y has labels that X has in other rows.*to_num"):
        bx.GP(X.set_axis(range(2, 16)), y)
    labelled = bx.GP(X.set_axis(list("abcdefghijklmn")), y)
    assert list(labelled.training.X.index[:2]) == ["a", "b"]


def test_columns_may_be_named_by_numbers(regression):
    X, _, y, X_new, _ = regression
    expected = bx.predictions(bx.GP(X, y), THETA, X_new, keep="summary")
    for names in ([0, 1], [("a", 1), ("a", 2)]):
        model = bx.GP(X.set_axis(names, axis=1), y)
        found = bx.predictions(model, THETA, X_new.set_axis(names, axis=1), keep="summary")
        assert_allclose(found["f_mean"], expected["f_mean"])


def test_arrays_without_names_are_matched_by_position(regression):
    X, _, y, X_new, _ = regression
    bare = xr.DataArray(X_new.values, dims=("row", "column"))
    expected = bx.predictions(bx.GP(X, y), THETA, X_new, keep="summary")
    found = bx.predictions(bx.GP(X, y), THETA, bare, keep="summary")
    assert_allclose(found["f_mean"], expected["f_mean"])


def test_the_model_keeps_its_own_copy(regression):
    X, _, y, _, _ = regression
    values = y.to_numpy().copy()
    model = bx.GP(X, values)
    values[0] = 1e9
    assert model.training.y[0] == y[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws is 0. Pass a whole number of at least 1"),
        ({"draws": 2.5}, "draws is 2.5"),
        ({"num_draws": "3"}, "num_draws is '3'"),
        ({"seed": "lucky"}, "seed is 'lucky'"),
        ({"obs": [[1, 2]]}, r"obs has shape \(1, 2\)"),
        ({"obs": np.array([True, False])}, r"mask of shape \(2,\)"),
        ({"on": "logit"}, "on: unknown 'logit'"),
    ],
)
def test_options_of_verbs(regression, options, message):
    X, _, y, _, _ = regression
    with pytest.raises(ValueError, match=message):
        bx.predictions(bx.GP(X, y), THETA, **options)


@pytest.mark.parametrize("features", ["age", [], ["age", "age"]])
def test_features_are_a_list_of_different_names(regression, features):
    X, _, y, _, _ = regression
    with pytest.raises(ValueError, match="Pass a list of different names"):
        bx.weights(bx.GPX(X, y), {**THETA, "sigma_w": 0.1}, features=features)


def test_counts_of_fit(regression):
    X, _, y, _, _ = regression
    for options in ({"draws": 0}, {"chains": 0}, {"tune": -1}):
        with pytest.raises(ValueError, match="Pass a whole number of at least 1"):
            bx.GP(X, y).fit("nuts", **options)


def test_idata_that_differs_in_data_labels_or_fixed_values(regression):
    X, _, y, _, _ = regression
    gp = bx.GP(X, y)
    idata = gp.fit("map", progressbar=False)
    with pytest.raises(ValueError, match="its X differ"):
        bx.predictions(bx.GP(X**2, y), idata)
    unsigned = xr.DataTree.from_dict({"posterior": idata["posterior"].to_dataset()})
    with pytest.raises(ValueError, match=r"labelled \['age', 'dose'\]"):
        bx.predictions(bx.GP(X[["dose", "age"]], y), unsigned)
    fixed = [bx.GP(X, y, priors={"sigma": s}) for s in (0.1, 0.5)]
    with pytest.raises(ValueError, match="belongs to another model"):
        bx.predictions(fixed[1], fixed[0].fit("map", progressbar=False))
    broken = unsigned.copy()
    broken["posterior"]["sigma"] = broken["posterior"]["sigma"] * np.nan
    with pytest.raises(ValueError, match="sigma that are not finite"):
        bx.predictions(gp, broken)
    stacked = xr.DataTree.from_dict({"posterior": xr.Dataset({"sigma": ("sample", [1.0])})})
    with pytest.raises(ValueError, match="must have chain, draw"):
        bx.predictions(gp, stacked)


def copies(X):
    """Tables with columns that hold the same, and those columns."""
    return {
        "equal": (X.assign(years=X["age"]), "'age' and 'years'"),
        "in other units": (X.assign(months=12 * X["age"] - 5), "'age' and 'months'"),
        "from the other end": (X.assign(rest=90 - X["age"]), "'age' and 'rest'"),
        "categories": (
            X.assign(**dict.fromkeys("ab", pd.Categorical(["x", "y", "z"] * 4 + ["x", "y"]))),
            "'a' and 'b'",
        ),
        "three": (X.assign(a=X["age"], b=X["age"]), "'age' and 'a' and 'b'"),
    }


@pytest.mark.parametrize("case", copies(pd.DataFrame({"age": [1.0]}).loc[[0] * 14]))
@pytest.mark.parametrize("scale", [True, False])
def test_columns_that_hold_the_same_are_told(case, scale, regression):
    X, _, y, *_ = regression
    table, named = copies(X)[case]
    with pytest.warns(UserWarning, match=f"^X has columns that hold the same.*: {named}. The data"):
        bx.GP(table, y, scale=scale)
    with pytest.warns(UserWarning, match=f"^Z has columns that hold the same.*: {named}. The data"):
        bx.GPX(X, y, table, scale=scale)


def test_columns_that_differ_are_not_told(regression):
    X, _, y, *_ = regression
    ages = X["age"].to_numpy()
    near = np.where(np.arange(14) == 3, ages + 1e-5 * ages.std(), ages)
    bx.GP(X.assign(near=near, square=ages**2), y)
    bx.GP(X.assign(a=1.0, b=1.0), y, scale=False)  # constants have no attributions


def test_a_saved_model_warns_once(regression, tmp_path):
    X, _, y, *_ = regression
    with pytest.warns(UserWarning, match="hold the same"):
        model = bx.GP(X.assign(years=X["age"]), y)
    bx.save(model, model.fit("map", progressbar=False), tmp_path / "fit.nc")
    bx.load(tmp_path / "fit.nc")


def test_new_rows_with_gaps_are_named_with_their_columns(regression):
    X, _, y, X_new, _ = regression
    kind = pd.Categorical(["a", "b"] * 7)
    model = bx.GP(X.assign(kind=kind), y)
    new = X_new.assign(kind=pd.Categorical(["a", "b", None, "a"]), age=[np.nan, 5.0, np.inf, 5.0])
    for table in (new, pl.from_pandas(new)):
        with pytest.raises(ValueError, match=r"^X_new, column 'age', has 2 .*") as refused:
            bx.predictions(model, THETA, table)
        said = str(refused.value)
        assert "at rows 0 and 2; column 'kind', has 1 missing or infinite values, at row 2." in said
        assert "Drop these 2 rows, or fill in" in said and "combined" not in said
    many = X_new.iloc[[0] * 9].assign(age=np.nan)
    with pytest.raises(ValueError, match=r"9 missing or infinite values, at rows 0, 1, 2 and 6 mo"):
        bx.predictions(bx.GP(X, y), THETA, many.reset_index(drop=True))


AS_NUMBERS, COERCED = "by pd.to_numeric, in polars", "by pd.to_numeric(..., errors='coerce')"
TEXT = {
    "words": (["old", "young"], "'old' (str) at row 0", "Declare categories: in pandas"),
    "numbers as text": (
        ["1.5", "2"],
        "'1.5' (str) at row 0",
        AS_NUMBERS,
    ),
    "some words": (
        ["1.5", "n/a"],
        "'n/a' (str) at row 1",
        COERCED,
    ),
    "mixed": ([1.5, "n/a"], "'n/a' (str) at row 1", COERCED),
    "gaps and numbers": ([None, "2"], "'2' (str) at row 1", AS_NUMBERS),
}


@pytest.mark.parametrize("case", TEXT)
def test_text_is_named_with_what_it_may_have_meant(case, regression):
    X, _, y, *_ = regression
    values, place, cure = TEXT[case]
    with pytest.raises(ValueError, match=r"^X, column 'age', holds ") as refused:
        bx.GP(X.assign(age=pd.Series(values * 7, dtype=object)), y)
    assert place in str(refused.value) and cure in str(refused.value)


@pytest.mark.parametrize("estimator", ["GPRegressor", "GPXRegressor", "GPClassifier"])
def test_estimators_name_a_column_of_text(estimator, regression):
    X, _, y, X_new, _ = regression
    y = y > y.median() if estimator == "GPClassifier" else y
    fitted = getattr(bx.sklearn, estimator)().fit(X, y)
    text = X_new.assign(age=["5", "n/a", "6", "7"])
    for table in (text, pl.from_pandas(text)):
        with pytest.raises(ValueError, match=r"column 'age', holds 'n/a' .*pd\.to_numeric"):
            fitted.predict(table)
        with pytest.raises(ValueError, match=r"column 'age', holds 'n/a' .*pd\.to_numeric"):
            getattr(bx.sklearn, estimator)().fit(table, y[:4])
