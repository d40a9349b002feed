"""Points of a question: rows to explain, and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Column, Labels, Table
from bayes_gpx.data.categorical import is_missing
from bayes_gpx.data.dates import date_after
from bayes_gpx.data.features import read_features, refuse_misaligned, row_labels
from bayes_gpx.data.response import read_categories, read_reals, texts
from bayes_gpx.data.row_data import CENSORING, median_row
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.processes.approximations import HSGP
from bayes_gpx.system.warning import ExtrapolationWarning, warn
from bayes_gpx.validation import one_of, one_output

if TYPE_CHECKING:
    from bayes_gpx.data.scaling import Scaling
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.draws.protocols import SpecificationLike


@dataclass(frozen=True, eq=False)
class Points:
    """Rows to explain, on the model's scale, with their labels.

    Attributes
    ----------
    inputs
        What graphs are given of each row: `X` (m, d); `Z` (m, p) if it is needed; `positions` (m,)
        of training rows; `group` (m,), the codes of their groups, or of the explained output.
    X_values, Z_values, baseline_values
        In user units.
    index
        Labels of the rows.
    common
        What graphs are given for all rows: the `baseline` (d,) or (B, d) of attributions, on the
        model's scale (several are averaged over), and the `weights` (g, m) of averages.
    rows, passed
        Positions among the rows that were passed, and their number.
    labels
        Labels of the rows that were passed, if they have some of their own.
    by
        `Weights` of the groups that are explained in place of the rows, or None.
    chunk
        Out-of-core training rows, if these are explained: `positions` are among them.
    groups
        Labels of the codes of groups: of the training rows', and then of new ones. The new ones of
        other rows that belong to the same question are passed to `points` as `others`.
    """

    inputs: dict[str, np.ndarray]
    X_values: np.ndarray
    Z_values: np.ndarray | None  # or of a sparse Z a csr_array
    index: np.ndarray
    common: dict[str, np.ndarray] = field(default_factory=dict)
    baseline_values: np.ndarray | None = None
    rows: np.ndarray | None = None
    passed: int = 0
    labels: np.ndarray | None = None
    by: Any = None
    chunk: TrainingData | None = None
    groups: Sequence[str] = ()

    @property
    def X(self) -> np.ndarray:  # noqa: D102, N802
        return self.inputs["X"]

    @property
    def baseline(self) -> np.ndarray | None:  # noqa: D102
        return self.common.get("baseline")

    @property
    def paths(self) -> int:
        """How many baselines each row is explained from, at least one."""
        return 1 if self.baseline is None else len(np.atleast_2d(self.baseline))

    def having(self, **inputs: np.ndarray | None) -> Points:
        """The same with other inputs of rows; None leaves one out."""
        merged = {n: v for n, v in (self.inputs | inputs).items() if v is not None}
        return replace(self, inputs=merged)

    def refuse_others(self, given: Any, name: str) -> None:
        """Raise if a column or frame has labels of other rows than were passed, or explained."""
        theirs = row_labels(given)
        if self.labels is None or theirs is None:
            return
        own = self.labels if len(theirs) == self.passed else self.index
        if len(theirs) == len(own):
            refuse_misaligned(own, theirs, "the rows", name)

    def take(self, rows: np.ndarray | slice) -> Points:
        """Some of the rows."""
        return replace(
            self,
            inputs={name: values[rows] for name, values in self.inputs.items()},
            X_values=self.X_values[rows],
            Z_values=None if self.Z_values is None else self.Z_values[rows],
            index=self.index[rows],
            rows=None if self.rows is None else self.rows[rows],
        )


def points(
    model: ModelLike,
    X_new: Table | None = None,
    Z_new: Table | None = None,
    *,
    groups_new: Column | None = None,
    obs: Labels | None = None,
    chunk: TrainingData | None = None,
    needs_z: bool = True,
    others: Sequence[str] = (),
) -> Points:
    """New samples, or training samples (X_new=None); `obs` picks some of them by label."""
    # Of out-of-core training samples, a `chunk`. The weight of a feature is f where its z is 1, and
    # all others are 0 on the model's scale, without the rows' own deviations.
    weighs = model.training.weight is not None
    if X_new is None:
        if Z_new is not None:
            raise ValueError("Z_new was given without X_new; pass both, or neither.")
        if groups_new is not None:
            raise ValueError("groups_new was given without X_new; pass both, or neither.")
        training = model.training if chunk is None else chunk
        _refuse_out_of_core(training)
        X, Z, groups = training.X, training.Z, training.groups
    else:
        X, Z = model.training.read_new(X_new, Z_new, needs_z=needs_z and not weighs)
        groups = model.training.read_groups(groups_new, X, others)
    rows = rows_labelled(X.index, obs)
    refuse_outside(model, X.values[rows], "X_new")
    codes = model.training.codes_at(len(X), groups)
    z = None if Z is None else cast("Scaling", model.training.Z_scaling).apply(Z.values[rows])
    inputs = {
        "X": model.training.X_scaling.apply(X.values[rows]),
        "Z": model.training.unit_rows(len(rows)) if weighs else z,
        "positions": model.training.positions(rows) if X_new is None else None,
        "group": None if codes is None else codes[rows],
    }
    return Points(
        {name: values for name, values in inputs.items() if values is not None},
        X.values[rows],
        None if Z is None else Z.values[rows],
        X.index[rows],
        rows=rows,
        passed=len(X),
        labels=X.index if X.labelled else None,
        chunk=chunk,
        groups=() if groups is None else groups.labels,
    )


def _refuse_out_of_core(training: TrainingData) -> None:
    """Raise for out-of-core data, which are explained in chunks."""
    if not training.streamed:
        return
    training.refuse_without_rows()
    raise ValueError(
        "The training rows are out-of-core data. Pass rows as X_new. For predictions, weights, "
        "contributions, derivatives, attributions and Shapley values of all of them, pass a path=, "
        "or keep='summary'."
    )


def at_other_x(model: ModelLike, where: Points, X: np.ndarray, rows: np.ndarray) -> Points:
    """Rows at other X, in user units, each with z and group of one of the rows of `where`."""
    # If z is x, it moves with x.
    training, held, groups = model.training, None, None
    if not training.z_is_x and where.Z_values is not None:
        held = where.Z_values[rows, : training.p - training.intercept]
    group = where.inputs["group"][rows] if "group" in where.inputs else None
    if training.groups is not None and group is not None:
        groups = group if group.ndim == 1 else group[:, 0]
    return points(model, X, held, groups_new=groups).having(group=group)


BASELINES = {
    "mean": lambda training: training.moments.mean,
    "median": lambda training: median_row(training.X, training.row_data),
    "zero": lambda training: np.zeros(training.d),
}
"""From training data to a baseline (d,) in user units, by the name that users give."""


def read_baseline(model: ModelLike, baseline: str | Table, name: str = "baseline") -> np.ndarray:
    """Point (d,) or points (B, d) in user units, by name or as rows; error messages use `name`."""
    # "mean" and "median" are over the training rows; one row is one point.
    X = model.training.X
    if isinstance(baseline, str):
        one_of(name, baseline, BASELINES)
        if baseline == "zero" and X.levels:
            raise ValueError(
                f"{name} is 'zero', where the categorical columns {[*X.levels]} have no level. "
                "Pass a row with their levels, 'median' for the most frequent ones, or 'mean'."
            )
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
    return replace(where, common=where.common | {"baseline": scaled}, baseline_values=start)


def refuse_outside(model: ModelLike, values: np.ndarray, name: str) -> None:
    """Raise if rows lie outside of the box of an HSGP's basis functions."""
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
"""Distance outside of a column's range, relative to the range, above which a warning is given.

In 20 random splits of the diabetes and of the Boston housing data into four fifths and one fifth no
held-out row leaves by more; by a tenth of the range, one does in every other split.
"""


