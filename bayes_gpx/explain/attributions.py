"""Attributions by integrated gradients: f(x) - f(baseline) as a sum over features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.answers import of_each_draw
from bayes_gpx.draws.averages import By
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.naming import origin, recorded, units_of, values_by_source
from bayes_gpx.draws.points import Points, from_baseline
from bayes_gpx.draws.questions import is_nonlinear
from bayes_gpx.draws.random_functions import by_draws, or_else
from bayes_gpx.draws.scales import Latent, Response, log_variance
from bayes_gpx.draws.views import AtRows, ByChainRule, by_chain_rule, means
from bayes_gpx.explain.answered import Of, answered, documented, of_views, side_by_side
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.processes.basis_functions import NoBasis
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model

MOST_BASELINES = 50
"""Most baselines with an exact covariance of the average; its time grows with their square."""

LARGEST_RESIDUAL = 1e-6
"""Share of the largest difference (or its variance) that quadrature may leave unexplained."""

MOST_AVERAGED = 1000
"""Most attributions, along all paths to all rows, to average with exact covariances. These take 5
seconds and 1 GB, and four times as much for twice as many."""

REFINED, MOST_POINTS = (128, 512), 3e8
"""Nodes of quadratures that are tried if "exact" leaves more, such as for a season over many
periods; and most pairs of nodes for all rows and draws, which take half a minute."""

LEAST_DIFFERENCE = 1e-4
"""Smallest difference that residuals are compared with, relative to the response's sd.

