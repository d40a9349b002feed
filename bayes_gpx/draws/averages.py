"""Averages over rows: which rows belong together, and the operator of their weighted sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Table
from bayes_gpx.data.dates import date_after
from bayes_gpx.data.row_data import counted
from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.processes.base import WeightedSums
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.draws.points import Points
    from bayes_gpx.draws.questions import Question

BLOCK = 2000
"""Numbers of a block of rows whose covariances with another block are formed at once."""

MOST_GROUPS = 100
"""Most values of a column or of labels that rows are averaged by."""

type By = bool | str | Sequence[str] | Column | Table | None
"""What rows are averaged by, as users say it."""


class Weights(NamedTuple):
    """Labels (g,) of groups of rows, and the weight of each row in each of them (g, m)."""

    labels: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Averaged:
    """sum_i w_gi q(x_i), an operator of g `groups`, from the operator of q at rows x_i."""

    operator: Callable
    groups: int

    def __call__(self, asked: Any) -> WeightedSums:
        """The operator at points with their weights (m, g)."""
        parts = (self.operator(asked),)
        return WeightedSums(parts, asked["weights"], self.groups)


def summed(of_rows: xr.DataArray, weights: Weights) -> xr.DataArray:
    """Weighted sums over rows, along `by` in place of `obs`."""
    across = xr.DataArray(weights.values, {"by": weights.labels, "obs": of_rows["obs"]})
    dims = ["by" if dim == "obs" else dim for dim in of_rows.dims]
    return xr.dot(of_rows, across, dim="obs").transpose(*dims)


def summarised(
    name: str, drawn: xr.DataArray, covariance: bool, keep: str, prob: float
) -> xr.Dataset:
    """Draws with their mean, sd, interval and, across groups, covariance; or these alone."""
    samples = ["chain", "draw"]
    found = xr.Dataset({name: drawn, f"{name}_mean": drawn.mean(samples)})
    found[f"{name}_sd"] = drawn.std(samples)
    found[f"{name}_interval"] = interval_of(found, name, prob)
    dims = [dim for dim in ("by", "contrast", "feature") if dim in drawn.dims]
    if covariance and dims:
        apart = drawn - found[f"{name}_mean"]
        other = apart.rename({dim: f"{dim}_bis" for dim in dims})
        found[f"{name}_cov"] = (apart * other).mean(samples)
    found = found.drop_dims(samples) if keep == "summary" else found
    return found.assign_attrs(ci_prob=prob)


def averaged(question: Question, weights: Weights) -> Question:
    """The weighted sums of a question, without new responses and without deviations."""
    sums = weights.values.sum(axis=1)
    offset = np.asarray(question.offset) * sums[0]
    if np.any(question.offset) and np.ptp(sums) > 1e-9 * max(1.0, np.abs(sums).max()):
        raise ValueError(
            f"by has columns of weights that sum to {sums.min():g} up to {sums.max():g}. Scale the "
            "columns so that all sums are equal, such as 1 for averages and 0 for contrasts."
        )
    of = partial(Averaged, groups=len(weights.labels))
    total = question.total and (question.total[0], of(question.total[1]))
    operator = question.operator if question.sums else of(question.operator)
    return replace(
        question,
        operator=operator,
        total=total,
        offset=offset,
        noisy=None,
        beside=None,
    )


def of_groups(where: Points) -> Points:
    """What a result says of groups in place of rows: their labels and averages of the features."""
    labels, values = where.by
    Z_values = None
    if isinstance(where.Z_values, np.ndarray):  # a sparse Z is never averaged
        Z_values = values @ where.Z_values
    return replace(where, index=labels, X_values=values @ where.X_values, Z_values=Z_values)


def in_blocks(where: Points, width: int) -> tuple[Points, list[np.ndarray], list[np.ndarray]]:
    """Rows in blocks of `BLOCK` numbers, and the rows of each pair of different blocks.

    The points get one more row, of no weight, which fills the last block.
    """
    m, size = len(where.X), max(1, BLOCK // width)
    filled = where.take(np.append(np.arange(m), 0))
    weights = np.append(where.inputs["weights"], np.zeros((1, len(where.by.labels))), axis=0)
    rows = np.full(-(-m // size) * size, m)
    rows[:m] = np.arange(m)
    blocks = list(rows.reshape((-1, size)))
    pairs = [np.append(*both) for both in combinations(blocks, 2)]
    return filled.having(weights=weights), blocks, pairs


def by_rows(model: ModelLike, where: Points, by: By) -> Points:
    """Points with the weights of their rows in each group, unless `by` is None."""
    if by is None or by is False:
        return where
    where.refuse_others(by, "by")
    counted = counts_of_rows(model, where)
    if by is True:
        return _with(where, np.array(["all"]), counted[None] / counted.sum())
    if hasattr(by, "columns"):
        try:
            table = np.asarray(_of_rows(where, np.asarray(by)), dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                "by is a frame, whose columns are weights, but not of numbers. Pass labels as one "
                "column, such as by.iloc[:, 0]."
            ) from None
        if not np.isfinite(table).all():
            raise ValueError("by has weights that are not finite. Pass finite weights.")
        return _with(where, np.asarray(by.columns), table.T)
    labels = _labels(model, where, by)
    if pd.isna(labels).any():
        raise ValueError(
            f"by has {pd.isna(labels).sum()} missing labels. Give these rows a label, or leave "
            "them out by obs=."
        )
    try:
        groups, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("by has labels of several types. Pass by.astype(str).") from None
    if len(groups) > MOST_GROUPS:
        raise ValueError(
            f"by has {len(groups)} different values, but averages are of at most {MOST_GROUPS}. "
            "Pass labels of fewer groups, such as pandas.qcut of the column."
        )
    member = counted * (codes == np.arange(len(groups))[:, None])
    return _with(where, groups, member / member.sum(axis=1, keepdims=True))


def counts_of_rows(model: ModelLike, where: Points) -> np.ndarray:
    """How often each row counts: training rows by their `weights=`, others once; (m,)."""
    if "positions" not in where.inputs:
        return np.ones(len(where.X))
    return counted(model.training.row_data, len(model.training.X))[where.rows]


def shares_of_variance(
    model: ModelLike, where: Points, components: np.ndarray, f: np.ndarray
) -> np.ndarray:
    """Shares of each component's mean (m, k[, C]) in the variance over rows of the mean of f."""
    counted = counts_of_rows(model, where) if where.by is None else None
    own, away = (v - np.average(v, axis=0, weights=counted) for v in (components, f))
    weighed = away if counted is None else (away.T * counted).T
    with np.errstate(invalid="ignore"):  # of a single row, nothing varies
        return np.einsum("m...,mk...->k...", weighed, own) / (weighed * away).sum(axis=0)


