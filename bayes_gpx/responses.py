"""Derivatives and attributions of the mean response, which is not linear in f.

They are computed on random functions: the chain rule at a point, or at nodes along a path. For
each function, attributions add up to the response at x less that at the baseline.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from scipy.special import softmax

from bayes_gpx import questions
from bayes_gpx.arguments import Points
from bayes_gpx.modes import MODE
from bayes_gpx.quadrature import chebyshev, gauss_legendre, interpolation
from bayes_gpx.quantities import Quantity
from bayes_gpx.specification import one_of

LEVELS = (8, 16, 32, 64, 128)
"""Degrees of the polynomials that f, or its moments, are taken for along a path."""

CLOSE = 1e-9
"""Share of the largest difference that a path's integral may miss in a trial."""


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
    degree : int
        Of the polynomials along paths.
    """

    model: Any
    latent: Quantity
    where: Points
    degree: int = LEVELS[0]

    @property
    def quantity(self):
        """As `latent`, in units of the response."""
        observation, name = self.model.specification.observation, self.model.training.y_name
        units = f"{observation.mean_name} of {name}"
        if not self.latent.total:
            units = f"{units} per unit of the feature"
        return replace(self.latent, units=units, bends=False)

    @property
    def together(self):
        """Points for each observation."""
        return self.degree + 1 if self.latent.total else 1

    @property
    def operators(self):
        """Values and gradients of f."""
        return (
            questions.value(self.model, smooth=True).operator,
            questions.derivative(self.model).operator,
        )

    def of(self, rows, degree):
        """The same of some observations, by polynomials of another degree."""
        where, Z = self.where, self.where.Z
        where = replace(where, X=where.X[rows], Z=None if Z is None else Z[rows])
        return replace(self, where=where, degree=degree)

    def parts(self, trial):
        """Observations, sorted by the degree that they need: pairs of rows and `Bent`.

        Parameters
        ----------
        trial : callable
            From a `Bent` to shares (k, m, d) and the differences (k, m) that they should sum to,
            for a few functions or draws; or to shares (k, m, C, d) and differences (k, m, C).
        """
        left = np.arange(len(self.where.X))
        if not self.latent.total:
            return [(left, self)]
        parts, largest = [], 0.0
        for degree in LEVELS:
            shares, difference = trial(self.of(left, degree))
            missed = np.abs(shares.sum(axis=-1) - difference).max(axis=0)
            missed = missed.reshape((len(left), -1)).max(axis=1)
            largest = max(largest, np.abs(difference).max())
            done = (missed <= CLOSE * largest) | (degree == LEVELS[-1])
            if done.any():
                parts.append((left[done], self.of(left[done], degree)))
            left = left[~done]
            if not len(left):
                break
        return parts

    def spread(self, where):
        """All places on the path of the first observation, then those of the second."""
        if not self.latent.total:
            return where
        t = chebyshev(self.degree)[:, None]
        X = where.baseline + t * (where.X[:, None] - where.baseline)
        X, Z, training = X.reshape((-1, where.X.shape[1])), where.Z, self.model.training
        if training.tied:
            Z = np.hstack([X, np.ones((len(X), int(training.intercept)))])
        elif Z is not None:
            Z = np.repeat(Z, self.together, axis=0)
        return replace(where, X=X, Z=Z, baseline=None)

    def combine(self, rows, values):
        """Slopes of the response times those of f, at the point or along the path."""
        if self.model.specification.classes is not None:
            return self._combine_classes(rows, *values)
        f = values[0].reshape((-1, self.together)) + self._center
        slopes = values[1].reshape((*f.shape, -1))
        if not self.latent.total:
            return [(self._response(f)[1][..., None] * slopes).ravel()]
        across, w = _fine(self.degree, self.degree // 2)
        slope = (w * self._response(f @ across.T)[1]) @ across
        mean = self._response(f[:, [0, -1]])[0]
        shares = self._way[rows] * np.einsum("mk,mkd->md", slope, slopes)
        return [shares.ravel(), mean[:, 1] - mean[:, 0]]

    def _combine_classes(self, rows, f, slopes):
        """As `combine`, with a last axis of classes: each probability varies with every f."""
        f = f.reshape((-1, self.together, f.shape[1]))
        slopes = slopes.reshape((*f.shape[:2], -1, f.shape[2]))
        if not self.latent.total:
            found = np.einsum("mcj,mdj->mdc", _jacobian(f[:, 0]), slopes[:, 0])
            return [found.reshape((-1, f.shape[2]))]
        across, w = _fine(self.degree, self.degree // 2)
        inside = np.einsum(
            "fcjm,f,ft->tcjm", _jacobian(across @ f).transpose(1, 2, 3, 0), w, across, optimize=True
        )
        shares = self._way[rows][:, :, None] * np.einsum(
            "tcjm,mtdj->mdc", inside, slopes, optimize=True
        )
        ends = softmax(f[:, [0, -1]], axis=-1)
        return [shares.reshape((-1, f.shape[2])), ends[:, 1] - ends[:, 0]]

    def expected(self, mean, variance, response):
        """Means of what `combine` gives where f is normal, by Stein's identity.

            E[dS(f)/dx_d] = m_d E S'(f) + V_d / 2 E S''(f)

        Parameters
        ----------
        mean, variance : Jet
            Of f, at the points of `spread`, on the model's scale.
        response : callable
            From mean and variance of f to E S(f), and to E S'(f) with E S''(f), if asked for.

        Returns
        -------
        array (m, d), and for attributions the differences (m,)

        References
        ----------
        Seitz, "Gradient-based explanations for Gaussian process regression and classification
        models" (2022), equation 34, with Cov(f_d, f) for its second kernel.
        """
        m, V = (jet.value.reshape((-1, self.together)) for jet in (mean, variance))
        by_feature = (*m.shape, -1)
        m_d, half_V_d = mean.first.reshape(by_feature), 0.5 * variance.first.reshape(by_feature)
        m = m + self._center
        if not self.latent.total:
            slope, bend = response(m, V, slopes=True)
            return [(slope[..., None] * m_d + bend[..., None] * half_V_d)[:, 0]]
        across, w = _fine(self.degree, self.degree // 4 if self.degree > LEVELS[0] else 1)
        slope, bend = response(m @ across.T, np.maximum(V @ across.T, 0.0), slopes=True)
        shares = np.einsum("mk,mkd->md", (w * slope) @ across, m_d)
        shares += np.einsum("mk,mkd->md", (w * bend) @ across, half_V_d)
        ends = response(m[:, [0, -1]], V[:, [0, -1]], slopes=False)
        return [self._way * shares, ends[:, 1] - ends[:, 0]]

    @property
    def _center(self):
        return self.model.training.y_scaling.center

    @property
    def _way(self):
        return self.where.X - self.where.baseline

    @cached_property
    def _response(self):
        return _compiled_response(self.model.specification.observation)


def _jacobian(f):
    """Derivatives of softmax probabilities (..., C) in each latent value, (..., C, C)."""
    p = softmax(f, axis=-1)
    return p[..., :, None] * (np.eye(f.shape[-1]) - p[..., None, :])


@lru_cache(maxsize=16)
def _fine(degree, panels):
    """Matrix from a polynomial's values to those at nodes of a quadrature, and its weights."""
    t, w = gauss_legendre(16, panels)
    return interpolation(degree, t), w


@lru_cache(maxsize=8)
def _compiled_response(observation):
    """Function from f (m, k) to the mean response and its slope."""
    f = pt.dmatrix("f")
    mean, slope, _ = observation.response(f)
    return pytensor.function([f], [mean, slope], mode=MODE, trust_input=True)
