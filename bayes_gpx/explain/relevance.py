"""Which features matter, and which pairs of them: how fast they change the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Draws, Labels, Table
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.points import points
from bayes_gpx.explain.by_output import by_output
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
from bayes_gpx.validation import names_among, one_of, read_pairs

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


@by_output
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
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """How quickly the predictive distribution changes with each feature (KL-diff).

    The root of the second derivative, in a step of that feature, of the Kullback-Leibler divergence
    between the distributions of a new sample's y before and after the step. With normal noise y is
    N(m, V), and the relevance is ``sqrt(m_d^2 / V + V_d^2 / (2 V^2))``, where the index d denotes
    the derivative in the feature. It measures the slope of the mean in units of the predictive
    standard deviation, and also how the uncertainty of the prediction changes. It has no sign. See
    Notes for other likelihoods and for categorical columns.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, f is the smooth part z' g(x), and y includes the `eps_w` of a new sample. The
        features are those of X; z is held fixed if Z was given, and changes with x otherwise.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        Where relevance is computed; None for a new sample at each training point.
    groups_new : series or array (m,), optional
        The groups of new samples, where the model has groups; see `bayes_gpx.GP`.
    obs : label or list of labels, optional
        Only these observations.
    method : {"exact", "finite_difference"}
        The latter computes ``sqrt(2 KL(p(x), p(x + step))) / step``, as a check.
    step : float, optional
        Step of the finite differences, in standard deviations of the feature's training column (in
        its units if it is constant); 1e-4 by default. Larger steps have larger errors; below 1e-6
        round-off dominates.
    over : {"draws", "mixture"}
        How the draws of the hyperparameters are used. "draws": relevance of the prediction given
        the hyperparameters, one value for each draw, whose spread is the uncertainty of the
        relevance. "mixture": relevance of the prediction averaged over the hyperparameters, which
        is approximated by a normal with the same mean and variance. The uncertainty of the
        hyperparameters is then part of the prediction, and there is one value, without a spread.
        For labels the mixture is exact; for Student's t, squared scales follow the law of total
        variance and 1 / nu is averaged; for counts, the means and 1 / dispersion are averaged.
    features : list of str, optional
        Only these.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    null : int or bool, optional
        Number of replicates of a reference distribution for each feature; True for 19. Relevance is
        never negative, so that its interval does not tell whether a feature has any effect. In a
        replicate the residuals of the column's linear regression on the other columns are permuted,
        so that it correlates with them as before, and the model is refitted. All fits start at the
        mode without an effect of the column. With 19 replicates of 10 features that takes half a
        minute for 100 rows and a minute for 400.
    keep : {"draws", "summary"}
        "summary" keeps averages over observations and means over draws only.
    seed : int, optional
        Of the permutations.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        `relevance` (chain, draw, obs, feature), per unit of x, and `relevance_scaled`, the same
        times the standard deviation of the training column, for comparing features; for both,
        `_mean` and `_sd` over draws (obs, feature). The sd of a single draw is NaN.
        `average_relevance` (chain, draw, feature), the mean of `relevance_scaled` over
        observations, which `ranking` takes. `value`. With ``over="mixture"`` there are no dims
        chain and draw, no means and no sds.

        With `null`: `relevance_null` (null, feature), the average relevance of each replicate;
        `relevance_refitted` (feature), that of the rows as they are, refitted in the same way; and
        `relevance_p` (feature), one plus the number of replicates that are at least as large as
        that, divided by one plus their number.

    Raises
    ------
    ValueError
        If the kernel's process is not differentiable (a Matern 3/2 or smoother is), if features
        are unknown, if a step is not positive or given without finite differences, or if samples
        or idata do not fit the model.

    Notes
    -----
    For a categorical column, contrasts replace the derivative: ``sqrt(2 KL)`` from a sample's own
    level to another one, as a root mean square over the other levels, weighted by their shares of
    the training rows (`importances` and `interactions` do the same). Its standard
    deviation is ``sqrt((1 - sum pi^2) / 2)`` of the levels' shares pi: that of 0 and 1 where there
    are two.

    With f ~ N(m, V) of a new sample, y is taken to be Student-t around m with squared scale
    ``sigma^2 + V``; one of two labels with probability ``E pi``, where the measure is
    ``|pi_d| / sqrt(pi (1 - pi))``; Poisson with mean ``lambda = E exp(f) = exp(m + V / 2)``, at
    exposure 1, where it is ``|lambda_d| / sqrt(lambda)``; or negative binomial with that mean and
    the dispersion a, where it is ``|lambda_d| / sqrt(lambda + lambda^2 / a)``. For Student's t and
    for counts that is the paper's approximation: y's own distribution is wider in its tails, and
    for counts a larger V widens it without moving these. f is normal by Laplace's approximation.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), equation 2; Paananen, Piironen, Andersen and Vehtari, "Variable selection for Gaussian
    processes via sensitivity analysis of the posterior predictive distribution" (2019), for
    finite differences.

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
    refuse_swapped(model, idata)
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


