"""Evaluate a request for each hyperparameter draw, at points in blocks of rows.

Draws are evaluated one by one, or in blocks as tasks of an executor if there are few rows. The
result for a draw does not depend on its block, so blocks may have any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import batched, chain
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.data.streamed import StreamedData
from bayes_gpx.draws.compiled import Structure, compiled, data_of
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.linear_algebra import with_jitter
from bayes_gpx.numerics.threads import BLAS, blas_threads
from bayes_gpx.system.digests import digest
from bayes_gpx.system.memory import in_words, refuse_beyond
from bayes_gpx.system.tasks import in_turn

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.posteriors.base import Build

LONG_ENOUGH = 0.3
"""Shortest time of a task in seconds: sending it and its result takes milliseconds."""

MOST_TOGETHER = 100
"""Most draws of a task, so all processes share them."""

_EXECUTOR: ContextVar[Executor | None] = ContextVar("executor", default=None)


@contextmanager
def by_executor(executor: Executor) -> Iterator[None]:
    """Context in which an executor evaluates blocks of draws."""
    token = _EXECUTOR.set(executor)
    try:
        yield
    finally:
        _EXECUTOR.reset(token)


def draws_together(seconds: float) -> int:
    """How many draws a task has, where one takes so many seconds."""
    return int(min(max(1.0, np.ceil(LONG_ENOUGH / max(seconds, 1e-9))), MOST_TOGETHER))


def factors_of(model: ModelLike, structure: Structure, data: dict[str, Any]) -> Callable:
    """Function from a list of hyperparameters to (alpha, root) and their jitter.

    Out-of-core rows are read once for each list, and the results are kept.
    """
    factors = _factors(structure, data)
    return partial(_once, model.found, factors) if "parts" in data else factors


def _factors(structure, data):
    staged = compiled(structure, _factorise, ("jitter", *data), buffered=True)
    factorise = staged.given(*data.values())
    return lambda given: with_jitter(lambda jitter: factorise(*given, np.asarray(jitter)))


def _once(found, factors, given):
    """What was found for these hyperparameters before; computed where it was not."""
    key = digest(*given)
    if key not in found:
        (alpha, root), jitter = factors(given)
        refuse_beyond(
            2 * root.nbytes,
            f"What rows read in parts leave behind takes {in_words(root.nbytes)} for each draw of "
            f"the hyperparameters, and is kept of {len(found)} draws",
            "Pass num_draws= to the verb, or thin the draws before bx.save.",
        )
        found[key] = np.array(alpha), np.array(root), jitter
    alpha, root, jitter = found[key]
    return (alpha, root), jitter


def condition_on_parts(model: ModelLike, hyper: HyperparameterDraws) -> dict[str, tuple]:
    """Summaries of out-of-core rows at each hyperparameter draw, by the draws' digests."""
    structure = Structure.of(model, hyper)
    if structure.strategy.by_sums:
        return {}
    factors = factors_of(model, structure, data_of(model, structure))
    draws = [[*theta.values()] for _, theta in hyper]
    with blas_threads(model.training.n):
        for given in draws:
            factors(given)
    return {key: model.found[key] for key in map(lambda given: digest(*given), draws)}


