"""Out-of-core training data: only moments and a sample of the rows are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pandas as pd

from bayes_gpx.data.features import Frame
from bayes_gpx.data.fingerprints import Fingerprint, fingerprint, refuse_other, refuse_reordered
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.parts import Names, Seen, seen_of_both, seen_of_part
from bayes_gpx.data.row_source import RowSource, row_source
from bayes_gpx.data.scaling import Scaling, no_scaling, response_scaling, standard_scaling
from bayes_gpx.data.training import (
    Reader,
    TrainingData,
    read_training,
    resolution_of_y,
    unscaled_last,
    with_intercept,
)
from bayes_gpx.numerics.threads import in_order

HELD = 2**25
"""Most numbers, 256 MB, for which rows that are needed repeatedly stay in memory."""


@dataclass(frozen=True, eq=False, repr=False)
class StreamedData(TrainingData):
    """Training rows in a `RowSource`; `X`, `Z`, `y`, `exposure` are those of a seeded sample."""

    held: Moments | None = None  # moments of X's columns, over all rows
    source: RowSource | None = None  # None for a loaded fit, which has no rows
    names: Names | None = None  # names of the columns in the source
    first: Fingerprint | None = None  # fingerprint at the first reading
    part: TrainingData | None = None  # rows to explain, as rows with known responses

    streamed = True

    @property
    def stored(self) -> bool:
        """Whether there are rows to be read."""
        return self.source is not None

    @property
    def n(self) -> int:
        """Number of samples, in all parts."""
        return self.moments.n

    @cached_property
    def moments(self) -> Moments:
        """Moments of X's columns, over all chunks."""
        return cast(Moments, self.held)

    def rows(self, positions: np.ndarray | slice) -> TrainingData:
        """Refuse, because out-of-core rows are not in memory."""
        raise ValueError(
            "The training rows are out-of-core data, but this needs to pick some of them. Pass "
            "rows as X_new if the explanation function takes it, or fit a sample of the rows."
        )

    def picked(self, positions: np.ndarray) -> TrainingData:
        """Rows by their positions among all, in one pass over the parts."""
        wanted, back = np.unique(positions, return_inverse=True)
        found, start = [], 0
        for frame in self.parts():
            own = wanted[(wanted >= start) & (wanted < start + len(frame))] - start
            found += [self.read(frame.iloc[own])] if len(own) else []
            start += len(frame)
        first, Z = found[0], None
        weighed = [part.Z for part in found if part.Z is not None]
        X = _stacked([part.X for part in found], wanted)
        if first.Z is not None:
            Z = X if first.Z is first.X else _stacked(weighed, wanted)
        y, exposure = np.concatenate([part.y for part in found]), first.exposure
        if exposure is not None:
            exposure = np.concatenate([part.exposure for part in found])
        return replace(first, X=X, Z=Z, y=y, exposure=exposure).rows(back)

    def without_rows(self) -> StreamedData:
        """All that a fit needs of the data but the rows: the sample becomes one of its medians."""

        def middle(frame: Frame) -> Frame:
            values = np.median(frame.values, axis=0)[None]
            return replace(frame, values=values, index=np.zeros(1, int))

        Z = None if self.Z is None else middle(self.Z)
        y = np.median(self.y)[None]
        exposure = None if self.exposure is None else np.median(self.exposure)[None]
        return replace(self, X=middle(self.X), Z=Z, y=y, exposure=exposure, source=None)

    def read(self, frame: pd.DataFrame) -> TrainingData:
        """Rows of one part, with the scaling of all."""
        weighed = None if self.Z is None else self.Z.first(self.p - self.intercept)
        X, Z, y, exposure, _ = cast(Names, self.names).read(frame, self.X, weighed)
        if self.intercept and Z is not None:
            Z = with_intercept(Z)
        return self._of(X, Z, y, exposure)

    def with_part(self, X: np.ndarray, Z: np.ndarray, y: np.ndarray) -> StreamedData:
        """The same data with rows to explain: in user units, as from `read`."""
        index = np.arange(len(y))
        own = replace(self.X, values=X, index=index)
        weighed = replace(cast(Frame, self.Z), values=Z, index=index)
        return replace(self, part=self._of(own, weighed, y, None))

    def _of(
        self, X: Frame, Z: Frame | None, y: np.ndarray, exposure: np.ndarray | None
    ) -> TrainingData:
        """Rows with the scaling of all."""
        return TrainingData(
            X,
            Z,
            y,
            self.y_name,
            self.X_scaling,
            self.y_scaling,
            self.Z_scaling,
            self.z_is_x,
            self.intercept,
            self.labels,
            exposure,
            self.scales_y,
        )

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield frames of all rows, for results that depend on the order of rows."""
        # ValueError if the model was loaded without its rows; at the end, if rows or their order
        # differ from the first reading.
        yield from self._frames(partial(refuse_reordered, cure=self._source.to_keep_order))

    def _frames(
        self, refuse: Callable[[Fingerprint, Fingerprint | None], None]
    ) -> Iterator[pd.DataFrame]:
        """Yield frames of all rows, and compare their fingerprint with the first at the end."""
        found = Fingerprint()
        for frame in self._source.frames():
            found = found.joined(fingerprint(frame))
            if found.n > self.n:
                break
            yield frame
        refuse(found, self.first)

    @property
    def _source(self) -> RowSource:
        self.refuse_without_rows()
        return cast(RowSource, self.source)

    def refuse_without_rows(self) -> None:
        """Raise where there are no rows to be read."""
        if not self.stored:
            raise ValueError(
                "The training rows were out-of-core data and not saved with the fit. Pass rows to "
                "be explained as X_new, or fit again with a model of the whole data."
            )

    def sums[Found](
        self,
        of_part: Callable[[Mapping[str, np.ndarray]], Found],
        join: Callable[[Found, Found], Found],
    ) -> Found:
        """Combine the results for the arrays of each chunk, on the model's scale: `RowParts`."""
        columns = self.d + self.p + 1 + (self.exposure is not None)
        if self.n * columns <= HELD and not self._source.elsewhere:
            return in_order(of_part, join, self._held)
        # Chunks that do not fit into memory are read again.
        return self.joined(partial(_of_scaled, of_part), join)

    def joined[Found](
        self, of_rows: Callable[[TrainingData], Found], join: Callable[[Found, Found], Found]
    ) -> Found:
        """Combine the results for the rows of each chunk, which are read again."""
        # Both functions can be pickled, since they may run on other machines. The order of rows may
        # change, as Dask's does after a merge, so results must not depend on it. ValueError if the
        # rows differ from the first reading.
        of_frame = partial(_of_frame, of_rows, self._light.read)
        whole, found = self._source.reduce(of_frame, partial(_of_both, join))
        refuse_other(found, self.first)
        return whole

    @cached_property
    def _held(self) -> list[dict[str, np.ndarray]]:
        return [self.read(frame).scaled() for frame in self._frames(refuse_other)]

    def __getstate__(self) -> dict[str, Any]:
        """Without rows that are held, which can be read again."""
        return {name: value for name, value in vars(self).items() if name != "_held"}

    @cached_property
    def _light(self) -> StreamedData:
        """Without rows, to be sent to other processes."""
        return self.without_rows()

    def __repr__(self) -> str:
        """Without the sample, which is thousands of rows."""
        return f"StreamedData({self.n} rows of {self.d} columns)"

    def __deepcopy__(self, memo: dict) -> StreamedData:
        """The same: nothing changes it, and a source may be of any kind."""
        return self