The variance of such a small difference has a relative round-off of 1e-6, because it subtracts
variances of order 1. The attributions of so short a path have no such error, so a smaller limit
would warn of a good result.
"""


class CompletenessWarning(UserWarning):
    """Attributions do not add up to the difference f(x) - f(baseline)."""


@recorded
@documented
@of_views
@on_cores
def attributions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    baseline: str | Table | Mapping[str, Table] = "mean",
    method: str = "exact",
    steps: int | None = None,
    of: Of | Literal["log_variance"] = "value",
    at: float | str | Sequence[float | str] | None = None,
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
    """Attribute predictions to features relative to a baseline.

    An attribution is a feature's change from the baseline to x, times the mean slope of f along the
    straight path between them (integrated gradients). The attributions of a row add up to
    f(x) - f(baseline). Use `shapley_values` to average over orders of the features instead, and
    `comparisons` for the effect of one change.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows; None for the training rows. If a GPX was given Z, z is fixed.
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), frame or its row, or dict of these
        Where paths start, in user units. Several rows are averaged (expected gradients). A dict has
        results for each of its baselines.
    method, steps : {"exact", "gauss_legendre", "right", "trapezoid", "simpson", "taylor"}, int
        The others than "exact" reproduce the literature; quadratures have 50 steps by default.
    of, at : {"value", "log_variance", "survival", "probability", "hazard", "quantile"} or tuple
        As in `predictions`; "log_variance" is the log of the predictive variance, and ``("weight",
        name)`` a weight as in `GPX.of_weight`.

    Returns
    -------
    xarray.Dataset
        ================================  ==============================  ===========
        variable                          dims                            unit
        ================================  ==============================  ===========
        `attribution`                     chain, draw, obs, feature       y
        `attribution_mean`, `_sd`         obs, feature                    y
        `attribution_interval`            obs, feature, ci_bound          y
        `attribution_cov`                 obs, feature, feature_bis       y squared
        `difference`, with moments        [chain, draw,] obs              y
        `value`, `baseline`               obs, feature; feature           x
        `completeness_residual`           obs                             y
        `completeness_residual_variance`  obs                             y squared
        ================================  ==============================  ===========

        Residuals are errors of the sum to `difference`, f(x) - f(baseline). Classes and counts have
        probabilities or rates and no interval, unless ``on="latent"`` or `by`.

    Raises
    ------
    ValueError
        For input that does not fit the model, a kernel without derivatives, and unsupported
        combinations; "Reading attributions correctly" in the guide lists them.

    Warns
    -----
    ExtrapolationWarning, CompletenessWarning
        If new rows leave the training data; if attributions do not add up to the difference.

    References
    ----------
    Butler, Feng and Djuric (2024); Sundararajan, Taly and Yan (2017); several baselines: Erion et
    al. (2021); classes: Seitz (2022), equations 34 and 35, corrected.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> options = {"baseline": "zero", "keep": "summary", "progressbar": False}
    >>> found = bx.attributions(model, theta, [[1.0, 1.0]], **options)
    >>> found["attribution_mean"].values.round(1)  # of x0 x1 + x0: a half of the product each
    array([[1.5, 0.5]])
    >>> found["difference_mean"].values.round(1)
    array([2.])
    """
    if by is not None and (of != "value" or method == "taylor" or isinstance(baseline, Mapping)):
        raise ValueError(
            "by is for attributions against one baseline, by method='exact' or a quadrature. "
            "Leave by out, and average the draws."
        )
    answer = partial(_answer, baseline=baseline, method=method, steps=steps, of=of)
    return answered(answer, locals())


def _answer(
    model: Model,
    idata: Draws,
    where: Points,
    *,
    baseline: Any,
    method: str,
    steps: int | None,
    of: Any,
    **options: Any,
) -> xr.Dataset:
    """Attributions against a baseline, or against each of a dict."""
    if isinstance(baseline, Mapping) and method == "taylor":
        raise ValueError(
            "method='taylor' takes one baseline, not a dict of baselines. Call attributions "
            "for each."
        )
    explained = partial(_explained, method=method, steps=steps, of=of)
    return against(model, idata, where, baseline, explained, **options)


def _explained(
    model: Model,
    idata: Draws,
    where: Points,
    name: str,
    *,
    method: str,
    steps: int | None,
    of: str,
    **options: Any,
) -> xr.Dataset:
    refuse_joint(where, options)
    if of == "log_variance":
        return _of_log_variance(model, idata, where, name, method, steps, **options)
    if method == "taylor":
        return _by_taylor(model, idata, where, name, steps, **options)
    quantity = questions.attribution(model, name, method, steps)
    on = options.get("on", "response")
    if is_nonlinear(model, quantity, on):
        _refuse_method(method, "the response")
        view = by_chain_rule(quantity, where, Response(model))
        with or_else("Attributions of the response", "or pass on='latent'"):
            found = by_draws(model, idata, view, **options)
    elif where.paths > _most_baselines(quantity, where):
        found = _averaged(model, idata, quantity, where, **options)
    else:
        found = evaluate(model, idata, quantity, where, **options)
        if method == "exact" and _missed(model, found, on):
            found = _refined(model, idata, found, where, name, **options)
    warn_if_incomplete(model, found, on)
    return found


def _refined(
    model: Model,
    idata: Draws,
    found: xr.Dataset,
    where: Points,
    name: str,
    on: str = "response",
    **options: Any,
) -> xr.Dataset:
    """Attributions by quadratures of more nodes, until they add up or would take too long."""
    draws = len(hyperparameter_draws(model, idata, options.get("num_draws")))
    pairs = len(where.X) * where.paths**2 * model.training.d**2 * draws  # of paths and features
    pairs *= len(where.X) if where.by is not None or options.get("joint") else 1
    for steps in REFINED:
        if steps**2 * pairs <= MOST_POINTS and _missed(model, found, on):
            quantity = questions.attribution(model, name, "gauss_legendre", steps)
            found = evaluate(model, idata, quantity, where, on=on, **options)
    return found


def _refuse_method(method: str, of: str) -> None:
    """Raise for a rule along paths of a nonlinear quantity; its degree is chosen automatically."""
    if method != "exact":
        raise ValueError(
            f"method is {method!r}, but the nodes on paths of {of} are as many as are needed for "
            "8 digits. Leave method and steps out."
        )


def _of_log_variance(
    model: Model,
    idata: Draws,
    where: Points,
    name: str,
    method: str,
    steps: int | None,
    on: str = "response",
    **options: Any,
) -> xr.Dataset:
    _refuse_method(method, "the log variance")
    quantity = questions.attribution(model, name, method, steps)
    view = by_chain_rule(quantity, where, log_variance(model, on))
    found = of_each_draw(model, idata, view, **options)
    warn_if_incomplete(model, found, on)
    return found


def refuse_joint(where: Points, options: Mapping) -> None:
    """Raise for joint draws of attributions that are averaged over several baselines."""
    if where.paths > 1 and options.get("joint"):
        raise ValueError(
            f"joint=True cannot average over {where.paths} baselines. Leave joint out, or pass "
            "one baseline, or a dict of them."
        )


def _spread(training: TrainingData, on: str) -> float:
    """Order of the response's variation, never 0; it is 1 for latent values on a link."""
    per_unit = training.f_scaling.scale / training.y_scaling.scale
    if not training.scales_y and (on == "latent" or training.weight is not None):
        return float(per_unit)
    spread = training.y_scaling.scale if training.streamed else training.y.std()
    return float(spread * per_unit) or 1.0


