"""Effects of a treatment: by row, on average and in groups, with overlap and sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import sub
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table, Tensor
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, Weights, counts_of_rows, summed
from bayes_gpx.draws.each_draw import each_draw, rows_within
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.points import at_other_x
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.random_functions import or_else
from bayes_gpx.draws.turns import ONCE
from bayes_gpx.explain.answered import answered, documented
from bayes_gpx.explain.joint_draws import drawn_at, result_of
from bayes_gpx.explain.propensity import PROPENSITY
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.processes import operators
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked, OneDraw

LEAST_OVERLAP = 0.5
"""Overlap below which a row lacks support: the prior then says more of an arm than the data do."""

USUAL_PROPENSITIES = (0.1, 0.9)
"""Propensities of supported rows: the rule of thumb of Crump, Hotz, Imbens and Mitnik (2009)."""

ASSUMPTIONS = (
    "1. No unmeasured confounding: rows with equal columns X were treated regardless of the "
    "outcomes that they would have with and without treatment. "
    "2. Overlap: rows with every value of X could have been treated or not. "
    "3. Consistency, without interference: the treatment has one version, and treating a row "
    "changes the outcome of no other row. "
    "4. X was measured before the treatment, and the treatment did not change it. "
    "The data cannot show that these assumptions are true."
)
"""What every effect assumes, in words."""


@recorded
@documented
@on_cores
def treatment_effects(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    treatment: str,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    on: Literal["response", "latent"] = "response",
    draws: int = 1000,
    num_draws: int | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Estimate the effect of a treatment on each row, and on average.

    Use it if you know which column is the treatment and the attribute `assumptions` is plausible.
    Otherwise use `comparisons`, which describe the model.

    Parameters
    ----------
    model : GP or GPX
        The treatment is a column of X, or of Z in a GPX with Z and ``priors={"sigma_w": 0}``. Then
        the effect is the weight of the treatment. All confounders are columns of X.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows; None for the training rows.
    treatment : str
        Name of the column. With two values, the effect is the prediction at the larger (or later
        level) minus the prediction at the other; see the attribute `contrast`. Other numbers have
        an effect per unit.
    by : True, str, list of str, series or frame, optional
        Average `effect` over rows, as in `derivatives`.

    Returns
    -------
    xarray.Dataset
        ==========================================  ==================  ================
        variable                                    dims                unit
        ==========================================  ==================  ================
        `effect`                                    chain, draw, obs    y [per unit]
        `effect_mean`, `_sd`                        obs                 y [per unit]
        `effect_interval`                           obs, ci_bound       y [per unit]
        `effect_cov` (with `by`)                    by, by_bis          squares of it
        `ate`, `att`, with the same parts                               y [per unit]
        `overlap`                                   obs                 proportion
        `supported`                                 obs                 true or false
        `robustness_value`, `_interval`                                 proportion
        ==========================================  ==================  ================

        `ate` averages over the rows, and `att` over the treated rows; training rows count by
        `weights=`. With `by`, the dim `by` replaces `obs`, but not in `overlap` and `supported`.
        Moments and intervals are exact for f.

        `overlap` is the proportion of the prior variance of f that the data remove, with or without
        treatment, whichever is less. Rows are `supported` if it is at least 0.5 and a column
        "propensity" of X, if there is one, is within 0.1 to 0.9 [2]_.

        `robustness_value` is the proportion of the remaining variance, of the treatment and of the
        outcome, that a hidden confounder would have to explain so that `ate` is 0 [1]_. At
        `robustness_value_interval` the interval reaches 0. Both need Gaussian noise.

    Raises
    ------
    ValueError
        For a GPX with `sigma_w` other than 0, a treatment that is constant, a category of three or
        more levels or in X and in Z, and input that does not fit the model.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

    References
    ----------
    .. [1] Cinelli and Hazlett, "Making sense of sensitivity: extending omitted variable bias", JRSS
       B 82 (2020), section 4.2.
    .. [2] Crump, Hotz, Imbens and Mitnik, "Dealing with limited overlap in estimation of average
       treatment effects", Biometrika 96 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bayes_gpx as bx
    >>> X = pd.DataFrame({"age": np.linspace(0.0, 3.0, 20), "treated": np.tile([0, 1], 10)})
    >>> model = bx.GP(X, X["age"] * X["treated"], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 5.0, "sigma": 0.01}
    >>> found = bx.treatment_effects(model, theta, treatment="treated", seed=1, progressbar=False)
    >>> found[["ate_mean", "att_mean"]].to_array().values.round(2)  # means of age
    array([1.5 , 1.58])
    """
    return answered(partial(_effects, treatment=treatment), locals())