FORECAST = 5
"""Fewest rows for which a majority outside of one column's range counts as a forecast."""

SHARE, CHANCE = 0.1, 3
"""More than this share of rows, outside by more than this share of the range, is a warning too.

A uniform column plus its sd, as `comparisons` takes it, has a fifth of its rows there; a normal one
of 50 rows a twentieth. An average over all rows is then about the data and about none. Among few
held-out rows `CHANCE` may lie there.
"""

MOST_COLUMNS = 6
"""Most columns that a warning names, among columns in which rows leave the training data."""


def rows_outside(model: ModelLike, where: Points) -> str | None:
    """Describe the rows outside of the training data: how many, in which columns and how far."""
    # A row leaves the data if a number is outside of its column's range in the training data, in X
    # or in a separate Z. The result is None unless one does so by more than `MARGIN` of the range,
    # or more than half of `FORECAST` or more rows do so in one column, or more than `SHARE` by
    # more than that of the range; then all of them count.
    # Categories have no range, and a row within all ranges may still be far from every training
    # row.
    training, left, said = model.training, np.zeros(len(where.X), bool), []
    tables = [(training.X, training.moments.low, training.moments.high, where.X_values)]
    if (
        training.Z is not None
        and where.Z_values is not None
        and not (training.z_is_x or training.streamed or training.sparse)
    ):
        Z = training.Z.values
        tables.append((training.Z, Z.min(axis=0), Z.max(axis=0), where.Z_values))
    for known, low, high, values in tables:
        beyond, sources = np.maximum(low - values, values - high), set(known.sources)
        for j, column in enumerate(known.columns):
            outside = beyond[:, j] > 0.0
            if column not in sources or not outside.any():
                continue
            left |= outside
            farthest = beyond[:, j].argmax()
            ends = (values[farthest, j], low[j], high[j])
            far, least, most = (_written(end, known.origins.get(column)) for end in ends)
            told = f"{column} in {outside.sum()}, as far as {far} (trained on {least} to {most})"
            near = beyond[farthest, j] <= MARGIN * (high[j] - low[j])
            few = len(outside) < FORECAST or 2 * outside.sum() <= len(outside)
            far = (beyond[:, j] > SHARE * (high[j] - low[j])).sum()
            few &= far <= max(CHANCE, SHARE * len(outside))
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


