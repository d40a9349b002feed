"""One call of an explanation function: read, divided into outputs and chunks, and put together."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial, wraps
from inspect import getdoc, signature
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.draws.averages import by_rows
from bayes_gpx.draws.each_draw import by_executor
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.intervals import MOST_DRAWS
from bayes_gpx.draws.naming import AT, side_by_side
from bayes_gpx.draws.points import points_to_explain
from bayes_gpx.draws.scales import response_units
from bayes_gpx.draws.stores import RowStore
from bayes_gpx.likelihoods.events import KINDS
from bayes_gpx.numerics.progress import of_several
from bayes_gpx.system.digests import digest
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.validation import count, known_executor, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws

PART = 2**14
"""Most rows of a chunk. Fixed costs are then a small proportion of the time."""

LEAST = 2**9
"""Fewest rows of a chunk, if there are as many."""

NUMBERS = 2**24
"""Approximate number of values that each worker keeps in memory for a chunk: 128 MiB."""

OF_ROWS = ("value", "level", "baseline", "baseline_value")
"""Variables that describe rows and features, and are equal for all outputs."""

OF_OUTPUTS = "best", "signs_known"
"""Attributes of `next_rows` that each output has for itself, as it has units."""

SHARED = {
    "of": """{"value", "survival", "probability", "hazard", "quantile"} or ("weight", name)
    Explain the mean of y, an event as in `GP.of_event`, or a weight as in `GPX.of_weight`.""",
    "at": """float or sequence of floats, optional
    Values of y, or probabilities, of events; several add a dim `at`.""",
    "groups_new": """series or array (m,), optional
    Groups of the new rows, for models with groups.""",
    "obs": """label or list of labels, optional
    Only these rows.""",
    "by": """True, str, list of str, series or frame, optional
    Explain averages over all rows, groups or weights, as `by`; training rows have `weights`.""",
    "draws": """int
    Number of draws if `idata` has a single draw of the hyperparameters.""",
    "num_draws": """int, optional
    Thin the hyperparameter draws evenly to at most this many.""",
    "features": "list of str, optional",
    "covariance": """bool
    Add covariances within an observation, or with `by` across groups, as `_cov`.""",
    "joint": """bool
    Draw all observations jointly, at most 5000 quantities.""",
    "keep": """{"draws", "summary"}
    Return draws and moments, or moments alone.""",
    "on": """{"response", "latent"}
    Explain the mean response or f. They are equal for a Gaussian likelihood.""",
    "path": """str or path, optional
    Stream the draws to a zarr store. A repeated call continues it, or replaces a finished one.""",
    "executor": """concurrent.futures.Executor, optional
    Its workers share the draws, or chunks of more than 16,384 rows.""",
    "seed": "int, optional",
    "progressbar": "bool",
    "ci_prob": """float, optional
    Probability of the intervals, 90% by default.""",
}
"""Type and meaning of each option; docs/notation.md explains them."""

DEFAULTS = {
    name: parameter.default
    for name, parameter in signature(evaluate).parameters.items()
    if name in SHARED
}


def documented[Function: Callable](function: Function) -> Function:
    """Add the shared options that a docstring leaves out to the end of its parameters."""
    parameters, returns, rest = (getdoc(function) or "").partition("\n\nReturns\n-------")
    heads = [line.partition(" : ")[0] for line in parameters.splitlines() if line[:1].strip()]
    known = {name for head in heads for name in head.split(", ")}
    names = [name for name in signature(function).parameters if name in SHARED]
    missing = [f"\n{name} : {SHARED[name]}" for name in names if name not in known]
    function.__doc__ = "".join([parameters, *missing, returns, rest])
    return function


def chosen(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The shared options among a function's arguments that differ from their defaults."""
    # Methods that cannot use an option refuse it, and must not see one that the user left out.
    return {
        name: arguments[name]
        for name, default in DEFAULTS.items()
        if name in arguments and arguments[name] != default
    }


type Of = (
    Literal["value", "survival", "probability", "hazard", "quantile"]
    | tuple[Literal["weight"], str]
)
"""What functions explain: the mean of y, an event, or the weight of a column of Z."""


OF_NO_EVENT = ("f", "y", "value", "level", "exposure")
"""Quantities that are the same for all numbers `at` of an event; others depend on them."""


