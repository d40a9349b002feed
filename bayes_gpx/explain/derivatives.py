"""Derivatives: how the function changes with each feature, point by point and as a whole."""

from numbers import Real

import numpy as np
import xarray as xr
from arviz_base import rcParams

from bayes_gpx import questions
from bayes_gpx.arguments import points
from bayes_gpx.draws import explain


def derivatives(model, idata, X_new=None, Z_new=None, *, obs=None, order=1, **options):
    """Posterior of the derivatives of f in each feature, or pair of features, at each observation.

    Parameters
    ----------
    model : GP or GPX
        In a GPX the derivative is that of the smooth part z' g(x): in X's features with z held
        where Z was given, else with z = x changing too.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples; None for the training samples.
    obs : label or list of labels, optional
        Only these observations.
    order : {1, 2}
        First derivatives, or second ones.
    **options
        draws, num_draws, features, covariance, joint, keep, path, seed, progressbar: see
        `bayes_gpx.draws.explain`.

    Returns
    -------
    xarray.Dataset
        `derivative` (chain, draw, obs, feature), `derivative_mean`, `derivative_sd`
        (obs, feature), `derivative_cov` (obs, feature, feature_bis) with ``covariance=True``;
        `value`. In units of y per unit of x.

        With ``order=2``: `second_derivative` (chain, draw, obs, feature, feature_bis), symmetric in
        both features, `second_derivative_mean`, `second_derivative_sd` (obs, feature, feature_bis);
        `value`. In units of y per unit of x of either feature.

    Raises
    ------
    ValueError
        If the kernel's process is not differentiable as often (once: a Matern 3/2 or smoother,
        twice: a Matern 5/2 or smoother), for ``covariance=True`` with ``order=2``, or if samples or
        idata do not fit the model.

    References
    ----------
    Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), equations 9 to 12.
    """
    quantity = questions.derivative(model, order)
    if order == 2 and options.get("covariance"):
        raise ValueError(
            "covariance=True is for order=1; with order=2, take the covariance of the draws of "
            "those second derivatives that are wanted."
        )
    return explain(model, idata, quantity, points(model, X_new, Z_new, obs=obs), **options)


