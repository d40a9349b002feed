"""Propensities: the probability of treatment given the other columns, predicted across folds."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from bayes_gpx.aliases import Column
from bayes_gpx.data.categorical import as_text, declared, is_missing
from bayes_gpx.data.features import read_features, read_response
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.scaling import standard_scaling
from bayes_gpx.explain.predictions import predictions
from bayes_gpx.model.examination import unexamined
from bayes_gpx.model.gp import GP
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.processes.approximations import Inducing
from bayes_gpx.system.warning import ExtrapolationWarning
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame

PROPENSITY = "propensity"
"""Name of the column that `with_propensity` adds."""

MOST_EXACT, INDUCING = 1000, 100
"""Most rows of an exact model of the treatment, and the inducing points of more rows."""


def with_propensity(
    X: Any, treatment: Any, *, folds: int = 5, seed: int | None = None, progressbar: bool = True
) -> Any:
    """Add the probability of treatment, given the other columns, as a column of X.

    Use it before you build a model of the outcome with ``GP(X, ...)`` or ``GPX(X, ..., Z)``:
    `treatment_effects` flags rows with an unusual propensity, and the model of the outcome may vary
    with it. In a `GPX`, put the treatment minus this column into Z. A model of the treatment (a
    `GP` with ``likelihood="bernoulli"``, fitted by "map") predicts each row from the other folds.

    Parameters
    ----------
    X : frame or array (n, d)
        Columns that were measured before the treatment.
    treatment : str, series or array (n,)
        The treatment, with two values; or the name of its column in X, which is then left out of
        the model of the treatment. The second value counts as treatment: the larger or later one,
        or the second level of a categorical. Rows without a value, such as new
        rows, get the mean of the predictions of all folds.
    folds : int
        Number of folds, each with the same proportion of treated rows.
    seed : int, optional
        Seed of the folds.
    progressbar : bool
        Show progress.

    Returns
    -------
    frame or array (n, d + 1)
        X with the last column `propensity`.

    Raises
    ------
    ValueError
        For a treatment without two values, an X that has a column `propensity`, and fewer rows of
        either value than folds.

    References
    ----------
    Hahn, Murray and Carvalho, "Bayesian regression tree models for causal inference", Bayesian
    Analysis 15 (2020).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(-2.0, 2.0, 40)[:, None]
    >>> treated = np.tile([0, 0, 0, 1], 10) + np.repeat([0, 1], 20) > 0
    >>> bx.with_propensity(X, treated, seed=1, progressbar=False).shape
    (40, 2)
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    framed = isinstance(frame, nw.DataFrame)
    known, others = treatment, X
    if isinstance(treatment, str):
        if not framed:
            raise ValueError(
                f"treatment is {treatment!r}, but X has no column names. Pass the values of the "
                "treatment, and X without them."
            )
        one_of("treatment", treatment, frame.columns)
        known, others = frame[treatment].to_native(), frame.drop(treatment).to_native()
    covariates = read_features(others, "X", dates={})
    if PROPENSITY in covariates.columns:
        raise ValueError(f"X has a column {PROPENSITY!r} already. Drop or rename it.")
    found = _propensities(covariates, known, folds, seed, progressbar)
    if not framed:
        return np.column_stack([X, found])
    column = nw.new_series(PROPENSITY, found, backend=frame.implementation)
    return frame.with_columns(column).to_native()


def _coded(treatment: Any, values: np.ndarray) -> tuple[list, np.ndarray]:
    """Values of the treatment, in the order of its levels if these are declared; and codes."""
    series = nw.from_native(treatment, series_only=True, pass_through=True)
    levels = declared(series) if isinstance(series, nw.Series) else None
    if levels is not None:
        texts = [as_text(value) for value in values]
        used = [level for level in levels if level in set(texts)]
        return used, np.array([used.index(text) for text in texts])
    try:
        found, codes = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise ValueError(
            f"treatment has values of several types, {' and '.join(kinds)}. Convert them, for "
            "example by .astype(str)."
        ) from None
    return found.tolist(), codes


def _propensities(
    X: Frame, treatment: Column, folds: int, seed: int | None, progressbar: bool
) -> np.ndarray:
    """Probability of the second of two values, predicted for each row by models of other rows."""
    count("folds", folds, 2)
    given = read_response(treatment, X, "treatment", np.asarray)
    rows = np.flatnonzero([not is_missing(value) for value in given])
    values, codes = _coded(treatment, given[rows].astype(object))
    if len(values) != 2 or np.bincount(codes).min() < folds:
        times = dict(zip(values, np.bincount(codes).tolist(), strict=True))
        raise ValueError(
            f"treatment has these values, so many times: {times}. Pass a treatment with two "
            f"values, each in at least as many rows as there are folds, {folds}."
        )
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    fold = np.full(len(X), -1)
    fold[rows[order]] = np.arange(len(rows)) % folds
    treated = np.zeros(len(X))
    treated[rows] = codes
    found = np.zeros(len(X))
    # Scaled once: a level, or a 0/1 column, may be constant in the rows of a fold.
    scaled = standard_scaling(X, "X", Moments.of(X.values[rows])).apply(X.values)
    with progress_bar(progressbar) as progress:
        for k in progress.track(range(folds), description="Propensities, by fold"):
            own, new = (fold >= 0) & (fold != k), (fold == k) | (fold < 0)
            approximation = None if own.sum() <= MOST_EXACT else Inducing(INDUCING)
            with warnings.catch_warnings(), unexamined():
                # Two levels of a category are two columns that hold the same values.
                warnings.filterwarnings("ignore", "X has columns that hold the same values")
                warnings.simplefilter("ignore", ExtrapolationWarning)
                model = GP(
                    scaled[own],
                    treated[own],
                    likelihood="bernoulli",
                    scale=False,
                    approximation=approximation,
                )
                fit = model.fit("map", seed=seed, progressbar=False)
                told = predictions(model, fit, scaled[new], keep="summary", progressbar=False)
            found[new] += told["probability_mean"].values
    return np.where(fold < 0, found / folds, found)
