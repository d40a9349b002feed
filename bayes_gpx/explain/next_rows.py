"""Choose the rows to measure next, which are expected to make an answer most certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr
from scipy.special import ndtr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, averaged, by_rows
from bayes_gpx.draws.candidates import Candidates
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import (
    HyperparameterDraws,
    hyperparameter_draws,
    refuse_swapped,
)
from bayes_gpx.draws.naming import origin, recorded
from bayes_gpx.draws.points import Points, from_baseline, points, points_to_explain
from bayes_gpx.explain.answered import documented, has_outputs, of_each_output, weighed
from bayes_gpx.explain.attributions import named
from bayes_gpx.explain.comparisons import of_contrasts, read_contrasts
from bayes_gpx.explain.derivatives import numbers_among
from bayes_gpx.explain.predictions import exposures_at
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.base import LATENT, WHITENED
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model

FANTASIES = 16
"""Responses that are imagined for each chosen row, before the next one is chosen."""

LEAST_VARIANCE = 1e-12
"""Variance, relative to the largest, of a quantity that counts as known."""


@recorded
@documented
@on_cores
def next_rows(
    model: Model,
    idata: Draws,
    candidates: Table,
    *,
    question: str,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    Z_candidates: Table | None = None,
    groups_candidates: Column | None = None,
    size: int = 1,
    cost: Sequence[float] | np.ndarray | None = None,
    scale: Literal["variance"] | Table = "variance",
    baseline: str | Table = "mean",
    variables: str | Sequence[str] | Mapping[str, str | Sequence[Any]] | None = None,
    features: Sequence[str] | None = None,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    of: Literal["value"] | tuple[Literal["weight"], str] = "value",
    exposure: Column | None = None,
    trials: Column | None = None,
    noise_sd: Column | None = None,
    num_draws: int | None = 20,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Choose the candidate rows that make an answer most certain, once they are measured.

    An explanation function gives the answer, at rows of interest. With normal noise and given
    hyperparameters, the removed variance is the same for every outcome, so it is exact.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    candidates, Z_candidates : frame or array (N, d), (N, p)
        Rows that could be measured. Z_candidates is required if the model was given Z.
    question : str
        "predictions", "derivatives", "slopes", "attributions", "shapley_values", "comparisons",
        "weights" or "contributions": the function with this name, for the smooth part of f. Or
        "maximum" or "minimum": expected improvement on the best training row.
    X_new, Z_new, obs, groups_new, by, features, baseline, variables
        Rows of interest and options, as for the function named by `question`; "slopes" are averages
        over rows. Not for "maximum" and "minimum".
    of : "value" or ("weight", name)
        Ask about f, or about the weight of a column of Z.
    groups_candidates, exposure, trials, noise_sd : array (N,), optional
        Groups, exposure, trials or noise of the candidates, as in `predictions`.
    size : int
        How many rows to choose. Each is chosen given the ones before.
    cost : array (N,), optional
        The score is divided by these costs.
    scale : "variance" or array
        Each quantity's removed variance is divided by its present variance; or multiplied by these
        weights, one for each quantity, or for each feature.
    num_draws : int, optional
        Average over this many hyperparameter draws.

    Returns
    -------
    xarray.Dataset
        ================================  =============================  ==================
        variable                          dims                           unit
        ================================  =============================  ==================
        `score`                           candidate                      see `scale`, cost
        `selected`                        step                           label of the row
        `selected_score`                  step                           as `score`
        `sd_before`, `sd_after`           as the answer                  of the answer
        `sign_known`                      as the answer                  true or false
        `f_mean`, `f_sd`                  candidate                      of f
        ================================  =============================  ==================

        `score` is for the first row. `sd_after` is expected after all selected rows. `sign_known`
        is whether the interval of the answer excludes 0; the attribute `signs_known` tells whether
        this holds for all. `f_mean` and `f_sd` replace these three for "maximum" and "minimum".
        Each of several outputs has its own rows, which measure it alone.

    Raises
    ------
    ValueError
        For input that does not fit the model or the question, and for models with sampled latent
        values.

    References
    ----------
    Cohn, Ghahramani and Jordan, "Active learning with statistical models" (1996); Jones, Schonlau
    and Welch, "Efficient global optimization of expensive black-box functions" (1998), for expected
    improvement.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.array([[0.0], [0.5], [1.0]])
    >>> model = bx.GP(X, [0.0, 0.5, 1.0], scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.1}
    >>> options = {"question": "predictions", "progressbar": False}
    >>> found = bx.next_rows(model, theta, [[0.7], [2.0]], X_new=[[2.5]], **options)
    >>> found["selected"].item()  # the second candidate, which is nearer to 2.5
    1
    """
    refuse_swapped(model, idata)
    if has_outputs(model, idata):
        return of_each_output(next_rows, locals())
    if model.specification.event is not None:
        raise ValueError("The model is a view of an event. Pass the model itself, about f.")
    one_of("question", question, [*QUESTIONS, *SIGNS])
    hyper = hyperparameter_draws(model, idata, num_draws)
    if {LATENT, WHITENED} & hyper.values.keys():
        raise ValueError(
            "idata holds sampled values of f, and given these a new row teaches nothing. Fit with "
            "latent='marginal', or a model with representation='collapsed'."
        )
    where = _read_candidates(model, candidates, Z_candidates, groups_candidates)
    given = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
    where, costs = _with_exposures(model, where, given), _read_costs(cost, where)
    count("size", size)
    if size > len(where.X):
        raise ValueError(f"size is {size}, but there are {len(where.X)} candidates. Pass fewer.")
    options: dict[str, Any] = {"baseline": baseline, "variables": variables, "features": features}
    options |= {"X_new": X_new, "Z_new": Z_new, "groups_new": groups_new, "obs": obs, "by": by}
    view = model if of == "value" else model.of_weight(weighed(of))
    _refuse_unused(question, options | {"of": None if view is model else of})
    if question in SIGNS:
        told = seed, progressbar
        return _improving(model, hyper, where, question, size, costs, *told)
    asked, rows_asked = _asked(view, question, options, where.groups)
    if asked.name == "derivative":
        features = numbers_among(model.training.X, features)
    found = evaluate(
        view,
        idata,
        asked,
        rows_asked,
        keep="summary",
        on="latent",
        num_draws=num_draws,
        features=features,
        progressbar=progressbar,
        ci_prob=ci_prob,
    )
    if rows_asked.by is not None:
        asked = averaged(asked, rows_asked.by)
    rows = Candidates(model, hyper, where, progressbar)
    rows.about(asked, rows_asked, asked.picked(features, covariance=False))
    return _informing(found, asked.name, rows, scale, size, costs).assign_attrs(question=question)


