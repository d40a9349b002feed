"""Values of the user's columns: numbers as they are, and of categorical columns the levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame


def coded(frame: Frame, values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Values of the user's named columns (..., k), from the values of all columns (..., d).

    A categorical column has the position of its level, NaN between levels.
    """
    place = {column: j for j, column in enumerate(frame.columns)}
    parts = []
    for name in names:
        own = values[..., [place[column] for column in frame.of_source(name)]]
        if name in frame.levels:
            whole = (own.max(axis=-1) == 1.0) & (own.sum(axis=-1) == 1.0)
            parts.append(np.where(whole, own.argmax(axis=-1), np.nan))
        else:
            parts.append(own[..., 0])
    return np.stack(parts, axis=-1)


def values_by_source(
    frame: Frame, values: np.ndarray, names: Sequence[str]
) -> dict[str, xr.Variable]:
    """What a Dataset says of X at rows (m, d): `value` and, where there are levels, their names.

    As in `coded`, for the user's columns of these names; `level` is empty for a number.
    """
    dims, found = ("obs", "feature"), coded(frame, values, names)
    said = {"value": xr.Variable(dims, found)}
    if frame.levels:
        level = [_named(frame.levels.get(name, ()), found[:, j]) for j, name in enumerate(names)]
        said["level"] = xr.Variable(dims, np.stack(level, axis=-1))
    return said


def _named(levels, codes):
    """Name of the level at each of the codes, empty where there is none."""
    which = np.where(np.isnan(codes), len(levels), codes) if levels else np.zeros(len(codes))
    return np.array([*levels, ""])[which.astype(int)]
