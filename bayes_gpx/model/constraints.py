"""Constraints on the function in addition to the data: the argument `constraints` of models.

Constraints concern slopes, curvatures, interactions, weights and values, in user units of y, or of
f for classes and counts. `Slope("age", mean=2, sd=1)` is a slope observed with noise, and
``Slope("age", low=0)`` a slope with a bound, each at some points. Points are chosen before the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayes_gpx.aliases import Table
from bayes_gpx.posteriors.constraints import Constraints, Statement
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.scaling import Scaling
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.model.specification import Specification

__all__ = ["Curvature", "Decreasing", "Increasing", "Interaction", "Slope", "Value", "Weight"]

STRENGTH = 0.01
"""Sharpness of bounds: the sd of the noise around the bounded quantity, in units of sd(y) per sd of
the features; for classes and counts, in units of f per sd of the features."""


@dataclass(frozen=True)
class _Sign:
    """A slope that has the same sign at some points; abstract."""

    feature: str
    _: KW_ONLY
    at: int | Table = 5
    strength: float = STRENGTH


@dataclass(frozen=True)
class Increasing(_Sign):
    """Constrain the function to not fall along a feature.

    Parameters
    ----------
    feature : str
        A numeric column of X.
    at : int or table
        Points of the constraint. A table contains points in user units, with the columns of X and,
        in a `GPX` with its own Z, of Z. A number of points is spread evenly over the values of the
        feature; the other columns are copied from the row with the closest value.
    strength : float
        The constraint at a point has the probability ``normal_cdf(slope / s)``, where s is this
        many ``sd(y) / sd(feature)``, or ``1 / sd(feature)`` for classes and counts. Small values
        make it sharp.
    """

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.slopes(self, (self.feature,), 0.0, np.inf, self.strength)


@dataclass(frozen=True)
class Decreasing(_Sign):
    """Constrain the function to not rise along a feature; parameters as in `Increasing`."""

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.slopes(self, (self.feature,), -np.inf, 0.0, self.strength)


@dataclass(frozen=True)
class _Quantity:
    """A quantity of one feature at some points, observed with noise, or its bounds; abstract."""

    feature: str
    _: KW_ONLY
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    at: int | Table = 5


@dataclass(frozen=True)
class Slope(_Quantity):
    """Constrain a derivative by a noisy observation, or by bounds.

    Slopes are in units of y per unit of the feature.

    Parameters
    ----------
    feature : str
    mean, sd : float, optional
        The slope at each point is observed as `mean`, with independent noise of this sd.
    low, high : float, optional
        Use these instead for bounds: the slope lies between them, or on one side of one.
    at : int or table
        As in `Increasing`.
    """

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.slopes(self, (self.feature,), *_known(self))


@dataclass(frozen=True)
class Curvature(_Quantity):
    """A second derivative, in units of y per squared unit of the feature; otherwise as `Slope`."""

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.slopes(self, (self.feature, self.feature), *_known(self))


@dataclass(frozen=True)
class Interaction:
    """Constrain the mixed second derivative of two features to be near 0.

    Parameters
    ----------
    a, b : str
    sd : float
        Standard deviation from 0, in units of y per unit of a per unit of b.
    at : int or table
        As in `Increasing`, along `a`.
    """

    a: str
    b: str
    _: KW_ONLY
    sd: float
    at: int | Table = 5

    def _stated(self, reader: _Reader) -> list[tuple]:
        if self.a == self.b:
            raise ValueError(
                f"constraints: Interaction of {self.a!r} with itself. Pass two features, or "
                "bx.constraints.Curvature for one."
            )
        return reader.slopes(self, (self.a, self.b), 0.0, 0.0, _positive("Interaction", self.sd))


@dataclass(frozen=True)
class Weight(_Quantity):
    """Constrain a weight function of a `GPX`, in units of y per unit of the feature.

    Parameters
    ----------
    feature : str
        A column of Z, or "intercept".
    mean, sd, low, high : float, optional
        As in `Slope`.
    at : int or table
        As in `Increasing`; a number of points is spread along the feature if it is in X, and
        otherwise along X's first column.
    """

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.weights(self, *_known(self))


@dataclass(frozen=True)
class Value:
    """Constrain values of the smooth function by noisy observations, in units of y.

    Parameters
    ----------
    rows : table (m, d)
        Points in user units, as `at` in `Increasing`.
    mean, sd : float or array (m,)
    """

    rows: Table
    mean: Any
    sd: Any

    def _stated(self, reader: _Reader) -> list[tuple]:
        return reader.values(self)


Constraint = Increasing | Decreasing | Slope | Curvature | Interaction | Weight | Value


def _known(constraint: _Quantity) -> tuple[float, float, float | None]:
    """Bounds of a constraint, equal for a known value, and its sd; None for the sd of bounds."""
    kind = type(constraint).__name__
    mean, sd = constraint.mean, constraint.sd
    bounds = constraint.low, constraint.high
    if mean is not None and sd is not None and bounds == (None, None):
        known = _finite(kind, mean)
        return known, known, _positive(kind, sd)
    if (mean, sd) != (None, None) or bounds == (None, None):
        raise ValueError(
            f"constraints: {kind} of {constraint.feature!r} has mean={constraint.mean}, "
            f"sd={constraint.sd}, low={constraint.low} and high={constraint.high}. Pass both mean "
            "and sd, or one or both of low and high."
        )
    low = -np.inf if constraint.low is None else _finite(kind, constraint.low)
    high = np.inf if constraint.high is None else _finite(kind, constraint.high)
    if not low < high:
        raise ValueError(
            f"constraints: {kind} of {constraint.feature!r} has low={low} and high={high}, but low "
            "must be below high. Give a known slope by mean and sd."
        )
    return low, high, None


def _finite(kind: str, value: float) -> float:
    if not isinstance(value, Real) or not np.isfinite(value):
        raise ValueError(f"constraints: {kind} has the value {value!r}. Pass finite numbers.")
    return float(value)


def _positive(kind: str, value: float) -> float:
    if not isinstance(value, Real) or not (np.isfinite(value) and value > 0):
        raise ValueError(
            f"constraints: {kind} has sd or strength {value!r}. Pass a positive number."
        )
    return float(value)


def read_constraints(
    constraints: Sequence[Constraint], training: TrainingData, specification: Specification
) -> Constraints | None:
    """Constraints on the model's scale, or None; raises ValueError where they are impossible."""
    # Their points do not depend on hyperparameters. It raises for models that cannot use
    # constraints, unknown features and impossible numbers.
    alone = isinstance(constraints, Constraint | str)
    constraints = [cast(Any, constraints)] if alone else list(constraints)
    if not constraints:
        return None
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise ValueError(
                f"constraints contains {constraint!r}. Pass objects of bx.constraints, such as "
                "bx.constraints.Increasing('dose')."
            )
    _refuse_model(training, specification)
    _refuse_opposites(constraints)
    reader, names, found = _Reader(training), [], []
    for constraint in constraints:
        names.append(_name(constraint))
        repeat = names.count(names[-1])
        own = names[-1] + (f" ({repeat})" if repeat > 1 else "")
        found += [Statement(own, *stated) for stated in constraint._stated(reader)]
    return Constraints(tuple(found))


