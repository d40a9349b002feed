"""Dask data frames: sums where the partitions lie, with the numbers of one table."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import dask.dataframe as dask
import distributed
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from dask import config

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density

rng = np.random.default_rng(6)
N = 80
FRAME = pd.DataFrame({"a": rng.normal(size=N), "b": rng.uniform(size=N), "y": rng.normal(size=N)})
X = FRAME[["a", "b"]]
HSGP = {"approximation": bx.HSGP(4, 1.5)}
THETA = {"lengthscale": [0.7, 1.1], "amplitude": 1.2, "sigma": 0.3}
QUIET = {"progressbar": False, "draws": 4, "seed": 1}


def test_says_what_a_table_in_memory_says():
    model = bx.GP(dask.from_pandas(FRAME, npartitions=5), "y", **HSGP)
    table = bx.GP(X, FRAME["y"], **HSGP)
    for key, value in table.sums.items():
        np.testing.assert_allclose(model.sums[key], value, atol=1e-9)
    found = bx.predictions(model, THETA, keep="summary", **QUIET)
    given = bx.predictions(table, THETA, X, keep="summary", **QUIET)
    np.testing.assert_allclose(found["f_mean"], given["f_mean"], atol=1e-9)
    np.testing.assert_allclose(found["f_sd"], given["f_sd"], atol=1e-9)


def test_densities_are_summed_where_the_partitions_are():
    """With inducing points each density passes over all rows; by one thread or two, to the bit."""
    points = {"approximation": bx.Inducing(X.values[::10])}
    model = bx.GP(dask.from_pandas(FRAME, npartitions=5), "y", **points)
    table = bx.GP(X, FRAME["y"], **points)
    whole, other = (Density(m.objective, jacobian=True) for m in (table, model))
    x, found = whole.unconstrain(THETA), []
    for options in ({"scheduler": "sync"}, {"scheduler": "threads", "num_workers": 2}):
        with config.set(options):
            found.append(other.value_and_slope()(x))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    value, slope = whole.value_and_slope()(x)
    np.testing.assert_allclose(found[0][0], value, rtol=1e-11)
    np.testing.assert_allclose(found[0][1], slope, rtol=1e-9, atol=1e-8)


def test_steps_to_a_posterior_are_summed_there_too():
    """Counts, whose best posterior is searched for; partitions know the exposure."""
    exposure = rng.uniform(0.5, 2.0, N)
    table = FRAME.assign(y=rng.poisson(exposure), time=exposure)
    options = {"likelihood": "poisson", "approximation": bx.Inducing(X.values[::10])}
    model = bx.GP(dask.from_pandas(table, npartitions=5), "y", exposure="time", **options)
    theta = {name: THETA[name] for name in ("lengthscale", "amplitude")}
    with config.set(scheduler="threads", num_workers=2):
        found = bx.predictions(model, theta, X[:3], **QUIET)
        rows = bx.predictions(model, theta, keep="summary", **QUIET)
    whole = bx.GP(X, table["y"], exposure=exposure, **options)
    given = bx.predictions(whole, theta, X[:3], **QUIET)
    np.testing.assert_allclose(found["f"], given["f"], atol=1e-9)
    given = bx.predictions(whole, theta, keep="summary", **QUIET)
    np.testing.assert_allclose(rows["rate_mean"], given["rate_mean"], rtol=1e-9)


def test_partitions_without_rows_are_passed_over():
    frame = dask.from_pandas(FRAME, npartitions=5)
    some = frame.map_partitions(lambda part: part[part.index >= 50], meta=FRAME[:0])
    assert list(some.map_partitions(len).compute()) == [0, 0, 0, 14, 16]
    model = bx.GP(some, "y", **HSGP, scale=False)
    assert model.training.n == 30
    np.testing.assert_allclose(model.sums["square"], (FRAME["y"][50:] ** 2).sum())
    none = frame.map_partitions(lambda part: part[:0], meta=FRAME[:0])
    with pytest.raises(ValueError, match="no rows in any of its parts"):
        bx.GP(none, "y", **HSGP)


def test_partitions_of_a_merge_are_the_rows_of_a_table():
    """Their order within a partition differs between computations by several threads."""
    numbered = FRAME.assign(key=rng.permutation(N))
    left, right = numbered[["key", "a"]], numbered[["key", "b", "y"]][::-1]
    parts = (dask.from_pandas(table, npartitions=5, sort=False) for table in (left, right))
    merged = dask.merge(*parts, on="key", shuffle_method="disk").drop(columns="key")
    model, table = bx.GP(merged, "y", **HSGP), bx.GP(X, FRAME["y"], **HSGP)
    for key, value in table.sums.items():
        np.testing.assert_allclose(model.sums[key], value, atol=1e-9)


def shuffled(part):
    """The rows in an order of this time alone."""
    return part.sample(frac=1.0, random_state=np.random.default_rng())


def test_rows_in_an_order_of_their_own_each_time_are_explained_once_they_are_persisted():
    frame = dask.from_pandas(FRAME, npartitions=2).map_partitions(shuffled, meta=FRAME[:0])
    model = bx.GP(frame, "y", **HSGP)
    with pytest.raises(ValueError, match=r"80 rows in another order .* X\.persist\(\)"):
        bx.predictions(model, THETA, keep="summary", **QUIET)
    rows = frame.persist()
    found = bx.predictions(bx.GP(rows, "y", **HSGP), THETA, keep="summary", **QUIET)
    new = rows.compute()[["a", "b"]]
    given = bx.predictions(bx.GP(X, FRAME["y"], **HSGP), THETA, new, keep="summary", **QUIET)
    np.testing.assert_allclose(found["f_mean"], given["f_mean"], atol=1e-9)


def kill_once(mark, part):
    """End the worker's process the first time that a part is asked for."""
    if not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.slow
