"""The loop over draws: evaluate graphs of one draw for every draw and block of rows.

Draws are evaluated one by one, or in blocks as
tasks of an executor if there are few rows. The result for a draw does not depend on its block, so
blocks may have any length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import batched, chain
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.graphs import Structure, compiled, data_of
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.linear_algebra import with_jitter
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import BLAS, THREADED_FROM, blas_threads, parallel_densities
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

TURN = 20
"""Draws that a thread evaluates in a row, where several threads share them."""

LONG_ENOUGH = 0.3
"""Shortest time of a task in seconds: sending it and its result takes milliseconds."""

MOST_TOGETHER = 100
"""Most draws of a task, so all processes share them."""

type Case = tuple[int, dict[str, Any]]
"""What else a draw is evaluated at, and its number: the code of a class, or a random function."""

type Cases = Sequence[Case] | Callable[[int], Sequence[Case]]
"""Cases of every draw, or of the draw of a number."""

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
    factors = _kept_factors(model, structure, data) if conditioned else None
    executor = None if "parts" in data or callable(cases) else _EXECUTOR.get()
    if where is not None and where.chunk is not None:
        data = data_of(model, structure, where.chunk)
    inputs = ({}, None) if where is None else (where.common, where.inputs)
    shared = structure, build, data, *inputs
    draws = [(k, theta) for k, (_, theta) in enumerate(hyper) if only is None or k in only]
    draws, m = draws[begun[0] :], 1 if where is None else len(where.X)
    of_outputs = partial(model.specification.of_outputs, codes=model.training.code)
    keep_freed_memory()
    with blas_threads(model.training.n), progress_bar(progressbar) as progress:
        if factors is None:
            blocks = _blocks(m, size_of(0))
            for rows in progress.track(blocks, total=len(blocks), description=description):
                kept: list[Callable] = []
                for number, theta in draws:
                    state = {"jitter": np.zeros(())}
                    own_cases = _of(cases, number)
                    for _, key, arrays in _of_draw(shared, theta, state, [rows], own_cases, kept):
                        yield number, theta, rows, key, arrays, 0.0
            return
        kept, seconds = [], 0.0
        tracked = iter(progress.track(draws, total=len(draws), description=description))
        for done, (number, theta) in enumerate(tracked):
            started = perf_counter()
            state, jitter = _state(factors, theta)
            blocks = blocks or _blocks(m, size_of(len(state["alpha"])))
            some = blocks if done else [r for r in blocks if not begun[1] or r.start >= begun[1]]
            own = kept if len(blocks) == 1 else None
            parts: Iterable[tuple]
            parts = _of_draw(shared, theta, state, some, _of(cases, number), own)
            if executor is not None:
                parts = _copied(parts)
                seconds = perf_counter() - started
            for rows, key, arrays in parts:
                yield number, of_outputs(theta), rows, key, arrays, jitter
            if executor is not None and done == 1:  # the first may have compiled
                break
        if executor is None:
            return
        several = ((group,) for group in batched(tracked, draws_together(seconds)))
        tasks = in_turn(_of_several, (shared, blocks, cases), several, executor)
        for number, theta, jitter, copies in chain.from_iterable(tasks):
            for rows, key, arrays in copies:
                yield number, of_outputs(theta), rows, key, arrays, jitter


def _blocks(m: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, m)) for first in range(0, m, size)]


def _of(cases: Cases, number: int) -> Sequence[Case]:
    return cases(number) if callable(cases) else cases


def _state(factors: Callable, theta: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], float]:
    """What the data leave behind at a draw, and its jitter."""
    found, jitter = factors([*theta.values()])
    known = dict(zip(Found._fields, found, strict=False))
    return {"jitter": np.asarray(jitter), **known}, jitter


def _of_draw(
    shared: tuple,
    theta: Mapping[str, Any],
    state: dict[str, np.ndarray],
    blocks: Sequence[Any],
    cases: Sequence[Case],
    kept: list[Callable] | None,
) -> Iterator[tuple[Any, int, list[np.ndarray]]]:
    """Yield rows, number of the case and arrays of one draw, given what the data leave behind.

    The function of the only block, for the running thread, is `kept`; None if there are several.
    """
    structure, build, data, common, by_row = shared
    if not cases:
        return
    for rows in blocks:
        at_rows = kept[0] if kept else None
        if at_rows is None:
            inputs = None if by_row is None else common | by_row
            staged = compiled(structure, build, state | cases[0][1], data, inputs)
            own = [] if by_row is None else [values[rows] for values in by_row.values()]
            at_rows = staged.given(*data.values(), *common.values(), *own)
            if kept is not None:
                kept.append(at_rows)
        for key, case in cases:
            yield rows, key, at_rows(*theta.values(), *(state | case).values())


def _of_several(shared: tuple, draws: Sequence[tuple[int, Mapping[str, Any]]]) -> list[tuple]:
    """The arrays of several draws, in the process that this is called in."""
    asked, blocks, cases = shared
    structure, _, data, *_ = asked
    with BLAS.held(1):
        factors, found = _factors(structure, data), []
        kept: list[Callable] | None = [] if len(blocks) == 1 else None
        for number, theta in draws:
            state, jitter = _state(factors, theta)
            parts = _of_draw(asked, theta, state, blocks, cases, kept)
            found.append((number, theta, jitter, _copied(parts)))
        return found


def _copied(parts: Iterable[tuple]) -> list[tuple]:
    """Rows, case and arrays, which the next call would overwrite."""
    return [(rows, key, [np.array(a) for a in arrays]) for rows, key, arrays in parts]


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
