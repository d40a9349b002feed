"""Data sets by name: shapes, figures of their sources, and what goes wrong."""

import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.datasets import IN_FOLDER

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
    [("diabetes", (442, 10)), ("digits", (1797, 64)), ("breast_cancer", (569, 30))],
)
def test_scikit_learns(name, shape):
    data = bx.datasets.load(name)
    assert data.X.shape == shape
    assert set(data.units) == {*data.X.columns, data.y.name}
    assert "scikit-learn" in data.source


def test_labels_of_tumours_are_words():
    assert sorted(bx.datasets.load("breast_cancer").y.unique()) == ["benign", "malignant"]


def test_what_goes_wrong_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("BAYES_GPX_DATA", raising=False)
    with pytest.raises(ValueError, match="unknown 'bostn'.*Did you mean 'boston'"):
        bx.datasets.load("bostn")
    with pytest.raises(FileNotFoundError, match="No folder.*BAYES_GPX_DATA.*Harrison"):
        bx.datasets.load("boston")
    with pytest.raises(FileNotFoundError, match="does not exist.*doi"):
        bx.datasets.load("boston", path=tmp_path)
    with pytest.raises(ValueError, match="kind: unknown 'rose'"):
        bx.datasets.load("wine", kind="rose", path=tmp_path)
    with pytest.raises(ValueError, match="only wine comes in kinds"):
        bx.datasets.load("boston", kind="red")
    file = tmp_path / next(iter(IN_FOLDER["boston"].files))
    file.parent.mkdir()
    file.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="SHA-256.*expected ae5202.*changed or damaged"):
        bx.datasets.load("boston", path=tmp_path)