def _by_taylor(
    model: Model,
    idata: Draws,
    where: Points,
    name: str,
    steps: int | None,
    *,
    on: str = "response",
    num_draws: int | None = None,
    features: Sequence[str] | None = None,
    progressbar: bool = True,
    **options: Any,
) -> xr.Dataset:
    """Means by Taylor expansion, and no draws."""
    quantity = questions.attribution(model, name, "exact", steps)
    unused = [option for option, given in options.items() if given not in ("summary", None)]
    if unused and unused != ["seed"]:
        raise ValueError(
            f"method='taylor' gives means alone, without {unused}. Pass only num_draws, features "
            "and progressbar, or use method='exact'."
        )
    several = model.specification.classes is not None
    if several or not is_nonlinear(model, quantity, on) or where.paths > 1:
        raise ValueError(
            f"method='taylor' has likelihood={model.specification.likelihood!r}, on={on!r} and "
            f"{where.paths} baseline rows, but needs the response of two "
            "classes or counts, and one baseline. Use method='exact'."
        )
    for feature in features or ():
        one_of("features", feature, quantity.labels)
    X = model.training.X
    view = ByChainRule(quantity, where, Response(model, taylor=True))
    asked = view.question
    start = cast(np.ndarray, where.baseline_values)
    shares, difference = means(model, idata, view, num_draws=num_draws, progressbar=progressbar)
    found = xr.Dataset(
        {
            "attribution_mean": (("obs", "feature"), shares),
            "difference_mean": ("obs", difference),
            **values_by_source(X, start, quantity.labels, baseline=True),
            "completeness_residual": ("obs", np.abs(shares.sum(axis=1) - difference)),
            **values_by_source(X, where.X_values, quantity.labels),
        },
        {"obs": where.index, "feature": list(quantity.labels)}
        | units_of(model.training, X, quantity.labels),
        {
            **origin(model),
            **asked.attrs,
            "method": "taylor",
            "units": asked.units,
            "samples": asked.samples,
            "moments": "means by Taylor expansion around the mean of f, to second order",
        },
    )
    found = found.set_coords(["level", "baseline_level"] if X.levels else [])
    return found if features is None else found.sel(feature=list(features))


