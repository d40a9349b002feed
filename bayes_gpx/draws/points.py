"""The samples that a verb is asked to explain, and baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Labels, Table
from bayes_gpx.data.dates import date_after
from bayes_gpx.data.features import read_features, refuse_misaligned, row_labels
from bayes_gpx.data.response import read_reals, texts
from bayes_gpx.data.streamed import StreamedData
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.processes.approximations import HSGP
from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import one_of, one_output


@dataclass(frozen=True, eq=False)
class Points:
    """Samples to explain, on the model's scale, with what names them.

    Attributes
    ----------
    X, Z : array
        Z is None where none is needed.
    positions : integer array or None
        Positions in the training set; None for new samples.
    X_values, Z_values : array
        The same in user units.
    index : array
        Labels of the rows.
    baseline : array (d,), (B, d) or None
        Where the paths of attributions start, on the model's scale; several are averaged over.
    baseline_values : array or None
        The same in user units.
    rows : integer array or None
        Which of the given samples these are.
    group : integer array or None
        Codes of their groups, or of the output that is asked for; None where the model has none.
    """

    X: np.ndarray
    Z: np.ndarray | None
    positions: np.ndarray | None
    X_values: np.ndarray
    Z_values: np.ndarray | None
    index: np.ndarray
    baseline: np.ndarray | None = None
    baseline_values: np.ndarray | None = None
    rows: np.ndarray | None = None
    group: np.ndarray | None = None


def points(
    model: ModelLike,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    needs_z: bool = True,
) -> Points:
    """New samples, or training samples (X_new=None); `obs` picks some of them by label."""
    if X_new is None:
        if Z_new is not None:
            raise ValueError("Z_new was given without X_new; pass both, or neither.")
        if groups_new is not None:
            raise ValueError("groups_new was given without X_new; pass both, or neither.")
        training = _at_hand(model.training)
        X, Z, groups = training.X, training.Z, training.groups
    else:
        X, Z = model.training.read_new(X_new, Z_new, needs_z=needs_z)
        groups = model.training.read_groups(groups_new, X)
    rows = rows_labelled(X.index, obs)
    refuse_outside(model, X.values[rows], "X_new")
    codes = model.training.codes_at(len(X), groups)
    scaled_Z = None if Z is None else model.training.Z_scaling.apply(Z.values[rows])
    return Points(
        model.training.X_scaling.apply(X.values[rows]),
        scaled_Z,
        rows if X_new is None else None,
        X.values[rows],
        None if Z is None else Z.values[rows],
        X.index[rows],
        rows=rows,
        group=None if codes is None else codes[rows],
    )


def _at_hand(training):
    """The training data; of data read in parts, the part that is explained."""
    if not isinstance(training, StreamedData):
        return training
    if training.part is not None:
        return training.part
    training.refuse_without_rows()
    raise ValueError(
        "The training rows are read in parts; pass rows as X_new. Predictions, weights, "
        "contributions, derivatives, attributions and Shapley values of all of them go to a path=, "
        "or are summaries with keep='summary'."
    )


def at_other_x(model: ModelLike, where: Points, X: np.ndarray, rows: np.ndarray) -> Points:
    """Samples at other X, in user units, each with z and group of one of the rows of `where`.

    Where z is x, it moves with x.
    """
    training, held, groups = model.training, None, None
    if not training.tied and where.Z_values is not None:
        held = where.Z_values[rows, : training.p - training.intercept]
    group = None if where.group is None else where.group[rows]
    if training.groups is not None:
        groups = group
    return replace(points(model, X, held, groups_new=groups), group=group)


BASELINES = {
    "mean": lambda training: training.moments.mean,
    "median": lambda training: np.median(training.X.values, axis=0),
    "zero": lambda training: np.zeros(training.d),
}
"""From training data to a baseline (d,) in user units, by the name that users give."""


def read_baseline(model: ModelLike, baseline: str | Table, name: str = "baseline") -> np.ndarray:
    """Point (d,) or points (B, d) in user units.

    Parameters
    ----------
    model : Model
    baseline : {"mean", "median", "zero"}, array (d,) or (B, d), frame or frame row
        "mean" and "median" are those of the training rows; one row is one point.
    name : str
        What error messages call it.

    Raises
    ------
    ValueError
        For an unknown name, and rows that are not one finite number for each feature.
    """
    X = model.training.X
    if isinstance(baseline, str):
        one_of(name, baseline, BASELINES)
        point = BASELINES[baseline](model.training)
        refuse_outside(model, point[None], name)
        return point
    # A series of pandas is one row with its names. Whether something else is a frame, of whichever
    # package, is seen by its columns; an array may be one row.
    rows = baseline.to_frame().T if hasattr(baseline, "to_frame") else baseline
    if not hasattr(rows, "columns") and np.ndim(rows) == 1:
        rows = np.asarray(rows)[None]
    read = read_features(rows, name, like=X, minimum_rows=1)
    refuse_outside(model, read.values, name)
    return read.values[0] if len(read) == 1 else read.values


def from_baseline(
    model: ModelLike, where: Points, baseline: str | Table, name: str = "baseline"
) -> Points:
    """Points with a baseline, or several, for their paths to start from; see `read_baseline`."""
    start = read_baseline(model, baseline, name)
    scaled = model.training.X_scaling.apply(start)
    return replace(where, baseline=scaled, baseline_values=start)


def refuse_outside(model: ModelLike, values: np.ndarray, name: str) -> None:
    """Raise if rows lie outside of the box on which an HSGP's basis functions are meant."""
    approximation = model.specification.approximation
    if not isinstance(approximation, HSGP):
        return
    low, high = model.training.moments.low, model.training.moments.high
    outside = 2.0 * np.abs(values - 0.5 * (low + high)) > approximation.c * (high - low)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"{name}: {outside.any(axis=1).sum()} rows lie outside of HSGP's box, such as row "
            f"{row} with {model.training.X.columns[column]} = {values[row, column]:g}. Use a "
            f"larger c than {approximation.c:g} (and a larger m), or bx.RandomFeatures."
        )


