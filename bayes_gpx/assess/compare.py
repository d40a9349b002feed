"""Models compared by how well they predict rows that they have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import arviz_stats
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayes_gpx.aliases import Column, Table
from bayes_gpx.data.row_data import counted, differing
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.hyperparameter_draws import (
    hyperparameter_draws,
    refuse_other_model,
    refuse_swapped,
)
from bayes_gpx.draws.leave_one_out import averaged, held_out_log_likelihood, of_responses, ratios
from bayes_gpx.draws.left_out_together import (
    densities_in_order,
    densities_of_groups,
    read_groups,
    read_order,
)
from bayes_gpx.inference.laplace import smoothed_of_points
from bayes_gpx.inference.methods import METHODS
from bayes_gpx.model.examination import unexamined
from bayes_gpx.model.gp import plain_regression
from bayes_gpx.numerics.threads import on_cores
from bayes_gpx.system.warning import warn

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

TELLING = 4.0
"""Differences of elpd below this are too small for their standard errors to be trusted.

Sivula, Magnusson, Matamoros and Vehtari (2025).
"""

KNOWN = "hyperparameters were fitted to the scored rows too, so scores are too high"
"""Added to the notes of fits with a single draw."""

LARGEST_K = 0.7
"""Pareto k above which weights are unreliable for any number of draws: Vehtari et al. (2024)."""


@on_cores
def compare(
    models: Mapping[str, tuple[Model, xr.DataTree]],
    *,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    y_new: Column | None = None,
    groups_new: Column | None = None,
    groups: str | Column | None = None,
    order: str | Column | None = None,
    start: int | None = None,
    baselines: bool = False,
    method: Literal["stacking", "BB-pseudo-BMA", "pseudo-BMA"] = "stacking",
    cores: int | None = None,
) -> pd.DataFrame:
    """Compare models by how well they predict rows that were left out.

    Scores are log predictive densities: of each row given all others; with `groups`, of each group
    given the other groups; with `order`, of each row given all rows before it. Nothing is refitted:
    importance weights correct for the rows that the draws were fitted to.

    Parameters
    ----------
    models : dict of (model, idata)
        At least two, by name, fitted by one method; one is enough with `baselines`.
    X_new, Z_new, y_new, groups_new : frames or arrays of m rows, optional
        Rows that no model was fitted to, with the columns that all models need.
    groups : str, or series or array (n,), optional
        A column of X or Z, or a label for each row. Rows of a group are left out together.
    order : str, or series or array (n,), optional
        A column of X or Z, or a number or date for each row. Each time has one score. Needs a
        Gaussian likelihood, no approximation and no constraints.
    start : int, optional
        With `order`, number of first rows without a score; half of all rows by default.
    baselines : bool
        Also fit "linear model", a Bayesian linear regression with levels for the first model's
        groups, and "mean only", with its likelihood and method.
    method : {"stacking", "BB-pseudo-BMA", "pseudo-BMA"}
        Method for the weights of the models; see `arviz.compare`.

    Returns
    -------
    pandas.DataFrame
        The frame of ``az.compare``, best model first, which ``az.plot_compare`` draws, and:

        - `held_out`, `held_out_se`: sum of the log predictive densities of the new responses, and
          its standard error;
        - `khat`: largest Pareto k of the weights; above 0.7, with a warning, a few draws decide.
          NaN for fits with one draw: their scores are too high;
        - `fit`, `note`: the method of the fit, and the difference from the first model in words.

    Raises
    ------
    ValueError
        For different methods, rows, responses, weights, censoring or kinds of response; `groups`
        or `order` that do not fit the rows, or both; and models without a closed form.

    References
    ----------
    Vehtari, Gelman and Gabry, "Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC" (2017); Yao et al., "Using stacking to average Bayesian predictive
    distributions" (2018); Sivula et al., "Uncertainty in Bayesian leave-one-out cross-validation
    based model comparison" (2025); Bürkner, Gabry and Vehtari, "Approximate leave-future-out
    cross-validation for Bayesian time series models" (2020).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 30)[:, None]
    >>> y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=30)
    >>> fits = {}
    >>> for kernel in ("linear", "expquad"):
    ...     model = bx.GP(X, y, kernel=kernel)
    ...     idata = model.fit("laplace", draws=500, seed=1, progressbar=False)
    ...     fits[kernel] = model, idata
    >>> bx.compare(fits).index[0]
    'expquad'
    """
    plain = _baselines(models) if baselines else {}
    models = {**models, **plain} if plain else models
    refuse_incomparable(models)
    _refuse_mixed(models, groups, order, start)
    new: Any = X_new, Z_new, y_new, groups_new
    given = X_new is not None or y_new is not None
    # Baselines learn from Z, if any.
    of_z: Any = X_new if Z_new is None else Z_new, None, y_new, groups_new
    held_out = {
        name: _held_out(*fitted, *(of_z if name in plain else new))
        for name, fitted in models.items()
        if given
    }
    scored = {name: scores(*fitted, groups, order, start) for name, fitted in models.items()}
    frame = arviz_stats.compare(scored, method=method, round_to="none")
    frame = frame.assign(held_out=np.nan, held_out_se=np.nan)
    for name, terms in held_out.items():
        spread = np.sqrt(len(terms)) * terms.std(ddof=1) if len(terms) > 1 else np.nan
        frame.loc[name, ["held_out", "held_out_se"]] = terms.sum(), spread
    ks = {name: float(one.pareto_k.max()) for name, one in scored.items()}
    frame["khat"] = pd.Series({n: np.nan if _alone(models[n][1]) else k for n, k in ks.items()})
    if unsure := [f"{ks[n]:.2g} for {n!r}" for n in frame.index if frame["khat"][n] > LARGEST_K]:
        others = "" if given else ", or pass X_new and y_new"
        warn(
            f"The largest Pareto k is {', '.join(unsure)}: a few draws decide some scores. Fit "
            f"with more draws or a likelihood that allows for outliers{others}."
        )
    frame["fit"] = pd.Series({name: _method(idata) for name, (_, idata) in models.items()})
    together = "groups" if groups is not None else "times" if order is not None else ""
    count = next(iter(scored.values())).n_data_points
    known = f"; {KNOWN}" if frame["khat"].isna().all() else ""
    frame["note"] = [_note(row, count, together) + known for _, row in frame.iterrows()]
    return frame


def _note(row: pd.Series, count: int, together: str) -> str:
    """What a model's difference from the best says, by the scores of so many rows or groups."""
    refit = ""
    if together and row["khat"] > LARGEST_K:
        refit = f"; Pareto k is {row['khat']:.1f}, so refit without the {together} to be sure"
    if row["rank"] == 0:
        return f"predicts best{refit}"
    apart, se = abs(row["elpd_diff"]), row["dse"]
    if apart < TELLING:
        return f"no telling from the best: elpd differs by less than {TELLING:g}{refit}"
    if apart < 2.0 * se:
        return f"no telling from the best: elpd differs by less than two standard errors{refit}"
    unit = together or "rows"
    small = f"; with {count} {unit} the standard error is uncertain" if count < 100 else ""
    return f"predicts worse{small}{refit}"


