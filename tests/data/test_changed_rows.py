"""Data sets that are not the same each time they are read: refused, whoever reads them."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.data import training
from bayes_gpx.data.fingerprints import Fingerprint, fingerprint
from bayes_gpx.explain import answered
from bayes_gpx.inference.log_density import Density

rng = np.random.default_rng(5)
N = 60
FRAME = pd.DataFrame(
    {
        "x": rng.normal(size=N),
        "name": pd.Categorical(rng.choice(["north", "south"], N)),
        "k": rng.integers(0, 9, N),
        "y": rng.normal(size=N),
    }
)
MODELS = {
    "sums": {"approximation": bx.HSGP(3, 1.5)},
    "rows": {"approximation": bx.Inducing(5)},
}
QUIET = {"progressbar": False, "seed": 1}
THETA = {"lengthscale": np.ones(3), "amplitude": 1.0, "sigma": 0.5}


class Rows:
    """Frames that may be other ones the next time."""

    def __init__(self, *frames):
        self.frames = frames

    def __iter__(self):
        return iter(self.frames)


class OtherRowsLater(Rows):
    """Frames that are other ones from the third time on: the first is a look at what they are."""

    def __init__(self, *frames, later):
        super().__init__(*frames)
        self.read, self.later = 0, later

    def __iter__(self):
        self.read += 1
        return iter(self.frames if self.read < 3 else self.later)


def test_a_fingerprint_depends_on_the_rows_and_their_order_alone():
    whole = fingerprint(FRAME)
    for ends in ([0, N], [0, 1, N], [0, 20, 21, 59, N]):
        found = Fingerprint()
        for start, end in pairwise(ends):
            found = found.joined(fingerprint(FRAME[start:end].reset_index(drop=True)))
        assert found == whole
    other_codes = FRAME["name"].cat.reorder_categories(["south", "north"])
    for same in (other_codes, FRAME["name"].astype(str)):
        assert fingerprint(FRAME.assign(name=same)) == whole
    swapped = FRAME.iloc[[1, 0, *range(2, N)]]
    changed = FRAME.assign(x=FRAME["x"].where(FRAME.index != 7, np.nextafter(FRAME["x"], 9)))
    for other in (swapped, changed, FRAME[:-1], FRAME.assign(name="north")):
        assert fingerprint(other) != whole
    assert fingerprint(swapped).total == whole.total
    for other in (changed, FRAME[:-1], FRAME.assign(name="north")):
        assert fingerprint(other).total != whole.total


OTHERS = {
    "more": ((FRAME, FRAME[:3]), f"has at least {N + 3} rows and had {N}"),
    "fewer": ((FRAME[:20],), f"has 20 rows and had {N}"),
    "none": ((), "must have .* each time"),
    "other values": ((FRAME.assign(x=FRAME["x"] + 1e-9),), "has other values in its 60 rows"),
    "exchanged values": ((FRAME.assign(x=FRAME["x"].values[::-1]),), "has other values"),
}
REORDERED = (FRAME[30:], FRAME[:30][::-1])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("held", [0, 2**25])
@pytest.mark.parametrize("name", OTHERS)
def test_no_fit_is_made_of_other_rows(name, kind, held, monkeypatch):
    monkeypatch.setattr(training, "HELD", held)
    frames, message = OTHERS[name]
    source = OtherRowsLater(FRAME[:30], FRAME[30:], later=frames)
    with pytest.raises(ValueError, match=message):
        bx.GP(source, "y", **MODELS[kind]).fit("map", progressbar=False)
    assert source.read >= 3


class InAnyOrder(Rows):
    """Frames whose rows have another order each time, as those of partitions of a merge have."""

    def __init__(self, *frames):
        super().__init__(*frames)
        self.rng = np.random.default_rng(3)

    def __iter__(self):
        return (frame.sample(frac=1.0, random_state=self.rng) for frame in self.frames)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("held", [0, 2**25])
def test_sums_over_the_same_rows_know_no_order(kind, held, monkeypatch):
    monkeypatch.setattr(training, "HELD", held)
    table = FRAME[["x", "y"]]
    points = {"approximation": bx.Inducing(table[["x"]].values[:5])} if kind == "rows" else {}
    source = InAnyOrder(table[:30], table[30:])
    model = bx.GP(source, "y", **MODELS[kind] | points)
    whole = bx.GP(table[["x"]], table["y"], **MODELS[kind] | points)
    theta = {"lengthscale": [0.8], "amplitude": 1.1, "sigma": 0.4}
    one, same = (Density(m.objective, jacobian=True) for m in (model, whole))
    x = same.unconstrain(theta)
    (value, slopes), (expected, own) = (d.value_and_slope()(x) for d in (one, same))
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(slopes, own, rtol=1e-9, atol=1e-9)
    new = table[["x"]][:4]
    found, given = (bx.predictions(m, theta, new, **QUIET) for m in (model, whole))
    np.testing.assert_allclose(found["f_mean"], given["f_mean"], atol=1e-9)
    with pytest.raises(ValueError, match="rows in another order.*begin anew each time"):
        bx.predictions(model, theta, keep="summary", **QUIET)
    if kind == "sums":
        with pytest.raises(ValueError, match="rows in another order"):
            bx.log_likelihood(model, theta, obs=[3], progressbar=False)


OTHERS_TO_EXPLAIN = OTHERS | {"another order": (REORDERED, "60 rows in another order than")}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", OTHERS_TO_EXPLAIN)
def test_nothing_is_explained_of_other_rows(name, kind, tmp_path, monkeypatch):
    """What was written of them is written again once the rows are back."""
    monkeypatch.setattr(answered, "PART", 16)
    frames, message = OTHERS_TO_EXPLAIN[name]
    source = Rows(FRAME[:30], FRAME[30:])
    model = bx.GP(source, "y", **MODELS[kind])
    idata = THETA
    asked = {"path": tmp_path / "store", "draws": 2, **QUIET}
    source.frames = frames
    for options in (asked, {"keep": "summary", **QUIET}):
        with pytest.raises(ValueError, match=message):
            bx.predictions(model, idata, **options)
    source.frames = (FRAME,)
    found = bx.predictions(model, idata, **asked)
    whole = bx.predictions(model, idata, **asked | {"path": tmp_path / "other"})
    xr.testing.assert_identical(found.load(), whole.load())


def test_summaries_of_all_rows_go_to_a_store(tmp_path, monkeypatch):
    monkeypatch.setattr(answered, "PART", 16)
    model = bx.GP(Rows(FRAME), "y", **MODELS["sums"])
    idata = THETA
    asked = {"keep": "summary", **QUIET}
    found = bx.attributions(model, idata, path=tmp_path / "store", **asked)
    expected = bx.attributions(model, idata, **asked)
    assert set(found.variables) == set(expected.variables)
    xr.testing.assert_allclose(found.load(), expected, rtol=1e-12)
    assert bx.attributions(model, idata, path=tmp_path / "store", **asked).identical(found)
    with pytest.raises(ValueError, match=r"Leave path out, and write .* by .to_zarr"):
        bx.attributions(model, idata, FRAME.drop(columns="y"), path=tmp_path / "new", **asked)


def test_a_path_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file")
    model = bx.GP(Rows(FRAME), "y", **MODELS["sums"])
    idata = THETA
    for X_new in (None, FRAME.drop(columns="y")):
        with pytest.raises(ValueError, match="nothing can be written in .*Pass a path"):
            bx.predictions(model, idata, X_new, path=tmp_path / "file" / "store", **QUIET)
