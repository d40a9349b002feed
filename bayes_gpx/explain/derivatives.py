"""Derivatives: how the function changes with each feature, point by point and as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.questions import is_nonlinear
from bayes_gpx.draws.random_functions import by_draws, or_else
from bayes_gpx.draws.scales import Response
from bayes_gpx.draws.views import by_chain_rule
from bayes_gpx.explain.answered import Of, answered, documented, of_views
from bayes_gpx.numerics.threads import on_cores

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model


@recorded
@documented
@of_views
@on_cores
def derivatives(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    order: Literal[1, 2] = 1,
    of: Of = "value",
    at: float | str | Sequence[float | str] | None = None,
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
    """Differentiate f in each feature, or in each pair of features, at each row.

    Use `slopes` for average derivatives and their signs, and `comparisons` for categorical columns.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, z' g(x) is differentiated in the features of X. If Z was given, z is fixed.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows; None for the training rows.
    groups_new : series or array (m,), optional
        Groups of the new rows, for models with groups.
    obs : label or list of labels, optional
        Only these rows.
    order : {1, 2}
        First or second derivatives.

    Returns
    -------
    xarray.Dataset
        ============================  ==========================================  =========
        variable                      dims                                        unit
        ============================  ==========================================  =========
        `derivative`                  chain, draw, obs, feature                   y per x
        `derivative_mean`, `_sd`      obs, feature                                y per x
        `derivative_interval`         obs, feature, ci_bound                      y per x
        `derivative_cov`              obs, feature, feature_bis                   squares
        `value`                       obs, feature                                x
        ============================  ==========================================  =========

        With ``order=2`` the quantity is `second_derivative`, with dims feature and feature_bis, in
        y per product of two x.

        For classes and counts, unless ``on="latent"``, the unit is the probability or the rate: the
        mean is exact for the normal approximation of f, the sd is that of the draws, and there is
        no interval.

    Raises
    ------
    ValueError
        If `features` names a categorical column, or if the kernel is not smooth enough: first
        derivatives need a Matern 3/2 or smoother, second ones a Matern 5/2. Also for
        ``covariance=True`` with ``order=2``, and for rows or idata that do not fit the model.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

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
    if order == 2 and covariance:
        raise ValueError(
            "covariance=True is for order=1; with order=2, take the covariance of the draws of "
            "those second derivatives that are wanted."
        )
    return answered(partial(slopes_of_f, order=order), locals())


def numbers_among(frame: Frame, features: Sequence[str] | None) -> Sequence[str] | None:
    """The requested features, none categorical; or all numerical features."""
    indicators = {c for level in frame.levels for c in frame.of_source(level)}
    named = [name for name in features or () if name in {*frame.levels, *indicators}]
    numbers = [name for name in frame.columns if name in frame.sources]
    if frame.levels and (named or not numbers):
        raise ValueError(
            f"{named or list(frame.levels)} are categorical, and there is no slope from one level "
            "to the next. Use bx.comparisons for the change from one level to another, or "
            "bx.partial_dependence for the prediction at each."
        )
    return numbers if frame.levels and features is None else features


def slopes_of_f(
    model: Model,
    idata: Draws,
    where: Points,
    *,
    order: int = 1,
    on: str = "response",
    **options: Any,
) -> xr.Dataset:
    """Derivatives of f, or of the mean response by draws."""
    quantity = questions.derivative(model, order)
    options["features"] = numbers_among(model.training.X, options.get("features"))
    if not is_nonlinear(model, quantity, on):
        return evaluate(model, idata, quantity, where, on=on, **options)
    view = by_chain_rule(quantity, where, Response(model))
    with or_else("Derivatives of the response", "or pass on='latent'"):
        return by_draws(model, idata, view, **options)
