"""Compiled functions and BLAS for several threads: PyTensor's functions serve one at a time.

A function of PyTensor keeps its arguments and results in storage of its own, so two threads that
call it at once overwrite each other's numbers. Whatever is compiled once and kept is therefore
compiled here, and every thread calls a copy of its own.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from itertools import batched, chain
from queue import SimpleQueue
from typing import Any

import pytensor
from pytensor.compile.mode import Mode
from threadpoolctl import OpenBLASController, threadpool_limits

from bayes_gpx.numerics.compile_modes import MODE

LOCK = threading.RLock()
"""Held while PyTensor compiles or copies a function: neither is made for two threads at once."""


def copy(function: Any) -> Callable:
    """Copy a compiled function, for one thread to call."""
    with LOCK:
        return function.copy()


class Copies(threading.local):
    """Copies of compiled functions for each thread, and what the thread keeps for its next call.

    Parameters
    ----------
    compiled : callable
        Returns the functions to be copied; each thread calls it once.

    Attributes
    ----------
    functions : tuple
    last : object
        What the thread has stored here, None at first.
    """

    def __init__(self, compiled: Callable[[], Iterable]) -> None:
        with LOCK:
            self.functions = tuple(map(copy, compiled()))
        self.last: Any = None


class Pool:
    """Copies of a compiled function, made beforehand: threads that take one need no lock.

    For threads that work for a caller who may hold `LOCK`, and waits for them.

    Parameters
    ----------
    function : compiled function
    """

    def __init__(self, function: Any) -> None:
        self._free: SimpleQueue = SimpleQueue()
        for _ in range(os.cpu_count() or 1):
            self._free.put(copy(function))

    @contextmanager
    def taken(self) -> Iterator[Callable]:
        """Context with a copy that no other thread has, which may first be waited for."""
        own = self._free.get()
        try:
            yield own
        finally:
            self._free.put(own)


class ThreadedFunction:
    """A compiled function that any thread may call.

    Parameters
    ----------
    inputs, outputs : as `pytensor.function` takes them
    mode : pytensor Mode
    **options
        Of `pytensor.function`.
    """

    def __init__(
        self, inputs: Sequence, outputs: Any, *, mode: Mode | str = MODE, **options: Any
    ) -> None:
        with LOCK:
            whole = pytensor.function(
                inputs, outputs, mode=mode, on_unused_input="ignore", **options
            )
        self._own = Copies(lambda: [whole])

    @property
    def own(self) -> Callable:
        """The running thread's copy, to be called by it alone."""
        return self._own.functions[0]

    def __call__(self, *arguments):
        """Call the running thread's copy."""
        return self.own(*arguments)


class _Limit:
    """The limit of BLAS' threads: the least of the numbers asked for by contexts still open.

    BLAS has one limit for the whole process. If each of two threads restored the limit that it
    found, the later one could restore the other's, for good.
    """

    def __init__(self):
        self._asked, self._outermost = [], None

    @property
    def threads(self) -> int:
        """How many threads BLAS may have: one for each processor, or what is asked for."""
        return min((number for number, _ in self._asked), default=os.cpu_count() or 1)

    @contextmanager
    def held(self, number: int) -> Iterator[None]:
        """Context in which BLAS uses at most `number` threads."""
        asked = number, threading.get_ident()
        with LOCK:
            lowest = min(self._asked, default=None)
            self._asked.append(asked)
            if lowest is None:
                self._outermost = _limited(number)
            elif number < lowest[0]:
                _limited(number)
        try:
            yield
        finally:
            with LOCK:
                self._asked.remove(asked)
                self._restore()

    def forget_others(self) -> None:
        """Drop what other threads asked for, which a forked process does not have."""
        held = bool(self._asked)
        self._asked = [one for one in self._asked if one[1] == threading.get_ident()]
        if held:
            self._restore()

    def _restore(self):
        if self._asked:
            _limited(min(self._asked)[0])
        else:
            OpenBLASController.clear_controlling_thread(force=True)
            self._outermost.restore_original_limits()
            OpenBLASController.clear_controlling_thread(force=True)


def _limited(number):
    """The limit, set from any thread; by itself threadpoolctl obeys the first thread alone."""
    OpenBLASController.clear_controlling_thread(force=True)
    return threadpool_limits(number)


BLAS = _Limit()


def _after_fork():
    BLAS.forget_others()
    LOCK.release()


if "register_at_fork" in vars(os):  # a child must not inherit a lock that another thread holds
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_after_fork
    )


def in_order[Found](
    function: Callable[[Any], Found], join: Callable[[Found, Found], Found], parts: Iterable
) -> Found:
    """Join, in their order, what a function finds of each part, several parts at a time.

    Which parts are worked on at the same time changes no bit, and only these are held.

    Parameters
    ----------
    function : callable
        Called by as many threads as BLAS may have, each with BLAS to itself.
    join : callable
    parts : iterable, not empty
    """
    workers = BLAS.threads
    if workers == 1:
        return reduce(join, map(function, parts))
    with BLAS.held(1), ThreadPoolExecutor(workers) as pool:
        groups = (pool.map(function, group) for group in batched(parts, workers))
        return reduce(join, chain.from_iterable(groups))


PARALLEL_FROM = 200
"""Observations from which several densities at a time are faster than one after the other.

With fewer, most of the time is Python's own, which runs one thread at a time.
"""


def parallel_densities(n: int) -> int:
    """How many densities of n observations each are evaluated at a time."""
    return (os.cpu_count() or 1) if n >= PARALLEL_FROM else 1


THREADED_FROM = 3000
"""Observations from which BLAS is given more than one thread."""


def blas_threads(n: int, parallel: int = 1) -> AbstractContextManager[None]:
    """Context in which BLAS uses as many threads as n observations are worth.

    Factors of small matrices gain little by more than one thread, and lose much by it
    where another process wants the processor; `parallel` chains share the processors.
    """
    enough = n >= THREADED_FROM
    return BLAS.held(max(1, (os.cpu_count() or 1) // parallel) if enough else 1)