class _Treatment(NamedTuple):
    """A column of X or Z, as positions there, with its two values in user units if it has two."""

    name: str
    table: str
    columns: np.ndarray
    ends: np.ndarray | None  # (2, columns)
    contrast: str

    def treated(self, where: Points) -> np.ndarray:
        """Which rows have the second of two values."""
        values: Any = where.X_values if self.table == "X" else where.Z_values
        return np.all(values[:, self.columns] == cast(np.ndarray, self.ends)[1], axis=1)

    def arms(self, model: Model, where: Points) -> Points:
        """All rows at the first value, then at the second; or as they are, then a unit higher."""
        m = len(where.X)
        twice = where.take(np.tile(np.arange(m), 2))
        X, Z = twice.X_values.copy(), twice.Z_values
        Z = None if Z is None else Z.copy()
        moved: Any = X if self.table == "X" else Z
        if self.ends is None:
            moved[m:, self.columns] += 1.0
        else:
            moved[:, self.columns] = np.repeat(self.ends, m, axis=0)
        return at_other_x(model, replace(twice, Z_values=Z), X, np.arange(2 * m))

    def asked(self, model: Model, where: Points) -> Points:
        """The rows without treatment, and by how much X and Z rise with it."""
        arms, m = self.arms(model, where).inputs, len(where.X)
        known = {name: arms[name] for name in ("X", "Z") if name in arms}
        rises = {f"{name}_rise": values[m:] - values[:m] for name, values in known.items()}
        first = {name: values[:m] for name, values in known.items()}
        return where.having(positions=None, **first, **rises)


def _read(training: TrainingData, name: str) -> _Treatment:
    """The treatment of that name; raises ValueError for one whose effect is not defined."""
    tables = {"X": training.X}
    if training.Z is not None and not training.tied:
        tables["Z"] = training.Z
    one_of("treatment", name, [source for frame in tables.values() for source in frame.sources])
    having = [table for table, frame in tables.items() if name in frame.sources]
    if len(having) > 1:
        raise ValueError(f"treatment {name!r} is a column of X and of Z. Leave it out of X.")
    frame: Any = tables[having[0]]
    if training.streamed or frame.sparse:
        raise ValueError(
            f"treatment {name!r} is in out-of-core or sparse data. Pass dense tables in memory, "
            "such as a sample of the rows."
        )
    columns = np.flatnonzero(np.isin(frame.columns, frame.of_source(name)))
    levels = frame.levels.get(name)
    own = frame.values[:, columns]
    ends = np.unique(own)[:, None]
    if levels is not None:  # those that occur
        levels = [level for level, used in zip(levels, own.any(axis=0), strict=True) if used]
        ends = np.eye(len(columns))[own.any(axis=0)]
    if len(ends) == 1 or (levels is not None and len(levels) > 2):
        raise ValueError(
            f"treatment {name!r} has {len(ends)} different values in the training rows. Pass rows "
            "with two to the model, or compare levels with bx.comparisons."
        )
    if len(ends) > 2:
        return _Treatment(name, having[0], columns, None, f"{name} +1")
    low, high = [f"{end:g}" for end in ends[:, 0]] if levels is None else levels
    return _Treatment(name, having[0], columns, ends, f"{name} {low} → {high}")