def _alone(idata: xr.DataTree) -> bool:
    """Whether a fit has one draw, so that there is nothing to weight."""
    return idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"] == 1


def _fixed(model: Model, idata: xr.DataTree) -> dict[str, Any]:
    """The only draw of a fit, as hyperparameters that are known."""
    ((_, theta),) = hyperparameter_draws(model, idata)
    return {name: value for name, value in theta.items() if name not in model.fixed}


def _baselines(
    models: Mapping[str, tuple[Model, xr.DataTree]],
) -> dict[str, tuple[Model, xr.DataTree]]:
    """Fits of a linear model and of the mean alone, which any model should beat."""
    if not isinstance(models, Mapping) or not models:
        raise ValueError("models is empty. Pass a dict such as {'smooth': (model, idata)}.")
    (model, idata), taken = next(iter(models.values())), BASELINES.keys() & models.keys()
    if taken:
        raise ValueError(
            f"models has {sorted(taken)[0]!r}, the name of a baseline. Rename this model."
        )
    method = _method(idata)
    seed = idata.attrs.get("seed")
    options: dict[str, Any] = {"progressbar": False, "seed": None if seed is None else int(seed)}
    if method not in METHODS:
        method = "nuts"
    if method == "laplace":
        options["draws"] = idata["posterior"].sizes["draw"]
    fitted: dict[str, tuple[Model, xr.DataTree]] = {}
    for name, kernel in BASELINES.items():
        baseline = plain_regression(model, kernel, levels=kernel is _linear)
        with unexamined():
            fit = baseline.fit(method, **options)
        fit["posterior"].attrs["inference_method"] = _method(idata)
        fitted[name] = baseline, fit
    return fitted


