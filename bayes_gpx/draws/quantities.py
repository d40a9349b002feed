"""The quantities of explanation functions: operators, units and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayes_gpx.data.training import INTERCEPT
from bayes_gpx.kernels.summands import CONSTANT
from bayes_gpx.numerics.coalitions import Orders, Players, coalitions
from bayes_gpx.numerics.quadrature import METHODS, rule
from bayes_gpx.processes import operators
from bayes_gpx.validation import one_of

STEPS = 50
"""Default number of steps of a quadrature along paths."""

SMOOTH = "of the smooth function, without eps_w"
"""What attrs say of the samples, where a quantity leaves their own deviations out."""


def value(model: Any, *, smooth: bool = False, across: bool = False) -> Quantity:
    """f(x), with y where noise is normal; or the smooth part of f; or f of all classes, jointly."""
    if across:
        return replace(
            value(model),
            components=model.training.labels,
            factor=np.ones(model.specification.classes),
            across=True,
            beside=None,
        )
    deviates = model.specification.family == "GPX" and not smooth
    return Quantity(
        name="f",
        operator=_smooth_value if smooth else _value,
        components=None,
        factor=np.array([model.training.y_scaling.scale]),
        offset=model.training.y_scaling.center,
        units=latent_units(model),
        noisy="y" if model.specification.normal and not smooth else None,
        samples=SMOOTH if smooth else None,
        beside=("smooth", _smooth_value) if deviates else None,
    )


def latent_units(model):
    """Units of f."""
    return model.specification.observation.units.format(y=model.training.y_name)


def derivative(model: Any, order: int = 1) -> Quantity:
    """Derivatives in each feature, or of order 2 in each pair of them."""
    if isinstance(order, bool) or order not in (1, 2):
        raise ValueError(f"order is {order!r}. Pass 1 or 2.")
    if order == 2:
        return _second_derivative(model)
    training = model.training
    return Quantity(
        name="derivative",
        operator=_tied_gradient if training.tied else _gradient,
        components=training.X.columns,
        factor=training.y_scaling.scale / training.X_scaling.scale,
        units=f"{latent_units(model)} per unit of the feature",
        samples=SMOOTH,
        bends=True,
    )


def _second_derivative(model):
    training = model.training
    per_unit = 1.0 / training.X_scaling.scale
    return Quantity(
        name="second_derivative",
        operator=_tied_hessian if training.tied else _hessian,
        components=training.X.columns,
        factor=training.y_scaling.scale * np.multiply.outer(per_unit, per_unit).ravel(),
        units=f"{latent_units(model)} per unit of the feature per unit of feature_bis",
        samples=SMOOTH,
        square=True,
        bends=True,
    )


def attribution(model: Any, baseline: str | None, method: str, steps: int | None) -> Quantity:
    """Integrated gradients from a baseline of that name, and the difference that they sum to."""
    one_of("method", method, ("exact", *METHODS))
    if method == "exact":
        if steps is not None:
            raise ValueError("steps was given, but method 'exact' has none; leave it out.")
    else:
        steps = STEPS if steps is None else steps
        rule(method, steps)
    training = model.training
    return Quantity(
        name="attribution",
        operator=_Attribution(training.tied, method, steps),
        components=training.X.sources,
        mixes=_columns(training.X),
        factor=np.full(len(training.X.sources), training.y_scaling.scale),
        units=latent_units(model),
        samples=SMOOTH,
        bends=True,
        total=("difference", _Difference(training.tied)),
        attrs={"baseline": baseline, "method": method}
        | ({} if steps is None else {"steps": steps}),
    )


def shapley_value(model: Any, baseline: str | None, orders: Orders | None = None) -> Quantity:
    """Shapley values against a baseline of that name, and the difference that they sum to.

    By the coalitions of `orders`, or by products over features.
    """
    asked, X = attribution(model, baseline, "exact", None), model.training.X
    players = tuple(tuple(map(int, np.flatnonzero(X.groups == k))) for k in range(len(X.sources)))
    among = None if orders is None else coalitions(players, orders)
    operator = ShapleyOperator(model.training.tied, players, orders)
    points = 2 ** len(players) if model.specification.expanded else 1
    points = points if among is None else len(among.masks)
    attrs = {"baseline": baseline, "method": "shapley"}
    return replace(asked, operator=operator, attrs=attrs, points=points)


def component(model: Any, names: tuple[str, ...], order: int) -> Quantity:
    """Parts of f by the kernel's summands of these names; the last one may be the constant alone.

    The constant has the center of y, and is added where no summand of the kernel is constant.
    """
    scaling, given = model.training.y_scaling, CONSTANT in names
    center = np.ravel(scaling.center)[0]
    found = names if given or not center else (*names, CONSTANT)
    return Quantity(
        name="component",
        operator=_Components(order),
        components=found,
        mixes=None if found == names else np.eye(len(found), len(names)),
        factor=np.full(len(found), scaling.scale),
        offset=np.where(np.array(found) == CONSTANT, center, 0.0),
        units=latent_units(model),
        total=("f", _value),
        summands=True,
    )


def fanova_shapley_value(model: Any, shares: np.ndarray, order: int) -> Quantity:
    """Shares (d, c) of each feature in components of up to `order` features, the constant last."""
    return Quantity(
        name="attribution",
        operator=_Components(order),
        components=model.training.X.columns,
        mixes=shares,
        factor=np.full(len(shares), model.training.y_scaling.scale),
        units=latent_units(model),
        samples=SMOOTH,
        bends=True,
        total=("difference", _varying),
        attrs={"method": "fanova"},
    )


def weight(model: Any, *, smooth: bool = False) -> Quantity:
    """Weights of a GPX, with or without `eps_w`."""
    _refuse_gp(model, "weights")
    training = model.training
    return Quantity(
        name="weight",
        operator=_smooth_weight if smooth else _weight,
        components=training.Z.columns,
        of_z=True,
        factor=training.y_scaling.scale / training.Z_scaling.scale,
        units=f"{latent_units(model)} per unit of the feature",
        samples="weight functions g, without eps_w" if smooth else None,
    )


def coefficient(model, *, smooth=False):
    """Weights of features as they were given, and an intercept that makes up for their centers.

    beta_l = s_y w_l / s_l,    beta_0 = c_y + s_y (w_0 - sum_l c_l w_l / s_l)
    """
    centred, training = weight(model, smooth=smooth), model.training
    own = training.p - training.intercept
    moved = -training.Z_scaling.center[:own] / training.Z_scaling.scale[:own]
    mixes = np.eye(own + 1, training.p)
    mixes[-1, :own] = moved
    return replace(
        centred,
        components=(*training.Z.columns[:own], INTERCEPT),
        mixes=mixes,
        factor=np.append(centred.factor[:own], training.y_scaling.scale),
        offset=np.append(np.zeros(own), training.y_scaling.center),
        center=np.zeros(own + 1),
    )


def contribution(model: Any) -> Quantity:
    """Contributions of a GPX."""
    _refuse_gp(model, "contributions")
    training, Z = model.training, model.training.Z
    center = dict(zip(Z.columns, training.Z_scaling.center, strict=True))
    return Quantity(
        name="contribution",
        operator=_contribution,
        components=Z.sources,
        mixes=_columns(Z),
        of_z=True,
        factor=np.full(len(Z.sources), training.y_scaling.scale),
        units=latent_units(model),
        center=np.array([center.get(source, np.nan) for source in Z.sources]),
    )


def _columns(frame):
    """Which columns make up each of the user's, (c, width); None where they are the same."""
    sources = np.arange(len(frame.sources))[:, None]
    return (frame.groups == sources).astype(float) if frame.levels else None


