"""Which features matter, and which pairs of them: how fast they change the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.points import points
from bayes_gpx.explain.answered import documented, has_outputs, of_each_output
from bayes_gpx.explain.null import by_permutation, by_simulation, replicates
from bayes_gpx.explain.sensitivities import (
    STEP,
    Picked,
    contrasts,
    differences,
    first_derivatives,
    measured,
    of_pairs,
)
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.validation import names_among, one_of, read_pairs

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


@recorded
@documented
@on_cores
def relevance(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    method: Literal["exact", "finite_difference"] = "exact",
    step: float | None = None,
    over: Literal["draws", "mixture"] = "draws",
    features: Sequence[str] | None = None,
    num_draws: int | None = None,
    null: int | bool | None = None,
    keep: Literal["draws", "summary"] = "draws",
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Measure how quickly the predictive distribution changes with each feature.

    Use relevance (KL-diff) to rank features; it has no sign, so use `slopes` for directions. It is
    the root of the second derivative, in a step of the feature, of the Kullback-Leibler divergence
    between the distributions of a new y before and after the step. If y is N(m, V), the relevance
    is ``sqrt(m_d^2 / V + V_d^2 / (2 V^2))``, where d denotes the derivative.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, f is z' g(x), and y includes the `eps_w` of a new row. If Z was given, z is fixed.
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        Rows at which relevance is computed; None for a new row at each training point.
    method : {"exact", "finite_difference"}
        "finite_difference" computes ``sqrt(2 KL(p(x), p(x + step))) / step``, as a check.
    step : float, optional
        Step of the finite differences, 1e-4 by default, in sds of the feature's training column.
    over : {"draws", "mixture"}
        "mixture" averages predictions over the hyperparameter draws first, which gives one value
        without a spread.
    null : int or bool, optional
        Number of replicates of a reference distribution for each feature; True for 19. Use it to
        test for an effect: relevance is never negative, so its interval is no test.
    keep : {"draws", "summary"}
        "summary" keeps only averages over rows and means over draws.

    Returns
    -------
    xarray.Dataset
        ============================  =============================  ==================
        variable                      dims                           unit
        ============================  =============================  ==================
        `relevance`                   chain, draw, obs, feature      per x
        `relevance_scaled`            chain, draw, obs, feature      per sd of x
        `_mean`, `_sd` of both        obs, feature                   as above
        `average_relevance`           chain, draw, feature           per sd of x
        `relevance_null` (`null`)     null, feature                  per sd of x
        `relevance_refitted`, `_p`    feature                        as above; p-value
        ============================  =============================  ==================

        Compare features by `relevance_scaled`; `average_relevance` is its mean over rows, which
        `ranking` takes. The notebook on relevance explains the last variables, and the relevance
        of classes, counts, proportions and categories. With trials, y is of one trial; with
        `noise_sd`, its noise has the mean variance of the training rows.

    Raises
    ------
    ValueError
        For a kernel rougher than Matern 3/2; a likelihood that is a class of one's own; unknown
        features; a bad step, or one without finite differences; other rows or idata.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), equation 2; Paananen, Piironen, Andersen and Vehtari (2019), for finite differences.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> found = bx.relevance(model, theta, keep="summary", progressbar=False)
    >>> x0, x1 = found["average_relevance"].values.ravel()
    >>> bool(x0 > x1)
    True
    """
    if has_outputs(model, idata):
        return of_each_output(relevance, locals())
    one_of("method", method, ("exact", "finite_difference"))
    if method == "exact" and step is not None:
        raise ValueError("step is for method='finite_difference'; leave it out.")
    where, frame = points(model, X_new, Z_new, groups_new=groups_new, obs=obs), model.training.X
    names = frame.sources if features is None else names_among("features", features, frame.sources)
    picked, measures = Picked.of(frame, names), []
    attrs: dict[str, Any] = {"method": method}
    if method == "finite_difference":
        attrs["step"] = STEP if step is None else step
        measures.append(differences(model, where, picked, attrs["step"]))
    elif len(picked.columns):
        measures.append(first_derivatives(where, picked))
    measures += [contrasts(model, where, picked, column) for column in picked.levels]
    options: dict[str, Any] = {"over": over, "num_draws": num_draws, "keep": keep}
    options["progressbar"] = progressbar
    found = measured(model, idata, where, "relevance", picked, measures, **options)
    if wanted := replicates(null):
        own: dict[str, Any] = {"method": method, "step": step, "over": over}
        own |= {"keep": "summary", "progressbar": False}

        def statistic(other: Model, theta: Draws) -> dict[str, np.ndarray]:
            asked = relevance(other, theta, X_new, Z_new, groups_new=groups_new, obs=obs, **own)
            return {"relevance": asked["average_relevance"].values.reshape(-1)}

        found = found.merge(
            by_permutation(model, idata, statistic, names, wanted, seed, progressbar)
        )
    return found.assign_attrs(attrs)


