"""Models compared by how well they predict rows that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import arviz_stats
import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Table
from bayes_gpx.draws.hyperparameter_draws import refuse_other_model, refuse_swapped
from bayes_gpx.draws.leave_one_out import averaged, held_out_log_likelihood, log_likelihood

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

TELLING = 4.0
"""Differences of elpd below this are too small for their standard errors to be trusted.

Sivula, Magnusson, Matamoros and Vehtari (2025).
"""


def compare(
    models: Mapping[str, tuple[Model, xr.DataTree]],
    *,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    y_new: Column | None = None,
    method: Literal["stacking", "BB-pseudo-BMA", "pseudo-BMA"] = "stacking",
) -> pd.DataFrame:
    """Compare models of the same response by leave-one-out and held-out predictive densities.

    Parameters
    ----------
    models : dict of (model, idata)
        At least two, by name, each with a fit by "nuts" or "laplace".
    X_new, Z_new : frame or array (m, d), (m, p), optional
        Rows that no model was fitted to, with the columns that all models need.
    y_new : array (m,)
        Their responses.
    method : {"stacking", "BB-pseudo-BMA", "pseudo-BMA"}
        How weights of the models are found; see `arviz.compare`.

    Returns
    -------
    pandas.DataFrame
        The frame of ``az.compare``, best model first, which ``az.plot_compare`` draws, and:

        - `held_out`, `held_out_se`: sum of the log predictive densities of the new responses, each
          by itself, and its standard error; NaN without new rows;
        - `khat`: largest Pareto k of the leave-one-out weights, which above .7 says that a few
          draws decide the score of a row;
        - `fit`: the method that the fit is by;
        - `note`: what the difference from the first model says, in words.

    Raises
    ------
    ValueError
        For fits by different methods, and models of different rows, responses or kinds of response,
        whose densities cannot be compared.

    References
    ----------
    Vehtari, Gelman and Gabry, "Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC" (2017); Yao et al., "Using stacking to average Bayesian predictive
    distributions" (2018); Sivula et al., "Uncertainty in Bayesian leave-one-out cross-validation
    based model comparison" (2025).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 30)[:, None]
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=30)
    >>> fits = {}
    >>> for kernel in ("linear", "expquad"):
    ...     model = bx.GP(X, y, kernel=kernel)
    ...     idata = model.fit("laplace", draws=200, seed=1, progressbar=False)
    ...     fits[kernel] = model, idata
    >>> bx.compare(fits).index[0]
    'expquad'
    """
    _refuse_incomparable(models)
    new = X_new, Z_new, y_new
    given = X_new is not None or y_new is not None
    held_out = {name: _held_out(*models[name], *new) for name in models} if given else {}
    scored = {
        name: arviz_stats.loo(_left_out(*fitted), pointwise=True) for name, fitted in models.items()
    }
    frame = arviz_stats.compare(scored, method=method, round_to="none")
    frame = frame.assign(held_out=np.nan, held_out_se=np.nan)
    for name, terms in held_out.items():
        spread = np.sqrt(len(terms)) * terms.std(ddof=1) if len(terms) > 1 else np.nan
        frame.loc[name, ["held_out", "held_out_se"]] = terms.sum(), spread
    frame["khat"] = pd.Series({name: float(one.pareto_k.max()) for name, one in scored.items()})
    frame["fit"] = pd.Series({name: _method(idata) for name, (_, idata) in models.items()})
    n = next(iter(models.values()))[0].training.n
    frame["note"] = [_note(row, n) for _, row in frame.iterrows()]
    return frame


def _note(row, n):
    """What a model's difference from the best says."""
    if row["rank"] == 0:
        return "predicts best"
    apart, se = abs(row["elpd_diff"]), row["dse"]
    if apart < TELLING:
        return f"no telling from the best: elpd differs by less than {TELLING:g}"
    if apart < 2.0 * se:
        return "no telling from the best: elpd differs by less than two standard errors"
    small = f"; with {n} rows the standard error is uncertain" if n < 100 else ""
    return f"predicts worse{small}"


def _method(idata):
    return str(idata["posterior"].attrs.get("inference_method", "pm.sample"))


def _refuse_incomparable(models):
    """Raise unless log densities of the fits are of the same thing."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            "models holds fewer than two; expected a dict such as {'linear': (model, idata), "
            "'smooth': (model, idata)}."
        )
    for name, fitted in models.items():
        if not isinstance(fitted, tuple) or len(fitted) != 2:
            raise ValueError(f"models[{name!r}] is no pair (model, idata); expected both.")
        refuse_swapped(*fitted)
        refuse_other_model(*fitted)
    first = next(iter(models))
    model, idata = models[first]
    for name, (other, fit) in models.items():
        pair = f"{first!r} and {name!r}"
        if _method(fit) != _method(idata):
            raise ValueError(
                f"{pair} are fits by {_method(idata)!r} and {_method(fit)!r}, whose densities "
                "average over different draws; expected the same method for all."
            )
        if model.training.streamed or other.training.streamed:
            raise ValueError(
                f"{pair}: rows that are read in parts have no leave-one-out terms; expected models "
                "of tables in memory."
            )
        rows = model.training.X.index, other.training.X.index
        if len(rows[0]) != len(rows[1]) or not np.array_equal(*rows):
            raise ValueError(f"{pair} are models of different rows; expected the same, in order.")
        same = model.training.labels == other.training.labels
        if not same or not np.array_equal(model.training.y, other.training.y):
            raise ValueError(
                f"{pair} are models of different responses; expected the same y. Densities of a "
                "transformed response are on another scale."
            )
        discrete = [not m.specification.observation.scaled for m in (model, other)]
        if discrete[0] != discrete[1]:
            raise ValueError(
                f"{pair}: one has probabilities of labels or counts, and the other densities of "
                "numbers; expected the same kind for all."
            )


def _left_out(model, idata):
    """A DataTree with the posterior and the leave-one-out terms, dims without the model's name."""
    terms = log_likelihood(model, idata, progressbar=False)["log_likelihood"]
    posterior = idata["posterior"].to_dataset()
    return xr.DataTree.from_dict(
        {"posterior": posterior, "log_likelihood": terms.to_dataset(name="y")}
    )


def _held_out(model, idata, X_new, Z_new, y_new):
    """Log predictive density of each new response, (m,)."""
    if X_new is None or y_new is None:
        missing = "X_new" if X_new is None else "y_new"
        raise ValueError(f"{missing} is missing; expected X_new and y_new, or neither.")
    rows = model.training.read_observed(X_new, Z_new, y_new, model.specification.observation)
    return averaged(held_out_log_likelihood(model, idata, rows, progressbar=False))