def _constant(d: int) -> pm.gp.cov.Covariance:
    return pm.gp.cov.Constant(pm.HalfNormal("level", sigma=2.0) ** 2)


def _linear(d: int) -> pm.gp.cov.Covariance:
    slopes = pm.HalfNormal("slope", sigma=1.0) ** 2 * pm.gp.cov.Linear(d, c=0.0)
    return slopes + _constant(d)


BASELINES = {"linear model": _linear, "mean only": _constant}
"""Kernels of the models that any other should beat, by name."""


def _method(idata: xr.DataTree) -> str:
    return str(idata["posterior"].attrs.get("inference_method", "pm.sample"))


def refuse_incomparable(models: Mapping[str, tuple[Model, xr.DataTree]]) -> None:
    """Raise unless log densities of the fits are of the same thing."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            "models holds fewer than two. Pass a dict such as {'linear': (model, idata), 'smooth': "
            "(model, idata)}."
        )
    for name, fitted in models.items():
        if not isinstance(fitted, tuple) or len(fitted) != 2:
            raise ValueError(f"models[{name!r}] is no pair. Pass (model, idata).")
        refuse_swapped(*fitted)
        refuse_other_model(*fitted)
    _refuse_parts({name: model for name, (model, _) in models.items() if model.training.streamed})
    first = next(iter(models))
    model, idata = models[first]
    for name, (other, fit) in models.items():
        pair = f"{first!r} and {name!r}"
        if _method(fit) != _method(idata):
            raise ValueError(
                f"{pair} are fits by {_method(idata)!r} and {_method(fit)!r}, and their densities "
                "average over different draws. Use the same method for all."
            )
        for training in (model.training, other.training):
            training.refuse_one_output()
        rows = model.training.responses[1], other.training.responses[1]
        if len(rows[0]) != len(rows[1]) or not np.array_equal(*rows):
            raise ValueError(
                f"{pair} are models of different rows. Use the same rows in the same order."
            )
        same = model.training.labels == other.training.labels
        if not same or not np.array_equal(model.training.y, other.training.y):
            raise ValueError(
                f"{pair} are models of different responses. Use the same y; densities of a "
                "transformed response are on another scale."
            )
        own, others = model.training, other.training
        if (given := differing(own.row_data, others.row_data, own.n)) is not None:
            raise ValueError(
                f"{pair} have different {given}, so their densities are not of the same "
                "observations. Use the same for all."
            )
        if model.specification.observation.discrete != other.specification.observation.discrete:
            raise ValueError(
                f"{pair}: one has probabilities of classes or counts, and the other densities of "
                "numbers. Use the same kind for all."
            )


def _refuse_parts(models: Mapping[str, Model]) -> None:
    """Raise for models of out-of-core data, and suggest a comparison by some rows."""
    if not models:
        return
    cure = "Compare fits of a sample of the rows."
    if all(model.specification.fixed_basis for model in models.values()):
        cure = (
            "Give each fit the terms of the same rows, idata['log_likelihood'] = "
            "bx.log_likelihood(model, idata, obs=...)[['log_likelihood']], and pass the fits to "
            "arviz.compare."
        )
    raise ValueError(
        f"The rows of {', '.join(map(repr, models))} are out-of-core data, and not left out one by "
        f"one. Pass models of tables in memory. {cure}"
    )


def _refuse_mixed(
    models: Mapping[str, tuple[Model, xr.DataTree]],
    groups: str | Column | None,
    order: str | Column | None,
    start: int | None,
) -> None:
    """Raise unless all models leave out the same rows together."""
    if groups is not None and order is not None:
        raise ValueError("groups and order were both given. Pass one of them, or neither.")
    if start is not None and order is None:
        raise ValueError("start was given without order. Pass both, or no start.")
    for argument, read, values in (("groups", _codes, groups), ("order", read_order, order)):
        if values is None:
            continue
        each = {name: read(model.training, values) for name, (model, _) in models.items()}
        first = next(iter(each))
        for name, codes in each.items():
            if not np.array_equal(codes, each[first]):
                raise ValueError(
                    f"{argument} {values!r} of {first!r} and {name!r} are not the same. Pass one "
                    "value for each row, as a series or an array."
                )


def _codes(training: TrainingData, groups: str | Column) -> np.ndarray:
    return read_groups(training, groups)[0]


def scores(
    model: Model,
    idata: xr.DataTree,
    groups: str | Column | None = None,
    order: str | Column | None = None,
    start: int | None = None,
) -> arviz_stats.ELPDData:
    """ArviZ's scores of one model; rows, groups or times are their points."""
    weights: dict[str, xr.DataArray] = {}
    counts = None  # how often rows count, unless all count once
    idata = idata.compute()  # ArviZ takes no chunks of Dask
    options, alone = {"progressbar": False}, _alone(idata)
    draws = _fixed(model, idata) if alone else idata
    if groups is not None:
        terms = densities_of_groups(model, draws, groups, **options)
    elif order is not None:
        terms, later = densities_in_order(model, draws, order, start, **options)
        if not alone:
            weights = _smoothed(later)
    else:
        terms = of_responses(model, draws, **options)
        if model.specification.weighted:
            counts = counted(model.training.row_data, model.training.n)
            terms = terms / counts
        if counts is not None and not alone:
            weights = _smoothed(ratios(model, draws, **options))
    if alone:
        equal = xr.zeros_like(terms)
        weights = {"log_weights": equal, "pareto_k": equal.isel(chain=0, draw=0, drop=True)}
    tree = xr.DataTree.from_dict(
        {
            "posterior": idata["posterior"].to_dataset(),
            "log_likelihood": terms.to_dataset(name="y"),
        }
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter")  # of a model without a name
        try:
            found = arviz_stats.loo(tree, pointwise=True, **weights)
        except (ValueError, IndexError):  # few draws, or repeated ones, have no tail
            found = arviz_stats.loo(tree, pointwise=True, **_smoothed(terms))
    return found if counts is None else _weighed(found, averaged(terms), counts)


def _smoothed(log_ratios: xr.DataArray) -> dict[str, xr.DataArray]:
    """Log weights of draws for each point, and its Pareto k: infinite where there is no tail."""
    (point,) = set(log_ratios.dims) - {"chain", "draw"}
    stacked = log_ratios.transpose("chain", "draw", point)
    columns = stacked.values.reshape((-1, stacked.sizes[point]))
    log_weights, pareto_k = smoothed_of_points(columns)
    return {
        "log_weights": stacked.copy(data=log_weights.reshape(stacked.shape)),
        "pareto_k": stacked.isel(chain=0, draw=0, drop=True).copy(data=pareto_k),
    }


def _weighed(
    found: arviz_stats.ELPDData, plain: np.ndarray, counts: np.ndarray
) -> arviz_stats.ELPDData:
    """Scores with those of each row times its weight; `plain` are without importance weights."""
    each = found.elpd_i * counts
    found.p = float(plain @ counts - each.sum())
    found.elpd, found.se = float(each.sum()), float(np.sqrt(each.size * each.var()))
    found.elpd_i = each
    return found


def _held_out(
    model: Model,
    idata: xr.DataTree,
    X_new: Table | None,
    Z_new: Table | None,
    y_new: Column | None,
    groups_new: Column | None,
) -> np.ndarray:
    """Log predictive density of each new response, (m,)."""
    if X_new is None or y_new is None:
        missing = "X_new" if X_new is None else "y_new"
        raise ValueError(f"{missing} is missing. Pass X_new and y_new, or neither.")
    observation, own = model.specification.observation, groups_new
    model.training.refuse_outputs("X_new and y_new", "bx.compare without them scores the rows.")
    if model.training.groups is None:
        own = None  # models with groups are compared with those without
    rows = model.training.read_observed(X_new, Z_new, y_new, observation, own)
    return averaged(held_out_log_likelihood(model, idata, rows, progressbar=False))