def _most_baselines(quantity: Question, where: Points) -> int:
    """Most baselines with exact covariances."""
    if where.by is None:
        return MOST_BASELINES
    return min(MOST_BASELINES, max(1, MOST_AVERAGED // (len(where.X) * quantity.width)))


def _averaged(
    model: Model,
    idata: Draws,
    quantity: Question,
    where: Points,
    on: str = "response",
    **options: Any,
) -> xr.Dataset:
    """Over more baselines than have exact covariances, by random functions."""
    try:
        return by_draws(model, idata, AtRows(quantity, where, Latent(model)), **options)
    except NoBasis as none:
        raise ValueError(
            f"baseline has {where.paths} rows, but can have at most "
            f"{_most_baselines(quantity, where)} for this kernel, which has no random functions. "
            "Pass a random subset of the rows, or the centres of that many clusters."
        ) from none


def against(
    model: Model,
    idata: Draws,
    where: Points,
    baseline: str | Table | Mapping[str, Table],
    explained: Callable[..., xr.Dataset],
    **options: Any,
) -> xr.Dataset:
    """Explain against a baseline, or against each of a dict."""
    if isinstance(baseline, Mapping):
        return _each_baseline(model, idata, where, baseline, explained, **options)
    start, name = from_baseline(model, where, baseline), named(baseline)
    return explained(model, idata, start, name, **options)


def named(baseline: str | Table) -> str:
    """What attrs say of a baseline: its name, or that rows were given."""
    return baseline if isinstance(baseline, str) else "given"


def _each_baseline(
    model: Model,
    idata: Draws,
    where: Points,
    baselines: Mapping[str, Table],
    explained: Callable[..., xr.Dataset],
    *,
    seed: int | None = None,
    **options: Any,
) -> xr.Dataset:
    """Explain against each baseline of a dict by itself, side by side along a last dim."""
    if not baselines:
        raise ValueError("baseline is an empty dict. Pass a dict with at least one baseline.")
    for label, given in baselines.items():
        if label in model.training.X.sources and isinstance(given, Real):
            raise ValueError(
                f"baseline is {{{label!r}: {given!r}}}, but a dict gives names to whole baselines. "
                "For one with a value of your choice, pass a row: "
                f"X.iloc[[0]].assign(**{{{label!r}: ...}})."
            )
    if options.get("path") is not None:
        raise ValueError(
            f"path was given with {len(baselines)} baselines in a dict, but a store holds one. "
            "Call attributions once for each baseline, each with another path."
        )
    starts = {
        label: from_baseline(model, where, given, f"baseline[{label!r}]")
        for label, given in baselines.items()
    }
    if seed is not None:
        count("seed", seed, 0)
    seeds = np.random.SeedSequence(seed).generate_state(len(starts))
    each = [
        explained(model, idata, start, "named", seed=int(own), **options)
        for start, own in zip(starts.values(), seeds, strict=True)
    ]
    merged = side_by_side("baseline", list(starts), each, ["value", "baseline"])
    given = [cast(np.ndarray, start.baseline_values) for start in starts.values()]
    rows = np.stack([np.atleast_2d(values).mean(axis=0) for values in given])
    labels = list(each[0]["feature"].values)
    said = xr.Dataset(values_by_source(model.training.X, rows, labels, baseline=True))
    said = said.rename(baseline="baseline_value").rename(baseline_row="baseline").transpose()
    if "baseline_level" in said:
        merged = merged.assign_coords(baseline_level=said["baseline_level"])
    return merged.assign(value=each[0]["value"], baseline_value=said["baseline_value"])


def _missed(model: Model, found: xr.Dataset, on: str) -> dict[str, float]:
    """How much of the largest difference, and of its variance, is missing: if too much."""
    least = LEAST_DIFFERENCE * _spread(model.training, on)
    largest = np.abs(found["difference_mean"]).max() + found["difference_sd"].fillna(0.0).max()
    scale = max(float(largest), least)
    sizes = {"means": ("", scale), "variances": ("_variance", scale**2)}
    shares = {
        what: float(found[f"completeness_residual{name}"].max()) / size
        for what, (name, size) in sizes.items()
    }
    return {what: share for what, share in shares.items() if share > LARGEST_RESIDUAL}


def warn_if_incomplete(model: Model, found: xr.Dataset, on: str) -> None:
    """Warn where attributions do not add up to the difference; see `LARGEST_RESIDUAL`."""
    for what, share in _missed(model, found, on).items():
        others = "more steps, or " if "steps" in found.attrs else ""
        if found.attrs.get("method") == "exact" and not {"scale", "of"} & {*found.attrs}:
            others = "method='gauss_legendre' with many steps, or "
        warn(
            f"The {what} of attributions miss those of the difference from the baseline by up to "
            f"{share:.1e} of its scale. Use {others}a baseline nearer to the observations.",
            CompletenessWarning,
        )
