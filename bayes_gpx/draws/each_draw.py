"""The loop over draws: evaluate graphs of one draw for every draw and block of rows.

Threads, or an executor if there are few rows, evaluate several draws, or blocks of rows, at a time.
Which draws are evaluated in turn depends on the question alone, so the number of threads does not
change a result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import batched, chain, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.graphs import Structure, compiled, data_of
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.linear_algebra import with_jitter
from bayes_gpx.numerics.progress import announce, progress_bar
from bayes_gpx.numerics.threads import (
    BLAS,
    THREADED_FROM,
    TURN,
    begin_turn,
    blas_threads,
    parallel_densities,
)
from bayes_gpx.posteriors.base import Found
from bayes_gpx.system.digests import digest
from bayes_gpx.system.memory import in_words, refuse_beyond
from bayes_gpx.system.tasks import in_turn

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.points import Points
    from bayes_gpx.posteriors.base import Build, OneDraw

BLOCK_BYTES = 32 * 2**20
"""Size of the largest array that a block of rows may need."""

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

_EXECUTOR: ContextVar[Executor | None] = ContextVar("executor", default=None)


@contextmanager
def by_executor(executor: Executor) -> Iterator[None]:
    """Context in which an executor evaluates blocks of draws."""
    token = _EXECUTOR.set(executor)
    try:
        yield
    finally:
        _EXECUTOR.reset(token)


def _factors(structure: Structure, data: dict[str, Any]) -> Callable:
    """Function from a list of hyperparameters to (alpha, root) and their jitter."""
    staged = compiled(structure, _factorise, {"jitter": np.zeros(())}, data, buffered=True)
    factorise = staged.given(*data.values())
    return lambda given: with_jitter(partial(_at_jitter, factorise, given))


def _factorise(draw: OneDraw) -> list[Tensor]:
    return [v for v in draw.strategy.condition(draw.given) if v is not None]


def _kept_factors(model: ModelLike, structure: Structure, data: dict[str, Any]) -> Callable:
    """As `_factors`; out-of-core rows are read once for each list, and the results are kept."""
    factors = _factors(structure, data)
    return partial(_once, model.posteriors, factors) if "parts" in data else factors


def _once(found: dict[str, tuple], factors: Callable, given: list[np.ndarray]) -> tuple:
    """What was found for these hyperparameters before; computed where it was not."""
    key = digest(*given)
    if key not in found:
        (alpha, root), jitter = factors(given)  # of groups there are none here
        refuse_beyond(
            2 * root.nbytes,
            f"What rows read in parts leave behind takes {in_words(root.nbytes)} for each draw of "
            f"the hyperparameters, and is kept of {len(found)} draws",
            "Pass num_draws= to the verb, or thin the draws before bx.save.",
        )
        found[key] = np.array(alpha), np.array(root), jitter
    alpha, root, jitter = found[key]
    return (alpha, root), jitter


def posteriors_at(model: ModelLike, hyper: HyperparameterDraws) -> dict[str, tuple]:
    """Summaries of out-of-core rows at each hyperparameter draw, by the draws' digests."""
    structure = Structure.of(model, hyper)
    if structure.strategy.by_sums:
        return {}
    factors = _kept_factors(model, structure, data_of(model, structure))
    draws = [[*theta.values()] for _, theta in hyper]
    with blas_threads(model.training.n):
        for given in draws:
            factors(given)
    return {key: model.posteriors[key] for key in map(lambda given: digest(*given), draws)}


def draws_together(seconds: float) -> int:
    """How many draws a task has, where one takes so many seconds."""
    return int(min(max(1.0, np.ceil(LONG_ENOUGH / max(seconds, 1e-9))), MOST_TOGETHER))


