"""Columns of dates: days since the first row's, whatever they come in."""

from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayes_gpx as bx

RNG = np.random.default_rng(5)
DATE = pd.date_range("2011-03-01 06:00", periods=12, freq="36h")
DAYS = 1.5 * np.arange(12)
X = pd.DataFrame({"date": DATE, "wind": RNG.normal(size=12)})
Y = np.sin(DAYS / 3) + 0.1 * RNG.normal(size=12)
THETA = {"lengthscale": [0.7, 1.5], "amplitude": 1.1, "sigma": 0.2}
QUIET = {"progressbar": False, "keep": "summary"}


@pytest.fixture(scope="module")
def model():
    return bx.GP(X, Y)


def test_dates_are_days_with_the_slopes_of_days(model):
    later = X.iloc[[3, 5]].assign(date=pd.to_datetime(["2011-03-02 18:00", "2011-04-01 00:00"]))
    in_days = [[1.5, later["wind"].iloc[0]], [30.75, later["wind"].iloc[1]]]
    numbers = bx.GP(np.column_stack([DAYS, X["wind"]]), Y)
    with pytest.warns(bx.ExtrapolationWarning, match="date in 1"):
        found = bx.derivatives(model, THETA, later, **QUIET)
    with pytest.warns(bx.ExtrapolationWarning):
        expected = bx.derivatives(numbers, THETA, in_days, **QUIET)
    for name in ("value", "derivative_mean", "derivative_sd"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    assert found["unit"].values.tolist() == ["days since 2011-03-01T06:00:00", ""]


@pytest.mark.parametrize(
    "dates",
    [
        DATE.astype("datetime64[us]"),
        [stamp.to_pydatetime() for stamp in DATE],
        pd.Series(DATE, dtype=object),
    ],
    ids=["microseconds", "datetime", "objects"],
)
def test_any_type_of_date_is_read(dates, model):
    own = bx.GP(X.assign(date=dates), Y).training.X
    np.testing.assert_array_equal(own.values[:, 0], DAYS)
    assert own.origins == model.training.X.origins


def test_polars_and_arrays_are_read():
    frame = pl.DataFrame({"date": DATE.to_numpy(), "wind": X["wind"].to_numpy()})
    np.testing.assert_array_equal(bx.GP(frame, Y).training.X.values[:, 0], DAYS)
    days = pl.DataFrame({"date": DATE.to_numpy()}).cast(pl.Date)
    whole = (DATE.normalize() - DATE[0].normalize()) / pd.Timedelta("1D")
    np.testing.assert_array_equal(bx.GP(days, Y).training.X.values[:, 0], whole)
    alone = bx.GP(DATE.to_numpy()[:, None], Y)
    np.testing.assert_array_equal(alone.training.X.values[:, 0], DAYS)
    assert alone.training.read_new(DATE.to_numpy()[2:3, None])[0].values == [[3.0]]


def test_weights_over_time_can_be_forecast():
    covariates = pd.DataFrame({"wind": X["wind"]})
    model = bx.GPX(X[["date"]], Y, covariates, intercept=True)
    theta = {"lengthscale": 0.7, "amplitude": 1.1, "sigma_w": 0.1, "sigma": 0.2}
    later = pd.DataFrame({"date": [datetime(2011, 3, 20)]})
    found = bx.contributions(model, theta, later, [[0.5]], **QUIET)
    f = bx.predictions(model, theta, later, [[0.5]], **QUIET)["f_mean"]
    total = found["contribution_mean"].sum("feature") + found["offset"]
    np.testing.assert_allclose(total, f, rtol=1e-10)


def test_a_loaded_model_knows_its_first_day(model, tmp_path):
    idata = model.fit("map", progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, again = bx.load(tmp_path / "fit.nc")
    found, expected = (
        bx.predictions(*fit, X[:3], **QUIET) for fit in ((loaded, again), (model, idata))
    )
    np.testing.assert_array_equal(found["f_mean"], expected["f_mean"])


def test_axes_say_what_days_are_counted_from():
    model, theta = bx.GP(X[["date"]], Y), THETA | {"lengthscale": 0.7}
    pc = bx.plot_predictions(bx.predictions(model, theta, X[:4], **QUIET), backend="none")
    said = pc.viz["labels"]["response"].item()["string"]
    assert said == "date [days since 2011-03-01T06:00:00]"
    found = bx.derivatives(model, theta, X[:4], draws=20, seed=1, progressbar=False)
    pc = bx.plot_dependence(found, backend="none")
    assert said in str(pc.viz["labels"].to_dataset().to_dict())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X.assign(date=DAYS), "'date', holds no dates; expected dates"),
        (X.assign(date=DATE.tz_localize("Europe/Paris")), "time zone Europe/Paris"),
        (X.assign(date=DATE.where(DATE != DATE[4])), "1 missing or infinite values"),
        (X.assign(wind=DATE), "'wind', holds dates or durations; expected numbers"),
    ],
)
def test_mixtures_are_refused(model, rows, message):
    with pytest.raises(ValueError, match=message):
        bx.predictions(model, THETA, rows)


def test_zones_are_refused_in_objects_and_training_data():
    zoned = X.assign(date=DATE.tz_localize("UTC"))
    for frame in (zoned, zoned.astype({"date": object})):
        with pytest.raises(ValueError, match="time zone UTC"):
            bx.GP(frame, Y)
