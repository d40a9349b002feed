"""The training data of a model, read, checked and scaled; and reading of new rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from bayes_gpx.data.categorical import is_missing, plain
from bayes_gpx.data.features import Frame, read_features, read_response, refuse_misaligned
from bayes_gpx.data.moments import Moments
from bayes_gpx.data.outputs import Outputs, read_outputs
from bayes_gpx.data.response import read_resolution
from bayes_gpx.data.scaling import (
    Scaling,
    no_scaling,
    response_scaling,
    standard_scaling,
    warn_of_copies,
)

INTERCEPT = "intercept"


class Reader(Protocol):
    """Attributes of a likelihood that reading a response uses."""

    normal: bool
    labelled: bool
    scaled: bool
    exposed: bool
    classes: int | None

    def read(self, y: Any, labels: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Check and encode y; its labels, or None."""

    def center(self, y: np.ndarray, exposure: np.ndarray | None = None) -> float:
        """Prior mean of f that fits the size of y."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row: `codes` (n,) among the `labels` of known, then new groups."""

    codes: np.ndarray
    labels: tuple[str, ...]

    def rows(self, positions: np.ndarray | slice) -> "Groups":
        """Groups of some rows, with the labels of all."""
        return replace(self, codes=self.codes[positions])


@dataclass(frozen=True, eq=False)
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

    streamed = False
    """Whether the data are out-of-core, with only a sample in memory."""

    stored = True
    """Whether there are rows: not for a loaded fit of out-of-core data, or one sent to a worker."""

    @property
    def n(self) -> int:
        """Number of responses."""
        return len(self.y)

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

    def of_output(self, name: str) -> "TrainingData":
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

    @cached_property
    def moments(self) -> Moments:
        """Moments of X's columns, in user units."""
        return Moments.of(self.X.values)

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
    def tied(self) -> bool:
        """Whether the features with weights are X itself, and z changes with x."""
        return self.Z is not None and self.z_is_x

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
        """X, y and, if any, Z on the model's scale, exposure times prior rate, groups' codes."""
        y = self.response_scaling.apply(self.y)
        scaled = {"X": self.X_scaling.apply(self.X.values), "y": y}
        if self.exposures is not None:
            # A log link's prior mean is one more factor of the rate.
            scaling = self.y_scaling if self.outputs is None else self.outputs.scaling_of_cells
            moved = 1.0 if self.scales_y else np.exp(scaling.center)
            scaled["exposure"] = self.exposures * moved
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

    def rows(self, positions: np.ndarray | slice) -> "TrainingData":
        """Some of the samples alone, with the scaling and the labels of all."""
        outputs = None if self.outputs is None else self.outputs.at(positions)
        return replace(
            self,
            X=self.X.rows(positions),
            Z=None if self.Z is None else self.Z.rows(positions),
            y=self.y[positions] if outputs is None else outputs.y,
            outputs=outputs,
            exposure=None if self.exposure is None else self.exposure[positions],
            groups=None if self.groups is None else self.groups.rows(positions),
        )

    def only(self, sources: Sequence[str]) -> "TrainingData":
        """The same samples with some columns of X, and of a Z that is X, on the scale of all."""
        X = self.X.only(sources)
        found = replace(self, X=X, X_scaling=_picked(self.X_scaling, self.X, X))
        if not self.tied:
            return found
        Z = with_intercept(X) if self.intercept else X
        return replace(found, Z=Z, Z_scaling=_picked(self.Z_scaling, self.Z, Z))

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
            Z = read_features(Z_new, "Z_new", prefix="z", like=weighed, minimum_rows=1)
        elif needs_z:
            raise ValueError(
                "This model was given a Z in addition to X. Pass Z_new with the columns "
                f"{list(weighed.sources)} as well."
            )
        else:
            return X, None
        _refuse_apart(X, Z, "X_new", "Z_new")
        return X, with_intercept(Z) if self.intercept else Z

    def read_groups(self, groups_new: Any, X: Frame) -> Groups | None:
        """Read the groups of new rows X; None for a model without groups."""
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
        return read_groups(groups_new, X, "groups_new", self.groups.labels)

    def read_observed(
        self, X_new: Any, Z_new: Any, y_new: Any, observation: Reader, groups_new: Any = None
    ) -> "TrainingData":
        """Read new samples with their responses, on the scale of these; counts of exposure 1."""
        X, Z = self.read_new(X_new, Z_new)
        if observation.normal:
            y = read_response(y_new, X, "y_new")
        else:
            known = None if self.labels is None else np.array(self.labels)
            y, _ = read_response(y_new, X, "y_new", lambda values: observation.read(values, known))
        exposure = None if self.exposure is None else np.ones(len(X))
        groups = self.read_groups(groups_new, X)
        return replace(self, X=X, Z=Z, y=y, exposure=exposure, groups=groups)


