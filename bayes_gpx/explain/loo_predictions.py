"""Each training response predicted from the others, without refitting."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr
from arviz_stats import loo

from bayes_gpx.aliases import Column, Draws
from bayes_gpx.data.row_data import RowData, counted
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.draws.leave_one_out import OF_ONE, as_counted, by_row, draw_left_out
from bayes_gpx.draws.left_out_together import LEAD, first_of_each, log_units, read_groups
from bayes_gpx.draws.naming import origin, recorded, under_one_name
from bayes_gpx.draws.scales import mean_response, of_functions
from bayes_gpx.explain.answered import documented
from bayes_gpx.inference.laplace import smoothed_of_points
from bayes_gpx.likelihoods.softmax_expectations import probabilities
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.system.warning import warn
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.likelihoods.base import ScalarLikelihood
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import OneDraw

FEWEST_SMOOTHED = 30
"""Fewest draws for which the tail of the weights is smoothed."""


def _asked(draw: OneDraw) -> list:
    """Leave-one-out (or leave-group-out) quantities of one draw, for `loo_predictions`."""
    # Log densities of the rows that are left out together and of each y_i, the moments of f_i, the
    # mean response, and P(Y_i <= y_i).
    given, observation = draw.given, draw.given.likelihood
    if draw.groups is None:
        left = draw.strategy.leave_one_out(given)
        _, terms, mean, spread = left
        joint = as_counted(draw, left)
    else:
        joint, terms, mean, spread = draw.strategy.leave_groups_out(given, draw.groups)
    outputs = [joint, terms, mean, spread]
    if not observation.class_shape:
        known = observation.shaping(given.theta)
        outputs.append(observation.expected(mean, spread, given.exposure, **known).value)
    if observation.ordered:
        moments = (mean, spread, given.theta, given.exposure)
        ordered = cast("ScalarLikelihood", observation)
        outputs.append(ordered.cumulative_predictive(given.y, *moments))
    return outputs


@recorded
@documented
@on_cores
def loo_predictions(
    model: Model,
    idata: Draws,
    *,
    groups: str | Column | None = None,
    num_draws: int | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Predict each training response from the others, without refitting.

    Use it to check a fit, and `groups` to estimate how well a new group is predicted: all rows of a
    group, such as the visits of one patient, are then left out together.

    For each hyperparameter draw theta, ``p(y_i | y_-i, theta)`` has a closed form. For a
    non-Gaussian likelihood, the site of y_i is removed from the posterior of f, and f_i is
    integrated out. The draws of theta also depend on y_i; Pareto-smoothed importance weights (PSIS)
    correct for this.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters. A single draw has no weights, so its
        hyperparameters still depend on y_i.
    groups : str, or series or array (n,), optional
        A column of X or Z, or a label for each row; at least two groups.

    Returns
    -------
    xarray.Dataset
        ======================================  ==================  =============
        variable                                dims                unit
        ======================================  ==================  =============
        `y`                                     chain, draw, obs    y
        `log_weights`                           chain, draw, obs    none
        `y_mean`, `y_sd`, `residual`            obs                 y
        `response_mean`, `response_sd`          obs                 y or S(f)
        `elpd`                                  obs                 log density
        `pareto_k`                              obs                 none
        `pit`                                   obs                 probability
        `elpd_group` (with `groups`)            group               log density
        ======================================  ==================  =============

        `y` is drawn from ``p(y_i | y_-i, theta)``, without weights; `log_weights` weigh all other
        variables. `pit` is the probability of at most y_i, randomized for counts. Counts have
        `rate_mean` and `rate_sd`, and classes `probability_mean` and `probability_sd`, instead of
        `y_mean` and `y_sd`; classes have no `pit`. Several outputs add a last dim `output`.
        `elpd_group` is not the sum of `elpd`, which describes single responses. The guide page "Fit
        and check" shows how to test the PITs.

    Raises
    ------
    ValueError
        If `idata` belongs to another model; for groups that do not fit the rows; and if a group's
        joint density has no closed form.

    Warns
    -----
    UserWarning
        By ArviZ, if Pareto k is so large that the results for a row are unreliable.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equations 5.10 to
    5.12; Vehtari et al., "Bayesian leave-one-out cross-validation approximations for Gaussian
    latent variable models" (2016), section 3.3; Czado, Gneiting and Held, "Predictive model
    assessment for count data" (2009), for randomized PITs.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.loo_predictions(model, theta, progressbar=False)
    >>> round(found["y_mean"].values[10].item(), 2)  # sin(30 / 19)
    1.0
    """
    refuse_swapped(model, idata)
    if seed is not None:
        count("seed", seed, 0)
    codes, labels = None, None
    if groups is not None:
        codes, labels = read_groups(model.training, groups)
    found, hyper, jitter = at_training_rows(
        model, idata, _asked, groups=codes, num_draws=num_draws, progressbar=progressbar
    )
    joint, terms, mean, spread, *more = found
    observation, training = model.specification.observation, model.training
    exposure, rows = training.scaled_exposure, training.row_data or RowData()
    counts = counted(training.row_data, training.n)
    if observation.processes:
        cov = spread @ spread.swapaxes(-1, -2)
        moments = observation.moments(mean + observation.centers, cov)
        (expected, around), at_most = (v[..., 0] for v in moments), more
    elif observation.class_shape:
        expected, at_most = probabilities(mean, spread @ spread.swapaxes(-1, -2)), []
        label = training.scaled()["y"].astype(int)[:, None]
        terms = counts * np.log(np.take_along_axis(expected, label[None, None], axis=-1)[..., 0])
        alone = True if codes is None else np.bincount(codes)[codes] == 1
        joint = np.where(alone & (counts == 1.0), terms, joint)
    else:
        expected, *at_most = more
    scaling = training.response_scaling
    if codes is None:
        log_weights, pareto_k = _weights(model, hyper, joint)
    else:
        joint = joint[..., first_of_each(codes)]
        of_groups, pareto_k = _weights(model, hyper, joint)
        log_weights, pareto_k = of_groups[..., codes], pareto_k[codes]
    rng, each = np.random.default_rng(seed), OF_ONE if hyper.alone else 1
    f, y = draw_left_out(model, hyper, mean, spread, each, rng)
    every = _repeated(log_weights, each)
    weights = np.exp(log_weights)
    first = _averaged(weights, expected)
    if observation.processes:
        sd = np.sqrt(_averaged(weights, around + (expected - first) ** 2))
    elif observation.mean_name is None:
        own = [model.specification.of_outputs(theta, training.code) for _, theta in hyper]
        noise = np.array([observation.variance(0.0, theta, exposure) for theta in own])
        around = spread + noise.reshape((*spread.shape[:2], -1))
        shift = np.array([observation.shift(theta) for theta in own])
        expected = expected + shift.reshape((*spread.shape[:2], -1))
        first = _averaged(weights, expected)
        sd = scaling.scale * np.sqrt(_averaged(weights, around + (expected - first) ** 2))
        first = scaling.center + scaling.scale * first
    else:
        known = of_functions(model, hyper, f.shape[1])
        response = mean_response(observation, f, 1.0 if exposure is None else exposure, known)
        share = _repeated(log_weights, f.shape[1] // log_weights.shape[1])
        sd = np.sqrt(_averaged(np.exp(share), (response - first) ** 2))
    name, dims = observation.reported, ("obs", "class")[: first.ndim]
    variables = {
        "y": ((*LEAD, "obs"), scaling.center + scaling.scale * y),
        "log_weights": ((*LEAD, "obs"), every),
        f"{name}_mean": (dims, first),
        f"{name}_sd": (dims, sd),
        "elpd": ("obs", counts * _log_averaged(log_weights, terms / counts) - training.log_units),
        "pareto_k": ("obs", pareto_k),
    }
    variables |= under_one_name(variables, name)
    if first.ndim == 1:
        variables["residual"] = ("obs", np.where(rows.censored, np.nan, training.y - first))
    if model.specification.conditioned.ordered:
        pit = _averaged(weights, at_most[0])
        if observation.discrete:
            probability = _averaged(weights, np.exp(terms / counts))
            pit -= rng.uniform(size=training.n) * probability
        variables["pit"] = ("obs", np.clip(pit, 0.0, 1.0))
    draw = np.arange(each) if hyper.alone else hyper.draw
    coords = {"chain": hyper.chain, "draw": draw, "obs": training.X.index}
    if codes is not None:
        elpd = _log_averaged(of_groups, joint) - log_units(training, codes)
        variables["elpd_group"], coords["group"] = ("group", elpd), labels
    attrs = {"relative_jitter": jitter, "units": training.said_of_y("{y}"), **origin(model)}
    if training.labels is not None:
        attrs["labels"] = [str(label) for label in training.labels]
        coords |= {"class": list(training.labels)} if first.ndim == 2 else {}
    return by_row(training, variables, coords, attrs)


def _averaged(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums over draws of weights (chain, draw, n) times values (chain, draw, n[, C])."""
    return np.einsum("cdn,cdn...->n...", weights, values)


def _log_averaged(log_weights: np.ndarray, log_values: np.ndarray) -> np.ndarray:
    """Logs (n,) of sums over draws of weights times values, from log weights and log values."""
    return np.logaddexp.reduce((log_weights + log_values).reshape((-1, log_values.shape[-1])))


def _repeated(log_weights: np.ndarray, each: int) -> np.ndarray:
    """Log weights of several values for each draw, (chain, draw * each, n)."""
    return np.repeat(log_weights, each, axis=1) - np.log(each)


def _weights(
    model: Model, hyper: HyperparameterDraws, terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed log weights (chain, draw, n), which sum to 1, and the Pareto k (n,)."""
    if len(hyper) < FEWEST_SMOOTHED:
        if len(hyper) > 1:
            warn(
                f"Weights of {len(hyper)} draws are not smoothed and have no Pareto k, so a few "
                f"draws may have most of the weight. Use {FEWEST_SMOOTHED} draws or more.",
                UserWarning,
            )
        return _normalised(-terms), np.full(terms.shape[-1], np.nan)
    coords = {"chain": hyper.chain, "draw": np.arange(len(hyper.draw))}
    inferred = {
        name: ((*LEAD, *(f"{name}_{k}" for k in range(values.ndim - 2))), values)
        for name, values in hyper.values.items()
        if name not in model.fixed
    }
    posterior = xr.Dataset(inferred, coords)
    try:
        return _smoothed(posterior, terms)
    except ValueError:  # a tail of equal weights, as repeated draws may leave
        log_weights, pareto_k = smoothed_of_points(terms.reshape((-1, terms.shape[-1])))
        return log_weights.reshape(terms.shape), pareto_k


def _smoothed(posterior: xr.Dataset, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left_out = xr.Dataset({"y": ((*LEAD, "obs"), terms)}, posterior.coords)
    tree = xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": left_out})
    found = loo(tree, pointwise=True)
    log_weights = found.log_weights.transpose(*LEAD, "obs").values
    return _normalised(log_weights), found.pareto_k.values.reshape(-1)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    """Log weights (chain, draw, n) that sum to 1 over the draws."""
    return log_weights - np.logaddexp.reduce(log_weights.reshape((-1, log_weights.shape[-1])))
