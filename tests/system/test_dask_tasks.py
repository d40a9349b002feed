"""Tasks on a Dask cluster whose workers die: the results are complete, or there is an error."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from bayes_gpx.system import tasks

distributed = pytest.importorskip("distributed")

ROWS = 4 * 10**6
"""32 MB, of which Dask would warn as a large graph; warnings are errors."""
pytestmark = pytest.mark.slow


def task(shared, number):
    time.sleep(0.2)
    return os.getpid(), float(shared[number])


class Slow:
    """Numbers that take two seconds to arrive, so that a worker dies while it is sent them."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __getitem__(self, k):
        return self.numbers[k]

    def __reduce__(self):
        return _slowly, (self.numbers,)


def _slowly(numbers):
    time.sleep(2.0)
    return Slow(numbers)


class Arrived:
    """Leaves a file wherever it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return _arrive, (self.folder,)


def _arrive(folder):
    (folder / f"{os.getpid()}_{time.monotonic_ns()}").touch()
    return Arrived(folder)


def sleep(shared, number):
    time.sleep(0.05)
    return number


@pytest.fixture
def nannies():
    """Two workers that are started again when they die."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def alone():
    """Two workers that nobody starts again."""
    options = {"n_workers": 0, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny"]
        command += ["--nthreads", "1", "--no-dashboard", cluster.scheduler_address]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        found = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        workers = [
            subprocess.Popen(command, env=os.environ | {"PYTHONPATH": found}, **silent)
            for _ in range(2)
        ]
        try:
            client.wait_for_workers(2, timeout=60)
            yield client
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def killed(client, seconds):
    """Kill one worker after so many seconds."""
    first, *_ = client.run(os.getpid).values()
    timer = threading.Timer(seconds, os.kill, (first, signal.SIGKILL))
    timer.start()
    return timer


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.5, 5.0])
@pytest.mark.parametrize("workers", ["nannies", "alone"])
def test_a_worker_that_dies_costs_no_result(request, workers, seconds):
    client = request.getfixturevalue(workers)
    shared = np.random.default_rng(1).normal(size=ROWS)
    timer = killed(client, seconds)
    if not seconds:
        timer.join()
    each = ((number,) for number in range(60))
    begun = time.monotonic()
    found = [*tasks.in_turn(task, Slow(shared), each, client.get_executor())]
    timer.join()
    assert time.monotonic() - begun < 60.0
    assert [value for _, value in found] == shared[:60].tolist()


def test_each_worker_is_sent_the_shared_object_once(nannies, tmp_path):
    each = ((number,) for number in range(40))
    found = [*tasks.in_turn(sleep, Arrived(tmp_path), each, nannies.get_executor())]
    assert found == [*range(40)]
    pids = set(nannies.run(os.getpid).values())
    arrivals = [int(file.name.split("_")[0]) for file in tmp_path.iterdir()]
    assert sorted(pid for pid in arrivals if pid in pids) == sorted(pids)


def test_a_cluster_without_workers_is_an_error(alone, monkeypatch):
    monkeypatch.setattr(tasks, "PAUSE", 0.2)
    monkeypatch.setattr(tasks, "PATIENCE", 2.0)
    for pid in alone.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="no workers for 2 seconds.*wait_for_workers"):
        list(tasks.in_turn(task, np.zeros(60), ((k,) for k in range(60)), alone.get_executor()))
