"""Which features matter, and which pairs of them: how fast they change the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws, Labels, Table
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.points import points
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


def relevance(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    obs: Labels | None = None,
    method: Literal["exact", "finite_difference"] = "exact",
    step: float | None = None,
    over: Literal["draws", "mixture"] = "draws",
    features: Sequence[str] | None = None,
    num_draws: int | None = None,
    keep: Literal["draws", "summary"] = "draws",
    progressbar: bool = True,
) -> xr.Dataset:
    """How fast the predictive distribution changes with a feature: KL-diff.

    The root of the second derivative, in a step of that feature, of the Kullback-Leibler divergence
    between the distributions of a new sample's y before and after the step. With normal noise that
    is N(m, V) and, derivatives in a feature marked by d, ``sqrt(m_d^2 / V + V_d^2 / (2 V^2))``: a
    slope counts in units of the predictive standard deviation, and a change of how sure the
    prediction is counts too. It has no sign. See Notes for other likelihoods and for categorical
    columns.

    Parameters
    ----------
    model : GP or GPX
        In a GPX, of the smooth part z' g(x) with a new sample's own `eps_w`: in X's features with z
        held where Z was given, else with z = x changing too.
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    X_new, Z_new : frame or array (m, d), (m, p), optional
        Where to ask; None for a new sample at each training point.
    obs : label or list of labels, optional
        Only these observations.
    method : {"exact", "finite_difference"}
        The latter takes ``sqrt(2 KL(p(x), p(x + step))) / step``, as a check.
    step : float, optional
        In standard deviations of the feature's training column (in its units, if it is constant);
        1e-4 by default. Errors grow with it, and below 1e-6 from round-off.
    over : {"draws", "mixture"}
        Two ways to be Bayesian. "draws": of the prediction given hyperparameters, one value for
        each draw of them, whose spread says how sure the relevance is. "mixture": of the one
        prediction that averages over them, by its mean and variance, taken as a normal; what is
        uncertain about hyperparameters is then uncertainty of the prediction, which may itself
        change with x. One value, without a spread. For labels this is the mixture itself; for
        Student's t, squared scales follow the law of total variance and 1 / nu is averaged; for
        counts, means are averaged, and 1 / dispersion.
    features : list of str, optional
        Only these.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    keep : {"draws", "summary"}
        With "summary" only averages over observations, and means over draws, are kept.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        `relevance` (chain, draw, obs, feature), per unit of x, and `relevance_scaled`, the same
        times the standard deviation of the training column, for comparing features; of both
        `_mean` and `_sd` over draws (obs, feature), the sd of one draw being NaN.
        `average_relevance` (chain, draw, feature), the mean of `relevance_scaled` over
        observations, which `ranking` takes. `value`. With ``over="mixture"`` without dims chain and
        draw, means and sds.

    Raises
    ------
    ValueError
        If the kernel's process is not differentiable (a Matern 3/2 or smoother
        is), if features are unknown, for a step without finite differences or that is not positive,
        and samples or idata that do not fit the model.

    Notes
    -----
    A categorical column has contrasts in the place of a derivative: ``sqrt(2 KL)`` from a sample's
    own level to another one, as root mean square over the other levels, weighed by their shares of
    the training rows (of which `importances` and `interactions` take theirs too). Its standard
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
    where, frame = points(model, X_new, Z_new, obs=obs), model.training.X
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
    return found.assign_attrs(attrs)


def interactions(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    obs: Labels | None = None,
    pairs: Sequence[Sequence[str]] | Literal["screened"] | None = None,
    factor: int = 1,
    over: Literal["draws", "mixture"] = "draws",
    num_draws: int | None = None,
    keep: Literal["draws", "summary"] = "draws",
    progressbar: bool = True,
) -> xr.Dataset:
    """How fast two features together move the predictive distribution: KL-diff^2.

    With the distribution N(m, V) of a new sample's y and derivatives in both features marked by de,
    ``sqrt(m_de^2 / V + V_de^2 / (2 V^2))``: 0 where the features' effects add up. Other likelihoods
    have the mean of y, or the probability, in the place of m, as in `relevance`; effects that add
    up on f then interact on y.

    Parameters
    ----------
    model, idata, X_new, Z_new, obs, over, num_draws, keep, progressbar
        As in `relevance`.
    pairs : list of pairs of str, or "screened", optional
        All pairs by default; "screened": the pairs among the more relevant half of the features
        (by `relevance` there), most relevant first.
    factor : {1, 2}
        Of the sum under the root: 1 as in the paper's supplement, on the scale of `relevance`; 2 as
        in its equation 3, where a pure interaction is the root of the fourth derivative of the
        divergence. The ranking is the same.

    Returns
    -------
    xarray.Dataset
        `interaction` (chain, draw, obs, feature, feature_bis), per unit of both, symmetric, NaN on
        the diagonal and for pairs that were not asked for, and `interaction_scaled`, the same times
        both standard deviations; their `_mean` and `_sd`, and `average_interaction`, as in
        `relevance`. `value`.

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

    A single draw of hyperparameters with next to no noise, such as a mode often is with few rows,
    is sure at the training points and nowhere else. There the variance's derivatives outgrow the
    mean's: ask of several draws or their mixture, or at other points by `X_new`.

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
    where = points(model, X_new, Z_new, obs=obs)
    options: dict[str, Any] = {"over": over, "num_draws": num_draws, "progressbar": progressbar}
    if isinstance(pairs, str):
        one_of("pairs", pairs, ("screened",))
        first = relevance(model, idata, X_new, Z_new, obs=obs, keep="summary", **options)
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
    return found.assign_attrs(factor=factor)
