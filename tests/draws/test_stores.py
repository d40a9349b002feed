"""Draws streamed to a store: nothing is lost on the way, and an interruption costs little."""

import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from numpy.testing import assert_allclose, assert_array_equal

import bayes_gpx as bx
from bayes_gpx.draws import each_draw, random_functions, results, stores
from bayes_gpx.explain import answered
from executors import Sent

PARTS = ("", "_mean", "_sd", "_cov", "_interval")
ARRAYS = [f"contribution{part}" for part in PARTS]
OPTIONS = {"covariance": True, "progressbar": False}


@pytest.fixture(scope="module")
def model(regression):
    X, Z, y, _, _ = regression
    return bx.GPX(X, y, Z)


@pytest.fixture(scope="module")
def fit():
    """Two chains of four draws."""
    rng = np.random.default_rng(2)
    shapes = {"lengthscale": (2, 4, 2), "amplitude": (2, 4), "sigma": (2, 4), "sigma_w": (2, 4)}
    posterior = xr.Dataset(
        {
            name: (("chain", "draw", "feature")[: len(shape)], rng.uniform(0.3, 2.0, shape))
            for name, shape in shapes.items()
        },
        {"chain": [0, 1], "draw": range(4), "feature": ["age", "dose"]},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.fixture
def stopping(monkeypatch):
    """Have draws end by an error at the k-th block; sums are kept after each."""

    def at(k, error=KeyboardInterrupt):
        monkeypatch.setattr(stores, "PAUSE", 0.0)
        monkeypatch.setattr(each_draw, "BLOCK_BYTES", 2000)  # some rows a block
        sample, left = results.Result.sample, [k]

        def stopped(self, *arguments):
            left[0] -= 1
            if left[0] < 0:
                raise error
            return sample(self, *arguments)

        monkeypatch.setattr(results.Result, "sample", stopped)
        return left

    return at


def opened(path):
    return xr.open_zarr(path, chunks=None).load()


KILLED = """
import os, pickle, signal, sys
import bayes_gpx as bx
from bayes_gpx.draws import each_draw, results, stores
data, fit, options, path = pickle.load(open(sys.argv[1], "rb"))
stores.PAUSE, each_draw.BLOCK_BYTES, left = 0.0, 2000, [10]
sample = results.Result.sample

def killed(self, *arguments):
    left[0] -= 1
    return sample(self, *arguments) if left[0] >= 0 else os.kill(os.getpid(), signal.SIGKILL)

results.Result.sample = killed
bx.contributions(bx.GPX(*data), fit, **options, path=path)
"""


def test_a_kill_costs_neither_the_earlier_store_nor_what_is_done(
    model, fit, regression, tmp_path, stopping
):
    X, Z, y, _, _ = regression
    left = stopping(10**6)
    path, options = tmp_path / "draws.zarr", OPTIONS | {"seed": 4}
    earlier = bx.contributions(model, fit, seed=1, progressbar=False, path=path).load()
    given = tmp_path / "given.pkl"
    given.write_bytes(pickle.dumps(((X, y, Z), fit, options, path)))
    done = subprocess.run([sys.executable, "-c", KILLED, str(given)])
    assert done.returncode == -signal.SIGKILL
    xr.testing.assert_identical(opened(path), earlier)
    values = zarr.open_group(tmp_path / "draws.zarr.unfinished" / "store", mode="r")
    values = values["contribution"][...]
    assert np.isfinite(values[0, 0]).all() and np.isnan(values[1, -1]).all()
    assert not (values == 0.0).any()

    left[0] = 10**6
    at_once = bx.contributions(model, fit, **options)
    blocks, left[0] = 10**6 - left[0], 10**6
    resumed = bx.contributions(model, fit, **options, path=path)
    assert 10**6 - left[0] == blocks - 10  # no block is computed again
    for name in ARRAYS:
        assert_array_equal(resumed[name], at_once[name])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draws.zarr", "given.pkl"]


def test_an_interruption_without_a_seed_goes_on_with_the_one_that_was_drawn(
    model, fit, tmp_path, stopping
):
    path, left = tmp_path / "draws.zarr", stopping(5)
    with pytest.raises(KeyboardInterrupt):
        bx.contributions(model, fit, **OPTIONS, path=path)
    unfinished = zarr.open_group(f"{path}.unfinished/store", mode="r")
    before = unfinished["contribution"][...]
    left[0] = 10**6
    after = bx.contributions(model, fit, **OPTIONS, path=path)["contribution"].values
    known = np.isfinite(before)
    assert known.any() and not known.all() and np.isfinite(after).all()
    assert_array_equal(after[known], before[known])


def test_what_was_held_at_an_interruption_is_computed_again(
    model, fit, tmp_path, stopping, monkeypatch
):
    """Chunks are written with the sums over what is done, here after every fourth block."""
    path, left, options = tmp_path / "draws.zarr", stopping(10**6), OPTIONS | {"seed": 4}
    at_once = bx.contributions(model, fit, **options)
    blocks = 10**6 - left[0]
    left[0], keep, called = 10, stores.DrawStore.keep, []

    def seldom(self, *given):
        called.append(given)
        if len(called) % 4 == 0:
            keep(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(stores.DrawStore, "keep", seldom)
        with pytest.raises(KeyboardInterrupt):
            bx.contributions(model, fit, **options, path=path)
    values = zarr.open_group(f"{path}.unfinished/store", mode="r")["contribution"][...]
    left[0] = 10**6
    resumed = bx.contributions(model, fit, **options, path=path)
    again = 10**6 - left[0]
    assert again == blocks - 8
    assert 0.3 < np.isfinite(values).mean() < 0.4  # eight blocks of twenty-four
    for name in ARRAYS:
        assert_array_equal(resumed[name], at_once[name])


def test_other_arguments_are_not_mixed_with_an_unfinished_store(model, fit, tmp_path, stopping):
    path, left = tmp_path / "draws.zarr", stopping(5)
    with pytest.raises(KeyboardInterrupt):
        bx.contributions(model, fit, **OPTIONS, seed=1, path=path)
    left[0] = 10**6
    others = fit.isel(draw=[0, 1, 3])
    for verb, idata, options in (
        (bx.contributions, fit, {"seed": 2}),
        (bx.contributions, others, {"seed": 1}),
        (bx.contributions, fit, {"seed": 1, "features": ["a"]}),
        (bx.weights, fit, {"seed": 1}),
    ):
        with pytest.raises(ValueError, match="unfinished store of other arguments"):
            verb(model, idata, **OPTIONS, **options, path=path)
    bx.contributions(model, fit, **OPTIONS, seed=1, path=path)
    assert [p.name for p in tmp_path.iterdir()] == ["draws.zarr"]


def test_an_error_leaves_the_earlier_store(model, fit, tmp_path, stopping):
    path, left = tmp_path / "draws.zarr", stopping(10**6)
    earlier = bx.predictions(model, fit, seed=1, progressbar=False, path=path).load()
    with pytest.raises(ValueError, match="features"):
        bx.contributions(model, fit, features=["no such"], path=path)
    left[0] = 5
    stopping(5, ValueError)
    with pytest.raises(ValueError):
        bx.contributions(model, fit, **OPTIONS, path=path)
    xr.testing.assert_identical(opened(path), earlier)


def test_a_path_has_room_for_intervals_where_memory_has_none(model, fit, tmp_path, monkeypatch):
    options = {"seed": 1, "ci_prob": 0.5, "progressbar": False}
    expected = bx.predictions(model, fit, **options)
    monkeypatch.setattr(results, "MOST_NUMBERS", 8)
    assert "f_interval" not in bx.predictions(model, fit, **options)
    found = bx.predictions(model, fit, **options, path=tmp_path / "draws.zarr")
    assert found.attrs["ci_prob"] == 0.5
    for name in ("f_interval", "y_interval"):
        assert_array_equal(found[name], expected[name])


def draws_first(size):
    """All rows of each draw: first, block after block."""
    return [(draw, slice(k, k + size)) for draw in range(37) for k in range(0, 50, size)]


@pytest.mark.parametrize(
    "order",
    [
        draws_first(20),
        draws_first(50),
        sorted(draws_first(16), key=lambda at: at[1].start),
        [(draw, np.arange(k, 50, 3)) for draw in range(37) for k in range(3)],
    ],
    ids=["blocks", "whole", "rows first", "every third"],
)
@pytest.mark.parametrize("room", [1, 7 * 16 * 8])
def test_chunks_hold_what_was_set_and_are_written_once_where_there_is_room(tmp_path, order, room):
    values, written = np.random.default_rng(1).normal(size=(1, 37, 50)), []
    store = zarr.create_array(
        tmp_path / "draws.zarr", shape=values.shape, chunks=(1, 16, 8), dtype="float64"
    )
    array = stores.ChunkedArray(store, room)
    write_one = array._write_one
    array._write_one = lambda chunk: (written.append(chunk), write_one(chunk))
    for draw, rows in order:
        array[0, slice(draw, draw + 1), rows] = values[0][draw : draw + 1, rows]
        assert len(array._held) <= room // (16 * 8) + 1
    array.write()
    assert_array_equal(store[...], values)
    if room > 1:
        assert len(written) == len(set(written)) == 3 * 7


def test_draws_of_many_rows_are_written_a_few_chunks_at_a_time(model, tmp_path, monkeypatch):
    """Chunks of 16 draws are not written with each draw."""
    rng, written = np.random.default_rng(1), []
    drawn = {"lengthscale": (1, 32, 2), "amplitude": (1, 32), "sigma": (1, 32), "sigma_w": (1, 32)}
    posterior = {
        name: (("chain", "draw", "feature")[: len(shape)], rng.uniform(0.3, 2.0, shape))
        for name, shape in drawn.items()
    }
    idata = xr.DataTree.from_dict(
        {"posterior": xr.Dataset(posterior, {"feature": ["age", "dose"]})}
    )
    write = zarr.Array.__setitem__
    monkeypatch.setattr(
        zarr.Array, "__setitem__", lambda self, *at: (written.append(self.shape), write(self, *at))
    )
    options = {"progressbar": False, "seed": 1}
    found = bx.weights(model, idata, path=tmp_path / "draws.zarr", **options)
    assert_array_equal(found["weight"], bx.weights(model, idata, **options)["weight"])
    assert written.count(found["weight"].shape) == 2


def test_draws_that_come_together_are_written_together(model, tmp_path, monkeypatch):
    """Of a single draw of the hyperparameters; of several arrays, with little room."""
    monkeypatch.setattr(stores, "HELD", 2**8)
    monkeypatch.setattr(stores, "CHUNK", 2**9)
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 2000)
    theta, written = {"lengthscale": 1.0, "amplitude": 1.0, "sigma": 0.5, "sigma_w": 0.5}, []
    write = stores.ChunkedArray._write_one

    def counting(self, chunk):
        written.append((self._array.name, str(chunk)))
        write(self, chunk)

    monkeypatch.setattr(stores.ChunkedArray, "_write_one", counting)
    options = {"draws": 60, "progressbar": False, "seed": 1}
    found = bx.contributions(model, theta, path=tmp_path / "draws.zarr", **options)
    expected = bx.contributions(model, theta, **options)
    assert len({name for name, _ in written}) == 1 + ("f" in found)
    assert max(map(written.count, written)) <= 2  # where a chunk lies in two blocks of rows
    assert_array_equal(found["contribution"], expected["contribution"])


def test_only_what_the_package_wrote_is_replaced(model, fit, tmp_path):
    options = {"seed": 1, "progressbar": False}
    foreign = tmp_path / "foreign.zarr"
    zarr.open_group(foreign, mode="w").create_array("measured", shape=3, dtype="float64")[:] = 1.0
    (foreign / "notes.txt").write_text("years of work")
    mixed = tmp_path / "mixed.zarr"
    bx.predictions(model, fit, **options, path=mixed)
    bx.predictions(model, fit, **options, path=mixed)
    zarr.open_group(mixed, mode="r+").create_array("measured", shape=3, dtype="float64")[:] = 1.0
    for path in (foreign, mixed):
        with pytest.raises(ValueError, match="left as it is"):
            bx.predictions(model, fit, **options, path=path)
        assert (zarr.open_array(path / "measured", mode="r")[:] == 1.0).all()
    assert (foreign / "notes.txt").read_text() == "years of work"
    in_the_way = tmp_path / "new.zarr.unfinished"
    in_the_way.mkdir()
    (in_the_way / "notes.txt").write_text("years of work")
    with pytest.raises(ValueError, match="in the way"):
        bx.predictions(model, fit, **options, path=tmp_path / "new.zarr")
    assert (in_the_way / "notes.txt").read_text() == "years of work"


def test_the_result_of_another_function_is_not_replaced(model, fit, tmp_path):
    options, path = {"seed": 1, "progressbar": False}, tmp_path / "draws.zarr"
    found = bx.attributions(model, fit, **options, path=path)
    with pytest.raises(ValueError, match="another function, with attribution.*left as it is"):
        bx.derivatives(model, fit, **options, path=path)
    assert_array_equal(opened(path)["attribution"], found["attribution"])
    bx.attributions(model, fit, **{**options, "seed": 2}, path=path)  # replaces its own


def test_a_link_to_a_store_stays_a_link(model, fit, tmp_path):
    link, target = tmp_path / "link.zarr", tmp_path / "elsewhere" / "draws.zarr"
    target.parent.mkdir()
    link.symlink_to(target)
    for seed in (1, 2):
        found = bx.predictions(model, fit, seed=seed, progressbar=False, path=link)
        assert_array_equal(opened(target)["y"], found["y"])
    assert link.is_symlink() and [p.name for p in target.parent.iterdir()] == ["draws.zarr"]


def test_a_foreign_path_is_refused_before_functions_are_drawn(regression, tmp_path, monkeypatch):
    counts = bx.GP(regression[0], np.arange(14) % 3, likelihood="poisson")
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0}
    drawn = lambda *_, **__: pytest.fail("functions were drawn")  # noqa: E731
    monkeypatch.setattr(random_functions, "draw_functions", drawn)
    (tmp_path / "notes.txt").write_text("years of work")
    with pytest.raises(ValueError, match="left as it is"):
        bx.derivatives(counts, theta, path=tmp_path)