SIGNS = {"maximum": 1.0, "minimum": -1.0}
"""Questions about the best row, each with the sign that makes its f the largest."""


def _predictions(model: Model, where: Points, _: Mapping[str, Any]) -> tuple[Question, Points]:
    return questions.value(model, smooth=True), where


def _derivatives(model: Model, where: Points, _: Mapping[str, Any]) -> tuple[Question, Points]:
    return questions.derivative(model), where


def _attributions(
    model: Model, where: Points, options: Mapping[str, Any]
) -> tuple[Question, Points]:
    start = from_baseline(model, where, options["baseline"])
    return questions.attribution(model, named(options["baseline"]), "exact", None), start


def _shapley(model: Model, where: Points, options: Mapping[str, Any]) -> tuple[Question, Points]:
    start = from_baseline(model, where, options["baseline"])
    return questions.shapley_value(model, named(options["baseline"])), start


def _comparisons(
    model: Model, where: Points, options: Mapping[str, Any]
) -> tuple[Question, Points]:
    return of_contrasts(model, where, read_contrasts(model.training, options["variables"]))


def _weights(model: Model, where: Points, _: Mapping[str, Any]) -> tuple[Question, Points]:
    return questions.weight(model, smooth=True), where


def _contributions(model: Model, where: Points, _: Mapping[str, Any]) -> tuple[Question, Points]:
    return questions.contribution(model, smooth=True), where


QUESTIONS: dict[str, tuple[Callable[..., tuple[Question, Points]], tuple[str, ...]]] = {
    "predictions": (_predictions, ()),
    "derivatives": (_derivatives, ("features", "of")),
    "slopes": (_derivatives, ("features", "of")),
    "attributions": (_attributions, ("baseline", "features", "of")),
    "shapley_values": (_shapley, ("baseline", "features", "of")),
    "comparisons": (_comparisons, ("variables", "of")),
    "weights": (_weights, ("features",)),
    "contributions": (_contributions, ("features",)),
}
"""Questions about rows of interest, by the name of their function, and their own options."""


def _refuse_unused(question: str, options: Mapping[str, Any]) -> None:
    """Raise for options of another question."""
    known: tuple[str, ...] = ()
    if question not in SIGNS:
        known = ("X_new", "Z_new", "groups_new", "obs", "by", *QUESTIONS[question][1])
    for name, value in options.items():
        said = not isinstance(value, str) or value != UNSAID.get(name)
        if value is not None and name not in known and said:
            raise ValueError(
                f"{name} was given, but the question {question!r} has no such option. Leave it out."
            )


