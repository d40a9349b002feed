"""Graphs of the training rows, at every draw, such as leave-one-out predictions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.data.streamed import StreamedData
from bayes_gpx.draws.compiled import Structure, compiled, data_of
from bayes_gpx.draws.evaluate import BLOCK_BYTES
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.numerics.linear_algebra import with_jitter
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.numerics.threads import THREADED_FROM, blas_threads, parallel_densities

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.posteriors.base import Build

TURN = 20
"""Draws that a thread evaluates in a row, where several threads share them."""


def at_training_rows(
    model: ModelLike,
    idata: Draws,
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
    hyper, n = hyperparameter_draws(model, idata, num_draws), model.training.n
    structure = Structure.of(model, hyper)
    blocks, training = [None], model.training
    if structure.strategy.by_sums:
        every = np.arange(n) if rows is None else rows
        if isinstance(training, StreamedData) and rows is not None:
            training, every = training.picked(rows), np.arange(len(rows))
        blocks = _row_blocks(model, every) if groups is None else _whole_groups(model, groups)
    with blas_threads(n), progress_bar(progressbar) as progress:
        found = chain.from_iterable(
            _each_draw(structure, build, data, [*hyper], n)
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


def _data(model, training, structure, groups, order, block):
    """What graphs are given of a block of rows, or of all."""
    data = data_of(model, structure, None if block is None else training.rows(block))
    if order is not None:
        own = {"X", "y", "Z", "exposure", "group"} & data.keys()
        data |= {name: data[name][order] for name in own}
    if groups is not None:
        data["groups"] = groups if block is None else groups[block]
    return data


def _each_draw(structure, build, data, draws, n):
    """Yield the arrays of each draw and the jitter that they took, several draws at a time."""
    staged = compiled(structure, build, ("jitter", *data), buffered=True)

    def evaluated(some):
        function, found = staged.given(*data.values()), []
        for _, theta in some:
            arrays, jitter = with_jitter(lambda j, t=theta: function(*t.values(), np.asarray(j)))
            found.append(([np.array(array) for array in arrays], jitter))
        return found

    parts = [draws[k : k + TURN] for k in range(0, len(draws), TURN)]
    pool = ThreadPoolExecutor(1 if n >= THREADED_FROM else parallel_densities(n))
    try:
        yield from chain.from_iterable(pool.map(evaluated, parts))
    finally:
        pool.shutdown(cancel_futures=True)


def _joined_blocks(arrays, blocks):
    """Numbers (draw,) of the first block, or arrays (draw, rows, ...) of all blocks' rows."""
    each = np.array_split(np.arange(len(arrays)), blocks)
    stacked = [np.stack([arrays[k] for k in own]) for own in each]
    return stacked[0] if stacked[0].ndim == 1 else np.concatenate(stacked, axis=1)


def _row_blocks(model, rows):
    """The rows in blocks with a design of at most `BLOCK_BYTES`."""
    size = _block_size(model)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _whole_groups(model, groups):
    """The rows in such blocks, each of whole groups: larger where a single group is."""
    order, counts = np.argsort(groups, kind="stable"), np.bincount(groups)
    which = (np.cumsum(counts) - 1) // _block_size(model)
    ends = np.cumsum(counts)[np.flatnonzero(np.diff(which))]
    return np.split(order, ends)


def _block_size(model):
    return max(1, BLOCK_BYTES // (8 * len(model.sums["cross"])))
