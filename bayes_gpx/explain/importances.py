"""Measures of feature importance other than `relevance`: one number for each feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr
from scipy.stats import qmc

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws import questions
from bayes_gpx.draws.averages import counts_of_rows
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws
from bayes_gpx.draws.level_moves import at_levels, contrast_weights, level_deviation, own_levels
from bayes_gpx.draws.naming import origin, recorded
from bayes_gpx.draws.points import points
from bayes_gpx.draws.questions import responds
from bayes_gpx.draws.random_functions import answer, draw_functions, or_else, values
from bayes_gpx.draws.scales import Latent, Response, response_units
from bayes_gpx.draws.views import AtRows, ByChainRule
from bayes_gpx.explain.answered import documented, has_outputs, of_each_output
from bayes_gpx.explain.null import by_permutation, replicates
from bayes_gpx.numerics.progress import of_several
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.posteriors.prior_functions import WAVES
from bayes_gpx.validation import names_among

if TYPE_CHECKING:
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.random_functions import Functions
    from bayes_gpx.model.model import Model

MEASURES = (
    "inverse_lengthscale",
    "mean_absolute_derivative",
    "mean_squared_derivative",
    "sobol_first",
    "sobol_total",
)
"""Every measure by name; by default the result has them in this order."""

SOBOL_ROWS = 1024
"""Rows of each of the two samples that Sobol indices are estimated from; a power of 2."""

SOBOL_SAMPLES = 4
"""Pairs of samples, each scrambled by itself: how far they disagree is the Monte Carlo error."""


@recorded
@documented
@on_cores
def importances(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    measures: Sequence[str] | None = None,
    obs: Labels | None = None,
    on: Literal["response", "latent"] = "response",
    draws: int = 100,
    num_draws: int | None = None,
    null: int | bool | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Measure how much each feature matters for the mean prediction.

    Use `relevance` instead to include changes of the predictive uncertainty: these measures ignore
    them. All but `inverse_lengthscale` are computed for random functions of the posterior, and the
    spread of their draws is the posterior uncertainty.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, the measures describe z' g(x).
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array, optional
        Rows that derivatives are averaged over, and that Sobol indices draw the values of each
        column from; None for the training rows.
    measures : list of str, optional
        Some of the variables below, by default all that the model has. Sobol indices take nearly
        all of the time: 4096 (d + 2) rows for each function.
    null : int or bool, optional
        Number of replicates of a reference distribution for each feature, as in `relevance`; True
        for 19. Each replicate computes all `measures` again. Not for several classes.
    seed : int, optional
        Seed of the functions, the rows for Sobol indices, and the permutations.

    Returns
    -------
    xarray.Dataset
        All variables have dims (chain, draw, feature).

        ==============================  ====================================================
        variable                        unit
        ==============================  ====================================================
        `inverse_lengthscale`           lengthscales per sd of the training column
        `mean_absolute_derivative`      f or S(f) per sd
        `mean_squared_derivative`       squared f or S(f) per squared sd
        `sobol_first`, `sobol_total`    proportion of variance
        `sobol_first_mc_error`          proportion of variance
        `sobol_total_mc_error`          proportion of variance
        ==============================  ====================================================

        `inverse_lengthscale` measures how nonlinear f is in a feature, rather than how much the
        feature matters [1]_. The squared derivative is also called DGSM [2]_. Sobol indices treat
        features as independent; `sobol_total` includes all interactions. Their errors come from the
        sampled rows, which all draws share. With several classes, all but `inverse_lengthscale`
        have a last dim `class`. With `null`, `_null`, `_refitted` and `_p` are added.

    Raises
    ------
    ValueError
        For unknown measures or `on`; for `inverse_lengthscale`, Sobol indices or random functions
        that the model does not have; and for rows or idata that do not fit the model.

    References
    ----------
    .. [1] Paananen, Piironen, Andersen and Vehtari, "Variable selection for Gaussian processes via
       sensitivity analysis of the posterior predictive distribution" (2019), section 2.
    .. [2] Sobol' and Kucherenko, "Derivative based global sensitivity measures and their link with
       global sensitivity indices" (2009); Sobol indices by the estimators of Jansen, "Analysis of
       variance designs for model output" (1999).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> options = {"measures": ["mean_absolute_derivative"], "draws": 20, "seed": 1}
    >>> found = bx.importances(model, theta, progressbar=False, **options)
    >>> found["mean_absolute_derivative"].dims
    ('chain', 'draw', 'feature')
    """
    if has_outputs(model, idata):
        return of_each_output(importances, locals())
    on_response, dims = responds(model, on), ("chain", "draw", "feature")
    training, lengthscale = model.training, _lengthscale(model)
    held = not training.tied and training.Z is not None
    absent = {"inverse_lengthscale": lengthscale is None}
    grouped = model.specification.grouped
    absent |= dict.fromkeys(("sobol_first", "sobol_total"), held or grouped)
    if measures is None:
        measures = [name for name in MEASURES if not absent.get(name)]
    _check(measures, absent)
    hyper = hyperparameter_draws(model, idata, num_draws)
    frame, first = training.X, np.unique(training.X.groups, return_index=True)[1]
    each, found = draws if hyper.alone else 1, {}
    functions: Any = None  # drawn only if some measure needs them
    if set(measures) - {"inverse_lengthscale"}:
        with or_else("All measures but inverse_lengthscale", "or use bx.relevance"):
            functions = draw_functions(
                model,
                idata,
                draws=draws,
                num_draws=num_draws,
                waves=WAVES,
                seed=seed,
                progressbar=progressbar,
            )
        where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)

    if "inverse_lengthscale" in measures:
        variances = (training.X_deviations / training.X_scaling.scale) ** 2
        sd = np.sqrt(np.bincount(frame.groups, variances))
        each_one = sd / hyper.values[lengthscale][..., first]
        found["inverse_lengthscale"] = np.repeat(each_one, each, axis=1)
    by_slopes = {"mean_absolute_derivative", "mean_squared_derivative"} & set(measures)
    by_sobol = [name for name in ("sobol_first", "sobol_total") if name in measures]
    with of_several(bool(by_slopes) + SOBOL_SAMPLES * bool(by_sobol)):
        if by_slopes:
            found |= _derivatives(functions, where, on_response, on, progressbar)
        if by_sobol:

            def of(X: np.ndarray) -> np.ndarray:
                return values(functions, points(model, X), on, progressbar=progressbar)

            counted = counts_of_rows(model, where)
            indices = sobol(of, where.X_values, seed, frame.groups, counted)
            shares = dict(zip(("sobol_first", "sobol_total"), indices, strict=True))
            for name in by_sobol:
                found |= dict(zip((name, f"{name}_mc_error"), shares[name], strict=True))
    size = next(iter(found.values())).shape[1]
    coords = {
        "chain": hyper.chain,
        "draw": np.arange(size) if hyper.alone else hyper.draw,
        "feature": list(frame.sources),
    }
    classes = model.specification.classes
    if classes is not None:
        coords["class"] = list(model.class_labels(on_response))
    units = _units(response_units(model) if on_response else questions.latent_units(model))
    kept = {name: found[name] for measure in measures for name in found if name.startswith(measure)}
    variables = {
        name: ((*dims, "class")[: array.ndim], array, {"units": units[name]})
        for name, array in kept.items()
    }
    made = xr.Dataset(variables, coords, origin(model))
    if wanted := replicates(null):
        if classes is not None:
            raise ValueError(
                "null was given with several functions, and each has other importances. Leave "
                "null out, or model one class against the others."
            )
        own: dict[str, Any] = {"measures": measures, "obs": obs, "on": on, "draws": draws}
        own |= {"groups_new": groups_new, "seed": seed, "progressbar": False}

        def statistic(other: Model, theta: Draws) -> dict[str, np.ndarray]:
            asked = importances(other, theta, X_new, Z_new, **own).mean(["chain", "draw"])
            return {name: asked[name].values for name in measures}

        how = frame.sources, wanted, seed, progressbar
        made = made.merge(by_permutation(model, idata, statistic, *how))
    return made


