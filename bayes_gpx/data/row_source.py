"""Tables that are read in parts, again and again: files, Dask data frames, iterables of frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import glob
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_gpx.numerics.threads import in_order

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "feather"}
"""Formats of files by their endings."""

BATCH = 2**16
"""Rows of a file that are read at a time."""


class RowSource(ABC):
    """Frames of some rows each, always the same ones in the same order."""

    @abstractmethod
    def frames(self) -> Iterator[pd.DataFrame]:
        """Read one frame after the other."""

    def reduce[Found](
        self, of_frame: Callable[[pd.DataFrame], Found], join: Callable[[Found, Found], Found]
    ) -> Found:
        """Join, in the order of the frames, what is found of each.

        Parameters
        ----------
        of_frame, join : callable
            That can be pickled, since they may run on other machines.
        """
        return in_order(of_frame, join, self.frames())


@dataclass(frozen=True)
class FileRows(RowSource):
    """Parquet or Arrow files, in the order of their names.

    Attributes
    ----------
    paths : tuple of str
    columns : tuple of str or None
        The only columns that are read, where not all are.
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns, as the first file says."""
        return self._opened(self.paths[0]).schema.names

    def _opened(self, path):
        import pyarrow.dataset

        return pyarrow.dataset.dataset(path, format=ENDINGS[Path(path).suffix])

    def frames(self) -> Iterator[pd.DataFrame]:
        """Read batches of rows."""
        columns = None if self.columns is None else list(self.columns)
        for path in self.paths:
            for batch in self._opened(path).to_batches(columns=columns, batch_size=BATCH):
                if batch.num_rows:
                    yield batch.to_pandas()


@dataclass(frozen=True, eq=False)
class GivenFrames(RowSource):
    """An iterable of pandas or polars frames that can be read again.

    Attributes
    ----------
    iterable : iterable of frames
    """

    iterable: Any

    def frames(self) -> Iterator[pd.DataFrame]:
        """Iterate over it anew."""
        for frame in self.iterable:
            if not hasattr(frame, "columns"):
                raise ValueError(
                    f"X holds a {type(frame).__name__}; expected an iterable of pandas or polars "
                    "frames, each with all columns."
                )
            yield frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()


@dataclass(frozen=True, eq=False)
class DaskRows(RowSource):
    """A Dask DataFrame; what is found of its partitions is found where they lie.

    Attributes
    ----------
    frame : dask.dataframe.DataFrame
    """

    frame: Any

    def frames(self) -> Iterator[pd.DataFrame]:
        """Compute one partition after the other."""
        for partition in self.frame.to_delayed():
            yield partition.compute()

    def reduce[Found](
        self, of_frame: Callable[[pd.DataFrame], Found], join: Callable[[Found, Found], Found]
    ) -> Found:
        """Join in a tree that depends on the number of partitions alone."""
        import dask

        of_partition = dask.delayed(of_frame, pure=False, traverse=False)
        found: list[Any] = [of_partition(part) for part in self.frame.to_delayed()]
        while len(found) > 1:
            pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
            found = [dask.delayed(join)(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return found[0].compute()


def row_source(X: Any) -> RowSource | None:
    """What X is read from in parts; None where it is a table.

    Parameters
    ----------
    X : RowSource, str or path, dask.dataframe.DataFrame, iterable of frames, or a table
        A file, a folder or a glob of Parquet or Arrow files.

    Raises
    ------
    ValueError
        For paths without such files, and for iterators, which can be read once only.
    """
    if isinstance(X, RowSource):
        return X
    if isinstance(X, str | PathLike):
        return FileRows(_files(fspath(X)))
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        return DaskRows(X)
    if hasattr(X, "__next__"):
        raise ValueError(
            f"X is a {type(X).__name__}, which can be read once only; expected an iterable that "
            "begins anew each time, such as a list of frames or an object with __iter__."
        )
    if hasattr(X, "columns") or hasattr(X, "shape") or not hasattr(X, "__iter__"):
        return None
    first = next(iter(X), None)
    return GivenFrames(X) if hasattr(first, "columns") else None


def _files(path):
    """Files of a path, a folder or a glob, sorted."""
    folder = Path(path)
    found = folder.rglob("*") if folder.is_dir() else map(Path, glob(path, recursive=True))
    files = sorted(str(file) for file in found if file.suffix in ENDINGS)
    if not files:
        raise ValueError(
            f"X is a str, {str(path)!r}, which names no files that end in {', '.join(ENDINGS)}; "
            "expected a table, or the path of such a file, of a folder of them, or a glob such as "
            "'rides/*.parquet'."
        )
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError as missing:
        raise ValueError(f"{path} needs pyarrow: pip install pyarrow.") from missing
    return tuple(files)