def _effects(
    model: Model,
    idata: Draws,
    where: Points,
    *,
    treatment: str,
    on: str = "response",
    keep: str = "draws",
    ci_prob: float | None = None,
    **options: Any,
) -> xr.Dataset:
    """Effects at rows or in groups, their averages, overlap and sensitivity, of one output."""
    one_of("keep", keep, ("draws", "summary"))
    told = _read(model.training, treatment)
    hyper = hyperparameter_draws(model, idata, options.get("num_draws"))
    if any(np.any(theta.get("sigma_w", 0.0)) for _, theta in hyper):
        raise ValueError(
            "sigma_w is not 0, so the effect on a row would include a deviation that no other row "
            'shares. Build the model with priors={"sigma_w": 0} and fit it again.'
        )
    counted = counts_of_rows(model, where)
    averages = {"ate": counted / counted.sum()}
    if told.ends is not None and (treated := counted * told.treated(where)).any():
        averages["att"] = treated / treated.sum()
    groups, rows = where.by, replace(where, by=None)
    weights = np.array([*averages.values(), *(() if groups is None else groups.values)])
    options |= {"keep": keep, "ci_prob": interval_probability(ci_prob)}
    answer = _of_response if responds(model, on) else _of_f
    each, sums = answer(model, idata, rows, told, weights, groups is None, **options)
    if groups is not None:
        own = slice(len(averages), None)
        each = sums.isel(by=own, by_bis=own, missing_dims="ignore")
        labels = {dim: groups.labels for dim in ("by", "by_bis") if dim in each.dims}
        each = each.assign_coords(labels)
    for k, name in enumerate(averages):
        parts = sums.isel(by=k, drop=True)
        found = [part for part in ("", "_mean", "_sd", "_interval") if f"effect{part}" in parts]
        each = each.assign({f"{name}{part}": parts[f"effect{part}"] for part in found})
    if model.specification.normal:
        outputs, n = model.training.outputs, model.training.totals.counted
        n = n if outputs is None else outputs.observed[:, outputs.asked].sum()
        each = each.assign(_robustness(each, n))
    if told.ends is not None:
        each = each.assign(_overlap(model, hyper, rows, told))
    said = {"treatment": treatment, "contrast": told.contrast, "assumptions": ASSUMPTIONS}
    return each.assign_attrs(said)