def of_views[**P](function: Callable[P, xr.Dataset]) -> Callable[P, xr.Dataset]:
    """Let a function explain an event of y or a weight by its options `of` and `at`."""
    own = "log_variance" in str(signature(function).parameters["of"].annotation)
    names = ["value", *(["log_variance"] if own else []), *KINDS]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset:
        of, at = kwargs.get("of", "value"), cast(Any, kwargs.get("at"))
        given: Any = {name: value for name, value in kwargs.items() if name not in ("of", "at")}
        event = isinstance(of, str) and of in KINDS
        if at is not None and not event:
            raise ValueError(f"at is {at!r}, but of is {of!r}. Pass of as one of {[*KINDS]}.")
        if isinstance(of, str) and not event:
            one_of("of", of, names)
            return function(*args, **kwargs)
        if event and kwargs.get("on") == "latent":
            raise ValueError(f"on is 'latent', but of={of!r} is about y. Leave one of them out.")
        if at is None and event:
            raise ValueError(f"of is {of!r}, but at is missing. Pass a value of y, or several.")
        model, *rest = args or (given.pop("model", None),)
        refuse_swapped(cast(Any, model), cast(Any, rest[0] if rest else given.get("idata")))
        ask = cast(Any, function)
        if not event:
            return ask(cast(Any, model).of_weight(weighed(of)), *rest, **given)
        values = np.atleast_1d(at)
        if np.ndim(at) and given.get("path") is not None:
            raise ValueError("path was given with several values of at. Pass one of them.")
        view = cast(Any, model).of_event
        with of_several(len(values)):
            each = [ask(view(of, v), *rest, **given) for v in values.tolist()]
        if not np.ndim(at):
            return each[0]
        first, others = each[0], each[1:]
        alike = (n for n in first if str(n).split("_")[0] in OF_NO_EVENT)
        common = [n for n in alike if all(first[n].equals(one[n]) for one in others)]
        found = side_by_side("at", values.tolist(), each, common).assign(first[common])
        words, of_y = KINDS[cast(str, of)].replace("{at}", AT), cast(Any, model).training
        own, units = response_units(view(of, values[0].item())), of_y.said_of_y(words)
        for attrs in (found.attrs, *(part.attrs for part in found.variables.values())):
            if "units" in attrs:
                attrs["units"] = attrs["units"].replace(own, units)
        return found.assign_attrs(event=words.format(y=of_y.y_name))

    return call


def weighed(of: Any) -> str:
    """The column of ("weight", column)."""
    if not isinstance(of, tuple) or len(of) != 2 or of[0] != "weight":
        raise ValueError(f"of is {of!r}. Pass a name, or ('weight', column) for a column of Z.")
    return of[1]


type Answer = Callable[..., xr.Dataset]
"""From a model, its fit, points and shared options to a Dataset; pickled for other processes."""


def answered(
    answer: Answer, arguments: Mapping[str, Any], *, needs_z: bool = True, of_z: bool = False
) -> xr.Dataset:
    """Answer a call, from the arguments of the explanation function."""
    # An answer `of_z` has numbers for the features with weights.
    # Out-of-core rows, and more rows than a chunk has where there is an executor, are explained in
    # chunks; an executor evaluates blocks of hyperparameter draws if all rows are a single chunk.
    # Several outputs are explained one by one, and their single chunk is one task.
    model, idata = arguments["model"], arguments["idata"]
    refuse_swapped(model, idata)
    rows = {n: arguments[n] for n in ROWS if not _absent(arguments.get(n))}
    options, executor = chosen(arguments), arguments.get("executor")
    piece = partial(_of_outputs, answer, needs_z)
    if "executor" not in arguments:
        return piece(model, idata, rows, options)
    known_executor(executor)
    training, X_new = model.training, arguments["X_new"]
    streamed = X_new is None and training.streamed and training.stored
    if not streamed and executor is None:
        return piece(model, idata, rows, options)
    few = not streamed and len(training.X if X_new is None else X_new) <= PART
    if executor is not None and few and training.outputs is None:
        with by_executor(executor):
            return piece(model, idata, rows, options)
    if of_z and training.sparse:
        raise ValueError(
            "Z is sparse, and chunks of more than 16,384 rows have different features. Explain "
            "fewer rows at a time."
        )
    if "by" in rows:
        raise ValueError(
            "by was given, but all rows are explained, one chunk after the other. Leave by "
            "out, or pass rows of your choice as X_new, without an executor."
        )
    for name in ("obs", "joint", *LIKELIHOOD_DATA):
        if not _absent(arguments.get(name)):
            raise ValueError(
                f"{name} was given, but all rows are explained, one chunk after the other. "
                f"Leave {name} out, or pass rows of your choice as X_new, without an executor."
            )
    featured = "features" in arguments
    if X_new is not None:
        all_rows = _at_hand(training, X_new, arguments["Z_new"], arguments.get("groups_new"))
    elif streamed:
        all_rows = _Rows(np.arange(training.n), (), partial(_chunks, training))
        model = model.summarized(idata, options.get("num_draws"))
    else:
        all_rows = _Rows(training.X.index, (), partial(_masks, len(training.X)))
    return _in_chunks(piece, featured, model, idata, all_rows, executor, **options)


