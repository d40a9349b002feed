"""Damaged and tampered files: the same numbers, or one ValueError that says what to do."""

import functools
import gc
import json
import resource
import sys
import threading
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.processes import approximations
from bayes_gpx.system.digests import SEAL

WITHOUT_CHECKSUM = Path(__file__).parent / "files" / "format_1.nc"
"""A GPX of 8 rows, with a categorical column and inducing points, before files had checksums."""


@pytest.fixture(scope="module")
def kept(regression, tmp_path_factory):
    """Bytes of a file, and the draws in it."""
    X, _, y, _, _ = regression
    model = bx.GP(X, y, approximation=bx.Inducing(3))
    path = tmp_path_factory.mktemp("kept") / "m.nc"
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.5}
    bx.save(model, model.fit("map", start=start, progressbar=False), path)
    return path.read_bytes(), bx.load(path)[1]["posterior"].to_dataset()


def load(data, tmp_path):
    """What a file of these bytes holds, or None where it is refused as it should be."""
    path = tmp_path / "damaged.nc"
    path.write_bytes(data)
    try:
        return bx.load(path)[1]["posterior"].to_dataset()
    except ValueError as refused:
        assert str(path) in str(refused) and "save" in str(refused), refused
        return None


def test_a_file_without_a_checksum_is_read():
    model, idata = bx.load(WITHOUT_CHECKSUM)
    assert model.training.X.levels == {"kind": ("a", "b", "c")}
    assert model.fixed["sigma"] == 0.3 and idata["posterior"].sizes["draw"] == 3
    X = model.training.X
    found = bx.predictions(model, idata, X.values, keep="summary", progressbar=False)["f_mean"]
    # as that version of the package predicted them
    assert_allclose(found[:3], [95.76908758, 106.21108838, 94.66260392], rtol=1e-6)


def test_truncated_files_are_refused(kept, tmp_path):
    data, _ = kept
    for length in np.linspace(0, len(data) - 1, 40).astype(int):
        assert load(data[:length], tmp_path) is None
    assert load(data[:-1] + bytes(3), tmp_path) is None
    assert load(WITHOUT_CHECKSUM.read_bytes()[:-20_000], tmp_path) is None


def test_flipped_bytes_are_refused(kept, tmp_path):
    data, draws = kept
    places = np.random.default_rng(1).integers(0, len(data), 60)
    seal = data.index(SEAL.encode())
    for place in [*places, *range(seal, seal + 90, 6)]:
        flipped = bytearray(data)
        flipped[place] ^= 0xFF
        assert load(flipped, tmp_path) is None
    lost = data[: seal - 20] + bytes(110) + data[seal + 90 :]  # the whole checksum, and beside it
    assert load(lost, tmp_path) is None
    assert load(data, tmp_path).identical(draws)


def test_what_is_refused_leaves_no_other_message(tmp_path, monkeypatch):
    """Also in files without a checksum, and when what was half open is collected."""
    gc.freeze()  # what other tests left
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: ignored.append(said.exc_value))
    data, places = WITHOUT_CHECKSUM.read_bytes(), np.random.default_rng(1)
    for _ in range(20):
        changed = bytearray(data)
        for place in places.integers(0, len(data), 30):
            changed[place] ^= 0xFF
        load(changed, tmp_path)
    with h5py.File(tmp_path / "other.nc", "w") as file:
        file["x"] = np.arange(3)
    load((tmp_path / "other.nc").read_bytes(), tmp_path)
    gc.collect()
    assert not ignored


@functools.cache
def untouched():
    return xr.load_datatree(BytesIO(WITHOUT_CHECKSUM.read_bytes()), engine="h5netcdf")


