"""What holds for all tables, kernels and hyperparameters, tried on those that hypothesis finds."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import bayes_gpx as bx
from bayes_gpx.data.features import read_features
from bayes_gpx.data.sheets import read_sheet
from bayes_gpx.testing import strategies
from examples import MORE

tried = settings(
    max_examples=3 * MORE,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = ("expquad + linear",)
"""Kernels of the quick tests, since each kernel is compiled anew."""

QUIET = {"progressbar": False, "keep": "summary"}


def sizes(model):
    """Of the response and of its changes, to hold differences to."""
    return model.training.y_scaling.scale


def again(model, X, y):
    """The same kind of model of other data."""
    return type(model)(X, y, kernel=model.specification.kernel)


def table(model):
    training = model.training
    return pd.DataFrame(training.X.values, columns=list(training.X.columns)), training.y


@tried
@given(strategies.models(kernels=FEW), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(drawn, random):
    model, theta = drawn
    X, y = table(model)
    order = np.array(random.sample(range(len(y)), len(y)))
    other = again(model, X.iloc[order].reset_index(drop=True), y[order])
    found, same = (bx.predictions(m, theta, X[:3], **QUIET) for m in (model, other))
    np.testing.assert_allclose(found["f_mean"], same["f_mean"], atol=1e-8 * sizes(model))
    np.testing.assert_allclose(found["f_sd"], same["f_sd"], atol=1e-7 * sizes(model))


@tried
@given(
    strategies.models(families=("GP",), kernels=FEW),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
)
def test_units_do_not_matter(drawn, of_x, of_y):
    """Predictions follow the units of y; attributions too; derivatives those of both."""
    model, theta = drawn
    X, y = table(model)
    other = again(model, of_x * X, of_y * y)
    new = X[:3]
    for verb, name, factor in (
        (bx.predictions, "f", of_y),
        (bx.attributions, "attribution", of_y),
        (bx.derivatives, "derivative", of_y / of_x),
    ):
        found = verb(model, theta, new, **QUIET)
        same = verb(other, theta, of_x * new, **QUIET)
        for end in ("mean", "sd"):
            one, two = found[f"{name}_{end}"].values * factor, same[f"{name}_{end}"].values
            room = 1e-7 * max(np.abs(one).max(), 1e-9 * of_y * sizes(model))
            np.testing.assert_allclose(one, two, atol=max(room, 1e-6 * np.abs(one).max()))


@tried
@given(strategies.models(kernels=FEW))
def test_attributions_are_complete_and_contributions_sum_to_f(drawn):
    model, theta = drawn
    X, _ = table(model)
    new = X[:3] + 0.1 * X.std()
    found = bx.attributions(model, theta, new, baseline="mean", **QUIET)
    at = bx.predictions(model, theta, new, **QUIET)["f_mean"].values
    start = bx.predictions(model, theta, X.mean().to_frame().T, **QUIET)["f_mean"].values
    total = found["attribution_mean"].sum("feature")
    np.testing.assert_allclose(total, at - start, atol=1e-6 * sizes(model))
    if model.training.Z is not None:
        shares = bx.contributions(model, theta, new, **QUIET)
        total = shares["contribution_mean"].sum("feature") + shares["offset"]
        np.testing.assert_allclose(total, at, atol=1e-6 * sizes(model))


@tried
@given(strategies.models(kernels=FEW))
def test_covariances_of_features_are_positive_semidefinite(drawn):
    model, theta = drawn
    X, _ = table(model)
    for verb, name in ((bx.attributions, "attribution"), (bx.derivatives, "derivative")):
        found = verb(model, theta, X[:4], covariance=True, **QUIET)
        cov = found[f"{name}_cov"].values
        largest = np.abs(cov).max(axis=(1, 2))
        assert (np.linalg.eigvalsh(cov).min(axis=1) >= -1e-7 * largest).all()
        assert (found[f"{name}_sd"].values >= 0).all()


@tried
@given(strategies.models(kernels=FEW), strategies.responses())
def test_means_are_linear_in_the_response(drawn, other):
    """With scale=False, where no scaling depends on the response."""
    model, theta = drawn
    X, y = table(model)
    X, y, other = X / X.std(), y / y.std(), other / other.std()
    options = {"kernel": model.specification.kernel, "scale": False}
    found = [
        bx.attributions(type(model)(X, v, **options), theta, X[:3], **QUIET)["attribution_mean"]
        for v in (y, other, y - 2.0 * other)
    ]
    size = max(float(np.abs(one).max()) for one in found)
    np.testing.assert_allclose(found[0] - 2.0 * found[1], found[2], atol=1e-7 * size)


@tried
@given(strategies.frames(3, levels=3))
def test_tables_are_read_as_they_are_whatever_their_names(frame):
    read = read_features(frame)
    assert read.sources == tuple(frame.columns)
    numbers = list(frame.columns[:2])
    np.testing.assert_array_equal(read.values[:, :2], frame[numbers].to_numpy())
    shuffled = frame[[*reversed(frame.columns)]].assign(superfluous=1.0)
    np.testing.assert_array_equal(read_features(shuffled, like=read).values, read.values)
    np.testing.assert_array_equal(read.values[:, 2:].sum(axis=1), 1.0)


@tried
@given(strategies.frames(2))
def test_sheets_hold_what_was_written(frame):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sheet.csv", "sheet.parquet"):
            path = Path(folder) / name
            frame.to_parquet(path) if name.endswith("t") else frame.to_csv(path, index=False)
            read = read_sheet(path)
            np.testing.assert_allclose(read.to_numpy(), frame.to_numpy(), rtol=1e-15)
            assert list(read.columns) == list(frame.columns)


@settings(tried, max_examples=2 * MORE)
@given(strategies.models(kernels=FEW))
def test_files_of_fits_hold_the_same_model(drawn):
    model, theta = drawn
    idata = model.fit("map", start=theta, progressbar=False)
    with tempfile.TemporaryDirectory() as folder:
        bx.save(model, idata, Path(folder) / "fit.nc")
        other, kept = bx.load(Path(folder) / "fit.nc")
    assert other.specification == model.specification
    assert other.training.X.columns == model.training.X.columns
    one, two = (bx.predictions(m, i, **QUIET) for m, i in ((model, idata), (other, kept)))
    assert one.equals(two)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_wherever_it_stands(value):
    @tried
    @given(strategies.frames(2), st.integers(0, 11), st.integers(0, 1))
    def refused(frame, row, column):
        frame.iloc[row, column] = value
        with pytest.raises(ValueError, match=f"at row {row}"):
            bx.GP(frame, np.arange(12.0))

    refused()


@pytest.mark.slow
@pytest.mark.parametrize(
    "check",
    [
        test_attributions_are_complete_and_contributions_sum_to_f,
        test_covariances_of_features_are_positive_semidefinite,
    ],
)
def test_all_kernels(check):
    """What the quick tests say of one kernel, of all, and on many more tables."""
    many = settings(tried, max_examples=60)
    many(given(strategies.models())(check.hypothesis.inner_test))()
