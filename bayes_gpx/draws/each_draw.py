"""The loop over draws: evaluate graphs of one draw for every draw and block of rows.

Threads, or an executor if there are few rows, evaluate several draws, or blocks of rows, at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.graphs import Structure, data_of
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.turns import ONCE, Cases, Turns, Work, factors_of, in_threads
from bayes_gpx.numerics.progress import announced, progress_bar, speaks
from bayes_gpx.numerics.threads import THREADED_FROM, begin_turn, blas_threads, parallel_densities
from bayes_gpx.system.digests import digest
from bayes_gpx.system.memory import in_words, refuse_beyond

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.points import Points
    from bayes_gpx.posteriors.base import Build

BLOCK_BYTES = 32 * 2**20
"""Size of the largest array that a block of rows may need."""

_EXECUTOR: ContextVar[Executor | None] = ContextVar("executor", default=None)


@contextmanager
def by_executor(executor: Executor) -> Iterator[None]:
    """Let an executor evaluate blocks of draws within the context."""
    token = _EXECUTOR.set(executor)
    try:
        yield
    finally:
        _EXECUTOR.reset(token)


def _kept_factors(model: ModelLike, structure: Structure, data: dict[str, Any]) -> Callable:
    """As `factors_of`; out-of-core rows are read once for each list, and the results are kept."""
    factors = factors_of(structure, data)
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
) -> Generator[tuple[int, Mapping[str, Any], slice, int, list[np.ndarray], float]]:
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
    work = Work(structure, build, data if conditioned else None, rows, common, by_row, cases)
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
        turns = Turns(work, draws, blocks, known, first, executor)
        task = progress.add_task(description, total=len(draws) * len(blocks))
        serial = in_parts or order >= THREADED_FROM
        workers = 1 if serial else parallel_densities(max(order, m))
        said = description if speaks(progressbar) else ""
        for size, found in turns.found(workers, said):
            for number, theta, rows, key, arrays, jitter in found:
                yield number, of_outputs(theta), rows, key, arrays, jitter
            progress.advance(task, size)


def _blocks(m: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, m)) for first in range(0, m, size)]


def at_training_rows(
    model: ModelLike,
    idata: Draws | HyperparameterDraws,
    build: Build,
    *,
    rows: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    order: np.ndarray | None = None,
    num_draws: int | None = None,
    progressbar: bool,
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
            in_threads(structure, build, data, [*hyper], n)
            for data in map(partial(_data, model, training, structure, groups, order), blocks)
        )
        total, what = len(blocks) * len(hyper), "Going through the training rows, by draw"
        told = announced(found, total, what if speaks(progressbar) else "")
        tracked = progress.track(told, total=total, description=what)
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
