"""Names, checks and units of the user's tables; X and X_new use the same functions."""

# Invalid input is refused here, before any sampling, with the row or column and a suggested fix.

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sps

from bayes_gpx.data.categorical import codes, declared, indicator, is_missing
from bayes_gpx.data.dates import days_since, first_date, holds_dates, refuse_zone
from bayes_gpx.data.numbers import (
    FILL_IN,
    IMPUTE,
    OF_OUTPUTS,
    gaps,
    is_number,
    numeric,
    refuse_gaps,
    refuse_infinite,
)
from bayes_gpx.system.warning import warn

MINIMUM_ROWS = 3
INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of numbers with names."""

    values: Any  # (n, d): an array, or for a sparse Z a csr_array
    columns: tuple
    index: np.ndarray  # labels of the rows (n,): the frame's index, or 0..n-1
    labelled: bool  # whether the user's rows had labels
    # of each categorical column; its indicators are among the columns
    levels: dict = field(default_factory=dict)
    origins: dict = field(default_factory=dict)  # origin of the days of each column of dates

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def sparse(self) -> bool:
        """Whether only entries other than 0 are kept."""
        return sps.issparse(self.values)

    @property
    def sources(self) -> tuple[str, ...]:
        """The user's own columns, before categorical ones became indicators."""
        source_of = self._source_of
        return tuple(dict.fromkeys(source_of.get(c, c) for c in self.columns))

    @property
    def groups(self) -> np.ndarray:
        """Position among the sources of the one that each column comes from, (d,)."""
        place, source_of = {source: k for k, source in enumerate(self.sources)}, self._source_of
        return np.array([place[source_of.get(c, c)] for c in self.columns], dtype=int)

    def of_source(self, source: str) -> list[str]:
        """Columns that come from one of the sources."""
        own = self.levels.get(source)
        return [source] if own is None else [indicator(source, level) for level in own]

    @property
    def _source_of(self) -> dict[str, str]:
        pairs = ((c, level) for c, levels in self.levels.items() for level in levels)
        return {indicator(c, level): c for c, level in pairs}

    def with_column(self, name: str, values: np.ndarray) -> "Frame":
        """Append a column on the right."""
        if name in self.columns:
            raise ValueError(f"There is already a column named {name!r}; rename it.")
        if self.sparse:
            stacked = sps.hstack([self.values, sps.csr_array(values[:, None])], format="csr")
        else:
            stacked = np.column_stack([self.values, values])
        return replace(self, values=stacked, columns=(*self.columns, name))

    def rows(self, positions: np.ndarray | slice) -> "Frame":
        """Some of the rows alone."""
        return replace(self, values=self.values[positions], index=self.index[positions])

    def only(self, sources: Sequence[str]) -> "Frame":
        """Some of the user's own columns alone, in the order of all."""
        columns = [c for c in self.columns if self._source_of.get(c, c) in sources]
        places = [self.columns.index(c) for c in columns]
        levels = {c: levels for c, levels in self.levels.items() if c in sources}
        return replace(self, values=self.values[:, places], columns=tuple(columns), levels=levels)

    def first(self, k: int) -> "Frame":
        """The first k columns alone."""
        return replace(self, values=self.values[:, :k], columns=self.columns[:k])


