"""Reference distributions of relevance for features, or pairs, without an effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws import questions
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.points import at_other_x, points
from bayes_gpx.model.refits import Refits
from bayes_gpx.numerics.progress import progress_bar
from bayes_gpx.validation import count

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model

REPLICATES = 19
"""Replicates of ``null=True``: the smallest p-value is then 1 / 20."""

ROWS_A_COLUMN = 5
"""Rows per column for which residuals of a regression on the other columns are permuted."""

BACKGROUND = 50
"""Rows over which other features are averaged where an interaction is taken out of f."""

Statistic = Callable[[Any, Any], dict[str, np.ndarray]]
"""From a model and its hyperparameters to numbers (feature) or (feature, feature_bis), by name."""


def replicates(null: int | bool | None) -> int:
    """How many replicates are asked for; 0 for none."""
    if null is None or isinstance(null, bool):
        return REPLICATES if null else 0
    count("null", null)
    return null


def by_permutation(
    model: Model,
    idata: Draws,
    statistic: Statistic,
    features: Iterable[str],
    null: int,
    seed: int | None,
    progressbar: bool,
) -> xr.Dataset:
    """Statistics of models refitted to rows in which one column at a time is permuted."""
    # A permuted column has no effect, whatever the others do. Its residuals given the other columns
    # are permuted, which preserves their correlation. Hyperparameters are refitted, because the
    # lengthscale of a noise column adapts to that noise.
    _refuse(model)
    names, n = list(features), model.training.n
    fits, rng = Refits(model, idata), np.random.default_rng(seed)
    found: dict[str, list[np.ndarray]] = {}
    with progress_bar(progressbar) as progress:
        for name in progress.track(
            names, total=len(names), description="Refitting with permuted columns"
        ):
            # The fit at hand knows the order of the column's values, and from its mode replicates
            # would climb less high: all start where the column has no effect.
            start = fits.mode(_without_column(model, name))
            orders = (rng.permutation(n) for _ in range(null))
            rows = [model.training, *(_permuted(model, name, order) for order in orders)]
            each = [statistic(*fits.of_features(one, start)) for one in rows]
            place = model.training.X.sources.index(name)
            for key in each[0]:
                found.setdefault(key, []).append(np.array([one[key][place] for one in each]))
    table = {key: np.column_stack(columns) for key, columns in found.items()}
    observed = {key: values[0] for key, values in table.items()}
    drawn = {key: values[1:] for key, values in table.items()}
    return _named(observed, drawn, {"feature": names})


def by_simulation(
    model: Model,
    idata: Draws,
    statistic: Statistic,
    asked: np.ndarray,
    null: int,
    seed: int | None,
    progressbar: bool,
) -> xr.Dataset:
    """Statistics of models refitted to responses without one interaction at a time."""
    # The interaction of each pair in `asked`, boolean (feature, feature), is subtracted from the
    # fitted f, averaged over other features. Responses are drawn around the rest, and the model is
    # refitted. Main effects stay, which permuted columns would destroy.
    _refuse(model)
    model.training.refuse_censored("null")
    if model.specification.classes is not None:
        raise ValueError(
            "null is not offered for the interactions of several classes. Explain one class "
            "against the others by likelihood='bernoulli'."
        )
    names, d = model.training.X.sources, len(asked)
    fits, rng = Refits(model, idata), np.random.default_rng(seed)
    own, theta = fits.of_features(model.training)
    observed = statistic(own, theta)
    drawn = {key: np.full((null, d, d), np.nan) for key in observed}
    pairs = [(i, j) for i, j in zip(*np.triu_indices(d, 1), strict=True) if asked[i, j]]
    with progress_bar(progressbar) as progress:
        for i, j in progress.track(
            pairs, total=len(pairs), description="Refitting without an interaction"
        ):
            f = _without(own, theta, (names[i], names[j]), rng)
            for b in range(null):
                y = _response(own, theta, f, rng)
                values = statistic(*fits.of_response(replace(model.training, y=y)))
                for key, value in values.items():
                    drawn[key][b, i, j] = drawn[key][b, j, i] = value[i, j]
    return _named(observed, drawn, {"feature": list(names), "feature_bis": list(names)})


def _refuse(model: Model) -> None:
    """Raise for rows that no other rows can take the place of."""
    if model.training.streamed or model.joined or model.training.outputs is not None:
        raise ValueError(
            "null needs a model of one response, of a table in memory, outside of any larger "
            "pm.Model. Leave null out, or fit a sample of the rows."
        )


def _permuted(model: Model, name: str, order: np.ndarray) -> TrainingData:
    """The rows with one of X's columns permuted."""
    # For numbers, the residuals of the regression on the other columns are permuted. The values are
    # permuted instead if residuals would leave their set (categories, two values, columns that a
    # user's kernel takes), or if there are too few rows for the regression.
    training = model.training
    X = training.X.values
    own = np.isin(training.X.columns, training.X.of_source(name))
    others = np.column_stack([np.ones(len(X)), X[:, ~own]])
    numbers = name not in training.X.levels and len(np.unique(X[:, own])) > 2
    fitted = np.zeros((len(X), own.sum()))
    if (
        numbers
        and len(X) >= ROWS_A_COLUMN * others.shape[1]
        and not model.specification.calls_kernel
    ):
        others[:, 1:] -= others[:, 1:].mean(axis=0)
        fitted = others @ np.linalg.lstsq(others, X[:, own])[0]
    return _replaced(training, name, fitted + (X[:, own] - fitted)[order])


