"""Slopes: derivatives with probabilities of their sign, and along a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import By, by_rows
from bayes_gpx.draws.evaluate import LARGEST_JOINT, evaluate
from bayes_gpx.draws.intervals import BOUNDS, interval_of, interval_probability
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.points import Points, at_other_x, points, points_to_explain, read_baseline
from bayes_gpx.explain.answered import Of, chosen, documented, has_outputs, of_each_output, of_views
from bayes_gpx.explain.derivatives import numbers_among, slopes_of_f
from bayes_gpx.numerics.quadrature import rule
from bayes_gpx.numerics.threads import on_cores

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


@recorded
@documented
@of_views
@on_cores
def slopes(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    by: By = None,
    rope: tuple[float, float] | dict[str, tuple[float, float]] | None = None,
    ci_prob: float | None = None,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    on: Literal["response", "latent"] = "response",
    of: Of = "value",
    at: float | str | Sequence[float | str] | None = None,
    path: str | PathLike | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Average the slopes of f over rows, with probabilities of their sign.

    Use `slopes` to see where an effect is steep, flat or reversed, and `derivatives` for the
    derivatives alone. Signs and simultaneous bands come from joint draws over rows. Time grows with
    the cube of rows times features, which is limited. Reduce it with `features` and `obs`.
    If averages are enough, `derivatives` with ``by=True`` takes a small part of the time.

    Parameters
    ----------
    model, idata, X_new, Z_new, groups_new, obs
        As in `derivatives`.
    by : True, str, list of str, series or frame, optional
        Average within groups of rows, as in `derivatives`; over all rows by default.
    rope : tuple (low, high) or dict of feature to (low, high), optional
        Region of practical equivalence: slopes that count as zero, in units of y per unit of the
        feature, including both ends. A dict needs a region for each explained feature.
    ci_prob : float, optional
        Probability of the bands; 90% by default.

    Returns
    -------
    xarray.Dataset
        =================================  ==============================  ===========
        variable                           dims                            unit
        =================================  ==============================  ===========
        `average_slope`                    chain, draw, [by,] feature      y per x
        `average_slope_mean`, `_sd`        [by,] feature                   y per x
        `average_slope_interval`           [by,] feature, ci_bound         y per x
        `average_slope_cov`                [by,] feature, and again        squared
        `probability_positive`             [by,] feature                   probability
        `probability_in_rope`, `rope`      [by,] feature; and ci_bound     as said
        `derivative_mean`, `_sd`           obs, feature                    y per x
        `derivative_probability_positive`  obs, feature                    probability
        `band_pointwise`                   obs, feature, ci_bound          y per x
        `band_simultaneous`                obs, feature, ci_bound          y per x
        `band_simultaneous_features`       obs, feature, ci_bound          y per x
        `value`                            obs, feature                    x
        =================================  ==============================  ===========

        `average_slope` is the mean over rows, or the sum by the weights in a frame `by`. Moments
        and the interval are exact for f, and those of the draws for probabilities and rates. With
        probability `ci_prob`, `band_pointwise` contains the derivative at a row,
        `band_simultaneous` all derivatives in a feature, and `band_simultaneous_features` all
        derivatives at a row. The guide page on slopes explains the bands.

    Raises
    ------
    ValueError
        As in `derivatives`; also for a `rope` without a valid region for each feature, a `ci_prob`
        that is not between 0 and 1, and more rows than can be drawn jointly.

    Warns
    -----
    ExtrapolationWarning
        If new rows leave the training data.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> options = {"draws": 200, "seed": 1, "progressbar": False}
    >>> found = bx.slopes(model, theta, [[0.5], [1.0]], rope=(-0.1, 0.1), **options)
    >>> round(found["average_slope_mean"].item(), 2)  # (cos(0.5) + cos(1)) / 2
    0.71
    >>> found["probability_in_rope"].item()
    0.0
    """
    if has_outputs(model, idata):
        return of_each_output(slopes, locals())
    options = chosen(locals())
    prob = interval_probability(ci_prob)
    training = model.training
    shown = numbers_among(training.X, features) or training.X.columns
    regions = None if rope is None else _regions(rope, shown)
    where = points_to_explain(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    options |= {"joint": True, "keep": "draws", "ci_prob": prob}
    found = slopes_of_f(model, idata, where, **options)
    slope = found["derivative"]
    samples = ["chain", "draw"]
    groups = by_rows(model, where, True if by is None else by)
    averages = _averages(model, idata, groups, found, **options)
    if by is None:
        averages = averages.isel(by=0, by_bis=0, drop=True, missing_dims="ignore")
    average = averages["average_slope"]
    signs = {
        "probability_positive": (average > 0).mean(samples),
        "derivative_probability_positive": (slope > 0).mean(samples),
    }
    result = found.drop_vars("derivative").assign(averages).assign(signs | _bands(found, prob))
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
    moves = "Z" in where.inputs and (training.sparse or np.ptp(where.inputs["Z"], axis=0).any())
    held = training.tied or not moves
    if len(varying) == 1 and held:
        result.attrs["along"] = training.X.columns[varying[0]]
    return result


AVERAGED = {
    f"derivative{part}": f"average_slope{part}"
    for part in ("", "_mean", "_sd", "_interval", "_cov")
}
"""Names of averages, by the names of what is averaged."""


def _averages(
    model: Model,
    idata: Draws,
    groups: Points,
    found: xr.Dataset,
    *,
    on: str = "response",
    joint: bool = True,
    path: str | PathLike | None = None,
    **options: Any,
) -> xr.Dataset:
    """Average slopes of groups: exact where they are linear in f, else from the draws at rows."""
    question = questions.derivative(model)
    if not questions.is_nonlinear(model, question, on):
        options["features"] = list(found["feature"].values)
        each = evaluate(model, idata, question, groups, on=on, **options)
    else:
        weights = xr.DataArray(groups.by.values, {"by": groups.by.labels}, ["by", "obs"])
        own = ["derivative", "derivative_mean"]
        each = xr.Dataset({name: xr.dot(found[name], weights, dim="obs") for name in own})
        each["derivative_sd"] = each["derivative"].std(["chain", "draw"])
        each["derivative_interval"] = interval_of(each, "derivative", options["ci_prob"])
    known = {name: new for name, new in AVERAGED.items() if name in each}
    order = ["chain", "draw", "by", "feature", "by_bis", "feature_bis", "class", "ci_bound"]
    return each[list(known)].rename(known).transpose(*order, missing_dims="ignore")


@recorded
@documented
@on_cores
def path_slopes(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    baseline: str | Table = "mean",
    steps: int = 40,
    ci_prob: float | None = None,
    draws: int = 1000,
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    on: Literal["response", "latent"] = "response",
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Follow the slopes of f along the path from a baseline to one row.

    Use it to see the derivatives that `attributions` integrates: the attribution of a feature is
    the area under its derivative along the straight path, times the change of the feature.

    Parameters
    ----------
    model, idata, X_new, Z_new, groups_new
        As in `derivatives`. If Z was given, z is fixed along the path.
    obs : label
        The row at the end of the path; required if there are several rows.
    baseline : {"mean", "median", "zero"}, array (d,) or frame row
        Start of the path, in user units.
    steps : int
        Number of steps, even; the path has one more point than steps.
    ci_prob : float, optional
        Probability of the bands; 90% by default.

    Returns
    -------
    xarray.Dataset
        =================================  ==============================  ===========
        variable                           dims                            unit
        =================================  ==============================  ===========
        `derivative_mean`, `_sd`           obs, feature                    y per x
        `derivative_probability_positive`  obs, feature                    probability
        `band_pointwise`                   obs, feature, ci_bound          y per x
        `band_simultaneous`                obs, feature, ci_bound          y per x
        `value`                            obs, feature                    x
        `baseline`, `way`                  feature                         x
        `attribution`                      chain, draw, feature            y
        `attribution_mean`, `_sd`          feature                         y
        =================================  ==============================  ===========

        `obs` labels places on the path from 0, the baseline, to 1, the row. Bands are those of
        `slopes`. `way` is the change from the baseline to the row. Attributions are integrated by
        Simpson's rule, and their sd is the sd of the draws. The attribute `explains` is the label
        of the row, as text.

    Raises
    ------
    ValueError
        As in `derivatives`; also for more than one row or baseline, an odd number of steps, a
        `ci_prob` that is not between 0 and 1, and more places than can be drawn jointly.

    References
    ----------
    Butler, Feng and Djuric, "Explainable learning with Gaussian processes" (2024), Figure 1.
    """
    if has_outputs(model, idata):
        return of_each_output(path_slopes, locals())
    options = chosen(locals())
    prob, (t, w) = interval_probability(ci_prob), rule("simpson", steps)
    where, training = points(model, X_new, Z_new, groups_new=groups_new, obs=obs), model.training
    if len(where.X) != 1:
        raise ValueError(
            f"There are {len(where.X)} observations, but the path ends at one. Pass its label as "
            f"obs=, such as {where.index[0]}."
        )
    if len(t) * training.d > LARGEST_JOINT:
        raise ValueError(
            f"steps is {steps} for {training.d} features. Pass at most "
            f"{LARGEST_JOINT // training.d - 1}, which can be drawn jointly."
        )
    start = read_baseline(model, baseline)
    if start.ndim > 1:
        raise ValueError(f"baseline has {len(start)} rows. Pass one, where the path starts.")
    way = where.X_values[0] - start
    path = at_other_x(model, where, start + t[:, None] * way, np.zeros(len(t), int))
    along = replace(path, index=t)
    options |= {"joint": True, "keep": "draws", "ci_prob": prob}
    found = slopes_of_f(model, idata, along, **options)
    slope, samples, bands = found["derivative"], ["chain", "draw"], _bands(found, prob)
    moved = xr.DataArray(way, {"feature": list(training.X.columns)}, ["feature"])
    moved = moved.sel(feature=found["feature"])
    shares = moved * xr.DataArray(w, {"obs": found["obs"]}, ["obs"])
    attribution = (slope * shares).sum("obs")
    result = found.drop_vars("derivative").assign(
        derivative_probability_positive=(slope > 0).mean(samples),
        band_pointwise=bands["band_pointwise"],
        band_simultaneous=bands["band_simultaneous"],
        baseline=found["value"].isel(obs=0, drop=True),
        way=moved,
        attribution=attribution,
        attribution_mean=(found["derivative_mean"] * shares).sum("obs"),
        attribution_sd=attribution.std(samples),
    )
    name = baseline if isinstance(baseline, str) else "given"
    result.attrs |= {"ci_prob": prob, "baseline": name, "explains": str(where.index[0])}
    return result


def _bands(found: xr.Dataset, prob: float) -> dict[str, xr.DataArray]:
    """Bands by name, as in `slopes`; of several classes, for each by itself."""
    draws, mean, sd = (found[f"derivative{part}"] for part in ("", "_mean", "_sd"))
    if "class" in mean.dims:
        each = [_bands(found.isel({"class": c}), prob) for c in range(mean.sizes["class"])]
        return {name: xr.concat([bands[name] for bands in each], mean["class"]) for name in BANDS}
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
    bands = {name: mean + bounds * (sd * factor) for name, factor in factors.items()}
    if "derivative_interval" in found:
        bands["band_pointwise"] = found["derivative_interval"]
    return bands


def _regions(rope: Any, features: Sequence[str]) -> np.ndarray:
    """Array (feature, 2) of lower and upper ends."""
    regions = rope if isinstance(rope, dict) else dict.fromkeys(features, rope)
    if set(regions) != set(features):
        raise ValueError(
            f"rope names {list(regions)}. Pass a region for each of {list(features)}, or pick some "
            "of these with features=."
        )
    try:
        ends = np.array([regions[feature] for feature in features], dtype=float)
    except (TypeError, ValueError):
        ends = np.empty(0)
    if ends.shape != (len(features), 2) or not (ends[:, 0] <= ends[:, 1]).all():
        raise ValueError(
            f"rope is {rope!r}. Pass (low, high) with low <= high, or a dict from each feature to "
            "such a pair."
        )
    return ends


BANDS = ("band_pointwise", "band_simultaneous", "band_simultaneous_features")
"""Variables that hold bands: of each number, of all observations, of all features at one."""
