"""The estimators keep scikit-learn's contract, and say what the wrapped models say."""

import inspect
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import bayes_gpx as bx

ESTIMATORS = [bx.sklearn.GPRegressor, bx.sklearn.GPXRegressor, bx.sklearn.GPClassifier]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(12)
    X = pd.DataFrame(rng.normal([5, -2], [2, 0.3], (40, 2)), columns=["age", "dose"])
    f = np.sin(X["age"] / 2)
    return X, (10 + 3 * f + rng.normal(0, 0.2, 40)).rename("y"), f


@pytest.mark.parametrize(("estimator", "build"), [(ESTIMATORS[0], bx.GP), (ESTIMATORS[1], bx.GPX)])
def test_a_regressor_says_what_its_model_says(estimator, build, data):
    X, y, _ = data
    fitted = estimator().fit(X[:30], y[:30])
    mean, sd = fitted.predict(X[30:], return_std=True)
    model = build(X[:30], y[:30])
    idata = model.fit("map", progressbar=False)
    expected = bx.predictions(model, idata, X[30:], keep="summary", progressbar=False)
    assert_allclose(mean, expected["y_mean"], rtol=1e-4)
    assert_allclose(sd, expected["y_sd"], rtol=1e-3)
    explained = fitted.explain(X[30:], keep="summary")
    name = "contribution" if build is bx.GPX else "attribution"
    assert list(explained["feature"].values) == ["age", "dose"] and f"{name}_mean" in explained
    again = pickle.loads(pickle.dumps(fitted))
    assert_allclose(again.predict(X[30:]), mean, rtol=1e-12)


def test_the_sd_of_a_rate_is_exact_to_what_a_thousand_draws_give(data):
    X, _, f = data
    y = np.random.default_rng(2).poisson(np.exp(f))
    fitted = bx.sklearn.GPRegressor(likelihood="poisson").fit(X, y)
    mean, sd = fitted.predict(X, return_std=True)
    found = bx.predictions(fitted.model_, fitted.idata_, X, keep="summary", progressbar=False)
    variance = found["f_sd"] ** 2
    exact = np.exp(found["f_mean"] + variance / 2) * np.sqrt(np.expm1(variance))
    assert_allclose(mean, np.exp(found["f_mean"] + variance / 2), rtol=1e-9)
    assert_allclose(sd, exact, rtol=0.15)


