"""Compiled functions and BLAS in several threads; PyTensor's functions serve one at a time."""

# A PyTensor function stores its arguments and results, so two threads that call it at once
# overwrite each other's numbers. Functions that are compiled once and kept are therefore compiled
# here, and every thread calls a separate copy.

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import cache, partial, reduce, wraps
from inspect import getdoc
from itertools import batched, chain
from queue import SimpleQueue
from typing import Any, cast
from weakref import WeakSet

import numpy as np
import pytensor
import scipy.sparse as sps
from pytensor.compile.io import In
from pytensor.compile.maker import FunctionMaker
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from threadpoolctl import OpenBLASController, ThreadpoolController

from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.system.tasks import cores, using_cores
from bayes_gpx.validation import count

LOCK = threading.RLock()
"""Held while PyTensor compiles or copies a function: neither is made for two threads at once."""


def copy(function: Any) -> Callable:
    """Copy a compiled function, for one thread to call."""
    with LOCK:
        return function.copy()


class _Turn(threading.local):
    """What the running thread works at: a new object for each turn."""

    now: object = None


_TURN = _Turn()

TURN = 20
"""Most tasks that a thread does in turn."""


def begin_turn() -> None:
    """Let searches of this thread forget where the last one ended, so results do not depend on it.

    A turn is a fixed group of tasks, and which thread has which turn does not matter.
    """
    _TURN.now = object()


class Copies(threading.local):
    """Copies for each thread of the functions that `compiled` returns, and `last`, kept for it."""

    # The thread `first` needs no copies, if nobody else calls the functions. A number that a later
    # thread has again is that of a thread that has ended.

    def __init__(self, compiled: Callable[[], Iterable], first: int | None = None) -> None:
        own = threading.get_ident() == first
        with LOCK:
            self.functions = tuple(compiled() if own else map(copy, compiled()))
        self._last: tuple[object, Any] = (None, None)

    @property
    def last(self) -> Any:
        """What was kept in this turn; None before."""
        turn, kept = self._last
        return kept if turn is _TURN.now else None

    @last.setter
    def last(self, kept: Any) -> None:
        self._last = _TURN.now, kept


class MadeAnew:
    """An operation that is copied by its arguments `__props__`, without the objects of threads."""

    __props__: tuple[str, ...]

    def __reduce__(self) -> tuple:
        """Its class and arguments."""
        return type(self), tuple(getattr(self, name) for name in self.__props__)


POOLS: WeakSet = WeakSet()
"""Every `Pool`."""


class Pool:
    """Copies of a compiled function, made in advance: threads that take one need no lock."""

    # For threads that work for a caller who may hold `LOCK`, and waits for them.

    def __init__(self, function: Any) -> None:
        self._function, self._number = function, os.cpu_count() or 1
        self._fill()
        POOLS.add(self)

    def _fill(self) -> None:
        self._free: SimpleQueue = SimpleQueue()
        for _ in range(self._number):
            self._free.put(copy(self._function))

    def complete(self) -> None:
        """Restore all copies, after a fork lost threads that had taken some."""
        if self._free.qsize() < self._number:
            self._fill()

    @contextmanager
    def taken(self) -> Iterator[Callable]:
        """Context with a copy that no other thread has, which may first be waited for."""
        own = self._free.get()
        try:
            yield own
        finally:
            self._free.put(own)


class ThreadedFunction:
    """A compiled function that any thread may call; arguments as in `pytensor.function`."""

    def __init__(
        self, inputs: Sequence, outputs: Any, *, mode: Mode | str = MODE, **options: Any
    ) -> None:
        with LOCK:
            whole = pytensor.function(
                inputs, outputs, mode=mode, on_unused_input="ignore", **options
            )
        self._own = Copies(lambda: [whole], threading.get_ident())

    @property
    def own(self) -> Callable:
        """The running thread's copy, to be called by it alone."""
        return self._own.functions[0]

    def __call__(self, *arguments: Any) -> Any:
        """Call the running thread's copy."""
        return self.own(*arguments)


def _maker(inputs: Sequence, outputs: Sequence, mode: Mode) -> FunctionMaker:
    """The rewritten graph of a function that trusts its arguments, not yet made a function."""
    # `pytensor.function` would copy the graph more than once, and link it in any case.
    graph = FunctionGraph(inputs, outputs, clone=True)
    return FunctionMaker(
        [In(v) for v in graph.inputs],
        list(graph.outputs),
        mode,
        fgraph=graph,
        on_unused_input="ignore",
        trust_input=True,
    )


class Staged:
    """A compiled function in two stages: what fixed arguments alone determine is computed once.

    ``Staged(changing, fixed, outputs, mode).given(*fixed)`` is a function of the changing ones.
    """

    def __init__(self, changing: Sequence, fixed: Sequence, outputs: Sequence, mode: Mode) -> None:
        with LOCK:
            whole = _maker([*changing, *fixed], outputs, mode).fgraph
            changing, fixed = whole.inputs[: len(changing)], whole.inputs[len(changing) :]
            # What follows from the fixed arguments alone, and the part of it that other nodes need.
            settled, used = set(fixed), dict[Variable, None]()
            for node in whole.toposort():
                if all(v in settled or isinstance(v, Constant) for v in node.inputs):
                    settled.update(node.outputs)
                else:
                    used |= dict.fromkeys(v for v in node.inputs if v in settled)
            kept = [*used, *(v for v in whole.outputs if v in settled and v not in used)]
            # PyTensor takes None for no optimizer, which its types leave out.
            plain = Mode(linker=mode.linker, optimizer=None)  # type: ignore[arg-type]
            first = _maker(fixed, kept, plain).create()
            last = _maker([*kept, *changing], whole.outputs, plain).create()
            self._own = Copies(lambda: [first, last], threading.get_ident())

    def given(self, *fixed: np.ndarray) -> Callable:
        """Return the function of the changing arguments, for the running thread."""
        first, last = self._own.functions
        # PyTensor multiplies matrices by *, which SciPy's sparse arrays take entry by entry.
        fixed = tuple(sps.csr_matrix(v) if sps.issparse(v) else v for v in fixed)
        return partial(last, *map(deepcopy, first(*fixed)))