def _stacked(frames: Sequence[Frame], labels: np.ndarray) -> Frame:
    """One frame of the rows of several, labelled anew."""
    values = np.concatenate([frame.values for frame in frames])
    return replace(frames[0], values=values, index=labels)


def _of_scaled(of_part: Callable, rows: TrainingData) -> Any:
    return of_part(rows.scaled())


def _of_frame(
    of_rows: Callable, read: Callable[[pd.DataFrame], TrainingData], frame: pd.DataFrame
) -> tuple[Any, Fingerprint]:
    return of_rows(read(frame)), fingerprint(frame)


def _of_both(
    join: Callable, one: tuple[Any, Fingerprint], other: tuple[Any, Fingerprint]
) -> tuple[Any, Fingerprint]:
    return join(one[0], other[0]), one[1].joined(other[1])


def read_streamed(
    source: RowSource,
    y: str,
    observation: Reader,
    Z: Sequence[str] | None = None,
    *,
    weighs: bool,
    exposure: str | None = None,
    intercept: bool = False,
    scale: bool = True,
    resolution: Any = None,
) -> StreamedData:
    """Read the moments of a data set, in one pass, and a sample of its rows."""
    # `y` and `exposure` are names of columns; `Z` names columns with weights if they are not X's.
    # The `center` of `observation` takes one row, of mean count and exposure. `resolution` is found
    # from the sample by default.
    if not isinstance(y, str):
        raise ValueError(
            f"y is a {type(y).__name__}. For out-of-core data, pass the name of a column, a str."
        )
    if Z is not None and not (
        isinstance(Z, list | tuple) and Z and all(isinstance(name, str) for name in Z)
    ):
        raise ValueError(
            f"Z is a {type(Z).__name__}. For out-of-core data, pass a list of names of columns, "
            "each a str."
        )
    if Z is not None and y in Z:
        raise ValueError(f"Z names {y!r}, which is the response. Pass other columns.")
    if not isinstance(exposure, str | None):
        raise ValueError(
            f"exposure is a {type(exposure).__name__}. For out-of-core data, pass the name of a "
            "column, a str."
        )
    if exposure is not None and exposure in (y, *(Z or ())):
        raise ValueError(f"exposure names {exposure!r}, as y or Z does. Pass another column.")
    names = Names(y, None if Z is None else tuple(Z), exposure, weighs, observation)
    seen = source.reduce(partial(seen_of_part, names), seen_of_both)
    types = {name: pd.CategoricalDtype([*own]) for name, own in seen.levels.items()}
    if seen.labels is not None:
        names = replace(names, labels=tuple(cast(np.ndarray, observation.read(seen.labels)[1])))
    sample = names.read(seen.sample.astype(dict.fromkeys(types, str)).astype(types))
    X, weighed = sample.X, sample.Z
    scaling = standard_scaling if scale else no_scaling
    own = None
    if weighed is not None:
        own = scaling(weighed, "Z", seen.of(weighed.columns))
        own = unscaled_last(own) if intercept else own
    return StreamedData(
        X,
        with_intercept(weighed) if intercept and weighed is not None else weighed,
        sample.y,
        y,
        scaling(X, "X", seen.of(X.columns)),
        _response_scaling(observation, names, seen) if scale else Scaling(0.0, 1.0),
        own,
        z_is_x=Z is None,
        intercept=intercept,
        labels=names.labels,
        exposure=sample.exposure,
        scales_y=observation.scaled,
        held=seen.of(X.columns),
        source=source,
        names=names,
        first=seen.rows,
        resolution=resolution_of_y(resolution, sample.y, None, observation),
    )


