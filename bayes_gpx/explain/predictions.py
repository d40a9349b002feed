"""Predictions: the function's value, the mean response, and a new response."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, summed
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.naming import recorded, under_one_name
from bayes_gpx.draws.new_responses import NewResponses
from bayes_gpx.draws.random_functions import or_else
from bayes_gpx.draws.scales import response_units
from bayes_gpx.explain.answered import answered, documented, of_views
from bayes_gpx.explain.joint_draws import drawn_at, result_of
from bayes_gpx.likelihoods import exposure_of
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model

FAR = 10.0
"""Ratio of a mean rate to the largest training rate above which a warning is given."""

MOST_NAMED = 3
"""Most rows that a warning names."""


@recorded
@documented
@of_views
@on_cores
def predictions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    on: Literal["response", "latent"] = "response",
    of: Literal["value", "survival", "probability", "hazard", "quantile"] = "value",
    at: float | str | Sequence[float | str] | None = None,
    exposure: Column | None = None,
    trials: Column | None = None,
    noise_sd: Column | None = None,
    keep: Literal["draws", "summary"] = "draws",
    seed: int | None = None,
    draws: int = 1000,
    num_draws: int | None = None,
    covariance: bool = False,
    joint: bool = False,
    path: str | PathLike | None = None,
    executor: Executor | None = None,
    cores: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Predict f(x), the mean response and a new response y at each row.

    Use `loo_predictions` to predict each training response from the others.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows, whose deviations `eps_w` are unknown in a GPX; None for the training rows, with
        their own deviations. Z_new is required if the model was given Z.
    on : {"response", "latent"}
        "latent" returns only f, on the link scale, for non-Gaussian likelihoods.
    of, at : {"value", "survival", "probability", "hazard", "quantile"}, value or list of these
        Predict the mean of y, or an event at a value as in `GP.of_event`; several add a dim `at`.
    exposure, trials, noise_sd : array (m,), optional
        Exposure of new counts, trials of new rows for "binomial", or known noise of new rows, in
        the order of X_new; exposure and trials are 1 by default.

    Returns
    -------
    xarray.Dataset
        =======================================  =======================  ====================
        variable                                 dims                     unit
        =======================================  =======================  ====================
        `f`, `y`                                 chain, draw, obs         y
        `f_mean`, `f_sd`, `y_mean`, `y_sd`       obs                      y
        `smooth`, with moments (GPX)             [chain, draw,] obs       y
        `probability`, with moments (classes)    [chain, draw,] obs       probability
        `rate`, with moments (counts)            [chain, draw,] obs       y
        `mean`, with moments (amounts, ratings)  [chain, draw,] obs       y
        `response_mean`, `response_sd`           obs                      y or probability
        `value`                                  obs, feature             x
        =======================================  =======================  ====================

        Each hyperparameter draw gives one draw. For a Gaussian likelihood, moments are exact.
        `probability`, `rate` and `mean` replace `y_mean` and `y_sd`, and f is then on the link
        scale. `response_mean` and `response_sd` contain the moments of y, `probability` or `rate`,
        for every likelihood.

        With `by`, it is f (Gaussian), `probability`, `rate` or `mean` that is averaged. In a GPX,
        `smooth` is z' g(x): the mean response of all rows at x and z. f adds the row's deviation.
        Classes are coded 0, 1, ... in `y`, and the attribute `labels` names them; more than two add
        a last dim `class`, and several outputs a last dim `output`.

    Raises
    ------
    ValueError
        If new rows lack columns or contain values other than finite numbers and known levels, or if
        `idata` belongs to another model.

    Warns
    -----
    ExtrapolationWarning, UserWarning
        If new rows leave the training data; if the mean rate of counts is more than ten times the
        largest rate in them.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), equation 14 for GPX.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.predictions(model, theta, [[1.0]], keep="summary", progressbar=False)
    >>> round(found["f_mean"].item(), 2)  # sin(1)
    0.84
    """
    one_of("on", on, ("response", "latent"))
    one_of("keep", keep, ("draws", "summary"))
    return answered(_answer, locals())


def _answer(
    model: Model,
    idata: Draws,
    where: Points,
    *,
    exposure: Any = None,
    trials: Any = None,
    noise_sd: Any = None,
    on: str = "response",
    **options: Any,
) -> xr.Dataset:
    """f, and new responses around it where noise is not normal."""
    several = model.specification.classes is not None
    across = several and (where.by is None or on == "response")
    quantity = questions.value(model, across=across)
    given = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
    exposures, itself = exposures_at(model, given, where), model.specification.response
    of_f = itself.mean_name is None and (model.specification.normal or where.by is not None)
    if on == "latent" or of_f:
        if noise_sd is not None and where.by is not None:
            raise ValueError(
                "noise_sd was given with by, but averages are of f. Leave noise_sd out."
            )
        if exposures is None:
            quantity = replace(quantity, noisy=None)
        elif model.specification.normal and model.specification.exposed:
            options["noise_sd"] = exposures / model.training.y_scaling.scale
        found = evaluate(model, idata, quantity, where, on=on, **options)
        mean_alone = exposures is None and where.by is None
        return found.assign(response_mean=found["f_mean"]) if mean_alone else found
    if where.by is not None and not model.specification.processes:
        return _averages(model, idata, quantity, where, cast(np.ndarray, exposures), **options)
    options["response"] = NewResponses(model, cast(np.ndarray, exposures))
    found = evaluate(model, idata, quantity, where, on="latent", **options)
    if model.specification.processes:
        return _of_processes(found).assign_attrs(units=response_units(model))
    _warn_of_rates(model, found)
    return found


