"""Verbs about rows in parts say what they say of all rows at once; stores survive interruptions."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws import stores
from bayes_gpx.explain import answered

rng = np.random.default_rng(5)
N = 50
FRAME = pd.DataFrame({"a": rng.normal(size=N), "b": rng.uniform(size=N), "y": rng.normal(size=N)})
PARTS = [FRAME[:7], FRAME[7:31], FRAME[31:]]
X = FRAME[["a", "b"]]
THETA = {"lengthscale": [0.7, 1.1], "amplitude": 1.2, "sigma": 0.3}
QUIET = {"progressbar": False, "draws": 4, "seed": 1}
VERBS = [bx.predictions, bx.derivatives, bx.attributions, bx.shapley_values]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(answered, "PART", 16)


@pytest.fixture(scope="module")
def model():
    return bx.GP(PARTS, "y", approximation=bx.HSGP(4, 1.5))


def moments_agree(one, other):
    for name in other.data_vars:
        if name.endswith(("_mean", "_sd", "value")):
            np.testing.assert_allclose(one[name], other[name], atol=1e-12)


@pytest.mark.parametrize("verb", VERBS)
def test_training_rows_are_explained_part_by_part(model, verb):
    found = verb(model, THETA, keep="summary", **QUIET)
    assert found.sizes["obs"] == N
    assert found["obs"].values.tolist() == list(range(N))
    moments_agree(found, verb(model, THETA, X, keep="summary", **QUIET))


def test_weights_with_features_of_their_own():
    options = {"approximation": bx.HSGP(4, 1.5), "priors": {"sigma_w": 0.0}, "intercept": True}
    model = bx.GPX(PARTS, "y", ["b"], **options)
    theta = {"lengthscale": [0.7], "amplitude": 1.2, "sigma": 0.3}
    for verb in (bx.weights, bx.contributions):
        found = verb(model, theta, keep="summary", **QUIET)
        moments_agree(found, verb(model, theta, X[["a"]], X[["b"]], keep="summary", **QUIET))
    alone = bx.weights(model, theta, X[["a"]], keep="summary", **QUIET)
    with ThreadPoolExecutor(2) as executor:  # weights need no Z_new; contributions do
        shared = bx.weights(model, theta, X[["a"]], keep="summary", executor=executor, **QUIET)
        with pytest.raises(ValueError, match=r"Pass Z_new with the columns \['b'\]"):
            bx.contributions(model, theta, X[["a"]], executor=executor, keep="summary", **QUIET)
    for verb in (bx.derivatives, bx.attributions):
        asked = {"of": ("weight", "b"), "keep": "summary", **QUIET}
        expected = verb(model, theta, X[["a"]], **asked)
        moments_agree(verb(model, theta, **asked), expected)
        with ThreadPoolExecutor(2) as executor:
            moments_agree(verb(model, theta, X[["a"]], executor=executor, **asked), expected)
    moments_agree(shared, alone)


@pytest.mark.parametrize("verb", VERBS)
def test_stores_hold_the_same_for_any_executor(model, verb, tmp_path):
    alone = verb(model, THETA, path=tmp_path / "alone", **QUIET).load()
    with ThreadPoolExecutor(2) as executor:
        threads = verb(model, THETA, path=tmp_path / "two", executor=executor, **QUIET).load()
        table = bx.GP(X, FRAME["y"], approximation=bx.HSGP(4, 1.5))
        given = verb(table, THETA, X, executor=executor, keep="summary", **QUIET)
    xr.testing.assert_identical(alone, threads)
    moments_agree(given, alone)
    assert not alone.isnull().any().to_array().any()
    whole = verb(model, THETA, X, keep="summary", **QUIET)
    moments_agree(alone, whole)


def test_processes_write_parts_of_one_store(model, tmp_path):
    alone = bx.predictions(model, THETA, path=tmp_path / "alone", **QUIET).load()
    with ProcessPoolExecutor(1, get_context("fork")) as executor:
        found = bx.predictions(model, THETA, path=tmp_path / "two", executor=executor, **QUIET)
    xr.testing.assert_identical(alone, found.load())


def test_an_interrupted_store_goes_on_where_it_stopped(model, tmp_path, monkeypatch):
    whole = bx.predictions(model, THETA, path=tmp_path / "whole", **QUIET).load()
    write, written = stores.RowStore.write, []

    def stops(self, number, *part):
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, *part)

    with monkeypatch.context() as patched:
        patched.setattr(stores.RowStore, "write", stops)
        with pytest.raises(KeyboardInterrupt):
            bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    assert not (tmp_path / "store").exists()
    with pytest.raises(ValueError, match="unfinished store of other arguments"):
        bx.predictions(model, THETA, path=tmp_path / "store", **QUIET | {"draws": 5})

    def counts(self, number, *part):
        written.append(number)
        write(self, number, *part)

    monkeypatch.setattr(stores.RowStore, "write", counts)
    found = bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    assert written == [2, 3]
    xr.testing.assert_identical(found.load(), whole)


DEVIATING = {
    "basis": {"approximation": bx.HSGP(4, 1.5), "intercept": True},
    "points": {"approximation": bx.Inducing(X.values[::9]), "weight_prior": "per_feature"},
}


@pytest.mark.parametrize("kind", DEVIATING)
@pytest.mark.parametrize("verb", [bx.predictions, bx.weights, bx.contributions, bx.derivatives])
def test_rows_in_parts_deviate_as_those_of_a_table(verb, kind, tmp_path):
    """By what their own y says of it, as all training rows; new rows by the prior."""
    options = DEVIATING[kind]
    model = bx.GPX(PARTS, "y", ["b"], **options)
    table = bx.GPX(X[["a"]], FRAME["y"], X[["b"]], **options)
    amplitude = [1.2] if "weight_prior" in options else 1.2
    theta = {"lengthscale": [0.7], "amplitude": amplitude, "sigma": 0.3, "sigma_w": 0.5}
    expected = verb(table, theta, keep="summary", **QUIET)
    found = verb(model, theta, keep="summary", **QUIET)
    moments_agree(found, expected)
    assert found.attrs["samples"] == expected.attrs["samples"]
    with ThreadPoolExecutor(2) as executor:
        given = {"path": tmp_path / "store", "executor": executor}
        moments_agree(verb(model, theta, **given, **QUIET).load(), expected)
    new = X[["a"]][:4], X[["b"]][:4]
    moments_agree(*(verb(m, theta, *new, keep="summary", **QUIET) for m in (model, table)))


def test_a_large_frame_is_copied_once_however_many_parts_it_has(monkeypatch):
    copied, joined = [], np.concatenate

    def counting(arrays, *args, **options):
        copied.append(sum(map(np.size, arrays)))
        return joined(arrays, *args, **options)

    training = bx.GP([FRAME], "y", approximation=bx.HSGP(4, 1.5)).training
    monkeypatch.setattr(np, "concatenate", counting)
    parts = [chunk.X.values for chunk in training.chunks(2)]
    assert [*map(len, parts)] == [2] * (N // 2)
    assert sum(copied) <= 2 * X.size
    np.testing.assert_array_equal(np.vstack(parts), X.values)


@pytest.mark.parametrize("verb", VERBS)
def test_draws_of_a_part_are_so_many_numbers_at_most(model, tmp_path, monkeypatch, verb):
    """The more draws, the fewer rows; as many with any executor."""
    monkeypatch.setattr(answered, "LEAST", 3)
    monkeypatch.setattr(answered, "NUMBERS", 1500)
    sizes, write = [], stores.RowStore.write

    def measures(self, number, part, rows):
        sizes.append(sum(v.size for v in part.data_vars.values() if "draw" in v.dims))
        write(self, number, part, rows)

    monkeypatch.setattr(stores.RowStore, "write", measures)
    options = QUIET | {"draws": 100}
    alone = verb(model, THETA, path=tmp_path / "alone", **options).load()
    drawn = sum(v.size for v in alone.data_vars.values() if "draw" in v.dims)
    assert 500 < sizes[0] == max(sizes) <= 1500 < sum(sizes) == drawn
    with ThreadPoolExecutor(2) as executor:
        found = verb(model, THETA, path=tmp_path / "two", executor=executor, **options)
    xr.testing.assert_identical(found.load(), alone)


def test_a_resumed_store_keeps_the_parts_that_it_began_with(model, tmp_path, monkeypatch):
    whole = bx.predictions(model, THETA, path=tmp_path / "whole", **QUIET).load()
    write = stores.RowStore.write

    def stops(self, number, *part):
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, *part)

    with monkeypatch.context() as patched:
        patched.setattr(stores.RowStore, "write", stops)
        with pytest.raises(KeyboardInterrupt):
            bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    monkeypatch.setattr(answered, "PART", 10)
    found = bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    xr.testing.assert_identical(found.load(), whole)


def test_finished_stores_are_replaced_and_others_refused(model, tmp_path):
    bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    again = bx.predictions(model, THETA, path=tmp_path / "store", **QUIET | {"draws": 2})
    assert again.sizes["draw"] == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("kept")
    with pytest.raises(ValueError, match="left as it is"):
        bx.predictions(model, THETA, path=tmp_path / "mine", **QUIET)


def test_results_of_other_functions_are_left_as_they_are(model, tmp_path):
    first = bx.predictions(model, THETA, path=tmp_path / "store", **QUIET).load()
    with pytest.raises(ValueError, match="the result of another function, with .*left as it is"):
        bx.attributions(model, THETA, path=tmp_path / "store", **QUIET)
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]
    again = bx.predictions(model, THETA, path=tmp_path / "store", **QUIET)
    xr.testing.assert_identical(again.load(), first)


@pytest.mark.parametrize(
    "options, message",
    [({}, "need a path="), ({"joint": True}, "joint was given"), ({"obs": [3]}, "obs was given")],
)
def test_refuses(model, options, message):
    with pytest.raises(ValueError, match=message):
        bx.predictions(model, THETA, **QUIET, **options)


def test_another_table_of_the_same_size_does_not_resume(model, tmp_path, monkeypatch):
    """Nor another baseline, though both are arrays that print alike."""

    def stops(self, number, *part):
        raise KeyboardInterrupt

    options = {"path": tmp_path / "store", **QUIET}
    with ThreadPoolExecutor(1) as executor, monkeypatch.context() as patched:
        patched.setattr(stores.RowStore, "write", stops)
        with pytest.raises(KeyboardInterrupt):
            bx.attributions(model, THETA, X, baseline=[0.0, 0.0], executor=executor, **options)
    with ThreadPoolExecutor(1) as executor:
        for table, baseline in ((X + 1e-9, [0.0, 0.0]), (X, [0.0, 1e-12])):
            with pytest.raises(ValueError, match="unfinished store of other arguments"):
                bx.attributions(
                    model, THETA, table, baseline=baseline, executor=executor, **options
                )
        found = bx.attributions(model, THETA, X, baseline=[0.0, 0.0], executor=executor, **options)
    assert not found["attribution"].isnull().any()


def test_rows_keep_their_labels_and_training_rows_their_own_deviations(tmp_path):
    labels = [f"row {k}" for k in range(N)]
    table = bx.GPX(X.set_axis(labels), FRAME["y"].set_axis(labels))
    theta = {**THETA, "sigma_w": 0.4}
    with ThreadPoolExecutor(1) as executor:
        found = bx.weights(table, theta, executor=executor, keep="summary", **QUIET)
        store = bx.weights(table, theta, executor=executor, path=tmp_path / "store", **QUIET)
    expected = bx.weights(table, theta, keep="summary", **QUIET)
    assert found["obs"].values.tolist() == store["obs"].values.tolist() == labels
    moments_agree(found, expected)
    moments_agree(store.load(), expected)


def test_counts_keep_their_exposure():
    exposure = np.linspace(1.0, 9.0, N)
    counts = rng.poisson(exposure)
    model = bx.GP(X, counts, likelihood="poisson", exposure=exposure)
    theta = {"lengthscale": [0.7, 1.1], "amplitude": 0.5}
    with ThreadPoolExecutor(1) as executor:
        found = bx.predictions(model, theta, executor=executor, keep="summary", **QUIET)
    expected = bx.predictions(model, theta, keep="summary", **QUIET)
    np.testing.assert_allclose(found["rate_mean"], expected["rate_mean"], rtol=1e-10)