@recorded
@documented
@on_cores
def interactions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    pairs: Sequence[Sequence[str]] | Literal["screened"] | None = None,
    factor: int = 1,
    over: Literal["draws", "mixture"] = "draws",
    num_draws: int | None = None,
    null: int | bool | None = None,
    keep: Literal["draws", "summary"] = "draws",
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Measure how strongly pairs of features interact in the predictive distribution.

    If y of a new row is N(m, V), the interaction (KL-diff^2) is ``sqrt(m_de^2 / V + V_de^2 / (2
    V^2))``, where d and e denote the derivatives in the two features. It is 0 if the effects of the
    features add up. For other likelihoods the mean of y (of log y, for positive y) or the
    probability replaces m; effects that add up in f may then interact in y.

    Parameters
    ----------
    model, idata, X_new, Z_new, groups_new, obs, over, num_draws, keep, progressbar
        As in `relevance`.
    pairs : list of pairs of str, or "screened", optional
        All pairs by default. "screened" takes the pairs among the more relevant half of the
        features, by `relevance` at the same points.
    factor : {1, 2}
        Factor of the sum under the root: 1 as in the paper's supplement, on the scale of
        `relevance`; 2 as in its equation 3. The ranking is the same.
    null : int or bool, optional
        Number of replicates of a reference distribution for each pair; True for 19. A replicate
        removes the pair's interaction from the fitted f, draws responses, and refits.
    seed : int, optional
        Seed of the replicates.

    Returns
    -------
    xarray.Dataset
        ===============================  ===========================================
        variable                         dims
        ===============================  ===========================================
        `interaction`, `_scaled`         chain, draw, obs, feature, feature_bis
        `_mean`, `_sd` of both           obs, feature, feature_bis
        `average_interaction`            chain, draw, feature, feature_bis
        `value`                          obs, feature
        `interaction_null`               null, feature, feature_bis
        `interaction_refitted`, `_p`     feature, feature_bis
        ===============================  ===========================================

        `interaction` is per unit of both features, symmetric, and NaN on the diagonal and for pairs
        that were not requested. `interaction_scaled` is per sd of both features. The last two rows
        need `null`; see `relevance`.

    Raises
    ------
    ValueError
        As in `relevance`; also for a model with one feature, pairs that are not two different
        features, repeated pairs, and another factor.

    Notes
    -----
    With few rows, the mode often has almost no noise, and the derivatives of the variance dominate
    those of the mean. Use several draws or their mixture, or other points (`X_new`).

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), equation 3 and supplement.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(60, 2))
    >>> model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 0], scale=False)
    >>> theta = {"lengthscale": [2.0, 2.0], "amplitude": 2.0, "sigma": 0.05}
    >>> found = bx.interactions(model, theta, [[0.0, 0.0]], progressbar=False)
    >>> found["interaction"].sel(feature="x0", feature_bis="x1").values.shape
    (1, 1, 1)
    """
    if has_outputs(model, idata):
        return of_each_output(interactions, locals())
    if isinstance(factor, bool) or factor not in (1, 2):
        raise ValueError(f"factor is {factor!r}. Pass 1 (the supplement) or 2 (equation 3).")
    frame = model.training.X
    columns = frame.sources
    if len(columns) < 2:
        raise ValueError(f"The model has one feature, {columns[0]}, but needs two or more.")
    where = points(model, X_new, Z_new, groups_new=groups_new, obs=obs)
    options: dict[str, Any] = {"over": over, "num_draws": num_draws, "progressbar": progressbar}
    if isinstance(pairs, str):
        one_of("pairs", pairs, ("screened",))
        first = relevance(
            model, idata, X_new, Z_new, groups_new=groups_new, obs=obs, keep="summary", **options
        )
        draws = first["average_relevance"]
        average = draws.mean([dim for dim in draws.dims if dim != "feature"])
        chosen = np.argsort(-average.values, kind="stable")[: max(2, -(-len(columns) // 2))]
        wanted = {frozenset(pair) for pair in combinations(chosen, 2)}
    else:
        every = list(combinations(columns, 2))
        wanted = set(read_pairs(every if pairs is None else pairs, columns))
        if not wanted:
            raise ValueError("pairs is empty. Pass a list of different pairs of names.")
        chosen = np.array(sorted(set().union(*wanted)))
    picked = Picked.of(frame, [columns[k] for k in chosen])
    asked = np.array([[frozenset((i, j)) in wanted for j in chosen] for i in chosen])
    measures = of_pairs(model, where, picked, asked, factor)
    options["keep"] = keep
    found = measured(model, idata, where, "interaction", picked, measures, **options)
    if count := replicates(null):
        # A replicate would screen other pairs.
        same = [[columns[k] for k in pair] for pair in wanted]
        own: dict[str, Any] = {"pairs": same, "factor": factor, "over": over}
        own |= {"keep": "summary", "progressbar": False}
        size = len(columns)
        looked_at = np.array(
            [[frozenset((i, j)) in wanted for j in range(size)] for i in range(size)]
        )

        def statistic(other: Model, theta: Draws) -> dict[str, np.ndarray]:
            asked = interactions(other, theta, X_new, Z_new, groups_new=groups_new, obs=obs, **own)
            average = asked["average_interaction"].reindex(feature=columns, feature_bis=columns)
            return {"interaction": average.values.reshape((size, size))}

        more = by_simulation(model, idata, statistic, looked_at, count, seed, progressbar)
        held = {dim: found[dim].values for dim in ("feature", "feature_bis")}
        found = found.merge(more.sel(held))
    return found.assign_attrs(factor=factor)
