"""Shapley values: what each feature adds to f(x) - f(baseline), on average over all orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import quantities
from bayes_gpx.draws.evaluate import explain
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.points import from_baseline, points_to_explain
from bayes_gpx.draws.response_scale import bends
from bayes_gpx.explain.attributions import MOST_BASELINES, apart, refuse_joint, warn_if_incomplete
from bayes_gpx.explain.by_output import by_output
from bayes_gpx.explain.in_parts import in_parts
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


@in_parts
@by_output
def shapley_values(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    baseline: str | Table | Mapping[str, Table] = "mean",
    method: Literal["exact"] = "exact",
    groups_new: Column | None = None,
    obs: Labels | None = None,
    **options: Any,
) -> xr.Dataset:
    """Posterior of the Shapley value of each feature in f(x) - f(baseline).

    Features are moved from the baseline to x one after the other; the Shapley value is what a
    feature changes when its turn comes, on average over all orders. Features whose turn is still to
    come are at the baseline [1]_. It is linear in f, so that Shapley values of a Gaussian process
    are Gaussian for every draw of the hyperparameters, with moments in closed form: exact, and in
    polynomial time, for kernels that are products over features.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, the smooth part z' g(x) is explained. The features are those of X; z is held fixed
        if Z was given, and moves with x otherwise.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New samples; None for the training samples.
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), frame or its row, or dict of these
        Values of the features that have not moved, in user units, as in `attributions`. Of several
        rows, at most 20, the average: interventional Shapley values.
    method : {"exact"}
        All orders of the features; there is no other method yet.
    groups_new : series or array (m,), optional
        The groups of new samples, where the model has groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these observations.
    **options
        draws, num_draws, features, covariance, joint, keep, on, path, executor, seed, progressbar:
        see `bayes_gpx.draws.evaluate.explain`.

    Returns
    -------
    xarray.Dataset
        As of `attributions`: `attribution` (chain, draw, obs, feature), `attribution_mean`,
        `attribution_sd`, `attribution_cov` with ``covariance=True``, `difference`, `value`,
        `baseline` and residuals, in units of y; ``attrs["method"]`` is "shapley". A categorical
        column is one feature.

    Raises
    ------
    ValueError
        For the response of labels and counts, which is not linear in f: pass ``on="latent"``; for
        more than 20 baselines; for what `attributions` refuses; and for more than 7 features with a
        kernel that is no sum of products over features, such as a Matern kernel of several columns
        or `Additive`, or more than 10 with `HSGP` and `RandomFeatures`, since all coalitions are
        gone through there.

    Warns
    -----
    ExtrapolationWarning
        If new samples leave the training data.
    CompletenessWarning
        If Shapley values do not add up to the difference.

    Notes
    -----
    For a product kernel, features contribute a polynomial in the probability that each of them has
    moved, whose integral a Gauss-Legendre rule with half as many nodes as features gives exactly
    [2]_. Time grows with the cube of the number of features, and for their covariances with its
    fourth power.

    Points that mix x and the baseline may lie far from all data: where features are correlated, f
    is uncertain there, and so are Shapley values.

    References
    ----------
    .. [1] Shapley, "A value for n-person games" (1953); Sundararajan and Najmi, "The many Shapley
       values for model explanation" (2020), whose baseline Shapley values these are.
    .. [2] Owen, "Multilinear extensions of games" (1972).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> options = {"baseline": "zero", "keep": "summary", "progressbar": False}
    >>> found = bx.shapley_values(model, theta, [[1.0, 1.0]], **options)
    >>> found["attribution_mean"].values.round(1)  # of x0 x1 + x0: a half of the product each
    array([[1.5, 0.5]])
    """
    refuse_swapped(model, idata)
    one_of("method", method, ("exact",))
    where = points_to_explain(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    if isinstance(baseline, Mapping):
        return apart(model, idata, where, baseline, _explained, **options)
    where = from_baseline(model, where, baseline)
    name = baseline if isinstance(baseline, str) else "given"
    return _explained(model, idata, where, name, **options)


def _explained(model, idata, where, name, **options):
    refuse_joint(where, options)
    quantity, on = quantities.shapley_value(model, name), options.get("on", "response")
    if bends(model, quantity, on):
        raise ValueError(
            f"likelihood={model.specification.likelihood!r}: Shapley values are known of f, which "
            "its response is not linear in; expected on='latent'."
        )
    count = len(np.atleast_2d(where.baseline))
    if count > MOST_BASELINES:
        raise ValueError(
            f"baseline has {count} rows; expected at most {MOST_BASELINES}. Pass a random subset "
            "of the rows, or the centres of that many clusters."
        )
    found = explain(model, idata, quantity, where, **options)
    warn_if_incomplete(model, found, on)
    return found
