"""Responses that were left out: log densities, for comparing models, and draws."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_gpx.aliases import Draws, Labels, Tensor
from bayes_gpx.data.row_data import RowData, counted
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.evaluate import jets
from bayes_gpx.draws.hyperparameter_draws import hyperparameter_draws, refuse_swapped
from bayes_gpx.draws.naming import recorded
from bayes_gpx.draws.points import Points, refuse_outside, rows_labelled, rows_numbered
from bayes_gpx.draws.scales import symbols_of_normal
from bayes_gpx.likelihoods.rows import Weighted
from bayes_gpx.numerics.linear_algebra import sqrt_psd
from bayes_gpx.numerics.threads import ThreadedFunction, on_cores
from bayes_gpx.posteriors.base import LATENT, WHITENED

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.likelihoods.base import ScalarLikelihood, VectorLikelihood
    from bayes_gpx.posteriors.base import LeftOut, OneDraw

OF_ONE = 1000
"""Responses drawn where there is a single draw of the hyperparameters."""


def _left_out(draw: OneDraw) -> list:
    found = draw.strategy.leave_one_out(draw.given)
    return [found.evidence, found.terms]


def as_counted(draw: OneDraw, left: LeftOut) -> Tensor:
    """Log density (n,) of each y given the others, as often as its row counts.

    These are the ratios of importance weights: of a row of weight w, the posterior of the
    hyperparameters contains the integral of p(y | f)^w, which is not p(y)^w.
    """
    given = draw.given
    if not isinstance(given.likelihood, Weighted):
        return cast("Tensor", left.terms)
    sampled = given.theta.keys() & {LATENT, WHITENED}
    if given.likelihood.class_shape and sampled:
        return cast("Tensor", left.terms)  # no closed form
    if given.likelihood.class_shape or given.likelihood.normal and not sampled:
        alone = pt.arange(given.y.shape[0])
        return cast("Tensor", draw.strategy.leave_groups_out(given, alone).joint)
    moments = left.mean, left.spread
    return given.likelihood.log_predictive(given.y, *moments, given.theta, given.exposure)


def _ratios(draw: OneDraw) -> list:
    return [as_counted(draw, draw.strategy.leave_one_out(draw.given))]


@recorded
@on_cores
def log_likelihood(
    model: ModelLike,
    idata: Draws,
    *,
    obs: Labels | None = None,
    num_draws: int | None = None,
    cores: int | None = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Compute leave-one-out log predictive densities for `arviz.loo`.

    Use it if a fit contains no such terms. The observations of a Gaussian process are correlated,
    so `arviz.loo` needs ``log p(y_i | y_-i, theta)``, which has a closed form for each
    hyperparameter draw theta. The result also contains the log marginal likelihood.

    With an approximation, the terms belong to the approximate process; with inducing points they
    add the residual variance, and the log marginal likelihood is Titsias' lower bound. For a
    non-Gaussian likelihood both come from Laplace's approximation, with each observation removed at
    the mode, or from the variational bound. Terms of rows with weights are multiplied by these;
    importance weights that `arviz.loo` makes from such terms are exact for weights of 1 alone, so
    use `compare` or `loo_predictions`. If latent values were sampled, they are ``log p(y_i |
    f_-i, theta)``, integrated over f_i given the other latent values, and ``log p(y | f)``.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit by "laplace" or "nuts"; or a dict of fixed hyperparameters.
    obs : label, list of labels or mask, optional
        Only the terms of these rows, which is faster if the density needs only sufficient
        statistics: with `HSGP` and a Gaussian likelihood. `arviz.loo` of a random sample of m rows,
        times n / m, estimates the value for all rows. Out-of-core rows are numbered from 0, and
        `obs` is required.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.Dataset
        `log_likelihood` (chain, draw, obs) and `log_marginal_likelihood` (chain, draw), of y in
        user units. Models with several outputs add a last dim `output` to `log_likelihood`: each
        value is given all others, including the other outputs of its row, and missing values are
        NaN.

    Raises
    ------
    ValueError
        If `idata` has a single draw, as from MAP: importance weights need a posterior. Also for
        out-of-core rows without `obs`, or without sufficient statistics.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equations 5.10
    to 5.12; Vehtari et al., "Bayesian leave-one-out cross-validation approximations for Gaussian
    latent variable models" (2016), section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.log_likelihood(model, theta, progressbar=False)
    >>> found["log_likelihood"].dims
    ('chain', 'draw', 'obs')
    """
    refuse_swapped(model, idata)
    refuse_single_draw(idata)
    training = model.training
    if obs is not None and training.outputs is not None:
        raise ValueError(
            "obs was given, but the model has several outputs. Leave obs out, and select from the "
            "result."
        )
    if obs is None and training.streamed and model.specification.strategy_of().by_sums:
        raise ValueError(
            f"The {training.n} training rows are out-of-core data, and obs was not given. Pass "
            f"numbers of some rows, such as obs=numpy.random.default_rng(0).choice({training.n}, "
            f"{min(training.n, 500)}, replace=False)."
        )
    rows, labels = None, training.X.index
    if obs is not None and training.streamed:
        rows = labels = rows_numbered(training.n, obs)
    elif obs is not None:
        rows = rows_labelled(labels, obs)
        labels = labels[rows]
    (logp, terms), hyper, jitter = at_training_rows(
        model, idata, _left_out, rows=rows, num_draws=num_draws, progressbar=progressbar
    )
    log_scale = np.broadcast_to(training.log_units, (training.n,))
    lead, terms = ("chain", "draw"), terms - (log_scale if rows is None else log_scale[rows])
    variables = {
        "log_likelihood": ((*lead, "obs"), terms),
        "log_marginal_likelihood": (lead, logp - log_scale.sum()),
    }
    coords = {
        "chain": hyper.chain,
        "draw": hyper.draw,
        "obs": labels,
    }
    attrs = {"relative_jitter": jitter, "units": f"log density of {training.y_name}"}
    return by_row(training, variables, coords, attrs)


