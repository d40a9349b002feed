"""Many tasks of one kind: one after the other, or by an executor."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any


def in_turn[Found](
    task: Callable[..., Found], shared: Any, each: Iterable[tuple], executor: Executor | None
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
    """
    if executor is None:
        for own in each:
            yield task(shared, *own)
        return
    client = getattr(executor, "_client", None)
    sent = shared if client is None else client.scatter(shared, hash=False)
    for future in [executor.submit(task, sent, *own) for own in each]:
        yield future.result()
