"""Which features matter, and which pairs of them: how fast they change the prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws, Labels, Table
from bayes_gpx.draws.evaluate import jets, origin
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.mixtures import Mixture, PredictiveMixture
from bayes_gpx.draws.points import points
from bayes_gpx.validation import names_among, one_of, read_pairs

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

STEP = 1e-4
"""Of finite differences, in standard deviations of the feature, unless another is asked for."""


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
    prediction is counts too. It has no sign. See Notes for other likelihoods.

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
    where, columns = points(model, X_new, Z_new, obs=obs), model.training.X.columns
    names = columns if features is None else names_among("features", features, columns)
    picked = np.array([columns.index(name) for name in names])
    if method == "exact":
        if step is not None:
            raise ValueError("step is for method='finite_difference'; leave it out.")
        asked = _Measure("relevance", 1, _first, {"method": "exact"})
    else:
        where, asked = _moved(model, where, STEP if step is None else step)
    return _explained(model, idata, where, asked, picked, over, num_draws, keep, progressbar)


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
    columns = model.training.X.columns
    if len(columns) < 2:
        raise ValueError(f"The model has one feature, {columns[0]}; expected two or more.")
    where = points(model, X_new, Z_new, obs=obs)
    if isinstance(pairs, str):
        one_of("pairs", pairs, ("screened",))
        first = relevance(
            model,
            idata,
            X_new,
            Z_new,
            obs=obs,
            over=over,
            num_draws=num_draws,
            keep="summary",
            progressbar=progressbar,
        )["average_relevance"]
        average = first.mean([dim for dim in first.dims if dim != "feature"]).values
        picked = np.argsort(-average, kind="stable")[: max(2, -(-len(columns) // 2))]
        wanted = {frozenset(pair) for pair in combinations(picked, 2)}
    else:
        every = list(combinations(columns, 2))
        wanted = set(read_pairs(every if pairs is None else pairs, columns))
        if not wanted:
            raise ValueError("pairs is empty; expected a list of different pairs of names.")
        picked = np.array(sorted(set().union(*wanted)))
    left_out = np.array([[frozenset((i, j)) not in wanted for j in picked] for i in picked])

    def of_pairs(likelihood, found):
        second = change(likelihood.parameters(found), factor)[1]
        second[:, picked[:, None], picked] += np.where(left_out, np.nan, 0.0)
        return second

    asked = _Measure("interaction", 2, of_pairs, {"factor": factor})
    return _explained(model, idata, where, asked, picked, over, num_draws, keep, progressbar)


@dataclass(frozen=True, eq=False)
class _Measure:
    """A measure: the derivatives it needs, and its numbers from a likelihood and `Predictive`."""

    name: str
    order: int
    numbers: Callable
    attrs: dict


def _first(likelihood, found):
    return change(likelihood.parameters(found))[0]


def _moved(model, where, step):
    """All points as they are and with each feature moved, and the measure that compares these."""
    if isinstance(step, bool) or not (isinstance(step, Real) and 0 < step < np.inf):
        raise ValueError(f"step is {step!r}; expected a positive number.")
    m, d = where.X.shape
    sd = model.training.X_deviations / model.training.X_scaling.scale
    steps = step * np.where(sd > 0, sd, 1.0)
    moves = np.concatenate([np.zeros((1, d)), np.diag(steps)])
    X = (where.X + moves[:, None]).reshape((-1, d))
    Z = None if where.Z is None else np.tile(where.Z, (d + 1, 1))

    def apart(likelihood, found):
        here, *there = (found.at(slice(k * m, (k + 1) * m)) for k in range(d + 1))
        divergence = np.stack([likelihood.divergence(here, moved) for moved in there], axis=1)
        return np.sqrt(2.0 * np.maximum(divergence, 0.0)) / steps

    attrs = {"method": "finite_difference", "step": step}
    return replace(where, X=X, Z=Z), _Measure("relevance", 0, apart, attrs)


def _explained(model, idata, where, asked, picked, over, num_draws, keep, progressbar):
    """Ask at every draw, or of their mixture, and name what is found."""
    one_of("over", over, ("draws", "mixture"))
    one_of("keep", keep, ("draws", "summary"))
    likelihood = model.specification.observation
    hyper = hyperparameter_draws(model, idata, num_draws)
    kept = _Kept(model, asked, picked, where.X_values)
    mixture, largest = PredictiveMixture(), 0.0
    center = 0.0 if model.training.scales_y else model.training.y_scaling.center
    lead = (len(hyper.chain), len(hyper.draw))
    if over == "draws":
        kept.open(lead, keep)
    for at, theta, mean, variance, jitter in jets(
        model, hyper, where, asked.order, progressbar=progressbar
    ):
        predicted = likelihood.predictive(mean.shifted(center), variance, theta)
        largest = max(largest, jitter)
        if over == "mixture":
            mixture.add(predicted)
        else:
            kept.add(at, asked.numbers(likelihood, predicted))
    if over == "mixture":
        found = kept.of_one(asked.numbers(likelihood, mixture.predictive()))
    else:
        found = kept.dataset().assign_coords(chain=hyper.chain, draw=hyper.draw)
    found = found.assign_coords(obs=where.index)
    attrs = {"over": over, "relative_jitter": largest, "samples": "new samples"}
    found.attrs.update(origin(model) | attrs | asked.attrs)
    return found


class _Kept:
    """What is kept of a measure's numbers, in user units and scaled: their draws, means and sds."""

    def __init__(self, model, asked, picked, values):
        self._name, self._picked = asked.name, picked
        labels = [model.training.X.columns[i] for i in picked]
        self._dims = ("obs", "feature") if asked.name == "relevance" else PAIRED
        self._coords = dict.fromkeys(self._dims[1:], labels)
        self._attrs = {"units": f"per unit of {' per unit of '.join(self._dims[1:])}"}
        self._value = ("obs", "feature"), values[:, picked]
        self._shape = (len(values), *[len(picked)] * (len(self._dims) - 1))
        per_unit = 1.0 / model.training.X_scaling.scale
        scales = per_unit[picked], (model.training.X_deviations * per_unit)[picked]
        if len(self._shape) == 3:
            scales = [np.multiply.outer(scale, scale) for scale in scales]
        self._scales = dict(zip((asked.name, f"{asked.name}_scaled"), scales, strict=True))

    def open(self, lead, keep):
        """Make room for draws, which a mixture does not have."""
        self._stores = {}
        if keep == "draws":
            self._stores = {name: np.empty((*lead, *self._shape)) for name in self._scales}
        self._average = np.empty((*lead, *self._shape[1:]))
        size = (self._shape[0], int(np.prod(self._shape[1:])))
        self._mixtures = {name: Mixture(size, False) for name in self._scales}

    def _scaled(self, numbers):
        picked = numbers[:, *np.ix_(*[self._picked] * (numbers.ndim - 1))]
        return {name: picked * scale for name, scale in self._scales.items()}

    def add(self, at, numbers):
        """Keep one draw's numbers (m, d) or (m, d, d)."""
        for name, array in self._scaled(numbers).items():
            self._mixtures[name].add(slice(None), array.reshape((len(array), -1)), 0.0)
            if name in self._stores:
                self._stores[name][at] = array
        self._average[at] = array.mean(axis=0)

    def dataset(self):
        """Draws, their means and standard deviations, and averages over observations."""
        variables = {
            name: (("chain", "draw", *self._dims), array) for name, array in self._stores.items()
        }
        known = 1.0 if np.prod(self._average.shape[:2]) > 1 else np.nan  # one draw has no spread
        for name, mixture in self._mixtures.items():
            mean, sd, _ = mixture.moments()
            for suffix, moment in (("mean", mean), ("sd", known * sd)):
                variables[f"{name}_{suffix}"] = self._dims, moment.reshape(self._shape)
        variables[f"average_{self._name}"] = ("chain", "draw", *self._dims[1:]), self._average
        return self._named(variables)

    def of_one(self, numbers):
        """The Dataset of one distribution, such as a mixture, which has no draws."""
        scaled = self._scaled(numbers)
        variables = {name: (self._dims, array) for name, array in scaled.items()}
        average = scaled[f"{self._name}_scaled"].mean(axis=0)
        return self._named(variables | {f"average_{self._name}": (self._dims[1:], average)})

    def _named(self, variables):
        named = xr.Dataset(variables | {"value": self._value}, self._coords, self._attrs)
        of = "the feature" if self._name == "relevance" else "both features"
        for name in named:
            if name.startswith((f"{self._name}_scaled", "average_")):
                named[name].attrs["units"] = f"per standard deviation of {of}"
        return named