def _with(where: Points, labels: np.ndarray, values: np.ndarray) -> Points:
    """The points with weights, which operators are given."""
    return replace(where, by=Weights(labels, values)).having(weights=values.T)


def _labels(model: ModelLike, where: Points, by: Any) -> np.ndarray:
    """A label for each row: of a column, of several, or as given."""
    training = model.training
    if isinstance(by, str):
        frames: dict[str, tuple[Any, Any]]
        frames = {name: (training.X, where.X_values) for name in training.X.sources}
        own = None if training.z_is_x or training.sparse else training.Z
        if own is not None and where.Z_values is not None:
            frames |= {name: (own, where.Z_values) for name in own.sources}
        one_of("by", by, frames)
        return _column(*frames[by], by)
    values = list(by) if isinstance(by, list | tuple) else np.asarray(by)
    if isinstance(values, list) and values and all(isinstance(name, str) for name in values):
        labels = len(values) in (len(where.X), where.passed)
        if not labels or set(values) <= set(training.X.sources):
            cells = [*zip(*(_labels(model, where, name) for name in values), strict=True)]
            joined = [", ".join(map(str, row)) for row in cells]
            if len(set(joined)) < len(set(cells)):  # labels have commas of their own
                joined = [", ".join(map(repr, map(str, row))) for row in cells]
            return np.array(joined)
    return _of_rows(where, np.asarray(values))


def _column(frame: Frame, values: np.ndarray, name: str) -> np.ndarray:
    own = values[:, np.isin(frame.columns, frame.of_source(name))]
    if name in frame.levels:
        return np.asarray(frame.levels[name])[own.argmax(axis=1)]
    if name in frame.origins:
        return np.array([str(date_after(frame.origins[name], day)) for day in own[:, 0]])
    return own[:, 0]


def _of_rows(where: Points, values: np.ndarray) -> np.ndarray:
    """Values of the explained rows, of one for each of these or for each row that was passed."""
    if not values.ndim:
        raise ValueError(
            f"by is {values.item()!r}. Pass True, names of columns, labels or a frame of weights."
        )
    rows = np.arange(len(where.X)) if where.rows is None else where.rows
    if len(values) == len(where.X):
        return values
    if len(values) == where.passed:
        return values[rows]
    raise ValueError(f"by has {len(values)} values. Pass one for each of {len(where.X)} rows.")