def _derivatives(
    functions: Functions, where: Points, on_response: bool, on: str, progressbar: bool
) -> dict[str, np.ndarray]:
    """Both averages of derivatives, (chain, draw, feature, ...); of levels, of their contrasts."""
    model, found = functions.model, {}
    frame, counted = model.training.X, counts_of_rows(model, where)
    counted = counted / counted.sum()
    numbers = [name for name in frame.sources if name not in frame.levels]
    if numbers:
        slope = questions.derivative(model)
        view = AtRows(slope, where, Latent(model))
        if on_response:
            view = ByChainRule(slope, where, Response(model))
        slopes = answer(functions, view, features=numbers, progressbar=progressbar)["derivative"]
        sd = dict(zip(frame.columns, model.training.X_deviations, strict=True))
        slopes = slopes * xr.DataArray([sd[name] for name in numbers], dims="feature")
        absolute, square = (
            (part * xr.DataArray(counted, dims="obs")).sum("obs").values
            for part in (abs(slopes), slopes**2)
        )
        for k, name in enumerate(numbers):
            found[name] = absolute[:, :, k], square[:, :, k]
    for name in frame.levels:
        f = values(functions, at_levels(model, where, [name]), on, progressbar=progressbar)
        f = f.reshape((*functions.shape, -1, len(where.X), *f.shape[3:]))
        own, rows = own_levels(model, where, name), np.arange(len(where.X))
        apart = (f - f[:, :, own, rows][:, :, None]) * level_deviation(model, name)
        weights = contrast_weights(model, where, name) * counted
        found[name] = tuple(
            np.einsum("cdlm...,lm->cd...", part, weights) for part in (np.abs(apart), apart**2)
        )
    both = (np.stack([found[name][k] for name in frame.sources], axis=2) for k in (0, 1))
    return dict(zip(("mean_absolute_derivative", "mean_squared_derivative"), both, strict=True))


