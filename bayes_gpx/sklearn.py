"""The models as scikit-learn estimators, for pipelines and cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Priors, Table
from bayes_gpx.explain import attributions, contributions, predictions
from bayes_gpx.model.gp import GP, GPX

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise ImportError(
        "bayes_gpx.sklearn needs scikit-learn: pip install 'bayes_gpx[data]'."
    ) from missing

if TYPE_CHECKING:
    from bayes_gpx.processes.approximations import HSGP, Inducing, RandomFeatures

DRAWS = 1000
"""Draws of the response from a fit of one draw, for the standard deviation of a rate."""

__all__ = ["GPClassifier", "GPRegressor", "GPXRegressor"]


class _Estimator(BaseEstimator):
    """What the estimators share; a pickled one rebuilds its model."""

    def _fit(self, build, X, y, **settings):
        names = getattr(self, "feature_names_in_", None)
        X = X if names is None else pd.DataFrame(X, columns=names)
        self.model_ = build(
            X,
            y,
            kernel=self.kernel,
            ard=self.ard,
            approximation=self.approximation,
            priors=self.priors,
            **settings,
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = {"seed": seed, "progressbar": False, **(self.fit_options or {})}
        self.idata_ = self.model_.fit(self.method, **options)
        return self

    def _new(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype="float64")
        names = getattr(self, "feature_names_in_", None)
        return X if names is None else pd.DataFrame(X, columns=names)

    def _predictions(self, X, draws=2):
        """Predictions; means are exact whatever the number of draws, sds of rates are not."""
        X = self._new(X)
        options = {"keep": "summary", "draws": draws, "seed": 0, "progressbar": False}
        return predictions(self.model_, self.idata_, X, **options)

    def explain(self, X: Table, **options: Any) -> xr.Dataset:
        """Explain predictions.

        Parameters
        ----------
        X : frame or array (m, d)
        **options
            Of `bayes_gpx.contributions` in a GPX, else of `bayes_gpx.attributions`.

        Returns
        -------
        xarray.Dataset
            Contributions of a GPX; attributions of a GP.
        """
        X = self._new(X)
        verb = attributions if self.model_.training.Z is None else contributions
        return verb(self.model_, self.idata_, X, **{"progressbar": False, **options})


class GPRegressor(RegressorMixin, _Estimator):
    """Gaussian process regression as a scikit-learn estimator.

    Parameters
    ----------
    kernel, ard, likelihood, approximation, priors
        As in `bayes_gpx.GP`.
    method : {"map", "laplace", "nuts", "svgp"}
    fit_options : dict, optional
        Further arguments of ``model.fit``, such as ``{"draws": 500}``.
    random_state : int, RandomState or None

    Attributes
    ----------
    model_ : bayes_gpx.GP
    idata_ : xarray.DataTree
        Both as every verb and plot of the package takes them.
    """

    def __init__(
        self,
        kernel: str | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str = "normal",
        approximation: Inducing | HSGP | RandomFeatures | None = None,
        priors: Priors | None = None,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.likelihood = likelihood
        self.approximation = approximation
        self.priors = priors
        self.method = method
        self.fit_options = fit_options
        self.random_state = random_state

    def fit(self, X: Table, y: Column) -> Self:
        """Infer the hyperparameters from X (n, d) and y (n,)."""
        X, y = _regression_data(self, X, y)
        return self._fit(GP, X, y, likelihood=self.likelihood)

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean response (m,); with `return_std` also the sd of a new response, or of its rate."""
        return _mean_and_sd(self, X, return_std)


class GPXRegressor(RegressorMixin, _Estimator):
    """Regression with Gaussian process weights as a scikit-learn estimator.

    Parameters
    ----------
    kernel, ard, likelihood, weight_prior, intercept, approximation, priors
        As in `bayes_gpx.GPX`.
    method, fit_options, random_state
        As in `GPRegressor`.

    Attributes
    ----------
    model_ : bayes_gpx.GPX
    idata_ : xarray.DataTree
    """

    def __init__(
        self,
        kernel: str | Callable[[int], Any] = "expquad",
        ard: bool = True,
        likelihood: str = "normal",
        weight_prior: Literal["shared", "per_feature", "horseshoe"] = "shared",
        intercept: bool = False,
        approximation: Inducing | HSGP | RandomFeatures | None = None,
        priors: Priors | None = None,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.likelihood = likelihood
        self.weight_prior = weight_prior
        self.intercept = intercept
        self.approximation = approximation
        self.priors = priors
        self.method = method
        self.fit_options = fit_options
        self.random_state = random_state

    def fit(self, X: Table, y: Column) -> Self:
        """Infer the hyperparameters from X (n, d) and y (n,)."""
        X, y = _regression_data(self, X, y)
        settings = {"weight_prior": self.weight_prior, "intercept": self.intercept}
        return self._fit(GPX, X, y, likelihood=self.likelihood, **settings)

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean response (m,); with `return_std` also the sd of a new response, or of its rate."""
        return _mean_and_sd(self, X, return_std)


class GPClassifier(ClassifierMixin, _Estimator):
    """Gaussian process classification as a scikit-learn estimator.

    Two labels are "bernoulli", more "categorical".

    Parameters
    ----------
    kernel, ard, approximation, priors
        As in `bayes_gpx.GP`.
    method, fit_options, random_state
        As in `GPRegressor`.

    Attributes
    ----------
    classes_ : array
    model_ : bayes_gpx.GP
        Its labels are positions in `classes_`.
    idata_ : xarray.DataTree
    """

    def __init__(
        self,
        kernel: str | Callable[[int], Any] = "expquad",
        ard: bool = True,
        approximation: Inducing | HSGP | RandomFeatures | None = None,
        priors: Priors | None = None,
        method: str = "map",
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.approximation = approximation
        self.priors = priors
        self.method = method
        self.fit_options = fit_options
        self.random_state = random_state

    def fit(self, X: Table, y: Column) -> Self:
        """Infer the hyperparameters from X (n, d) and labels y (n,)."""
        rows, labels = validate_data(self, X, y, dtype="float64", ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, code = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; expected two or more.")
        likelihood = "bernoulli" if len(self.classes_) == 2 else "categorical"
        return self._fit(GP, rows, code, likelihood=likelihood)

    def predict_proba(self, X: Table) -> np.ndarray:
        """Probability of each of `classes_`, (m, C), averaged over what the fit does not know."""
        mean = self._predictions(X)["probability_mean"].values
        if mean.ndim == 1:
            return np.column_stack([1.0 - mean, mean])
        return mean / mean.sum(axis=1, keepdims=True)

    def predict(self, X: Table) -> np.ndarray:
        """The most probable label, (m,)."""
        largest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[largest]


def _regression_data(estimator, X, y):
    return validate_data(
        estimator, X, y, dtype="float64", y_numeric=True, ensure_min_samples=2
    )  # fmt: skip


def _mean_and_sd(estimator, X, return_std):
    found = estimator._predictions(X, DRAWS if return_std else 2)
    mean = found["response_mean"].values
    return (mean, found["response_sd"].values) if return_std else mean