class _Limit:
    """The limit of BLAS' threads: the least of the numbers asked for by contexts still open."""

    # And no more than BLAS had before the first of them. BLAS has one limit for the whole process.
    # If each of two threads restored the limit that it found, the later one could restore the
    # other's, for good.

    def __init__(self) -> None:
        self._asked: list[tuple[int, int, bool]] = []
        self._before = 1
        self._outermost: Any = None

    @property
    def threads(self) -> int:
        """How many threads BLAS may have."""
        asked = [number for number, *_ in self._asked]  # others may leave meanwhile
        return min(self._before, *asked) if asked else _present()

    @property
    def workers(self) -> int:
        """How many threads may take BLAS' place: one where others rely on its limit."""
        return 1 if any(shared for _, _, shared in self._asked) else self.threads

    @contextmanager
    def held(self, number: int, *, shared: bool = False) -> Iterator[None]:
        """Hold BLAS to at most `number` threads within the context, for all that share it."""
        asked = number, threading.get_ident(), shared
        with LOCK:
            outermost = not self._asked
            if outermost:
                self._before = _present()
            self._asked.append(asked)
            # The limit does not change while it is shared: sums of products depend on it.
            limiter = _limit(self.threads)
            if outermost:
                self._outermost = limiter
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

    def _restore(self) -> None:
        if self._asked:
            _limit(self.threads)
        else:
            with _any_thread():
                self._outermost.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    """Controller of the libraries that are loaded at the first call; the search takes 5 ms."""
    return ThreadpoolController()


def _present() -> int:
    """How many threads BLAS may have now, as the user or the environment has said."""
    blas = [one["num_threads"] for one in _controller().info() if one["user_api"] == "blas"]
    return min(blas, default=os.cpu_count() or 1)


@contextmanager
def _any_thread() -> Iterator[None]:
    """Let threadpoolctl obey this thread within the context, not the first that set a limit."""
    OpenBLASController.clear_controlling_thread(force=True)
    try:
        yield
    finally:
        OpenBLASController.clear_controlling_thread(force=True)


def _limit(number: int) -> Any:
    """Set the limit; returns a function that restores each library's own."""
    with _any_thread():
        return _controller().limit(limits=number, user_api="blas")


BLAS = _Limit()


def _after_fork() -> None:
    BLAS.forget_others()
    for pool in POOLS:
        pool.complete()
    LOCK.release()


if "register_at_fork" in vars(os):  # a child must not inherit a lock that another thread holds
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_after_fork
    )


def in_order[Found](
    function: Callable[[Any], Found], join: Callable[[Found, Found], Found], parts: Iterable
) -> Found:
    """Combine, in their order, the results of a function for each part, several parts at a time."""
    # Results are bitwise identical for any parallelism, and only current parts are in memory. As
    # many threads call the function as BLAS may have, each with BLAS to itself; only the caller's
    # thread if chains share BLAS. `parts` is not empty.
    workers = BLAS.workers
    if workers == 1:
        return reduce(join, map(function, parts))
    with BLAS.held(1), ThreadPoolExecutor(workers, initializer=_limit, initargs=(1,)) as pool:
        groups = (pool.map(function, group) for group in batched(parts, workers))
        return reduce(join, chain.from_iterable(groups))


CORES = """cores : int, optional
    Number of processor cores, all by default."""
"""What docstrings say of the option."""


def on_cores[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Let calls take as many processor cores as their option `cores` says; document it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        number = cast(int | None, kwargs.get("cores"))
        if number is not None:
            count("cores", number)
        with using_cores(number):
            return function(*args, **kwargs)

    parameters, returns, rest = (getdoc(function) or "").partition("\n\nReturns\n-------")
    own, keywords, more = parameters.partition("\n**")  # which come last
    call.__doc__ = f"{own}\n{CORES}{keywords}{more}{returns}{rest}"
    return call


PARALLEL_FROM = 200
"""Observations above which several densities at a time are faster than one by one.

With fewer, most of the time is Python's own, which runs one thread at a time.
"""


def parallel_densities(n: int) -> int:
    """How many densities of n observations each are evaluated at a time."""
    return cores() if n >= PARALLEL_FROM else 1


THREADED_FROM = 3000
"""Observations above which BLAS has more than one thread."""


def blas_threads(n: int, parallel: int = 1) -> AbstractContextManager[None]:
    """Let BLAS use as many threads as n observations are worth, within the context."""
    # Factors of small matrices gain little from several threads, and lose much if another process
    # wants the processor; `parallel` chains share the processors. With one thread for any number of
    # cores, sums of products are the same.
    number = max(1, cores() // parallel) if n >= THREADED_FROM else 1
    return BLAS.held(number, shared=parallel > 1)
