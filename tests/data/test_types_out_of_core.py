"""Dates and categories in out-of-core data: the numbers of the same rows in memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dask
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow

import bayes_gpx as bx
from bayes_gpx.explain import answered

RNG = np.random.default_rng(11)
N = 60
LEVELS = ["red", "blue"]
DATES = pd.Timestamp("2015-03-02 18:00") + pd.to_timedelta(RNG.integers(-400, 900, N) * 9, "h")
FRAME = pd.DataFrame(
    {
        "day": pd.Series(DATES).dt.floor("D"),
        "color": pd.Categorical(RNG.choice(LEVELS, N), LEVELS),
        "wind": RNG.normal(size=N),
        "time": DATES,
    }
)
Y = np.sin((DATES - DATES[0]).days / 900.0) + 0.5 * (FRAME["color"] == "red") + 0.2 * FRAME["wind"]
FRAME["y"] = Y + 0.1 * RNG.normal(size=N)
X = FRAME.drop(columns="y")
PARTS = [FRAME[:7], FRAME[7:8], FRAME[8:41], FRAME[41:]]
APPROXIMATIONS = {
    "HSGP": bx.HSGP(3, 1.5),
    "Inducing": bx.Inducing(RNG.normal(size=(8, 5))),
}
QUIET = {"progressbar": False, "keep": "summary"}


class Again:
    """A generator of frames that begins anew each time."""

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return iter(PARTS)


def parquet(folder: Path) -> Path:
    """Files of the parts; the days are Parquet's own type of dates without times."""
    for k, part in enumerate(PARTS):
        table = pa.Table.from_pandas(part, preserve_index=False)
        days = table["day"].cast(pa.timestamp("s")).cast(pa.date32())
        table = table.set_column(0, "day", days)
        pa.parquet.write_table(table, folder / f"{k}.parquet")
    return folder


SOURCES: dict[str, Callable[[Path], Any]] = {
    "Parquet": parquet,
    "Arrow data set": lambda folder: arrow.dataset(parquet(folder), format="parquet"),
    "Arrow table": lambda folder: pa.Table.from_pandas(FRAME),
    "Dask": lambda folder: dask.from_pandas(FRAME, npartitions=4, sort=False),
    "frames": lambda folder: PARTS,
    "generator": lambda folder: Again(),
    "polars": lambda folder: [
        pl.from_pandas(part).with_columns(pl.col("color").cast(pl.Enum(LEVELS))) for part in PARTS
    ],
}


def theta(model: Any) -> dict[str, Any]:
    """Hyperparameters of the model."""
    values: dict[str, Any] = {"amplitude": 1.2, "sigma": 0.3, "sigma_w": 0.2}
    values["lengthscale"] = np.linspace(0.7, 1.4, len(model.training.X.sources))
    return {name: values[name] for name in model.hyperparameters}


def agree(found: Any, expected: Any) -> None:
    """All moments are equal."""
    names = [name for name in expected.data_vars if name.endswith(("_mean", "_sd"))]
    assert names
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_rows_of_every_source_are_explained_as_those_of_a_table(
    source: str, approximation: str, tmp_path: Path
) -> None:
    options = {"approximation": APPROXIMATIONS[approximation]}
    model = bx.GP(SOURCES[source](tmp_path), "y", **options)
    table = bx.GP(X, FRAME["y"], **options)
    assert model.training.X.columns == table.training.X.columns
    assert model.training.X.levels == table.training.X.levels
    assert model.training.X.origins == table.training.X.origins
    for name in ("mean", "sd", "low", "high"):
        own, whole = (getattr(m.training.moments, name) for m in (model, table))
        np.testing.assert_allclose(own, whole, rtol=1e-12)
    given = theta(table)
    for verb in (bx.predictions, bx.attributions):
        agree(verb(model, given, X[:5], **QUIET), verb(table, given, X[:5], **QUIET))
        agree(verb(model, given, **QUIET), verb(table, given, **QUIET))


def test_fits_and_their_files_know_the_dates(tmp_path: Path) -> None:
    options = {"approximation": APPROXIMATIONS["HSGP"]}
    model, table = bx.GP(PARTS, "y", **options), bx.GP(X, FRAME["y"], **options)
    start = theta(table)
    fits = [m.fit("map", start=start, progressbar=False) for m in (model, table)]
    agree(
        *(bx.predictions(m, i, X[:5], **QUIET) for m, i in zip((model, table), fits, strict=True))
    )
    bx.save(model, fits[0], tmp_path / "fit.nc")
    again = bx.load(tmp_path / "fit.nc")
    assert again[0].training.X.origins == table.training.X.origins
    found = bx.derivatives(*again, X[:5], **QUIET)
    agree(found, bx.derivatives(model, fits[0], X[:5], **QUIET))
    assert (
        found["unit"].values.tolist()
        == bx.derivatives(table, fits[1], X[:5], **QUIET)["unit"].values.tolist()
    )