def slopes(model, idata, X_new=None, Z_new=None, *, obs=None, rope=None, ci_prob=None, **options):
    """Summaries of the derivatives of f: average slopes, their signs, and bands over observations.

    All are taken from joint draws over the observations, so that with few draws they are rough. For
    each draw of the hyperparameters the time grows with the cube of the number of observations
    times explained features, which is bounded: `features`, `obs` and `num_draws` make it less.

    Parameters
    ----------
    model, idata, X_new, Z_new, obs
        As in `derivatives`.
    rope : tuple (low, high) or dict of feature to (low, high), optional
        Region of practical equivalence: slopes that count as none, in units of y per unit of the
        feature, ends included. A dict names a region for each explained feature.
    ci_prob : float, optional
        Probability of the bands; ArviZ's ``stats.ci_prob`` by default.
    **options
        draws, num_draws, features, covariance, path, seed, progressbar: see
        `bayes_gpx.draws.explain`.

    Returns
    -------
    xarray.Dataset
        `average_slope` (chain, draw, feature), the mean over observations of each draw, with
        `average_slope_mean` (exact), `average_slope_sd` (of the draws) and `probability_positive`
        (feature); `probability_in_rope` (feature) and `rope` (feature, ci_bound) if `rope` is
        given; `derivative_mean`, `derivative_sd` (exact) and `derivative_probability_positive`
        (obs, feature); `band_pointwise`, `band_simultaneous` and `band_simultaneous_features`
        (obs, feature, ci_bound); `value`. In units of y per unit of x. The attribute `along` names
        the feature that varies alone over the observations, if there is one.

    Raises
    ------
    ValueError
        As `derivatives`; also for a `rope` that is no region for each feature, a `ci_prob` that is
        not between 0 and 1, and more observations than can be drawn jointly.

    Notes
    -----
    All bands are the mean and `c` standard deviations to either side. With the standardised
    deviation ``abs(derivative - derivative_mean) / derivative_sd``, `c` is the `ci_prob` quantile
    over draws

    - pointwise: of the deviation at that observation, which then lies in its interval with
      probability `ci_prob`;
    - simultaneous: of the largest deviation over all observations, one `c` for each feature. The
      feature's derivatives at all these observations lie in the band together with probability
      `ci_prob`. It says nothing about places between observations, nor of two features at once;
    - simultaneous over features: of the largest deviation over the explained features, one `c` for
      each observation. All derivatives at this observation lie in the band together with
      probability `ci_prob`. It says nothing of two observations at once.
    """
    prob = rcParams["stats.ci_prob"] if ci_prob is None else ci_prob
    if not (isinstance(prob, Real) and 0 < prob < 1):
        raise ValueError(f"ci_prob is {prob!r}; expected a probability between 0 and 1.")
    training = model.training
    features = options.get("features")
    regions = None if rope is None else _regions(rope, features or training.X.columns)
    where = points(model, X_new, Z_new, obs=obs)
    quantity = questions.derivative(model)
    found = explain(model, idata, quantity, where, joint=True, keep="draws", **options)
    draws = found["derivative"]
    average = draws.mean("obs")
    samples = ["chain", "draw"]
    result = found.drop_vars("derivative").assign(
        average_slope=average,
        average_slope_mean=found["derivative_mean"].mean("obs"),
        average_slope_sd=average.std(samples),
        probability_positive=(average > 0).mean(samples),
        derivative_probability_positive=(draws > 0).mean(samples),
        **_bands(draws, found["derivative_mean"], found["derivative_sd"], prob),
    )
    if regions is not None:
        region = xr.DataArray(
            regions, {"feature": found["feature"], "ci_bound": BOUNDS}, ("feature", "ci_bound")
        )
        inside = (average >= region.sel(ci_bound="lower", drop=True)) & (
            average <= region.sel(ci_bound="upper", drop=True)
        )
        result = result.assign(probability_in_rope=inside.mean(samples), rope=region)
    result.attrs["ci_prob"] = prob
    varying = np.flatnonzero(np.ptp(where.X_values, axis=0))
    held = training.tied or where.Z is None or not np.ptp(where.Z, axis=0).any()
    if len(varying) == 1 and held:
        result.attrs["along"] = training.X.columns[varying[0]]
    return result


def _bands(draws, mean, sd, prob):
    factors = {name: np.empty(mean.shape) for name in BANDS}
    largest = 0.0
    for j in range(mean.sizes["feature"]):
        center, scale = mean.values[:, j], sd.values[:, j]
        deviation = np.abs(draws[..., j].values.reshape((-1, len(center))) - center)
        deviation = np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)
        factors["band_pointwise"][:, j] = np.quantile(deviation, prob, axis=0)
        factors["band_simultaneous"][:, j] = np.quantile(deviation.max(axis=1), prob)
        largest = np.maximum(largest, deviation)
    factors["band_simultaneous_features"][:] = np.quantile(largest, prob, axis=0)[:, None]
    bounds = xr.DataArray([-1.0, 1.0], {"ci_bound": BOUNDS}, ["ci_bound"])
    return {name: mean + bounds * (sd * factor) for name, factor in factors.items()}


def _regions(rope, features):
    """Array (feature, 2) of lower and upper ends."""
    regions = rope if isinstance(rope, dict) else dict.fromkeys(features, rope)
    if set(regions) != set(features):
        raise ValueError(
            f"rope names {list(regions)}; expected a region for each of {list(features)}, or pick "
            "some of these with features=."
        )
    try:
        ends = np.array([regions[feature] for feature in features], dtype=float)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if ends.shape != (len(features), 2) or not (ends[:, 0] <= ends[:, 1]).all():
        raise ValueError(
            f"rope is {rope!r}; expected (low, high) with low <= high, or a dict from each feature "
            "to such a pair."
        )
    return ends


BANDS = ("band_pointwise", "band_simultaneous", "band_simultaneous_features")
BOUNDS = ["lower", "upper"]