def of_responses(model: ModelLike, idata: Draws, *, progressbar: bool = True) -> xr.DataArray:
    """The terms of `log_likelihood`, of several outputs as a vector of cells, without gaps."""
    terms = log_likelihood(model, idata, progressbar=progressbar)["log_likelihood"]
    outputs = model.training.outputs
    if outputs is None:
        return terms
    return _by_response(model.training, terms.values[..., outputs.observed], terms)


def ratios(model: ModelLike, idata: Draws, *, progressbar: bool = True) -> xr.DataArray:
    """Log densities (chain, draw, obs) of rows as often as they count, for importance weights."""
    (found,), *_ = at_training_rows(model, idata, _ratios, progressbar=progressbar)
    return xr.DataArray(found, dims=["chain", "draw", "obs"])


def responses_labelled(
    training: TrainingData, terms: np.ndarray, draws: xr.DataTree
) -> xr.DataArray:
    """Log densities (chain, draw, response) of scaled responses, in user units and labelled."""
    return _by_response(training, terms - training.log_units, draws)


def _by_response(
    training: TrainingData, terms: np.ndarray, draws: xr.DataTree | xr.DataArray
) -> xr.DataArray:
    dim, labels = training.responses
    coords = {"chain": draws["chain"].values, "draw": draws["draw"].values, dim: labels}
    return xr.DataArray(terms, coords, ["chain", "draw", dim])


def by_row(training: TrainingData, variables: dict, coords: dict, attrs: dict) -> xr.Dataset:
    """A Dataset of results for each response; several outputs add a dim `output`, with NaN."""
    # A model of one output returns only this output.
    outputs = training.outputs
    if outputs is None:
        return xr.Dataset(variables, coords, attrs)
    found = {}
    for name, (dims, values) in variables.items():
        own = (dims,) if isinstance(dims, str) else dims
        whole = "obs" not in own
        found[name] = (own, values) if whole else ((*own, "output"), outputs.table(values))
    table = xr.Dataset(found, {**coords, "output": list(outputs.names)}, attrs)
    return table if outputs.asked is None else table.isel(output=outputs.asked, drop=True)


def refuse_single_draw(idata: Draws) -> None:
    """Raise for a fit with one draw, which importance weights cannot correct."""
    if isinstance(idata, xr.DataTree) and "posterior" in idata.children:
        if idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"] == 1:
            raise ValueError(
                "idata holds one draw, as from fit('map'), but leave-one-out comparison needs "
                "draws of the posterior. Fit with method='laplace' or method='nuts'."
            )


def held_out_log_likelihood(
    model: ModelLike,
    idata: Draws,
    rows: TrainingData,
    *,
    progressbar: bool = True,
) -> xr.DataArray:
    """Log predictive densities log p(y_i | y, theta) of new y (chain, draw, obs), in user units."""
    # `rows` are scaled as the model's rows.
    observation, scaled = model.specification.observation_of(rows), rows.scaled()
    refuse_outside(model, rows.X.values, "The rows left out")
    values = rows.X.values, None if rows.Z is None else rows.Z.values
    inputs = {name: scaled[name] for name in scaled if name in ("X", "Z", "group")}
    where = Points(inputs, *values, rows.X.index)
    hyper = hyperparameter_draws(model, idata)
    terms = np.empty((len(hyper.chain), len(hyper.draw), rows.n))
    given = scaled["y"].astype("float64"), scaled.get("exposure", np.ones(rows.n))
    for at, theta, mean, variance, _ in jets(model, hyper, where, 0, progressbar=progressbar):
        spread = sqrt_psd(variance.value) if observation.class_shape else variance.value
        own = [theta[name] for name in observation.hyperparameters]
        terms[at] = _predictive_density(observation)(mean.value, spread, *given, *own)
    coords = {"chain": hyper.chain, "draw": hyper.draw, "obs": rows.X.index}
    terms -= rows.log_units
    return xr.DataArray(terms, coords, ["chain", "draw", "obs"])