def test_stores_of_draws_name_the_levels_of_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In full, though the first chunk has the shorter one alone."""
    monkeypatch.setattr(answered, "PART", 16)
    order = np.argsort(FRAME["color"] == "blue", kind="stable")
    rows = FRAME.iloc[order].reset_index(drop=True)
    assert set(rows["color"][:16]) == {"red"}
    options = {"approximation": APPROXIMATIONS["HSGP"]}
    model = bx.GP([rows[:30], rows[30:]], "y", **options)
    table = bx.GP(rows.drop(columns="y"), rows["y"], **options)
    quiet = {"progressbar": False, "seed": 1, "draws": 3}
    found = bx.attributions(model, theta(table), path=tmp_path / "store", **quiet).load()
    expected = bx.attributions(table, theta(table), keep="summary", **quiet)
    agree(found, expected)
    assert (found["level"].values == expected["level"].values).all()
    assert found["unit"].equals(expected["unit"])


def test_weights_change_with_dates_and_belong_to_categories() -> None:
    options = {"approximation": bx.Inducing(RNG.normal(size=(8, 5))), "intercept": True}
    model = bx.GPX(PARTS, "y", ["color", "day"], **options)
    table = bx.GPX(X[["wind", "time"]], FRAME["y"], X[["color", "day"]], **options)
    assert model.training.Z.origins == table.training.Z.origins
    for verb in (bx.weights, bx.contributions):
        agree(verb(model, theta(table), **QUIET), verb(table, theta(table), **QUIET))


def test_the_first_date_is_that_of_the_first_chunk_that_has_one() -> None:
    """Not of the first row of the sample, nor of the earliest date."""
    later = FRAME.assign(time=FRAME["time"] + pd.Timedelta("1h"))
    model = bx.GP([later[30:], later[:30]], "y", approximation=APPROXIMATIONS["HSGP"])
    assert model.training.X.origins["time"] == later["time"].iloc[30].to_datetime64()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": 1.5}, "Column 'time' holds dates in Frame 0 and numbers in Frame 1"),
        ({"wind": DATES}, "Column 'wind' holds dates in Frame 1 and numbers in Frame 0"),
        ({"time": FRAME["color"]}, "Column 'time' holds categories in Frame 1 and dates in Fr"),
        ({"time": DATES.tz_localize("UTC")}, "Frame 1: X, column 'time',.* time zone UTC"),
        ({"time": pd.NaT}, "Frame 1: X, column 'time', has 40 missing"),
        ({"y": DATES}, "Frame 1: y holds dates"),
    ],
)
def test_chunks_of_other_types_are_refused(change: dict[str, Any], message: str) -> None:
    parts = [FRAME[:20], FRAME.assign(**change)[20:]]
    with pytest.raises(ValueError, match=message):
        bx.GP(parts, "y", approximation=APPROXIMATIONS["HSGP"])


def test_medians_and_contrasts_are_the_same_after_loading(tmp_path: Path) -> None:
    """A file keeps one row of the sample, of medians and most frequent levels."""
    three = pd.Categorical(np.resize(["calm", "wild", "wild", "mild", "calm", "wild", "mild"], N))
    table = FRAME.drop(columns=["day", "time", "color"]).assign(kind=three)
    model = bx.GP([table[:20], table[20:]], "y", approximation=bx.Inducing(5))
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    idata = model.fit("map", start=theta, progressbar=False)
    bx.save(model, idata, tmp_path / "fit.nc")
    loaded, fit = bx.load(tmp_path / "fit.nc")
    rows = table[["wind", "kind"]][:2]
    for one, found in ((model, idata), (loaded, fit)):
        shares = bx.attributions(one, found, rows, baseline="median", **QUIET)
        assert shares["baseline"].values[1] == three.categories.tolist().index("wild")
        contrasts = bx.comparisons(one, found, rows, **QUIET)["contrast"].values.tolist()
        assert contrasts == ["wind +1 sd", "kind calm → mild", "kind calm → wild"]