def read_features(
    X: Any,
    name: str = "X",
    *,
    prefix: str = "x",
    like: Frame | None = None,
    minimum_rows: int = MINIMUM_ROWS,
    levels: tuple[str, ...] | None = None,
    dates: Mapping[str, np.datetime64] | None = None,
) -> Frame:
    """Read a feature table (n, d); raises ValueError unless it is finite, with all columns."""
    # A frame is matched to the columns of `like` by name, in any order, and extra columns are
    # ignored; an array is matched by position. Categorical columns may be given as their
    # indicators, and a single one as a series or list. Columns of arrays are named prefix0,
    # prefix1, ...; `name` is for error messages. `levels` are for a table of one column, a series
    # or a list, whatever its type. With `dates`, columns may contain dates, which become days since
    # those given there, or since the first row's. Dates for `like` become days since its origin; an
    # array without names may contain such days.
    if levels is not None or (like is not None and len(like.sources) == len(like.levels) == 1):
        X = _as_table(X, None if like is None else like.sources[0])
    table = _open(X, name, prefix)
    refuse_repeated(table.columns, name)
    if table.n_rows < minimum_rows:
        raise ValueError(
            f"{name} has {table.n_rows} rows, but needs at least {minimum_rows}."
            + (" Pass X_new=None to explain the training samples." if like else "")
        )
    if not table.columns:
        raise ValueError(f"{name} has no columns. Pass at least one feature.")
    if levels is not None and len(table.columns) > 1:
        raise ValueError(
            f"{name} has the columns {table.columns}. Pass one column with the kernel's labels."
        )
    if like is None:
        given = [(j, column, levels or table.levels(j)) for j, column in enumerate(table.columns)]
    else:
        given = _matched(table, like, name)
    values, columns, known = [], [], {} if like is None else like.levels
    origins = {c: day for c, day in (dates or {}).items() if c in table.columns}
    origins = origins if like is None else like.origins
    for j, column, own in given:
        if own is None:
            entries, where = table.column(j), f"{name}, column {column!r},"
            dated = (dates is not None or column in origins) and holds_dates(entries)
            if dated:
                refuse_zone(entries, where)
                origins = {column: first_date(entries), **origins}
                entries = days_since(entries, origins[column])
            elif column in origins and table.named:
                raise ValueError(
                    f"{where} holds no dates. Pass dates, as in the training data. An array "
                    f"without names may hold days since {origins[column]}."
                )
            values.append(numeric(entries, name, column, table.index))
            columns.append(column)
            continue
        values.append(_indicators(table.column(j), own, name, column, table.index))
        columns += [indicator(column, level) for level in own]
        known = {**known, column: own}
    refuse_repeated(columns, name)
    frame = Frame(
        np.column_stack(values), tuple(columns), table.index, table.labelled, known, origins
    )
    refuse_gaps(frame, name, IMPUTE if like is None else FILL_IN)
    return frame


def read_response(
    y: Any, frame: Frame, name: str = "y", read: Callable[[Any], Any] | None = None
) -> Any:
    """Read one finite number for each row of the frame X, (n,), or the result of `read`."""
    # ValueError if y is not one-dimensional, numeric and finite, or if its length or index differs
    # from X's.
    if np.ma.isMaskedArray(y) and read is None:
        y = np.ma.filled(y.astype(float), np.nan)
    values = np.asarray(y)
    if values.ndim == 0:
        raise ValueError(f"{name} is {y!r}. Pass a value for each row of X, such as df['{name}'].")
    if values.ndim != 1:
        outputs = "; tables of several outputs need one latent value each, not "
        outputs = f"{outputs}likelihood='categorical'" if name == "y" else ""
        raise ValueError(
            f"{name} has shape {values.shape}, but must have one dimension, with one value for "
            f"each row of X. For a single column use .ravel(), or pick one column{outputs}."
        )
    if len(values) != len(frame):
        raise ValueError(
            f"X has {len(frame)} rows and {name} has {len(values)}. Pass one value for each row of "
            "X."
        )
    labels = row_labels(y)
    if labels is not None and frame.labelled:
        refuse_misaligned(frame.index, labels, "X", name)
    if read is not None:
        return read(y)
    if name == "y":
        _refuse_truths(values, name)
        refuse_words(values.tolist() if values.dtype.kind not in "biufmM" else (), name)
    numbers = numeric(values, name, None, frame.index)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(f"{name} has {gaps(bad, frame.index)}. Drop these rows.")
    return numbers.copy()


def read_positive(values: Any, frame: Frame, name: str) -> np.ndarray:
    """Read one number above 0 for each row of X, (n,)."""
    numbers: np.ndarray = read_response(values, frame, name)
    bad = np.flatnonzero(numbers <= 0)
    if len(bad):
        drop = " Drop rows that should not count." if name == "weights" else ""
        raise ValueError(
            f"{name} is {numbers[bad[0]]:g} at position {bad[0]}, but must be above 0.{drop}"
        )
    return numbers


