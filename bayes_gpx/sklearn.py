"""The models as scikit-learn estimators, for pipelines and cross-validation.

Estimators take the arguments of the models, except `name` and, for a GPX, `Z`. `fit` takes what is
known of rows, such as `exposure`. Columns of a categorical type are taken from pandas and polars
frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import narwhals as nw
import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Priors, Table
from bayes_gpx.data.categorical import declared
from bayes_gpx.data.features import row_labels
from bayes_gpx.data.numbers import numeric
from bayes_gpx.data.response import labels_of_part
from bayes_gpx.explain import attributions, contributions, predictions
from bayes_gpx.inference.methods import method_named
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.model.constraints import Constraint
from bayes_gpx.model.gp import GP, GPX

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_consistent_length,
        check_is_fitted,
        validate_data,
    )
except ImportError as missing:
    raise ImportError(
        "bayes_gpx.sklearn needs scikit-learn: pip install 'bayes_gpx[data]'."
    ) from missing

if TYPE_CHECKING:
    from bayes_gpx.kernels.precomputed import Precomputed
    from bayes_gpx.processes.approximations import Approximation

DRAWS = 1000
"""Draws of the response from a fit of one draw, for the standard deviation of a rate."""

__all__ = ["GPClassifier", "GPRegressor", "GPXRegressor"]


class _Estimator(BaseEstimator):
    """What the estimators share; a pickled one rebuilds its model."""

    def _keep(self, given: Mapping[str, Any]) -> None:
        """Keep the arguments of `__init__` as they are, as scikit-learn expects."""
        self.__dict__.update((name, value) for name, value in given.items() if name != "self")

    def _fit(self, build: Callable[..., Any], X: Table, y: Column, **more: Any) -> Self:
        """Build and fit a model with the estimator's parameters that it accepts."""
        given = self.get_params(deep=False)
        taken = {name: given[name] for name in signature(build).parameters if name in given}
        self.model_ = build(X, y, **taken, **more)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = {"seed": seed, "progressbar": False, **(self.fit_options or {})}
        method_named(self.method)  # also where nothing is left to infer
        fixed = not self.model_.objective.free_RVs
        self.idata_ = {} if fixed else self.model_.fit(self.method, **options)
        return self

    def _training(self, X: Table, y: Column, **checks: Any) -> tuple[Any, Any]:
        """X and y of a fit: numbers are checked by scikit-learn, categories by the model."""
        if _has_types(X):
            validate_data(self, X, skip_check_array=True)
            return X, column_or_1d(y)
        _refuse_text(X)
        given, labels = X, row_labels(X)
        X, y = validate_data(self, X, y, dtype="float64", ensure_min_samples=2, **checks)
        X = self._named(X, labels)
        if isinstance(X, pd.DataFrame):
            X.attrs = dict(getattr(given, "attrs", {}))  # units
        return X, y

    def _new(self, X: Table) -> Any:
        check_is_fitted(self)
        known = self.model_.training.X
        if known.levels or known.origins:
            return validate_data(self, X, reset=False, skip_check_array=True)
        _refuse_text(X)
        labels = row_labels(X)
        return self._named(validate_data(self, X, reset=False, dtype="float64"), labels)

    def _named(self, X: Any, labels: np.ndarray | None) -> np.ndarray | pd.DataFrame:
        names = getattr(self, "feature_names_in_", None)
        return X if names is None else pd.DataFrame(X, labels, names)

    def _predictions(self, X: Table, draws: int = 2) -> xr.Dataset:
        """Predictions; means are exact whatever the number of draws, sds of rates are not."""
        X = self._new(X)
        options: dict[str, Any] = {
            "keep": "summary",
            "draws": draws,
            "seed": 0,
            "progressbar": False,
        }
        return predictions(self.model_, self.idata_, X, **options)

    def explain(self, X: Table, **options: Any) -> xr.Dataset:
        """Explain predictions: contributions of a GPX, attributions of a GP.

        Parameters
        ----------
        X : frame or array (m, d)
        **options
            Options of `bayes_gpx.contributions` or `bayes_gpx.attributions`.

        Returns
        -------
        xarray.Dataset
        """
        X = self._new(X)
        verb = attributions if self.model_.training.Z is None else contributions
        return verb(self.model_, self.idata_, X, **{"progressbar": False, **options})