def read_training(
    X: Any,
    y: Any,
    observation: Reader,
    Z: Any = None,
    *,
    weighs: bool,
    exposure: Any = None,
    intercept: bool = False,
    scale: bool = True,
    levels: tuple[str, ...] | None = None,
    groups: Any = None,
    scalings: tuple[Scaling, Scaling, Scaling | None] | None = None,
    resolution: Any = None,
) -> TrainingData:
    """Read the training data of a model."""
    # `weighs`: features have weights, Z or X itself. `intercept` adds a constant 1 with a weight,
    # without centering or scaling. `levels` are the allowed labels of X's one column, which are not
    # scaled. `groups` has a label for each row. `scalings` are frozen scalings of X, y and Z.
    # `resolution` is the rounding step of each response, by default found from the values.
    if len(getattr(X, "shape", ())) == 1 and len(getattr(y, "shape", ())) == 2:
        raise ValueError(
            f"X has shape {X.shape} and y has {y.shape}: are they swapped? Pass X (rows, features) "
            "and then y (rows,)."
        )
    frame = read_features(X, "X", levels=levels, dates=True)
    if weighs and Z is None and levels is not None:
        raise ValueError(
            "X holds labels, which have no weights. Pass the features to weigh as Z, (rows, "
            "features)."
        )
    outputs, labels = None, None
    exposure = read_exposure(exposure, frame, observation)
    if observation.classes is None and len(getattr(y, "shape", np.shape(y))) == 2:
        known = None if scalings is None else scalings[1]
        options = {"scale": scale, "exposure": exposure, "scaling": known}
        outputs, labels = read_outputs(y, frame, observation, **options)
        response = outputs.y
    else:
        response, labels = _read_response(y, frame, observation)
    weighed = None
    if weighs:
        weighed = frame if Z is None else read_features(Z, "Z", prefix="z", dates=True)
        _refuse_apart(frame, weighed, "X", "Z")
    if scalings is None:
        scaling = standard_scaling if scale else no_scaling
        y_scaling = Scaling(0.0, 1.0)
        if outputs is not None:
            y_scaling = outputs.scaling
        elif scale and observation.scaled:
            y_scaling = response_scaling(Moments.of(response))
        elif scale and observation.exposed:
            y_scaling = Scaling(observation.center(response, exposure), 1.0)
        of_x = scaling if levels is None else no_scaling
        x_moments = Moments.of(frame.values)
        scalings = of_x(frame, "X", x_moments), y_scaling, None
        warn_of_copies(frame, "X", x_moments)
        if weighed is not None:
            z_moments = Moments.of(weighed.values)
            scalings = (*scalings[:2], scaling(weighed, "Z", z_moments))
            if Z is not None:
                warn_of_copies(weighed, "Z", z_moments)
        if intercept:
            scalings = (*scalings[:2], unscaled_last(cast(Scaling, scalings[2])))
    return TrainingData(
        frame,
        with_intercept(weighed) if intercept and weighed is not None else weighed,
        response,
        str(getattr(y, "name", None) or "y"),
        *scalings,
        z_is_x=Z is None,
        intercept=intercept,
        labels=None if labels is None else tuple(labels),
        exposure=exposure,
        scales_y=observation.scaled,
        groups=None if groups is None else read_groups(groups, frame, "groups"),
        outputs=outputs,
        resolution=resolution_of_y(resolution, response, outputs, observation),
    )