MARGIN = 0.3
"""Share of a column's range by which some row must leave it before anything is said.

In 20 random splits of the diabetes and of the Boston housing data into four fifths and one fifth no
held-out row leaves by more; by a tenth of the range, one does in every other split.
"""


FORECAST = 5
"""Rows of which a majority beyond the range of one column counts as a forecast, however near."""

MOST_COLUMNS = 6
"""Columns that are named, of those in which rows leave the training data."""


def rows_outside(model: ModelLike, where: Points) -> str | None:
    """Say which rows leave the training data: how many, in which columns and how far.

    A row leaves the data where a number lies outside of its column's range in the training data, in
    X or in a Z of its own. Nothing is said unless one does so by more than `MARGIN` of the range,
    or more than half of `FORECAST` or more rows do so in the same column; then all of them count.
    Categories have no range, and a row within all ranges may still be far from every training row.

    Returns
    -------
    str or None
        None where nothing is said.
    """
    training, left, said = model.training, np.zeros(len(where.X), bool), []
    tables = [(training.X, training.moments.low, training.moments.high, where.X_values)]
    own_z = training.Z is not None and not training.z_is_x and where.Z_values is not None
    if own_z and not training.streamed:
        Z = training.Z.values
        tables.append((training.Z, Z.min(axis=0), Z.max(axis=0), where.Z_values))
    for known, low, high, values in tables:
        beyond = np.maximum(low - values, values - high)
        for j, column in enumerate(known.columns):
            outside = beyond[:, j] > 0.0
            if column not in known.sources or not outside.any():
                continue
            left |= outside
            farthest = beyond[:, j].argmax()
            ends = (values[farthest, j], low[j], high[j])
            far, least, most = (_written(end, known.origins.get(column)) for end in ends)
            told = f"{column} in {outside.sum()}, as far as {far} (trained on {least} to {most})"
            near = beyond[farthest, j] <= MARGIN * (high[j] - low[j])
            few = len(outside) < FORECAST or 2 * outside.sum() <= len(outside)
            said.append((near and few, told))
    if all(near for near, _ in said):
        return None
    columns = [told for _, told in sorted(said, key=lambda of_column: of_column[0])]
    if len(columns) > MOST_COLUMNS:
        columns[MOST_COLUMNS:] = [f"and {len(columns) - MOST_COLUMNS} more columns"]
    return (
        f"{left.sum()} of {len(left)} rows leave the training data: {'; '.join(columns)}. The "
        "model extrapolates there; check whether the sd grows, or leave these rows out."
        + _of_trends(model.specification)
    )


