"""Metrics of explanations (faithfulness, sufficiency, stability) and of predictions.

The first three take an explanation by its posterior means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr
from scipy.spatial import KDTree

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.assess.removal import REMOVABLE, Without, explanation_in
from bayes_gpx.data.features import refuse_misaligned, row_labels
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.points import read_observed
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

PER_VALUE = ("weight", "derivative")
"""Explanations per unit of a feature."""


def coverage(
    dataset: xr.Dataset, y: Column, ci_prob: float | Sequence[float] | None = None
) -> xr.DataArray:
    """Compute the proportion of responses inside their predictive intervals.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.predictions` with draws of `y`, or of `bayes_gpx.loo_predictions`.
        Its PITs give the position of each response, randomized for counts.
    y : array or pandas.Series (m,)
        Observed responses, in the order of the dataset's rows; for leave-one-out predictions, the
        responses that the model was fitted to. Do not pass bounds of censored rows: in a result of
        `bayes_gpx.predictions` they count as responses. For survival see `brier_score`.
    ci_prob : float or list of float, optional
        Probability of the intervals; by default the dataset's.

    Returns
    -------
    xarray.DataArray
        A number, or one for each `ci_prob`. Draws that equal a response, as for counts, lie half
        below and half above it. Large counts are then covered as often as they should be; small
        counts have no interval of about this probability.

    Raises
    ------
    ValueError
        For a dataset without draws of `y`, classes, which have no intervals, a `y` that does not
        fit or was not left out, left-out rows that are censored, and an invalid `ci_prob`.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = bx.GP(X, y, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 1.0, "sigma": 0.1}
    >>> found = bx.predictions(model, theta, seed=0, progressbar=False)
    >>> bx.metrics.coverage(found, y, [0.5, 0.9]).values.round(1)
    array([0.5, 0.9])
    """
    if "labels" in dataset.attrs:
        raise ValueError(
            "The response is a label, which has no interval. For probabilities use "
            "bx.predictive_checks and ArviZ's plots of calibration."
        )
    if "y" not in dataset or not {"chain", "draw", "obs"} <= set(dataset["y"].dims):
        raise ValueError(
            "The dataset has no draws of `y` over observations. Pass the result of bx.predictions "
            "with keep='draws', a single observation as dataset.isel(obs=[0])."
        )
    if "residual" in dataset and bool(dataset["residual"].isnull().any()):
        raise ValueError(
            "Some of the rows that were left out are censored. Whether their responses lie inside "
            "the intervals is unknown. Use elpd of the dataset, or bx.metrics.brier_score."
        )
    prob = [interval_probability(p, dataset) for p in np.ravel([ci_prob])]
    drawn, dims = dataset["y"], ("chain", "draw")
    seen = read_observed(dataset, y)
    below = (drawn < seen).mean(dims) + 0.5 * (drawn == seen).mean(dims)
    place = _places_left_out(dataset, seen) if "pit" in dataset else below
    wanted = xr.DataArray(prob, {"ci_prob": prob}, ["ci_prob"])
    covered: xr.DataArray = abs(2.0 * place - 1.0) <= wanted
    inside = covered.mean("obs").rename("coverage")
    return inside.isel(ci_prob=0) if np.ndim(cast(Any, ci_prob)) == 0 else inside


def _places_left_out(dataset: xr.Dataset, seen: xr.DataArray) -> xr.DataArray:
    """PITs of the observed responses, which are those that the model was fitted to."""
    fitted = dataset["response_mean"] + dataset["residual"]
    if not np.allclose(seen, fitted, rtol=1e-9, atol=1e-9 * float(np.abs(fitted).max())):
        raise ValueError(
            "y differs from the responses that were left out. Pass the responses that the model "
            "was fitted to, or the result of bx.predictions for other responses."
        )
    return dataset["pit"]


def concordance(dataset: xr.Dataset, y: Column, known: Column) -> float:
    """Compute the proportion of pairs of durations that predictions put in the right order.

    It is Harrell's C. A pair counts if it is known which duration is the shorter one; equal
    predictions count half.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of `bayes_gpx.predictions`, or of `bayes_gpx.loo_predictions`: longer durations are
        expected where `response_mean` is larger. With `of="survival"`, one value of `at`.
    y : array or pandas.Series (m,)
        Observed durations, or the times until which rows were observed, in the dataset's order.
    known : array of bool (m,)
        Whether the duration ended at `y`.

    Returns
    -------
    float
        1 for the right order everywhere, and about 0.5 for a random one.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayes_gpx as bx
    >>> found = xr.Dataset({"response_mean": ("obs", [1.0, 2.0, 3.0])}, {"obs": [0, 1, 2]})
    >>> bx.metrics.concordance(found, [4.0, 5.0, 9.0], [True, False, True])
    1.0
    """
    if dataset["response_mean"].dims != ("obs",) or "hazard_mean" in dataset:
        raise ValueError(
            "The dataset has several values of at, or hazards, which are larger where durations "
            "are shorter. Pass predictions of y, or survival at one time: dataset.sel(at=...)."
        )
    time, ended = _durations(dataset, y, known)
    mean = dataset["response_mean"].values
    right = pairs = 0.0
    for t, expected in zip(time[ended], mean[ended], strict=True):
        longer = (time > t) | ((time == t) & ~ended)
        pairs += longer.sum()
        right += (mean[longer] > expected).sum() + 0.5 * (mean[longer] == expected).sum()
    if not pairs:
        raise ValueError("No duration is known to be shorter than another. Pass more rows.")
    return float(right / pairs)


def brier_score(dataset: xr.Dataset, y: Column, known: Column) -> xr.DataArray:
    """Compute the mean squared error of survival probabilities at several times.

    Rows that were observed for too short a time do not count; those that were observed long enough
    count for them, by the inverse of Kaplan and Meier's estimate of being observed so long [1]_.

    Parameters
    ----------
    dataset : xarray.Dataset
        A result of ``bayes_gpx.predictions(..., of="survival", at=times)``.
    y : array or pandas.Series (m,)
        Observed durations, or the times until which rows were observed, in the dataset's order.
    known : array of bool (m,)
        Whether the duration ended at `y`.

    Returns
    -------
    xarray.DataArray
        The score at each time, with dim `at`; 0 is perfect. The integrated Brier score is
        ``score.integrate("at") / (times[-1] - times[0])``.

    Notes
    -----
    The time at which observation ends must not depend on the features. Times should be below the
    longest observed one.

    References
    ----------
    .. [1] Graf, Schmoor, Sauerbrei and Schumacher, "Assessment and comparison of prognostic
       classification schemes for survival data", Statistics in Medicine 18 (1999) 2529-2545.
    """
    if "survival_mean" not in dataset or "at" not in dataset["survival_mean"].dims:
        raise ValueError(
            "The dataset has no survival probabilities at several times. Pass the result of "
            "bx.predictions(..., of='survival', at=[...])."
        )
    time, ended = _durations(dataset, y, known)
    survival = dataset["survival_mean"].transpose("obs", "at")
    # A row that ended at t was observed at least so long, and says nothing of what follows.
    ends = np.unique(time[~ended])
    at_end = np.array([np.sum((time == t) & ~ended) for t in ends])
    kept = np.cumprod(1.0 - at_end / (at_end + np.array([np.sum(time > t) for t in ends])))

    def observed(t: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
        """Estimate of the probability to be observed at least (left), or longer than, t."""
        return np.concatenate([[1.0], kept])[np.searchsorted(ends, t, side)]

    at = survival["at"].values
    gone, there = (time[:, None] <= at) & ended[:, None], time[:, None] > at
    with np.errstate(divide="ignore"):
        of_gone, of_there = 1.0 / observed(time, "left")[:, None], 1.0 / observed(at, "right")
    weights = np.where(gone, of_gone, np.where(there, of_there, 0.0))
    squares = weights * (there - survival.values) ** 2
    return xr.DataArray(squares.mean(axis=0), {"at": at}, ["at"], name="brier_score")


def _durations(dataset: xr.Dataset, y: Column, known: Column) -> tuple[np.ndarray, np.ndarray]:
    """Durations, and which of them ended, (m,) each."""
    time, ended = read_observed(dataset, y).values, np.asarray(known)
    if (labels := row_labels(known)) is not None and len(labels) == len(time):
        refuse_misaligned(dataset["obs"].values, labels, "the dataset", "known")
    if ended.shape != time.shape or ended.dtype != bool:
        raise ValueError(
            f"known has shape {ended.shape} and dtype {ended.dtype}, but must be True or False for "
            f"each of {len(time)} rows: whether the time is known, as in censoring == 'none'."
        )
    return time, ended


def stability(
    dataset: xr.Dataset,
    neighbours: int = 10,
    *,
    radius: float | None = None,
    within: Table | None = None,
) -> xr.DataArray:
    """Measure how much explanations change between neighboring rows.

    The result is ``max_j |e_i - e_j| / |x_i - x_j|`` over the nearest neighbors j: an estimate of
    the local Lipschitz constant, small for stable explanations. Values are divided by their sd over
    the rows. The explanations e are posterior means, with weights and derivatives times these sds,
    so all are in units of y. Weights and contributions of a GPX with its own Z are compared over z.

    With a `radius`, the result is equation 19 of Yoshikawa and Iwata: neighbors are all rows in a
    ball, and explanations are standardized over the rows, feature by feature. Distances use the
    dataset's `value` without scaling, so the columns with the largest units dominate. The paper
    standardizes its inputs; to reproduce it, standardize the columns before you build the model.

    Parameters
    ----------
    dataset : xarray.Dataset
        Weights, contributions, derivatives or attributions, at two rows or more.
    neighbours : int
        Number of neighbors; all other rows if there are fewer.
    radius : float, optional
        Neighbors have ``|x_i - x_j| / m`` below the radius, where m is the number of coordinates;
        infinity takes all other rows.
    within : frame or array (obs, m), optional
        Coordinates for the ball, without scaling, such as X for a GPX with its own Z. The dataset's
        values by default.

    Returns
    -------
    xarray.DataArray
        (obs), or (obs, class); NaN if no neighbor has another value.

    Raises
    ------
    ValueError
        For another dataset, categorical columns, which have no distance, a radius that is not
        positive, and coordinates without a radius or for other rows.

    References
    ----------
    Alvarez-Melis and Jaakkola, "On the robustness of interpretability methods" (2018); Yoshikawa
    and Iwata, IEEE TNNLS 34 (2023), equation 19.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GPX(X, X[:, 0] ** 2, scale=False)
    >>> theta = {"lengthscale": [1.5], "amplitude": 3.0, "sigma_w": 0.0, "sigma": 0.01}
    >>> found = bx.weights(model, theta, keep="summary", progressbar=False)
    >>> wide = X.std() ** 2  # the weight is x; both it and x are scaled
    >>> round(float(bx.metrics.stability(found, 2).median() / wide), 2)
    1.0
    """
    count("neighbours", neighbours)
    name = explanation_in(dataset, (*PER_VALUE, *REMOVABLE))
    if dataset.sizes.get("obs", 1) < 2:
        raise ValueError("The dataset has one observation, but needs two or more.")
    if "level" in dataset:
        raise ValueError(
            "Levels of categorical columns have no distance. Use columns of numbers alone."
        )
    value = dataset["value"].transpose("obs", "feature")
    mean = dataset[f"{name}_mean"].transpose("obs", "feature", ...)
    # Where a sparse Z has no entry, its value is 0, and so is the contribution.
    value, mean = value.fillna(0.0), mean.where(value.notnull(), 0.0)
    if radius is None and within is None:
        sd = value.std("obs")
        x = (value / sd.where(sd > 0, 1.0)).values
        e = (mean * (sd if name in PER_VALUE else 1.0)).values
        apart, which = KDTree(x).query(x, min(neighbours + 1, len(x)))
        pairs = np.stack([np.repeat(np.arange(len(x)), which.shape[1]), which.ravel()])
        apart = apart.ravel()
    else:
        x, spread = value.values, mean.std("obs")
        e = (mean / spread.where(spread > 0, 1.0)).values
        pairs = _in_ball(x if within is None else within, radius, len(x))
        apart = np.linalg.norm(x[pairs[0]] - x[pairs[1]], axis=1)
    pairs, apart = pairs[:, apart > 0], apart[apart > 0]
    change = np.linalg.norm(e[pairs[0]] - e[pairs[1]], axis=1)
    largest = np.full((len(x), *change.shape[1:]), np.nan)
    np.fmax.at(largest, pairs[0], (change.T / apart).T)
    kept = mean.isel(feature=0, drop=True)
    return kept.copy(data=largest).rename("stability")


def _in_ball(within: Table, radius: float | None, n: int) -> np.ndarray:
    """Ordered pairs of rows closer than the radius, (2, pairs)."""
    coordinates = np.asarray(within, dtype=float)
    if radius is None:
        raise ValueError("within was given without a radius. Pass both.")
    if not radius > 0:
        raise ValueError(f"radius is {radius}. Pass a positive number.")
    if coordinates.ndim != 2 or len(coordinates) != n or not np.isfinite(coordinates).all():
        raise ValueError(
            f"within has shape {coordinates.shape}. Pass finite coordinates of the dataset's {n} "
            "observations, (obs, m)."
        )
    close = KDTree(coordinates).query_pairs(radius * coordinates.shape[1], output_type="ndarray")
    return np.concatenate([close, close[:, ::-1]]).T


def faithfulness(
    model: Model,
    idata: Draws,
    dataset: xr.Dataset,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    num_draws: int | None = None,
    progressbar: bool = True,
) -> xr.DataArray:
    """Check that predictions change as explained if a feature is removed.

    The result is the correlation, over features, between the explanation of a row and the change of
    its mean response if the feature alone is set to its reference: the baseline of attributions, or
    the center of contributions. It is 1 for additive models. Interactions lower it, because
    removing a feature removes all interactions with it.

    Parameters
    ----------
    model, idata
        The explained model and its fit.
    dataset : xarray.Dataset
        Attributions, or contributions, of all features.
    X_new, Z_new : frame or array, optional
        The rows that were explained; None for the training rows. Predictions are those for new rows
        with these values: in a GPX they exclude the deviations of the training rows.
    groups_new : array (m,), optional
        Groups of the rows, for models with groups.
    num_draws : int, optional
        Thin the posterior to this many draws.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.DataArray
        (obs), or (obs, class), between -1 and 1; NaN if the explanation or the change is equal for
        all features.

    Raises
    ------
    ValueError
        For another dataset, other features than the model's, several baselines, categorical
        columns, and rows that differ from the dataset's. Also for probabilities or rates of a GPX,
        because attributions describe its smooth part and predictions do not.

    References
    ----------
    Alvarez-Melis and Jaakkola, "Towards robust interpretability with self-explaining neural
    networks" (2018), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(40, 3))
    >>> model = bx.GP(X, X @ [1.0, 2.0, 3.0], kernel="linear", scale=False)
    >>> theta = {"amplitude": 3.0, "sigma": 0.1}
    >>> options = {"keep": "summary", "progressbar": False}
    >>> found = bx.attributions(model, theta, baseline="zero", **options)
    >>> found = bx.metrics.faithfulness(model, theta, found, progressbar=False)
    >>> round(float(found.min()), 6)
    1.0
    """
    refuse_swapped(model, idata)
    model.training.refuse_all_outputs()
    without = Without(model, idata, dataset, X_new, Z_new, groups_new, num_draws, progressbar)
    p = len(without.features)
    found = without(np.vstack([np.ones((1, p), bool), ~np.eye(p, dtype=bool)])[:, None])
    drops = found.isel(variant=0) - found.isel(variant=slice(1, None))
    drops = drops.rename(variant="feature").assign_coords(feature=without.features)
    return xr.corr(without.mean, drops, "feature").rename("faithfulness")


def sufficiency(
    model: Model,
    idata: Draws,
    dataset: xr.Dataset,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    kept: int | Sequence[int] | None = None,
    num_draws: int | None = None,
    progressbar: bool = True,
) -> xr.DataArray:
    """Measure how well the most important features reproduce predictions.

    The result is ``f(x) - f(x with the others at the baseline)`` of the mean response. If the
    explanation names the features that matter, it is close to 0 for few features already.

    Parameters
    ----------
    model, idata, dataset, X_new, Z_new, groups_new, num_draws, progressbar
        See `faithfulness`.
    kept : int or list of int, optional
        Number of features to keep, with the largest absolute means; all numbers from 0 by default.

    Returns
    -------
    xarray.DataArray
        (kept, obs), or (kept, obs, class), in units of the explanation. With several classes,
        features are selected by the explanation of each class.

    Raises
    ------
    ValueError
        As in `faithfulness`; also for an invalid or repeated `kept`.

    References
    ----------
    DeYoung et al., "ERASER: a benchmark to evaluate rationalized NLP models" (2020), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(40, 3))
    >>> model = bx.GP(X, X @ [1.0, 0.0, 3.0], kernel="linear", scale=False)
    >>> theta = {"amplitude": 3.0, "sigma": 0.01}
    >>> options = {"keep": "summary", "progressbar": False}
    >>> found = bx.attributions(model, theta, baseline="zero", **options)
    >>> lost = bx.metrics.sufficiency(model, theta, found, kept=[0, 2], progressbar=False)
    >>> abs(lost).mean("obs").values.round(1)  # one of the three has no effect
    array([2.1, 0. ])
    """
    refuse_swapped(model, idata)
    model.training.refuse_all_outputs()
    without = Without(model, idata, dataset, X_new, Z_new, groups_new, num_draws, progressbar)
    p = len(without.features)
    kept = np.arange(p + 1).tolist() if kept is None else np.ravel(kept).tolist()
    for k in kept:
        count("kept", k, 0)
    if not kept or max(kept) > p or len(set(kept)) < len(kept):
        raise ValueError(f"kept is {kept}. Pass different numbers of features, at most {p}.")
    mean = without.mean.transpose("class", "obs", "feature", missing_dims="ignore")
    place = np.argsort(np.argsort(-abs(mean.values), axis=-1), axis=-1)  # 0 for the largest
    present = np.reshape([place < k for k in [p, *kept]], (-1, *place.shape[-2:]))
    found = without(present)
    if "class" in mean.dims:  # each class's response, with the features that are kept for it
        several = range(mean.sizes["class"])
        each = [found.isel({"class": c, "variant": slice(c, None, len(several))}) for c in several]
        found = xr.concat(each, mean["class"])
    lost = found.isel(variant=0) - found.isel(variant=slice(1, None))
    lost = lost.rename(variant="kept").assign_coords(kept=kept)
    return lost.transpose("kept", "obs", ...).rename("sufficiency")