def _refuse_opposites(constraints: Sequence[Constraint]) -> None:
    """Raise if the function shall neither rise nor fall, which makes it constant, not uncertain."""
    everywhere = [
        b for b in constraints if isinstance(b, _Sign) and isinstance(b.at, int | np.integer)
    ]
    for feature in {constraint.feature for constraint in everywhere}:
        if (
            len({type(constraint) for constraint in everywhere if constraint.feature == feature})
            > 1
        ):
            raise ValueError(
                f"constraints: both Increasing and Decreasing are about {feature!r} over its whole "
                "range, so f could not change with it. Pass one of them, or rows as at=, or leave "
                "the feature out of X."
            )


def _refuse_model(training: TrainingData, specification: Specification) -> None:
    """Raise for models that do not support constraints."""
    if training.streamed:
        raise ValueError("constraints were given with out-of-core data. Pass X as one table.")
    if training.outputs is not None:
        raise ValueError(
            "constraints were given together with a table of outputs. Pass one of them."
        )
    observation, approximation = specification.observation, specification.approximation
    if observation.classes is not None:
        raise ValueError(
            f"constraints were given with likelihood={specification.likelihood!r}. Use a "
            "likelihood of one latent value for each row, such as 'normal', 'bernoulli', 'poisson' "
            "or 'negative_binomial'."
        )
    if approximation is None and not observation.concave:
        raise ValueError(
            f"constraints were given with likelihood={specification.likelihood!r}, whose log "
            "density is not concave in the latent value, and without an approximation. Pass such "
            "as approximation=bx.Inducing(50), or another likelihood."
        )
    if specification.hierarchical and (approximation is not None or specification.family == "GPX"):
        raise ValueError(
            "constraints were given with representation='hierarchy' in a GPX or with an "
            "approximation. Pass representation='collapsed'. For classes and counts, fit('nuts', "
            "latent='sample') samples latent values, too."
        )


def _name(constraint: Constraint) -> str:
    """What a constraint is called: its kind and its features."""
    about = [
        getattr(constraint, part) for part in ("feature", "a", "b") if hasattr(constraint, part)
    ]
    return " ".join([type(constraint).__name__, *map(str, about)])


