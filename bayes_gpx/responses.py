"""Derivatives and attributions of the mean response, which is not linear in f.

They are computed on random functions: the chain rule at a point, or at nodes along a path. For
each function, attributions add up to the response at x less that at the baseline.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from bayes_gpx import questions
from bayes_gpx.arguments import Points
from bayes_gpx.modes import MODE
from bayes_gpx.quadrature import gauss_legendre
from bayes_gpx.quantities import Quantity
from bayes_gpx.specification import one_of

NODES, PANELS = 16, 4
"""Gauss-Legendre nodes along a path."""


def bends(model, quantity, on):
    """Whether the quantity of the mean response is asked for, and is not that of f.

    Raises
    ------
    ValueError
        If `on` is unknown.
    """
    one_of("on", on, ("response", "latent"))
    straight = model.specification.observation.mean_name is None
    return quantity.bends and on == "response" and not straight


@dataclass(frozen=True, eq=False)
class Linear:
    """What is asked as it is, of f."""

    quantity: Quantity
    together = 1

    @property
    def operators(self):
        """What each function is asked for: the quantity, and what it sums to."""
        total = self.quantity.total
        return (self.quantity.operator, *(total[1:] if total else ()))

    def spread(self, where):
        """Points at which functions are asked."""
        return where

    def combine(self, rows, values):
        """Components of the observations in `rows`, and their total where there is one."""
        return values


@dataclass(frozen=True, eq=False)
class Bent:
    """What is asked of the mean response, by the chain rule; methods as those of `Linear`.

    Attributes
    ----------
    model : Model
    latent : Quantity
        The same of f: its derivatives or attributions.
    where : Points
        Where it is asked.
    """

    model: Any
    latent: Quantity
    where: Points

    @property
    def quantity(self):
        """As `latent`, in units of the response."""
        observation, name = self.model.specification.observation, self.model.training.y_name
        units = f"{observation.mean_name} of {name}"
        if not self.latent.total:
            units = f"{units} per unit of the feature"
        return replace(self.latent, units=units, bends=False)

    @cached_property
    def _nodes(self):
        """Places along the paths, and weights of slopes there; the ends have none."""
        if not self.latent.total:
            return np.ones(1), np.ones(1)
        t, w = gauss_legendre(NODES, PANELS)
        return np.concatenate([[0.0], t, [1.0]]), np.concatenate([[0.0], w, [0.0]])

    @property
    def together(self):
        """Points for each observation."""
        return len(self._nodes[0])

    @property
    def operators(self):
        """Values and gradients of f."""
        return (
            questions.value(self.model, smooth=True).operator,
            questions.derivative(self.model).operator,
        )

    def spread(self, where):
        """All nodes of the first observation, then those of the second."""
        if not self.latent.total:
            return where
        t = self._nodes[0][:, None]
        X = where.baseline + t * (where.X[:, None] - where.baseline)
        X, Z, training = X.reshape((-1, where.X.shape[1])), where.Z, self.model.training
        if training.tied:
            Z = np.hstack([X, np.ones((len(X), int(training.intercept)))])
        elif Z is not None:
            Z = np.repeat(Z, self.together, axis=0)
        return replace(where, X=X, Z=Z, baseline=None)

    def combine(self, rows, values):
        """Slopes of the response times those of f, at the point or along the path."""
        f = values[0].reshape((-1, self.together))
        slopes = values[1].reshape((*f.shape, -1))
        mean, slope = self._response(f + self.model.training.y_scaling.center)
        if not self.latent.total:
            return [(slope[..., None] * slopes).ravel()]
        way = (self.where.X - self.where.baseline)[rows]
        weights = self._nodes[1]
        shares = way * np.einsum("k,mk,mkd->md", weights, slope, slopes)
        return [shares.ravel(), mean[:, -1] - mean[:, 0]]

    @cached_property
    def _response(self):
        f = pt.dmatrix("f")
        mean, slope, _ = self.model.specification.observation.response(f)
        return pytensor.function([f], [mean, slope], mode=MODE, trust_input=True)
