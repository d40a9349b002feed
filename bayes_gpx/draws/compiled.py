"""Graphs of one draw as functions of numbers, shared by all models of one structure.

Neither new points nor a second model of the same kind compile anything.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from bayes_gpx.draws.protocols import ModelLike, SpecificationLike
from bayes_gpx.numerics.compile_modes import BUFFERED_MODE, MODE
from bayes_gpx.numerics.partial_evaluation import Staged
from bayes_gpx.numerics.row_sums import PARTS
from bayes_gpx.numerics.threads import LOCK
from bayes_gpx.posteriors.base import (
    Asked,
    Conditioning,
    Found,
    OneDraw,
    inducing_operator,
    symbols_of_rows,
)
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.grouped_process import in_groups

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.posteriors.base import Build, Strategy

BUFFERED_BELOW = 1000
"""Rows below which keeping arrays is worth its memory: it saves a third of the time."""

SYMBOLS = {
    "X": pt.dmatrix,
    "y": pt.dvector,
    "Z": pt.dmatrix,
    "parts": PARTS,
    "jitter": pt.dscalar,
    "alpha": pt.dvector,
    "root": pt.dmatrix,
    "X_new": pt.dmatrix,
    "Z_new": pt.dmatrix,
    "positions": pt.lvector,
    "label": pt.lscalar,
    "baseline": pt.dvector,
    "baselines": pt.dmatrix,
    "rng": pt.random.type.random_generator_type,
    "update": pt.dvector,
    "target_mean": pt.dvector,
    "target_variance": pt.dvector,
    "exposure": pt.dvector,
    "U": pt.dmatrix,
    "U_Z": pt.dmatrix,
    "corners": pt.dmatrix,
    "gram": pt.dmatrix,
    "cross": pt.dvector,
    "square": pt.dscalar,
    "n": pt.dscalar,
    "groups": pt.lvector,
    "group": pt.lvector,
    "group_new": pt.lvector,
    "weights": pt.dmatrix,
}
"""Type of each symbol other than the hyperparameters; `_compiled` adds the shapes of some."""


@dataclass(frozen=True)
class Structure:
    """Everything that determines a model's graphs; the key of compiled functions.

    A callable kernel may depend on anything, so its result, and the variables below it, belong to
    the structure: two models share functions only if their kernels have names.
    """

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
        return Structure(
            model.specification,
            model.specification.made_of,
            tuple((name, values.ndim - 2) for name, values in hyper.values.items()),
            model.training.d,
            model.training.p,
            model.called_kernel,
            model.own_variables,
            model.training.intercept,
            model.training.n < BUFFERED_BELOW,
        )

    def __reduce__(self):
        """Pickle without the objects of names, which the receiving process has."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "made_of"}
        return _restored, (own,)

    @property
    def strategy(self) -> Strategy:
        """How the data become a posterior."""
        return self.specification.strategy_of(dict(self.hyperparameters))

    @property
    def stacked(self) -> set[str]:
        """Symbols that have an axis of classes."""
        if self.specification.classes is None:
            return set()
        return {"alpha", "update", *(["root"] if self.strategy.root_by_class else [])}


def _restored(own):
    return Structure(made_of=own["specification"].made_of, **own)


STACKED = {"alpha": 2, "root": 3, "update": 2}
"""Number of dimensions of each symbol that may have an axis of classes, where it has one."""

CHANGING = (
    "jitter",
    "alpha",
    "root",
    "rng",
    "update",
    "label",
    "target_mean",
    "target_variance",
)
"""Symbols with values that differ from draw to draw."""


def compiled(
    structure: Structure, build: Build, names: tuple[str, ...], *, buffered: bool = False
) -> Staged:
    """Compile a build function's graphs as functions of hyperparameters and `names`.

    The hyperparameters and `CHANGING` change from call to call; everything that depends only on the
    other symbols is computed once for all draws. `build` is hashable and maps
    `bayes_gpx.posteriors.base.OneDraw` to graphs. `names` are keys of `SYMBOLS`, with `CHANGING`
    first. `buffered` keeps intermediate arrays between calls, if the structure allows it.
    """
    with LOCK:
        return _compiled(structure, build, names, buffered)


