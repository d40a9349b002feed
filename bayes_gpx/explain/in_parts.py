"""Verbs about many rows, in parts: of data that are read in parts, or by several processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import wraps
from itertools import chain
from typing import Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.part_stores import PART, PartStore
from bayes_gpx.system.digests import digest
from bayes_gpx.validation import count, one_of

WAITING = 16
"""Parts that are with an executor at a time, so that no more are held."""


def in_parts[Verb: Callable](verb: Verb) -> Verb:
    """Have a verb explain in parts the rows of data read in parts, or with an executor."""

    @wraps(verb)
    def explained(
        model: Any,
        idata: Any,
        X_new: Any = None,  # noqa: N803
        Z_new: Any = None,  # noqa: N803
        *,
        executor: Executor | None = None,
        **options: Any,
    ) -> xr.Dataset:
        refuse_swapped(model, idata)
        streamed = X_new is None and model.training.streamed and model.training.source is not None
        if not streamed and executor is None:
            return verb(model, idata, X_new, Z_new, **options)
        for name in ("obs", "joint", "exposure"):
            if options.get(name) not in (None, False):
                raise ValueError(
                    f"{name} was given, but rows are explained in parts, all of them and one part "
                    f"after the other. Leave {name} out, or pass rows of your choice as X_new, "
                    "without an executor."
                )
        if streamed:
            rows, model = _streamed(model.training), model.without_rows()
        else:
            rows = _at_hand(model, X_new, Z_new)
        return _explain(explained, model, idata, rows, executor, **options)

    return cast(Verb, explained)


def _streamed(training):
    """Number of rows, and X and Z of one part after the other, in user units."""

    def parts() -> Iterator[tuple]:
        held: list[list[np.ndarray]] = []
        for frame in training.parts():
            read = training.read(frame)
            held.append([read.X.values, *_own_z(training, read.Z)])
            while sum(len(own[0]) for own in held) >= PART:
                whole = [np.concatenate(column) for column in zip(*held, strict=True)]
                yield tuple(column[:PART] for column in whole)
                held = [[column[PART:] for column in whole]]
        whole = [np.concatenate(column) for column in zip(*held, strict=True)]
        if len(whole[0]):
            yield tuple(whole)

    return training.n, parts()


def _at_hand(model, X_new, Z_new):
    """The same of rows in memory."""
    training = model.training
    own = (training.X, training.Z)
    X, Z = own if X_new is None else training.read_new(X_new, Z_new, needs_z=False)
    tables = [X.values, *_own_z(training, Z)]
    starts = range(0, len(X), PART)
    return len(X), (tuple(table[k : k + PART] for table in tables) for k in starts)


def _own_z(training, Z):
    """Z's values without the intercept, in a list that is empty where Z is X or there is none."""
    if Z is None or training.z_is_x:
        return []
    return [Z.values[:, : training.p - training.intercept]]


def _explain(verb, model, idata, rows, executor, *, path=None, keep="draws", seed=None, **options):
    """The verb's result for all parts, in a store or, of summaries, in memory."""
    one_of("keep", keep, ("draws", "summary"))
    if keep == "draws" and path is None:
        raise ValueError(
            "Draws of rows in parts need a path= to go to; pass one, or keep='summary'."
        )
    if seed is not None:
        count("seed", seed, 0)
    if not isinstance(executor, Executor | None):
        raise ValueError(
            f"executor is a {type(executor).__name__}; expected one of concurrent.futures, or for "
            "Dask client.get_executor()."
        )
    entropy, (n, parts) = np.random.SeedSequence(seed).entropy, rows
    options |= {"keep": keep, "progressbar": False}
    store = None
    if keep == "draws":
        hyper = hyperparameter_draws(model, idata, options.get("num_draws"))
        arrays = [*hyper.values.values(), *model.training.scaled().values()]
        said = [model.signature, verb.__name__, n, seed, sorted(map(str, options.items()))]
        store = PartStore(path, digest(*arrays, str(said)), entropy)
        entropy = store.entropy
    numbered = ((k, part, _seed(entropy, k)) for k, part in enumerate(parts))
    first = next(numbered)
    found = _of_part(verb, (model, idata), first[1], first[2], options)
    if store is not None:
        store.begin(found, n)
        if not store.holds(0):
            store.write(0, found)
        numbered = (part for part in numbered if not store.holds(part[0]))
    tasks = (
        (verb, (model, idata), number, part, own, options, store) for number, part, own in numbered
    )
    rest = _run(executor, (model, idata), tasks)
    if store is not None:
        deque(rest, maxlen=0)
        return store.finished()
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    whole = xr.concat(chain([found], rest), "obs", combine_attrs="override", **same)
    return whole.assign_coords(obs=np.arange(n))


def _seed(entropy, number):
    """Seed of a part."""
    return int(np.random.SeedSequence(entropy, spawn_key=(number,)).generate_state(1)[0])


def _of_part(verb, fitted, part, seed, options):
    """What the verb says of some rows."""
    return verb(*fitted, *part, seed=seed, **options)


def _task(verb, fitted, number, part, seed, options, store):
    """One part, written to the store; or what was found of it."""
    found = _of_part(verb, fitted, part, seed, options)
    if store is None:
        return found
    store.write(number, found)
    return None


def _run(executor, fitted, tasks) -> Iterator[Any]:
    """Results of all tasks in their order, at most `WAITING` of them at a time."""
    if executor is None:
        yield from (_task(*task) for task in tasks)
        return
    client = getattr(executor, "_client", None)
    if client is not None:  # Dask's: what all tasks share is sent once
        fitted = client.scatter(fitted, broadcast=True, hash=False)
    waiting: deque[Future] = deque()
    for verb, _, *rest in tasks:
        waiting.append(executor.submit(_task, verb, fitted, *rest))
        if len(waiting) == WAITING:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