@pytest.mark.parametrize(
    ("likelihood", "mean"), [("bernoulli", "probability"), ("poisson", "rate"), ("student_t", None)]
)
def test_new_responses_are_streamed_and_resumed(regression, tmp_path, stopping, likelihood, mean):
    """To the numbers of one go in memory; what was asked for otherwise is not mixed with them."""
    X, _, y, X_new, _ = regression
    y = {"bernoulli": y > y.median(), "poisson": np.arange(len(y)) % 4, "student_t": y}[likelihood]
    model = bx.GP(X, y, likelihood=likelihood)
    theta = {"lengthscale": [1.0, 2.0], "amplitude": 1.0, "sigma": 0.3, "nu": 4.0}
    theta = {name: theta[name] for name in model.hyperparameters}
    path, left = tmp_path / "draws.zarr", stopping(10**6)
    options = {"draws": 30, "seed": 1, "progressbar": False}
    X_new = pd.concat([X_new] * 10, ignore_index=True)  # five blocks of 8 rows
    known = {"exposure": np.arange(1.0, 41.0)} if likelihood == "poisson" else {}
    expected = bx.predictions(model, theta, X_new, **known, **options)
    left[0] = 2
    with pytest.raises(KeyboardInterrupt):
        bx.predictions(model, theta, X_new, **known, **options, path=path)
    left[0] = 10**6
    if known:
        with pytest.raises(ValueError, match="unfinished store of other arguments"):
            bx.predictions(model, theta, X_new, **options, path=path)
    left[0] = 3
    found = bx.predictions(model, theta, X_new, **known, **options, path=path)
    assert left[0] == 0  # two blocks were kept
    names = ["f", "y", "f_mean", "f_interval", "y_mean" if mean is None else f"{mean}_mean"]
    of_mean = [] if mean is None else [mean, f"{mean}_sd", f"{mean}_interval"]
    for name in names + of_mean:
        assert_array_equal(found[name], expected[name])
    if mean is not None:
        assert_allclose(found[f"{mean}_sd"], found[mean].std(("chain", "draw")), rtol=1e-10)


