"""Derivatives: how the function changes with each feature, point by point and as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import TYPE_CHECKING, Literal

import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import quantities
from bayes_gpx.draws.evaluate import explain
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.points import points_to_explain
from bayes_gpx.draws.random_functions import by_functions, or_else
from bayes_gpx.draws.response_scale import ResponseQuantity, bends
from bayes_gpx.explain.by_output import by_output
from bayes_gpx.explain.in_parts import in_parts
from bayes_gpx.explain.options import chosen, documented

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model


@documented
@in_parts
@by_output
def derivatives(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    order: Literal[1, 2] = 1,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    joint: bool = False,
    keep: Literal["draws", "summary"] = "draws",
    on: Literal["response", "latent"] = "response",
    path: str | PathLike | None = None,
    executor: Executor | None = None,
    seed: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Posterior of the derivatives of f in each feature, or pair of features, at each observation.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, derivatives are those of the smooth part z' g(x). The features are those of X; z
        is held fixed if Z was given, and changes with x otherwise.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples; None for the training samples.
    groups_new : series or array (m,), optional
        The groups of new samples, where the model has groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these observations.
    order : {1, 2}
        Order of the derivatives.

    Returns
    -------
    xarray.Dataset
        `derivative` (chain, draw, obs, feature), `derivative_mean`, `derivative_sd`
        (obs, feature), `derivative_cov` (obs, feature, feature_bis) with ``covariance=True``;
        `value`. In units of y per unit of x.

        With ``order=2``: `second_derivative` (chain, draw, obs, feature, feature_bis), symmetric in
        both features, `second_derivative_mean`, `second_derivative_sd` (obs, feature, feature_bis);
        `value`. In units of y per unit of x of either feature.

        For labels and counts, unless ``on="latent"``, these are derivatives of the probability S(f)
        or the rate S(f), where f is the smooth part in a GPX. Draws are computed for random
        functions, means are exact given the normal approximation of f, and sds and covariances are
        those of the draws.

    Raises
    ------
    ValueError
        If `features` names a categorical column, which has no derivative (without `features`, the
        derivatives in the other columns are returned); if the kernel's process is not
        differentiable often enough (once: a Matern 3/2 or smoother, twice: a Matern 5/2 or
        smoother); for ``covariance=True`` with ``order=2``; or if samples or idata do not fit the
        model.

    Warns
    -----
    ExtrapolationWarning
        If new samples leave the training data.

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), equations 9 to 12.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.derivatives(model, theta, [[1.0]], keep="summary", progressbar=False)
    >>> round(found["derivative_mean"].item(), 2)  # cos(1)
    0.54
    """
    options = chosen(locals())
    refuse_swapped(model, idata)
    quantity = quantities.derivative(model, order)
    if order == 2 and options.get("covariance"):
        raise ValueError(
            "covariance=True is for order=1; with order=2, take the covariance of the draws of "
            "those second derivatives that are wanted."
        )
    return _explained(
        model,
        idata,
        quantity,
        points_to_explain(model, X_new, Z_new, groups_new=groups_new, obs=obs),
        **options,
    )


def numbers_among(frame: Frame, features: Sequence[str] | None) -> Sequence[str] | None:
    """The features that were asked for, of which none may be categorical; or all that are not."""
    named = [name for name in features or () if name in frame.levels]
    numbers = [name for name in frame.columns if name in frame.sources]
    if frame.levels and (named or not numbers):
        raise ValueError(
            f"{named or list(frame.levels)} are categorical, and there is no slope from one level "
            "to the next; expected columns of numbers. bx.comparisons has the change from one "
            "level to another, bx.partial_dependence the prediction at each."
        )
    return numbers if frame.levels and features is None else features


def _explained(model, idata, quantity, where, *, on="response", **options):
    """Derivatives of f, or by functions those of the mean response, joint in any case."""
    options["features"] = numbers_among(model.training.X, options.get("features"))
    if not bends(model, quantity, on):
        return explain(model, idata, quantity, where, on=on, **options)
    if quantity.square:
        raise ValueError("order=2 of the response is not supported; pass on='latent'.")
    asked = ResponseQuantity(model, quantity, where)
    with or_else("Derivatives of the response", "or pass on='latent'"):
        return by_functions(model, idata, asked, where, **options)
