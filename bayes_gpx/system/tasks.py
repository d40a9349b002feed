"""Many tasks of one kind: one after the other, or by an executor."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
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
        What all tasks are given first; Dask sends it to each worker once.
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
    futures: deque[Future] = deque()
    for own in each:
        futures.append(executor.submit(task, shared, *own))
        if len(futures) == waiting:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()
