"""Explanations at once: from threads and processes, with the numbers of one after another."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from operator import add
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

import bayes_gpx as bx
from bayes_gpx.draws import turns
from bayes_gpx.draws.results import Result
from bayes_gpx.numerics.threads import BLAS, Pool, _Limit, in_order
from bayes_gpx.sklearn import GPRegressor
from concurrent_calls import ROADS, compared

QUIET = {"progressbar": False}
SCRIPT = Path(__file__).resolve().parents[1] / "reference" / "concurrent_calls.py"
RNG = np.random.default_rng(77)
X = RNG.normal(size=(20, 2))
Y = X[:, 0] + 0.2 * RNG.normal(size=20)


def test_threads_do_not_change_each_others_numbers():
    """One call in sixty of every verb, likelihood and approximation; all of them: below."""
    wrong, number = compared("threads", every=60)
    assert wrong == {} and number > 2


@pytest.mark.slow
@pytest.mark.parametrize("road", ROADS)
def test_every_road_gives_the_same_numbers_and_the_process_ends(road):
    """In a process of its own, which must end by itself."""
    every = "1" if "thread" in road else "3"
    done = subprocess.run(
        [sys.executable, SCRIPT, road, every], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert "\n0 of " in f"\n{done.stdout}", done.stdout


def test_one_model_may_be_fitted_by_two_threads_at_once():
    model = bx.GP(X, Y)
    start = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    with ThreadPoolExecutor(2) as pool:
        fits = list(pool.map(lambda _: model.fit("map", start=start, **QUIET), range(4)))
    for fit in fits:
        assert_array_equal(fit["posterior"]["sigma"], fits[0]["posterior"]["sigma"])


def test_rows_left_out_by_several_threads_are_those_of_one(monkeypatch):
    """More draws than a thread takes in a row, in their order."""
    model, most = bx.GP(X, Y), 3 * turns.TURN + 1
    values = {"lengthscale": RNG.uniform(0.5, 2.0, (2, most, 2)), "amplitude": np.ones((2, most))}
    dims = {"lengthscale": ("chain", "draw", "feature"), "amplitude": ("chain", "draw")}
    values["sigma"], dims["sigma"] = RNG.uniform(0.1, 0.5, (2, most)), ("chain", "draw")
    draws = xr.Dataset({name: (dims[name], value) for name, value in values.items()})
    fit = xr.DataTree.from_dict({"posterior": draws.assign_coords(feature=["x0", "x1"])})
    apart = bx.log_likelihood(model, fit, **QUIET)
    monkeypatch.setattr(turns, "parallel_densities", lambda n: 3)
    together = bx.log_likelihood(model, fit, **QUIET)
    xr.testing.assert_identical(together, apart)
    at = {name: value[1, 37] for name, value in values.items()}
    one = bx.log_likelihood(model, at, **QUIET)["log_likelihood"].values[0, 0]
    assert_array_equal(together["log_likelihood"].values[1, 37], one)


def blas_limit():
    """Of the process; OpenMP's are a thread's own."""
    found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return min(found)


def test_an_interrupted_call_holds_no_limit_while_its_traceback_is_kept(monkeypatch):
    """As IPython keeps the last one."""
    model, theta = bx.GP(X, Y), {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Result, "add", interrupt)
    for by in (None, True):
        with threadpool_limits(3):
            before = blas_limit()
            with pytest.raises(KeyboardInterrupt) as kept:
                bx.derivatives(model, theta, by=by, **QUIET)
            assert kept.tb is not None
            assert blas_limit() == before


def test_a_limit_of_blas_threads_ends_with_the_last_who_holds_it():
    held, done = threading.Event(), threading.Event()

    def hold():
        with BLAS.held(1):
            held.set()
            done.wait()

    with threadpool_limits(3):
        three = blas_limit()  # fewer, where there are fewer processors
        first = threading.Thread(target=hold)
        first.start()
        held.wait()
        with BLAS.held(2):
            assert blas_limit() == 1
            done.set()
            first.join()
            assert blas_limit() == min(2, three)
        assert blas_limit() == three


def test_a_limit_of_blas_threads_holds_whichever_thread_asks_for_it():
    """By itself threadpoolctl obeys the first thread that set a limit, and no other."""

    def inside(number):
        with BLAS.held(number):
            return blas_limit(), BLAS.threads

    with threadpool_limits(2), ThreadPoolExecutor(1) as pool, BLAS.held(2):
        two = blas_limit()
        assert pool.submit(inside, 1).result() == (1, 1)
        assert blas_limit() == two
        assert pool.submit(inside, 3).result() == (two, two)


def test_what_the_user_allows_blas_is_never_exceeded():
    with threadpool_limits(1):
        assert BLAS.threads == 1
        with BLAS.held(2):
            assert blas_limit() == BLAS.threads == 1


def test_work_in_order_has_as_many_threads_as_blas_may_have(monkeypatch):
    for number in (1, 3):
        monkeypatch.setattr(_Limit, "threads", number)
        together = threading.Barrier(number)

        def of_part(part, together=together):
            together.wait(timeout=10)
            return [(part, threading.get_ident())]

        parts, threads = zip(*in_order(of_part, add, range(12)), strict=True)
        assert parts == (*range(12),) and len({*threads}) == number
        assert (threading.get_ident() in threads) is (number == 1)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_while_others_compute_leaves_the_child_all_it_needs():
    x = pt.dvector("x")
    pool = Pool(pytensor.function([x], x.sum()))
    with pool.taken(), ExitStack() as stack:
        for _ in range((os.cpu_count() or 1) - 1):
            stack.enter_context(pool.taken())
        child = multiprocessing.get_context("fork").Process(target=take, args=(pool,))
        child.start()
        child.join(20)
        code = child.exitcode
        child.kill()
    assert code == 0


def take(pool):
    with pool.taken() as function:
        sys.exit(int(function(np.ones(3)) != 3.0))


FAMILIES = {
    "GP": lambda: bx.GP(X, Y),
    "GPX": lambda: bx.GPX(X, Y, weight_prior="horseshoe", intercept=True, name="sales"),
    "labels": lambda: bx.GP(X, Y > 0, likelihood="bernoulli", approximation=bx.Inducing(5)),
    "classes": lambda: bx.GP(X, np.digitize(Y, [-0.5, 0.5]), likelihood="categorical"),
    "fixed noise": lambda: bx.GP(X, Y, kernel="matern52", priors={"sigma": 0.1}, scale=False),
}


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=pytest.mark.slow if f in ("GP", "labels") else ()) for f in FAMILIES],
)
def test_a_model_and_its_fit_pickle(family):
    model = FAMILIES[family]()
    idata = model.fit("map", start=dict.fromkeys(model.hyperparameters, 0.5), **QUIET)
    sent = pickle.dumps((model, idata))
    assert len(pickle.dumps(model)) < 20_000
    arrived, fit = pickle.loads(sent)
    ours, theirs = (
        bx.attributions(m, i, X[:2], draws=5, seed=1, **QUIET)["attribution"]
        for m, i in ((model, idata), (arrived, fit))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)
    assert arrived.pymc.named_vars.keys() == model.pymc.named_vars.keys()


def test_a_fitted_estimator_pickles():
    estimator = GPRegressor().fit(X, Y)
    arrived = pickle.loads(pickle.dumps(estimator))
    assert_array_equal(arrived.predict(X), estimator.predict(X))


def test_a_model_that_arrives_joins_no_other():
    sent = pickle.dumps(bx.GP(X, Y))
    with pm.Model() as other:
        arrived = pickle.loads(sent)
    assert not other.named_vars and "sigma" in arrived.pymc.named_vars


def test_a_part_of_a_larger_model_is_not_sent_without_it():
    with pm.Model():
        part = bx.GP(X, Y, name="part")
    with pytest.raises(pickle.PicklingError, match="part of a larger pm.Model"):
        pickle.dumps(part)
