"""Partial dependence: the function along one feature, averaged over all others as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, Weights, by_rows
from bayes_gpx.draws.evaluate import LARGEST_JOINT, evaluate, row_means
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.draws.level_moves import at_levels
from bayes_gpx.draws.naming import origin, recorded, units_of
from bayes_gpx.draws.points import Points, at_other_x, points
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.random_functions import Functions, draw_functions, or_else, values
from bayes_gpx.draws.scales import scale_attrs
from bayes_gpx.explain.answered import documented, has_outputs, of_each_output
from bayes_gpx.explain.components import kernels_of
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.processes import operators
from bayes_gpx.processes.players import split
from bayes_gpx.validation import count, names_among, one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked


NAME = "partial_dependence"
"""Name of the averages."""

type Parts = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Dims and arrays by name, for one feature."""

PATIENCE = 4
"""How many times as long as random functions exact averages may take."""

STEPS, A_LENGTH = (20, 200), {"lengthscale": 5.0, "period": 10.0}
"""Fewest and most steps along a feature, and steps for each of its lengths between these."""

FEW_VALUES = 10
"""Most values of a column of numbers that are its places, if each stands for two rows or more."""


@recorded
@documented
@on_cores
def partial_dependence(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    features: Sequence[str] | None = None,
    steps: int | None = None,
    on: Literal["response", "latent"] = "response",
    ci_prob: float | None = None,
    keep: Literal["draws", "summary"] = "summary",
    draws: int = 100,
    num_draws: int | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Average predictions along each feature, over the values of all others.

    Use it for curves: for each row (ICE), and averaged over rows. If the curves of the rows are not
    parallel, the feature interacts with others. The band shows the uncertainty of the average, not
    the variation between rows. Averages of f are exact for tables of moderate size, see the
    attribute `moments`; all others are those of random functions of the posterior.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, z' g(x) is averaged. If Z was given, z is fixed.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array, optional
        Rows to average over; None for the training rows.
    by : True, str, list of str, series or frame, optional
        Average within groups of rows, as in `derivatives`; over all rows by default.
    steps : int, optional
        Number of places along each feature, evenly spaced from its smallest to its largest value
        among these rows, or all training rows if these have one value. By default 20, or 5 for
        each lengthscale, up to 200. A categorical column has its levels, and a column of numbers
        with up to ten values that repeat has these values.
    keep : {"summary", "draws"}
        "draws" keeps the curve of every row for every draw, not only its mean.

    Returns
    -------
    xarray.Dataset
        ==================================  ================================  =========
        variable                            dims                              unit
        ==================================  ================================  =========
        `partial_dependence`                chain, draw, [by,] feature, step  f or S(f)
        `partial_dependence_mean`, `_sd`    [by,] feature, step               f or S(f)
        `partial_dependence_band`           [by,] feature, step, ci_bound     f or S(f)
        `ice_mean`                          obs, feature, step                f or S(f)
        `ice` (``keep="draws"``)            chain, draw, obs, feature, step   f or S(f)
        `value`                             feature, step                     x
        ==================================  ================================  =========

        The band is pointwise with equal tails. Several classes add a last dim `class` (before
        `ci_bound`). For a categorical column, `value` is the position of a level and the coordinate
        `level` (feature, step) is its name; steps that a feature does not have are NaN.

    Raises
    ------
    ValueError
        For unknown features or `on`, fewer than two steps, kernels without random functions, and
        rows or idata that do not fit the model.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine" (2001), section 8.2;
    Goldstein, Kapelner, Bleich and Pitkin, "Peeking inside the black box" (2015), for ICE.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> options = {"steps": 3, "draws": 20, "seed": 1, "progressbar": False}
    >>> bx.partial_dependence(model, theta, **options)["partial_dependence_mean"].dims
    ('feature', 'step')
    """
    if has_outputs(model, idata):
        return of_each_output(partial_dependence, locals())
    on_response = responds(model, on)
    prob = interval_probability(ci_prob)
    one_of("keep", keep, ("summary", "draws"))
    if steps is not None:
        count("steps", steps, 2)
    frame = model.training.X
    sources = frame.sources
    names = list(sources) if features is None else names_among("features", features, sources)
    where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    groups = by_rows(model, where, True if by is None else by).by
    hyper = hyperparameter_draws(model, idata, num_draws)
    along = [_along(model, hyper, where, name, steps) for name in names]
    length = max(len(place) for place, _ in along)
    options: dict[str, Any] = {"draws": draws, "num_draws": num_draws, "seed": seed}
    options["progressbar"] = progressbar
    exact, functions = keep == "summary" and not on_response, None
    columns = [_columns(model, name) for name in names]
    products = exact and all(_is_product(model, where, each) for each in columns)
    rows = len(where.X) * (1 if products else length)
    possible = exact and (rows <= LARGEST_JOINT or model.specification.approximation is not None)
    if not (possible and _affordable(model, hyper, rows, draws)):
        cure = "or pass on='latent', keep='summary' and fewer rows by obs="
        try:
            with or_else("Curves of partial dependence", cure):
                functions = draw_functions(model, idata, waves=WAVES, **options)
        except ValueError:
            if not possible:
                raise
    if functions is None:
        moments = "exact"
        each = [
            _by_products(model, idata, where, moved, own, groups, prob, options)
            if products
            else _exactly(model, idata, moved, groups, prob, options)
            for (_, moved), own in zip(along, columns, strict=True)
        ]
    else:
        moments = "of the functions"
        how = groups, prob, on, keep, progressbar
        each = [_by_functions(functions, moved, *how) for _, moved in along]
    several = ("class",) if model.specification.classes is not None else ()
    variables: dict[str, Any] = {}
    for name in each[0]:
        dims, _ = each[0][name]
        parts = [_filled(part[name][1], dims.index("step"), length) for part in each]
        at = dims.index("step")
        variables[name] = (*dims[:at], "feature", *dims[at:]), np.stack(parts, axis=at)
    variables["value"] = ("feature", "step"), [_filled(place, 0, length) for place, _ in along]
    coords: dict[str, Any] = {
        "chain": hyper.chain,
        "draw": np.arange(draws) if hyper.alone else hyper.draw,
        "obs": where.index,
        "by": groups.labels,
        "feature": names,
        "step": np.arange(length),
        "ci_bound": BOUNDS,
    }
    if frame.levels:
        own = [list(frame.levels.get(name, ())) for name in names]
        level = [levels + [""] * (length - len(levels)) for levels in own]
        coords["level"] = ("feature", "step"), level
    coords |= units_of(model.training, frame, names)
    if several:
        coords["class"] = list(model.class_labels(on_response))
    attrs = scale_attrs(model, on_response) | {"ci_prob": prob, "moments": moments}
    found = xr.Dataset(variables, coords, origin(model) | attrs)
    return found.isel(by=0, drop=True) if by is None else found


def _affordable(model: Model, hyper: HyperparameterDraws, rows: int, draws: int) -> bool:
    """Whether exact averages take no longer than a few times as long as random functions.

    They need the covariance of all rows, at all places unless the kernel is a product, for each
    hyperparameter draw, and a function its distances to the data and waves at each of these.
    """
    if model.specification.expanded:
        return True
    functions = draws if hyper.alone else len(hyper)
    return len(hyper) * rows <= PATIENCE * functions * (model.training.n + WAVES)


def _columns(model: Model, name: str) -> tuple[int, ...]:
    """Positions of a feature's columns."""
    X = model.training.X
    return tuple(map(int, np.flatnonzero(X.groups == X.sources.index(name))))


def _is_product(model: Model, where: Points, columns: tuple[int, ...]) -> bool:
    """Whether the kernel adds up products of a kernel of the feature and one of the others."""
    spec, training = model.specification, model.training
    held = spec.family == "GPX" and not training.tied
    several = spec.classes is not None or spec.processes or "group" in where.inputs
    if held or several or spec.expanded:
        return False
    return all(split(kernel, training.d, columns) is not None for kernel in kernels_of(model))


@dataclass(frozen=True)
class _Moved:
    columns: tuple[int, ...]
    tied: bool

    def __call__(self, asked: Asked) -> operators.Moved:
        where = asked["X"], asked["places"], self.columns, asked["weights"]
        return operators.moved(*where, Z=asked.Z_along if self.tied else None)


def _moved(model: Model, columns: tuple[int, ...], places: int) -> questions.Question:
    """Values f of each row with some columns at so many places; see `questions.value`."""
    asked = questions.value(model, smooth=True)
    return replace(
        asked,
        operator=_Moved(columns, model.training.tied),
        axes=(questions.Axis("step", tuple(range(places))),),
        factor=np.repeat(asked.factor, places),
        sums=True,
        table=None,
    )


def _by_products(
    model: Model,
    idata: Draws,
    where: Points,
    moved: Points,
    columns: tuple[int, ...],
    groups: Weights,
    prob: float,
    options: dict[str, Any],
) -> Parts:
    """As `_exactly`, of a kernel that is a product: rows are summed before they meet places."""
    places = moved.X[:: len(where.X)]
    question = _moved(model, columns, len(places))
    there = replace(where, common={"places": places})
    asked = replace(there, by=groups).having(weights=groups.values.T)
    found = evaluate(model, idata, question, asked, on="latent", ci_prob=prob, **options)
    hyper = hyperparameter_draws(model, idata, options["num_draws"])
    return {
        NAME: (("chain", "draw", "by", "step"), found["f"].values),
        f"{NAME}_mean": (("by", "step"), found["f_mean"].values),
        f"{NAME}_sd": (("by", "step"), found["f_sd"].values),
        f"{NAME}_band": (("by", "step", "ci_bound"), found["f_interval"].values),
        "ice_mean": (("obs", "step"), row_means(model, hyper, question, there)[..., 0]),
    }


def _exactly(
    model: Model,
    idata: Draws,
    moved: Points,
    groups: Weights,
    prob: float,
    options: dict[str, Any],
) -> Parts:
    """Averages of f at each place, and its mean in each row, as dims and arrays by name."""
    g, m = groups.values.shape
    k = len(moved.X) // m
    weights = np.kron(np.eye(k), groups.values)
    asked = replace(moved, by=Weights(np.arange(k * g), weights)).having(weights=weights.T)
    question = questions.value(model, smooth=True)
    own = {"on": "latent", "ci_prob": prob, **options}
    found = evaluate(model, idata, question, asked, **own)
    hyper = hyperparameter_draws(model, idata, options["num_draws"])
    rows = row_means(model, hyper, question, moved)[:, 0]

    def placed(values: np.ndarray, axis: int, size: int) -> np.ndarray:
        """Places and groups (or rows) as two axes, the places last."""
        shape = (*values.shape[:axis], k, size, *values.shape[axis + 1 :])
        return values.reshape(shape).swapaxes(axis, axis + 1)

    classes = tuple(dim for dim in found["f_mean"].dims if dim == "class")
    rows = rows if classes else rows[:, 0]
    interval = found["f_interval"].values
    parts = {
        NAME: (("chain", "draw", "by", "step", *classes), placed(found["f"].values, 2, g)),
        f"{NAME}_mean": (("by", "step", *classes), placed(found["f_mean"].values, 0, g)),
        f"{NAME}_sd": (("by", "step", *classes), placed(found["f_sd"].values, 0, g)),
        f"{NAME}_band": (("by", "step", *classes, "ci_bound"), placed(interval, 0, g)),
        "ice_mean": (("obs", "step", *classes), placed(rows, 0, m)),
    }
    return parts


def _by_functions(
    functions: Functions,
    moved: Points,
    groups: Weights,
    prob: float,
    on: str,
    keep: str,
    progressbar: bool,
) -> Parts:
    """As `_exactly`, of random functions; with their curves in each row if draws are kept."""
    g, m = groups.values.shape
    f = values(functions, moved, on, progressbar=progressbar)
    f = f.reshape((*functions.shape, -1, m, *f.shape[3:])).swapaxes(2, 3)
    average = np.moveaxis(np.tensordot(groups.values, f, (1, 2)), 0, 2)
    tails = np.quantile(average, [0.5 - prob / 2, 0.5 + prob / 2], axis=(0, 1))
    classes = ("class",) * (f.ndim - 4)
    lead, dims = ("chain", "draw"), ("step", *classes)
    parts = {
        NAME: ((*lead, "by", *dims), average),
        f"{NAME}_mean": (("by", *dims), average.mean(axis=(0, 1))),
        f"{NAME}_sd": (("by", *dims), average.std(axis=(0, 1))),
        f"{NAME}_band": (("by", *dims, "ci_bound"), np.moveaxis(tails, 0, -1)),
        "ice_mean": (("obs", *dims), f.mean(axis=(0, 1))),
    }
    return parts | ({"ice": ((*lead, "obs", *dims), f)} if keep == "draws" else {})


def _along(
    model: Model, hyper: HyperparameterDraws, where: Points, name: str, steps: int | None
) -> tuple[np.ndarray, Points]:
    """Places of a feature, and the samples at each of them, one place after the other."""
    if name in model.training.X.levels:
        return np.arange(len(model.training.X.levels[name])), at_levels(model, where, [name])
    j, m = model.training.X.columns.index(name), len(where.X)
    values = where.X_values[:, j]
    if (values == values[0]).all():  # one place is no curve
        values = model.training.X.values[:, j]
    place = np.unique(values)
    if len(place) > FEW_VALUES or 2 * len(place) > len(values):
        span = (place[-1] - place[0]) / model.training.X_scaling.scale[j]
        number = _enough(model, hyper, j, span) if steps is None else steps
        place = np.linspace(place[0], place[-1], number)
    X = np.tile(where.X_values, (len(place), 1))
    X[:, j] = np.repeat(place, m)
    return place, at_other_x(model, where, X, np.tile(np.arange(m), len(place)))


def _enough(model: Model, hyper: HyperparameterDraws, j: int, span: float) -> int:
    """Steps along a column of X that show a function of its lengthscales and periods."""
    spec, each = model.specification, []
    for h in spec.hyperparameters:
        if h.kind in A_LENGTH and h.dim in ("feature", None):
            values = np.asarray(hyper.values[h.name])
            each.append((h.kind, values[..., j] if h.dim == "feature" else values))
    if spec.calls_kernel:  # which may have columns of its own
        own = (v for name, v in hyper.values.items() if name.endswith("lengthscale"))
        each += [("lengthscale", values) for values in own]
    # The shortest one of any output, process or column.
    rates = (A_LENGTH[kind] / np.median(values, (0, 1)).min() for kind, values in each)
    return int(np.clip(np.ceil(span * max(rates, default=0.0)), *STEPS))


def _filled(values: np.ndarray, axis: int, length: int) -> np.ndarray:
    """The same with NaN added along an axis, up to a length."""
    added = [(0, 0)] * values.ndim
    added[axis] = 0, length - values.shape[axis]
    return np.pad(values.astype(float), added, constant_values=np.nan)