def _refuse_gp(model, verb):
    if model.training.Z is None:
        raise ValueError(
            f"{verb} are defined for GPX; a GP has no weights. Pass a bx.GPX instead of a bx.GP."
        )


def _value(asked):
    return operators.evaluate(asked.points, asked.Z, sample=asked.sample)


def _smooth_value(asked):
    return operators.evaluate(asked.points, asked.Z, sample=asked.sample, smooth=True)


def _gradient(asked):
    return operators.gradient(asked.points, asked.Z)


def _tied_gradient(asked):
    return operators.gradient(asked.points, asked.Z_along, tied=True)


def _hessian(asked):
    return operators.hessian(asked.points, asked.Z)


def _tied_hessian(asked):
    return operators.hessian(asked.points, asked.Z_along, tied=True)


def _weight(asked):
    return operators.weight(asked.points, sample=asked.sample)


def _smooth_weight(asked):
    return operators.weight(asked.points, sample=asked.sample, smooth=True)


def _contribution(asked):
    return operators.contribution(asked.points, asked.Z, sample=asked.sample)


def _varying(asked):
    return operators.varying(asked.points)


@dataclass(frozen=True)
class _Attribution:
    tied: bool
    method: str
    steps: int | None

    def __call__(self, asked):
        Z = asked.Z_along if self.tied else asked.Z
        options = {"method": self.method, "steps": self.steps, "tied": self.tied}
        return operators.integrated_gradient(asked.points, asked.baseline, Z, **options)