def tampered(change):
    """Bytes of the file without a checksum, its tree or settings changed by a function.

    What the function returns, if anything, stands in the place of all settings.
    """
    tree = untouched().copy(deep=True)
    settings = json.loads(tree["bayes_gpx"].attrs["settings"])
    tree["bayes_gpx"].attrs["settings"] = change(tree, settings) or json.dumps(settings)
    return bytes(tree.to_netcdf(engine="h5netcdf"))


def without(group, name):
    def change(tree, settings):
        tree[group] = xr.DataTree(tree[group].to_dataset().drop_vars(name))

    return change


def setting(name, value, *inside):
    def change(tree, settings):
        for part in inside:
            settings = settings[part]
        settings[name] = value

    return change


SPEC = "specification"
CHANGES = {
    "no posterior": lambda tree, settings: tree.__delitem__("posterior"),
    "settings are empty": lambda tree, settings: "{}",
    "settings are numbers": lambda tree, settings: [1, 2],
    "settings are deeply nested": lambda tree, settings: 30_000 * "[" + 30_000 * "]",
    **{f"no {name}": without("bayes_gpx", name) for name in ("X", "y", "X_center", "Z_scale")},
    "no lengthscale": without("posterior", "matern52_lengthscale"),
    "no fixed prior": without("bayes_gpx", "fixed_sigma"),
    "format is text": setting("format", "odd"),
    "center is text": setting("y_center", "odd"),
    "labels are a number": setting("labels", 7),
    "levels are a number": setting("levels", 7),
    "fixed priors are text": setting("fixed_priors", "odd"),
    "callable_priors is 7": setting("callable_priors", 7),
    "specification is 7": setting(SPEC, 7),
    "kernel is 7": setting("kernel", 7, SPEC),
    "kernel is unknown": setting("kernel", "cubic", SPEC),
    "family is unknown": setting("family", "GPT", SPEC),
    "another likelihood": setting("likelihood", "poisson", SPEC),
    "unknown entry": setting("colour", "red", SPEC),
    "another approximation": setting("approximation", ["RandomFeatures", {"m": 4}], SPEC),
    "points are text": setting("approximation", ["Inducing", {"m": "all", "seed": 0}], SPEC),
}


@pytest.mark.parametrize(
    "what", [pytest.param(n, marks=[pytest.mark.slow] * (k % 2)) for k, n in enumerate(CHANGES)]
)
def test_tampered_files_are_refused(what, tmp_path):
    assert load(tampered(CHANGES[what]), tmp_path) is None


def test_a_file_builds_only_what_is_listed(tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(approximations, "surprise", lambda **given: built.append(given), False)
    data = tampered(setting("approximation", ["surprise", {"m": 4}], SPEC))
    assert load(data, tmp_path) is None and not built


def test_savers_of_one_path_do_not_meet(regression, tmp_path):
    X, _, y, _, _ = regression
    models = [bx.GP(X, y), bx.GPX(X, y)]
    start = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.5, "sigma_w": 0.1}
    starts = [{name: start[name] for name in model.hyperparameters} for model in models]
    fits = [
        model.fit("map", start=one, progressbar=False)
        for model, one in zip(models, starts, strict=True)
    ]

    def keep(model, idata):
        for _ in range(2):
            bx.save(model, idata, tmp_path / "m.nc")

    writers = [threading.Thread(target=keep, args=pair) for pair in zip(models, fits, strict=True)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / "m.nc").exists():
            bx.load(tmp_path / "m.nc")
    for writer in writers:
        writer.join()
    assert [p.name for p in tmp_path.iterdir()] == ["m.nc"]


@contextmanager
def full_disk():
    """Let no file grow beyond 20 kB; Python ignores the signal and raises an OSError."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_an_error_and_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "m.nc"
    path.write_bytes(b"earlier")
    model, idata = bx.load(WITHOUT_CHECKSUM)
    with pytest.raises(OSError, match="File too large"), full_disk():
        bx.save(model, idata, path)
    assert path.read_bytes() == b"earlier" and [p.name for p in tmp_path.iterdir()] == ["m.nc"]
