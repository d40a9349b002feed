"""Shapley values: mean changes of f over all orders in which features move from a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.answers import of_each_draw
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.questions import ShapleyOperator, is_nonlinear
from bayes_gpx.draws.random_functions import by_draws, or_else
from bayes_gpx.draws.scales import Latent, Response, log_variance
from bayes_gpx.draws.stores import with_more
from bayes_gpx.draws.views import AtCoalitions, expectations
from bayes_gpx.explain.answered import Of, answered, documented, of_views
from bayes_gpx.explain.attributions import MOST_BASELINES, against, refuse_joint, warn_if_incomplete
from bayes_gpx.explain.fanova import by_components
from bayes_gpx.numerics.coalitions import Orders
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.processes.operators import MOST_PLAYERS
from bayes_gpx.processes.shapley import MOST_PAIRED, NoProduct
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question
    from bayes_gpx.model.model import Model

MOST_POINTS = 8192
"""Most points of f for the coalitions of one row."""


@recorded
@documented
@of_views
@on_cores
def shapley_values(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    baseline: str | Table | Mapping[str, Table] = "mean",
    method: Literal["exact", "permutations", "fanova"] = "exact",
    permutations: int = 256,
    of: Of | Literal["log_variance"] = "value",
    at: float | str | Sequence[float | str] | None = None,
    groups_new: Column | None = None,
    obs: Labels | None = None,
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
    """Attribute predictions to features by Shapley values.

    Features move one by one from the baseline to x; features that have not moved yet stay at the
    baseline [1]_. The Shapley value is the change of f when a feature moves, averaged over all
    orders. Use `attributions` for integrated gradients.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        New rows; None for the training rows. If a GPX was given Z, z is fixed.
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), frame or its row, or dict of these
        Values of the features that have not moved, in user units, as in `attributions`.
    method : {"exact", "permutations", "fanova"}
        "exact" takes all orders. "permutations" draws some orders by `seed` and adds their
        reverses. "fanova" averages features that have not moved over the measure of
        ``bx.Additive(..., measure=...)``, without a baseline [3]_.
    permutations : int
        Number of orders for "permutations", even and at least four.
    of, at : {"value", "log_variance", "survival", "probability", "hazard", "quantile"} or tuple
        As in `attributions`.

    Returns
    -------
    xarray.Dataset
        The variables of `attributions`, such as `attribution` (chain, draw, obs, feature),
        `attribution_mean` and `attribution_sd` (obs, feature), in units of y. ``attrs["method"]``
        is "shapley" or "fanova". A categorical column is one feature. "permutations" adds
        `attribution_mc_error` (obs, feature), the standard error of `attribution_mean` due to the
        choice of orders.

    Raises
    ------
    ValueError
        As in `attributions`. Also if coalitions must be enumerated for more than 10 features
        without "permutations", or for more than 8192 points per row.

    Warns
    -----
    ExtrapolationWarning, CompletenessWarning
        If new rows leave the training data; if Shapley values do not add up to the difference.

    Notes
    -----
    Values are exact in polynomial time for kernels that are products over features [2]_, powers of
    a linear kernel, and `Additive`. "Reading attributions correctly" in the guide lists the kernels
    and models with enumerated coalitions.

    References
    ----------
    .. [1] Shapley, "A value for n-person games" (1953); Sundararajan and Najmi, "The many Shapley
       values for model explanation" (2020): baseline Shapley values.
    .. [2] Owen, "Multilinear extensions of games" (1972).
    .. [3] Owen, "Sobol' indices and Shapley value" (2014).

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
    one_of("method", method, ("exact", "permutations", "fanova"))
    _orders(permutations, seed)
    answer = partial(_answer, baseline=baseline, method=method, permutations=permutations, of=of)
    return answered(answer, locals())


def _answer(
    model: Model,
    idata: Draws,
    where: Points,
    *,
    baseline: Any,
    method: str,
    permutations: int,
    of: Any,
    **options: Any,
) -> xr.Dataset:
    """Shapley values against a baseline, against each of a dict, or over a measure."""
    if method == "permutations":
        options["orders"] = _orders(permutations, options.get("seed"))
    if method == "fanova":
        return by_components(model, idata, where, baseline, of, **options)
    return against(model, idata, where, baseline, partial(_explained, of=of), **options)


def _orders(permutations: int, seed: int | None) -> Orders:
    count("permutations", permutations, 4)
    if permutations % 2:
        raise ValueError(
            f"permutations is {permutations}. Pass an even number, because each order is tried "
            "with its reverse."
        )
    if seed is not None:
        count("seed", seed, 0)
    return Orders(permutations, int(np.random.SeedSequence(seed).generate_state(1)[0]))