def rows_within(bytes_of_row: int) -> int:
    """How many rows a block has, by the bytes that each of them needs."""
    return max(1, BLOCK_BYTES // bytes_of_row)


def keep_freed_memory() -> None:
    """Make the C library keep freed memory, by freeing one block of just under 32 MiB.

    Until glibc has freed a block of this size, it returns blocks to the system and takes them again
    page by page, half of the time of an explanation.
    """
    np.empty(32 * 2**20 - 2**16, np.uint8)


def each_draw(
    model: ModelLike,
    hyper: HyperparameterDraws,
    build: Build,
    where: Points | None = None,
    *,
    size_of: Callable[[int], int] = lambda known: 1,
    blocks: Sequence[Any] = (),
    cases: Cases = ONCE,
    conditioned: bool = True,
    only: Collection[int] | None = None,
    begun: tuple[int, int] = (0, 0),
    description: str = "",
    progressbar: bool = False,
) -> Iterator[tuple[int, Mapping[str, Any], slice, int, list[np.ndarray], float]]:
    """Evaluate a build function for each draw, block of rows and case.

    `size_of` is given the length of alpha and returns how many rows a block has, unless `blocks` of
    positions are given. `cases` are those of all draws, or a function from a draw's number to its
    cases. A build function without alpha and root is not `conditioned`; blocks are then the outer
    loop. `only` picks draws by number; `begun` are the number of draws, and of rows of the next,
    that are left out. Inside of `by_executor` all draws but the first two, which say how long one
    takes, are in tasks.

    Yields
    ------
    number of the draw, hyperparameters, rows, number of the case, arrays, jitter
    """
    structure = Structure.of(model, hyper)
    data = data_of(model, structure)
    in_parts, order = "parts" in data, 0 if structure.strategy.by_sums else model.training.n
    executor = None if in_parts or callable(cases) else _EXECUTOR.get()
    rows, m, common, by_row = data, 1, {}, None
    if where is not None:
        m, common, by_row = len(where.X), where.common, where.inputs
        if where.chunk is not None:
            rows = data_of(model, structure, where.chunk)
    work = _Work(structure, build, data if conditioned else None, rows, common, by_row, cases)
    draws = [(k, theta) for k, (_, theta) in enumerate(hyper) if only is None or k in only]
    draws = draws[begun[0] :]
    if not draws:
        return
    of_outputs = partial(model.specification.of_outputs, codes=model.training.code)
    keep_freed_memory()
    with blas_threads(order), progress_bar(progressbar) as progress:
        if in_parts:
            work.own.factors = _kept_factors(model, structure, data)
        begin_turn()
        known = work.known(draws[0][1])
        blocks = blocks or _blocks(m, size_of(len(known[0].get("alpha", ()))))
        first = [rows for rows in blocks if not begun[1] or rows.start >= begun[1]]
        turns = _Turns(work, draws, blocks, known, first, executor)
        task = progress.add_task(description, total=len(draws) * len(blocks))
        serial = in_parts or order >= THREADED_FROM
        workers = 1 if serial else parallel_densities(max(order, m))
        said = description if progressbar else ""
        for size, found in turns.found(workers, said):
            for number, theta, rows, key, arrays, jitter in found:
                yield number, of_outputs(theta), rows, key, arrays, jitter
            progress.advance(task, size)


def _blocks(m: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, m)) for first in range(0, m, size)]


class _Own(threading.local):
    """What the running thread has made: functions, which serve one thread at a time."""

    factors: Callable | None = None
    at_rows: tuple[Any, Callable] | None = None

    def __reduce__(self) -> tuple[Callable, tuple]:
        """Pickle without them; another process makes its own."""
        return _Own, ()


@dataclass(frozen=True)
class _Work:
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
            self.own.factors = _factors(self.structure, self.data)
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
class _Turns:
    """Draws and blocks of rows, in the groups that one thread or process evaluates in turn.

    The groups depend on the question alone. Each group begins anew, so results do not depend on
    threads. The `first` draw has its own blocks, and is `known`.
    """

    work: _Work
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
            seconds, left = (perf_counter() - started) / max(size, 1), left - size
            if done == 1 and description:
                announce(description, left * seconds / (1.0 + SHARED * (workers - 1)))
            yield size, found
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


def _by_threads(work: _Work, groups: Iterator, workers: int) -> Iterator[tuple]:
    pool = ThreadPoolExecutor(workers)
    try:
        yield from in_turn(_elsewhere, work, groups, pool, 2 * workers)
    finally:
        pool.shutdown(cancel_futures=True)


def _of_several(
    work: _Work, draws: Sequence[Draw], blocks: Sequence[Any]
) -> tuple[int, list[Evaluated]]:
    """How many evaluations several draws and blocks are, and their results, by this thread."""
    found = work.evaluated(draws, blocks)
    copied = [(*one, [np.array(a) for a in arrays], jitter) for *one, arrays, jitter in found]
    return len(draws) * len(blocks), copied


def _elsewhere(work: _Work, *group: Sequence[Any]) -> tuple[int, list[Evaluated]]:
    with BLAS.held(1):
        return _of_several(work, *group)


