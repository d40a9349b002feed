"""Out-of-core tables, read repeatedly: files, Arrow's, Dask's, iterables of frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_gpx.data.features import refuse_lazy
from bayes_gpx.numerics.threads import in_order

ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "feather"}
"""Formats of files by their endings."""

BATCH = 2**16
"""Rows of a file that are read at a time."""

PART = "part"
"""Attribute of a frame: what error messages call it."""


class RowSource(ABC):
    """Frames of some rows each, always the same rows; in the same order, where that matters."""

    elsewhere = False
    """Whether `reduce` works where the frames lie, on other machines too."""

    to_keep_order = (
        "Let the rows be in their order, or make the model of them again; an iterable has to begin "
        "anew each time."
    )
    """What error messages say where the order of rows has changed."""

    @abstractmethod
    def frames(self) -> Iterator[pd.DataFrame]:
        """Read one frame after the other, each with rows and with its name as `PART`."""

    def reduce[Found](
        self, of_frame: Callable[[pd.DataFrame], Found], join: Callable[[Found, Found], Found]
    ) -> Found:
        """Combine the results for each frame, in their order; ValueError without rows."""
        # Both functions can be pickled, since they may run on other machines.
        frames = self.frames()
        first = next(frames, None)
        if first is None:
            raise ValueError(NO_ROWS)
        return in_order(of_frame, join, chain([first], frames))


NO_ROWS = (
    "X has no rows in any of its parts, but must have some each time it is read. Check what the "
    "parts are made from; an iterable has to begin anew each time."
)


@dataclass(frozen=True)
class FileRows(RowSource):
    """Parquet or Arrow files, in the order of their names; None reads all columns."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns, as the first file says."""
        return self._opened(self.paths[0]).schema.names

    def _opened(self, path: str) -> Any:
        import pyarrow.dataset  # noqa: F401

        kind = ENDINGS[Path(path).suffix.lower()]
        try:
            opened = pyarrow.dataset.dataset(path, format=kind)
        except (pyarrow.ArrowInvalid, OSError) as wrong:
            raise ValueError(
                f"{path} cannot be read. Write it anew as a whole file of the format {kind}, with "
                f"different column names, or leave it out. {wrong}"
            ) from wrong
        return opened

    def frames(self) -> Iterator[pd.DataFrame]:
        """Read batches of rows, which are numbered from 0 in each file."""
        for path in self.paths:
            opened = self._opened(path)
            known = opened.schema.names
            columns = [name for name in self.columns or known if name in known]
            yield from _batches(opened, path, columns)


@dataclass(frozen=True, eq=False)
class ArrowRows(RowSource):
    """A pyarrow Table or Dataset, of files of any format and of folders with values, too."""

    rows: Any

    def frames(self) -> Iterator[pd.DataFrame]:
        """Read batches of rows, which are numbered from 0 over all of them."""
        import pyarrow.dataset  # noqa: F401

        opened = pyarrow.dataset.dataset(self.rows) if hasattr(self.rows, "shape") else self.rows
        yield from _batches(opened, "The Arrow data")


@dataclass(frozen=True, eq=False)
class GivenFrames(RowSource):
    """An iterable of pandas or polars frames that can be read again."""

    iterable: Any

    def frames(self) -> Iterator[pd.DataFrame]:
        """Iterate over it anew."""
        for number, frame in enumerate(self.iterable):
            refuse_lazy(frame, f"Frame {number}")
            if not hasattr(frame, "columns"):
                raise ValueError(
                    f"X holds a {type(frame).__name__}. Pass an iterable of pandas or polars "
                    "frames, each with all columns."
                )
            if len(frame):
                table = frame if isinstance(frame, pd.DataFrame) else frame.to_pandas()
                yield _named(table, f"Frame {number}")


