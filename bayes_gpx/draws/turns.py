"""Draws and blocks of rows in turns: whoever evaluates a turn, its results are the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import batched, chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.aliases import Tensor
from bayes_gpx.draws.graphs import Structure, compiled, data_of
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.linear_algebra import with_jitter
from bayes_gpx.numerics.progress import announce
from bayes_gpx.numerics.threads import BLAS, THREADED_FROM, TURN, begin_turn, parallel_densities
from bayes_gpx.posteriors.base import Found
from bayes_gpx.system.tasks import in_turn

if TYPE_CHECKING:
    from bayes_gpx.posteriors.base import Build, OneDraw

TURN_BYTES = 8 * 2**20
"""Most bytes of the results of one turn."""

LONG_ENOUGH = 0.3
"""Shortest time of a task in seconds: sending it and its result takes milliseconds."""

MOST_TOGETHER = 100
"""Most draws of a task, so all processes share them."""

SHARED = 0.5
"""Share of a core that each more of them adds: the rest waits for Python's lock, or for memory."""

WORTH_THREADS = 0.3
"""Fewest seconds of work for threads: each of them first copies functions."""

type Case = tuple[int, dict[str, Any]]
"""What else a draw is evaluated at, and its number: the code of a class, or a random function."""

type Cases = Sequence[Case] | Callable[[int], Sequence[Case]]
"""Cases of every draw, or of the draw of a number."""

type Known = tuple[dict[str, np.ndarray], float]
"""What the data leave behind at a draw, and its jitter."""

type Draw = tuple[int, Mapping[str, Any], Known | None]
"""Number of a draw, its hyperparameters, and its `Known`, or None."""

type Evaluated = tuple[int, Mapping[str, Any], Any, int, list[np.ndarray], float]
"""Number of a draw, its hyperparameters, rows, number of the case, arrays and jitter."""

ONCE: tuple[Case, ...] = ((0, {}),)
"""The cases of a draw that is evaluated once."""


def factors_of(structure: Structure, data: dict[str, Any]) -> Callable:
    """Function from a list of hyperparameters to (alpha, root) and their jitter."""
    staged = compiled(structure, _factorise, {"jitter": np.zeros(())}, data, buffered=True)
    factorise = staged.given(*data.values())
    return lambda given: with_jitter(partial(at_jitter, factorise, given))


def _factorise(draw: OneDraw) -> list[Tensor]:
    return [v for v in draw.strategy.condition(draw.given) if v is not None]


def at_jitter(function: Callable, given: list[np.ndarray], jitter: float) -> list[np.ndarray]:
    """Call a function with a jitter last."""
    return function(*given, np.asarray(jitter))


def draws_together(seconds: float) -> int:
    """How many draws a task has, where one takes so many seconds."""
    return int(min(max(1.0, np.ceil(LONG_ENOUGH / max(seconds, 1e-9))), MOST_TOGETHER))


class _Own(threading.local):
    """What the running thread has made: functions, which serve one thread at a time."""

    factors: Callable | None = None
    at_rows: tuple[Any, Callable] | None = None

    def __reduce__(self) -> tuple[Callable, tuple]:
        """Pickle without them; another process makes its own."""
        return _Own, ()


@dataclass(frozen=True)
class Work:
    """Graphs of one draw, and all that they are evaluated at but the draw and the rows."""

    structure: Structure
    build: Build
    data: dict[str, Any] | None  # what a draw is conditioned on, if it is
    rows: dict[str, Any]
    common: Mapping[str, Any]
    by_row: Mapping[str, Any] | None
    cases: Cases
    own: _Own = field(default_factory=_Own)

    def known(self, theta: Mapping[str, Any]) -> Known:
        """What the data leave behind at a draw, and its jitter."""
        if self.data is None:
            return {"jitter": np.zeros(())}, 0.0
        if self.own.factors is None:
            self.own.factors = factors_of(self.structure, self.data)
        found, jitter = self.own.factors([*theta.values()])
        return {
            "jitter": np.asarray(jitter),
            **dict(zip(Found._fields, found, strict=False)),
        }, jitter

    def evaluated(self, draws: Sequence[Draw], blocks: Sequence[Any]) -> Iterator[Evaluated]:
        """Results of draws at blocks of rows; each may overwrite the last one."""
        begin_turn()
        for number, theta, known in draws:
            state, jitter = known or self.known(theta)
            cases = self.cases(number) if callable(self.cases) else self.cases
            if not cases:
                continue
            for rows in blocks:
                at_rows = self._at(rows, state | cases[0][1])
                for key, case in cases:
                    arrays = at_rows(*theta.values(), *(state | case).values())
                    yield number, theta, rows, key, arrays, jitter

    def _at(self, rows: Any, changing: Mapping[str, Any]) -> Callable:
        """The function of a draw at a block of rows; the last one is kept."""
        last = self.own.at_rows
        if last is not None and last[0] is rows:
            return last[1]
        inputs = None if self.by_row is None else {**self.common, **self.by_row}
        staged = compiled(self.structure, self.build, changing, self.rows, inputs)
        own = [] if self.by_row is None else [values[rows] for values in self.by_row.values()]
        function = staged.given(*self.rows.values(), *self.common.values(), *own)
        self.own.at_rows = rows, function
        return function


