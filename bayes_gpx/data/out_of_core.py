"""Out-of-core data: the roles of columns, reading of a chunk, and results of the first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from bayes_gpx.data.dates import days_since
from bayes_gpx.data.features import Frame, read_features, read_response, with_intercept
from bayes_gpx.data.fingerprints import Fingerprint, fingerprint, refuse_other, refuse_reordered
from bayes_gpx.data.moments import MOMENTS, Moments
from bayes_gpx.data.response import Reader, labels_joined, labels_of_part, read_exposure
from bayes_gpx.data.row_data import RowData, RowTotals, read_row_data, split_interval
from bayes_gpx.data.row_source import PART, RowSource

type TrainingData = Any
"""The class of this name, which holds an `OutOfCore` and so is in a file above this one."""

SAMPLE = 10_000
"""Rows of the sample, for medians and for where optimisers start."""


class Rows(NamedTuple):
    """The rows of a part, in user units, and the labels that y codes, if any."""

    X: Frame
    Z: Frame | None
    y: np.ndarray
    exposure: np.ndarray | None
    labels: Any
    row_data: RowData | None = None


@dataclass(frozen=True)
class Names:
    """Columns of the response and of what belongs to it; all others are features of X."""

    y: str
    Z: tuple[str, ...] | None
    exposure: str | None
    weighs: bool  # whether features are weighed
    observation: Reader
    # of all parts; None where y holds numbers, and before all parts were seen
    labels: tuple | None = None
    weights: str | None = None
    censoring: str | None = None
    upper: str | None = None  # upper ends of intervals

    def features(self, frame: pd.DataFrame) -> list[str]:
        """Names of X's columns in a frame."""
        single = (self.y, self.exposure, self.weights, self.censoring, self.upper)
        own = [*(name for name in single if name is not None), *(self.Z or ())]
        missing = [name for name in own if name not in frame.columns]
        if missing:
            raise ValueError(
                f"The data set lacks the columns {missing}, which y, Z, exposure, weights or "
                f"censoring name. Pass names among {list(frame.columns)}."
            )
        return [name for name in frame.columns if name not in own]

    def read(
        self,
        frame: pd.DataFrame,
        X: Frame | None = None,
        Z: Frame | None = None,
        dates: Mapping[str, np.datetime64] | None = None,
    ) -> Rows:
        """Read the rows of a chunk, like other frames, or with days since these dates."""
        try:
            return self._read(frame, X, Z, dates or {})
        except ValueError as wrong:
            if PART not in frame.attrs:
                raise
            # The message begins with the chunk's name.
            raise ValueError(f"{frame.attrs[PART]}: {wrong}") from wrong

    def _read(
        self,
        frame: pd.DataFrame,
        X: Frame | None,
        Z: Frame | None,
        dates: Mapping[str, np.datetime64],
    ) -> Rows:
        options: dict[str, Any] = {"minimum_rows": 1, "dates": dates}
        own = read_features(frame[self.features(frame)], "X", like=X, **options)
        weighed = own if self.weighs else None
        if self.Z is not None:
            weighed = read_features(frame[list(self.Z)], "Z", prefix="z", like=Z, **options)
        known = None if self.exposure is None else frame[self.exposure]
        exposure = read_exposure(known, own, self.observation)
        given, upper = frame[self.y], None
        if self.upper is not None:
            given, upper = split_interval(frame[[self.y, self.upper]], frame[self.censoring])
        y, labels = self._response(given, own)
        if exposure is not None:
            self.observation.refuse(y, exposure)
        weights = None if self.weights is None else frame[self.weights]
        censoring = None if self.censoring is None else frame[self.censoring]
        row_data = read_row_data(own, y, weights, censoring, upper)
        return Rows(own, weighed, y, exposure, labels, row_data)

    def _response(self, y: Any, frame: Frame) -> tuple[np.ndarray, Any]:
        """Response (b,) with its labels, which are the chunk's if no others are known."""
        if self.observation.normal:
            return read_response(y, frame), None
        if self.observation.labelled and self.labels is None:
            return read_response(y, frame, read=labels_of_part)
        known = None if self.labels is None else np.array(self.labels)
        y, labels = read_response(y, frame, read=lambda v: self.observation.read(v, known))
        if labels is not None and not self.observation.labelled:
            raise ValueError(
                f"Column {self.y!r} has named categories, and their codes may differ between parts "
                "of out-of-core data. Store whole numbers in place of them."
            )
        return y, labels