@dataclass(frozen=True)
class ShapleyOperator:
    """Shapley values of players, by the coalitions of some orders or by products over features."""

    tied: bool
    players: Players
    orders: Orders | None

    def __call__(self, asked: Any) -> operators.ShapleyValue:
        """The operator at points."""
        Z = asked.Z_along if self.tied else asked.Z
        among = None if self.orders is None else coalitions(self.players, self.orders)
        options: dict[str, Any] = {"players": self.players, "among": among, "tied": self.tied}
        return operators.shapley_value(asked.points, asked.baseline, Z, **options)


@dataclass(frozen=True)
class _Components:
    order: int

    def __call__(self, asked):
        return operators.components(asked.points, self.order)


@dataclass(frozen=True)
class _Difference:
    tied: bool

    def __call__(self, asked):
        Z = asked.Z_along if self.tied else asked.Z
        return operators.difference(asked.points, asked.baseline, Z, tied=self.tied)


@dataclass(frozen=True, eq=False)
class Quantity:
    """A quantity to explain, and the names of its numbers.

    Attributes
    ----------
    name : str
    operator : callable
        From `bayes_gpx.posteriors.base.Asked` to an Operator; hashable.
    components : tuple of str or None
        Labels along `feature`; None for one number at each row.
    factor : array (c,)
        From the model's scale to user units.
    mixes : array (c, width) or None
        Sums of the operator's numbers that make the components, on the model's scale, as indicators
        add to their categorical column; None if each number is a component.
    units : str
    offset : float or array (c,)
        Added after the factor.
    center : array (c,) or None
        Centers of the components' features, kept with the numbers.
    noisy : str or None
        Name of the same quantity with observation noise.
    samples : str or None
        Text in attrs about the rows' own noise, if not the usual one.
    total : tuple of (str, callable) or None
        Name and operator of the components' sum.
    beside : tuple of (str, callable) or None
        Name and operator of the same quantity without the rows' deviations.
    of_z : bool
        The components are Z's columns, not X's.
    square : bool
        There is a component for each pair of features, row-major and symmetric.
    bends : bool
        The mean response is not linear in f, and needs the chain rule.
    across : bool
        The components are all classes' values, jointly, instead of features.
    points : int
        Number of points for each row, if all of them are enumerated.
    summands : bool
        The components are summands of f, along `component`, instead of features.
    attrs : dict
        Further attrs of the result.
    """

    name: str
    operator: Callable
    components: tuple | None
    factor: np.ndarray
    units: str
    offset: float | np.ndarray = 0.0
    center: np.ndarray | None = None
    noisy: str | None = None
    samples: str | None = None
    total: tuple | None = None
    beside: tuple | None = None
    of_z: bool = False
    square: bool = False
    bends: bool = False
    across: bool = False
    points: int = 1
    summands: bool = False
    attrs: dict = field(default_factory=dict)
    mixes: np.ndarray | None = None

    @property
    def along(self) -> str:
        """The dim of the components."""
        return "component" if self.summands else "feature"

    @property
    def width(self) -> int:
        """How many numbers the operator gives for each observation."""
        return len(self.factor) if self.mixes is None else self.mixes.shape[1]

    def mixed(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Components, out of the operator's numbers along an axis."""
        if self.mixes is None:
            return values
        return np.moveaxis(np.tensordot(values, self.mixes, (axis, 1)), -1, axis)