def test_in_a_pipeline_under_cross_validation(data):
    X, y, _ = data
    scores = cross_val_score(make_pipeline(StandardScaler(), bx.sklearn.GPRegressor()), X, y, cv=3)
    assert scores.min() > 0.9


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_says_what_its_model_says(classes, data):
    X, _, f = data
    labels = np.array(["low", "middle", "high"] if classes == 3 else ["no", "yes"])
    edges = np.quantile(f, np.arange(1, classes) / classes)
    y = labels[np.digitize(f, edges)]
    fitted = bx.sklearn.GPClassifier().fit(X, y)
    assert list(fitted.classes_) == sorted(labels)
    shares = fitted.predict_proba(X)
    assert shares.shape == (40, classes)
    assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert fitted.score(X, y) > 0.85
    new = bx.predictions(fitted.model_, fitted.idata_, X, draws=2, progressbar=False)
    expected = new["probability_mean"].values
    expected = expected if classes == 3 else np.column_stack([1 - expected, expected])
    assert_allclose(shares, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "labels"),
    [
        ("Int64", [0, 1]),
        ("Int8", [-1, 3]),
        ("boolean", [False, True]),
        ("string", ["no", "yes"]),
        ("category", ["no", "yes"]),
        ("int32[pyarrow]", [1, 2]),
        ("bool[pyarrow]", [False, True]),
        ("string[pyarrow]", ["no", "yes"]),
    ],
)
@pytest.mark.parametrize("coded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_labels_keep_the_type_that_they_came_in(dtype, labels, coded, data):
    X, _, f = data
    X = X.assign(kind=pd.Categorical(["a", "b"] * 20)) if coded else X
    y = pd.Series([labels[high] for high in f > f.median()], dtype=dtype)
    fitted = bx.sklearn.GPClassifier().fit(X, y)
    assert fitted.classes_.tolist() == labels
    assert list(map(type, fitted.predict(X).tolist())) == [type(labels[0])] * 40
    assert fitted.score(X, y.to_numpy(fitted.classes_.dtype)) > 0.9
    with pytest.raises(ValueError, match="1 missing"):
        bx.sklearn.GPClassifier().fit(X, y.where(y.index > 0))


# Estimators integrate the function out, for which both representations are one.
OF_ROWS = {"exposure", "trials", "noise_sd"}
APART = {"X", "y", "Z", "name", "representation", "weights", "censoring"} | OF_ROWS
APART |= {"groups", "correlation"}
OWN = {"method", "fit_options", "random_state"}


@pytest.mark.parametrize(
    ("estimator", "build", "decided"),
    [
        (ESTIMATORS[0], bx.GP, set()),
        (ESTIMATORS[1], bx.GPX, set()),
        (ESTIMATORS[2], bx.GP, {"likelihood", "resolution"}),
    ],
)
def test_an_estimator_takes_what_its_model_takes(estimator, build, decided):
    ours, theirs = (inspect.signature(kind).parameters for kind in (estimator, build))
    assert set(ours) - OWN == set(theirs) - APART - decided and set(ours) >= OWN
    for name in set(ours) - OWN:
        assert ours[name].default == theirs[name].default
        assert ours[name].annotation == theirs[name].annotation
    given = OF_ROWS & set(inspect.signature(estimator.fit).parameters)
    assert given == (set() if decided else OF_ROWS)


SETTINGS = {
    "kernel": "matern52",
    "ard": False,
    "priors": {"lengthscale": pm.Gamma.dist(3.0, 2.0), "sigma": 0.1},
    "scale": False,
}


@pytest.mark.parametrize(
    ("estimator", "build", "settings"),
    [
        (ESTIMATORS[0], bx.GP, {}),
        (ESTIMATORS[1], bx.GPX, {"weight_prior": "per_feature", "intercept": True}),
    ],
)
def test_what_an_estimator_is_given_reaches_its_model(estimator, build, settings, data):
    X, y, _ = data
    given = clone(estimator(**SETTINGS, **settings)).fit(X, y)
    model = build(X, y, **SETTINGS, **settings)
    assert given.model_.specification == model.specification and given.model_.scale is False
    assert given.model_.fixed == model.fixed
    assert given.model_.hyperparameters == model.hyperparameters
    other = estimator().set_params(**given.get_params(deep=False))
    assert other.get_params(deep=False) == given.get_params(deep=False)


@pytest.mark.parametrize(
    "estimator", [ESTIMATORS[0], *(pytest.param(e, marks=pytest.mark.slow) for e in ESTIMATORS[1:])]
)
def test_constraints_are_parameters_like_others(estimator, data):
    """A clone has them too; each fold of a cross-validation puts them on its own rows."""
    X, y, f = (part[:16] for part in data)
    y = (f > f.median()) if estimator is ESTIMATORS[2] else y
    own = (bx.constraints.Decreasing("age", at=X[:3]),)
    given = estimator(constraints=own, priors={"lengthscale": [3.0, 3.0]})
    assert given.get_params()["constraints"] is own and estimator().constraints == ()
    fitted = clone(given).fit(X, y)
    names = fitted.model_.specification.constraints.names
    likelihood = "bernoulli" if estimator is ESTIMATORS[2] else "normal"
    model = bx.GP(X, y, constraints=own, likelihood=likelihood)
    assert names == model.specification.constraints.names
    asked = {"keep": "summary", "progressbar": False, "on": "latent"}
    slopes = bx.derivatives(fitted.model_, fitted.idata_, X[:3], **asked)["derivative_mean"]
    assert (slopes.sel(feature="age") < 1e-3).all()
    again = pickle.loads(pickle.dumps(fitted))
    assert_allclose(again.predict(X) == y, fitted.predict(X) == y)
    if estimator is ESTIMATORS[0]:
        scores = cross_val_score(given, X, y, cv=2, error_score="raise")
        assert np.isfinite(scores).all()
    with pytest.raises(ValueError, match="weight"):
        estimator(constraints=[bx.constraints.Increasing("weight")]).fit(X, y)


def test_nothing_is_fitted_where_priors_fix_everything(data):
    X, y, _ = data
    given = {"lengthscale": 1.3, "amplitude": 0.8, "sigma": 0.2}
    estimator = bx.sklearn.GPRegressor(priors=given).fit(X, y)
    found = bx.predictions(bx.GP(X, y), given, X, progressbar=False)
    np.testing.assert_allclose(estimator.predict(X), found["f_mean"].squeeze(), rtol=1e-10)


def test_exposure_is_given_to_fit(data):
    X, _, f = data
    exposure = np.linspace(1.0, 20.0, 40)
    y = np.random.default_rng(2).poisson(exposure * np.exp(f))
    fitted = bx.sklearn.GPRegressor(likelihood="poisson").fit(X, y, exposure=exposure)
    assert_allclose(fitted.model_.training.exposure, exposure)
    with pytest.raises(ValueError, match="exposure was given"):
        bx.sklearn.GPXRegressor().fit(X, y, exposure=exposure)


def test_the_best_of_a_grid_is_found(data):
    X, y, _ = data
    grid = {"kernel": ["linear", "matern52"]}
    found = GridSearchCV(bx.sklearn.GPRegressor(), grid, cv=2).fit(X, y)
    assert found.best_params_ == {"kernel": "matern52"}


@pytest.fixture(scope="module")
def coloured(data):
    """Features of which one is a category that moves y by 3."""
    X, y, _ = data
    colours = np.array(["red", "green", "blue"] * 14)[:40]
    mixed = X.assign(colour=pd.Categorical(colours, ["blue", "green", "red", "grey"]))
    return mixed, y + 3.0 * (colours == "red")


@pytest.mark.parametrize("estimator", ESTIMATORS[:2])
def test_categorical_columns_are_taken_as_models_take_them(estimator, coloured):
    X, y = coloured
    fitted = estimator(priors={"sigma": 0.1}).fit(X[:30], y[:30])
    assert fitted.model_.training.X.sources == ("age", "dose", "colour")
    asked = {"keep": "summary", "progressbar": False}
    expected = bx.predictions(fitted.model_, fitted.idata_, X[30:], **asked)["y_mean"]
    assert_allclose(fitted.predict(X[30:]), expected, rtol=1e-12)
    assert fitted.score(X[30:], y[30:]) > 0.8
    words = X[30:].astype({"colour": str})  # new rows need no declaration
    assert_allclose(pickle.loads(pickle.dumps(fitted)).predict(words), expected, rtol=1e-9)
    explained = fitted.explain(X[30:], keep="summary")
    assert list(explained["feature"].values) == ["age", "dose", "colour"]
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X[30:].rename(columns={"colour": "color"}))
    assert cross_val_score(estimator(), X, y, cv=2).min() > 0.5


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_words_are_labels(dtype, coloured):
    X, y = coloured[0][["age", "colour"]], coloured[1]
    labels = pd.Series(np.where(y > 12, "high", "low")).astype(dtype)
    fitted = bx.sklearn.GPClassifier(link="probit").fit(X, labels)
    assert fitted.classes_.tolist() == ["high", "low"]
    assert set(fitted.predict(X)) == {"high", "low"} and fitted.score(X, labels) > 0.8
    assert fitted.model_.training.labels == ("high", "low")
    assert fitted.model_.specification.link == "probit"


