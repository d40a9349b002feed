"""Leave out rows together: groups, or all later rows; read them and score the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Column, Draws
from bayes_gpx.data.dates import days_since, first_date, holds_dates
from bayes_gpx.data.features import read_response
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.naming import coded
from bayes_gpx.posteriors.evidence.groups import given_before
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.validation import count, meant

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.posteriors.base import OneDraw

LEAD = ("chain", "draw")
"""Dims of draws, which come first."""


def read_groups(training: TrainingData, groups: str | Column) -> tuple[np.ndarray, np.ndarray]:
    """Codes 0, 1, ... of each response's group (n,), and the labels in order of appearance."""
    codes, labels = pd.factorize(_by_row(training, groups, "groups"))
    if training.outputs is not None:  # a group holds all outputs of its rows that were observed
        kept, codes = np.unique(codes[training.outputs.rows], return_inverse=True)
        labels = np.asarray(labels)[kept]
    if len(labels) < 2:
        raise ValueError(
            f"groups has the one label {labels[0]}. Pass at least two groups, because each is "
            "predicted from the others."
        )
    return codes.astype(np.int64), np.asarray(labels)


def read_order(training: TrainingData, order: str | Column) -> np.ndarray:
    """Rank 0, 1, ... of each row, (n,); rows at the same time share a rank."""
    training.refuse_outputs("order=", "Pass groups=, or no order.")
    given = _by_row(training, order, "order")
    dated = given.dtype.kind == "O" and holds_dates(given)
    values = pd.Series(days_since(given, first_date(given)) if dated else given).infer_objects()
    if values.dtype.kind not in "iufM":
        raise ValueError(
            f"order holds values of type {values.dtype}. Pass numbers or dates, which sort the "
            "rows."
        )
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _by_row(training: TrainingData, values: str | Column, argument: str) -> np.ndarray:
    """Values of a column by its name, or those that were given; none missing."""
    training.refuse_out_of_core(
        f"{argument} needs all rows in memory. Use a model of a table, not of out-of-core data."
    )
    if isinstance(values, str):
        return _column(training, values, argument)
    values = np.asarray(read_response(values, training.X, argument, lambda given: given))
    missing = pd.isna(values)
    if missing.any():
        raise ValueError(
            f"{argument} is missing in {missing.sum()} rows, first in row "
            f"{training.X.index[missing][0]}. Pass a value for each row."
        )
    return values


def _column(training: TrainingData, name: str, argument: str) -> np.ndarray:
    for frame in (training.X, training.Z):
        if frame is None or name not in frame.sources:
            continue
        values = coded(frame, frame.values, [name])[:, 0]
        if name not in frame.levels:
            return values
        return np.asarray(frame.levels[name])[values.astype(int)]
    of_Z = () if training.Z is None else training.Z.sources
    known = list(dict.fromkeys([*training.X.sources, *of_Z]))
    hint = meant(argument, name, known)
    raise ValueError(
        f"{argument}: no column {name!r} in the model's tables, which have {known}. Pass one of "
        f"these, or a value for each row.{hint}"
    )


def _joint(draw: OneDraw) -> list:
    return [draw.strategy.leave_groups_out(draw.given, draw.groups).joint]


def _in_order(draw: OneDraw) -> list:
    if draw.strategy != Exact():
        raise ValueError(
            "order needs normal noise on all rows, because the density is then a product of terms, "
            "each given the rows before. Use likelihood='normal', no approximation and no "
            "constraints."
        )
    given = draw.given
    C = Exact().covariance(given, jitter=given.jitter)
    each = given_before(given.y, C)
    return [each if given.beyond is None else each + given.beyond]


def densities_of_groups(
    model: ModelLike, idata: Draws, groups: str | Column, *, progressbar: bool = True
) -> xr.DataArray:
    """Log p(y_G | y_-G, theta) of each group given the other groups, (chain, draw, group)."""
    codes, labels = read_groups(model.training, groups)
    (joint,), hyper, _ = at_training_rows(
        model, idata, _joint, groups=codes, progressbar=progressbar
    )
    joint = joint[..., first_of_each(codes)]
    joint -= log_units(model.training, codes)
    coords = {"chain": hyper.chain, "draw": hyper.draw, "group": labels}
    return xr.DataArray(joint, coords, [*LEAD, "group"])


def log_units(training: TrainingData, codes: np.ndarray) -> np.ndarray:
    """What log densities of the groups with such codes lose in user units, (groups,)."""
    return np.bincount(codes, np.broadcast_to(training.log_units, codes.shape))


def first_of_each(codes: np.ndarray) -> np.ndarray:
    """Position of the first row of each group, from codes 0, 1, ..."""
    return np.unique(codes, return_index=True)[1]


def densities_in_order(
    model: ModelLike,
    idata: Draws,
    order: str | Column,
    start: int | None = None,
    *,
    progressbar: bool = True,
) -> tuple[xr.DataArray, xr.DataArray]:
    """Log p(y_t | y_<t, theta) and log p(y_>=t | y_<t, theta), (chain, draw, time)."""
    # y is in user units.
    # Responses at the same time are predicted together. The first `start` rows are not scored; half
    # of all rows by default. The second densities are for importance weights.
    training = model.training
    ranks = read_order(training, order)
    start = training.n // 2 if start is None else start
    count("start", start, 0)
    by_time = np.argsort(ranks, kind="stable")
    begins = np.flatnonzero(np.diff(ranks[by_time], prepend=-1))
    kept = begins >= start
    if kept.sum() < 2:
        raise ValueError(
            f"order leaves {kept.sum()} times after the first {start} rows, but needs at least two "
            f"to score, of {len(begins)} times in all. Pass a smaller start."
        )
    (each,), hyper, _ = at_training_rows(
        model, idata, _in_order, order=by_time, progressbar=progressbar
    )
    each = each - np.broadcast_to(training.log_units, (training.n,))[by_time]
    terms = np.add.reduceat(each, begins, axis=-1)
    later = np.cumsum(terms[..., ::-1], axis=-1)[..., ::-1]
    coords = {"chain": hyper.chain, "draw": hyper.draw, "time": np.flatnonzero(kept)}
    dims = [*LEAD, "time"]
    known = xr.DataArray(terms[..., kept], coords, dims)
    return known, xr.DataArray(later[..., kept], coords, dims)
