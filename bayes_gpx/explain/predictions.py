"""Predictions: the function's value, the mean response, and a new response."""

from __future__ import annotations

from collections.abc import Sized
from concurrent.futures import Executor
from os import PathLike
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import quantities
from bayes_gpx.draws.evaluate import explain
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.new_responses import NewResponses
from bayes_gpx.draws.points import points_to_explain
from bayes_gpx.explain.by_output import by_output
from bayes_gpx.explain.in_parts import in_parts
from bayes_gpx.explain.options import chosen, documented
from bayes_gpx.likelihoods import refuse_exposure
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

FAR = 10.0
"""A mean rate this many times the largest training rate is reported."""

MOST_NAMED = 3
"""Rows that a warning names."""


@documented
@in_parts
@by_output
def predictions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    on: Literal["response", "latent"] = "response",
    exposure: Column | None = None,
    keep: Literal["draws", "summary"] = "draws",
    seed: int | None = None,
    draws: int = 1000,
    num_draws: int | None = None,
    covariance: bool = False,
    joint: bool = False,
    path: str | PathLike | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Posterior of f(x), of the mean response and of a new response y at each observation.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples, with fresh `eps_w` in GPX; None for the training samples themselves, with
        their own. Z_new is needed where the model was given Z.
    groups_new : series or array (m,), optional
        The groups of new samples, where the model has groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these observations.
    on : {"response", "latent"}
        "latent" returns f only, on the scale of the link, for likelihoods other than the normal.
    exposure : array (m,), optional
        Exposure of new counts, in the order of X_new; 1 by default. Training samples have theirs.
    keep : {"draws", "summary"}
        "summary" returns moments and intervals, without draws.
    seed : int, optional

    Returns
    -------
    xarray.Dataset
        `f` and `y` (chain, draw, obs), one draw for each hyperparameter draw; `f_mean`,
        `f_sd`, `y_mean`, `y_sd` (obs), exact moments of the mixture over hyperparameter
        draws; `value` (obs, feature). In units of y. Several outputs have a last dim `output`, each
        in its own unit; their draws are independent of each other given the hyperparameters.

        A GPX adds `smooth`, z' g(x), with its moments: the mean response of all samples at x and z.
        Each sample's f also has a deviation of its own, z' eps_w, and draws of both belong
        together. With several classes there is no `smooth`.

        Instead of `y_mean` and `y_sd`, labels have `probability` and counts have `rate`: draws, the
        mean, which is exact given the normal approximation of f, and the sd of the draws. f is then
        on the scale of the link, and `y` is coded 0, 1, ... for labels, which the attribute
        `labels` names. With more than two labels, f and `probability` have a last dim `class`, are
        drawn jointly over classes, and the mean is computed by quasi-random points.

        For every likelihood, the mean and sd of y, of `probability` or of `rate` are also available
        as `response_mean` and `response_sd`.

    Raises
    ------
    ValueError
        If new samples lack columns or contain anything but finite numbers and known levels, or if
        `idata` belongs to another model.

    Warns
    -----
    ExtrapolationWarning
        If new samples leave the training data.
    UserWarning
        If the mean rate of counts is more than ten times the largest rate in the training data.

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
    options = chosen(locals())
    refuse_swapped(model, idata)
    one_of("on", on, ("response", "latent"))
    one_of("keep", keep, ("draws", "summary"))
    several = model.specification.classes
    where = points_to_explain(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    quantity = quantities.value(model, across=several is not None)
    given = len(where.X) if X_new is None else len(cast(Sized, X_new))
    exposures = _exposures(model, exposure, where, given)
    if model.specification.normal or on == "latent":
        return explain(model, idata, quantity, where, **options)
    options |= {"on": "latent", "response": NewResponses(model, exposures)}
    found = explain(model, idata, quantity, where, **options)
    _warn_of_rates(model, found)
    return found


def _warn_of_rates(model, found):
    """Warn of mean rates that come from the upper tail of exp(f), not from the counts."""
    data = model.training
    if not model.specification.observation.exposed or data.streamed:
        return
    rate = (found["rate_mean"] / found["exposure"]).values
    largest = np.max(data.y / data.exposure)
    far = np.flatnonzero(rate > FAR * largest)
    if not len(far):
        return
    far = far[np.argsort(-rate[far])]
    rows = ", ".join(str(label) for label in found["obs"].values[far[:MOST_NAMED]])
    warn(
        f"The mean rate of {len(far)} of {len(rate)} rows (first {rows}) is more than {FAR:g} "
        f"times the largest rate in the training data: up to {rate[far[0]]:.2g}, against "
        f"{largest:.2g}. f is so uncertain there that the upper tail of exp(f) determines the "
        "mean. Use rate_interval, or transform features with a few huge values."
    )


def _exposures(model, exposure, where, given):
    refuse_exposure(exposure, model.specification.observation)
    if not model.specification.observation.exposed:
        return np.ones(len(where.X))
    if where.positions is not None:
        if exposure is not None:
            raise ValueError("exposure was given without X_new; training samples have their own.")
        return model.training.exposure[where.positions]
    values = np.ones(given) if exposure is None else np.asarray(exposure, "float64")
    if values.shape != (given,) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(
            f"exposure has shape {values.shape}; expected a positive finite number for each of "
            f"{given} samples."
        )
    return values[where.rows]