UNSAID = {"baseline": "mean"}
"""Defaults of options that are not None."""


def _asked(
    model: Model, question: str, options: Mapping[str, Any], groups: Sequence[str]
) -> tuple[Question, Points]:
    """A question about the smooth part, and the points that it is asked at."""
    if model.training.sparse and question in ("weights", "contributions"):
        raise ValueError(
            f"question is {question!r}, but Z is sparse. Ask about of=('weight', name) of "
            "'comparisons', or use a model of Z.toarray()."
        )
    read = {name: options[name] for name in ("X_new", "Z_new", "groups_new", "obs")}
    where = points_to_explain(model, **read, needs_z=question != "weights", others=groups)
    where = where.having(positions=None)
    by = True if question == "slopes" and options["by"] is None else options["by"]
    return QUESTIONS[question][0](model, by_rows(model, where, by), options)


def _read_candidates(model: Model, X: Table, Z: Table | None, groups: Column | None) -> Points:
    """Rows that could be measured; errors name the arguments that they came by."""
    if not len(cast(Any, X)):
        raise ValueError("candidates has no rows. Pass at least one.")
    try:
        return points(model, X, Z, groups_new=groups)
    except ValueError as wrong:
        told = str(wrong).replace("X_new", "candidates")
        told = told.replace("Z_new", "Z_candidates").replace("groups_new", "groups_candidates")
        raise ValueError(told) from None


def _with_exposures(model: Model, where: Points, given: dict[str, Any]) -> Points:
    """Candidates with their exposure, on the model's scale."""
    exposures = exposures_at(model, given, where)
    if exposures is None:
        raise ValueError(
            "The model has a noise_sd for each row, and the noise of candidates is unknown. Pass "
            "noise_sd, one for each candidate."
        )
    if not model.specification.exposed:
        return where
    training = model.training
    scaling = training.y_scaling
    unit = 1.0 / scaling.scale if training.scales_y else np.exp(scaling.center)
    return where.having(exposure=exposures * unit)


def _read_costs(cost: Any, where: Points) -> np.ndarray:
    """Costs of the candidates (N,), 1 by default."""
    count = len(where.X)
    if cost is None:
        return np.ones(count)
    where.refuse_others(cost, "cost")
    values = np.asarray(cost)
    numbers = values.dtype.kind in "biuf" and values.shape == (count,)
    if not numbers or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"cost has shape {values.shape}. Pass a positive finite number for each of {count} "
            "candidates."
        )
    return values.astype(float)


def _informing(
    found: xr.Dataset,
    name: str,
    rows: Candidates,
    scale: Any,
    size: int,
    costs: np.ndarray,
) -> xr.Dataset:
    """Choose rows by the variance that they remove, one given the ones before."""
    sd, interval = found[f"{name}_sd"], found[f"{name}_interval"]
    dims = [dim for dim in ("obs", "by", "feature", "contrast", "class") if dim in sd.dims]
    sd = sd.transpose(*dims)
    weights = _weights_of(scale, sd)
    removed, scores, selected = np.zeros(sd.size), [], list[int]()
    for step in range(size):
        if step:
            rows.learn(selected[-1])
        each = rows.reductions()
        score = weights @ each / costs
        score[selected] = -np.inf
        selected.append(int(score.argmax()))
        removed += each[:, selected[-1]]
        scores.append(score)
    after = np.sqrt(np.maximum(sd.values**2 - removed.reshape(sd.shape), 0.0))
    known = (interval.sel(ci_bound="lower") > 0) | (interval.sel(ci_bound="upper") < 0)
    result = _selected(rows.where.index, scores, selected).assign(
        sd_before=sd, sd_after=sd.copy(data=after), sign_known=known
    )
    if "baseline" in found.data_vars:
        result["baseline"] = found["baseline"]
    kept = ("units", "baseline", "weight", "ci_prob", "relative_jitter")
    attrs = {key: found.attrs[key] for key in kept if key in found.attrs}
    return result.assign_attrs(origin(rows.model) | attrs, signs_known=int(known.all()))