def test_one_label_is_refused():
    with pytest.raises(ValueError, match="y has one class"):
        bx.sklearn.GPClassifier().fit([[0.0], [1.0]], [1, 1])


CHECKS = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
    for kind in ESTIMATORS
    for estimator, check in estimator_checks_generator(kind())
    # Equal to 1e-7 are densities of weights and of repeated rows, as tests of the model show, but
    # optimizers stop some 1e-5 from their maxima.
    if check.func.__name__ != "check_sample_weight_equivalence_on_dense_data"
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:weights have a mean of")
def test_sample_weights_are_weights_of_the_model(data):
    X, y, _ = data
    weights = np.arange(len(y)) % 3.0
    known = {"random_state": 0, "scale": False}
    kept = weights > 0
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    for kind, of in ((bx.sklearn.GPRegressor, bx.GP), (bx.sklearn.GPXRegressor, bx.GPX)):
        found = kind(**known).fit(X, y, sample_weight=weights)
        model = of(X[kept], y[kept], weights=weights[kept], scale=False)
        idata = model.fit("map", seed=seed, progressbar=False)
        expected = bx.predictions(model, idata, X[:5], keep="summary", progressbar=False)
        assert_allclose(found.predict(X[:5]), expected["y_mean"], rtol=1e-6)
    labels = y > np.median(y)
    found = bx.sklearn.GPClassifier(**known).fit(X, labels, sample_weight=weights)
    labelled = {"likelihood": "bernoulli", "weights": weights[kept], "scale": False}
    model = bx.GP(X[kept], labels[kept], **labelled)
    idata = model.fit("map", seed=seed, progressbar=False)
    expected = bx.predictions(model, idata, X[:5], keep="summary", progressbar=False)
    assert_allclose(found.predict_proba(X[:5])[:, 1], expected["probability_mean"], rtol=1e-6)


@pytest.mark.parametrize("extra", [{}, {"noise_sd": np.ones(40)}])
@pytest.mark.parametrize("size", [10, 29, 32])
def test_rows_of_weight_zero_hide_no_wrong_length(extra, size, data):
    X, y, _ = data
    weights = np.ones(size)
    weights[[0, -1]] = 0.0
    with pytest.raises(ValueError, match=r"sample_weight.shape|inconsistent numbers"):
        bx.sklearn.GPRegressor().fit(X[:30], y[:30], sample_weight=weights, **extra)
    weights = np.arange(30) % 2
    if extra:
        with pytest.raises(ValueError, match="inconsistent numbers"):
            bx.sklearn.GPRegressor().fit(X[:30], y[:30], sample_weight=weights, **extra)