def _units(of_f: str) -> dict[str, str]:
    share = "share of the variance"
    return {
        "inverse_lengthscale": "lengthscales per standard deviation of the feature",
        "mean_absolute_derivative": f"{of_f} per standard deviation of the feature",
        "mean_squared_derivative": f"square of {of_f} per standard deviation of the feature",
        "sobol_first": share,
        "sobol_first_mc_error": share,
        "sobol_total": share,
        "sobol_total_mc_error": share,
    }


def _check(measures: Sequence[str], absent: Mapping[str, bool]) -> None:
    for name in names_among("measures", measures, MEASURES):
        if absent.get(name):
            cure = (
                "a kernel with one lengthscale for each feature"
                if name == "inverse_lengthscale"
                else "a model without groups, and with z that varies with x: values of single "
                "columns are drawn, and nothing else may vary between rows"
            )
            raise ValueError(
                f"measures has {name}, which needs {cure}. Leave it out, or use bx.relevance."
            )


def _lengthscale(model: Model) -> str | None:
    """Name of the only hyperparameter that has a lengthscale for each feature, or None."""
    known = [h for h in model.specification.hyperparameters if h.kind == "lengthscale"]
    return known[0].name if len(known) == 1 and known[0].dims == ("feature",) else None


def sobol(
    of: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    seed: int | None,
    groups: np.ndarray | None = None,
    counted: np.ndarray | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sobol indices of functions of independent columns, each with the distribution of X's."""
    # `of` maps rows (m, d) to values (chain, draw, m, ...). Columns with the same number in
    # `groups` (d,) are drawn together, and a row as often as `counted` (n,) says. First-order
    # indices (chain, draw, groups, ...) come with their standard errors over samples, then total
    # indices with theirs.
    seeds = np.random.SeedSequence(seed).spawn(SOBOL_SAMPLES)
    groups = np.arange(X.shape[1]) if groups is None else groups
    counted = np.ones(len(X)) if counted is None else counted
    order, ends = np.empty_like(X), np.empty((len(X), groups.max() + 1))
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        rows = np.lexsort(X[:, own].T[::-1])
        order[:, own], ends[:, group] = X[rows][:, own], counted[rows].cumsum() / counted.sum()
    samples = [
        _explained_variances(of, order, ends, groups, np.random.default_rng(s)) for s in seeds
    ]
    variance, *explained = (np.stack(parts) for parts in zip(*samples, strict=True))
    return [_share(part, variance) for part in explained]


def _explained_variances(
    of: Callable[[np.ndarray], np.ndarray],
    order: np.ndarray,
    ends: np.ndarray,
    groups: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variance V (chain, draw, 1, ...) and the variance explained by features, alone and in all."""
    # Jansen's estimators, where AB is A with one column of B: the column alone explains V - E (f(B)
    # - f(AB))^2 / 2, and E (f(A) - f(AB))^2 / 2 with all its interactions.
    (n, d), count = order.shape, groups.max() + 1
    uniform = qmc.Sobol(2 * count, rng=rng).random(SOBOL_ROWS)
    places = zip(uniform.T, np.tile(ends, 2).T, strict=True)
    rows = np.stack([np.searchsorted(end, u, side="right") for u, end in places], axis=1)
    rows = np.minimum(rows, n - 1)
    A, B = (order[own[:, groups], np.arange(d)] for own in (rows[:, :count], rows[:, count:]))
    moved = [np.where(groups == group, B, A) for group in range(count)]
    f = of(np.concatenate([A, B, *moved]))
    f = f.reshape((*f.shape[:2], count + 2, SOBOL_ROWS, *f.shape[3:]))
    one, other, mixed = f[:, :, :1], f[:, :, 1:2], f[:, :, 2:]
    variance = f[:, :, :2].var(axis=(2, 3))[:, :, None]
    left, total = (0.5 * ((mixed - whole) ** 2).mean(axis=3) for whole in (other, one))
    return variance, variance - left, total


def _share(part: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ratio of means over samples, on the first axis, and its standard error, to first order."""
    whole = variance.mean(axis=0)
    share = part.mean(axis=0) / whole
    apart = (part - share * variance).std(axis=0, ddof=1) / whole
    return share, apart / np.sqrt(SOBOL_SAMPLES)