@pytest.mark.parametrize("ends", [True, False], ids=["finished", "begun"])
def test_of_two_calls_with_one_path_the_earlier_ends_and_spoils_nothing(
    model, fit, tmp_path, monkeypatch, ends
):
    """The second call comes between two blocks of the first, and ends before it or is stopped."""
    monkeypatch.setattr(stores, "PAUSE", 0.0)
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", 2000)
    path, expected = tmp_path / "store", bx.weights(model, fit, seed=3, **OPTIONS)
    sample, blocks = results.Result.sample, iter(range(10**6))

    def with_another(self, *arguments):
        block = next(blocks)
        if block == 4 and ends:
            bx.weights(model, fit, seed=3, path=path, **OPTIONS)
        elif block == 4:
            with pytest.raises(KeyboardInterrupt):
                bx.weights(model, fit, seed=3, path=path, **OPTIONS)
        elif block == 7 and not ends:
            raise KeyboardInterrupt
        return sample(self, *arguments)

    monkeypatch.setattr(results.Result, "sample", with_another)
    with pytest.raises(ValueError, match="another call has written.*pass another path"):
        bx.weights(model, fit, seed=3, path=path, **OPTIONS)
    if not ends:
        assert not path.exists()
        bx.weights(model, fit, seed=3, path=path, **OPTIONS)
    xr.testing.assert_allclose(opened(path), expected.load())
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_threads_with_one_path_leave_one_whole_store(model, fit, tmp_path):
    path, expected = tmp_path / "store", bx.weights(model, fit, seed=3, **OPTIONS)

    def call(_):
        try:
            return bx.weights(model, fit, seed=3, path=path, **OPTIONS)
        except ValueError as lost:
            assert "another call" in str(lost)  # noqa: PT017

    with ThreadPoolExecutor(4) as executor:
        found = [*executor.map(call, range(4))]
    assert any(one is not None for one in found)
    xr.testing.assert_allclose(opened(path), expected.load())
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("taken", ["moved", "claimed", "kept"])
def test_an_array_that_vanishes_within_a_write_means_another_call_took_the_folder(tmp_path, taken):
    """Between the look at the claim and the opening of an array, another call can move both."""
    folder = tmp_path / "store.unfinished"
    group = zarr.open_group(folder / "store", mode="w")
    claim = stores.Claim(folder, tmp_path / "store")
    error = KeyError if taken == "kept" else ValueError
    with pytest.raises(error, match="weight" if taken == "kept" else "another call"), claim.held():
        if taken == "moved":
            folder.rename(tmp_path / "away")
        elif taken == "claimed":  # without locks
            (folder / "claimed").write_text("another call")
        group["weight"]


