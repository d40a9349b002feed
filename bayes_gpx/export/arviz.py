"""Results handed to other packages' own types."""

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

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

LARGEST = 2.0**62
"""Counts above are cut to it: ArviZ asks for whole numbers."""


def sample_posterior_predictive(
    model: Model,
    idata: Draws,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    exposure: Column | None = None,
    joint: bool = True,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Draw responses given the data: what PyMC's function of this name does for other models.

    ``pm.sample_posterior_predictive(idata, model=model.pymc)`` draws y from the hyperparameters
    alone, since the function is integrated out: its replications know nothing of the training
    responses. Where latent values are in ``model.pymc`` but not in the fit, it draws them from
    their prior. The responses drawn here are conditioned on y.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` or ``pm.sample`` returned, or a dict of fixed hyperparameters on the
        model's scale.
    X_new, Z_new : frame or array, optional
        New samples; None for the training samples.
    groups_new : array (m,), optional
        The groups of new samples, where the model has groups.
    exposure : array (m,), optional
        Of new counts.
    joint : bool
        Draw all rows jointly, as a set of data that the model makes, which is what PyMC does: at
        most 5000 rows. Else each row by itself, which is faster.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        `posterior_predictive` with `y` (chain, draw, obs) in user units, labels coded 0, 1, ...,
        and `observed_data`; of new samples the group `predictions` alone.

    Raises
    ------
    ValueError
        If `idata` belongs to another model, samples do not fit it, or there are too many rows to
        be drawn jointly.

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
    options |= {"groups_new": groups_new, "exposure": exposure}
    found = _replicated(model, idata, X_new, Z_new, **options)
    return _groups(model, found["y"], observed=X_new is None)


def _replicated(model, idata, X_new=None, Z_new=None, *, joint, **options):
    """Draws of f and of y, as `bayes_gpx.predictions` returns them."""
    refuse_swapped(model, idata)
    model.training.refuse_outputs("sample_posterior_predictive", "bx.predictions draws y.")
    rows = model.training.n if X_new is None else len(cast(Sized, X_new))
    if joint and rows > LARGEST_JOINT:
        raise ValueError(
            f"{rows} rows would be drawn jointly; at most {LARGEST_JOINT} are. Pass joint=False to "
            "draw each row by itself, or fewer new samples."
        )
    return predictions(model, idata, X_new, Z_new, joint=joint, **options)


def _groups(model, drawn, *, observed):
    """A tree of draws of y, with the observed y where they are of the training rows."""
    name, obs = model.in_model("y"), model.in_model("obs")
    found = {"posterior_predictive" if observed else "predictions": drawn.rename(obs=obs)}
    if observed:
        found["observed_data"] = xr.DataArray(
            model.training.y, {obs: model.training.X.index}, [obs]
        )
    if model.specification.observation.discrete:
        found = {k: values.clip(max=LARGEST).astype("int64") for k, values in found.items()}
    groups = {k: values.drop_attrs().to_dataset(name=name) for k, values in found.items()}
    return xr.DataTree.from_dict(groups)


def predictive_checks(
    model: Model,
    idata: Draws,
    *,
    joint: bool = False,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """The fit with all that ArviZ's predictive checks take: responses drawn at the training rows.

    As in ``az.plot_ppc_pava(bx.predictive_checks(model, idata))``, of labels; of counts
    ``az.plot_ppc_rootogram``; of real numbers ``az.plot_ppc_dist``. Each row is replicated given
    all responses, its own among them, so these checks flatter a flexible model. Those that leave
    the row out are more exact with `bayes_gpx.loo_predictions`, which integrates over f. ArviZ's
    own, such as ``az.plot_loo_pit``, weigh the draws of f, so look at Pareto k of ``az.loo``.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree or dict
        What ``model.fit`` returned, or a dict of fixed hyperparameters on the model's scale.
    joint : bool
        Draw all rows jointly, as a set of data that the model makes: slower, and needed where a
        check pools rows, as ``plot_ppc_rootogram`` and ``plot_ppc_tstat`` do; at most 5000 rows.
    seed : int, optional
    progressbar : bool

    Returns
    -------
    xarray.DataTree
        A copy of the fit with the groups that `sample_posterior_predictive` returns, and with
        `log_likelihood` (chain, draw, obs): the log density of each response given the f of its
        replication, as ``az.plot_loo_pit`` needs it. It replaces the terms of the fit, which are
        integrated over f.

    Raises
    ------
    ValueError
        If `idata` belongs to another model.
    """
    found = _replicated(model, idata, joint=joint, seed=seed, progressbar=progressbar)
    drawn = _groups(model, found["y"], observed=True)
    f = model.training.y_scaling.apply(found["f"].values)
    terms = log_likelihood_given(model, hyperparameter_draws(model, idata), f, smooth=False)
    replicated = drawn["posterior_predictive"].to_dataset()
    drawn["log_likelihood"] = xr.DataTree(replicated.map(lambda y: y.copy(data=terms)))
    if isinstance(idata, dict):
        return drawn
    tree = idata.copy()
    for group, dataset in drawn.children.items():
        tree[group] = dataset
    return tree


def power_scaling(model: Model, idata: Draws, *explained: xr.Dataset) -> Any:
    """The fit with all that ArviZ's sensitivity to priors takes, for explanations too.

    As in ``az.psense_summary(bx.power_scaling(model, idata, bx.attributions(..., obs=[3])))``: how
    hyperparameters and explanations would change if the prior counted a little more or less, and
    the likelihood. ``az.plot_psense_dist`` takes it too.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        What ``model.fit`` returned, with several draws: "nuts", or "laplace", for which the answer
        is as good as its approximation.
    *explained : xarray.Dataset
        What verbs returned for this fit, with draws, all of them; of a few observations, since each
        number is a row of the summary.

    Returns
    -------
    xarray.DataTree
        `posterior`, with the explanations' draws beside the hyperparameters'; `log_prior`, of each
        hyperparameter; `log_likelihood`, of all of y jointly, in the place of the terms for leaving
        one out.

    Raises
    ------
    ValueError
        If `idata` belongs to another model or holds one draw, and for explanations without draws,
        with other ones than the fit's, or of one name.

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
        if not drawn or any(not found[dim].equals(posterior[dim]) for dim in DRAWS):
            raise ValueError(
                "An explanation has no draws, or other ones than the fit; expected the result of a "
                "verb for this idata with keep='draws' and without num_draws."
            )
        for name in drawn:
            if name in posterior:
                raise ValueError(
                    f"There are two {name!r}; expected different names: found.rename({name}=...)."
                )
            own = found[name].reset_coords(drop=True)
            taken = {d: f"{name}_{d}" for d in own.dims if d not in DRAWS and d in posterior.dims}
            posterior[name] = own.rename(taken)
    known = model.training.streamed and model.specification.strategy_of().by_sums
    found = log_likelihood(model, idata, obs=[0] if known else None, progressbar=False)
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
