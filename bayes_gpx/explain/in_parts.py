"""Explanations in chunks, of rows or of draws: by several processes, or of out-of-core data."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial, wraps
from inspect import signature
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.each_draw import by_executor
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.intervals import MOST_DRAWS
from bayes_gpx.draws.part_stores import PartStore
from bayes_gpx.system.digests import digest
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.validation import count, known_executor, one_of

PART = 2**14
"""Most rows of a chunk. Fixed costs are then a small proportion of the time."""

LEAST = 2**9
"""Fewest rows of a chunk, if there are as many."""

NUMBERS = 2**24
"""Approximate number of values that each worker keeps in memory for a chunk: 128 MiB."""


def in_parts[Verb: Callable](verb: Verb) -> Verb:
    """Make an explanation function work on chunks, for out-of-core data or with an executor.

    If all rows are a single chunk, the executor evaluates blocks of hyperparameter draws instead.
    Several outputs are explained one by one, and their single chunk is one task.
    """

    @wraps(verb)
    def explained(
        model: Any,
        idata: Any,
        X_new: Any = None,  # noqa: N803
        Z_new: Any = None,  # noqa: N803
        *,
        groups_new: Any = None,
        executor: Executor | None = None,
        **options: Any,
    ) -> xr.Dataset:
        refuse_swapped(model, idata)
        streamed = X_new is None and model.training.streamed and model.training.stored
        known_executor(executor)
        alone = partial(verb, model, idata, X_new, Z_new, groups_new=groups_new, **options)
        if not streamed and executor is None:
            return alone()
        few = not streamed and len(model.training.X if X_new is None else X_new) <= PART
        if executor is not None and few and model.training.outputs is None:
            with by_executor(executor):
                return alone()
        if options.get("by") is not None:
            raise ValueError(
                "by was given, but all rows are explained, one chunk after the other. Leave by "
                "out, or pass rows of your choice as X_new, without an executor."
            )
        for name in ("obs", "joint", "exposure"):
            if options.get(name) not in (None, False):
                raise ValueError(
                    f"{name} was given, but all rows are explained, one chunk after the other. "
                    f"Leave {name} out, or pass rows of your choice as X_new, without an executor."
                )
        if streamed:
            kept = model.kept_of_rows(idata, options.get("num_draws"))
            spec, exposed = model.specification, "exposure" in signature(verb).parameters
            known = spec.normal and model.training.Z is not None and not spec.fixed_basis
            rows = _streamed(model.training, exposed and spec.observation.exposed, known)
            model = model.without_rows(kept)
        elif X_new is None:
            rows = _of_training(model.training)
        else:
            rows = _at_hand(model.training, X_new, Z_new, groups_new)
        return _explain(explained, model, idata, rows, executor, **options)

    return cast(Verb, explained)


class _Rows(NamedTuple):
    """Rows to explain: labels, a fingerprint, and the arguments of each chunk for a chunk size."""

    labels: np.ndarray
    asked: tuple
    parts: Callable[[int], Iterator[dict[str, Any]]]


def _streamed(training, exposed, known):
    """The out-of-core training rows in user units, with their exposure if requested.

    If y is `known`, deviations depend on it, and chunks are arguments of `of_part`.
    """
    names = "X_new", *([] if training.z_is_x else ["Z_new"]), *(["exposure"] if exposed else [])
    names = ("X", "Z", "y") if known else names

    def parts(size):
        held: list[list[np.ndarray]] = []
        for frame in training.parts():
            read = training.read(frame)
            tables = {"X_new": read.X.values, **_own_z(training, read.Z), "exposure": read.exposure}
            if known:
                tables = {"X": read.X.values, "Z": read.Z.values, "y": read.y}
            held.append([tables[name] for name in names])
            if sum(len(own[0]) for own in held) < size:
                continue
            whole = [np.concatenate(column) for column in zip(*held, strict=True)]
            last = len(whole[0]) // size * size
            for k in range(0, last, size):
                yield {name: own[k : k + size] for name, own in zip(names, whole, strict=True)}
            held = [[column[last:].copy() for column in whole]]
        whole = [np.concatenate(column) for column in zip(*held, strict=True)]
        if len(whole[0]):
            yield dict(zip(names, whole, strict=True))

    return _Rows(np.arange(training.n), (), parts)


def _of_training(training):
    """The training rows in memory, with their own deviations."""
    positions = np.arange(len(training.X))

    def parts(size):
        return ({"obs": positions // size == k} for k in range(-(-len(positions) // size)))

    return _Rows(training.X.index, (), parts)


def _at_hand(training, X_new, Z_new, groups_new):
    """New rows in memory."""
    X, Z = training.read_new(X_new, Z_new, needs_z=False)
    tables = {"X_new": X.values, **_own_z(training, Z)}
    groups = training.read_groups(groups_new, X)
    if groups is not None:
        tables["groups_new"] = np.array(groups.labels)[groups.codes]

    def parts(size):
        starts = range(0, len(X), size)
        return ({name: table[k : k + size] for name, table in tables.items()} for k in starts)

    return _Rows(X.index, (*tables.values(), X.index), parts)


def _own_z(training, Z):
    """Z's values without the intercept, by name; nothing where Z is X or there is none."""
    if Z is None or training.z_is_x:
        return {}
    return {"Z_new": Z.values[:, : training.p - training.intercept]}