def _averages(
    model: Model,
    idata: Draws,
    quantity: Question,
    where: Points,
    exposure: np.ndarray,
    *,
    covariance: bool = False,
    joint: bool = False,
    path: str | PathLike | None = None,
    keep: str = "draws",
    ci_prob: float | None = None,
    **shown: Any,
) -> xr.Dataset:
    """Averages of the mean response over rows: of the rows' exact means, and of joint draws."""
    if path is not None:
        raise ValueError("path was given with by, but averages are few. Leave path out.")
    alone = replace(where, by=None).having(weights=None)
    response = NewResponses(model, exposure)
    known: dict[str, Any] = shown | {"on": "latent", "keep": "summary", "response": response}
    rows = evaluate(model, idata, quantity, alone, **known)
    _warn_of_rates(model, rows)
    with or_else("Averages of the response", "or pass on='latent'"):
        shown |= {"exposure": exposure, "smooth": False}
        drawn = drawn_at(model, idata, alone, "response", {"obs": where.index}, **shown)
    name, prob = model.specification.response.mean_name, interval_probability(ci_prob)
    means = summed(drawn, where.by)
    found = result_of(model, "response", name, means, covariance, keep, prob)
    found[f"{name}_mean"] = summed(rows[f"{name}_mean"], where.by)
    found = found.merge(summed(rows["value"], where.by).to_dataset(name="value"))
    attrs = quantity.attrs | response.attrs
    if name == "rate":  # a number of events at each row's exposure
        attrs |= {"units": model.training.said_of_y("{y}")}
    return found.assign(under_one_name(cast(Any, found), name)).assign_attrs(attrs)


def _of_processes(found: xr.Dataset) -> xr.Dataset:
    """Moments of y and of its standard deviation, instead of moments along the processes."""
    moments = [str(name) for name in found if str(name).startswith(("y_", "response_"))]
    each = {name: found[name].isel({"class": 0}, drop=True) for name in moments}
    for part in ("mean", "sd"):
        each[f"sd_{part}"] = found[f"y_{part}"].isel({"class": 1}, drop=True)
    if "f" in found:
        log_sd = found["f"].isel({"class": 1}, drop=True)
        each["sd"] = log_sd.copy(data=np.exp(log_sd.values))
    return found.drop_vars(moments).assign(each)


def _warn_of_rates(model: Model, found: xr.Dataset) -> None:
    """Warn of mean rates that come from the upper tail of exp(f), not from the counts."""
    data = model.training
    observation, event = model.specification.observation, model.specification.event
    if not observation.exposed or observation.exposure_name == "trials" or data.streamed or event:
        return
    name = observation.mean_name
    rate = (found[f"{name}_mean"] / found["exposure"]).values
    largest = np.max(data.y / data.exposures)
    far = np.flatnonzero(rate > FAR * largest)
    if not len(far):
        return
    far = far[np.argsort(-rate[far])]
    rows = ", ".join(str(label) for label in found["obs"].values[far[:MOST_NAMED]])
    warn(
        f"The mean {name} of {len(far)} of {len(rate)} rows (first {rows}) is more than {FAR:g} "
        f"times the largest {name} in the training data: up to {rate[far[0]]:.2g}, against "
        f"{largest:.2g}. f is so uncertain there that the upper tail of exp(f) determines the "
        f"mean. Use {name}_interval, or transform features with a few huge values."
    )


def exposures_at(model: Model, each: dict[str, Any], where: Points) -> np.ndarray | None:
    """What the likelihood is given of each row; None for unknown noise of new rows.

    `each` has the arguments "exposure", "trials" and "noise_sd".
    """
    observation = model.specification.observation
    given = exposure_of(observation, **each)
    if not observation.exposed:
        return np.ones(len(where.X))
    name = observation.exposure_name
    if "positions" in where.inputs:
        if given is not None:
            raise ValueError(f"{name} was given without X_new; training samples have their own.")
        training: Any = model.training if where.chunk is None else where.chunk
        return training.exposure[where.rows]
    if given is None and observation.normal:
        return None
    where.refuse_others(given, name)
    values = np.ones(where.passed) if given is None else np.asarray(given, "float64")
    if values.shape != (where.passed,):
        raise ValueError(
            f"{name} has shape {values.shape}. Pass a positive finite number for each of "
            f"{where.passed} samples."
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(wrong):
        raise ValueError(
            f"{name} is {values[wrong[0]]:g} at position {wrong[0]}. Pass positive finite numbers."
        )
    return values[where.rows]