@dataclass(frozen=True, eq=False)
class OutOfCore:
    """All rows of out-of-core data: their moments, and where they are read in chunks.

    Chunks are like `like`, data of no rows. A pass raises a ValueError at its end if the rows
    differ from the first reading.
    """

    moments: Moments  # of X's columns
    source: RowSource | None = None  # None for a loaded fit, which has no rows
    names: Names | None = None  # of the columns in the source
    first: Fingerprint | None = None  # at the first reading
    of_y: Moments | None = None  # None for a loaded fit
    totals: RowTotals | None = None  # None where rows have no weights and bounds

    def without_rows(self) -> OutOfCore:
        """What is known of the rows, without where they are."""
        return replace(self, source=None, names=None, first=None)

    @property
    def rows(self) -> RowSource:
        """Where the rows are; ValueError if there are none."""
        if self.source is None:
            raise ValueError(
                "The training rows were out-of-core data and not saved with the fit. Pass rows to "
                "be explained as X_new, or fit again with a model of the whole data."
            )
        return self.source

    def parts(
        self,
        like: TrainingData,
        refuse: Callable[[Fingerprint, Fingerprint | None], None] = refuse_other,
    ) -> Iterator[TrainingData]:
        """All rows, as many at a time as the source has."""
        for frame in self._frames(refuse):
            yield self._read(like, frame)

    def picked(self, like: TrainingData, positions: np.ndarray) -> TrainingData:
        """Some rows, in one pass."""
        wanted, back = np.unique(positions, return_inverse=True)
        found, start = [], 0
        for frame in self._frames(self._refuse_reordered):
            own = wanted[(wanted >= start) & (wanted < start + len(frame))] - start
            found += [self._read(like, frame.iloc[own])] if len(own) else []
            start += len(frame)
        whole = _stacked(found)
        X = replace(whole.X, index=wanted)
        Z = None if whole.Z is None else replace(whole.Z, index=wanted)
        return replace(whole, X=X, Z=Z).rows(back)

    def chunks(self, like: TrainingData, size: int) -> Iterator[TrainingData]:
        """All rows in their order, so many at a time."""
        held: list[TrainingData] = []
        for part in self.parts(like, self._refuse_reordered):
            held.append(part)
            if sum(part.n for part in held) < size:
                continue
            whole = _stacked(held)
            last = whole.n // size * size
            yield from whole.rows(slice(0, last)).chunks(size)
            held = [whole.rows(np.arange(last, whole.n))] if last < whole.n else []
        if held:
            yield _stacked(held)

    def sums[Found](
        self,
        like: TrainingData,
        of_part: Callable[[Mapping[str, np.ndarray]], Found],
        join: Callable[[Found, Found], Found],
    ) -> Found:
        """Combine the results for the scaled arrays of each part, in any order."""
        of_frame = partial(_of_frame, of_part, cast(Names, self.names), like)
        whole, found = self.rows.reduce(of_frame, partial(_with_fingerprint, join))
        refuse_other(found, self.first)
        return whole

    def _read(self, like: TrainingData, frame: pd.DataFrame) -> TrainingData:
        """The rows of a frame, with the columns and the scaling of all."""
        return _chunk(cast(Names, self.names), like, frame)

    def _frames(
        self, refuse: Callable[[Fingerprint, Fingerprint | None], None]
    ) -> Iterator[pd.DataFrame]:
        """Yield frames of all rows, and compare their fingerprint with the first at the end."""
        found = Fingerprint()
        for frame in self.rows.frames():
            found = found.joined(fingerprint(frame))
            if found.n > self.moments.n:
                break
            yield frame
        refuse(found, self.first)

    def _refuse_reordered(self, found: Fingerprint, first: Fingerprint | None) -> None:
        refuse_reordered(found, first, self.rows.to_keep_order)


