"""Out-of-core data: the roles of columns, reading of a chunk, and results of the first pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayes_gpx.data.dates import days_since
from bayes_gpx.data.features import Frame, read_features, read_response
from bayes_gpx.data.fingerprints import Fingerprint, fingerprint
from bayes_gpx.data.moments import MOMENTS, Moments
from bayes_gpx.data.response import Reader, labels_joined, labels_of_part, read_exposure
from bayes_gpx.data.row_source import PART, RowSource

SAMPLE = 10_000
"""Rows of the sample, for medians and for where optimisers start."""


class Rows(NamedTuple):
    """The rows of a part, in user units, and the labels that y codes, if any."""

    X: Frame
    Z: Frame | None
    y: np.ndarray
    exposure: np.ndarray | None
    labels: Any


@dataclass(frozen=True)
class Names:
    """Columns of the response, exposure and features with weights; all others are features of X."""

    y: str
    Z: tuple[str, ...] | None
    exposure: str | None
    weighs: bool  # whether features are weighed
    observation: Reader
    # of all parts; None where y holds numbers, and before all parts were seen
    labels: tuple | None = None

    def features(self, frame: pd.DataFrame) -> list[str]:
        """Names of X's columns in a frame."""
        own = [self.y, *(self.Z or ()), *([] if self.exposure is None else [self.exposure])]
        missing = [name for name in own if name not in frame.columns]
        if missing:
            raise ValueError(
                f"The data set lacks the columns {missing}, which y, Z or exposure name. Pass "
                f"names among {list(frame.columns)}."
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
        given = None if self.exposure is None else frame[self.exposure]
        exposure = read_exposure(given, own, self.observation)
        y, labels = self._response(frame[self.y], own)
        if exposure is not None:
            self.observation.refuse(y, exposure)
        return Rows(own, weighed, y, exposure, labels)

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
                f"Column {self.y!r} has named categories, whose codes may differ between parts of "
                "out-of-core data. Store whole numbers in place of them."
            )
        return y, labels


@dataclass(frozen=True, eq=False)
class OutOfCore:
    """All rows of out-of-core data: their moments, and where they are read in chunks."""

    moments: Moments  # of X's columns
    source: RowSource | None = None  # None for a loaded fit, which has no rows
    names: Names | None = None  # of the columns in the source
    first: Fingerprint | None = None  # at the first reading


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

    def of(self, columns: Sequence[str]) -> Moments:
        """Moments of several columns."""
        each = [self.columns[name] for name in columns]
        fields = (np.concatenate([getattr(m, k) for m in each]) for k in MOMENTS)
        return Moments(each[0].n, *fields)

    def holds(self, name: str) -> str:
        """What a column holds."""
        kinds: dict[str, Mapping] = {"categories": self.levels, "dates": self.origins}
        return next((kind for kind, names in kinds.items() if name in names), "numbers")


def seen_of_part(names: Names, frame: pd.DataFrame) -> Seen:
    """`Seen` of one part; the keys of its rows come from its own first numbers."""
    X, Z, y, exposure, labels = names.read(frame)
    tables = [X, Frame(y[:, None], (names.y,), X.index, False)]
    tables += [] if Z is None or Z is X else [Z]
    if names.exposure is not None and exposure is not None:
        tables.append(Frame(exposure[:, None], (names.exposure,), X.index, False))
    columns: dict[str, Moments] = {}
    for table in tables:
        whole = Moments.of(table.values)
        for j, name in enumerate(table.columns):
            own = (getattr(whole, k)[j : j + 1] for k in MOMENTS)
            columns[name] = Moments(whole.n, *own)
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
    n = [next(iter(part.columns.values())).n for part in (one, other)]
    none = [Moments(k, *np.zeros((4, 1))) for k in n]
    found = [p.columns.get(name, empty) for p, empty in zip((one, other), none, strict=True)]
    if name in one.origins:
        found[1] = found[1].moved(days_since([other.origins[name]], one.origins[name]))
    return found[0].joined(found[1])