@lru_cache(maxsize=256)
def _compiled(structure, build, names, buffered):
    theta = {
        name: pt.tensor(name, dtype="float64", shape=(None,) * ndim)
        for name, ndim in structure.hyperparameters
    }
    symbols = {n: SYMBOLS[n](n) for n in names}
    for several in structure.stacked & symbols.keys():
        symbols[several] = pt.tensor(several, dtype="float64", shape=(None,) * STACKED[several])
    for points in {"X", "X_new", "U", "baselines", "corners"} & symbols.keys():
        symbols[points] = pt.tensor(points, dtype="float64", shape=(None, structure.d))
    if "baseline" in symbols:
        symbols["baseline"] = pt.tensor("baseline", dtype="float64", shape=(structure.d,))
    # PyTensor would note of each node which line made it, a tenth to a fifth of the time.
    with pytensor.config.change_flags(traceback__limit=0):
        outputs = build(_one_draw(structure, theta, symbols))
    own = {rv: theta[rv.name] for rv in structure.own_variables}
    outputs = graph_replace(outputs, own, strict=False) if own else outputs
    changing = [*theta.values(), *(symbols[n] for n in names if n in CHANGING)]
    fixed = [symbols[n] for n in names if n not in CHANGING]
    mode = BUFFERED_MODE if buffered and structure.buffered else MODE
    return Staged(changing, fixed, outputs, mode)


def _one_draw(structure, theta, symbols):
    """The symbols of one draw, each in its place."""
    specification = structure.specification
    if "parts" in symbols:
        p = structure.p if specification.family == "GPX" else None
        exposed = not specification.normal
        symbols = symbols | symbols_of_rows(structure.d, p, exposed=exposed)
    symbol = symbols.get
    sums = Sums(*(symbols[name] for name in Sums._fields)) if "gram" in symbols else None
    baseline = symbol("baseline", symbol("baselines"))
    target = symbol("target_mean"), symbol("target_variance")
    at_rows = specification.of_outputs(theta, symbol("group"))
    asked = Asked(
        symbol("X_new"),
        symbol("Z_new"),
        symbol("positions"),
        baseline,
        structure.intercept,
        symbol("group_new"),
        symbol("weights"),
    )
    return OneDraw(
        structure.strategy,
        Conditioning(
            specification.prior(
                theta, structure.d, structure.called_kernel, symbol("corners"), structure.p
            ),
            specification.observation,
            at_rows,
            in_groups(symbols["X"], symbols["group"]) if "group" in symbols else symbol("X"),
            symbol("y"),
            symbol("Z"),
            symbol("exposure"),
            inducing_operator(symbol("U"), symbol("U_Z")),
            symbols["jitter"],
            sums,
            specification.constraints,
            symbol("parts"),
        ),
        Found(symbols["alpha"], symbol("root")) if "alpha" in symbols else None,
        asked if "X_new" in symbols else None,
        symbol("label"),
        symbol("rng"),
        symbol("update"),
        symbol("groups"),
        target if "target_mean" in symbols else None,
    )


def data_of(
    model: ModelLike, structure: Structure, rows: TrainingData | None = None
) -> dict[str, Any]:
    """Data that a model conditions on, by the names of `SYMBOLS`: arrays, or out-of-core rows.

    With `rows`, only these rows, if the strategy needs nothing but sums over all rows.
    """
    corners = {"corners": model.training.corners} if model.specification.expanded else {}
    if not structure.strategy.by_sums:
        streamed, training = model.training.streamed, model.training
        known: dict = {"parts": training} if streamed else training.scaled()
        return {**known, **model.inducing, **corners}
    own = {} if rows is None else rows.scaled()
    return {**own, **corners, **model.sums}