PAIRED = ("obs", "feature", "feature_bis")
"""Dims of interactions: the second feature of a pair has a dim of its own."""


def change(parameters, factor=1.0):
    """How fast a distribution changes with x: KL-diff and KL-diff^2.

    With parameters theta_k of Fisher information I_k, uncorrelated, the Kullback-Leibler divergence
    from p(x) to p(x + t e_d) is ``t^2 / 2 sum_k I_k theta_k,d^2`` to second order.

    Parameters
    ----------
    parameters : sequence of (Jet, array (m,))
        Parameters of the distribution and the Fisher information of each.
    factor : float
        Of the sum for pairs of features.

    Returns
    -------
    first : array (m, d)
        ``sqrt(sum_k I_k theta_k,d^2)``.
    second : array (m, d, d) or None
        ``sqrt(factor sum_k I_k theta_k,de^2)``.

    References
    ----------
    Paananen, Andersen and Vehtari, "Uncertainty-aware sensitivity analysis using Renyi divergences"
    (2021), equations 2 and 3; the supplement has the latter with a factor of 1.
    """
    roots = [(jet, np.sqrt(information)) for jet, information in parameters]
    first = sum((root[:, None] * jet.first) ** 2 for jet, root in roots)
    if any(jet.second is None for jet, _ in roots):
        return np.sqrt(first), None
    second = sum((root[:, None, None] * jet.second) ** 2 for jet, root in roots)
    return np.sqrt(first), np.sqrt(factor * second)
