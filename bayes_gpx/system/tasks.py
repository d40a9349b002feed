"""Many tasks of one kind: one after the other, or by an executor; and the cores that they take."""

import os
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any

PAUSE, PATIENCE = 5.0, 60.0
"""Seconds between two looks at whether a cluster has workers, and how long it may have none."""

WAITING = 16
"""Tasks that are with an executor at a time, unless otherwise asked for: no more are held."""

_CORES: ContextVar[int | None] = ContextVar("cores", default=None)


@contextmanager
def using_cores(number: int | None) -> Iterator[None]:
    """Let calls within the context take that many processor cores; None changes nothing."""
    token = _CORES.set(number or _CORES.get())
    try:
        yield
    finally:
        _CORES.reset(token)


def cores() -> int:
    """How many processor cores a call may take: all of them, unless its user says otherwise."""
    return _CORES.get() or os.cpu_count() or 1


def in_turn[Found](
    task: Callable[..., Found],
    shared: Any,
    each: Iterable[tuple],
    executor: Executor | None,
    waiting: int = WAITING,
) -> Iterator[Found]:
    """Yield ``task(shared, *arguments)`` in the order of `each`, with `waiting` at an executor."""
    # Other processes import the task. Dask sends `shared` to each worker once. Other processes
    # receive it with each task, but it is pickled once, and each of them unpickles it once. Workers
    # share the cores, so each takes one.
    if executor is None:
        for own in each:
            yield task(shared, *own)
        return
    task, client = partial(_on_one_core, task), getattr(executor, "_client", None)
    if client is not None:
        shared = _sent(client, shared)
    else:
        task, shared = _of_shared, _Shared((task, shared))
    futures: deque[Future] = deque()
    for own in each:
        futures.append(executor.submit(task, shared, *own))
        if len(futures) == waiting:
            yield _result(futures.popleft(), client)
    while futures:
        yield _result(futures.popleft(), client)


def _on_one_core[Found](task: Callable[..., Found], shared: Any, *own: Any) -> Found:
    with using_cores(1):
        return task(shared, *own)


def _sent(client: Any, shared: Any) -> Future:
    """Future of the shared object: the result of a task, which Dask makes again if it is lost."""
    # A scattered object would be lost with its worker, and `scatter` itself waits for dead workers.
    import dask

    # The object goes to the scheduler once; the warning is meant for graphs that repeat data.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": 2**62}):
        return client.submit(_itself, shared, pure=False)


def _itself(shared: Any) -> Any:
    return shared


def _result(future: Future, client: Any) -> Any:
    """Wait for a result, but not for a Dask cluster without workers."""
    if client is None:
        return future.result()
    last_seen = time.monotonic()
    while not wait([future], timeout=PAUSE).done:
        if client.scheduler_info(n_workers=1)["workers"]:
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > PATIENCE:
            raise RuntimeError(
                f"The Dask cluster has had no workers for {PATIENCE:.0f} seconds. Start workers, "
                "wait for them with client.wait_for_workers(1), and call again."
            )
    return future.result()


class _Shared:
    """What many tasks are given: as it is within the process; for other processes pickled once."""

    def __init__(self, value: Any) -> None:
        self.value, self._name = value, secrets.token_hex(16)

    @cached_property
    def _pickled(self) -> bytes:
        import cloudpickle  # PyMC brings it; takes functions of a script or notebook too

        return cloudpickle.dumps(self.value)

    def __reduce__(self) -> tuple[Callable, tuple[str, bytes]]:
        return _arrived, (self._name, self._pickled)


_ARRIVED: dict[str, _Shared] = {}
"""What the last task of this process was given that came from another one, by its name."""


def _arrived(name: str, pickled: bytes) -> "_Shared":
    """What has this name; it is made anew only where the task before had another."""
    found = _ARRIVED.get(name)
    if found is None:
        found = _Shared(pickle.loads(pickled))
        _ARRIVED.clear()
        _ARRIVED[name] = found
    return found


def _of_shared(given: _Shared, *own: Any) -> Any:
    """Result of a task, from its own arguments and the shared ones."""
    task, shared = given.value
    return task(shared, *own)
