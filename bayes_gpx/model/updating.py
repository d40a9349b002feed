"""A fit given more rows: the model of all rows, and its draws weighted anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.data.features import Frame
from bayes_gpx.data.response import read_exposure
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws, hyperparameter_draws
from bayes_gpx.inference.datatree import as_tree, name_method
from bayes_gpx.inference.diagnostics import NOT_CONVERGED, ConvergenceWarning
from bayes_gpx.inference.laplace import diagnosed, resampled, smoothed
from bayes_gpx.posteriors.base import OneDraw
from bayes_gpx.processes.approximations import HSGP
from bayes_gpx.system.warning import warn


def updated(
    model: Any,
    idata: Draws,
    rows: tuple[Table, Table | None, Column],
    groups_new: Column | None,
    exposure: Column | None,
    seed: int | None,
    progressbar: bool,
) -> tuple[Any, Draws]:
    """The model of its own and of new rows, and its fit; see `Views.update`."""
    hyper = hyperparameter_draws(model, idata)
    _refuse(model, hyper, exposure)
    X_new, Z_new, y_new = rows
    observation = model.specification.observation
    if not len(cast(Any, X_new)):
        raise ValueError("X_new has no rows. Pass at least one, with its response.")
    new = model.training.read_observed(X_new, Z_new, y_new, observation, groups_new)
    _refuse_outside(model, new.X)
    if exposure is not None:
        new = replace(new, exposure=read_exposure(exposure, new.X, observation))
        observation.refuse(new.y, new.exposure)
    training = _of_both(model.training, new)
    other = type(model).restored(training, model.specification, model.inducing, **model._settings)
    if isinstance(idata, dict):
        return other, dict(idata)
    posterior = idata["posterior"].to_dataset().transpose("chain", "draw", ...)
    draws = {str(k): v.values.reshape((-1, *v.shape[2:])) for k, v in posterior.items()}
    log_weight, told = np.zeros(1), dict[str, Any]()
    if len(hyper) > 1:
        log_weights, told = _weighed(model, other, hyper, progressbar)
        kept = resampled(np.exp(log_weights), len(hyper), np.random.default_rng(seed))
        draws = {name: values[kept] for name, values in draws.items()}
        log_weight = log_weights[kept]
    stats = {"log_weight": log_weight[None]}
    tree = as_tree(other._pymc, {name: v[None] for name, v in draws.items()}, stats, [])
    tree.attrs.update(idata.attrs, **told)
    tree.attrs[other.signature_key] = other.signature
    name_method(tree, idata["posterior"].attrs["inference_method"])
    return other, tree


def _refuse(model: Any, hyper: HyperparameterDraws, exposure: Column | None) -> None:
    """Raise for models and fits that rows cannot be added to."""
    training, observation = model.training, model.specification.observation
    training.refuse_outputs("update", "Fit a model of all rows.")
    training.refuse_sparse("update")
    training.refuse_out_of_core("update does not support out-of-core data. Fit all rows again.")
    exposed = observation.exposure_name if training.exposure is not None else ""
    for wrong, said in (
        (training.row_data is not None, "rows with weights= or censoring="),
        (exposed in ("trials", "noise_sd"), f"{exposed}="),
        (model.joined, "a part of a larger pm.Model"),
        (len(hyper.values) > len(model.hyperparameters), "a fit with sampled latent values"),
        (model.specification.hierarchical, "representation='hierarchy'"),
    ):
        if wrong:
            raise ValueError(f"update does not support {said}. Fit a model of all rows.")
    if exposure is not None and exposed != "exposure":
        raise ValueError("exposure was given, but this model has none; leave it out.")
    if exposure is None and exposed and (training.exposure != 1.0).any():
        raise ValueError("exposure is missing. Pass a number for each new row.")


def _refuse_outside(model: Any, X: Frame) -> None:
    """Raise for rows that would move the box of an HSGP, and so the function that was fitted."""
    known = model.training.moments
    outside = ((known.low > X.values) | (known.high < X.values)).any(axis=1)
    if isinstance(model.specification.approximation, HSGP) and outside.any():
        raise ValueError(
            f"X_new has {outside.sum()} rows outside of the range of the training rows, which the "
            "box of HSGP is around. Fit a model of all rows."
        )


def _of_both(own: TrainingData, new: TrainingData) -> TrainingData:
    """All rows, on the scale of the first ones."""
    index = _labels(own.X, new.X)

    def joined(one: Frame, other: Frame) -> Frame:
        return replace(one, values=np.concatenate([one.values, other.values]), index=index)

    X, Z, groups = joined(own.X, new.X), None, new.groups
    if own.Z is not None and new.Z is not None:
        Z = X if own.Z is own.X else joined(own.Z, new.Z)
    if groups is not None and own.groups is not None:
        groups = replace(groups, codes=np.append(own.groups.codes, groups.codes))
    exposure = None
    if own.exposure is not None and new.exposure is not None:
        exposure = np.append(own.exposure, new.exposure)
    y = np.append(own.y, new.y)
    return replace(own, X=X, Z=Z, y=y, exposure=exposure, groups=groups)


def _labels(own: Frame, new: Frame) -> np.ndarray:
    """Labels of all rows: numbers go on, and others may not repeat."""
    n = len(own)
    if np.array_equal(own.index, np.arange(n)):
        return np.arange(n + len(new))
    added = new.index if new.labelled else np.arange(n, n + len(new))
    if added.dtype.kind != own.index.dtype.kind:
        added = added.astype(str)
    both = np.concatenate([own.index, added])
    if len(set(both.tolist())) < len(both):
        known = set(own.index.tolist())
        again = next((label for label in new.index.tolist() if label in known), new.index[0])
        raise ValueError(
            f"X_new has the label {again!r}, which another row has. Give each row a label of its "
            "own, such as X_new.index = [...]."
        )
    return both


def _evidence(draw: OneDraw) -> list:
    return [draw.strategy.leave_one_out(draw.given).evidence]


def _weighed(
    model: Any, other: Any, hyper: HyperparameterDraws, progressbar: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """Log weights of the draws, and attributes of the fit."""
    # p(y_new | y, theta) is the ratio of both marginal likelihoods, jointly for all new rows.
    own, new = (
        at_training_rows(one, hyper, _evidence, progressbar=progressbar)[0][0].reshape(-1)
        for one in (model, other)
    )
    log_weights, khat = smoothed(own - new)
    # A draw that earlier updates repeated counts once: many updates cannot hide few draws.
    flat = [v.reshape((len(hyper), -1)) for v in hyper.values.values()]
    _, which = np.unique(np.concatenate(flat, axis=1), axis=0, return_inverse=True)
    distinct = np.full(which.max() + 1, -np.inf)
    np.logaddexp.at(distinct, which, log_weights)
    told = diagnosed(distinct, khat, len(hyper), "New rows have moved the posterior")
    if told["convergence"] == NOT_CONVERGED:
        text = f"{told['convergence_summary']} Fit the updated model: model.fit(...)."
        warn(text, ConvergenceWarning)
    return log_weights, told
