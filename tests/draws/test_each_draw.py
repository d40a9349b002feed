"""Blocks of draws by an executor: the numbers of one draw after the other, whoever works."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws import each_draw, turns

rng = np.random.default_rng(sum(map(ord, "each draw")))
DRAWS_TOGETHER = turns.draws_together
X, DRAWS = rng.normal(size=(20, 2)), 11
NEW, QUIET = rng.normal(size=(4, 2)), {"progressbar": False, "seed": 1}


def fit(**sizes):
    """Made-up draws of hyperparameters, in two chains."""
    dims, shape = ("chain", "draw", "feature"), (2, DRAWS)
    values = {
        name: (dims[: 2 + len(size)], rng.uniform(0.5, 1.5, (*shape, *size)))
        for name, size in sizes.items()
    }
    posterior = xr.Dataset(values, {"feature": ["x0", "x1"]})
    return xr.DataTree.from_dict({"posterior": posterior})


NORMAL = bx.GP(X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=20))
LABELS = bx.GP(X, np.where(X[:, 0] > 0, "high", "low"), likelihood="bernoulli")
OF_NORMAL = fit(lengthscale=(2,), amplitude=(), sigma=())
OF_LABELS = fit(lengthscale=(2,), amplitude=())


@pytest.fixture(autouse=True)
def three_draws_in_a_task(monkeypatch):
    monkeypatch.setattr(turns, "draws_together", lambda seconds: 3)


CASES = {
    "predictions": (bx.predictions, NORMAL, OF_NORMAL, {}),
    "training rows": (bx.predictions, NORMAL, OF_NORMAL, {"obs": [3, 5]}),
    "attributions": (bx.attributions, NORMAL, OF_NORMAL, {"covariance": True}),
    "joint": (bx.derivatives, NORMAL, OF_NORMAL, {"joint": True}),
    "summary": (bx.derivatives, NORMAL, OF_NORMAL, {"keep": "summary"}),
    "labels": (bx.derivatives, LABELS, OF_LABELS, {"keep": "summary", "on": "latent"}),
    "response": (bx.predictions, LABELS, OF_LABELS, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_executor_changes_no_bit(name, monkeypatch):
    verb, model, idata, options = CASES[name]
    new = None if "obs" in options else NEW
    alone = verb(model, idata, new, **options, **QUIET)
    tasks, in_turn = [], turns.in_turn

    def counted(task, shared, each, executor):
        assert executor is not None
        for own in in_turn(task, shared, each, executor):
            tasks.append(own[0])
            yield own

    monkeypatch.setattr(turns, "in_turn", counted)
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as executor:
            found = verb(model, idata, new, executor=executor, **options, **QUIET)
        if model is NORMAL:
            xr.testing.assert_identical(found, alone)
        else:  # a posterior is searched for from that of the draw before, to a tolerance of 1e-9
            xr.testing.assert_allclose(found, alone, rtol=1e-6, atol=1e-6)
    each = [3] * 6 + [2]  # of 22 draws, two are computed by the caller
    assert tasks[: len(each)] == each
    assert len(tasks) % (2 * len(each)) == 0


BLOCKS = {"block of all rows": 2**25, "blocks of one row": 400}
MORE = CASES | {
    "Shapley values": (bx.shapley_values, NORMAL, OF_NORMAL, {"covariance": True}),
    "chances": (bx.attributions, LABELS, OF_LABELS, {}),
    "leaving out": (bx.loo_predictions, LABELS, OF_LABELS, {}),
    "importances": (bx.importances, NORMAL, OF_NORMAL, {"measures": ["mean_squared_derivative"]}),
}


@pytest.mark.filterwarnings("ignore:Weights of .+ draws are not smoothed")
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", MORE)
def test_the_number_of_cores_changes_no_bit(name, block, monkeypatch):
    verb, model, idata, options = MORE[name]
    monkeypatch.setattr(turns, "WORTH_THREADS", 0.0)
    monkeypatch.setattr("bayes_gpx.numerics.threads.PARALLEL_FROM", 1)
    monkeypatch.setattr(turns, "TURN", 4)
    monkeypatch.setattr(each_draw, "BLOCK_BYTES", BLOCKS[block])
    new = () if "obs" in options or verb is bx.loo_predictions else (NEW,)
    started = []
    monkeypatch.setattr(
        turns, "ThreadPoolExecutor", lambda n: started.append(n) or ThreadPoolExecutor(n)
    )
    alone, *others = (verb(model, idata, *new, cores=k, **options, **QUIET) for k in (1, 2, 3))
    assert set(started) - {1} == {2, 3}
    for found in others:
        xr.testing.assert_identical(found, alone)


@pytest.mark.parametrize("worth, lines", [(0.0, 1), (1e9, 0)])
def test_a_long_step_is_told_by_its_second_draw(worth, lines, monkeypatch, capsys):
    monkeypatch.setattr("bayes_gpx.numerics.progress.WORTH_SAYING", worth)
    bx.attributions(NORMAL, OF_NORMAL, NEW, seed=1)
    said = capsys.readouterr().err
    assert said.count("Computing attribution of 4 rows, by draw: 0 seconds or so.") == lines
    bx.attributions(NORMAL, OF_NORMAL, NEW, **QUIET)
    assert capsys.readouterr().err == ""


def test_processes_and_stores(tmp_path):
    alone = bx.attributions(NORMAL, OF_NORMAL, NEW, **QUIET)
    with ProcessPoolExecutor(1, get_context("fork")) as executor:
        options = {"executor": executor, "path": tmp_path / "store", **QUIET}
        found = bx.attributions(NORMAL, OF_NORMAL, NEW, **options).load()
    for name in alone.data_vars:
        # Other processes have arrays elsewhere in memory, which round-off may show; intervals are
        # searched for, to ten digits.
        tolerance = 1e-8 if name.endswith("_interval") else 1e-12
        np.testing.assert_allclose(found[name], alone[name], rtol=0.0, atol=tolerance)


def test_a_single_draw_needs_no_task():
    theta = {"lengthscale": [0.7, 1.1], "amplitude": 1.2, "sigma": 0.3}
    with ThreadPoolExecutor(1) as executor:
        found = bx.predictions(NORMAL, theta, NEW, executor=executor, draws=3, **QUIET)
    xr.testing.assert_identical(found, bx.predictions(NORMAL, theta, NEW, draws=3, **QUIET))
    assert each_draw._EXECUTOR.get() is None


def test_a_store_goes_on_where_a_worker_failed(tmp_path, monkeypatch):
    whole = bx.derivatives(NORMAL, OF_NORMAL, NEW, **QUIET)
    of_several = turns._of_several

    def fails(work, draws, blocks):
        if draws[0][0] == DRAWS:
            raise RuntimeError("lost")
        return of_several(work, draws, blocks)

    options = {"path": tmp_path / "store", **QUIET}
    with ThreadPoolExecutor(2) as executor:
        with monkeypatch.context() as patched:
            patched.setattr(turns, "_of_several", fails)
            patched.setattr("bayes_gpx.draws.stores.PAUSE", 0.0)
            with pytest.raises(RuntimeError, match="lost"):
                bx.derivatives(NORMAL, OF_NORMAL, NEW, executor=executor, **options)
        found = bx.derivatives(NORMAL, OF_NORMAL, NEW, executor=executor, **options).load()
    for name in whole.data_vars:
        np.testing.assert_array_equal(found[name], whole[name])


@pytest.mark.parametrize(
    "seconds, together", [(1e-9, 100), (0.004, 75), (0.1, 3), (0.3, 1), (60.0, 1)]
)
def test_tasks_are_long_enough(seconds, together):
    """At least 0.3 seconds, unless draws take no time at all."""
    assert DRAWS_TOGETHER(seconds) == together