LIKELIHOOD_DATA = ("exposure", "trials", "noise_sd")
"""Arguments with a number of each row that the likelihood is given."""

ROWS = ("X_new", "Z_new", "groups_new", "obs", "by", *LIKELIHOOD_DATA)
"""Arguments that say which rows are explained."""


def _absent(value: Any) -> bool:
    return value is None or value is False


def _of_outputs(
    answer: Answer,
    needs_z: bool,
    model: Any,
    idata: Draws,
    rows: dict[str, Any],
    options: dict[str, Any],
) -> xr.Dataset:
    """Answer about some rows, of each output by itself if there are several."""
    if not has_outputs(model, idata):
        return _alone(answer, needs_z, model, idata, rows, options)
    ask = partial(_alone, answer, needs_z)
    return each_output(model, options, lambda view, own: ask(view, idata, rows, own))


def _alone(
    answer: Answer,
    needs_z: bool,
    model: Any,
    idata: Draws,
    rows: dict[str, Any],
    options: dict[str, Any],
) -> xr.Dataset:
    """Read rows, and answer about them."""
    known = {name: rows[name] for name in LIKELIHOOD_DATA if name in rows}
    read = {name: value for name, value in rows.items() if name not in ("by", *known)}
    where = points_to_explain(model, **read, needs_z=needs_z)
    if "by" in rows:
        where = by_rows(model, where, rows["by"])
    return answer(model, idata, where, **options, **known)


def each_output(
    model: Any, options: Mapping[str, Any], ask: Callable[[Any, dict[str, Any]], xr.Dataset]
) -> xr.Dataset:
    """Ask about every output of a model by itself, and join the results along a last dim."""
    # Units become a coordinate; draws are independent between outputs.
    names = model.training.outputs.names
    if options.get("path") is not None:
        raise ValueError(
            f"path was given with the outputs {list(names)}, but a store holds one "
            f"output. Pass model.of_output({names[0]!r}) instead of the model."
        )
    own: Sequence[dict[str, Any]] = [dict(options)] * len(names)
    if options.get("seed") is not None:
        count("seed", options["seed"], 0)
        seeds = np.random.SeedSequence(options["seed"]).generate_state(len(names))
        own = [{**options, "seed": int(seed)} for seed in seeds]
    each = [ask(model.of_output(n), theirs) for n, theirs in zip(names, own, strict=True)]
    common = [name for name in OF_ROWS if name in each[0]]
    found = side_by_side("output", names, each, common).assign(each[0][common])
    for name in ("units", *OF_OUTPUTS):
        if name in found.attrs:
            found = found.assign_coords({name: ("output", [part.attrs[name] for part in each])})
            found.attrs[name] = f"{name} of each output, in the coordinate `{name}`"
    for variable in set(found.data_vars) - set(common):
        if len({part[variable].attrs.get("units") for part in each}) > 1:
            found[variable].attrs["units"] = found.attrs.get("units", "each output's own")
    return found


def has_outputs(model: Any, idata: Draws) -> bool:
    """Whether a model has several outputs, and none was chosen; refuses swapped arguments."""
    refuse_swapped(model, idata)
    return model.training.outputs is not None and model.training.outputs.asked is None


def of_each_output(function: Callable[..., xr.Dataset], arguments: Mapping[str, Any]) -> xr.Dataset:
    """Call an explanation function for every output of its model, and join the results."""

    def ask(view: Any, own: dict[str, Any]) -> xr.Dataset:
        return function(**{**arguments, **own, "model": view})

    return each_output(arguments["model"], {"seed": arguments.get("seed")}, ask)


class _Rows(NamedTuple):
    """Rows to explain: labels, a fingerprint, and the arguments of each chunk for a chunk size."""

    labels: np.ndarray
    asked: tuple
    parts: Callable[[int], Iterator[dict[str, Any]]]


def _chunks(training: TrainingData, size: int) -> Iterator[dict[str, Any]]:
    """The out-of-core training rows."""
    return ({"chunk": chunk} for chunk in training.chunks(size))


