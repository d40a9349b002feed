"""Names, checks and units of what the user hands over; the same door for X and X_new.

Everything is refused here, before any sampling starts, with the row or column and the cure.
"""

from dataclasses import dataclass

import narwhals as nw
import numpy as np

MINIMUM_ROWS = 3


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of numbers with names.

    Attributes
    ----------
    values : array (n, d)
    columns : tuple of str
    index : array (n,)
        Labels of the rows: the frame's index, or 0..n-1.
    """

    values: np.ndarray
    columns: tuple
    index: np.ndarray

    def __len__(self):
        return len(self.values)

    def with_column(self, name, values):
        """Append a column on the right."""
        if name in self.columns:
            raise ValueError(f"There is a column named {name!r} already; rename it.")
        stacked = np.column_stack([self.values, values])
        return Frame(stacked, (*self.columns, name), self.index)


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centers and scales frozen at training time; ``(values - center) / scale``."""

    center: np.ndarray
    scale: np.ndarray

    def apply(self, values):
        """From user units to the model's scale."""
        return (values - self.center) / self.scale


def identity_scaling(n_columns):
    """Scaling that changes nothing, for ``scale=False``."""
    return Scaling(np.zeros(n_columns), np.ones(n_columns))


def standard_scaling(frame, name):
    """Center and standard deviation (ddof 0) of each column; constant columns are refused."""
    center, scale = frame.values.mean(axis=0), frame.values.std(axis=0)
    roundoff = 1e-14 * np.abs(frame.values).max(axis=0)
    constant = [c for c, sd, tiny in zip(frame.columns, scale, roundoff, strict=True) if sd <= tiny]
    if constant:
        raise ValueError(
            f"{name} has constant columns {constant}, which cannot be scaled. "
            "Drop them, or pass scale=False."
        )
    return Scaling(center, scale)


def read_features(X, name="X", *, prefix="x", like=None, minimum_rows=MINIMUM_ROWS):
    """Read a feature table.

    Parameters
    ----------
    X : pandas or polars frame, xarray.DataArray (n, d) or array (n, d)
    name : str
        What error messages call it.
    prefix : str
        Columns of arrays are named prefix0, prefix1, ...
    like : tuple of str, optional
        Training columns: a frame is matched to them by name, in any order, extra columns
        ignored; an array by position.
    minimum_rows : int

    Returns
    -------
    Frame

    Raises
    ------
    ValueError
        For anything that is not a finite numeric table of the expected columns.
    """
    columns, read_column, index, n_rows = _open(X, name, prefix)
    _refuse_repeated(columns, name)
    if n_rows < minimum_rows:
        raise ValueError(
            f"{name} has {n_rows} rows; expected at least {minimum_rows}."
            + (" Pass X_new=None to explain the training samples." if like else "")
        )
    if not columns:
        raise ValueError(f"{name} has no columns; expected at least one feature.")
    wanted = columns if like is None else _matched(columns, like, name, _is_frame(X))
    values = np.column_stack(
        [
            _numeric(read_column(source), name, label, index)
            for source, label in zip(wanted, like or wanted, strict=True)
        ]
    )
    return Frame(values, tuple(like or columns), index)


def read_response(y, index, name="y"):
    """Read the response: one finite number for each row of X, (n,).

    Raises
    ------
    ValueError
        If y is not one-dimensional, numeric and finite, if its length differs from the
        number of rows, or if it carries another index than X.
    """
    labels = getattr(y, "index", None)
    values = np.asarray(y)
    if values.ndim != 1:
        raise ValueError(
            f"{name} has shape {values.shape}; expected one dimension, one value for each row "
            "of X. For a single column use .ravel(), or pick one column."
        )
    if len(values) != len(index):
        raise ValueError(f"X has {len(index)} rows and {name} has {len(values)}; expected as many.")
    if labels is not None and hasattr(labels, "equals") and not _same_labels(labels, index):
        raise ValueError(
            f"The index of {name} differs from the index of X, so rows may not belong together. "
            f"Align them, or pass {name}.to_numpy() to match by position."
        )
    return _numeric(values, name, None, index)