def _chunk(names: Names, like: TrainingData, frame: pd.DataFrame) -> TrainingData:
    """The rows of a frame, with the columns and the scaling of all."""
    weighed = None
    if like.Z is not None:
        weighed = like.Z.first(like.p - like.intercept)
    X, Z, y, exposure, _, row_data = names.read(frame, like.X, weighed)
    if like.intercept and Z is not None:
        Z = with_intercept(Z)
    return replace(like, X=X, Z=Z, y=y, exposure=exposure, row_data=row_data)


def _stacked(parts: Sequence[TrainingData]) -> TrainingData:
    """The rows of several chunks."""
    if len(parts) == 1:
        return parts[0]

    def joined(frames: Sequence[Frame]) -> Frame:
        values = np.concatenate([frame.values for frame in frames])
        return replace(frames[0], values=values, index=np.arange(len(values)))

    first, Z = parts[0], None
    X = joined([part.X for part in parts])
    if first.Z is not None:
        Z = X if first.Z is first.X else joined([cast(Frame, part.Z) for part in parts])
    y, exposure = np.concatenate([part.y for part in parts]), None
    if first.exposure is not None:
        exposure = np.concatenate([cast(np.ndarray, part.exposure) for part in parts])
    row_data = None
    if first.row_data is not None:
        row_data = reduce(RowData.joined, [part.row_data for part in parts])
    return replace(first, X=X, Z=Z, y=y, exposure=exposure, row_data=row_data)


def of_scaled(of_part: Callable, rows: TrainingData) -> Any:
    """Result for the scaled arrays of some rows."""
    return of_part(rows.scaled())


def _of_frame(
    of_part: Callable, names: Names, like: TrainingData, frame: pd.DataFrame
) -> tuple[Any, Fingerprint]:
    return of_scaled(of_part, _chunk(names, like, frame)), fingerprint(frame)


def _with_fingerprint(
    join: Callable, one: tuple[Any, Fingerprint], other: tuple[Any, Fingerprint]
) -> tuple[Any, Fingerprint]:
    return join(one[0], other[0]), one[1].joined(other[1])


@dataclass(frozen=True, eq=False)
class Seen:
    """Results of the first pass over some rows."""

    # of one column each, by name: of response, exposure, numbers, indicators
    columns: dict[str, Moments]
    sources: tuple[str, ...]  # the data set's own columns, in their order
    levels: dict[str, tuple[str, ...]]  # of each categorical column
    origins: dict[str, np.datetime64]  # of the days of each column of dates
    sample: pd.DataFrame  # rows with the smallest random keys, at most `SAMPLE`
    keys: np.ndarray  # their keys
    part: str  # name of the first chunk
    labels: np.ndarray | None  # sorted class labels of the response, if any
    rows: Fingerprint
    totals: RowTotals | None  # None where rows have no weights and bounds

    def of(self, columns: Sequence[str]) -> Moments:
        """Moments of several columns."""
        each = [self.columns[name] for name in columns]
        fields = (np.concatenate([getattr(m, k) for m in each]) for k in MOMENTS)
        return Moments(each[0].n, *fields, weight=each[0].weight)

    def holds(self, name: str) -> str:
        """What a column holds."""
        kinds: dict[str, Mapping] = {"categories": self.levels, "dates": self.origins}
        return next((kind for kind, names in kinds.items() if name in names), "numbers")