def symbols_of(where: Points) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of the symbols for points: one row for each, and common to all."""
    at_points, start = {"X_new": where.X}, {}
    if where.Z is not None:
        at_points["Z_new"] = where.Z
    if where.group is not None:
        at_points["group_new"] = where.group
    if where.baseline is not None:
        start["baseline" if where.baseline.ndim == 1 else "baselines"] = where.baseline
    if where.by is not None:
        start["weights"] = where.by.values
    return at_points, start


def _factorise(draw):
    return [*draw.strategy.condition(draw.given)]


def in_blocks(
    model: ModelLike,
    hyper: HyperparameterDraws,
    tracked: Iterable[tuple],
    build: Build,
    where: Points,
    size_of: Callable[[int], int],
    labels: Sequence[int] = (),
    first: int = 0,
) -> Iterator[tuple]:
    """Evaluate a build function at points, for each draw and block of rows.

    `size_of` is given the length of alpha and returns how many rows a block has. Rows before the
    `first` are left out of the first draw. Inside of `by_executor` all draws but the first two,
    which say how long one takes, are in tasks.

    Yields
    ------
    position, hyperparameters, rows, class (0 without `labels`), arrays, jitter
    """
    structure = Structure.of(model, hyper)
    at_points, common = symbols_of(where)
    if where.positions is not None:
        at_points["positions"] = where.positions
    data = data_of(model, structure)
    factors = factors_of(model, structure, data)
    executor = None if "parts" in data else _EXECUTOR.get()
    if isinstance(model.training, StreamedData) and model.training.part is not None:
        data = {**{n: v for n, v in data.items() if n != "parts"}, **model.training.part.scaled()}
    asked = _Asked(structure, build, data, at_points, common, (*labels,))
    draws, m, function = iter(tracked), len(where.X), None
    blocks: list[slice] = []
    seconds = 0.0
    for number, (at, theta) in enumerate(draws):
        begun = perf_counter()
        known, jitter = factors([*theta.values()])
        if function is None:
            size = size_of(len(known[0]))
            blocks = [slice(start, min(start + size, m)) for start in range(0, m, size)]
            function = asked.function(blocks)
        own = model.specification.of_outputs(theta, model.training.code)
        some = [rows for rows in blocks if rows.start >= first]
        parts = asked.of_draw(function, theta, known, jitter, some)
        if executor is not None:
            parts = _copied(parts)
            seconds = perf_counter() - begun
        for rows, label, found in parts:
            yield at, own, rows, label, found, jitter
        first = 0
        if executor is not None and number == 1:  # the first may have compiled
            break
    several = batched(draws, draws_together(seconds))
    tasks = in_turn(_of_several, (asked, blocks), ((each,) for each in several), executor)
    for at, theta, jitter, parts in chain.from_iterable(tasks):
        own = model.specification.of_outputs(theta, model.training.code)
        for rows, label, found in parts:
            yield at, own, rows, label, found, jitter


@dataclass(frozen=True, eq=False)
class _Asked:
    """A request for each draw, which can be pickled.

    `data` is conditioned on, `at_points` and `common` come from `symbols_of`, and `labels` are
    positions of classes.
    """

    structure: Structure
    build: Build
    data: dict
    at_points: dict
    common: dict
    labels: tuple

    def function(self, blocks):
        """From one of the blocks of rows to the function there, for the running thread."""
        common, first = self.data | self.common, ("label",) if self.labels else ()
        names = ("jitter", "alpha", "root", *first, *common, *self.at_points)
        ask = compiled(self.structure, self.build, names)

        def asked(rows):
            return ask.given(*common.values(), *[v[rows] for v in self.at_points.values()])

        if len(blocks) > 1:
            return asked
        whole = asked(blocks[0])
        return lambda rows: whole

    def of_draw(self, function, theta, known, jitter, blocks):
        """Yield rows, class (0 without classes) and arrays, given the summary of the data."""
        for rows in blocks:
            at_rows = function(rows)
            for label in self.labels or (0,):
                which = (np.asarray(label),) if self.labels else ()
                yield rows, label, at_rows(*theta.values(), np.asarray(jitter), *known, *which)


def _of_several(shared, draws):
    """The arrays of several draws, in the process that this is called in."""
    asked, blocks = shared
    with BLAS.held(1):
        factors, function = _factors(asked.structure, asked.data), asked.function(blocks)
        found = []
        for at, theta in draws:
            known, jitter = factors([*theta.values()])
            parts = asked.of_draw(function, theta, known, jitter, blocks)
            found.append((at, theta, jitter, _copied(parts)))
        return found


def _copied(parts):
    """Rows, class and arrays, which the next call would overwrite."""
    return [(rows, label, [np.array(a) for a in arrays]) for rows, label, arrays in parts]