def _same_labels(labels, index):
    own = _labels(labels)
    default = np.array_equal(own, np.arange(len(own)))
    positional = np.array_equal(index, np.arange(len(index)))
    return default or positional or np.array_equal(own, index)


def _refuse_repeated(columns, name):
    repeated = sorted({str(c) for c in columns if columns.count(c) > 1})
    if repeated:
        raise ValueError(f"{name} has repeated column names {repeated}; rename them.")


def _is_frame(X):
    return not isinstance(X, np.ndarray | list | tuple)


def _open(X, name, prefix):
    """Return column names, a reader of one column by name, row labels and row count."""
    if hasattr(X, "dims") and hasattr(X, "coords"):
        return _open_xarray(X, name, prefix)
    _refuse_repeated(list(getattr(X, "columns", ())), name)
    native = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        columns = [str(c) for c in native.columns]
        source = dict(zip(columns, native.columns, strict=True))
        index = getattr(X, "index", None)
        index = np.arange(len(native)) if index is None else _labels(index)
        return columns, lambda c: native[source[c]].to_numpy(), index, len(native)
    values = np.asarray(X)
    if values.ndim != 2:
        raise ValueError(
            f"{name} has shape {values.shape}; expected two dimensions, (rows, features). "
            "For one feature use .reshape(-1, 1) or .to_frame(); for one row use .reshape(1, -1)."
        )
    columns = [f"{prefix}{j}" for j in range(values.shape[1])]
    position = {c: j for j, c in enumerate(columns)}
    return columns, lambda c: values[:, position[c]], np.arange(len(values)), len(values)


def _open_xarray(X, name, prefix):
    if X.ndim != 2:
        raise ValueError(f"{name} has dims {X.dims}; expected two, (rows, features).")
    rows, features = X.dims
    columns = [str(c) for c in X[features].values] if features in X.coords else None
    columns = columns or [f"{prefix}{j}" for j in range(X.shape[1])]
    position = {c: j for j, c in enumerate(columns)}
    index = X[rows].values if rows in X.coords else np.arange(X.shape[0])
    return columns, lambda c: X.values[:, position[c]], index, X.shape[0]


def _labels(index):
    if getattr(index, "nlevels", 1) > 1:
        return np.array(["/".join(map(str, label)) for label in index])
    labels = np.asarray(index)
    return labels.astype(str) if labels.dtype == object else labels


def _matched(columns, like, name, by_name):
    if not by_name:
        if len(columns) != len(like):
            raise ValueError(
                f"{name} has {len(columns)} columns; expected {len(like)}: {list(like)}."
            )
        return columns
    missing = [c for c in like if c not in columns]
    if missing:
        raise ValueError(
            f"{name} lacks the columns {missing}; expected {list(like)}, got {list(columns)}. "
            "Columns are matched by name; pass an array to match by position."
        )
    return list(like)


def _numeric(values, name, column, index):
    where = name if column is None else f"{name}, column {column!r},"
    kind = np.asarray(values).dtype.kind
    if kind in "mM":
        raise ValueError(f"{where} holds dates; expected numbers. Convert them, e.g. to days.")
    if kind not in "biuf":
        values = _from_objects(np.asarray(values, dtype=object), where, index)
    values = np.asarray(values, dtype="float64")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"{where} has {len(bad)} missing or infinite values, the first at row "
            f"{index[bad[0]]!r}. Drop or impute them."
        )
    return values


def _from_objects(values, where, index):
    """Numbers out of an object column; anything else is refused with its first row."""
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        missing = value is None or value != value or type(value).__name__ == "NAType"
        if not missing and not isinstance(value, int | float | np.number | np.bool_):
            raise ValueError(
                f"{where} holds {value!r} ({type(value).__name__}) at row {index[i]!r}; expected "
                "numbers. Encode categories, for example with pandas.get_dummies."
            )
        numbers[i] = np.nan if missing else value
    return numbers