def read_responses(
    Y: Any, frame: Frame, read: Callable[[np.ndarray], tuple] | None
) -> tuple[np.ndarray, tuple[str, ...], Any]:
    """Read several responses of each row of X, (n, q), NaN at gaps; their names, and labels."""
    # ValueError if Y is no table of numbers, or if its number of rows or index differs from X's.
    # `read` checks and encodes labels, which all outputs have in common; labels are else None.
    table = _open(Y, "y", "y")
    refuse_repeated(table.columns, "y")
    if not table.columns:
        raise ValueError("y has no columns. Pass at least one output.")
    if table.n_rows != len(frame):
        raise ValueError(
            f"X has {len(frame)} rows and y has {table.n_rows}. Pass one row of outputs for "
            "each row of X."
        )
    if table.labelled and frame.labelled:
        refuse_misaligned(frame.index, table.index, "X", "y")
    if read is not None:
        cells = [[*table.column(j)] for j in range(len(table.columns))]
        entries = np.array(cells, dtype=object).reshape((len(cells), -1)).T
        known = ~np.array([[is_missing(v) for v in row] for row in entries], dtype=bool)
        codes, labels = np.full(entries.shape, np.nan), None
        codes[known], labels = read(entries[known])
        return codes, tuple(table.columns), labels
    for j, column in enumerate(table.columns):
        _refuse_truths(np.asarray(table.column(j)), f"y, column {column!r},")
    columns = [
        numeric(table.column(j), "y", column, table.index, cure=OF_OUTPUTS)
        for j, column in enumerate(table.columns)
    ]
    for column, values in zip(table.columns, columns, strict=True):
        refuse_infinite(values, f"y, column {column!r},", table.index)
    return np.column_stack(columns), tuple(table.columns), None


def with_intercept(frame: Frame) -> Frame:
    """The frame with a last column of ones."""
    return frame.with_column(INTERCEPT, np.ones(len(frame)))


def _refuse_truths(values: np.ndarray, where: str) -> None:
    """Raise for a response of True and False, which are labels."""
    mixed = values.dtype.kind == "O" and any(isinstance(v, bool | np.bool_) for v in values)
    if values.dtype.kind == "b" or mixed:
        raise ValueError(
            f"{where} is True or False. Pass likelihood='bernoulli', or .astype(float) for numbers."
        )


def refuse_words(values: Iterable[Any], name: str) -> None:
    """Raise for a response of words instead of numbers, and name the likelihoods that take them."""
    words = [value for value in values if isinstance(value, str)]
    if words and all(map(is_number, words)):
        raise ValueError(
            f"{name} holds text, such as {words[0]!r}, instead of numbers. Convert it, for example "
            "with .astype(float)."
        )
    if words:
        many = len(set(words))
        cure = f"'categorical', for {many} labels, or 'ordinal', if they are ordered"
        cure = "'bernoulli', for two labels" if many == 2 else cure
        raise ValueError(
            f"{name} holds words, such as {words[0]!r}, instead of numbers. Pass likelihood={cure}."
        )


def refuse_misaligned(index: np.ndarray, other: np.ndarray, name: str, other_name: str) -> None:
    """Raise if labels say that rows of two tables do not belong together."""
    if np.array_equal(index, other):
        return
    # Labels 0..n-1 on one side count as none, unless the other side has the same labels in another
    # order.
    default = np.arange(len(index))
    reset = np.array_equal(index, default) or np.array_equal(other, default)
    if not reset or set(index.tolist()) == set(other.tolist()):
        raise ValueError(
            f"The index of {other_name} differs from the index of {name}, so rows may not belong "
            f"together. Align them, or pass {other_name}.to_numpy() to match by position."
        )
    if not set(index.tolist()).isdisjoint(other.tolist()):
        warn(
            f"The index of {other_name} has labels that {name} has in other rows. Rows are matched "
            "by position, because one index counts from 0. If this is right, pass "
            f"{other_name}.to_numpy(); otherwise align them."
        )