@by_output
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
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """How strongly pairs of features interact in the predictive distribution (KL-diff^2).

    If y of a new sample is N(m, V), the interaction is ``sqrt(m_de^2 / V + V_de^2 / (2 V^2))``,
    where the indices d and e denote the derivatives in the two features. It is 0 where the effects
    of the features add up. For other likelihoods the mean of y, or the probability, replaces m, as
    in `relevance`; effects that add up in f may then interact in y.

    Parameters
    ----------
    model, idata, X_new, Z_new, groups_new, obs, over, num_draws, keep, progressbar
        As in `relevance`.
    pairs : list of pairs of str, or "screened", optional
        All pairs by default. "screened": the pairs among the more relevant half of the features,
        by `relevance` at the same points.
    factor : {1, 2}
        Of the sum under the root: 1 as in the paper's supplement, on the scale of `relevance`; 2 as
        in its equation 3, where a pure interaction is the root of the fourth derivative of the
        divergence. The ranking is the same.
    null : int or bool, optional
        Number of replicates of a reference distribution for each pair; True for 19. In a replicate
        the interaction of the pair is taken out of the fitted f, responses are drawn around the
        rest, and the model is refitted to them from its mode.
    seed : int, optional
        Of the replicates.

    Returns
    -------
    xarray.Dataset
        `interaction` (chain, draw, obs, feature, feature_bis), per unit of both, symmetric, NaN on
        the diagonal and for pairs that were not asked for, and `interaction_scaled`, the same times
        both standard deviations; their `_mean` and `_sd`, and `average_interaction`, as in
        `relevance`. `value`. With `null`: `interaction_null` (null, feature, feature_bis),
        `interaction_refitted` and `interaction_p`, as in `relevance`.

    Raises
    ------
    ValueError
        As `relevance`; for a model with one feature, a pair with one feature twice, pairs that are
        no pairs of different names or asked twice, and another factor.

    Notes
    -----
    With a categorical column the derivative in it is a contrast with another level, as in
    `relevance`; two indicators of one column are no pair.

    The sum is one of several terms of the divergence's fourth derivative, the one that a pure
    interaction leaves; it is not the whole derivative, which may be negative.

    With few rows, the mode often has next to no noise. The prediction is then certain at the
    training points and nowhere else, and the derivatives of the variance dominate those of the
    mean. Use several draws or their mixture, or other points (`X_new`).

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
    refuse_swapped(model, idata)
    if isinstance(factor, bool) or factor not in (1, 2):
        raise ValueError(f"factor is {factor!r}; expected 1 (the supplement) or 2 (equation 3).")
    frame = model.training.X
    columns = frame.sources
    if len(columns) < 2:
        raise ValueError(f"The model has one feature, {columns[0]}; expected two or more.")
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
            raise ValueError("pairs is empty; expected a list of different pairs of names.")
        chosen = np.array(sorted(set().union(*wanted)))
    picked = Picked.of(frame, [columns[k] for k in chosen])
    asked = np.array([[frozenset((i, j)) in wanted for j in chosen] for i in chosen])
    measures = of_pairs(model, where, picked, asked, factor)
    options["keep"] = keep
    found = measured(model, idata, where, "interaction", picked, measures, **options)
    if count := replicates(null):
        own: dict[str, Any] = {"pairs": pairs, "factor": factor, "over": over}
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