def _of_trends(specification):
    """A sentence for the kernels of a GP under which f returns to its prior mean far from data."""
    kernel = specification.kernel
    if specification.family != "GP" or not isinstance(kernel, str):
        return ""
    if any(name in kernel for name in ("linear", "polynomial")):
        return ""
    return (
        f" With kernel={kernel!r} predictions return to the mean of the response; "
        f"kernel='linear + {kernel}' continues trends."
    )


def _written(number, origin):
    """A number with four digits, an integer with all, and days since an origin as a date."""
    if origin is not None:
        return date_after(origin, number)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:.4g}"


def points_to_explain(
    model: ModelLike,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    **options: Any,
) -> Points:
    """What a verb is asked about: as `points`, with a warning of rows that leave the data."""
    where = points(model, X_new, Z_new, **options)
    if X_new is not None and (told := rows_outside(model, where)) is not None:
        warn(told, ExtrapolationWarning)
    return where


def rows_labelled(index: Any, obs: Labels | None) -> np.ndarray:
    """Positions of observations by label, list of labels or mask; None for all."""
    if obs is None:
        return np.arange(len(index))
    wanted = np.atleast_1d(np.asarray(obs))
    if wanted.dtype == bool:
        if wanted.shape != index.shape:
            raise ValueError(
                f"obs is a mask of shape {wanted.shape}; expected one value for each of "
                f"{len(index)} rows, or labels."
            )
        wanted = index[wanted]
    if wanted.ndim != 1:
        raise ValueError(f"obs has shape {wanted.shape}; expected a label or a list of labels.")
    rows = [np.flatnonzero(index == label) for label in wanted]
    missing = [str(label) for label, found in zip(wanted, rows, strict=True) if not len(found)]
    if missing or not len(wanted):
        examples = ", ".join(map(str, index[:3]))
        raise ValueError(
            f"obs: no rows labelled {missing}; expected labels of the index, such as {examples}."
        )
    return np.concatenate(rows)


def rows_numbered(n: int, obs: Labels) -> np.ndarray:
    """Positions of rows by their numbers from 0, or by a mask: rows in parts have no labels."""
    wanted = np.atleast_1d(np.asarray(obs))
    if wanted.dtype == bool and wanted.shape == (n,):
        wanted = np.flatnonzero(wanted)
    wrong = wanted.dtype.kind not in "iu" or wanted.ndim != 1 or not len(wanted)
    if wrong or wanted.min() < 0 or wanted.max() >= n:
        raise ValueError(
            f"obs: {obs!r} does not number rows that are read in parts; expected integers from 0 "
            f"to {n - 1}, at least one, or a mask of {n} values."
        )
    return wanted


def refuse_classes(model: ModelLike, what: str) -> None:
    """Raise for a model of several classes, for which something is not known."""
    if model.specification.classes is not None:
        raise ValueError(
            f"{what} with likelihood='categorical'; expected another likelihood, since several "
            "classes are not supported here. Use bx.derivatives or bx.attributions."
        )


def read_observed(dataset: xr.Dataset, y: Column) -> xr.DataArray:
    """Responses observed where a dataset predicts, (obs,); labels as their codes.

    Parameters
    ----------
    dataset : xarray.Dataset
        What `bayes_gpx.predictions` returned.
    y : array or pandas.Series (m,)
        In the order of the dataset's observations.

    Raises
    ------
    ValueError
        For another length or index, unknown labels, and what the model's own `y` may not be.
    """
    one_output(dataset)
    index = dataset["obs"].values
    if np.shape(y) != index.shape:
        raise ValueError(
            f"y has shape {np.shape(y)}; expected one value for each of the dataset's observations,"
            f" {index.shape}."
        )
    labels = row_labels(y)
    if labels is not None:
        refuse_misaligned(index, labels, "the dataset", "y")
    known = dataset.attrs.get("labels")
    if known is None:
        values = read_reals(y)
    else:
        read = texts(y)
        for label in set(read):
            one_of("y", label, known)
        values = np.array([known.index(label) for label in read])
    return xr.DataArray(values, {"obs": index}, ["obs"])