def _explained(
    model: Model,
    idata: Draws,
    where: Points,
    name: str,
    *,
    of: str,
    orders: Orders | None = None,
    **options: Any,
) -> xr.Dataset:
    refuse_joint(where, options)
    on, baselines = options.pop("on", "response"), where.paths
    quantity = questions.shapley_value(model, name, orders)
    of_f = of == "value" and not is_nonlinear(model, quantity, on)
    closed = of_f and baselines <= MOST_BASELINES
    if orders is None and not (closed and _has_products(model, idata, quantity, where, on)):
        if len(quantity.labels) > MOST_PLAYERS:
            raise ValueError(
                f"The coalitions of {len(quantity.labels)} features are too many to go "
                f"through; at most {MOST_PLAYERS} features are supported. Pass "
                "method='permutations'."
            )
        quantity = questions.shapley_value(model, name, Orders())
    _refuse_many(quantity, baselines)
    scale = Latent(model) if of_f else Response(model)
    if of == "log_variance":
        scale = log_variance(model, on)
    view = AtCoalitions(quantity, where, scale)
    if of == "log_variance":
        found = of_each_draw(model, idata, view, **options)
    elif closed:
        found = evaluate(model, idata, quantity, where, on=on, **options)
    else:
        needed = "Shapley values of the response", "or pass on='latent'"
        if of_f:
            few = f"or pass a baseline of at most {MOST_BASELINES} rows"
            needed = f"Shapley values with {baselines} rows of the baseline", few
        with or_else(*needed):
            found = by_draws(model, idata, view, **options)
    if orders is not None:
        own = {name: options[name] for name in ("num_draws", "progressbar") if name in options}
        found = _with_errors(found, _monte_carlo_errors(model, idata, view, **own), quantity)
        if options.get("path") is not None:
            found = with_more(options["path"], found[["attribution_mc_error"]])
    warn_if_incomplete(model, found, on)
    return found


def _has_products(model: Model, idata: Draws, quantity: Question, where: Points, on: str) -> bool:
    """Whether the covariance of all rows has a closed form, tried on the first row of few draws."""
    if len(quantity.labels) <= MOST_PAIRED or model.specification.expanded:
        return True
    few = None if isinstance(idata, Mapping) else idata["posterior"].sizes["chain"]
    first = where.take(slice(1))
    try:
        evaluate(
            model,
            idata,
            quantity,
            first,
            num_draws=few,
            keep="summary",
            on=on,
            progressbar=False,
        )
    except NoProduct:
        return False
    return True


def _refuse_many(quantity: Question, baselines: int) -> None:
    """Raise if coalitions and baselines make too many points for each row."""
    points, players = quantity.points, len(quantity.labels)
    orders = cast(ShapleyOperator, quantity.operator).orders
    if points * baselines <= MOST_POINTS:
        return
    if orders is None or orders.count is None:
        cure = "method='permutations', or fewer baselines"
    else:
        cure = f"permutations={MOST_POINTS // (baselines * players) // 2 * 2}, or fewer baselines"
    raise ValueError(
        f"{players} features and {baselines} baselines make {points * baselines} points to go "
        f"through for each row, but at most {MOST_POINTS} are supported. Pass {cure}."
    )


def _with_errors(found: xr.Dataset, errors: np.ndarray, quantity: Question) -> xr.Dataset:
    dims = [dim for dim in ("obs", "class", "feature") if dim in found["attribution_mean"].dims]
    named = xr.DataArray(errors, {"feature": list(quantity.labels)}, dims)
    named = named.sel(feature=found["feature"].values)
    found["attribution_mc_error"] = named.variable.transpose(*found["attribution_mean"].dims)
    return found


def _monte_carlo_errors(
    model: Model,
    idata: Draws,
    view: AtCoalitions,
    *,
    num_draws: int | None = None,
    progressbar: bool = True,
) -> np.ndarray:
    """Standard errors (m, [C,] players), in user units, of mean Shapley values by random orders."""
    hyper = hyperparameter_draws(model, idata, num_draws)
    shape = (len(view.where.X), *model.specification.observation.class_shape)
    total = np.zeros((*shape, view.latent.points))

    def read(part: AtCoalitions, mean: Jet, variance: Jet) -> list[np.ndarray]:
        return [part.expected_values(mean, variance)]

    for _, rows, (values,) in expectations(model, hyper, view, progressbar, read):
        total[rows] += values[0] / len(hyper)
    return view.among.errors(total * view.question.factor[0])