class _Regressor(RegressorMixin, _Estimator):
    """Regression by one of the models."""

    _model: ClassVar[type[GP | GPX]]

    def fit(
        self,
        X: Table,
        y: Column,
        sample_weight: Column | None = None,
        exposure: Column | None = None,
        trials: Column | None = None,
        noise_sd: Column | None = None,
    ) -> Self:
        """Infer the hyperparameters from X (n, d), y (n,) and what is known of rows, (n,).

        `sample_weight` are the `weights` of the model; rows of weight 0 are left out.
        """
        given = y
        X, y = self._training(X, y, y_numeric=True)
        known = {"exposure": exposure, "trials": trials, "noise_sd": noise_sd}
        X, y, known = _counted(X, y, sample_weight, known)
        return self._fit(self._model, X, _called(given, X, y), **known)

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean response (m,), or (m, C) of C classes; with `return_std` also the sd.

        The sd is that of a new response, or of its rate.
        """
        return _mean_and_sd(self, X, return_std)


class GPRegressor(_Regressor):
    """Gaussian process regression as a scikit-learn estimator.

    Parameters
    ----------
    kernel, ard, likelihood, link, approximation, priors, resolution, scale
        As in `bayes_gpx.GP`.
    method : {"map", "laplace", "nuts", "svgp", "auto"}
    fit_options : dict, optional
        Further arguments of ``model.fit``, such as ``{"draws": 500}``.
    random_state : int, RandomState or None
    constraints : sequence of constraints
        As in `bayes_gpx.GP`: ``[bx.constraints.Increasing("dose")]``. The columns of an array are
        ``x0``, ``x1``, ...; values are in the units of X as `fit` is given it, after any scaling of
        a pipeline.

    Attributes
    ----------
    model_ : bayes_gpx.GP
    idata_ : xarray.DataTree
        The fit, or {} if `priors` fix all hyperparameters. Pass both to the explanation functions
        and plots.
    """

    _model = GP

    def __init__(
        self,
        kernel: str | Precomputed | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str | Likelihood = "normal",
        link: str | None = None,
        approximation: Approximation | None = None,
        priors: Priors | None = None,
        resolution: float | Sequence[float] | None = None,
        scale: bool = True,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self._keep(locals())


class GPXRegressor(_Regressor):
    """Regression with Gaussian process weights as a scikit-learn estimator.

    Parameters
    ----------
    kernel, ard, likelihood, link, approximation, priors, resolution, scale, weight_prior, intercept
        As in `bayes_gpx.GPX`; the features with weights are X.
    method, fit_options, random_state, constraints
        As in `GPRegressor`.

    Attributes
    ----------
    model_ : bayes_gpx.GPX
    idata_ : xarray.DataTree
    """

    _model = GPX

    def __init__(
        self,
        kernel: str | Precomputed | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str | Likelihood = "normal",
        link: str | None = None,
        approximation: Approximation | None = None,
        priors: Priors | None = None,
        resolution: float | Sequence[float] | None = None,
        scale: bool = True,
        weight_prior: Literal["shared", "per_feature", "horseshoe"] = "shared",
        intercept: bool = False,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self._keep(locals())


class GPClassifier(ClassifierMixin, _Estimator):
    """Gaussian process classification as a scikit-learn estimator.

    The likelihood is "bernoulli" for two classes, and "categorical" for more.

    Parameters
    ----------
    kernel, ard, link, approximation, priors, scale
        As in `bayes_gpx.GP`; `link` is for two classes.
    method, fit_options, random_state, constraints
        As in `GPRegressor`.

    Attributes
    ----------
    classes_ : array
    model_ : bayes_gpx.GP
    idata_ : xarray.DataTree
    """

    def __init__(
        self,
        kernel: str | Precomputed | Callable[[int], Any] = "expquad",
        ard: bool = True,
        link: str | None = None,
        approximation: Approximation | None = None,
        priors: Priors | None = None,
        scale: bool = True,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self._keep(locals())

    def fit(self, X: Table, y: Column, sample_weight: Column | None = None) -> Self:
        """Infer the hyperparameters from X (n, d) and labels y (n,).

        `sample_weight` are the `weights` of `bayes_gpx.GP`; rows of weight 0 are left out.
        """
        given = y
        X, labels = self._training(X, _of_numpy(y))
        if labels.dtype == object:
            labels_of_part(labels)  # refuses missing ones, which cannot be sorted
        check_classification_targets(labels)
        X, labels, known = _counted(X, labels, sample_weight, {})
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}, but needs two or more.")
        likelihood = "bernoulli" if len(self.classes_) == 2 else "categorical"
        return self._fit(GP, X, _called(given, X, labels), likelihood=likelihood, **known)

    def predict_proba(self, X: Table) -> np.ndarray:
        """Probability of each of `classes_`, (m, C), averaged over the posterior."""
        mean = self._predictions(X)["probability_mean"].values
        if mean.ndim == 1:
            return np.column_stack([1.0 - mean, mean])
        return mean / mean.sum(axis=1, keepdims=True)

    def predict(self, X: Table) -> np.ndarray:
        """The most probable label, (m,)."""
        largest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[largest]


def _called(given: Any, X: Any, y: Any) -> Any:
    """Responses with the name and the unit that they were given with, if any."""
    name = getattr(given, "name", None)
    if not isinstance(name, str) or name in getattr(X, "columns", ()):
        return y
    named = pd.Series(y, getattr(X, "index", None), name=name)
    named.attrs = dict(getattr(given, "attrs", {}))
    return named


def _counted(
    X: Any, y: Any, sample_weight: Column | None, known: Mapping[str, Column | None]
) -> tuple[Any, Any, dict[str, Any]]:
    """X, y and what is known of the rows, with their weights; rows of weight 0 are left out."""
    if sample_weight is None:
        return X, y, dict(known)
    weights = _check_sample_weight(sample_weight, X, dtype="float64", ensure_non_negative=True)
    rows = {name: np.asarray(v) for name, v in known.items() if v is not None}
    check_consistent_length(X, y, *rows.values())
    rows["weights"] = weights
    kept = np.flatnonzero(weights)
    if len(kept) == 0:
        raise ValueError("sample_weight is zero in every row. Give some rows a weight above 0.")
    if len(kept) < len(weights):
        if isinstance(X, np.ndarray):  # rows are called by their positions among all
            X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        X = X.iloc[kept] if hasattr(X, "iloc") else X[kept]
        y, rows = y[kept], {name: v[kept] for name, v in rows.items()}
    return X, y, rows


def _has_types(X: Table) -> bool:
    """Whether a table is a frame with columns of categories or dates, which the model reads."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return isinstance(frame, nw.DataFrame) and any(
        column.dtype in (nw.Date, nw.Datetime) or declared(column)
        for column in frame.iter_columns()
    )


def _refuse_text(X: Table) -> None:
    """Raise as the models do for a column of text in a frame; scikit-learn does not name it."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        for column in frame.iter_columns():
            if column.dtype in (nw.String, nw.Object):
                labels = row_labels(X)
                rows = np.arange(len(frame)) if labels is None else labels
                numeric(column.to_numpy(), "X", str(column.name), rows)


def _of_numpy(y: Column) -> Any:
    """Labels of one of pandas' own types in an array of NumPy's type; all others as they are."""
    dtype = getattr(y, "dtype", None)
    if not isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return y
    codes, labels = labels_of_part(y)
    return labels.astype(getattr(dtype, "numpy_dtype", labels.dtype))[codes.astype(int)]


def _mean_and_sd(
    estimator: _Estimator, X: Table, return_std: bool
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    found = estimator._predictions(X, DRAWS if return_std else 2)
    if return_std and "response_sd" not in found:
        raise ValueError(
            "return_std=True needs the noise of new rows, but the model was fitted with noise_sd. "
            "Call bx.predictions(estimator.model_, estimator.idata_, X, noise_sd=...) instead."
        )
    mean = found["response_mean"].values
    return (mean, found["response_sd"].values) if return_std else mean
