"""Graphs of one draw as functions of numbers, shared by all models of one structure."""

# Neither new points nor a second model of the same kind compile anything.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import scipy.sparse as sps
from pytensor.graph.replace import graph_replace

from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
from bayes_gpx.draws.protocols import ModelLike, SpecificationLike
from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE
from bayes_gpx.numerics.row_sums import PARTS
from bayes_gpx.numerics.sparse_products import SPARSE
from bayes_gpx.numerics.threads import LOCK, Staged
from bayes_gpx.posteriors.base import (
    BESIDE,
    Asked,
    Conditioning,
    Found,
    OneDraw,
    inducing_operator,
    symbols_of_rows,
)
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.indexed_process import in_groups

if TYPE_CHECKING:
    from bayes_gpx.posteriors.base import Build, Strategy

BUFFERED_BELOW = 1000
"""Rows below which keeping arrays is worth its memory: it saves a third of the time."""

type Kinds = tuple[tuple[str, Any], ...]
"""Name and kind of each value: the type of its symbol, or type and dimensions of an array."""

WIDE = {"X", "U", "baseline", "corners"}
"""Inputs with the features of X on their last axis; graphs know the number."""


@dataclass(frozen=True)
class Structure:
    """Everything that determines a model's graphs; the key of compiled functions."""

    # A callable kernel may depend on anything, so its result, and the variables below it, belong to
    # the structure: two models share functions only if their kernels have names.

    specification: SpecificationLike
    made_of: tuple
    hyperparameters: tuple
    d: int
    p: int
    called_kernel: object
    own_variables: tuple
    intercept: bool
    buffered: bool

    @staticmethod
    def of(model: ModelLike, hyper: HyperparameterDraws) -> Structure:
        """Structure of a model with these hyperparameters and latent values."""
        known = tuple((name, values.ndim - 2) for name, values in hyper.values.items())
        buffered = model.training.n < BUFFERED_BELOW
        key = known, buffered
        if key not in model.structures:
            model.structures[key] = Structure(
                model.specification,
                model.specification.made_of,
                known,
                model.training.d,
                model.training.p,
                model.called_kernel,
                model.own_variables,
                model.training.intercept,
                buffered,
            )
        return model.structures[key]

    def __reduce__(self) -> tuple[Callable, tuple]:
        """Pickle without the objects of names, which the receiving process has."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "made_of"}
        return _restored, (own,)

    @cached_property
    def strategy(self) -> Strategy:
        """How the data become a posterior."""
        return self.specification.strategy_of(dict(self.hyperparameters))


def _restored(own: dict[str, Any]) -> Structure:
    return Structure(made_of=own["specification"].made_of, **own)


def compiled(
    structure: Structure,
    build: Build,
    changing: Mapping[str, Any],
    data: Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    *,
    buffered: bool = False,
) -> Staged:
    """Compile a build function's graphs: functions of hyperparameters and of `changing` values."""
    # Everything that depends on `data` and the `inputs` of a question alone is computed once for
    # all draws. `buffered` keeps intermediate arrays between calls, if the structure allows it.
    kinds = [None if v is None else _kinds(v) for v in (changing, data, inputs)]
    with LOCK:
        return _compiled(structure, build, *kinds, buffered)


def _kinds(values: Mapping[str, Any]) -> Kinds:
    """Name and kind of each value: the type of its symbol, or type and dimensions of an array."""
    return tuple((name, _kind(value)) for name, value in values.items())


def _kind(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return pt.random.type.random_generator_type
    if isinstance(value, TrainingData):
        return PARTS
    if sps.issparse(value):
        return SPARSE
    return value.dtype.str, value.ndim


def _symbols(kinds: Kinds, d: int) -> dict[str, Any]:
    return {
        name: kind(name)
        if not isinstance(kind, tuple)
        else pt.tensor(
            name,
            dtype=np.dtype(kind[0]).name,
            shape=(*(None,) * (kind[1] - 1), d)
            if name.removeprefix(BESIDE) in WIDE
            else (None,) * kind[1],
        )
        for name, kind in kinds
    }


@lru_cache(maxsize=256)
def _compiled(
    structure: Structure,
    build: Build,
    changing: Kinds,
    data: Kinds,
    inputs: Kinds | None,
    buffered: bool,
) -> Staged:
    theta = {
        name: pt.tensor(name, dtype="float64", shape=(None,) * ndim)
        for name, ndim in structure.hyperparameters
    }
    symbols = [_symbols(kinds or (), structure.d) for kinds in (changing, data, inputs)]
    asked = None if inputs is None else Asked(symbols[2], structure.intercept)
    # PyTensor would note of each node which line made it, a tenth to a fifth of the time.
    with pytensor.config.change_flags(traceback__limit=0):
        outputs = build(_one_draw(structure, theta, symbols[0], symbols[1], asked))
    own = {rv: theta[rv.name] for rv in structure.own_variables}
    outputs = graph_replace(outputs, own, strict=False) if own else outputs
    mode = BUFFERED_MODE if buffered and structure.buffered else MODE
    fixed = [*symbols[1].values(), *symbols[2].values()]
    return Staged([*theta.values(), *symbols[0].values()], fixed, outputs, mode)


def _one_draw(
    structure: Structure,
    theta: Mapping[str, Any],
    changing: Mapping[str, Any],
    data: dict[str, Any],
    asked: Asked | None,
) -> OneDraw:
    """The symbols of one draw, each in its place."""
    specification = structure.specification
    if "parts" in data:
        p = structure.p if specification.family == "GPX" else None
        exposed = specification.conditioned if specification.exposed else None
        data = data | symbols_of_rows(structure.d, p, exposed)
    known = data.get
    sums = Sums(*(data[name] for name in Sums._fields)) if "gram" in data else None
    prior = specification.prior(
        theta, structure.d, structure.called_kernel, known("corners"), structure.p
    )
    given = Conditioning(
        prior,
        specification.conditioned,
        dict(specification.of_outputs(theta, known("group"))),
        in_groups(data["X"], data["group"]) if "group" in data else known("X"),
        known("y"),
        known("Z"),
        known("exposure"),
        inducing_operator(known("U"), known("U_Z"), specification.constraints),
        changing["jitter"],
        sums,
        specification.constraints,
        known("parts"),
        specification.noise_of_outputs(theta),
    )
    found = Found(*map(changing.get, Found._fields)) if "alpha" in changing else None
    return OneDraw(structure.strategy, given, found, asked, changing, known("groups"))


def data_of(
    model: ModelLike, structure: Structure, rows: TrainingData | None = None
) -> dict[str, Any]:
    """Data that a model conditions on, by name: all rows, or some of them beside its summaries."""
    corners = {"corners": model.training.corners} if model.specification.expanded else {}
    if structure.strategy.by_sums:
        own = {} if rows is None else rows.scaled()
        return {**own, **corners, **model.sums}
    rows = model.training if rows is None else rows
    known: dict[str, Any] = {"parts": rows} if rows.streamed else rows.scaled()
    return {**known, **model.inducing, **corners}
