"""Predictive samples and checks for ArviZ, and power scaling of priors."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, cast

import xarray as xr
from pymc.stats import compute_log_prior

from bayes_gpx.aliases import Column, Draws, Table
from bayes_gpx.draws.evaluate import LARGEST_JOINT
from bayes_gpx.draws.hyperparameter_draws import (
    hyperparameter_draws,
    refuse_other_model,
    refuse_swapped,
)
from bayes_gpx.draws.leave_one_out import log_likelihood, log_likelihood_given
from bayes_gpx.explain import predictions
from bayes_gpx.export.long_form import DRAWS
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import on_cores

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

LARGEST = 2.0**62
"""Counts above are cut to it: ArviZ asks for whole numbers."""


@on_cores
def sample_posterior_predictive(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    exposure: Column | None = None,
    trials: Column | None = None,
    noise_sd: Column | None = None,
    joint: bool = True,
    num_draws: int | None = None,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Draw responses from the posterior predictive distribution, given the data.

    Use it instead of ``pm.sample_posterior_predictive(idata, model=model.pymc)``. The PyMC function
    draws y from the hyperparameters alone, because f is integrated out, so its replications ignore
    the training responses. If latent values are in ``model.pymc`` but not in the fit, it draws them
    from their prior. It then gives a `PosteriorPredictiveWarning`, except for a model within a
    larger ``pm.Model``.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit by ``model.fit`` or ``pm.sample``, or a dict of fixed hyperparameters on the model's
        scale.
    X_new, Z_new : frame or array, optional
        New rows; None for the training rows.
    groups_new : array (m,), optional
        Groups of the new rows, for models with groups.
    exposure : array (m,), optional
        Exposure of new counts.
    trials : array (m,), optional
        Trials of new rows for "binomial".
    noise_sd : array (m,), optional
        Noise of new rows for a model with `noise_sd`, which needs it.
    joint : bool
        Draw all rows jointly, as PyMC does: one replicated data set for each draw, at most 5000
        rows. Otherwise rows are drawn independently, which is faster.
    num_draws : int, optional
        Thin the hyperparameter draws evenly to at most this many.
    seed : int, optional
        Seed of the draws.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.DataTree
        For training rows, the groups `posterior_predictive` with `y` (chain, draw, obs) in user
        units and `observed_data`; for new rows, only the group `predictions`. Classes are coded 0,
        1, ... Observed values of several outputs have the dim `cell`, as in the fit, and draws are
        independent between outputs.

    Raises
    ------
    ValueError
        If `idata` belongs to another model, rows do not fit it, or there are too many rows to draw
        jointly.

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> model = bx.GP(X, np.sin(X[:, 0]), scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> tree = bx.sample_posterior_predictive(model, theta, seed=1, progressbar=False)
    >>> drawn = tree["posterior_predictive"]["y"]
    >>> round(np.corrcoef(drawn.isel(chain=0, draw=0), np.sin(X[:, 0]))[0, 1].item(), 2)
    1.0
    """
    options: dict[str, Any] = {"joint": joint, "seed": seed, "progressbar": progressbar}
    options |= {"groups_new": groups_new, "exposure": exposure, "trials": trials}
    options |= {"noise_sd": noise_sd, "num_draws": num_draws}
    found = _replicated(model, idata, X_new, Z_new, **options)
    if "y" not in found:
        raise ValueError(
            "The model has noise_sd, but noise_sd of the new rows is missing. Pass noise_sd=, a "
            "positive number for each row of X_new."
        )
    return _groups(model, found["y"], observed=X_new is None)


def _replicated(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    joint: bool,
    **options: Any,
) -> xr.Dataset:
    """Draws of f and of y, as `bayes_gpx.predictions` returns them."""
    refuse_swapped(model, idata)
    rows = model.training.n if X_new is None else len(cast(Sized, X_new))
    if joint and rows > LARGEST_JOINT:
        raise ValueError(
            f"{rows} rows would be drawn jointly; at most {LARGEST_JOINT} are. Pass joint=False to "
            "draw each row by itself, or fewer new samples."
        )
    return predictions(model, idata, X_new, Z_new, joint=joint, **options)


def _groups(model: Model, drawn: xr.DataArray, *, observed: bool) -> xr.DataTree:
    """A tree of draws of y, with the observed y where they are of the training rows."""
    name, obs = model.in_model("y"), model.in_model("obs")
    found = {"posterior_predictive" if observed else "predictions": drawn.rename(obs=obs)}
    if observed:
        dim, labels = model.training.responses
        dim = model.in_model(dim)
        found = {"posterior_predictive": _observed(model, drawn, dim)}
        found["observed_data"] = xr.DataArray(model.training.y, {dim: labels}, [dim])
    if model.specification.observation.discrete:
        found = {k: values.clip(max=LARGEST).astype("int64") for k, values in found.items()}
    groups = {k: values.drop_attrs().to_dataset(name=name) for k, values in found.items()}
    return xr.DataTree.from_dict(groups)


def _observed(model: Model, drawn: xr.DataArray, dim: str) -> xr.DataArray:
    """Draws at the training rows as the model has its responses: the observed ones of outputs."""
    outputs = model.training.outputs
    if outputs is None:
        return drawn.rename(obs=dim)
    cells = drawn.transpose("chain", "draw", "obs", "output").values[..., outputs.observed]
    coords = {"chain": drawn["chain"], "draw": drawn["draw"], dim: outputs.labels}
    return xr.DataArray(cells, coords, ["chain", "draw", dim])


