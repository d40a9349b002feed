"""Refits without some of the rows, for ArviZ's cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import arviz_stats
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from bayes_gpx.draws.hyperparameter_draws import refuse_other_model
from bayes_gpx.draws.leave_one_out import held_out_log_likelihood
from bayes_gpx.inference.methods import METHODS

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.model.model import Model


class SamplingWrapper(arviz_stats.SamplingWrapper):
    """Wrap a model and its fit for ArviZ's cross-validation with refits.

    ``az.reloo(bx.SamplingWrapper(model, idata))`` refits without each row that has a large Pareto
    k. ``az.loo_kfold(idata, bx.SamplingWrapper(model, idata), k=5, group_by=...)`` refits without
    each fold, here of whole groups. Use `loo_predictions` for leave-one-out without refits.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        A fit with several draws: "nuts" or "laplace", or by ``pm.sample``.
    method : str, optional
        Method of the refits; by default the fit's, and "nuts" after ``pm.sample``.
    **options
        Options of ``model.fit``; by default as many draws and chains as in the fit, and no progress
        bar.

    Raises
    ------
    ValueError
        If the fit belongs to another model or has a single draw, or the model is part of a larger
        ``pm.Model``, which a refit would lose.

    Notes
    -----
    Rows are left out of y only: data keep the scales and units of all rows, so priors have the same
    meaning in each fold. Inducing points are placed again. A row that was left out is a new row,
    with fresh `eps_w` in a GPX. Each row of a fold has its own density, given the rows that the
    model was fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> import arviz as az
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 12)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=12)
    >>> model = bx.GP(X, y, priors={"lengthscale": 0.8, "amplitude": 1.0})
    >>> idata = model.fit("laplace", draws=100, seed=1, progressbar=False)
    >>> thirds = bx.SamplingWrapper(model, idata, seed=1)
    >>> az.loo_kfold(idata, thirds, folds=np.arange(12) % 3).n_folds
    3
    """

    def __init__(
        self, model: Model, idata: xr.DataTree, *, method: str | None = None, **options: Any
    ) -> None:
        refuse_other_model(model, idata)
        model.training.refuse_outputs("SamplingWrapper", "bx.loo_predictions takes groups=.")
        posterior = idata["posterior"]
        chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
        if chains * draws == 1:
            raise ValueError(
                "idata holds one draw, as from fit('map'), but cross-validation needs draws of the "
                "posterior. Fit with method='laplace' or method='nuts'."
            )
        if model.joined:
            raise ValueError(
                "The model is part of a larger pm.Model, which refits would lose. Pass a model "
                "built outside of a `with pm.Model()` block."
            )
        known = posterior.attrs.get("inference_method")
        self._method = method or (known if known in METHODS else "nuts")
        size = {"draws": draws, "chains": chains, "progressbar": False}
        super().__init__(model, idata, sample_kwargs=size | options)

    def sel_observations(self, idx: ArrayLike) -> tuple[TrainingData, TrainingData]:
        """Training data without the rows at some positions, and these rows."""
        training, out = self.model.training, np.atleast_1d(np.asarray(idx))
        training.refuse_out_of_core(
            "The training rows are out-of-core data, but this needs to pick some of them. Pass "
            "rows as X_new if the explanation function takes it, or fit a sample of the rows."
        )
        return training.rows(np.setdiff1d(np.arange(training.n), out)), training.rows(out)

    def sample(self, modified_observed_data: TrainingData) -> tuple[Model, xr.DataTree]:
        """The model of these rows, and its fit."""
        model = self.model.of_rows(modified_observed_data)
        return model, model.fit(self._method, **self.sample_kwargs)

    def get_inference_data(self, fitted_model: tuple[Model, xr.DataTree]) -> xr.DataTree:
        """The fit, with the model remembered for the densities that are asked next."""
        self._refitted, idata = fitted_model
        return idata

    def log_likelihood__i(self, excluded_obs: TrainingData, idata__i: xr.DataTree) -> xr.DataArray:
        """Log predictive density of each row that was left out, for each draw of a refit."""
        return held_out_log_likelihood(self._refitted, idata__i, excluded_obs, progressbar=False)
