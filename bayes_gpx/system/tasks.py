"""Many tasks of one kind: one after the other, or by an executor."""

import pickle
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import cached_property
from typing import Any

WAITING = 16
"""Tasks that are with an executor at a time, unless otherwise asked for: no more are held."""


def in_turn[Found](
    task: Callable[..., Found],
    shared: Any,
    each: Iterable[tuple],
    executor: Executor | None,
    waiting: int = WAITING,
) -> Iterator[Found]:
    """Results of ``task(shared, *arguments)``, in the order of `each`.

    Parameters
    ----------
    task : callable
        Importable by other processes.
    shared : object
        What all tasks are given first. Dask sends it to each worker once; to other processes it
        goes with each task, but is pickled once, and made anew once by each of them.
    each : iterable of tuples
        Further arguments of each task.
    executor : concurrent.futures.Executor or None
        Dask's ``client.get_executor()`` too.
    waiting : int
        Tasks that are with the executor at a time, at most.
    """
    if executor is None:
        for own in each:
            yield task(shared, *own)
        return
    client = getattr(executor, "_client", None)
    if client is not None:
        shared = client.scatter(shared, broadcast=True, hash=False)
    else:
        task, shared = _of_shared, _Shared((task, shared))
    futures: deque[Future] = deque()
    for own in each:
        futures.append(executor.submit(task, shared, *own))
        if len(futures) == waiting:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()


class _Shared:
    """What many tasks are given: as it is within the process; for other processes pickled once."""

    def __init__(self, value):
        self.value, self._name = value, secrets.token_hex(16)

    @cached_property
    def _pickled(self):
        import cloudpickle  # PyMC brings it; takes functions of a script or notebook too

        return cloudpickle.dumps(self.value)

    def __reduce__(self):
        return _arrived, (self._name, self._pickled)


_ARRIVED: dict[str, _Shared] = {}
"""What the last task of this process was given that came from another one, by its name."""


def _arrived(name, pickled):
    """What has this name; it is made anew only where the task before had another."""
    found = _ARRIVED.get(name)
    if found is None:
        found = _Shared(pickle.loads(pickled))
        _ARRIVED.clear()
        _ARRIVED[name] = found
    return found


def _of_shared(given, *own):
    """What a task finds, of its own arguments and of those that all are given."""
    task, shared = given.value
    return task(shared, *own)