def _explain(verb, model, idata, rows, executor, *, path=None, keep="draws", seed=None, **options):
    """Explain all chunks, into a store, or in memory for summaries without a store."""
    one_of("keep", keep, ("draws", "summary"))
    if keep == "draws" and path is None:
        raise ValueError(
            "Draws of out-of-core data need a path= to go to. Pass one, or keep='summary'."
        )
    if seed is not None:
        count("seed", seed, 0)
    entropy, store, n = np.random.SeedSequence(seed).entropy, None, len(rows.labels)
    options |= {"keep": keep, "progressbar": False}
    hyper = hyperparameter_draws(model, idata, options.get("num_draws"))
    size = _rows_of_part(verb, model, hyper, options)
    if path is not None:
        asked = _asked(verb, model, hyper, rows, seed, options)
        store = PartStore(path, asked, entropy, size)
        entropy, size = store.entropy, store.rows
    numbered = ((k, part, _seed(entropy, k)) for k, part in enumerate(rows.parts(size)))
    number, part, own = next(numbered)
    found = _of_part(verb, model, idata, part, seed=own, **options)
    if store is not None:
        store.begin(found, n)
        if not store.holds(number, rows_of := digest(*part.values())):
            store.write(number, found, rows_of)
        numbered = (
            task for task in numbered if not store.holds(task[0], digest(*task[1].values()))
        )
    rest = in_turn(_task, (verb, model, idata, options, store), numbered, executor)
    if store is not None:
        deque(rest, maxlen=0)
        return store.finished(rows.labels)
    same = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    whole = xr.concat(chain([found], rest), "obs", combine_attrs="override", **same)
    return whole.assign_coords(obs=rows.labels)


def _rows_of_part(verb, model, hyper, options):
    """Number of rows of a chunk for which draws and moments have about `NUMBERS` values.

    It depends only on the request, and so do the seeds.
    """
    training, specification = model.training, model.specification
    components = 1
    if "exposure" not in signature(verb).parameters:  # predictions alone have no features
        wide = max(training.d, 0 if training.Z is None else training.p)
        features = options.get("features")
        components = wide if features is None else np.size(features)
        components **= 2 if options.get("order") == 2 else 1
    functions = specification.classes or specification.outputs or 1
    draws = options.get("draws", 1000)
    count("draws", draws)
    draws = draws if hyper.alone else len(hyper)
    held = 2 * min(len(hyper), MOST_DRAWS) + (draws if options["keep"] == "draws" else 0)
    # With the components goes what they add up to, or a new response.
    return int(np.clip(NUMBERS // ((components + 1) * functions * held), LEAST, PART))


def _asked(verb, model, hyper, rows, seed, options):
    """Digest of everything that determines the numbers: fit, data, rows and options."""
    training = model.training
    arrays = [*hyper.values.values(), *training.scaled().values(), training.X.values, training.y]
    arrays += model.sums.values() if model.specification.fixed_basis else []
    arrays += [array for found in model.found.values() for array in found[:2]]
    said = [model.signature, training.y_name, verb.__name__, len(rows.labels), seed]
    return digest(*arrays, *rows.asked, said, pickle.dumps(sorted(options.items())))


def _seed(entropy, number):
    """Seed of a chunk."""
    return int(np.random.SeedSequence(entropy, spawn_key=(number,)).generate_state(1)[0])


def _of_part(verb, model, idata, part, **options):
    """Explain the rows of a chunk: new rows, or rows with known y."""
    if "y" in part:
        return verb(model.of_part(**part), idata, **options)
    return verb(model, idata, **part, **options)


def _task(shared, number, part, seed):
    """Explain one chunk, and write the result to the store or return it."""
    verb, model, idata, options, store = shared
    found = _of_part(verb, model, idata, part, seed=seed, **options)
    if store is None:
        return found
    store.write(number, found, digest(*part.values()))
    return None