def _without_column(model: Model, name: str) -> TrainingData:
    """The rows with one of X's own columns at its mean, where it has no effect."""
    frame = model.training.X
    own = np.isin(frame.columns, frame.of_source(name))
    return _replaced(model.training, name, frame.values[:, own].mean(axis=0))


def _replaced(training: TrainingData, name: str, values: np.ndarray) -> TrainingData:
    """The rows with other values of one of X's own columns, in Z too where Z is X."""

    def moved(frame: Frame) -> Frame:
        held = frame.values.copy()
        held[:, np.isin(frame.columns, training.X.of_source(name))] = values
        return replace(frame, values=held)

    Z = training.Z
    if Z is not None and training.z_is_x:
        Z = moved(Z)
    return replace(training, X=moved(training.X), Z=Z)


def _without(
    model: Any, theta: Draws, pair: tuple[str, str], rng: np.random.Generator
) -> np.ndarray:
    """The smooth part of f at the training rows without the interaction of a pair, (n,)."""
    # f_ij = E[f | x_i, x_j] - E[f | x_i] - E[f | x_j] + E[f], other features averaged over rows.
    training = model.training
    n = training.n
    background = rng.choice(n, min(n, BACKGROUND), replace=False)
    X = training.X.values
    columns = [np.isin(training.X.columns, training.X.of_source(name)) for name in pair]
    means = []
    for kept in (columns[0] | columns[1], columns[0], columns[1]):
        rows = np.where(kept, X[:, None], X[background]).reshape((-1, X.shape[1]))
        groups = np.repeat(np.arange(n), len(background))
        f = _smooth(model, theta, rows, groups)
        means.append(f.reshape((n, -1)).mean(axis=1))
    both, first, second = means
    f = _smooth(model, theta, X, np.arange(n))
    return f - (both - first - second + f.mean())


def _smooth(model: Any, theta: Draws, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Posterior mean of f, of a GPX of its smooth part, at X, with Z and group of training rows."""
    where = at_other_x(model, points(model, None), X, rows)
    quantity = questions.value(model, smooth=True)
    found = evaluate(model, theta, quantity, where, on="latent", keep="summary", progressbar=False)
    return found["f_mean"].values


def _response(
    model: Any, theta: dict[str, np.ndarray], f: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """New responses around f (n,), in user units, with the deviations of a GPX's rows."""
    training, spec = model.training, model.specification
    latent, of_y = training.y_scaling.apply(f), training.response_scaling
    if training.Z is not None:
        sds = np.broadcast_to(spec.deviation_sd(theta), training.p)
        Z = training.Z_scaling.apply(training.Z.values)
        latent = latent + (rng.normal(size=Z.shape) * sds * Z).sum(axis=1)
    exposure = training.scaled_exposure
    return of_y.center + of_y.scale * spec.observation.draw(latent[None], theta, rng, exposure)[0]


def _named(
    observed: dict[str, np.ndarray], drawn: dict[str, np.ndarray], coords: dict[str, list[str]]
) -> xr.Dataset:
    """The statistics, their replicates and p = (1 + number at least as large) / (1 + number)."""
    dims = tuple(coords)
    variables: dict[str, Any] = {}
    for name, values in observed.items():
        others = drawn[name]
        least = (others >= values).sum(axis=0)
        p = np.where(np.isnan(others).all(axis=0), np.nan, (1 + least) / (1 + len(others)))
        variables |= {
            f"{name}_refitted": (dims, values),
            f"{name}_null": (("null", *dims), others),
            f"{name}_p": (dims, p),
        }
    return xr.Dataset(variables, coords)
