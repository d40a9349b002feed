"""Columns of dates: days since the first row's, whatever they come in."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayes_gpx as bx
from bayes_gpx.data.dates import days_since, first_date
from bayes_gpx.draws.left_out_together import read_order

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


def test_axes_of_dates_have_dates():
    model, theta = bx.GP(X[["date"]], Y), THETA | {"lengthscale": 0.7}
    pc = bx.plot_predictions(bx.predictions(model, theta, X[:4], **QUIET), backend="none")
    said = pc.viz["labels"]["response"].item()["string"]
    assert said == "date [day]"
    found = bx.derivatives(model, theta, X[:4], draws=20, seed=1, progressbar=False)
    pc = bx.plot_dependence(found, backend="none")
    assert said in str(pc.viz["labels"].to_dataset().to_dict())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X.assign(date=DAYS), "'date', holds no dates. Pass dates"),
        (X.assign(date=DATE.tz_localize("Europe/Paris")), "time zone Europe/Paris"),
        (X.assign(date=DATE.where(DATE != DATE[4])), "1 missing or infinite values"),
        (X.assign(wind=DATE), "'wind', holds dates or durations instead of numbers"),
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


LONG = [
    date(2000, 1, 1),
    date(1400, 1, 1),
    date(1677, 9, 21),
    date(2262, 4, 12),
    date(9999, 12, 31),
]
LONG_DAYS = [day.toordinal() - LONG[0].toordinal() for day in LONG]
"""Days from the first to each, counted by Python."""


def as_seconds(dates, unit):
    return pd.Series(np.array(dates, dtype=f"datetime64[{unit}]"))


FORMS = {
    **{unit: (lambda dates, unit=unit: as_seconds(dates, unit)) for unit in ("s", "ms", "us")},
    "days": lambda dates: np.array(dates, dtype="datetime64[D]")[:, None],
    "minutes": lambda dates: np.array(dates, dtype="datetime64[m]")[:, None],
    "date": list,
    "datetime": lambda dates: [datetime(d.year, d.month, d.day) for d in dates],
    "stamps": lambda dates: pd.Series([pd.Timestamp(str(d)) for d in dates], dtype=object),
    "numpy objects": lambda dates: pd.Series([np.datetime64(d) for d in dates], dtype=object),
    "arrow days": lambda dates: pd.Series(dates, dtype="date32[pyarrow]"),
    "arrow": lambda dates: as_seconds(dates, "us").astype("timestamp[us][pyarrow]"),
    "arrow table": lambda dates: pa.table({"date": pa.array(dates, pa.date64())}),
    "polars days": lambda dates: pl.DataFrame({"date": dates}),
    "polars": lambda dates: pl.DataFrame({"date": dates}).cast(pl.Datetime("ms")),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_days_are_right_in_all_centuries(form):
    dates = form(LONG)
    table = dates if hasattr(dates, "columns") or np.ndim(dates) == 2 else {"date": dates}
    X = bx.GP(pd.DataFrame(table) if isinstance(table, dict) else table, Y[:5]).training.X
    assert X.values[:, 0].tolist() == LONG_DAYS
    assert str(next(iter(X.origins.values()))) == "2000-01-01"


def test_the_time_of_day_counts_in_all_centuries():
    dates = np.array(["1400-01-01T06:00", "1400-01-02T12:00"], dtype="datetime64[us]")
    assert str(first_date(dates)) == "1400-01-01T06:00:00"
    assert days_since(dates, np.datetime64("2000-01-01")).tolist() == [
        LONG_DAYS[1] + 0.25,
        LONG_DAYS[1] + 1.5,
    ]
    fine = np.array(["2000-01-01T00:00:00.000000001"], dtype="datetime64[ns]")
    assert days_since(fine, np.datetime64("2000-01-01")).item() == pytest.approx(1 / 864e11)
    assert str(first_date(fine)) == "2000-01-01T00:00:00.000000001"


def test_missing_dates_are_refused_in_any_form():
    for missing in (None, np.nan, pd.NaT, np.datetime64("NaT", "D")):
        dates = pd.Series([*LONG, missing], dtype=object)
        with pytest.raises(ValueError, match="1 missing"):
            bx.GP(pd.DataFrame({"date": dates}), Y[:6])


def test_a_loaded_model_counts_from_a_day_of_another_century(tmp_path):
    X = pd.DataFrame({"date": as_seconds(LONG[1:] + LONG[:1], "s")})
    model = bx.GP(X, Y[:5])
    bx.save(model, model.fit("map", progressbar=False), tmp_path / "fit.nc")
    loaded, _ = bx.load(tmp_path / "fit.nc")
    assert loaded.training.X.origins == model.training.X.origins
    assert loaded.training.read_new(X[-1:])[0].values.item() == -LONG_DAYS[1]


def test_rows_can_be_ordered_by_dates_of_any_century():
    ranks = [int(rank) for rank in np.argsort(np.argsort(LONG_DAYS))]
    model = bx.GP(np.arange(5.0)[:, None], Y[:5])
    for order in (np.array(LONG, dtype=object), np.array(LONG, dtype="datetime64[D]")):
        assert read_order(model.training, order).tolist() == ranks