def log_density_at(
    model: ModelLike,
    hyper: HyperparameterDraws,
    rows: TrainingData,
    mean: np.ndarray,
    spread: np.ndarray,
) -> xr.DataArray:
    """Log densities of new y (chain, draw, obs), in user units, where f is the same for all."""
    # `mean` and `spread` are the moments of f (S[, C]) for each draw, as in `LeftOut`.
    observation, scaled = model.specification.observation_of(rows), rows.scaled()
    given = scaled["y"].astype("float64"), scaled.get("exposure", np.ones(rows.n))
    terms = np.empty((len(hyper), rows.n))
    for k, (_, theta) in enumerate(hyper):
        same = [np.broadcast_to(v[k], (rows.n, *v.shape[1:])).copy() for v in (mean, spread)]
        own = [theta[name] for name in observation.hyperparameters]
        terms[k] = _predictive_density(observation)(*same, *given, *own)
    terms -= rows.log_units
    coords = {"chain": hyper.chain, "draw": hyper.draw, "obs": rows.X.index}
    shape = len(hyper.chain), len(hyper.draw), rows.n
    return xr.DataArray(terms.reshape(shape), coords, ["chain", "draw", "obs"])


def averaged(terms: xr.DataArray, rows: RowData | None = None) -> np.ndarray:
    """Logs of means over draws of densities, from logs (chain, draw, obs): (obs,).

    Terms of `rows` with weights are weighted, and so are the results.
    """
    each = terms.transpose("chain", "draw", "obs").values.reshape((-1, terms.sizes["obs"]))
    counts = counted(rows, each.shape[1])
    return counts * (np.logaddexp.reduce(each / counts, axis=0) - np.log(len(each)))


def log_likelihood_given(
    model: ModelLike, hyper: HyperparameterDraws, f: np.ndarray, *, smooth: bool = True
) -> np.ndarray:
    """Log density (chain, draw * k, n) of each response given values of functions at its row."""
    # f is (chain, draw * k, n[, C]) on the model's scale.
    # There are k functions for each hyperparameter draw; y is in user units. With `smooth`, f lacks
    # the deviations of the training rows, which are integrated out.
    training = model.training
    observation, scaled = model.specification.conditioned, training.scaled()
    given = scaled["y"].astype("float64"), scaled.get("exposure", np.ones(training.n))
    by_output = bool(model.specification.noise_of_outputs(hyper.values))
    density, deviations = _predictive_density(observation, by_output), np.zeros(training.n)
    by_sums = model.specification.strategy_of(hyper.values).by_sums
    deviates = smooth and training.Z is not None and not by_sums
    if deviates:
        (own,), *_ = at_training_rows(model, hyper, _own_variance, progressbar=False)
        own_variance = np.maximum(own, 0.0)
    each = f.shape[1] // len(hyper.draw)
    terms = np.empty(f.shape[:3])
    for (chain, draw), theta in hyper:
        if deviates:
            deviations = own_variance[chain, draw]
        spread = deviations
        if observation.class_shape:
            spread = np.sqrt(deviations)[:, None, None] * np.eye(f.shape[3])
        of_rows = model.specification.of_outputs(theta, training.code)
        given_theta = [of_rows[name] for name in observation.hyperparameters]
        for k in range(draw * each, (draw + 1) * each):
            terms[chain, k] = density(f[chain, k], spread, *given, *given_theta)
    return terms - training.log_units


def _own_variance(draw: OneDraw) -> list:
    """Variance of the observations around their smooth part."""
    return [draw.given.deviations]


@lru_cache(maxsize=8)
def _predictive_density(
    observation: ScalarLikelihood | VectorLikelihood, by_row: bool = False
) -> ThreadedFunction:
    """Function from moments of normal f, y, exposure and hyperparameters to log p(y)."""
    moments = symbols_of_normal(observation)
    y, exposure = pt.dvector("y"), observation.exposures()
    theta = observation.symbols()
    if by_row:
        theta = {name: pt.dvector(name) for name in theta}
    density = observation.score(y, *moments, theta, exposure)
    return ThreadedFunction([*moments, y, exposure, *theta.values()], density)


def draw_left_out(
    model: ModelLike,
    hyper: HyperparameterDraws,
    mean: np.ndarray,
    spread: np.ndarray,
    each: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Latent values and responses drawn given the others, (chain, draw * each, n[, C])."""
    # From the moments (chain, draw, n, ...) of `bayes_gpx.posteriors.base.LeftOut`.
    # There are more latent values where noise is not normal: sds of the mean response come from
    # them.
    observation = model.specification.observation
    exposure, parts = model.training.scaled_exposure, []
    size = each if observation.mean_name is None else max(each, -(-OF_ONE // len(hyper)))
    for at, theta in hyper:
        of_row = model.specification.of_outputs(theta, model.training.code)
        normal = rng.standard_normal((size, *mean[at].shape))
        if observation.class_shape:
            f = mean[at] + np.einsum("nij,dnj->dni", spread[at], normal)
        else:
            f = mean[at] + np.sqrt(spread[at]) * normal
        parts.append((f, observation.draw(f[:each], of_row, rng, exposure)))
    f, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return [v.reshape((len(hyper.chain), -1, *v.shape[1:])) for v in (f, y)]
