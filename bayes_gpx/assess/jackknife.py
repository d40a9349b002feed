"""Predictive intervals with guaranteed coverage, from exact leave-one-out predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.linalg import cho_factor, cho_solve

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import LARGEST_JOINT, joint_moments
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.draws.naming import origin, recorded
from bayes_gpx.draws.points import points, points_to_explain, read_observed
from bayes_gpx.numerics.threads import on_cores

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model

LEAST_NOISE = 1e-6
"""Proportion of a row's noise variance that its own response must leave unexplained."""


@recorded
@on_cores
def jackknife_plus(
    model: Model,
    idata: Draws,
    X_new: Table,
    *,
    calibration: tuple[Table, Column] | None = None,
    num_draws: int | None = None,
    cores: int | None = None,
    progressbar: bool = True,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Predict new responses by jackknife+ intervals. Their coverage needs no true model.

    Use it if you doubt the likelihood or the kernel. The intervals of `predictions` are narrower
    where the model is right.

    Fit the model to one part of the rows, and pass the other part as `calibration`. Each
    calibration row is then predicted from all other rows, by posterior means. If all calibration
    rows and the new row are exchangeable, an interval contains its response with a probability of
    at least ``2 * ci_prob - 1``, and nearly always of about `ci_prob`.

    Parameters
    ----------
    model : GP or GPX
        Of a numeric response with a Gaussian likelihood; a GPX without a Z of its own.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new : frame or array (m, d)
        New rows.
    calibration : tuple of frame or array (n, d) and series or array (n,), optional
        Rows that the model was not fitted to, and their responses. Without it, the training rows of
        a GP are left out one by one, although they chose the hyperparameters and scales. The
        intervals are then approximate, and too narrow if there are few rows.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    progressbar : bool
        Show progress.
    ci_prob : float, optional
        Nominal probability of the intervals, 90% by default.

    Returns
    -------
    xarray.Dataset
        ======================  =============  ====
        variable                dims           unit
        ======================  =============  ====
        `jackknife_mean`        obs            y
        `jackknife_interval`    obs, ci_bound  y
        `left_out_residual`     calibration    y
        ======================  =============  ====

        `jackknife_mean` is the posterior mean of f given all rows. ``attrs["guaranteed"]`` is the
        guaranteed probability, 0 without `calibration`.

    Raises
    ------
    ValueError
        For other models; for fewer than ``ci_prob / (1 - ci_prob)`` calibration rows; for more than
        5000 calibration and new rows together; and without `calibration` for models with almost no
        noise.

    Notes
    -----
    With leave-one-out predictions m_i(x) and absolute residuals r_i of n calibration rows, an
    interval reaches from the k-th smallest m_i(x) - r_i to the k-th largest m_i(x) + r_i, where k
    is the whole part of ``(1 - ci_prob) * (n + 1)``.

    The guarantee is for new rows on average, not for each x. Time series and rows in groups are not
    exchangeable.

    References
    ----------
    Barber, Candès, Ramdas and Tibshirani, "Predictive inference with the jackknife+", Annals of
    Statistics 49 (2021), theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.standard_t(2, size=150)
    >>> model = bx.GP(X[:50], y[:50])
    >>> theta = {"lengthscale": [1.5], "amplitude": 1.0, "sigma": 0.5}
    >>> calibration = X[50:100], y[50:100]
    >>> found = bx.jackknife_plus(
    ...     model, theta, X[100:], calibration=calibration, progressbar=False
    ... )
    >>> low, high = found["jackknife_interval"].values.T
    >>> inside = (low <= y[100:]) & (y[100:] <= high)
    >>> bool(inside.mean() > 0.8)
    True
    """
    refuse_swapped(model, idata)
    _refuse(model, calibration is None)
    prob = interval_probability(ci_prob)
    new = points_to_explain(model, X_new)
    if calibration is None:
        training = model.training
        own = replace(points(model, training.X.values), index=training.X.index)
        y = training.y
    else:
        if not isinstance(calibration, tuple) or len(calibration) != 2:
            raise ValueError(
                f"calibration is a {type(calibration).__name__}. Pass the rows and their responses "
                "as a tuple, calibration=(X, y)."
            )
        X, y = calibration
        own = points(model, X)
        y = read_observed(xr.Dataset(coords={"obs": own.index}), y).values
    order = place(prob, len(y))
    if calibration is not None:
        _refuse_training_rows(model, own, y)
    both = _stacked(model, own, new)
    hyper = hyperparameter_draws(model, idata, num_draws)
    question, n = questions.value(model), len(y)
    predicted, residual, mean = (np.zeros(shape) for shape in ((len(new.X), n), n, len(new.X)))
    for theta, center, cov in joint_moments(model, hyper, question, both, progressbar):
        noise = question.factor[0] ** 2 * np.square(model.specification.observation.sd(theta))
        close = _own_rows if calibration is None else _other_rows
        found = close(y, center, cov, float(noise))
        for total, part in zip((predicted, residual, mean), found, strict=True):
            total += part / len(hyper)
    ends = order_statistics(predicted, np.abs(residual), order)
    guaranteed = 0.0 if calibration is None else max(0.0, 2.0 * prob - 1.0)
    attrs = {"units": question.units, "ci_prob": prob, "guaranteed": guaranteed}
    return xr.Dataset(
        {
            "jackknife_mean": ("obs", mean),
            "jackknife_interval": (("obs", "ci_bound"), ends),
            "left_out_residual": ("calibration", residual),
        },
        {"obs": new.index, "ci_bound": BOUNDS, "calibration": own.index},
        origin(model) | attrs,
    )


def _refuse_training_rows(model: Model, own: Points, y: np.ndarray) -> None:
    """Raise if most calibration rows are training rows: they have no guarantee."""
    training = model.training
    known = {*map(tuple, np.column_stack([training.X.values, training.y]).tolist())}
    again = sum(row in known for row in map(tuple, np.column_stack([own.X_values, y]).tolist()))
    if 2 * again > len(y):
        raise ValueError(
            f"calibration holds {again} rows that the model was fitted to, of {len(y)}. Pass other "
            "rows, or leave calibration out for intervals without a guarantee."
        )


def place(prob: float, n: int) -> int:
    """Place of both ends among n ordered predictions, counted from outside; refuses too few."""
    order = int(np.floor((1.0 - prob) * (n + 1) * (1.0 + 1e-12)))
    if order < 1:
        raise ValueError(
            f"There are {n} calibration rows, too few for intervals of probability {prob:g}. Pass "
            f"at least {int(np.ceil(prob / (1.0 - prob) * (1.0 - 1e-12)))}, or a smaller ci_prob."
        )
    return order


def order_statistics(predicted: np.ndarray, residual: np.ndarray, order: int) -> np.ndarray:
    """Jackknife+ intervals (m, 2), from predictions (m, n) and absolute residuals (n,)."""
    low = np.partition(predicted - residual, order - 1, axis=1)[:, order - 1]
    high = -np.partition(-(predicted + residual), order - 1, axis=1)[:, order - 1]
    return np.stack([low, high], axis=1)


def _other_rows(
    y: np.ndarray, mean: np.ndarray, cov: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out predictions (m, n), residuals (n,), and predictions (m,) from all rows.

    `mean` and `cov` are those of f at n + m rows, before the first n are observed.
    """
    n = len(y)
    factor = cho_factor(cov[:n, :n] + noise * np.eye(n), lower=True)
    precision = cho_solve(factor, np.eye(n))
    alpha = precision @ (y - mean[:n])
    residual = alpha / np.diagonal(precision)
    gain = cov[n:, :n] @ precision
    whole = mean[n:] + cov[n:, :n] @ alpha
    return whole[:, None] - gain * residual, residual, whole


def _own_rows(
    y: np.ndarray, mean: np.ndarray, cov: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_other_rows`, with moments of f given all n rows."""
    n = len(y)
    left = 1.0 - np.diagonal(cov)[:n] / noise  # noise times the diagonal of (K + noise)^-1
    if left.min() < LEAST_NOISE:
        raise ValueError(
            "The noise is almost 0, so the training rows cannot be left out accurately. Pass "
            "calibration, rows that the model was not fitted to."
        )
    residual = (y - mean[:n]) / left
    return mean[n:, None] - cov[n:, :n] / noise * residual, residual, mean[n:]


def _stacked(model: Model, own: Points, new: Points) -> Points:
    """Rows of both, the new ones last."""
    size = len(own.X) + len(new.X)
    if size > LARGEST_JOINT:
        raise ValueError(
            f"Calibration and new rows are {size} together, more than {LARGEST_JOINT}. Pass fewer "
            "new rows at a time, or fewer calibration rows."
        )
    rows: Any = np.concatenate([own.X_values, new.X_values])
    return points(model, rows)


def _refuse(model: Model, own: bool) -> None:
    """Raise for models without exact leave-one-out predictions of a number."""
    for wrong, what in _unlike(model, own):
        if wrong:
            raise ValueError(
                f"jackknife_plus was given {what}. Pass a model of one numeric response, with a "
                "Gaussian likelihood of constant noise and neither groups nor a Z of its own"
                f"{', or rows that it was not fitted to as calibration' if own else ''}."
            )


def _unlike(model: Model, own: bool) -> Iterator[tuple[bool, str]]:
    """Properties of a model that are not supported."""
    specification, training = model.specification, model.training
    yield training.outputs is not None, "a model of several outputs"
    yield not specification.normal or specification.exposed, "another likelihood, or weights"
    yield training.groups is not None, "a model with groups"
    yield training.Z is not None and not training.tied, "a model with a Z of its own"
    yield training.streamed, "a model of out-of-core data"
    if own:
        yield specification.family == "GPX", "a GPX without calibration"
        yield specification.approximation is not None, "an approximation without calibration"
