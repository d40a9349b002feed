"""Sparse tables of features with weights: reading, scaling, and the entries of each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sps

from bayes_gpx.data.features import MINIMUM_ROWS, Frame, read_features, refuse_repeated, row_labels
from bayes_gpx.data.numbers import FILL_IN, IMPUTE, gaps
from bayes_gpx.data.scaling import Scaling

ABSENT = -1
"""Stands for a column in the table of a row's columns, where the row has fewer than others."""


def is_sparse(table: Any) -> bool:
    """Whether a table is a SciPy sparse matrix, or a pandas frame of sparse columns only."""
    return sps.issparse(table) or (hasattr(table, "columns") and hasattr(table, "sparse"))


def read_weighed(Z: Any, name: str, *, like: Frame | None = None, **options: Any) -> Frame:
    """Read features with weights, other than X; new rows are sparse if Z is."""
    if isinstance(Z, Frame):
        return Z
    if is_sparse(Z) if like is None else like.sparse:
        return read_sparse(Z, name, like)
    return read_features(Z, name, prefix="z", like=like, **options)


def read_sparse(Z: Any, name: str, like: Frame | None) -> Frame:
    """Read features with weights (n, p), and keep the entries other than 0."""
    # Columns are matched to those of `like` by the names of a frame, else by position.
    columns = None
    if hasattr(Z, "columns"):
        columns = tuple(map(str, Z.columns))
        if len({*columns}) < len(columns):
            refuse_repeated([*columns], name)
        if like is not None:
            missing = sorted({*like.columns} - {*columns})
            if missing:
                raise ValueError(
                    f"{name} lacks the columns {missing[:MOST_NAMED]}. Pass all {len(like.columns)}"
                    " columns of Z, or a SciPy matrix to match columns by position."
                )
            Z = Z[[*like.columns]]
    labels = row_labels(Z)
    values = _entries(Z, name)
    n, p = values.shape
    if like is not None and p != len(like.columns):
        raise ValueError(
            f"{name} has {p} columns, but must have {len(like.columns)}, as Z of the model."
        )
    if n < (MINIMUM_ROWS if like is None else 1) or not p:
        raise ValueError(
            f"{name} has {n} rows and {p} columns. Pass at least "
            f"{MINIMUM_ROWS if like is None else 1} rows and a column."
        )
    index = np.arange(n) if labels is None else labels
    bad = ~np.isfinite(values.data)
    if bad.any():
        rows = np.unique(values.tocoo().coords[0][bad])
        cure = IMPUTE if like is None else FILL_IN
        raise ValueError(f"{name} has {gaps(rows, index)}. Drop these rows, or {cure}.")
    known = like.columns if like is not None else columns or tuple(f"z{j}" for j in range(p))
    return Frame(values, known, index, labels is not None)


MOST_NAMED = 6
"""So many columns are named in a message."""


def _entries(Z: Any, name: str) -> sps.csr_array:
    """The entries by row, in order of columns, each place once."""
    if not is_sparse(Z):
        Z = np.asarray(Z)
    elif hasattr(Z, "columns"):
        try:
            Z = Z.sparse.to_coo()
        except ValueError as filled:
            raise ValueError(
                f"{name} has sparse columns that leave out another value than 0. Pass "
                ".sparse.to_dense() of it."
            ) from filled
    if np.dtype(Z.dtype).kind not in "biuf" or Z.ndim != 2:
        raise ValueError(
            f"{name} holds {Z.dtype} and has shape {Z.shape}. Pass real numbers (rows, features)."
        )
    values = sps.csr_array(Z, dtype="float64", copy=True)
    values.sum_duplicates()
    values.eliminate_zeros()
    return values


PARTS = "data", "indices", "indptr"
"""Attributes of a sparse matrix that hold its arrays."""


def frame_of(parts: Sequence[np.ndarray], columns: Iterable[Any], index: np.ndarray) -> Frame:
    """The table that was stored as the arrays of its `PARTS`."""
    names = tuple(map(str, columns))
    values = sps.csr_array(tuple(parts), shape=(len(index), len(names)))
    return Frame(values, names, index, True)


def sparse_scaling(frame: Frame, name: str, *, scale: bool) -> Scaling:
    """Root mean square of each column, and no center, which would fill the matrix."""
    if not scale:
        return Scaling(np.zeros(len(frame.columns)), np.ones(len(frame.columns)))
    squares = np.bincount(frame.values.indices, frame.values.data**2, len(frame.columns))
    if not squares.all():
        empty = np.flatnonzero(squares == 0.0)
        raise ValueError(
            f"{name} has {len(empty)} columns without entries, such as "
            f"{frame.columns[empty[0]]!r}, which cannot be scaled. Drop them, or pass scale=False."
        )
    return Scaling(np.zeros(len(squares)), np.sqrt(squares / len(frame)))


def stacked(tables: Sequence[Any]) -> Any:
    """Tables of rows, sparse or not, one below the other."""
    if sps.issparse(tables[0]):
        return sps.vstack(tables, format="csr")
    return np.concatenate(tables)


def entries_by_row(
    values: sps.csr_array, chosen: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Columns (m, q), `ABSENT` after a row's last, and values (m, q) of entries, with q > 0."""
    # `chosen` are the columns to look for, all by default.
    if chosen is not None:
        kept = values[:, chosen].tocsr()
        values = sps.csr_array((kept.data, chosen[kept.indices], kept.indptr), values.shape)
    counts = np.diff(values.indptr)
    shape = len(counts), max(1, counts.max(initial=0))
    rows = np.repeat(np.arange(len(counts)), counts)
    places = np.arange(len(rows)) - np.repeat(values.indptr[:-1], counts)
    columns, entries = np.full(shape, ABSENT), np.zeros(shape)
    columns[rows, places], entries[rows, places] = values.indices, values.data
    return columns, entries
