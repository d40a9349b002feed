"""Requests of explanation functions, their results over draws, and the names of these."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_gpx.data.dates import unit_of
from bayes_gpx.data.training import INTERCEPT
from bayes_gpx.draws.categorical_values import coded, values_by_source
from bayes_gpx.draws.intervals import BOUNDS
from bayes_gpx.draws.mixture_intervals import MixtureIntervals
from bayes_gpx.draws.mixtures import Mixture
from bayes_gpx.validation import one_of

RESPONSE = "response"
"""Second name of the mean response, for every likelihood."""


def under_one_name(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Copy mean and sd of y, a probability or a rate as moments of the response."""
    return {f"{RESPONSE}_{part}": variables[f"{name}_{part}"] for part in ("mean", "sd")}


class ResultBuilder:
    """Gather the moments and draws of a quantity, over draws and blocks of rows.

    `features` are the requested components, all by default, and `m` is the number of rows. `drawn`
    are the components to draw: the requested ones; all, if they sum to a total; or one of each pair
    of a symmetric matrix. `_kept` picks the requested ones from all, and `_place` is the position
    of each result among these.
    """

    def __init__(self, quantity, features, m, covariance):
        self._quantity, self._picked = quantity, _picked(quantity, features, covariance)
        picked = self._picked
        self.drawn = np.arange(len(quantity.factor)) if quantity.total else picked
        self._kept = picked if quantity.total else slice(None)
        self._place = np.arange(len(picked))
        if quantity.square:
            self.drawn, self._place = _distinct(picked, len(quantity.components))
        self._shapes = {quantity.name: self._place.shape if quantity.components else ()}
        for name in (quantity.noisy, *((quantity.total or quantity.beside or ())[:1])):
            if name:
                self._shapes[name] = ()
        self._mixtures = {
            name: Mixture((m, self._place.max() + 1 if shape else 1), covariance and shape != ())
            for name, shape in self._shapes.items()
        }
        self._intervals, self._prob = {}, None
        self._residuals = np.zeros((2, m))

    def shapes(self, shape):
        """Shapes of the arrays of draws, by name."""
        return {self._drawn_as(name): shape + own for name, own in self._shapes.items()}

    def _drawn_as(self, name):
        """What draws of a quantity are called: not as the dim that they have."""
        return f"{name}s" if name == self._quantity.along else name

    def keep_for_intervals(self, draws, prob, place):
        """Keep the moments of so many hyperparameter draws, for intervals of that probability."""
        if self._quantity.across:
            return
        self._prob, m = prob, self._residuals.shape[1]
        for name, shape in self._shapes.items():
            size, made = self._place.max() + 1 if shape else 1, partial(place.beside, name)
            self._intervals[name] = MixtureIntervals((m, size), draws, place.room, made)

    @property
    def sums(self):
        """The arrays of all that was added so far."""
        return [*(a for m in self._mixtures.values() for a in m.sums), self._residuals]

    def add(self, rows, part, noise, total, number=0):
        """Add the normal of one draw, counted from 0; `noise` and `total` on the model's scale.

        `total` contains the mean and the variance (k,) of the components' sum for k rows, or the
        `Conditional` of the quantity without deviations.
        """
        quantity, factor = self._quantity, self._quantity.factor[0]
        found = {quantity.name: part.moments(self._kept)}
        if quantity.noisy:
            found[quantity.noisy] = part.mean, part.variance + (noise * factor) ** 2
        if quantity.beside:
            found[quantity.beside[0]] = total[0].moments(self._kept)
        if quantity.total:
            mean = total[0] * factor + np.sum(quantity.offset)
            variance = total[1] * factor**2
            found[quantity.total[0]] = mean[:, None], variance[:, None]
        for name, moments in found.items():
            self._mixtures[name].add(rows, *moments)
            if name in self._intervals:
                self._intervals[name].add(number, rows, *moments[:2])
        if quantity.total:
            cov = part.cov.sum(axis=(1, 2))
            apart = np.abs([part.mean.sum(axis=1) - mean, cov - variance])
            self._residuals[:, rows] = np.maximum(self._residuals[:, rows], apart)

    def sample(self, part, noise, normal, beside=None):
        """Turn standard normals (1 to 3, draw, m, c) into draws, by name."""
        quantity, found = self._quantity, {}
        if beside is None:
            values = part.sample(normal[0])
        else:
            smooth, values = beside.sample(normal[0], normal[-1])
            found[quantity.beside[0]] = smooth[..., 0]
        if quantity.components is None:
            values = values[..., 0]
        elif quantity.square:
            values = values[..., self._place]
        found[quantity.name] = values
        if quantity.noisy:
            found[quantity.noisy] = values + noise * quantity.factor[0] * normal[1][..., 0]
        if quantity.total:
            found |= {quantity.name: values[..., self._kept], quantity.total[0]: values.sum(-1)}
        return {self._drawn_as(name): values for name, values in found.items()}

    def dataset(self, model, where, stores):
        """Name the gathered results."""
        quantity, training = self._quantity, model.training
        wide = quantity.components is not None and not quantity.across
        labels = [quantity.components[i] for i in self._picked] if wide else training.X.columns
        values = where.Z_values if quantity.of_z else where.X_values
        frame = training.Z if quantity.of_z else training.X
        along = quantity.along
        coords, variables = {"obs": where.index, along: list(labels)}, {}
        if quantity.summands:
            labels = training.X.columns
            coords["feature"] = list(labels)
        if quantity.across:
            coords["class"] = list(quantity.components)
        for name, shape in self._shapes.items():
            dims = ("obs", along, f"{along}_bis")[: 1 + len(shape)]
            dims = ("obs", "class") if quantity.across else dims
            mean, sd, cov = self._mixtures[name].moments()
            place = self._place if shape else 0
            mean, sd = mean[:, place], sd[:, place]
            drawn = self._drawn_as(name)
            if drawn in stores:
                variables[drawn] = (("chain", "draw", *dims), stores[drawn])
            variables |= {f"{name}_mean": (dims, mean), f"{name}_sd": (dims, sd)}
            if name in self._intervals and self._intervals[name].known:
                ends = self._intervals[name].ends(self._prob)[:, place]
                variables[f"{name}_interval"] = (*dims, "ci_bound"), ends
                coords["ci_bound"] = BOUNDS
            if cov is not None:
                variables[f"{name}_cov"] = ((*dims, f"{along}_bis"), cov)
            if cov is not None or len(shape) == 2:
                coords[f"{along}_bis"] = coords[along]
        if quantity.noisy:
            variables |= under_one_name(variables, quantity.noisy)
        if frame.levels and quantity.components == frame.sources:
            said = values_by_source(frame, values, labels)
            coords["level"] = said.pop("level")
            variables |= said
        elif values is not None and set(labels) <= {*frame.columns, INTERCEPT}:
            variables["value"] = (("obs", "feature"), _values_of(frame, values, labels))
        if frame is not None and frame.origins:
            units = {column: unit_of(origin) for column, origin in frame.origins.items()}
            coords["unit"] = ("feature", [units.get(label, "") for label in labels])
        if quantity.center is not None:
            variables["center"] = ("feature", quantity.center[self._picked])
            variables["offset"] = training.y_scaling.center - np.sum(quantity.offset)
        if where.baseline_values is not None:
            points = coded(frame, where.baseline_values, labels)
            variables["baseline"] = (("baseline_row", "feature")[-points.ndim :], points)
        if quantity.summands:
            means = (variables[f"{name}_mean"][1] for name in (quantity.name, "f"))
            own, away = (mean - mean.mean(axis=0) for mean in means)
            with np.errstate(invalid="ignore"):  # of a single row, nothing varies
                variables["share"] = along, away @ own / (away @ away)
        if quantity.total:
            variables["completeness_residual"] = ("obs", self._residuals[0])
            variables["completeness_residual_variance"] = ("obs", self._residuals[1])
        attrs = {"ci_prob": self._prob} if "ci_bound" in coords else {}
        return xr.Dataset(variables, coords, quantity.attrs | attrs)


def _values_of(frame, values, labels):
    """Values of the components (m, c), from the values of all columns; 1 for an intercept."""
    columns = [*frame.columns, INTERCEPT]
    values = np.append(values, np.ones((len(values), 1)), axis=1)
    return values[:, [columns.index(label) for label in labels]]


def _picked(quantity, features, covariance):
    if quantity.components is None or quantity.across:
        if features is not None or covariance:
            raise ValueError(
                f"{quantity.name} has no features; leave `features` and `covariance` out. For the "
                "covariance between observations draw them with joint=True."
            )
        return np.arange(len(quantity.factor))
    if features is None:
        return np.arange(len(quantity.components))
    if isinstance(features, str) or not len(features) or len(set(features)) < len(features):
        raise ValueError(f"features is {features!r}. Pass a list of different names.")
    for feature in features:
        one_of("features", feature, quantity.components)
    return np.array([quantity.components.index(f) for f in features])


def _distinct(picked, d):
    """Row-major places of the distinct pairs of picked features, and which pair is which (k, k)."""
    rows, columns = np.triu_indices(len(picked))
    which = np.empty((len(picked), len(picked)), int)
    which[rows, columns] = which[columns, rows] = np.arange(len(rows))
    return picked[rows] * d + picked[columns], which