def test_a_folder_is_claimed_written_or_moved_by_one_call_at_a_time(tmp_path):
    """A claim waits for a write, and a move for a claim; writes with one claim do not wait."""
    folder = tmp_path / "store.unfinished"
    folder.mkdir()
    first = stores.Claim(folder, tmp_path / "store")

    def finish():
        with first.held(alone=True):
            return first.moved_away()

    with ThreadPoolExecutor(1) as executor:
        with first.held(), first.held():
            claimed = executor.submit(stores.Claim, folder, tmp_path / "store")
            time.sleep(0.05)
            assert not claimed.done()
        claimed.result()
        first = stores.Claim(folder, tmp_path / "store")
        with stores.locked(folder):
            moved = executor.submit(finish)
            time.sleep(0.05)
            assert not moved.done() and folder.exists()
            (folder / "claimed").write_text("another call")
        with pytest.raises(ValueError, match="another call has written"):
            moved.result()
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.unfinished"]


def test_what_a_killed_write_left_in_a_store_is_no_foreign_file(tmp_path):
    """Zarr writes zarr.json next to its place; a process that is killed there leaves the copy."""
    store = tmp_path / "store"
    zarr.open_group(store, mode="w").attrs[stores.WRITTEN] = ["weight"]
    (store / f"zarr.{'0a' * 16}.partial").touch()
    stores.refuse_foreign(store)
    (store / "zarr.notes.partial").touch()
    with pytest.raises(ValueError, match="holds zarr.notes.partial next to"):
        stores.refuse_foreign(store)


