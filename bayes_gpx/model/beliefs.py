"""What a user knows of the function beside the data: the argument `beliefs` of `GP` and `GPX`.

Slopes, curvatures, interactions, weights and values, in user units: what is said of y below is of f
for labels and counts. `Slope("age", mean=2, sd=1)` is a slope that was observed with noise,
``Slope("age", low=0)`` one of which a bound is known, at some points each. Points are chosen before
anything is inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.aliases import Table
from bayes_gpx.posteriors.beliefs import Beliefs, Statement
from bayes_gpx.processes.approximations import Inducing
from bayes_gpx.validation import count, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.training import TrainingData
    from bayes_gpx.model.specification import Specification

__all__ = ["Curvature", "Decreasing", "Increasing", "Interaction", "Slope", "Value", "Weight"]

STRENGTH = 0.01
"""How sharp bounds are: the sd of the noise around what they bound, in units of sd(y) per sd of the
features; of labels and counts, in units of f per sd of the features."""


@dataclass(frozen=True)
class _Sign:
    """A slope that has the same sign at some points; abstract."""

    feature: str
    _: KW_ONLY
    at: int | Table = 5
    strength: float = STRENGTH


@dataclass(frozen=True)
class Increasing(_Sign):
    """The function does not fall along a feature.

    Parameters
    ----------
    feature : str
        A numeric column of X.
    at : int or table
        Where this is believed: points in user units, with the columns of X and, in a `GPX` with a Z
        of its own, those of Z; or how many, at evenly spaced values of the feature, with the other
        columns of the row that is nearest in it.
    strength : float
        The belief at a point is a probability, ``normal_cdf(slope / s)``, where s is this many
        ``sd(y) / sd(feature)``, or of labels and counts ``1 / sd(feature)``: small values make it
        sharp.
    """

    def _stated(self, reader):
        return reader.slopes(self, (self.feature,), 0.0, np.inf, self.strength)


@dataclass(frozen=True)
class Decreasing(_Sign):
    """The function does not rise along a feature; parameters are those of `Increasing`."""

    def _stated(self, reader):
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
    """A derivative, in units of y per unit of the feature: observed with noise, or its bounds.

    Parameters
    ----------
    feature : str
    mean, sd : float, optional
        The slope at each point is observed as `mean`, with independent noise of this sd.
    low, high : float, optional
        Instead of these: the slope lies between them, or on one side of one.
    at : int or table
        As in `Increasing`.
    """

    def _stated(self, reader):
        return reader.slopes(self, (self.feature,), *_known(self))


@dataclass(frozen=True)
class Curvature(_Quantity):
    """A second derivative, in units of y per squared unit of the feature; otherwise as `Slope`."""

    def _stated(self, reader):
        return reader.slopes(self, (self.feature, self.feature), *_known(self))


@dataclass(frozen=True)
class Interaction:
    """A mixed second derivative of two features, which is near 0.

    Parameters
    ----------
    a, b : str
    sd : float
        How near, in units of y per unit of a per unit of b.
    at : int or table
        As in `Increasing`, along `a`.
    """

    a: str
    b: str
    _: KW_ONLY
    sd: float
    at: int | Table = 5

    def _stated(self, reader):
        if self.a == self.b:
            raise ValueError(
                f"beliefs: Interaction of {self.a!r} with itself; expected two features. "
                "bx.beliefs.Curvature is about one."
            )
        return reader.slopes(self, (self.a, self.b), 0.0, 0.0, _positive("Interaction", self.sd))


@dataclass(frozen=True)
class Weight(_Quantity):
    """The smooth part of a feature's weight in a `GPX`, in units of y per unit of the feature.

    Parameters
    ----------
    feature : str
        A column of Z, or "intercept".
    mean, sd, low, high : float, optional
        As in `Slope`.
    at : int or table
        As in `Increasing`; a number of points is spread along the feature, where it is one of X's,
        and otherwise along X's first column.
    """

    def _stated(self, reader):
        return reader.weights(self, *_known(self))


@dataclass(frozen=True)
class Value:
    """Values of the smooth function, in units of y, observed with noise.

    Parameters
    ----------
    rows : table (m, d)
        Points in user units, as `at` in `Increasing`.
    mean, sd : float or array (m,)
    """

    rows: Table
    mean: Any
    sd: Any

    def _stated(self, reader):
        return reader.values(self)


Belief = Increasing | Decreasing | Slope | Curvature | Interaction | Weight | Value


def _known(belief):
    """Bounds, equal where a value is known, and sd of a belief; None for that of bounds."""
    kind = type(belief).__name__
    values, bounds = (belief.mean, belief.sd), (belief.low, belief.high)
    by_value = None not in values and bounds == (None, None)
    if not by_value and (values != (None, None) or bounds == (None, None)):
        raise ValueError(
            f"beliefs: {kind} of {belief.feature!r} has mean={belief.mean}, sd={belief.sd}, "
            f"low={belief.low} and high={belief.high}; expected both mean and sd, or one or both "
            "of low and high."
        )
    if by_value:
        return _finite(kind, belief.mean), belief.mean, _positive(kind, belief.sd)
    low = -np.inf if belief.low is None else _finite(kind, belief.low)
    high = np.inf if belief.high is None else _finite(kind, belief.high)
    if not low < high:
        raise ValueError(
            f"beliefs: {kind} of {belief.feature!r} has low={low} and high={high}; expected a low "
            "below high. A slope that is known is given by mean and sd."
        )
    return low, high, None


def _finite(kind, value):
    if not np.isfinite(value):
        raise ValueError(f"beliefs: {kind} has the value {value}; expected finite numbers.")
    return float(value)


def _positive(kind, value):
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"beliefs: {kind} has sd or strength {value}; expected a positive number.")
    return float(value)


def read_beliefs(
    beliefs: Sequence[Belief], training: TrainingData, specification: Specification
) -> Beliefs | None:
    """Beliefs on the model's scale, at points that no hyperparameter changes; None without any.

    Raises
    ------
    ValueError
        For models that cannot use beliefs, unknown features and impossible numbers.
    """
    beliefs = [beliefs] if isinstance(beliefs, Belief) else list(beliefs)
    if not beliefs:
        return None
    for belief in beliefs:
        if not isinstance(belief, Belief):
            raise ValueError(
                f"beliefs holds {belief!r}; expected such as bx.beliefs.Increasing('dose')."
            )
    _refuse_model(training, specification)
    _refuse_opposites(beliefs)
    reader, names, found = _Reader(training), [], []
    for belief in beliefs:
        names.append(_name(belief))
        repeat = names.count(names[-1])
        own = names[-1] + (f" ({repeat})" if repeat > 1 else "")
        found += [Statement(own, *stated) for stated in belief._stated(reader)]
    return Beliefs(tuple(found))


def _refuse_opposites(beliefs):
    """Raise if the function shall neither rise nor fall, which makes it constant, not uncertain."""
    everywhere = [b for b in beliefs if isinstance(b, _Sign) and isinstance(b.at, int)]
    for feature in {belief.feature for belief in everywhere}:
        if len({type(belief) for belief in everywhere if belief.feature == feature}) > 1:
            raise ValueError(
                f"beliefs: both Increasing and Decreasing are about {feature!r} over its whole "
                "range, so that f could not change with it; expected one of them, or rows as at=. "
                "Or leave the feature out of X."
            )


def _refuse_model(training, specification):
    """Raise for models whose posterior does not know beliefs."""
    if training.streamed:
        raise ValueError("beliefs with rows that are read in parts; expected X as one table.")
    if training.groups is not None:
        raise ValueError("beliefs together with groups; expected one of them.")
    if training.outputs is not None:
        raise ValueError("beliefs together with a table of outputs; expected one of them.")
    observation, approximation = specification.observation, specification.approximation
    if observation.classes is not None or not observation.concave:
        raise ValueError(
            f"beliefs with likelihood={specification.likelihood!r}; expected a likelihood of one "
            "latent value for each row whose log density is concave in it, such as 'normal', "
            "'bernoulli', 'poisson' or 'negative_binomial'."
        )
    if isinstance(approximation, Inducing):
        raise ValueError(
            f"beliefs with approximation={approximation!r}; expected none, or with normal noise "
            "bx.HSGP or bx.RandomFeatures."
        )
    if approximation is not None and not specification.normal:
        raise ValueError(
            f"beliefs with approximation={approximation!r} and likelihood="
            f"{specification.likelihood!r}; expected approximation=None, or likelihood='normal'."
        )
    if specification.hierarchical and (approximation is not None or specification.family == "GPX"):
        raise ValueError(
            "beliefs with representation='hierarchy' in a GPX or with an approximation; expected "
            "representation='collapsed'. For labels and counts, fit('nuts', latent='sample') "
            "samples latent values, too."
        )


def _name(belief):
    """What a belief is called: its kind and its features."""
    about = [getattr(belief, part) for part in ("feature", "a", "b") if hasattr(belief, part)]
    return " ".join([type(belief).__name__, *map(str, about)])


class _Reader:
    """From beliefs in user units to the fields of a `Statement` after its name."""

    def __init__(self, training):
        self.training = training
        self.columns, self.scales = training.X.columns, np.asarray(training.X_scaling.scale)
        self.of_y = training.y_scaling.scale
        # Latent values of labels and counts vary by about 1.
        self.sd_y = training.y.std() / self.of_y if training.scales_y else 1.0
        scaled = training.scaled()
        self.x, self.z = scaled["X"], scaled.get("Z")

    def slopes(self, belief, features, low, high, sd):
        """First or second derivatives; an sd that is None, or a strength, is relative."""
        places = [self._place(feature) for feature in features]
        unit = self.of_y / np.prod(self.scales[places])
        typical = self.sd_y / np.prod(self.x[:, places].std(axis=0))
        noise = self._noise(type(belief).__name__, low, high, sd, unit, typical)
        component = places[0] if len(places) == 1 else places[0] * len(self.columns) + places[1]
        operator = "gradient" if len(places) == 1 else "hessian"
        x, z = self._points(belief.at, places[0])
        bounds = _floats(low / unit, high / unit, noise)
        rest = self.training.tied, float(unit), 0.0
        return [(operator, *point, component, *bounds, *rest) for point in _rows(x, z)]

    def weights(self, belief, low, high, sd):
        """Smooth weights: values of z' g(x) where z is 1 for one feature and 0 for all others."""
        training = self.training
        if training.Z is None:
            raise ValueError(
                "beliefs: Weight is about a GPX; a GP has no weights. Use bx.GPX, or Slope."
            )
        one_of("beliefs", belief.feature, training.Z.columns)
        own = training.Z.columns.index(belief.feature)
        unit = self.of_y / training.Z_scaling.scale[own]
        typical = self.sd_y / (self.z[:, own].std() or 1.0)
        noise = self._noise("Weight", low, high, sd, unit, typical)
        along = self.columns.index(belief.feature) if belief.feature in self.columns else 0
        x, _ = self._points(belief.at, along)
        bounds = _floats(low / unit, high / unit, noise)
        only = np.eye(training.p)[[own] * len(x)]
        rest = False, float(unit), 0.0
        return [("value", *point, 0, *bounds, *rest) for point in _rows(x, only)]

    def values(self, belief):
        """Values of the smooth function."""
        x, z = self._read(belief.rows)
        try:
            given = (np.asarray(v, float) for v in (belief.mean, belief.sd))
            mean, sd = (np.broadcast_to(v, len(x)) for v in given)
        except ValueError as wrong:
            raise ValueError(
                f"beliefs: Value has {len(x)} rows, mean {np.shape(belief.mean)} and sd "
                f"{np.shape(belief.sd)}; expected numbers, or one for each row."
            ) from wrong
        center, found = self.training.y_scaling.center, []
        for point, own, spread in zip(_rows(x, z), mean, sd, strict=True):
            value = (_finite("Value", own) - center) / self.of_y
            noise = _positive("Value", spread) / self.of_y
            known = _floats(value, value, noise)
            found.append(("value", *point, 0, *known, False, *_floats(self.of_y, center)))
        return found

    def _noise(self, kind, low, high, sd, unit, typical):
        """Sd of the noise on the model's scale, given in user units or, for bounds, relative."""
        if low == high:
            return sd / unit
        return _positive(kind, STRENGTH if sd is None else sd) * typical

    def _place(self, feature):
        """Position of a numeric column of X."""
        X = self.training.X
        one_of("beliefs", feature, X.sources)
        if feature in X.levels:
            raise ValueError(
                f"beliefs: {feature!r} is categorical and has no slopes; expected a numeric column."
            )
        return self.columns.index(feature)

    def _points(self, at, along):
        """X (q, d), and Z (q, p) or None, on the model's scale."""
        if not isinstance(at, int | np.integer):
            return self._read(at)
        count("at", at)
        own = self.x[:, along]
        values = np.linspace(own.min(), own.max(), at) if at > 1 else np.array([np.median(own)])
        rows = np.abs(own[None] - values[:, None]).argmin(axis=1)
        x, z = self.x[rows].copy(), None if self.z is None else self.z[rows].copy()
        x[:, along] = values
        if self.training.tied:
            z[:, along] = values
        return x, z

    def _read(self, rows):
        """The same of a table in user units."""
        training = self.training
        apart = training.Z is not None and not training.z_is_x
        X, Z = training.read_new(rows, rows if apart else None)
        z = None if Z is None else training.Z_scaling.apply(Z.values)
        return training.X_scaling.apply(X.values), z


def _floats(*values):
    """Python's own floats, which look the same before they are saved and after."""
    return tuple(map(float, values))


def _rows(x, z):
    """Pairs of tuples, of floats that a file holds exactly; None for z where there is none."""
    z = [None] * len(x) if z is None else [tuple(row) for row in z.tolist()]
    return list(zip(map(tuple, x.tolist()), z, strict=True))