def _response_scaling(observation: Reader, names: Names, seen: Seen) -> Scaling:
    """Scaling of a response from its moments, or of f if there is an exposure."""
    if observation.scaled:
        return response_scaling(seen.of([names.y]))
    if not observation.exposed:
        return Scaling(0.0, 1.0)
    exposure = np.ones(1) if names.exposure is None else seen.of([names.exposure]).mean
    return Scaling(observation.center(seen.of([names.y]).mean, exposure), 1.0)


def read_data(
    X: Any,
    y: Any,
    observation: Reader,
    Z: Any = None,
    *,
    weighs: bool,
    intercept: bool = False,
    scale: bool = True,
    exposure: Any = None,
    resolution: Any = None,
    **options: Any,
) -> TrainingData:
    """Read the training data of a model: a table as `read_training`, or as `read_streamed`."""
    source = row_source(X, by_name=isinstance(y, str))
    if source is not None and options.get("groups") is not None:
        raise ValueError(
            "X is out-of-core data, and groups was given. Pass rows in memory, or leave groups out."
        )
    known = {"weighs": weighs, "intercept": intercept, "scale": scale, "exposure": exposure}
    known["resolution"] = resolution
    if source is None and isinstance(y, str):
        raise ValueError(
            f"y is the str {y!r}, which names a column of out-of-core data, but X is a table in "
            f"memory. Pass the values of the column {y!r} as y, and X without it."
        )
    if source is None:
        return read_training(X, y, observation, Z, **known, **options)
    return read_streamed(source, y, observation, Z, **known)