@pytest.mark.parametrize(
    "function, options",
    [
        (bx.attributions, {}),
        (bx.derivatives, {}),
        (bx.shapley_values, {"method": "permutations"}),
        (bx.attributions, {"on": "latent"}),
        (bx.attributions, {"on": "latent", "of": "log_variance"}),
    ],
)
def test_a_path_of_summaries_is_refused_on_every_scale(tmp_path, function, options):
    X = np.random.default_rng(1).normal(size=(12, 2))
    model = bx.GP(X, np.where(X[:, 0] > 0, "high", "low"), likelihood="bernoulli")
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 2.0}
    options = options | {"keep": "summary", "path": tmp_path / "store", "progressbar": False}
    with pytest.raises(ValueError, match="path was given with keep='summary'"):
        function(model, theta, X[:2], **options)


@pytest.mark.parametrize("space", ["draws", "rows"])
def test_changed_bytes_of_a_store_are_never_other_numbers(fit, model, tmp_path, space, monkeypatch):
    """One bit of each chunk, of arrays that are written one by one, and of coordinates too."""
    path, executor = tmp_path / "store.zarr", Sent() if space == "rows" else None
    if executor:
        monkeypatch.setattr(answered, "PART", 8)
        monkeypatch.setattr(answered, "LEAST", 8)
    bx.contributions(model, fit, path=path, seed=1, executor=executor, progressbar=False)
    chunks, rng = [f for f in path.rglob("c/**/*") if f.is_file()], np.random.default_rng(1)
    assert {f.relative_to(path).parts[0] for f in chunks} > {"contribution", "obs", "feature"}
    for chunk in chunks:
        whole = chunk.read_bytes()
        changed = bytearray(whole)
        changed[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        chunk.write_bytes(changed)
        with pytest.raises((RuntimeError, ValueError)):
            opened(path)
        chunk.write_bytes(whole)
    opened(path)


@pytest.mark.parametrize("damage", ["sums.npz", "asked.json", "chunk"])
def test_a_damaged_unfinished_store_is_refused_and_spares_the_earlier_one(
    model, fit, tmp_path, stopping, damage
):
    path, ask = tmp_path / "store.zarr", {"path": tmp_path / "store.zarr", **OPTIONS}
    bx.contributions(model, fit, seed=1, **ask)
    earlier, folder = opened(path), tmp_path / "store.zarr.unfinished"
    left = stopping(20)
    with pytest.raises(KeyboardInterrupt):
        bx.contributions(model, fit, seed=2, **ask)
    chunk = next(f for f in (folder / "store").rglob("c/**/*") if f.is_file())
    place = chunk if damage == "chunk" else folder / damage
    changed = bytearray(place.read_bytes())
    changed[len(changed) // 2] ^= 1
    place.write_bytes(changed)
    left[0] = 10**9
    with pytest.raises(ValueError, match=r"store.zarr.unfinished holds an unfinished .* Remove it"):
        bx.contributions(model, fit, seed=2, **ask)
    assert opened(path).identical(earlier)


def test_a_store_is_replaced_in_one_step(model, fit, tmp_path, monkeypatch):
    """A process that is killed at any renaming leaves the earlier store, or the new one."""
    path, rename, there = tmp_path / "store.zarr", Path.rename, []

    def renamed(self, target):
        there.append(path.exists())
        return rename(self, target)

    ask = {"path": path, "progressbar": False}
    bx.contributions(model, fit, seed=1, **ask)
    monkeypatch.setattr(Path, "rename", renamed)
    bx.contributions(model, fit, seed=2, **ask)
    assert there and all(there)
