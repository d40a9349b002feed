"""The training data of a model, in chunks of rows, read and scaled; and reading of new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import scipy.sparse as sps

from bayes_gpx.data.features import (
    Frame,
    read_features,
    read_response,
    refuse_misaligned,
    with_intercept,
)
from bayes_gpx.data.groups import Groups, read_groups
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.out_of_core import OutOfCore, of_scaled
from bayes_gpx.data.outputs import Outputs
from bayes_gpx.data.response import Reader
from bayes_gpx.data.row_data import RowData, RowTotals, median_row
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.sparse import read_weighed
from bayes_gpx.numerics.threads import in_order
from bayes_gpx.validation import one_of

HELD = 2**25
"""Most numbers, 256 MB, for which out-of-core rows that are needed repeatedly stay in memory."""

TOGETHER = 2**15
"""Number of rows in memory that one thread sums before the sums are combined.

Chunks and their order are fixed, so results are bitwise identical for any number of threads.
"""


@dataclass(frozen=True, eq=False, repr=False)
class TrainingData:
    """Training rows in user units, with the scaling that was frozen on them."""

    X: Frame
    Z: Frame | None  # features with weights in a GPX, with the intercept column if there is one
    y: np.ndarray  # (n,)
    y_name: str
    X_scaling: Scaling
    y_scaling: Scaling
    Z_scaling: Scaling | None  # None without Z
    z_is_x: bool  # the features with weights are X itself
    intercept: bool
    labels: tuple | None = None  # labels that y codes as 0, 1, ...; None for numbers
    exposure: np.ndarray | None = None  # (n,) of counts, or ones; None for a Gaussian likelihood
    scales_y: bool = True  # y itself is scaled; else its scaling is for the latent values alone
    groups: Groups | None = None  # of rows, for models with groups
    # For several responses in each row. y are then the observed values, and the scaling of y is the
    # scaling of all outputs, (q,), or of the one to explain.
    outputs: Outputs | None = None
    resolution: np.ndarray | float = 0.0  # rounding step of y, or of each output (q,); 0 for none
    row_data: RowData | None = None  # weights and bounds of rows
    weight: str | None = None  # column of Z with the weight to explain in place of f
    units: Mapping[str, str] = field(default_factory=dict)  # by column of X or Z, or response

    # All rows, where X, Z, y and exposure have a sample of them: or medians, where none are stored.
    beyond: OutOfCore | None = None

    @property
    def streamed(self) -> bool:
        """Whether the data are out-of-core, with only a sample in memory."""
        return self.beyond is not None

    @property
    def stored(self) -> bool:
        """Whether there are rows: not for a loaded fit of out-of-core data."""
        return self.beyond is None or self.beyond.source is not None

    @property
    def n(self) -> int:
        """Number of responses."""
        return len(self.y) if self.beyond is None else self.beyond.moments.n

    def said_of_y(self, units: str) -> str:
        """Units in words, where ``{y}`` stands for the response."""
        known = self.units.get(self.y_name)
        if known and units == "{y}":
            return known
        if known and units[-1:].isdigit():  # a value of y
            return f"{units.format(y=self.y_name)} {known}"
        return units.format(y=f"{self.y_name} in {known}" if known else self.y_name)

    @property
    def responses(self) -> tuple[str, Any]:
        """The dim of the responses, which has its place in the model's names, and its labels."""
        if self.outputs is None:
            return "obs", self.X.index
        return "cell", self.outputs.labels

    @property
    def code(self) -> Any:
        """Code of the output that is asked for, or of each response, (N,); None without outputs."""
        if self.outputs is None:
            return None
        return self.outputs.codes if self.outputs.asked is None else self.outputs.asked

    def of_output(self, name: str) -> TrainingData:
        """The same data, with one output to explain, in its units."""
        outputs = cast(Outputs, self.outputs).asking(name)
        both = outputs.scaling.center, outputs.scaling.scale
        center, scale = (np.asarray(values)[outputs.asked] for values in both)
        return replace(self, outputs=outputs, y_scaling=Scaling(center, scale), y_name=name)

    def codes_at(self, m: int, groups: Groups | None) -> np.ndarray | None:
        """Codes of the groups of m rows, or of the output to explain; or None."""
        codes = None if groups is None else groups.codes
        if self.outputs is None:
            return codes
        self.refuse_all_outputs()
        output = np.full(m, self.outputs.asked)
        return output if codes is None else np.column_stack([codes, output])

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Where the responses of some rows are among all, (m,); negative for a gap in an output."""
        if self.outputs is None or self.outputs.asked is None:
            return rows
        places = np.cumsum(self.outputs.observed.ravel()).reshape(self.outputs.observed.shape) - 1
        asked = self.outputs.asked
        return np.where(self.outputs.observed[rows, asked], places[rows, asked], -1 - rows)

    def refuse_all_outputs(self) -> None:
        """Raise where there are several outputs, and none of them is asked for."""
        if self.outputs is not None and self.outputs.asked is None:
            raise ValueError(
                f"The model has the outputs {list(self.outputs.names)}, but this needs one of "
                f"them. Pass model.of_output({self.outputs.names[0]!r}) instead of the model."
            )

    def refuse_one_output(self) -> None:
        """Raise where one of several outputs is asked for."""
        if self.outputs is not None and self.outputs.asked is not None:
            raise ValueError(
                f"The model is for the output {self.y_name!r} alone. Pass the model of all "
                "outputs, as bx.GP made it."
            )

    def refuse_outputs(self, what: str, cure: str) -> None:
        """Raise for requests that a table of outputs does not support, with a fix."""
        if self.outputs is not None:
            raise ValueError(f"{what} cannot be used with a model of several outputs. {cure}")

    @property
    def exposures(self) -> np.ndarray | None:
        """Exposure of each response, (n,)."""
        if self.exposure is None or self.outputs is None:
            return self.exposure
        return self.exposure[self.outputs.rows]

    @property
    def scaled_exposure(self) -> np.ndarray | None:
        """Exposure of each response on the model's scale, times the prior rate, (n,)."""
        if self.exposures is None:
            return None
        # A log link's prior mean is one more factor of the rate; known noise is in units of y.
        scaling = self.y_scaling if self.outputs is None else self.outputs.scaling_of_cells
        return self.exposures * (1.0 / scaling.scale if self.scales_y else np.exp(scaling.center))

    def row_exposures(self, scaling: Scaling, exposure: np.ndarray | None) -> np.ndarray:
        """Exposures with the columns of weights and bounds; bounds are on some scale of y."""
        first = np.ones(len(self.y)) if exposure is None else exposure
        return np.column_stack([first, *cast(RowData, self.row_data).columns(scaling)])

    @property
    def log_units(self) -> np.ndarray | float:
        """What a log density of each y loses from the model's scale to user units, (n,)."""
        lost = np.log(self.response_scaling.scale)
        return lost if self.row_data is None else lost * self.row_data.counts

    @property
    def totals(self) -> RowTotals:
        """What the weights and bounds of all rows add up to."""
        if self.beyond is not None and self.beyond.totals is not None:
            return self.beyond.totals
        return RowTotals.of(self.row_data) if self.row_data else RowTotals(counted=self.n)

    @cached_property
    def moments(self) -> Moments:
        """Moments of X's columns over all rows, in user units."""
        if self.beyond is not None:
            return self.beyond.moments
        return Moments.of(self.X.values, None if self.row_data is None else self.row_data.weights)

    @property
    def response_moments(self) -> Moments:
        """Moments of y, of all rows where these are known."""
        known = None if self.beyond is None else self.beyond.of_y
        weights = None if self.row_data is None else self.row_data.weights
        return Moments.of(self.y[:, None], weights) if known is None else known

    @property
    def X_deviations(self) -> np.ndarray:  # noqa: N802
        """Standard deviations of X's columns, exactly 0 of constant ones, (d,)."""
        return np.where(self.moments.high > self.moments.low, self.moments.sd, 0.0)

    @property
    def corners(self) -> np.ndarray:
        """Least and largest values of X's columns on the model's scale, (2, d)."""
        return self.X_scaling.apply(np.stack([self.moments.low, self.moments.high]))

    @property
    def d(self) -> int:
        """Number of columns of X."""
        return len(self.X.columns)

    @property
    def p(self) -> int:
        """Number of features that are weighed; 1 without Z."""
        return 1 if self.Z is None else len(self.Z.columns)

    @property
    def sparse(self) -> bool:
        """Whether the features with weights are a sparse matrix."""
        return self.Z is not None and self.Z.sparse

    @property
    def tied(self) -> bool:
        """Whether the features with weights are X itself, and z changes with x."""
        return self.Z is not None and self.z_is_x and self.weight is None

    def of_weight(self, name: str) -> TrainingData:
        """The same data, with the weight of one column of Z to explain."""
        if self.Z is None:
            raise ValueError(
                f"of is ('weight', {name!r}), but a GP has no weights. Pass a bx.GPX, or explain "
                "the prediction by leaving of out."
            )
        one_of("of, weights", name, self.Z.columns)
        return replace(self, weight=name)

    @property
    def f_scaling(self) -> Scaling:
        """From the model's scale to the units of what is explained: f, or a weight."""
        if self.weight is None:
            return self.y_scaling
        scales = np.asarray(cast(Scaling, self.Z_scaling).scale)
        return Scaling(0.0, self.y_scaling.scale / scales[self._weighed])

    def unit_rows(self, m: int) -> Any:
        """Z (m, p) on the model's scale with which z' g(x) is the weight to explain."""
        rows, ones = np.arange(m), np.ones(m)
        Z = sps.csr_array((ones, (rows, np.full(m, self._weighed))), shape=(m, self.p))
        return Z if self.sparse else Z.toarray()

    @property
    def _weighed(self) -> int:
        """Position of the column with the weight to explain."""
        return cast(Frame, self.Z).columns.index(self.weight)

    @property
    def response_scaling(self) -> Scaling:
        """Scaling of y itself: the latent values' scaling, or none if y is not scaled."""
        if not self.scales_y:
            return Scaling(0.0, 1.0)
        return self.y_scaling if self.outputs is None else self.outputs.scaling_of_cells

    @property
    def least_noise(self) -> np.ndarray | float:
        """Standard deviation of uniform rounding errors on the model's scale."""
        scaling = self.y_scaling if self.outputs is None else self.outputs.scaling
        return self.resolution / np.sqrt(12.0) / scaling.scale

    @property
    def sources(self) -> tuple[int, int]:
        """Number of the user's own columns in X, and of those that are weighed."""
        # Smaller than d and p where categorical columns became indicators. On the model's scale the
        # squared length of a row is about that number.
        return len(self.X.sources), 1 if self.Z is None else len(self.Z.sources)

    def size(self, dim: str) -> int:
        """How many values a hyperparameter with the dim "feature" or "z_feature" has."""
        return {"feature": self.d, "z_feature": self.p}[dim]

    def scaled(self) -> dict[str, np.ndarray]:
        """X, y and, if any, Z on the model's scale, exposures, and groups' codes."""
        y = self.response_scaling.apply(self.y)
        scaled = {"X": self.X_scaling.apply(self.X.values), "y": y}
        exposure = self.scaled_exposure
        if self.row_data is not None:
            exposure = self.row_exposures(self.response_scaling, exposure)
        if exposure is not None:
            scaled["exposure"] = exposure
        if self.Z is not None:
            scaled["Z"] = cast(Scaling, self.Z_scaling).apply(self.Z.values)
        if self.groups is not None:
            scaled["group"] = self.groups.codes
        # There is a row for each response, and the code of its output is the last one.
        if self.outputs is not None:
            rows, codes = self.outputs.rows, self.outputs.codes
            known = {name: scaled[name][rows] for name in ("X", "Z", "group") if name in scaled}
            if "group" in known:
                codes = np.column_stack([known["group"], codes])
            scaled |= known | {"group": codes}
        return scaled

    def rows(self, positions: np.ndarray | slice) -> TrainingData:
        """Some of the rows alone, by their positions, with the scaling and the labels of all."""
        if self.beyond is not None:
            return self.beyond.picked(self._template, np.arange(self.n)[positions])
        outputs = None if self.outputs is None else self.outputs.at(positions)
        return replace(
            self,
            X=self.X.rows(positions),
            Z=None if self.Z is None else self.Z.rows(positions),
            y=self.y[positions] if outputs is None else outputs.y,
            outputs=outputs,
            exposure=None if self.exposure is None else self.exposure[positions],
            groups=None if self.groups is None else self.groups.rows(positions),
            row_data=None if self.row_data is None else self.row_data.rows(positions),
        )

    def chunks(self, size: int) -> Iterator[TrainingData]:
        """All rows in their order, so many at a time."""
        # ValueError if the model was loaded without its rows; at the end, if rows or their order
        # differ from the first reading.
        if self.beyond is None:
            for k in range(0, len(self.X), size):
                yield self.rows(slice(k, k + size))
            return
        yield from self.beyond.chunks(self._template, size)

    def sums[Found](
        self,
        of_part: Callable[[Mapping[str, np.ndarray]], Found],
        join: Callable[[Found, Found], Found],
        again: bool = True,
    ) -> Found:
        """Combine the results for the scaled arrays of each chunk, in any order: `RowParts`."""
        # Out-of-core chunks that fit into memory are kept there, if they are needed `again`. Others
        # are read, on other machines too, so both functions can be pickled. ValueError if the rows
        # differ from the first reading.
        if self.beyond is None:
            return in_order(partial(of_scaled, of_part), join, self.chunks(TOGETHER))
        columns = self.d + self.p + 1 + (self.exposure is not None)
        if again and self.n * columns <= HELD and not self.beyond.rows.elsewhere:
            return in_order(of_part, join, self._held)
        return self.beyond.sums(self._template, of_part, join)

    @cached_property
    def _held(self) -> list[dict[str, np.ndarray]]:
        return [part.scaled() for part in cast(OutOfCore, self.beyond).parts(self._template)]

    def __getstate__(self) -> dict[str, Any]:
        """Without out-of-core rows that are held, which can be read again."""
        return {name: value for name, value in vars(self).items() if name != "_held"}

    def __deepcopy__(self, memo: dict) -> TrainingData:
        """The same: nothing changes it, and a source may be of any kind."""
        return self

    def __repr__(self) -> str:
        """Without the rows, which are thousands."""
        return f"TrainingData({self.n} rows of {self.d} columns)"

    def summarized(self) -> TrainingData:
        """All that a fit needs of out-of-core data but the rows: one row, the sample's medians."""

        def middle(frame: Frame) -> Frame:
            values = median_row(frame, self.row_data)[None]
            return replace(frame, values=values, index=np.zeros(1, int))

        Z = None if self.Z is None else middle(self.Z)
        exposure = None if self.exposure is None else np.median(self.exposure)[None]
        row_data = None if self.row_data is None else self.row_data.rows(slice(1))
        kept = {"X": middle(self.X), "Z": Z, "y": np.median(self.y)[None], "exposure": exposure}
        kept["row_data"] = row_data
        return replace(self, **kept, beyond=cast(OutOfCore, self.beyond).without_rows())

    @property
    def _template(self) -> TrainingData:
        """Data of no rows that out-of-core chunks are read like."""
        return replace(self, beyond=None).rows(slice(0))

    def refuse_out_of_core(self, message: str) -> None:
        """Raise a ValueError with this message for out-of-core data."""
        if self.streamed:
            raise ValueError(message)

    @property
    def censored(self) -> int:
        """Number of rows with bounds of y."""
        return self.totals.bounded

    def refuse_censored(self, what: str, cure: str = "") -> None:
        """Raise for requests that need the value of every y."""
        scores = "Score the model by bx.log_likelihood, or by elpd of bx.loo_predictions."
        if self.censored:
            raise ValueError(
                f"{what} compares or draws responses, but {self.censored} of {self.n} rows are "
                f"censored. {cure or scores}"
            )

    def refuse_sparse(self, what: str) -> None:
        """Raise for requests that a sparse Z does not support."""
        if self.sparse:
            raise ValueError(f"{what} does not support a sparse Z. Use a model of Z.toarray().")

    def refuse_without_rows(self) -> None:
        """Raise where there are no rows to be read."""
        if self.beyond is not None:
            _ = self.beyond.rows

    def only(self, sources: Sequence[str]) -> TrainingData:
        """The same samples with some columns of X, and of a Z that is X, on the scale of all."""
        X = self.X.only(sources)
        found = replace(self, X=X, X_scaling=_scaling_of(self.X_scaling, self.X, X))
        if not self.tied:
            return found
        Z = with_intercept(X) if self.intercept else X
        return replace(found, Z=Z, Z_scaling=_scaling_of(self.Z_scaling, self.Z, Z))

    def read_new(
        self, X_new: Any, Z_new: Any = None, *, needs_z: bool = True
    ) -> tuple[Frame, Frame | None]:
        """Read new rows X and Z in user units; Z is None for a model without Z."""
        # With ``needs_z=False`` it is None without Z_new, too. ValueError if columns are missing,
        # rows do not match, or Z_new is missing or superfluous.
        X = read_features(X_new, "X_new", like=self.X, minimum_rows=1)
        if Z_new is not None and (self.Z is None or self.z_is_x):
            reason = "has no Z" if self.Z is None else "weighs X itself"
            raise ValueError(f"Z_new was given, but this model {reason}; leave it out.")
        if self.Z is None:
            return X, None
        weighed = self.Z.first(self.p - self.intercept)
        if self.z_is_x:
            Z = X
        elif Z_new is not None:
            Z = read_weighed(Z_new, "Z_new", like=weighed, minimum_rows=1)
        elif needs_z:
            columns = list(weighed.columns[:3]) + ["..."] if weighed.sparse else weighed.sources
            raise ValueError(
                "This model was given a Z in addition to X. Pass Z_new with the columns "
                f"{list(columns)} as well."
            )
        else:
            return X, None
        refuse_apart(X, Z, "X_new", "Z_new")
        return X, with_intercept(Z) if self.intercept else Z

    def read_groups(self, groups_new: Any, X: Frame, others: Sequence[str] = ()) -> Groups | None:
        """Read the groups of new rows X, where `others` have codes; None without groups."""
        if self.groups is None:
            if groups_new is not None:
                raise ValueError(
                    "groups_new was given, but this model has no groups; leave it out."
                )
            return None
        if groups_new is None:
            raise ValueError(
                "This model has groups; pass groups_new, a label for each row of X_new. A label "
                f"such as {self.groups.labels[0]!r} continues that group, and any other one is a "
                "new group, about which only the prior is known."
            )
        return read_groups(groups_new, X, "groups_new", (*self.groups.labels, *others))

    def read_observed(
        self, X_new: Any, Z_new: Any, y_new: Any, observation: Reader, groups_new: Any = None
    ) -> TrainingData:
        """Read new samples with their responses, on the scale of these; counts of exposure 1."""
        if observation.exposure_name == "noise_sd":
            raise ValueError(
                "y_new was given for a model with noise_sd, but the noise of new rows is unknown. "
                "Leave y_new out, and score them with bx.predictions(..., noise_sd=...) and "
                "bx.metrics.coverage."
            )
        X, Z = self.read_new(X_new, Z_new)
        if observation.normal:
            y = read_response(y_new, X, "y_new")
        else:
            known = None if self.labels is None else np.array(self.labels)
            y, _ = read_response(y_new, X, "y_new", lambda values: observation.read(values, known))
        exposure = None if self.exposure is None else np.ones(len(X))
        groups = self.read_groups(groups_new, X)
        return replace(self, X=X, Z=Z, y=y, exposure=exposure, groups=groups, row_data=None)


def _scaling_of(scaling: Any, frame: Any, part: Frame) -> Scaling:
    """The scaling of those columns of a frame that a part has."""
    kept = np.isin(frame.columns, part.columns)
    return Scaling(np.asarray(scaling.center)[kept], np.asarray(scaling.scale)[kept])


def refuse_apart(X: Frame, Z: Frame, name: str, other: str) -> None:
    """Raise if X and Z have different rows."""
    if len(Z) != len(X):
        raise ValueError(
            f"{name} has {len(X)} rows and {other} has {len(Z)}. Pass the same number of both."
        )
    if X.labelled and Z.labelled:
        refuse_misaligned(X.index, Z.index, name, other)