@on_cores
def predictive_checks(
    model: Model,
    idata: Draws,
    *,
    joint: bool = False,
    cores: int | None = None,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Prepare a fit for ArviZ's predictive checks.

    For example, ``az.plot_ppc_pava(bx.predictive_checks(model, idata))`` for classes,
    ``az.plot_ppc_rootogram`` for counts, and ``az.plot_ppc_dist`` for real numbers. Each row is
    replicated given all responses, including its own, so these checks flatter a flexible model.
    Checks that leave the row out are more exact with `bayes_gpx.loo_predictions`, which integrates
    over f. ArviZ's own, such as ``az.plot_loo_pit``, weigh the draws of f, so check the Pareto k of
    ``az.loo``.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        A fit, or a dict of fixed hyperparameters on the model's scale.
    joint : bool
        Draw all rows jointly, at most 5000. This is slower, and required by checks that pool rows,
        such as ``plot_ppc_rootogram`` and ``plot_ppc_tstat``.
    seed : int, optional
        Seed of the draws.
    progressbar : bool
        Show progress.

    Returns
    -------
    xarray.DataTree
        A copy of the fit with the groups of `sample_posterior_predictive` and with `log_likelihood`
        (chain, draw, obs): the log density of each response given the f of its replication, as
        ``az.plot_loo_pit`` needs it. It replaces the terms of the fit, which are integrated over f.

    Raises
    ------
    ValueError
        If `idata` belongs to another model.
    """
    refuse_swapped(model, idata)
    model.training.refuse_one_output()
    model.training.refuse_censored("predictive_checks")
    found = _replicated(model, idata, joint=joint, seed=seed, progressbar=progressbar)
    drawn = _groups(model, found["y"], observed=True)
    outputs = model.training.outputs
    scaling = model.training.y_scaling if outputs is None else outputs.scaling_of_cells
    f = scaling.apply(_observed(model, found["f"], "obs").values)
    terms = log_likelihood_given(model, hyperparameter_draws(model, idata), f, smooth=False)
    replicated = drawn["posterior_predictive"].to_dataset()
    drawn["log_likelihood"] = xr.DataTree(replicated.map(lambda y: y.copy(data=terms)))
    if isinstance(idata, dict):
        return drawn
    tree = idata.copy()
    for group, dataset in drawn.children.items():
        tree[group] = dataset
    return tree


@on_cores
def power_scaling(
    model: Model, idata: Draws, *explained: xr.Dataset, cores: int | None = None
) -> Any:
    """Prepare a fit and explanations for ArviZ's prior sensitivity checks.

    For example, ``az.psense_summary(bx.power_scaling(model, idata, bx.attributions(...,
    obs=[3])))`` shows how hyperparameters and explanations would change if the prior or the
    likelihood had slightly more or less weight. ``az.plot_psense_dist`` takes the result too.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        A fit with several draws: "nuts", or "laplace", for which the answer is as good as the
        approximation.
    *explained : xarray.Dataset
        Explanations of this fit with all draws. Choose a few rows, since each number is a row of
        the summary.

    Returns
    -------
    xarray.DataTree
        `posterior`, with the draws of hyperparameters and explanations; `log_prior` of each
        hyperparameter; and the joint `log_likelihood` of all of y, instead of leave-one-out terms.

    Raises
    ------
    ValueError
        If `idata` belongs to another model or has one draw, and for explanations without draws,
        with draws of another fit, or with equal names.

    References
    ----------
    Kallioinen, Paananen, Burkner and Vehtari, "Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling" (2024).
    """
    refuse_swapped(model, idata)
    refuse_other_model(model, idata)
    posterior = idata["posterior"].to_dataset()
    for found in explained:
        drawn = [name for name in found if DRAWS <= set(found[name].dims)]
        if "log_weights" in drawn:
            raise ValueError(
                "An explanation has draws of unequal weight, which ArviZ would count equally. "
                "Leave out the result of bx.loo_predictions."
            )
        if not drawn or any(not found[dim].equals(posterior[dim]) for dim in DRAWS):
            raise ValueError(
                "An explanation has no draws, or other ones than the fit. Pass the result of an "
                "explanation function for this idata, with keep='draws' and without num_draws."
            )
        for name in drawn:
            if name in posterior:
                raise ValueError(
                    f"There are two {name!r}. Use different names: found.rename({name}=...)."
                )
            own = found[name].reset_coords(drop=True)
            taken = {d: f"{name}_{d}" for d in own.dims if d not in DRAWS and d in posterior.dims}
            posterior[name] = own.rename(taken)
    # The joint density needs no terms of single rows: of one, where rows are left out separately.
    some = model.training.X.index[:1] if model.specification.strategy_of().by_sums else None
    found = log_likelihood(model, idata, obs=some, progressbar=False)
    joint = found["log_marginal_likelihood"]
    tree = xr.DataTree.from_dict({"posterior": posterior})
    prior = compute_log_prior(
        idata,
        model=model.objective,
        extend_inferencedata=False,
        progressbar=False,
        compile_kwargs={"mode": MODE},
    )
    tree["log_prior"] = xr.DataTree(prior)
    tree["log_likelihood"] = xr.DataTree(joint.to_dataset(name=model.in_model("y")))
    return tree