def _masks(n: int, size: int) -> Iterator[dict[str, Any]]:
    """Which of the training rows in memory are in each chunk."""
    return ({"obs": np.arange(n) // size == k} for k in range(-(-n // size)))


def _at_hand(
    training: TrainingData, X_new: Table, Z_new: Table | None, groups_new: Column | None
) -> _Rows:
    """New rows in memory."""
    X, Z = training.read_new(X_new, Z_new, needs_z=False)
    tables = {"X_new": X.values, **_own_z(training, Z)}
    groups = training.read_groups(groups_new, X)
    if groups is not None:
        tables["groups_new"] = np.array(groups.labels)[groups.codes]

    def parts(size: int) -> Iterator[dict[str, Any]]:
        starts = range(0, len(X), size)
        return ({name: table[k : k + size] for name, table in tables.items()} for k in starts)

    return _Rows(X.index, (*tables.values(), X.index), parts)


def _own_z(training: TrainingData, Z: Frame | None) -> dict[str, np.ndarray]:
    """Z's values without the intercept, by name; nothing where Z is X or there is none."""
    if Z is None or training.z_is_x:
        return {}
    return {"Z_new": Z.values[:, : training.p - training.intercept]}


def _in_chunks(
    piece: partial,
    featured: bool,
    model: Any,
    idata: Draws,
    rows: _Rows,
    executor: Executor | None,
    *,
    path: str | PathLike | None = None,
    keep: str = "draws",
    seed: int | None = None,
    **options: Any,
) -> xr.Dataset:
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
    size = _rows_of_part(piece, featured, model, hyper, options)
    if path is not None:
        asked = _asked(piece, model, hyper, rows, seed, options)
        store = RowStore(path, asked, entropy, size)
        entropy, size = store.entropy, store.rows
    numbered = ((k, part, _seed(entropy, k)) for k, part in enumerate(rows.parts(size)))
    number, part, own = next(numbered)
    found = piece(model, idata, part, {**options, "seed": own})
    if store is not None:
        store.begin(found, n)
        if not store.holds(number, rows_of := _digest(part)):
            store.write(number, found, rows_of)
        numbered = (task for task in numbered if not store.holds(task[0], _digest(task[1])))
    rest = in_turn(_task, (piece, model, idata, options, store), numbered, executor)
    if store is not None:
        deque(rest, maxlen=0)
        return store.finished(xr.Dataset(coords={"obs": rows.labels}))
    each: Iterator[xr.Dataset] = chain([found], cast(Iterator[xr.Dataset], rest))
    whole = xr.concat(
        each,
        "obs",
        data_vars="minimal",
        coords="minimal",
        compat="override",
        combine_attrs="override",
    )
    return whole.assign_coords(obs=rows.labels)


def _rows_of_part(
    piece: partial,
    featured: bool,
    model: Any,
    hyper: HyperparameterDraws,
    options: Mapping[str, Any],
) -> int:
    """Number of rows of a chunk for which draws and moments have about `NUMBERS` values."""
    # It depends only on the request, and so do the seeds.
    training, specification = model.training, model.specification
    components = 1
    if featured:
        wide = max(training.d, 0 if training.Z is None else training.p)
        features = options.get("features")
        components = wide if features is None else np.size(features)
        components **= 2 if _own(piece).get("order") == 2 else 1
    functions = specification.classes or specification.outputs or 1
    draws = options.get("draws", 1000)
    count("draws", draws)
    draws = draws if hyper.alone else len(hyper)
    held = 2 * min(len(hyper), MOST_DRAWS) + (draws if options["keep"] == "draws" else 0)
    # With the components goes what they add up to, or a new response.
    return int(np.clip(NUMBERS // ((components + 1) * functions * held), LEAST, PART))


def _own(piece: partial) -> dict[str, Any]:
    """Options of the explanation function alone."""
    return getattr(piece.args[0], "keywords", {})


def _asked(
    piece: partial,
    model: Any,
    hyper: HyperparameterDraws,
    rows: _Rows,
    seed: int | None,
    options: dict[str, Any],
) -> str:
    """Digest of everything that determines the numbers: fit, data, rows and options."""
    training = model.training
    arrays = [*hyper.values.values(), *training.scaled().values(), training.X.values, training.y]
    arrays += model.sums.values() if model.specification.fixed_basis else []
    arrays += [array for found in model.posteriors.values() for array in found[:2]]
    answer = piece.args[0]
    name = getattr(answer, "func", answer).__qualname__
    said = [model.signature, str(model.specification.event), str(training.weight)]
    said += [training.y_name, name, len(rows.labels), seed]
    given = sorted((options | _own(piece)).items())
    return digest(*arrays, *rows.asked, said, pickle.dumps(given))


def _seed(entropy: Any, number: int) -> int:
    """Seed of a chunk."""
    return int(np.random.SeedSequence(entropy, spawn_key=(number,)).generate_state(1)[0])


def _digest(part: Mapping[str, Any]) -> str:
    """Digest of the rows of a chunk."""
    chunk = part.get("chunk")
    return digest(*(part if chunk is None else chunk.scaled()).values())


def _task(shared: tuple, number: int, part: dict[str, Any], seed: int) -> xr.Dataset | None:
    """Explain one chunk, and write the result to the store or return it."""
    piece, model, idata, options, store = shared
    found = piece(model, idata, part, {**options, "seed": seed})
    if store is None:
        return found
    store.write(number, found, _digest(part))
    return None