def test_one_weight_is_that_of_every_row(data):
    X, y, _ = data
    one, each = (
        bx.sklearn.GPRegressor(random_state=0).fit(X[:30], y[:30], sample_weight=weight)
        for weight in (1.0, np.ones(30))
    )
    assert_allclose(one.predict(X[:5]), each.predict(X[:5]))


def test_a_missing_label_is_named():
    labels = np.array(["a", None, "b", "a"], dtype=object)
    with pytest.raises(ValueError, match="missing"):
        bx.sklearn.GPClassifier().fit(np.arange(4.0)[:, None], labels)


def test_a_method_is_checked_where_nothing_is_left_to_infer(data):
    X, y, _ = data
    fixed = {"lengthscale": np.ones(X.shape[1]), "amplitude": 1.0, "sigma": 0.3}
    with pytest.raises(ValueError, match="unknown 'nonsense'"):
        bx.sklearn.GPRegressor(priors=fixed, method="nonsense").fit(X, y)


def test_dates_are_read_as_models_read_them():
    """In days, at any resolution, also next to numbers and in polars."""
    when = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=30)})
    y = np.sin(np.arange(30) / 5) + 0.2 * np.random.default_rng(1).normal(size=30)
    for table in (when, when.assign(x=np.cos(np.arange(30)))):
        one = bx.sklearn.GPRegressor().fit(table, y)
        model = bx.GP(table, y)
        expected = bx.predictions(model, one.idata_, table[:4], keep="summary", progressbar=False)[
            "f_mean"
        ]
        assert_allclose(one.predict(table[:4]), expected)
        finer = table[:4].assign(when=table["when"][:4].astype("datetime64[ms]"))
        assert_allclose(one.predict(finer), expected)
        frame = pl.from_pandas(table)
        days = frame.with_columns(pl.col("when").cast(pl.Date))
        assert_allclose(bx.sklearn.GPRegressor().fit(days, y).predict(frame[:4]), expected)


def test_labels_of_rows_are_kept():
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(20, 2)), columns=["a", "b"])
    X.index = [f"r{k}" for k in range(20)]
    y = X["a"] + 0.3 * np.random.default_rng(2).normal(size=20)
    one = bx.sklearn.GPRegressor().fit(X, y)
    assert one.explain(X.loc[["r3", "r7"]])["obs"].values.tolist() == ["r3", "r7"]
    assert one.model_.training.X.index[0] == "r0"
    known = bx.sklearn.GPRegressor().fit(X, y, noise_sd=np.full(20, 0.2))
    with pytest.raises(ValueError, match="return_std=True needs the noise of new rows"):
        known.predict(X, return_std=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_names_and_units_are_kept(weighted, data):
    X, y, _ = (part.copy() for part in data)
    X.attrs["units"], y.attrs["units"] = {"age": "years"}, "points"
    weights = np.r_[0.0, np.ones(39)] if weighted else None
    model = ESTIMATORS[0]().fit(X, y.rename("score"), sample_weight=weights).model_
    assert model.training.y_name == "score" and model.training.X.index[0] == int(weighted)
    assert model.training.units == {"age": "years", "score": "points"}
    y = y.rename("age")
    assert ESTIMATORS[0]().fit(X, y).model_.training.units == {"age": "years"}


def test_rows_keep_their_numbers_and_labels_their_name():
    rng = np.random.default_rng(8)
    X, weights = rng.normal(size=(30, 2)), np.repeat([0.0, 1.0], [10, 20])
    quick = {"priors": {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}}
    fitted = bx.sklearn.GPRegressor(**quick).fit(X, X[:, 0], sample_weight=weights)
    assert fitted.model_.training.X.index.tolist() == list(range(10, 30))
    alone = bx.sklearn.GPRegressor(**quick).fit(X[10:], X[10:, 0])
    assert_allclose(fitted.predict(X[10:]), alone.predict(X[10:]), rtol=1e-12)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        bx.sklearn.GPRegressor(**quick).fit(X, X[:, 0], sample_weight=-weights)
    way = pd.Series(np.where(X[:, 1] > 0, "up", "down"), name="way")
    fixed = {"lengthscale": [1.0, 1.0], "amplitude": 1.0}
    labelled = bx.sklearn.GPClassifier(priors=fixed).fit(pd.DataFrame(X, columns=["a", "b"]), way)
    assert labelled.model_.training.y_name == "way"