def _of_f(
    model: Model,
    idata: Draws,
    rows: Points,
    told: _Treatment,
    weights: np.ndarray,
    by_row: bool,
    *,
    joint: bool = False,
    **options: Any,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Effects on f at rows, if these are asked for, and their weighted sums; both exact."""
    value, training = questions.value(model, smooth=True), model.training
    changed: dict[str, Any] = {"name": "effect", "offset": 0.0, "by_class": None}
    if told.ends is None and told.table == "X":
        slope, j = questions.derivative(model), told.columns
        changed |= {"operator": slope.operator, "factor": slope.factor[j]}
        question, asked = replace(value, **changed, mixes=np.eye(training.d)[j]), rows
    else:
        question = replace(value, **changed, operator=_Change(training.tied))
        asked = told.asked(model, rows)
    if told.ends is None:
        question = replace(question, units=f"{question.units} per unit of {told.name}")
    options["on"] = "latent"
    averaged = Weights(np.arange(len(weights)), weights)
    over = replace(asked, by=averaged).having(weights=weights.T)
    sums = evaluate(model, idata, question, over, **options)
    if not by_row:
        return sums, sums
    each = evaluate(model, idata, question, asked, joint=joint, **options)
    if joint and "effect" in each:
        sums["effect"] = summed(each["effect"], averaged)
    return each, sums


def _of_response(
    model: Model,
    idata: Draws,
    rows: Points,
    told: _Treatment,
    weights: np.ndarray,
    _: bool,
    *,
    keep: str,
    ci_prob: float,
    covariance: bool = False,
    joint: bool = False,
    **shown: Any,
) -> tuple[xr.Dataset, xr.Dataset]:
    """As `_of_f`, of the mean response, from draws that are joint over rows."""
    if told.ends is None:
        raise ValueError(
            f"treatment {told.name!r} has more than two values, and its effect per unit is one on "
            "f. Pass on='latent', or compare two values with bx.comparisons."
        )
    dims: dict[str, Any] = {"arm": [0, 1], "obs": rows.index}
    with or_else("Effects on the response", "or pass on='latent'"):
        drawn = drawn_at(model, idata, told.arms(model, rows), "response", dims, **shown)
    each = drawn.sel(arm=1, drop=True) - drawn.sel(arm=0, drop=True)
    effects = each, summed(each, Weights(np.arange(len(weights)), weights))
    options = covariance, keep, ci_prob
    first, second = (result_of(model, "response", "effect", own, *options) for own in effects)
    return first, second


def _end(asked: Asked, tied: bool, *, treated: bool) -> operators.Operator:
    """Values of f without deviations, with or without treatment."""
    if treated:
        rises = {name: asked[f"{name}_rise"] for name in ("X", "Z")}
        moved = {name: asked[name] + rise for name, rise in rises.items() if rise is not None}
        asked = asked.at(**moved)
    Z = asked.Z_along if tied else asked["Z"]
    return operators.evaluate(asked.points, Z, smooth=True)


@dataclass(frozen=True)
class _Change:
    """f with treatment less f without, at `_Treatment.asked`."""

    tied: bool

    def __call__(self, asked: Asked) -> operators.Operator:
        ends = tuple(_end(asked, self.tied, treated=treated) for treated in (True, False))
        return operators.Combination(ends, sub)


@dataclass(frozen=True)
class _VarianceLeft:
    """Posterior variance of f over its prior variance, with and without treatment, by row."""

    tied: bool

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        label, prior = draw.changing.get("label"), draw.given.process
        ends = [_end(cast("Asked", draw.asked), self.tied, treated=t) for t in (True, False)]
        before = [prior.variance(end) for end in ends]
        if isinstance(prior, ClassProcess):
            before = [v.reshape((-1, prior.shared.shape[1]))[:, label] for v in before]
        after = draw.posterior(label)
        return [after(end).variance / own for end, own in zip(ends, before, strict=True)]


def _overlap(
    model: Model, hyper: HyperparameterDraws, rows: Points, told: _Treatment
) -> dict[str, xr.DataArray]:
    """1 less the variance that is left of f, in the arm with more, and which rows have support."""
    spec = model.specification  # of several processes, the first is that of the response
    labels = range(1 if spec.processes else spec.classes or 1)
    cases = ONCE if spec.classes is None else [(k, {"label": np.asarray(k)}) for k in labels]
    left = np.zeros((2, len(rows.X), len(labels)))
    build, asked = _VarianceLeft(model.training.tied), told.asked(model, rows)
    each = partial(each_draw, size_of=lambda known: rows_within(16 * max(1, known)), cases=cases)
    for _, _, own, label, ratios, _ in each(model, hyper, build, asked):
        left[:, own, label] += np.array(ratios) / len(hyper)
    overlap = 1.0 - left.max(axis=(0, 2))
    supported = overlap >= LEAST_OVERLAP
    if PROPENSITY in (columns := model.training.X.columns):
        low, high = USUAL_PROPENSITIES
        propensity = rows.X_values[:, columns.index(PROPENSITY)]
        supported &= (propensity >= low) & (propensity <= high)
    coords = {"obs": rows.index}
    found = {"overlap": overlap, "supported": supported}
    return {name: xr.DataArray(values, coords, ["obs"]) for name, values in found.items()}


def _robustness(found: xr.Dataset, n: int) -> dict[str, xr.DataArray]:
    """Robustness values of the average effect and of the bound of its interval nearest to 0."""
    bounds, mean = found["ate_interval"], found["ate_mean"]
    nearest = (xr.where(mean < 0.0, -1.0, 1.0) * bounds).min("ci_bound").clip(min=0.0)
    return {
        f"robustness_value{part}": _robustness_value(effect / (found["ate_sd"] * np.sqrt(n)))
        for part, effect in (("", abs(mean)), ("_interval", nearest))
    }


def _robustness_value(f: Any) -> Any:
    """(sqrt(f^4 + 4 f^2) - f^2) / 2 of a partial Cohen's f, the t value over sqrt(df)."""
    return 2.0 * f / (f + np.sqrt(f**2 + 4.0))
