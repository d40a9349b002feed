"""Partial dependence: the function along one feature, averaged over all others as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.intervals import BOUNDS, interval_probability
from bayes_gpx.draws.level_moves import at_levels
from bayes_gpx.draws.naming import origin
from bayes_gpx.draws.points import at_other_x, points
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.random_functions import draw_functions, or_else, values
from bayes_gpx.draws.scales import response_units
from bayes_gpx.explain.answered import has_outputs, of_each_output
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


FEW_VALUES = 10
"""Most values of a column of numbers that are its places, if each stands for two rows or more."""


def partial_dependence(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    features: Sequence[str] | None = None,
    steps: int = 20,
    on: Literal["response", "latent"] = "response",
    ci_prob: float | None = None,
    keep: Literal["draws", "summary"] = "summary",
    draws: int = 100,
    num_draws: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Average predictions along each feature, over the values of all others.

    Use it for curves: for each row (ICE), and averaged over rows. If the curves of the rows are not
    parallel, the feature interacts with others. Curves are computed for random functions of the
    posterior. The band shows the uncertainty of the average, not the variation between rows.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, z' g(x) is averaged. If Z was given, z is fixed.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array, optional
        Rows to average over; None for the training rows.
    groups_new : series or array (m,), optional
        Groups of the new rows, for models with groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these rows.
    features : list of str, optional
        Only these features.
    steps : int
        Number of places along each feature, evenly spaced from its smallest to its largest value
        among these rows. A categorical column has its levels, and a column of numbers with up to
        ten values that repeat has these values.
    on : {"response", "latent"}
        For classes and counts: average the probability or rate S(f), or f.
    ci_prob : float, optional
        Probability of the bands; 90% by default.
    keep : {"summary", "draws"}
        "draws" keeps the curve of every row for every draw, not only its mean.
    draws : int
        Number of functions if there is a single hyperparameter draw. Otherwise each hyperparameter
        draw gives one.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    seed : int, optional
        Seed of the functions.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.Dataset
        ==================================  ================================  =========
        variable                            dims                              unit
        ==================================  ================================  =========
        `partial_dependence`                chain, draw, feature, step        f or S(f)
        `partial_dependence_mean`, `_sd`    feature, step                     f or S(f)
        `partial_dependence_band`           feature, step, ci_bound           f or S(f)
        `ice_mean`                          obs, feature, step                f or S(f)
        `ice` (``keep="draws"``)            chain, draw, obs, feature, step   f or S(f)
        `value`                             feature, step                     x
        ==================================  ================================  =========

        The band is pointwise with equal tails. Several classes add a last dim `class` (before
        `ci_bound`). For a categorical column, `value` is the position of a level and the coordinate
        `level` (feature, step) is its name; steps that a feature does not have are NaN.

    Raises
    ------
    ValueError
        For unknown features or `on`, fewer than two steps, kernels without random functions, and
        rows or idata that do not fit the model.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine" (2001), section 8.2;
    Goldstein, Kapelner, Bleich and Pitkin, "Peeking inside the black box" (2015), for ICE.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> options = {"steps": 3, "draws": 20, "seed": 1, "progressbar": False}
    >>> bx.partial_dependence(model, theta, **options)["partial_dependence_mean"].dims
    ('feature', 'step')
    """
    if has_outputs(model, idata):
        return of_each_output(partial_dependence, locals())
    on_response = responds(model, on)
    prob = interval_probability(ci_prob)
    one_of("keep", keep, ("summary", "draws"))
    count("steps", steps, 2)
    frame = model.training.X
    names = list(frame.sources) if features is None else list(features)
    for name in names:
        one_of("features", name, frame.sources)
    where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    with or_else("Curves of partial dependence", "or use bx.comparisons with on='latent'"):
        functions = draw_functions(
            model,
            idata,
            draws=draws,
            num_draws=num_draws,
            waves=WAVES,
            seed=seed,
            progressbar=progressbar,
        )
    curves, averages, places = [], [], []
    along = [_along(model, where, name, steps) for name in names]
    length = max(len(place) for place, _ in along)
    for place, moved in along:
        places.append(_filled(place, 0, length))
        f = values(functions, moved, on, progressbar=progressbar)
        f = f.reshape((*functions.shape, len(place), len(where.X), *f.shape[3:])).swapaxes(2, 3)
        f = _filled(f, 3, length)
        averages.append(f.mean(axis=2))
        curves.append(f if keep == "draws" else f.mean(axis=(0, 1)))
    several = model.specification.classes is not None
    average, dims = np.stack(averages, axis=2), ("feature", "step", "class")[: 2 + several]
    tails = np.quantile(average, [0.5 - prob / 2, 0.5 + prob / 2], axis=(0, 1))
    variables = {
        "partial_dependence": (("chain", "draw", *dims), average),
        "partial_dependence_mean": (dims, average.mean(axis=(0, 1))),
        "partial_dependence_sd": (dims, average.std(axis=(0, 1))),
        "partial_dependence_band": ((*dims, "ci_bound"), np.moveaxis(tails, 0, -1)),
        "value": (("feature", "step"), np.stack(places)),
    }
    if keep == "draws":
        ice = np.stack(curves, axis=3)
        variables["ice"] = ("chain", "draw", "obs", *dims), ice
        curves = list(np.moveaxis(ice.mean(axis=(0, 1)), 1, 0))
    variables["ice_mean"] = ("obs", *dims), np.stack(curves, axis=1)
    hyper = functions.hyper
    coords: dict[str, Any] = {
        "chain": hyper.chain,
        "draw": np.arange(functions.each) if hyper.alone else hyper.draw,
        "obs": where.index,
        "feature": names,
        "step": np.arange(length),
        "ci_bound": BOUNDS,
    }
    if frame.levels:
        own = [list(frame.levels.get(name, ())) for name in names]
        level = [levels + [""] * (length - len(levels)) for levels in own]
        coords["level"] = ("feature", "step"), level
    if several:
        coords["class"] = list(model.training.labels)
    units = response_units(model) if on_response else questions.latent_units(model)
    attrs = {"units": units, "ci_prob": prob}
    return xr.Dataset(variables, coords, origin(model) | attrs)


def _along(model, where, name, steps):
    """Places of a feature, and the samples at each of them, one place after the other."""
    if name in model.training.X.levels:
        return np.arange(len(model.training.X.levels[name])), at_levels(model, where, [name])
    j, m = model.training.X.columns.index(name), len(where.X)
    place = np.unique(where.X_values[:, j])
    if len(place) > FEW_VALUES or 2 * len(place) > m:
        place = np.linspace(place[0], place[-1], steps)
    X = np.tile(where.X_values, (len(place), 1))
    X[:, j] = np.repeat(place, m)
    return place, at_other_x(model, where, X, np.tile(np.arange(m), len(place)))


def _filled(values, axis, length):
    """The same with NaN added along an axis, up to a length."""
    added = [(0, 0)] * values.ndim
    added[axis] = 0, length - values.shape[axis]
    return np.pad(values.astype(float), added, constant_values=np.nan)