def row_labels(table: Any) -> np.ndarray | None:
    """Labels that the rows brought along, or None."""
    if _is_data_array(table):
        return table[table.dims[0]].values if table.dims[0] in table.coords else None
    index = getattr(table, "index", None)
    # Only an index of pandas has `equals`; a list's `index` is a method.
    return _labels(index) if hasattr(index, "equals") else None


def units_of(table: Any, name: str) -> dict[str, str]:
    """Units of a table's columns, or of a series, by name, from its attribute `units`."""
    # The attribute is a unit for all columns, or a dict by column, which pandas passes on to the
    # parts of a frame. A table of xarray may have a coordinate `unit` of its columns instead.
    attrs = getattr(table, "attrs", None)
    told = attrs.get("units") if isinstance(attrs, Mapping) else None
    if len(np.shape(table)) == 1:
        columns = [getattr(table, "name", None) or name]
    elif not _is_data_array(table):
        columns = list(getattr(table, "columns", ()))
    else:
        columns = table[table.dims[1]].values.tolist() if table.dims[1] in table.coords else []
        if "unit" in table.coords and table["unit"].dims == table.dims[1:]:
            told = dict(zip(columns, table["unit"].values, strict=True))
    if isinstance(told, str):
        told = dict.fromkeys(columns, told)
    if not isinstance(told, Mapping):
        return {}
    ranges = attrs.get("ranges", {}) if isinstance(attrs, Mapping) else {}
    known = [c for c in columns if told.get(c)]
    return {str(c): str(told[c]) for c in known if _within(table, c, ranges.get(c))}


def _within(table: Any, column: str, ends: tuple[float, float] | None) -> bool:
    """Whether a column is within the range that it was read with: else it was transformed."""
    # pandas passes attributes on to the logarithm of a column, which has another unit.
    if ends is None:
        return True
    values = np.asarray(table if len(np.shape(table)) == 1 else table[column])
    numbers = values.dtype.kind in "iuf"
    return numbers and not ((values < ends[0]) | (values > ends[1])).any()


def _is_data_array(table: Any) -> bool:
    """Whether a table is xarray's, known by its attributes: xarray need not be imported for it."""
    return hasattr(table, "dims") and hasattr(table, "coords")


def refuse_repeated(columns: list, name: str) -> None:
    """Raise for names that several columns have."""
    repeated = sorted({str(c) for c in columns if columns.count(c) > 1})
    if repeated:
        raise ValueError(f"{name} has repeated column names {repeated}; rename them.")


@dataclass(frozen=True)
class _Table:
    """A table that was opened: names, readers of column j and of its levels, row labels."""

    columns: list
    column: Callable
    levels: Callable
    index: np.ndarray
    labelled: bool
    named: bool
    n_rows: int


def _as_table(X: Any, column: str | None) -> Any:
    """A series or a list of labels as a table of one column; tables as they are."""
    if hasattr(X, "to_frame"):
        return X.to_frame(column or X.name or "label")
    return X if _is_data_array(X) or np.ndim(X) != 1 else np.asarray(X, dtype=object)[:, None]


def refuse_lazy(X: Any, name: str) -> None:
    """Raise for a lazy frame of polars, which has no rows until it is collected."""
    if nw.dependencies.is_polars_lazyframe(X):
        raise ValueError(
            f"{name} is a LazyFrame of polars, which holds no rows. Pass .collect() of it. For "
            "more rows than memory holds, write Parquet files with .sink_parquet(path) and pass GP "
            "or GPX their path as X."
        )


