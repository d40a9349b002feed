"""Weights and contributions of a GPX: the effect of each feature in each row."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.naming import recorded
from bayes_gpx.explain.answered import answered, documented
from bayes_gpx.explain.entries import of_entries
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model


@recorded
@documented
@on_cores
def weights(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    smooth: bool = False,
    units: Literal["centred", "original"] = "centred",
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    on: Literal["response", "latent"] = "response",
    path: str | PathLike | None = None,
    executor: Executor | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compute the weight of each feature at each row of a GPX.

    A weight is the slope of the prediction in z: units of y per unit of the feature. Use
    `contributions` for weights times values, and `slopes` for a GP.

    Parameters
    ----------
    model : GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows, whose deviations `eps_w` are unknown; None for the training rows, with their own
        deviations. Z_new only adds `value`.
    smooth : bool
        Return the weight functions g, without deviations: for curves and maps.
    units : {"centred", "original"}
        "centred" weighs features minus their means. "original" gives coefficients of the raw
        features, comparable with a linear regression, and a last feature `intercept`: the
        prediction where all features are 0, which may be far from the data.
    groups_new : series or array (m,), optional
        Groups of the new rows, for models with groups.
    obs : label or list of labels, optional
        Only these rows.

    Returns
    -------
    xarray.Dataset
        =======================  ===========================  ===============
        variable                 dims                         unit
        =======================  ===========================  ===============
        `weight`                 chain, draw, obs, feature    y per z
        `weight_mean`, `_sd`     obs, feature                 y per z
        `weight_interval`        obs, feature, ci_bound       y per z
        `weight_cov`             obs, feature, feature_bis    squares of it
        `value`                  obs, feature                 z
        =======================  ===========================  ===============

        With a sparse Z, `feature` has the features that any of the rows has, and numbers are NaN
        where a row lacks one. New rows then need Z_new, and `by`, `joint` and `path` are not
        supported.

    Raises
    ------
    ValueError
        For a GP, which has no weights, and for rows or idata that do not fit the model.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), equations 16 to 18.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GPX(X, X[:, 0] ** 2, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 3.0, "sigma_w": 0.0, "sigma": 0.01}
    >>> found = bx.weights(model, theta, [[1.0], [2.0]], keep="summary", progressbar=False)
    >>> found["weight_mean"].values.round(2).ravel()  # y = x x: the weight is x
    array([1., 2.])
    """
    one_of("units", units, ("centred", "original"))
    answer = partial(_weights, smooth=smooth, units=units)
    return answered(answer, locals(), needs_z=False, of_z=True)


def _weights(
    model: Model, idata: Draws, where: Points, *, smooth: bool, units: str, **options: Any
) -> xr.Dataset:
    if model.training.sparse:
        if units != "centred":
            raise ValueError(
                "units is 'original', but a sparse Z is not centered: its weights multiply the raw "
                "features already. Leave units out."
            )
        question = questions.weight(model, smooth=smooth)
        found = of_entries(model, idata, where, question, smooth=smooth, **options)
        return found.assign_attrs(along=_along(model, where))
    kind = questions.weight if units == "centred" else questions.coefficient
    found = evaluate(model, idata, kind(model, smooth=smooth), where, **options)
    return found.assign_attrs(along=_along(model, where))


def _along(model: Model, where: Points) -> str:
    """The column of X that alone varies over the rows; "" where none or several do."""
    varying = np.flatnonzero(np.ptp(where.X_values, axis=0))
    return model.training.X.columns[varying[0]] if len(varying) == 1 else ""


def deviation_sds(model: Model, idata: Draws, num_draws: int | None = None) -> xr.DataArray:
    """Standard deviation of `eps_w`, a row's deviation from g, by feature, in units of weights."""
    # The root mean square over hyperparameter draws.
    training, spec = model.training, model.specification
    hyper = hyperparameter_draws(model, idata, num_draws)
    squares = [np.square(spec.deviation_sd(theta)) for _, theta in hyper]
    per_unit = training.y_scaling.scale / training.Z_scaling.scale
    sds = per_unit * np.sqrt(np.mean(squares, axis=0))
    return xr.DataArray(sds, {"feature": list(training.Z.columns)}, ["feature"])


@recorded
@documented
@on_cores
def contributions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    on: Literal["response", "latent"] = "response",
    path: str | PathLike | None = None,
    executor: Executor | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compute the contribution of each feature of a GPX to each prediction.

    A contribution is a weight times the centered value: ``contribution_l = weight_l (value_l -
    center_l)``. The contributions of a row plus `offset` are f. Use `weights` for the weights
    themselves, and `attributions` or `components` for a GP.

    Parameters
    ----------
    model : GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array, optional
        New rows, whose deviations `eps_w` are unknown; None for the training rows, with their own
        deviations.
    groups_new : series or array (m,), optional
        Groups of the new rows, for models with groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these rows.

    Returns
    -------
    xarray.Dataset
        ================================  ===========================  =========
        variable                          dims                         unit
        ================================  ===========================  =========
        `contribution`                    chain, draw, obs, feature    y
        `contribution_mean`, `_sd`        obs, feature                 y
        `contribution_interval`           obs, feature, ci_bound       y
        `contribution_cov`                obs, feature, feature_bis    y squared
        `value`, `center`                 obs, feature; feature        z
        `offset`                                                       y
        ================================  ===========================  =========

        A categorical column has one contribution, the sum over its indicators, no `center`, and the
        name of its level in `level`. With a sparse Z, numbers are NaN where a row lacks a feature,
        as in `weights`.

    Raises
    ------
    ValueError
        As in `weights`.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

    References
    ----------
    Yoshikawa and Iwata, IEEE TNNLS 34 (2023), section III.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GPX(X, X[:, 0] ** 2, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 3.0, "sigma_w": 0.0, "sigma": 0.01}
    >>> found = bx.contributions(model, theta, [[2.0]], keep="summary", progressbar=False)
    >>> found["contribution_mean"].values.round(2)
    array([[4.]])
    """
    return answered(_contributions, locals(), of_z=True)


def _contributions(model: Model, idata: Draws, where: Points, **options: Any) -> xr.Dataset:
    answer = of_entries if model.training.sparse else evaluate
    return answer(model, idata, where=where, question=questions.contribution(model), **options)
