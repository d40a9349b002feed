"""Weights and contributions of a sparse Z, for the features that each row has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.data.sparse import ABSENT, entries_by_row
from bayes_gpx.draws.evaluate import evaluate
from bayes_gpx.draws.questions import Axis, Question
from bayes_gpx.processes import operators
from bayes_gpx.system.memory import in_words, refuse_beyond
from bayes_gpx.validation import names_among

if TYPE_CHECKING:
    from bayes_gpx.aliases import Draws
    from bayes_gpx.draws.points import Points
    from bayes_gpx.model.model import Model
    from bayes_gpx.posteriors.base import Asked


@dataclass(frozen=True)
class _Entries:
    """Products of weights and numbers `Z` (m, q), at columns (m, q) of the training rows' Z."""

    smooth: bool

    def __call__(self, asked: Asked) -> operators.Contribution:
        return operators.contribution(
            asked.points,
            asked["Z"],
            columns=asked["columns"],
            sample=asked.sample,
            smooth=self.smooth,
        )


def of_entries(
    model: Model,
    idata: Draws,
    where: Points,
    question: Question,
    *,
    smooth: bool = False,
    features: Sequence[str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Answer `question`, weights or contributions, at the features that rows have."""
    # Rows have at most q of p features: the graphs take q numbers of each row, and the results
    # move to their features afterwards, so arrays have m q or q n numbers, but never n p.
    training = model.training
    _refuse(where, options)
    columns, values = entries_by_row(where.inputs["Z"], _chosen(training.Z.columns, features))
    if question.name == "weight":
        values = np.where(columns == ABSENT, 0.0, 1.0 / training.Z_scaling.scale[columns])
    kept = np.unique(columns[columns != ABSENT])
    if features is not None:
        kept = np.array([training.Z.columns.index(name) for name in features])
    _refuse_wide(len(columns), len(kept), options)
    slots = Question(
        name=question.name,
        operator=_Entries(smooth),
        axes=(Axis("feature", tuple(range(columns.shape[1]))),),
        factor=np.full(columns.shape[1], training.y_scaling.scale),
        units=question.units,
        samples=question.samples,
        table=None,
    )
    at = where.having(Z=values, columns=np.maximum(columns, 0))
    found = evaluate(model, idata, slots, at, **options)
    names = [training.Z.columns[j] for j in kept]
    # A row's list of features ends in places that stand for none; they go to one more feature.
    place = np.full(training.p + 1, len(kept))
    place[kept] = np.arange(len(kept))
    moved = _by_feature(found, place[columns], len(kept)).assign_coords(feature=names)
    if "feature_bis" in moved.dims:
        moved = moved.assign_coords(feature_bis=names)
    own = cast(Any, where.Z_values)[:, kept].toarray()
    moved["value"] = ("obs", "feature"), np.where(own == 0.0, np.nan, own)
    if question.center is not None:
        moved["center"] = "feature", question.center[kept]
        moved["offset"] = training.y_scaling.center
    return moved


def _chosen(columns: tuple[str, ...], features: Sequence[str] | None) -> np.ndarray | None:
    """Positions of the features to look for, in order; None for all."""
    if features is None:
        return None
    return np.sort([columns.index(name) for name in names_among("features", features, columns)])


def _refuse(where: Points, options: dict[str, Any]) -> None:
    """Raise for options that need the same features in all rows."""
    cure = "Leave it out, or fit with Z.toarray()."
    if "Z" not in where.inputs:
        raise ValueError(
            "Z is sparse, so rows have weights for their own features alone. Pass X_new with Z_new."
        )
    given = {"by": where.by, **{name: options.get(name) for name in ("joint", "path")}}
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(
                f"{name} was given, but Z is sparse, and rows have different features. {cure}"
            )


def _refuse_wide(m: int, features: int, options: dict[str, Any]) -> None:
    """Raise for results that exceed memory: rows times all features that any of them has."""
    each = 6 + (options.get("draws", 1000) if options.get("keep", "draws") == "draws" else 0)
    needed = 8 * m * features * each
    refuse_beyond(
        needed,
        f"{m} rows have {features} different features, and their results take {in_words(needed)}",
        "Explain fewer rows at a time by obs=, choose features=, or pass keep='summary'.",
    )


def _by_feature(found: xr.Dataset, place: np.ndarray, count: int) -> xr.Dataset:
    """Move numbers to `place` (m, q) among so many features, and leave one more out; else NaN."""
    rows = np.arange(len(place))[:, None]
    variables = {}
    for name, variable in found.data_vars.items():
        dims, values = variable.dims, variable.values
        for dim in {"feature", "feature_bis"} & {*dims}:
            axes = dims.index("obs"), dims.index(dim)
            own = np.moveaxis(values, axes, (0, 1))
            moved = np.full((len(own), count + 1, *own.shape[2:]), np.nan)
            moved[rows, place] = own
            values = np.moveaxis(moved[:, :count], (0, 1), axes)
        variables[name] = dims, values
    coords = {n: c for n, c in found.coords.items() if not {"feature", "feature_bis"} & {*c.dims}}
    return xr.Dataset(variables, coords, found.attrs)