@dataclass
class Turns:
    """Draws and blocks of rows, in the groups that one thread or process evaluates in turn.

    The groups depend on the question alone. Each group begins anew, so results do not depend on
    threads. The `first` draw has its own blocks, and is `known`.
    """

    work: Work
    draws: Sequence[tuple[int, Mapping[str, Any]]]
    blocks: Sequence[Any]
    known: Known
    first: Sequence[Any]
    executor: Executor | None
    together: int = 1  # draws of a group

    def __iter__(self) -> Iterator[tuple[Sequence[Draw], Sequence[Any]]]:
        """Yield groups of draws, known or not, and of blocks."""
        each: Iterator[Draw]
        if self.work.data is None:  # the function of a block serves all draws
            for rows in self.blocks:
                each = ((*draw, self.known) for draw in self.draws)
                while group := [*islice(each, self.together)]:
                    yield group, [rows]
            return
        (number, theta), *others = self.draws
        if self.executor is None and len(self.blocks) > 1:  # which share what is known of a draw
            head = number, theta, _copied(self.known)
            yield from (([head], [rows]) for rows in self.first)
            for number, theta in others:
                begin_turn()
                draw = number, theta, _copied(self.work.known(theta))
                yield from (([draw], [rows]) for rows in self.blocks)
            return
        yield [(number, theta, self.known)], self.first
        each = ((number, theta, None) for number, theta in others)
        while group := [*islice(each, self.together)]:
            yield group, self.blocks

    def found(self, workers: int, description: str) -> Iterator[tuple[int, list[Evaluated]]]:
        """Yield how many evaluations a group has, and their results.

        The first group, which compiles, and the second are evaluated here. So are others, unless
        there is an executor, or the rest takes so long that threads are worth their start.
        """
        groups, left = iter(self), len(self.draws) * len(self.blocks)
        for done, group in enumerate(groups):
            started = perf_counter()
            size, found = _of_several(self.work, *group)
            ended = perf_counter()
            seconds, left = (ended - started) / max(size, 1), left - size
            yield size, found
            if done == 1 and description:
                # The caller's own work on the results belongs to what is waited for.
                beyond = (perf_counter() - ended) / max(size, 1)
                shared = seconds / (1.0 + SHARED * (workers - 1))
                announce(description, left * (shared + beyond))
            if done and self.executor is not None:
                self.together = draws_together(seconds * size)
                yield from in_turn(_elsewhere, self.work, groups, self.executor)
            elif done == 1:
                nbytes = sum(array.nbytes for one in found for array in one[4]) // max(size, 1)
                self.together = min(max(1, TURN_BYTES // max(nbytes, 1)), TURN)
            if done and self.executor is None and workers > 1 and left * seconds > WORTH_THREADS:
                yield from _by_threads(self.work, groups, workers)


def _copied(known: Known) -> Known:
    """What is known of a draw, while the next one is already asked for."""
    state, jitter = known
    return {name: np.array(value) for name, value in state.items()}, jitter


def _by_threads(work: Work, groups: Iterator, workers: int) -> Iterator[tuple]:
    pool = ThreadPoolExecutor(workers)
    try:
        yield from in_turn(_elsewhere, work, groups, pool, 2 * workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _of_several(
    work: Work, draws: Sequence[Draw], blocks: Sequence[Any]
) -> tuple[int, list[Evaluated]]:
    """How many evaluations several draws and blocks are, and their results, by this thread."""
    found = work.evaluated(draws, blocks)
    copied = [(*one, [np.array(a) for a in arrays], jitter) for *one, arrays, jitter in found]
    return len(draws) * len(blocks), copied


def _elsewhere(work: Work, *group: Sequence[Any]) -> tuple[int, list[Evaluated]]:
    with BLAS.held(1):
        return _of_several(work, *group)


def in_threads(
    structure: Structure, build: Build, data: dict[str, Any], draws: Sequence[tuple], n: int
) -> Iterator[tuple[list[np.ndarray], float]]:
    """Yield the arrays of each draw and the jitter that they took, several draws at a time."""
    staged = compiled(structure, build, {"jitter": np.zeros(())}, data, buffered=True)

    def evaluated(some: Sequence[tuple]) -> list[tuple[list[np.ndarray], float]]:
        begin_turn()
        function, found = staged.given(*data.values()), []
        for _, theta in some:
            given = [*theta.values()]
            arrays, jitter = with_jitter(partial(at_jitter, function, given))
            found.append(([np.array(array) for array in arrays], jitter))
        return found

    pool = ThreadPoolExecutor(1 if n >= THREADED_FROM else parallel_densities(n))
    try:
        yield from chain.from_iterable(pool.map(evaluated, batched(draws, TURN)))
    finally:
        pool.shutdown(cancel_futures=True)


def for_threads(
    model: ModelLike, hyper: HyperparameterDraws, build: Build, changing: Mapping[str, Any]
) -> Callable[[], Callable]:
    """Maker of a function, for the running thread, of hyperparameters and such changing values.

    For optimizers, which choose the hyperparameters; `build` needs the training data alone.
    """
    structure = Structure.of(model, hyper)
    data = data_of(model, structure, model.training)
    staged = compiled(structure, build, changing, data, buffered=True)
    return lambda: staged.given(*data.values())