def resolution_of_y(
    given: Any, response: np.ndarray, outputs: Outputs | None, observation: Reader
) -> np.ndarray | float:
    """Resolution of the response, or of each output; 0 if noise has no separate scale."""
    if not observation.scaled:
        if given is not None:
            raise ValueError(
                f"resolution is {given!r}, but this likelihood has no noise in units of y; leave "
                "it out."
            )
        return 0.0
    if outputs is not None:
        return read_resolution(given, [v[~np.isnan(v)] for v in outputs.values.T])
    return float(read_resolution(given, [response])[0])


def _read_response(y: Any, frame: Frame, observation: Reader) -> tuple[np.ndarray, Any]:
    """Response (n,), and its labels or None."""
    if observation.normal:
        return read_response(y, frame), None
    return read_response(y, frame, read=observation.read)


def read_exposure(exposure: Any, frame: Frame, observation: Reader) -> np.ndarray | None:
    """Exposure (n,), ones by default; None where noise is normal."""
    if exposure is None:
        return None if observation.normal else np.ones(len(frame))
    values = read_response(exposure, frame, "exposure")
    if (values <= 0).any():
        raise ValueError("exposure has values that are not above 0. Pass positive numbers.")
    return values


def _picked(scaling: Any, frame: Any, part: Frame) -> Scaling:
    """The scaling of those columns of a frame that a part has."""
    kept = np.isin(frame.columns, part.columns)
    return Scaling(np.asarray(scaling.center)[kept], np.asarray(scaling.scale)[kept])


def with_intercept(frame: Frame) -> Frame:
    """The frame with a last column of ones."""
    return frame.with_column(INTERCEPT, np.ones(len(frame)))


def _refuse_apart(X: Frame, Z: Frame, name: str, other: str) -> None:
    if len(Z) != len(X):
        raise ValueError(
            f"{name} has {len(X)} rows and {other} has {len(Z)}. Pass the same number of both."
        )
    if X.labelled and Z.labelled:
        refuse_misaligned(X.index, Z.index, name, other)


def unscaled_last(scaling: Scaling) -> Scaling:
    """The scaling, with one more column that it leaves alone."""
    return Scaling(np.append(scaling.center, 0.0), np.append(scaling.scale, 1.0))


def read_groups(groups: Any, frame: Frame, name: str, known: tuple[str, ...] = ()) -> Groups:
    """Read a label for each row of the frame; unknown labels come after the known ones."""
    # Labels are compared as text, whole numbers without a decimal point. ValueError for another
    # number of rows, another index, missing labels and, without known groups, a single group.
    if isinstance(groups, str):
        raise ValueError(
            f"{name} is the text {groups!r}. Pass a label for each row, such as frame[{groups!r}]."
        )
    values = read_response(groups, frame, name, lambda column: np.asarray(column, dtype=object))
    for label, row in zip(values, frame.index, strict=True):
        if is_missing(label):
            raise ValueError(
                f"{name} has no label at row {plain(row)!r}. Give each row of an unknown group its "
                "own label, or drop these rows."
            )
    texts = [_text(label) for label in values]
    labels = tuple(dict.fromkeys([*known, *texts]))
    if len(labels) < 2:
        raise ValueError(
            f"{name} has the one label {labels[0]!r}, but needs at least two groups. Leave groups "
            "out if all rows belong together."
        )
    place = {label: code for code, label in enumerate(labels)}
    return Groups(np.array([place[text] for text in texts], dtype=np.int64), labels)


def _text(label: Any) -> str:
    """A label as text: 3, 3.0 and "3" are one label, as a column with gaps may have any of them."""
    whole = isinstance(label, float | np.floating) and float(label).is_integer()
    return str(int(label)) if whole else str(plain(label))