def at_training_rows(
    model: ModelLike,
    idata: Draws | HyperparameterDraws,
    build: Build,
    *,
    rows: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    order: np.ndarray | None = None,
    num_draws: int | None = None,
    progressbar: bool = True,
) -> tuple[list[np.ndarray], HyperparameterDraws, float]:
    """Evaluate ``build``, graphs of numbers or arrays from the training data alone, at every draw.

    `rows` are positions of the requested rows, the first axis of the arrays. `groups` (n,) are
    codes of groups, for graphs that need all rows of a group at once. `order` (n,) are positions of
    all rows in the order of the graphs. Returns arrays (chain, draw, ...), the HyperparameterDraws,
    and the largest relative jitter.
    """
    hyper, n = idata, model.training.n
    if not isinstance(hyper, HyperparameterDraws):
        hyper = hyperparameter_draws(model, hyper, num_draws)
    structure = Structure.of(model, hyper)
    training: Any = model.training
    blocks: list[Any] = [None]
    if structure.strategy.by_sums:
        every = np.arange(n) if rows is None else rows
        if rows is not None:
            training, every = training.rows(rows), np.arange(len(rows))
        size = rows_within(8 * len(model.sums["cross"]))
        if groups is None:
            blocks = [every[first : first + size] for first in range(0, len(every), size)]
        else:
            blocks = _whole_groups(groups, size)
    with blas_threads(n), progress_bar(progressbar) as progress:
        found = chain.from_iterable(
            _in_threads(structure, build, data, [*hyper], n)
            for data in map(partial(_data, model, training, structure, groups, order), blocks)
        )
        tracked = progress.track(
            found, total=len(blocks) * len(hyper), description="Leaving rows out, by draw"
        )
        arrays, jitters = zip(*tracked, strict=True)
    columns = [_joined_blocks(column, len(blocks)) for column in zip(*arrays, strict=True)]
    if groups is not None and blocks[0] is not None:
        back = np.argsort(np.concatenate(blocks))
        columns = [c[:, back] for c in columns]
    if rows is not None and not structure.strategy.by_sums:
        columns = [c if c.ndim == 1 else c[:, rows] for c in columns]
    shape = len(hyper.chain), len(hyper.draw)
    return [c.reshape((*shape, *c.shape[1:])) for c in columns], hyper, max(jitters)


def _data(
    model: ModelLike,
    training: TrainingData,
    structure: Structure,
    groups: np.ndarray | None,
    order: np.ndarray | None,
    block: np.ndarray | None,
) -> dict[str, Any]:
    """What graphs are given of a block of rows, or of all."""
    data = data_of(model, structure, None if block is None else training.rows(block))
    if order is not None:
        own = {"X", "y", "Z", "exposure", "group"} & data.keys()
        data |= {name: data[name][order] for name in own}
    if groups is not None:
        data["groups"] = groups if block is None else groups[block]
    return data


def _in_threads(
    structure: Structure, build: Build, data: dict[str, Any], draws: Sequence[tuple], n: int
) -> Iterator[tuple[list[np.ndarray], float]]:
    """Yield the arrays of each draw and the jitter that they took, several draws at a time."""
    staged = compiled(structure, build, {"jitter": np.zeros(())}, data, buffered=True)

    def evaluated(some: Sequence[tuple]) -> list[tuple[list[np.ndarray], float]]:
        begin_turn()
        function, found = staged.given(*data.values()), []
        for _, theta in some:
            given = [*theta.values()]
            arrays, jitter = with_jitter(partial(_at_jitter, function, given))
            found.append(([np.array(array) for array in arrays], jitter))
        return found

    pool = ThreadPoolExecutor(1 if n >= THREADED_FROM else parallel_densities(n))
    try:
        yield from chain.from_iterable(pool.map(evaluated, batched(draws, TURN)))
    finally:
        pool.shutdown(cancel_futures=True)


def _at_jitter(function: Callable, given: list[np.ndarray], jitter: float) -> list[np.ndarray]:
    return function(*given, np.asarray(jitter))


def _joined_blocks(arrays: Sequence[np.ndarray], blocks: int) -> np.ndarray:
    """Numbers (draw,) of the first block, or arrays (draw, rows, ...) of all blocks' rows."""
    each = np.array_split(np.arange(len(arrays)), blocks)
    stacked = [np.stack([arrays[int(k)] for k in own]) for own in each]
    return stacked[0] if stacked[0].ndim == 1 else np.concatenate(stacked, axis=1)


def _whole_groups(groups: np.ndarray, size: int) -> list[np.ndarray]:
    """Positions of rows in blocks of about that size, each of whole groups."""
    order, counts = np.argsort(groups, kind="stable"), np.bincount(groups)
    which = (np.cumsum(counts) - 1) // size
    ends = np.cumsum(counts)[np.flatnonzero(np.diff(which))]
    return np.split(order, ends)


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