def _weights_of(scale: Any, sd: xr.DataArray) -> np.ndarray:
    """Weight of each quantity's variance in the score, in the order of its values."""
    if isinstance(scale, str):
        one_of("scale", scale, ("variance",))
        variance = sd.values.ravel() ** 2
        known = variance <= LEAST_VARIANCE * variance.max()
        return np.where(known, 0.0, 1.0 / np.where(known, 1.0, variance))
    values = np.asarray(scale, dtype=float)
    try:
        values = np.broadcast_to(values, sd.shape)
    except ValueError:
        values = np.full(1, np.nan)
    if not (np.isfinite(values) & (values >= 0)).all() or not values.any():
        raise ValueError(
            f"scale has shape {np.shape(scale)}. Pass 'variance', or finite weights that are not "
            f"negative, one for each quantity {dict(sd.sizes)}."
        )
    return values.ravel()


def _selected(
    labels: np.ndarray, scores: Sequence[np.ndarray], selected: Sequence[int]
) -> xr.Dataset:
    """Scores and the chosen rows."""
    own = [score[row] for score, row in zip(scores, selected, strict=True)]
    return xr.Dataset(
        {
            "score": ("candidate", scores[0]),
            "selected": ("step", labels[list(selected)]),
            "selected_score": ("step", own),
        },
        {
            "candidate": labels,
            "step": np.arange(1, len(selected) + 1),
            "position": ("step", list(selected)),
        },
    )


def _improving(
    model: Model,
    hyper: HyperparameterDraws,
    where: Points,
    question: str,
    size: int,
    costs: np.ndarray,
    seed: int | None,
    progressbar: bool,
) -> xr.Dataset:
    """Choose rows by expected improvement, one given imagined responses of the ones before."""
    if model.specification.classes is not None:
        raise ValueError(
            f"question is {question!r}, but the likelihood {str(model.specification.likelihood)!r} "
            "has several latent values for each row, and no order among rows. Ask about "
            "'predictions'."
        )
    if model.training.sparse:
        raise ValueError(f"question is {question!r}, but Z is sparse. Ask about 'predictions'.")
    # The measured rows stand first, so that an imagined response moves their means too.
    measured = points(model).having(positions=None)
    n, scaling, sign = len(measured.X), model.training.y_scaling, SIGNS[question]
    every = {name: [values, where.inputs[name]] for name, values in measured.inputs.items()}
    if "exposure" in where.inputs:
        every["exposure"] = [np.ones(n), where.inputs["exposure"]]
    stacked = replace(
        where,
        inputs={name: np.concatenate(parts) for name, parts in every.items()},
        X_values=np.concatenate([measured.X_values, where.X_values]),
        Z_values=None,
        index=np.arange(n + len(where.index)),
        rows=None,
    )
    rows = Candidates(model, hyper, stacked, progressbar)
    rows.about(questions.value(model, smooth=True), measured.take(np.arange(1)), np.arange(1))
    mean, variance = rows.mean[..., 0], (rows.cov + rows.rest)[..., 0, 0]
    spread = np.sqrt(variance.mean(axis=0) + mean.var(axis=0)) * scaling.scale
    center = mean.mean(axis=0) * scaling.scale + scaling.center
    best = model.training.X.index[(sign * center[:n]).argmax()]
    rng, taken, scores, selected = np.random.default_rng(seed), [*range(n)], [], list[int]()
    f = np.repeat(sign * mean[:, None], FANTASIES if size > 1 else 1, axis=1)
    for step in range(size):
        if step:
            taken.append(n + selected[-1])
            K = rows.learn(taken[-1])[:, None, :, 0, 0]
            gain = rows.steps[-1][1]
            f = f + np.sqrt(gain) * K * rng.standard_normal((*f.shape[:2], 1))
        variance = (rows.cov + rows.rest)[:, None, n:, 0, 0]
        sd = np.sqrt(np.maximum(variance, 0.0))
        best_yet = f[..., taken].max(axis=2, keepdims=True)
        gained = _expected_improvement(f[..., n:] - best_yet, sd).mean(axis=(0, 1))
        score = gained * scaling.scale / costs
        score[selected] = -np.inf
        selected.append(int(score.argmax()))
        scores.append(score)
    found = _selected(where.index, scores, selected).assign(
        f_mean=("candidate", center[n:]), f_sd=("candidate", spread[n:])
    )
    units = questions.latent_units(model)
    of_score = units if (costs == 1.0).all() else f"{units} per unit of cost"
    for name in ("score", "selected_score"):
        found[name].attrs["units"] = of_score
    best = str(best) if isinstance(best, np.datetime64) else best  # which no file takes
    return found.assign_attrs(origin(model), question=question, units=units, best=best)


def _expected_improvement(above: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E max(f, 0) where f is normal with the mean `above`."""
    z = above / np.maximum(sd, np.finfo(float).tiny)
    return above * ndtr(z) + sd * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