@dataclass(frozen=True, eq=False)
class DaskRows(RowSource):
    """A Dask DataFrame; its partitions are processed on the workers that have them."""

    frame: Any

    elsewhere = True

    to_keep_order = (
        "Of a merge or a shuffle, Dask's partitions have the same rows in another order each time "
        "that they are computed: make the model of X.persist(), which computes them once."
    )

    def frames(self) -> Iterator[pd.DataFrame]:
        """Compute one partition after the other."""
        for number, partition in enumerate(self.frame.to_delayed()):
            frame = partition.compute()
            if len(frame):
                yield _named(frame, f"Partition {number}")

    def reduce[Found](
        self, of_frame: Callable[[pd.DataFrame], Found], join: Callable[[Found, Found], Found]
    ) -> Found:
        """Join in a tree that depends on the number of partitions alone."""
        import dask

        of_partition = dask.delayed(partial(_of_partition, of_frame), pure=False, traverse=False)
        both = dask.delayed(partial(_of_both, join), pure=False, traverse=False)
        found: list[Any] = [of_partition(*part) for part in enumerate(self.frame.to_delayed())]
        while len(found) > 1:
            pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
            found = [both(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        whole = found[0].compute()
        if whole is None:
            raise ValueError(NO_ROWS)
        return whole


def _batches(
    opened: Any, part: str, columns: Sequence[str] | None = None
) -> Iterator[pd.DataFrame]:
    """Frames of the rows of a pyarrow Dataset, numbered from 0."""
    seen = 0
    for batch in opened.to_batches(columns=columns, batch_size=BATCH):
        if batch.num_rows:
            rows = pd.RangeIndex(seen, seen + batch.num_rows)
            yield _named(batch.to_pandas().set_axis(rows), part)
            seen += batch.num_rows


def _named(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """A frame with strings as names of its columns, and a name for error messages."""
    named = frame.set_axis([str(name) for name in frame.columns], axis=1)
    named.attrs = {PART: part}
    return named


def _of_partition(of_frame: Callable[[pd.DataFrame], Any], number: int, frame: pd.DataFrame) -> Any:
    """Result for a partition; None without rows."""
    return of_frame(_named(frame, f"Partition {number}")) if len(frame) else None


def _of_both(join: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Combined result for two partitions, each of which may have no rows."""
    if one is None or other is None:
        return other if one is None else one
    return join(one, other)


def row_source(X: Any, by_name: bool = False) -> RowSource | None:
    """The out-of-core source of X; None for a table."""
    # X is a file, a folder or a glob of Parquet or Arrow files, a list of files, a pyarrow Dataset
    # or Table, a Dask data frame, an iterable of frames, or a table. With `by_name`, y is the name
    # of a column: a pyarrow Table is then out-of-core, and other types are refused. ValueError for
    # paths without such files, lazy frames, and iterators, which can be read only once.
    if isinstance(X, RowSource):
        return X
    if isinstance(X, str | PathLike):
        return FileRows(_files(fspath(X)))
    if isinstance(X, list) and X and all(map(_is_file, X)):
        return FileRows(tuple(chain.from_iterable(_files(fspath(path)) for path in X)))
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        return DaskRows(X)
    refuse_lazy(X, "X")
    if hasattr(X, "to_batches") and hasattr(X, "schema") and (by_name or not hasattr(X, "shape")):
        return ArrowRows(X)
    if hasattr(X, "__next__"):
        raise ValueError(
            f"X is a {type(X).__name__}, which can be read once only. Pass an iterable that begins "
            "anew each time, such as a list of frames or an object with __iter__."
        )
    if hasattr(X, "columns") or hasattr(X, "shape"):
        return None
    several = hasattr(X, "__iter__")
    first = next(iter(X), None) if several else None
    refuse_lazy(first, "Frame 0")
    if hasattr(first, "columns") or (by_name and several and first is None):
        return GivenFrames(X)
    if not by_name:
        return None
    held = "" if first is None else f" of {type(first).__name__}"
    raise ValueError(
        f"X is of type {type(X).__name__}{held}, but y names a column. Pass out-of-core data as X: "
        "the path of a Parquet or Arrow file, of a folder of these or a glob, a list of files, a "
        "pyarrow Dataset or Table, a Dask data frame, or an iterable of pandas or polars frames. "
        "For a table in memory, pass y as values."
    )


def _is_file(path: Any) -> bool:
    """Whether it is a path by its ending: strings in a list may be labels, too."""
    return isinstance(path, str | PathLike) and Path(path).suffix.lower() in ENDINGS


def _files(path: str) -> tuple[str, ...]:
    """Files of a path, a folder or a glob, sorted."""
    folder = Path(path)
    found = folder.rglob("*") if folder.is_dir() else map(Path, glob(path, recursive=True))
    files = sorted(file for file in found if file.suffix.lower() in ENDINGS)
    if not files:
        csv = " CSV files are read by dask.dataframe.read_csv." if ".csv" in path else ""
        raise ValueError(
            f"X is a str, {path!r}, which names no files that end in {', '.join(ENDINGS)}. Pass a "
            "table, or the path of such a file, of a folder of them, or a glob such as "
            f"'rides/*.parquet'.{csv}"
        )
    if len({tuple(name for name in file.parent.parts if "=" in name) for file in files}) > 1:
        raise ValueError(
            f"{path} holds folders such as {files[0].parent.name!r}, and their names are values of "
            "a column. Pass dask.dataframe.read_parquet(path), or files that hold all columns."
        )
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError as missing:
        raise ValueError(f"{path} needs pyarrow: pip install 'bayes_gpx[arrow]'.") from missing
    return tuple(map(str, files))