def seen_of_part(names: Names, frame: pd.DataFrame) -> Seen:
    """`Seen` of one part; the keys of its rows come from its own first numbers."""
    X, Z, y, exposure, labels, row_data = names.read(frame)
    weights = None if row_data is None else row_data.weights
    tables = [X, Frame(y[:, None], (names.y,), X.index, False)]
    tables += [] if Z is None or Z is X else [Z]
    if names.exposure is not None and exposure is not None:
        tables.append(Frame(exposure[:, None], (names.exposure,), X.index, False))
    columns: dict[str, Moments] = {}
    for table in tables:
        whole = Moments.of(table.values, weights)
        for j, name in enumerate(table.columns):
            own = (getattr(whole, k)[j : j + 1] for k in MOMENTS)
            columns[name] = Moments(whole.n, *own, weight=whole.weight)
    digest = np.ascontiguousarray([*X.values[0], y[0], len(y)]).view(np.uint64)
    keys = np.random.default_rng(digest.tolist()).uniform(size=len(frame))
    chosen = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
    frames = [X] if Z is None else [X, Z]
    return Seen(
        columns=columns,
        sources=tuple(frame.columns),
        levels={c: own for table in frames for c, own in table.levels.items()},
        origins={c: own for table in frames for c, own in table.origins.items()},
        sample=frame.iloc[chosen].reset_index(drop=True),
        keys=keys[chosen],
        part=frame.attrs[PART],
        labels=labels,
        rows=fingerprint(frame),
        totals=None if row_data is None else RowTotals.of(row_data),
    )


def seen_of_both(one: Seen, other: Seen) -> Seen:
    """`Seen` of the rows of both, which have the same columns, of the same types."""
    lacks, more = (_without(*pair) for pair in ((one, other), (other, one)))
    if lacks or more:
        differs = [f"lacks the columns {lacks}"] * bool(lacks) + [f"adds {more}"] * bool(more)
        raise ValueError(
            f"{other.part}: it {' and '.join(differs)}, unlike {one.part}. Give each of them the "
            "same columns, in any order."
        )
    for name in sorted(one.sources):
        kinds = sorted((part.holds(name), part.part) for part in (one, other))
        if kinds[0][0] != kinds[1][0]:
            first, second = (f"{kind} in {part}" for kind, part in kinds)
            raise ValueError(
                f"Column {name!r} holds {first} and {second}. Use the same type in both."
            )
    levels = {c: tuple(dict.fromkeys(own + other.levels[c])) for c, own in one.levels.items()}
    names = dict.fromkeys([*one.columns, *other.columns])
    columns = {name: _of_both(one, other, name) for name in names}
    keys = np.concatenate([one.keys, other.keys])
    chosen = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
    tables = [part.sample.astype(dict.fromkeys(levels, str)) for part in (one, other)]
    return Seen(
        columns=columns,
        sources=one.sources,
        levels=levels,
        origins=one.origins,
        sample=pd.concat(tables, ignore_index=True).iloc[chosen].reset_index(drop=True),
        keys=keys[chosen],
        part=one.part,
        labels=_labels_of_both(one, other),
        rows=one.rows.joined(other.rows),
        totals=None if one.totals is None else one.totals.joined(cast(RowTotals, other.totals)),
    )


def _labels_of_both(one: Seen, other: Seen) -> np.ndarray | None:
    if one.labels is None or other.labels is None:  # as all parts have labels, or none has
        return None
    labels = labels_joined(one.labels, other.labels)
    if labels is None:
        known, found = one.labels.tolist()[0], other.labels.tolist()[0]
        raise ValueError(
            f"y holds {found!r} in {other.part} and {known!r} in {one.part}, but class labels must "
            "be of one kind. Convert them, for example with .astype(str)."
        )
    return labels


def _without(one: Seen, other: Seen) -> list[str]:
    """Columns of one that the other does not have."""
    return [name for name in one.sources if name not in other.sources]


def _of_both(one: Seen, other: Seen, name: str) -> Moments:
    """Moments of a column; a level that is not declared in a part has no rows there."""
    any_column = [next(iter(part.columns.values())) for part in (one, other)]
    none = [Moments(own.n, *np.zeros((4, 1)), weight=own.weight) for own in any_column]
    found = [p.columns.get(name, empty) for p, empty in zip((one, other), none, strict=True)]
    if name in one.origins:
        found[1] = found[1].moved(days_since([other.origins[name]], one.origins[name]))
    return found[0].joined(found[1])
