"""Categorical columns: an exchangeable kernel over levels, whatever they are called."""

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import bayes_gpx as bx

COLOURS = ["red", "green", "blue"]
THETA = {"lengthscale": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.3}
OPTIONS = {"seed": 1, "progressbar": False}
PROFILES = {
    "expquad": lambda s: np.exp(-0.5 * s**2),
    "matern32": lambda s: (1 + np.sqrt(3) * s) * np.exp(-np.sqrt(3) * s),
    "ratquad": lambda s: (1 + 0.5 * s**2 / 1.7) ** -1.7,
}


def with_colours(rows, seed):
    rng = np.random.default_rng(seed)
    colour = rng.permutation(np.resize(COLOURS, rows))
    frame = pd.DataFrame({"age": rng.normal(40, 9, rows), "colour": colour})
    return frame.astype({"colour": pd.CategoricalDtype(COLOURS)})


@pytest.fixture(scope="module")
def data():
    X = with_colours(25, 3)
    effect = X["colour"].map({"red": 2.0, "green": -1.0, "blue": 0.5}).astype(float)
    y = effect + np.sin(X["age"] / 9) + np.random.default_rng(4).normal(0, 0.2, 25)
    return X, y.rename("price"), with_colours(7, 5)


def distances(X, X_new, theta=THETA):
    """Scaled distances of a standardised number and of levels, sqrt(2) over their spread apart."""
    center, scale = X["age"].mean(), X["age"].std(ddof=0)
    age, age_new = ((frame["age"].to_numpy() - center) / scale for frame in (X, X_new))
    shares = X["colour"].astype(str).value_counts(normalize=True).to_numpy()
    spread = 1 - (shares**2).sum()
    differs = X["colour"].to_numpy()[:, None] != X_new["colour"].to_numpy()[None]
    one, other = theta["lengthscale"]
    squares = ((age[:, None] - age_new[None]) / one) ** 2 + 2 * differs / (spread * other**2)
    return np.sqrt(squares)


@pytest.mark.parametrize("kernel", PROFILES)
def test_predictions_are_those_of_a_dense_exchangeable_kernel(data, kernel):
    X, y, new = data
    theta = THETA | ({"alpha": 1.7} if kernel == "ratquad" else {})
    model = bx.GP(X, y, kernel=kernel)
    found = bx.predictions(model, theta, new, keep="summary")
    k = lambda a, b: 1.1**2 * PROFILES[kernel](distances(X, b)) if a is X else None  # noqa: E731
    inner, across = k(X, X) + 0.3**2 * np.eye(25), k(X, new)
    response = (y - y.mean()) / y.std(ddof=0)
    mean = y.mean() + y.std(ddof=0) * across.T @ np.linalg.solve(inner, response)
    variance = 1.1**2 - (across * np.linalg.solve(inner, across)).sum(axis=0)
    assert_allclose(found["f_mean"], mean, rtol=1e-7)
    assert_allclose(found["f_sd"], y.std(ddof=0) * np.sqrt(variance), rtol=1e-6)


def test_the_density_is_that_of_one_lengthscale_for_each_column(data):
    X, y, _ = data
    model = bx.GP(X, y)
    assert list(model.pymc.coords["column"]) == ["age", "colour"]
    assert [rv.name for rv in model.pymc.free_RVs][0] == "lengthscale_by_column"
    point = {"lengthscale_by_column": [0.8, 1.3], "amplitude": 1.1, "sigma": 0.3}
    given = {f"{name}_log__": np.log(value) for name, value in point.items()}
    density = model.pymc.compile_logp(vars=model.pymc.observed_RVs, mode="FAST_COMPILE")(given)
    K = 1.1**2 * PROFILES["expquad"](distances(X, X)) + 0.3**2 * np.eye(25)
    expected = multivariate_normal(y.mean() + np.zeros(25), y.var(ddof=0) * K).logpdf(y)
    assert_allclose(density, expected, rtol=1e-8)


def told_in_other_words(frame):
    return frame.assign(colour=frame["colour"].cat.rename_categories(["zinc", "ash", "moss"]))


def in_another_order(frame):
    return frame.assign(colour=frame["colour"].cat.reorder_categories(["blue", "red", "green"]))


def with_a_level_that_no_row_has(frame):
    return frame.assign(colour=frame["colour"].cat.add_categories(["violet"]))


@pytest.mark.parametrize(
    "changed", [told_in_other_words, in_another_order, with_a_level_that_no_row_has]
)
@pytest.mark.parametrize("family", ["GP", "GPX"])
def test_neither_names_nor_order_of_levels_matter(data, family, changed):
    X, y, new = data
    build, theta = getattr(bx, family), THETA | ({"sigma_w": 0.2} if family == "GPX" else {})
    first, second = (build(frame, y) for frame in (X, changed(X)))
    one = bx.attributions(first, theta, new, baseline=new.iloc[0], **OPTIONS)
    two = bx.attributions(second, theta, changed(new), baseline=changed(new).iloc[0], **OPTIONS)
    assert one["feature"].values.tolist() == ["age", "colour"]
    for name in ("attribution_mean", "attribution_sd", "difference_mean"):
        assert_allclose(two[name], one[name], rtol=1e-6, atol=1e-9)
    start = {"start": THETA, "progressbar": False}
    if family == "GP":
        fits = [model.fit("map", **start)["posterior"] for model in (first, second)]
        for name in ("lengthscale_by_column", "sigma"):
            assert_allclose(*(fit[name] for fit in fits), rtol=1e-4)


def test_a_model_equals_the_one_encoded_by_hand(data):
    X, y, new = data
    model = bx.GP(X, y)
    scale, center = X["age"].std(ddof=0), X["age"].mean()
    dummies = [pd.get_dummies(frame["colour"]).to_numpy(float) for frame in (X, new)]
    spread = np.sqrt((dummies[0].std(axis=0) ** 2).sum())
    by_hand = [
        np.column_stack([(frame["age"] - center) / scale, dummy / spread])
        for frame, dummy in zip((X, new), dummies, strict=True)
    ]
    encoded = bx.GP(by_hand[0], (y - y.mean()) / y.std(ddof=0), scale=False)
    each = THETA | {"lengthscale": [0.8, 1.3, 1.3, 1.3]}
    found = bx.predictions(model, THETA, new, keep="summary")
    expected = bx.predictions(encoded, each, by_hand[1], keep="summary")
    assert_allclose(found["f_mean"], y.mean() + y.std(ddof=0) * expected["f_mean"], rtol=1e-8)
    whole = bx.attributions(model, THETA, new, covariance=True, **OPTIONS)
    center = by_hand[0].mean(axis=0)
    parts = bx.attributions(encoded, each, by_hand[1], baseline=center, covariance=True, **OPTIONS)
    share = parts["attribution_mean"].values[:, 1:].sum(axis=1) * y.std(ddof=0)
    assert_allclose(whole["attribution_mean"].sel(feature="colour"), share, rtol=1e-7)
    variance = parts["attribution_cov"].values[:, 1:, 1:].sum(axis=(1, 2)) * y.var(ddof=0)
    assert_allclose(whole["attribution_sd"].sel(feature="colour") ** 2, variance, rtol=1e-7)
    across = parts["attribution_cov"].values[:, 0, 1:].sum(axis=1) * y.var(ddof=0)
    cov = whole["attribution_cov"].sel(feature="age", feature_bis="colour")
    assert_allclose(cov, across, rtol=1e-6, atol=1e-12)