def _open(X: Any, name: str, prefix: str) -> "_Table":
    refuse_lazy(X, name)
    if hasattr(X, "dims") and hasattr(X, "data_vars"):  # no import of xarray here, either
        raise ValueError(f"{name} is an xarray Dataset, not one table. Use .to_dataframe().")
    labels = row_labels(X)
    if _is_data_array(X):
        if X.ndim != 2:
            raise ValueError(f"{name} has dims {X.dims}, but must have two, (rows, features).")
        named = X.dims[1] in X.coords
        names = [str(c) for c in X[X.dims[1]].values] if named else None
        values = X.values
    else:
        refuse_repeated(list(getattr(X, "columns", ())), name)
        native = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            series = list(native.iter_columns())
            index = np.arange(len(native)) if labels is None else labels
            columns = [str(c) for c in native.columns]
            reader = lambda j: _entries(series[j], name)  # noqa: E731
            levels = lambda j: declared(series[j])  # noqa: E731
            return _Table(columns, reader, levels, index, labels is not None, True, len(native))
        names, values = None, _array(X, name)
    names_given = names is not None
    names = names or [f"{prefix}{j}" for j in range(values.shape[1])]
    index = np.arange(len(values)) if labels is None else labels
    reader = lambda j: values[:, j]  # noqa: E731
    levels = lambda j: None  # noqa: E731
    return _Table(names, reader, levels, index, labels is not None, names_given, len(values))


def _entries(series: Any, name: str) -> np.ndarray:
    """A column of a frame as an array; times with a zone are refused."""
    refuse_zone(series, f"{name}, column {series.name!r},")
    return series.to_numpy()


def _array(X: Any, name: str) -> np.ndarray:
    if sps.issparse(X):
        raise ValueError(
            f"{name} is sparse, but only a Z that is separate from X may be. Pass .toarray() of "
            "it, or a few components of it, such as those of sklearn's TruncatedSVD."
        )
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(float), np.nan)
    try:
        values = np.asarray(X)
    except ValueError as ragged:
        raise ValueError(f"{name} is not a table: its rows differ in length.") from ragged
    if values.ndim == 0:
        raise ValueError(
            f"{name} is of type {type(X).__name__}. Pass a pandas or polars frame, an xarray "
            "DataArray or an array (rows, features)."
        )
    if values.ndim != 2:
        frame = hasattr(X, "to_frame")
        column = ".to_frame()" if frame else ".reshape(-1, 1)"
        row = "frame.iloc[[k]] or .to_frame().T" if frame else ".reshape(1, -1)"
        raise ValueError(
            f"{name} has shape {values.shape}, but must have two dimensions, (rows, features). For "
            f"one feature use {column}; for one row use {row}."
        )
    return values


def _labels(index: Any) -> np.ndarray:
    if getattr(index, "nlevels", 1) > 1:
        return np.array(["/".join(map(str, label)) for label in index])
    labels = np.asarray(index)
    return labels.astype(str) if labels.dtype == object else labels


def _matched(
    table: _Table, like: Frame, name: str
) -> list[tuple[int, str, tuple[str, ...] | None]]:
    """Position, name and levels of the expected columns: by name where there are names."""
    columns, sources = table.columns, like.sources
    if not table.named:
        if len(columns) == len(like.columns):
            return [(j, column, None) for j, column in enumerate(like.columns)]
        if len(columns) != len(sources):
            raise ValueError(
                f"{name} has {len(columns)} columns, but must have {len(sources)}: {list(sources)}."
            )
        return [(j, column, like.levels.get(column)) for j, column in enumerate(sources)]
    wanted: list[tuple[str, tuple[str, ...] | None]] = []
    for source in sources:
        own = like.levels.get(source, ())
        indicators = [indicator(source, level) for level in own]
        coded = source not in columns and own and set(indicators) <= set(columns)
        wanted += [(column, None) for column in indicators] if coded else [(source, own or None)]
    missing = [column for column, _ in wanted if column not in columns]
    if missing:
        raise ValueError(
            f"{name} lacks the columns {missing}; it has {columns}. Pass all of {list(sources)}, "
            "or an array to match columns by position instead of by name."
        )
    return [(columns.index(column), column, own) for column, own in wanted]


def _indicators(
    values: Any, levels: Sequence[str], name: str, column: str, index: np.ndarray
) -> np.ndarray:
    """One column of 0 and 1 for each level, (n, levels), NaN where the value is missing."""
    found = codes(np.asarray(values, dtype=object), levels, f"{name}, column {column!r},", index)
    own = (found[:, None] == np.arange(len(levels))).astype("float64")
    return np.where(np.isnan(found)[:, None], np.nan, own)
