"""The questions of explanation functions: operators, dims, units and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from bayes_gpx.data.features import INTERCEPT, Frame
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.kernels.summands import CONSTANT
from bayes_gpx.numerics.coalitions import Orders, Players, coalitions
from bayes_gpx.numerics.quadrature import METHODS, rule
from bayes_gpx.processes import operators
from bayes_gpx.validation import names_among, one_of

if TYPE_CHECKING:
    from bayes_gpx.data.scaling import Scaling
    from bayes_gpx.posteriors.base import Asked

STEPS = 50
"""Default number of steps of a quadrature along paths."""

SMOOTH = "of the smooth function, without eps_w"
"""What attrs say of the samples, where a quantity leaves their own deviations out."""


class Axis(NamedTuple):
    """A dim of results beside rows, and its labels."""

    dim: str
    labels: tuple


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a Gaussian process at rows, and how its numbers are called.

    Attributes
    ----------
    operator
        From `bayes_gpx.posteriors.base.Asked` to an Operator; hashable.
    axes
        Dims of the numbers of a row: none for one number, two for a symmetric matrix, row-major.
    factor, offset
        From the model's scale to user units: a factor (c,), and what is added after it.
    mixes
        Sums (c, width) of the operator's numbers that make the components, on the model's scale, as
        indicators add to their categorical column; None if each number is a component.
    by_class
        Offsets (C,) or (C, c) of each of several classes; None for no others.
    center
        Centers (c,) of the components' features, kept with the numbers.
    noisy
        Name of the same quantity with observation noise.
    samples
        Text in attrs about the rows' own noise, if not the usual one.
    total
        Name and operator of the components' sum.
    beside
        Name and operator of the same quantity without the rows' deviations.
    nonlinear
        The quantity of the mean response is not that of f, and needs the chain rule.
    sums
        The operator takes the weights of averages, and sums by itself.
    points
        Number of points for each row, if all of them are enumerated.
    table
        "X" or "Z" if its values stand beside the numbers.
    attrs
        Further attrs of the result.
    """

    name: str
    operator: Callable
    axes: tuple[Axis, ...]
    factor: np.ndarray
    units: str
    offset: float | np.ndarray = 0.0
    by_class: np.ndarray | None = None
    mixes: np.ndarray | None = None
    center: np.ndarray | None = None
    noisy: str | None = None
    samples: str | None = None
    total: tuple[str, Callable] | None = None
    beside: tuple[str, Callable] | None = None
    nonlinear: bool = False
    sums: bool = False
    points: int = 1
    table: str | None = "X"
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> tuple:
        """Labels of the components; none for one number at each row."""
        return self.axes[0].labels if self.axes else ()

    @property
    def jointly(self) -> bool:
        """Whether the components are the values of all classes."""
        return bool(self.axes) and self.axes[0].dim == "class"

    @property
    def is_gradient(self) -> bool:
        """Whether the operator is the gradient at each row."""
        return self.operator in (_gradient, _tied_gradient)

    def offset_of(self, label: int) -> np.ndarray:
        """What is added to each component, (c,), of a class."""
        own = 0.0 if self.by_class is None else self.by_class[label]
        return np.broadcast_to(self.offset + own, len(self.factor))

    @property
    def width(self) -> int:
        """How many numbers the operator gives for each row."""
        return len(self.factor) if self.mixes is None else self.mixes.shape[1]

    def picked(self, features: Sequence[str] | None, covariance: bool) -> np.ndarray:
        """Positions of the requested components."""
        if not self.axes or self.jointly:
            if features is not None or covariance:
                raise ValueError(
                    f"{self.name} has no features; leave `features` and `covariance` out. For the "
                    "covariance between observations draw them with joint=True."
                )
            return np.arange(len(self.factor))
        if features is None:
            return np.arange(len(self.labels))
        return np.array([*map(self.labels.index, names_among("features", features, self.labels))])

    def mixed(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Components, out of the operator's numbers along an axis."""
        if self.mixes is None:
            return values
        return np.moveaxis(np.tensordot(values, self.mixes, (axis, 1)), -1, axis)

    def in_units(
        self, mean: np.ndarray, second: np.ndarray, picked: np.ndarray, label: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Picked components in user units: mean (m, k), and second moments of the kind given."""
        # Variances (m width,) become (m, k), covariances within rows (m, width, width) become (m,
        # k, k), and covariances of all numbers (m width, m width) become (m, k, m, k).
        c, factor = self.width, self.factor[picked]
        offset = self.offset_of(label)[picked]
        mean = self.mixed(mean.reshape((-1, c)), 1)[:, picked] * factor + offset
        if second.ndim == 1:
            return mean, second.reshape((-1, c))[:, picked] * factor**2
        if second.ndim == 3:
            block = self.mixed(self.mixed(second, 1), 2)
            return mean, block[:, picked][:, :, picked] * np.multiply.outer(factor, factor)
        m = len(mean)
        full = self.mixed(self.mixed(second.reshape((m, c, m, c)), 1), 3)
        return mean, full[:, picked][..., picked] * factor[:, None, None] * factor


def value(model: Any, *, smooth: bool = False, across: bool = False) -> Question:
    """f(x), with y where noise is normal; or the smooth part of f; or f of all classes, jointly."""
    observation = model.specification.observation
    if not smooth:
        refuse_weight(model, "predictions")
    if across:
        return replace(
            value(model),
            axes=(Axis("class", model.class_labels(False)),),
            factor=np.ones(model.specification.classes),
            offset=np.zeros(model.specification.classes) + observation.centers,
            by_class=None,
            beside=None,
        )
    deviates = model.specification.family == "GPX" and not smooth
    return Question(
        name="f",
        operator=_smooth_value if smooth else _value,
        axes=(),
        factor=np.array([model.training.f_scaling.scale]),
        offset=model.training.f_scaling.center,
        units=latent_units(model),
        noisy="y" if model.specification.normal and not smooth else None,
        samples=SMOOTH if smooth else None,
        beside=("smooth", _smooth_value) if deviates else None,
        by_class=observation.centers if observation.processes else None,
    )


def latent_units(model: ModelLike) -> str:
    """Units of f, or of the weight that is explained."""
    weight = model.training.weight
    units = model.training.said_of_y(model.specification.observation.units)
    return units if weight in (None, INTERCEPT) else f"{units} per unit of {weight}"


def derivative(model: Any, order: int = 1) -> Question:
    """Derivatives in each feature, or of order 2 in each pair of them."""
    if isinstance(order, bool) or order not in (1, 2):
        raise ValueError(f"order is {order!r}. Pass 1 or 2.")
    if order == 2:
        return _second_derivative(model)
    training = model.training
    return Question(
        name="derivative",
        operator=_tied_gradient if training.tied else _gradient,
        axes=(Axis("feature", training.X.columns),),
        factor=training.f_scaling.scale / training.X_scaling.scale,
        units=f"{latent_units(model)} per unit of the feature",
        samples=SMOOTH,
        nonlinear=True,
    )


def _second_derivative(model: ModelLike) -> Question:
    training = model.training
    per_unit = 1.0 / training.X_scaling.scale
    return Question(
        name="second_derivative",
        operator=_tied_hessian if training.tied else _hessian,
        axes=tuple(Axis(dim, training.X.columns) for dim in ("feature", "feature_bis")),
        factor=training.f_scaling.scale * np.multiply.outer(per_unit, per_unit).ravel(),
        units=f"{latent_units(model)} per unit of the feature and of feature_bis",
        samples=SMOOTH,
        nonlinear=True,
    )


def attribution(model: Any, baseline: str | None, method: str, steps: int | None) -> Question:
    """Integrated gradients from a baseline of that name, and the difference that they sum to."""
    one_of("method", method, ("exact", *METHODS))
    if method == "exact":
        if steps is not None:
            raise ValueError("steps was given, but method 'exact' has none; leave it out.")
    else:
        steps = STEPS if steps is None else steps
        rule(method, steps)
    training = model.training
    return Question(
        name="attribution",
        operator=_Attribution(training.tied, method, steps),
        axes=(Axis("feature", training.X.sources),),
        mixes=_columns(training.X),
        factor=np.full(len(training.X.sources), training.f_scaling.scale),
        units=latent_units(model),
        samples=SMOOTH,
        nonlinear=True,
        total=("difference", _Difference(training.tied)),
        attrs={"baseline": baseline, "method": method}
        | ({} if steps is None else {"steps": steps}),
    )


def shapley_value(model: Any, baseline: str | None, orders: Orders | None = None) -> Question:
    """Shapley values against a baseline of that name, by coalitions of `orders` or by products."""
    asked, X = attribution(model, baseline, "exact", None), model.training.X
    players = tuple(tuple(map(int, np.flatnonzero(X.groups == k))) for k in range(len(X.sources)))
    among = None if orders is None else coalitions(players, orders)
    operator = ShapleyOperator(model.training.tied, players, orders)
    points = 2 ** len(players) if model.specification.expanded else 1
    points = points if among is None else len(among.masks)
    attrs = {"baseline": baseline, "method": "shapley"}
    return replace(asked, operator=operator, attrs=attrs, points=points)


def component(model: Any, names: tuple[str, ...], order: int) -> Question:
    """Parts of f by the kernel's summands of these names; the last may be the constant alone."""
    # The constant has the center of y, and is added where no summand of the kernel is constant. All
    # of several outputs have it where one of them has.
    scaling, outputs = model.training.y_scaling, model.training.outputs
    observation, center = model.specification.observation, np.ravel(scaling.center)[0]
    moved = np.any(center if outputs is None else outputs.scaling.center)
    found = names if CONSTANT in names or not moved else (*names, CONSTANT)
    constant = np.array(found) == CONSTANT
    return Question(
        name="component",
        operator=_Components(order),
        axes=(Axis("component", found),),
        mixes=None if found == names else np.eye(len(found), len(names)),
        factor=np.full(len(found), scaling.scale),
        offset=np.where(constant, center, 0.0),
        by_class=np.outer(observation.centers, constant) if observation.processes else None,
        units=latent_units(model),
        total=("f", _value),
    )


def fanova_shapley_value(model: Any, shares: np.ndarray, order: int) -> Question:
    """Shares (d, c) of each feature in components of up to `order` features, the constant last."""
    return Question(
        name="attribution",
        operator=_Components(order),
        axes=(Axis("feature", model.training.X.columns),),
        mixes=shares,
        factor=np.full(len(shares), model.training.y_scaling.scale),
        units=latent_units(model),
        samples=SMOOTH,
        nonlinear=True,
        total=("difference", _varying),
        attrs={"method": "fanova"},
    )


def weight(model: Any, *, smooth: bool = False) -> Question:
    """Weights of a GPX, with or without `eps_w`."""
    _refuse_gp(model, "weights")
    training = model.training
    return Question(
        name="weight",
        operator=_smooth_weight if smooth else _weight,
        axes=(Axis("feature", training.Z.columns),),
        table="Z",
        factor=training.y_scaling.scale / training.Z_scaling.scale,
        units=f"{latent_units(model)} per unit of the feature",
        samples="weight functions g, without eps_w" if smooth else None,
    )


def coefficient(model: ModelLike, *, smooth: bool = False) -> Question:
    """Raw weights: beta_l = s_y w_l / s_l, and beta_0 = c_y + s_y (w_0 - sum_l c_l w_l / s_l)."""
    # The intercept makes up for the centers of the features.
    centred, training = weight(model, smooth=smooth), model.training
    own = training.p - training.intercept
    columns, scaling = cast("Frame", training.Z).columns, cast("Scaling", training.Z_scaling)
    moved = -np.asarray(scaling.center)[:own] / np.asarray(scaling.scale)[:own]
    mixes = np.eye(own + 1, training.p)
    mixes[-1, :own] = moved
    return replace(
        centred,
        axes=(Axis("feature", (*columns[:own], INTERCEPT)),),
        mixes=mixes,
        factor=np.append(centred.factor[:own], training.y_scaling.scale),
        offset=np.append(np.zeros(own), training.y_scaling.center),
        center=np.zeros(own + 1),
    )


def contribution(model: Any, *, smooth: bool = False) -> Question:
    """Contributions of a GPX, with or without `eps_w`."""
    _refuse_gp(model, "contributions")
    refuse_weight(model, "contributions")
    training, Z = model.training, model.training.Z
    center = dict(zip(Z.columns, training.Z_scaling.center, strict=True))
    return Question(
        name="contribution",
        operator=_smooth_contribution if smooth else _contribution,
        axes=(Axis("feature", Z.sources),),
        table="Z",
        mixes=_columns(Z),
        factor=np.full(len(Z.sources), training.y_scaling.scale),
        units=latent_units(model),
        center=np.array([center.get(source, np.nan) for source in Z.sources]),
        samples=SMOOTH if smooth else None,
    )


def _columns(frame: Frame) -> np.ndarray | None:
    """Which columns make up each of the user's, (c, width); None where they are the same."""
    sources = np.arange(len(frame.sources))[:, None]
    return (frame.groups == sources).astype(float) if frame.levels else None


def _refuse_gp(model: ModelLike, verb: str) -> None:
    if model.training.Z is None:
        raise ValueError(
            f"{verb} are defined for GPX; a GP has no weights. Pass a bx.GPX instead of a bx.GP."
        )


def refuse_weight(model: ModelLike, what: str) -> None:
    """Raise where the weight of a column is asked for, of a question about y."""
    if (name := model.training.weight) is not None:
        raise ValueError(
            f"{what} are about y, but the model is of the weight of {name!r}. Pass the whole "
            "model, or use bx.weights(smooth=True), bx.derivatives or bx.attributions."
        )


def _value(asked: Asked) -> operators.Value:
    return operators.evaluate(asked.points, asked["Z"], sample=asked.sample)


def _smooth_value(asked: Asked) -> operators.Value:
    return operators.evaluate(asked.points, asked["Z"], sample=asked.sample, smooth=True)


def _gradient(asked: Asked) -> operators.Gradient:
    return operators.gradient(asked.points, asked["Z"])


def _tied_gradient(asked: Asked) -> operators.Gradient:
    return operators.gradient(asked.points, asked.Z_along, tied=True)


def _hessian(asked: Asked) -> operators.Hessian:
    return operators.hessian(asked.points, asked["Z"])


def _tied_hessian(asked: Asked) -> operators.Hessian:
    return operators.hessian(asked.points, asked.Z_along, tied=True)


def _weight(asked: Asked) -> operators.Weight:
    return operators.weight(asked.points, sample=asked.sample)


def _smooth_weight(asked: Asked) -> operators.Weight:
    return operators.weight(asked.points, sample=asked.sample, smooth=True)


def _contribution(asked: Asked) -> operators.Contribution:
    return operators.contribution(asked.points, asked["Z"], sample=asked.sample)


def _smooth_contribution(asked: Asked) -> operators.Contribution:
    return operators.contribution(asked.points, asked["Z"], sample=asked.sample, smooth=True)


def _varying(asked: Asked) -> operators.Varying:
    return operators.varying(asked.points)


@dataclass(frozen=True)
class _Attribution:
    tied: bool
    method: str
    steps: int | None

    def __call__(self, asked: Asked) -> operators.Operator:
        Z = asked.Z_along if self.tied else asked["Z"]
        return operators.integrated_gradient(
            asked.points,
            asked["baseline"],
            Z,
            method=self.method,
            steps=self.steps,
            tied=self.tied,
        )


@dataclass(frozen=True)
class ShapleyOperator:
    """Shapley values of players, by the coalitions of some orders or by products over features."""

    tied: bool
    players: Players
    orders: Orders | None

    def __call__(self, asked: Any) -> operators.ShapleyValue:
        """The operator at points."""
        Z = asked.Z_along if self.tied else asked["Z"]
        among = None if self.orders is None else coalitions(self.players, self.orders)
        return operators.shapley_value(
            asked.points,
            asked["baseline"],
            Z,
            players=self.players,
            among=among,
            tied=self.tied,
        )


@dataclass(frozen=True)
class _Components:
    order: int

    def __call__(self, asked: Asked) -> operators.Components:
        return operators.components(asked.points, self.order)


@dataclass(frozen=True)
class _Difference:
    tied: bool

    def __call__(self, asked: Asked) -> operators.Difference:
        Z = asked.Z_along if self.tied else asked["Z"]
        return operators.difference(asked.points, asked["baseline"], Z, tied=self.tied)


def responds(model: ModelLike, on: str) -> bool:
    """Whether the mean response is explained, and is not f itself."""
    one_of("on", on, ("response", "latent"))
    latent = model.specification.response.mean_name is None or model.training.weight is not None
    return on == "response" and not latent


def is_nonlinear(model: ModelLike, question: Question, on: str) -> bool:
    """Whether the mean response is asked for, and the answer is not linear in f."""
    return responds(model, on) and question.nonlinear