class _Reader:
    """From constraints in user units to the fields of a `Statement` after its name."""

    def __init__(self, training: TrainingData) -> None:
        self.training = training
        self.columns, self.scales = training.X.columns, np.asarray(training.X_scaling.scale)
        self.of_y = cast(float, training.y_scaling.scale)
        # Latent values of labels and counts vary by about 1.
        self.sd_y = training.y.std() / self.of_y if training.scales_y else 1.0
        scaled = training.scaled()
        self.x, self.z = scaled["X"], scaled.get("Z")

    def slopes(
        self, constraint: Any, features: Sequence[str], low: float, high: float, sd: float | None
    ) -> list[tuple]:
        """First or second derivatives; an sd that is None, or a strength, is relative."""
        places = [self._place(feature) for feature in features]
        unit = float(self.of_y / np.prod(self.scales[places]))
        typical = float(self.sd_y / np.prod(self.x[:, places].std(axis=0)))
        noise = self._noise(type(constraint).__name__, low, high, sd, unit, typical)
        component = places[0] if len(places) == 1 else places[0] * len(self.columns) + places[1]
        operator = "gradient" if len(places) == 1 else "hessian"
        x, z = self._points(constraint.at, places[0])
        bounds = _floats(low / unit, high / unit, noise)
        rest = self.training.tied, float(unit), 0.0
        return [(operator, *point, component, *bounds, *rest) for point in _rows(x, z)]

    def weights(self, constraint: Weight, low: float, high: float, sd: float | None) -> list[tuple]:
        """Smooth weights: values of z' g(x) where z is 1 for one feature and 0 for all others."""
        training = self.training
        if training.Z is None:
            raise ValueError(
                "constraints: Weight is about a GPX; a GP has no weights. Use bx.GPX, or Slope."
            )
        one_of("constraints", constraint.feature, training.Z.columns)
        own = training.Z.columns.index(constraint.feature)
        unit = self.of_y / np.asarray(cast("Scaling", training.Z_scaling).scale)[own]
        typical = self.sd_y / (cast(np.ndarray, self.z)[:, own].std() or 1.0)
        noise = self._noise("Weight", low, high, sd, unit, typical)
        along = self.columns.index(constraint.feature) if constraint.feature in self.columns else 0
        x, _ = self._points(constraint.at, along)
        bounds = _floats(low / unit, high / unit, noise)
        only = np.eye(training.p)[[own] * len(x)]
        rest = False, float(unit), 0.0
        return [("value", *point, 0, *bounds, *rest) for point in _rows(x, only)]

    def values(self, constraint: Value) -> list[tuple]:
        """Values of the smooth function."""
        x, z = self._read(constraint.rows)
        try:
            given = (np.asarray(v, float) for v in (constraint.mean, constraint.sd))
            mean, sd = (np.broadcast_to(v, len(x)) for v in given)
        except ValueError as wrong:
            raise ValueError(
                f"constraints: Value has {len(x)} rows, mean {np.shape(constraint.mean)} and sd "
                f"{np.shape(constraint.sd)}. Pass numbers, or one for each row."
            ) from wrong
        center, found = cast(float, self.training.y_scaling.center), list[tuple]()
        for point, own, spread in zip(_rows(x, z), mean, sd, strict=True):
            value = (_finite("Value", own) - center) / self.of_y
            noise = _positive("Value", spread) / self.of_y
            known = _floats(value, value, noise)
            found.append(("value", *point, 0, *known, False, *_floats(self.of_y, center)))
        return found

    def _noise(
        self, kind: str, low: float, high: float, sd: float | None, unit: float, typical: float
    ) -> float:
        """Sd of the noise on the model's scale, given in user units or, for bounds, relative."""
        if low == high:
            return cast(float, sd) / unit  # a known value comes with the sd of its noise
        return _positive(kind, STRENGTH if sd is None else sd) * typical

    def _place(self, feature: str) -> int:
        """Position of a numeric column of X."""
        X = self.training.X
        one_of("constraints", feature, X.sources)
        if feature in X.levels:
            raise ValueError(
                f"constraints: {feature!r} is categorical and has no slopes. Choose a "
                "numeric column."
            )
        return self.columns.index(feature)

    def _points(self, at: int | Table, along: int) -> tuple[np.ndarray, np.ndarray | None]:
        """X (q, d), and Z (q, p) or None, on the model's scale."""
        if not isinstance(at, int | np.integer):
            return self._read(at)
        count("at", at)
        own = self.x[:, along]
        values = np.linspace(own.min(), own.max(), at) if at > 1 else np.array([np.median(own)])
        rows = np.abs(own[None] - values[:, None]).argmin(axis=1)
        x, z = self.x[rows].copy(), None if self.z is None else self.z[rows].copy()
        x[:, along] = values
        if self.training.tied and z is not None:
            z[:, along] = values
        return x, z

    def _read(self, rows: Table) -> tuple[np.ndarray, np.ndarray | None]:
        """The same of a table in user units."""
        training = self.training
        apart = training.Z is not None and not training.z_is_x
        try:
            X, Z = training.read_new(rows, rows if apart else None)
        except ValueError as wrong:
            told = str(wrong).replace("X_new", "at").replace("Z_new", "at")
            raise ValueError(f"constraints, rows of a constraint: {told}") from None
        z = None if Z is None else cast("Scaling", training.Z_scaling).apply(Z.values)
        return training.X_scaling.apply(X.values), z


def _floats(*values: float) -> tuple[float, ...]:
    """Python's own floats, which look the same before they are saved and after."""
    return tuple(map(float, values))


def _rows(x: np.ndarray, z: np.ndarray | None) -> list[tuple[tuple, tuple | None]]:
    """Pairs of tuples, of floats that a file holds exactly; None for z where there is none."""
    rows = [None] * len(x) if z is None else [tuple(row) for row in z.tolist()]
    return list(zip(map(tuple, x.tolist()), rows, strict=True))