def _of_trends(specification: SpecificationLike) -> str:
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


def _written(number: float, origin: np.datetime64 | None) -> str:
    """A number with four digits, an integer with all, and days since an origin as a date."""
    if origin is not None:
        return str(date_after(origin, number))
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
    if np.ndim(index) == 0:
        raise ValueError(
            "The dataset has a single observation and no dim obs. Select it by a list, as "
            "dataset.isel(obs=[0])."
        )
    if obs is None:
        return np.arange(len(index))
    wanted = np.atleast_1d(np.asarray(obs))
    if wanted.dtype == object and wanted.size and all(map(_true_false_or_missing, wanted.flat)):
        raise ValueError("obs is a mask with missing values. Fill them, as by obs.fillna(False).")
    if wanted.dtype == bool:
        if (labels := row_labels(obs)) is not None and len(labels) == len(index):
            refuse_misaligned(index, labels, "the rows", "obs")
        if wanted.shape != index.shape:
            raise ValueError(
                f"obs is a mask of shape {wanted.shape}. Pass one value for each of {len(index)} "
                "rows, or labels."
            )
        if wanted.any():
            return np.flatnonzero(wanted)
        wanted = index[:0]
    if wanted.ndim != 1:
        raise ValueError(f"obs has shape {wanted.shape}. Pass a label or a list of labels.")
    rows = [np.flatnonzero(index == label) for label in wanted]
    missing = [label for label, found in zip(wanted.tolist(), rows, strict=True) if not len(found)]
    if missing or not len(wanted):
        examples = ", ".join(repr(label) for label in np.asarray(index[:3]).tolist())
        raise ValueError(
            f"obs: no rows labelled {', '.join(map(repr, missing)) or '(none given)'}. Pass "
            f"labels of the index, such as {examples}."
        )
    return np.concatenate(rows)


def _true_false_or_missing(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or is_missing(value)


def rows_numbered(n: int, obs: Labels) -> np.ndarray:
    """Positions of rows by numbers from 0, or by a mask: out-of-core rows have no labels."""
    wanted = np.atleast_1d(np.asarray(obs))
    if wanted.dtype == bool and wanted.shape == (n,):
        wanted = np.flatnonzero(wanted)
    wrong = wanted.dtype.kind not in "iu" or wanted.ndim != 1 or not len(wanted)
    if wrong or wanted.min() < 0 or wanted.max() >= n:
        raise ValueError(
            f"obs: {obs!r} does not number rows of out-of-core data. Pass integers from 0 to "
            f"{n - 1}, at least one, or a mask of {n} values."
        )
    return wanted


def _refuse_other_rows(index: np.ndarray, given: Column, name: str) -> None:
    shape = np.shape(cast(Any, given))
    if shape != index.shape:
        raise ValueError(
            f"{name} has shape {shape}. Pass one value for each of the dataset's observations, "
            f"{index.shape}."
        )
    labels = row_labels(given)
    if labels is not None:
        refuse_misaligned(index, labels, "the dataset", name)


def read_bounded(dataset: xr.Dataset, censoring: Column) -> xr.DataArray:
    """Kinds of observed responses at a dataset's predictions, (obs,): values or bounds."""
    index = dataset["obs"].values
    _refuse_other_rows(index, censoring, "censoring")
    kinds = [str(kind) for kind in np.asarray(censoring, dtype=object)]
    for kind in set(kinds):
        one_of("censoring", kind, CENSORING)
    return xr.DataArray(np.array(kinds), {"obs": index}, ["obs"])


def read_observed(dataset: xr.Dataset, y: Column) -> xr.DataArray:
    """Observed responses at a dataset's predictions, (obs,), in its order; classes as codes."""
    one_output(dataset)
    index = dataset["obs"].values
    _refuse_other_rows(index, y, "y")
    known, categories = (dataset.attrs.get(name) for name in ("labels", "categories"))
    if categories is not None:
        values, _ = read_categories(y, 0, len(categories), categories)
    elif known is None:
        values = read_reals(y)
    else:
        read = texts(y)
        for label in set(read):
            one_of("y", label, known)
        values = np.array([known.index(label) for label in read])
    return xr.DataArray(values, {"obs": index}, ["obs"])