def test_a_cluster_says_the_same_though_a_worker_is_killed(tmp_path):
    """Two processes; one is killed while it makes a part of the sums, and one while it explains."""
    frame = dask.from_pandas(FRAME, npartitions=5)
    alone = bx.GP(frame, "y", **HSGP)
    expected = bx.predictions(alone, THETA, X, path=tmp_path / "alone", **QUIET).load()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        hurt = frame.map_partitions(
            lambda part: kill_once(tmp_path / "first", part), meta=FRAME[:0]
        )
        model = bx.GP(hurt, "y", **HSGP)
        assert (tmp_path / "first").exists()
        for name, value in alone.sums.items():
            np.testing.assert_array_equal(model.sums[name], value)
        workers = client.run(os.getpid)
        executor = client.get_executor()
        killer = client.submit(kill_once, tmp_path / "second", 1)
        many = pd.concat([X] * 700, ignore_index=True)
        found = bx.predictions(
            model, THETA, many, path=tmp_path / "many", executor=executor, **QUIET
        ).load()
        killer.result()
        assert client.run(os.getpid) != workers
    assert found.sizes["obs"] == 700 * N
    assert not found["f"].isnull().any()
    for name in ("f_mean", "f_sd"):
        block = found[name].values.reshape((700, N))
        np.testing.assert_allclose(block, np.tile(expected[name].values, (700, 1)), atol=1e-12)
    with xr.open_zarr(tmp_path / "many") as kept:
        xr.testing.assert_identical(kept.load(), found)


@pytest.mark.slow
def test_the_script_on_a_cluster_runs_as_it_stands(tmp_path):
    script = Path(__file__).resolve().parents[2] / "docs" / "howto" / "on_a_cluster.py"
    options = ["--draws", "50", "--out", str(tmp_path)]
    subprocess.run([sys.executable, "-W", "ignore", str(script), *options], check=True)
    found = xr.open_zarr(tmp_path / "contributions.zarr", consolidated=False)
    assert found.sizes["obs"] == 50_000
    assert not found["contribution"].isnull().any()
