"""Derivatives and attributions of the mean response, which is not linear in f.

They are computed on random functions: the chain rule at a point, or at nodes along a path. For each
function, attributions add up to the response at x minus the response at the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pytensor.tensor as pt
from scipy.special import softmax

from bayes_gpx.draws import quantities
from bayes_gpx.draws.points import Points
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.quantities import Quantity
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.quadrature import chebyshev, gauss_legendre, interpolation
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.base import Likelihood
    from bayes_gpx.numerics.jets import Jet

LEVELS = (8, 16, 32, 64, 128)
"""Degrees of the polynomials that approximate f, or its moments, along a path."""

TRIALS = 8
"""Number of functions or draws that choose the degrees."""

CLOSE, NEAR = 1e-9, 1e-7
"""Shares of the largest difference that attributions may miss in all: in trials, and later."""


def bends(model: ModelLike, quantity: Quantity, on: str) -> bool:
    """Whether the quantity of the mean response is requested, and differs from the quantity of f.

    Raises ValueError if `on` is unknown.
    """
    return responds(model, on) and quantity.bends


def responds(model: ModelLike, on: str) -> bool:
    """Whether the mean response is explained, and is not f itself.

    Raises ValueError if `on` is unknown.
    """
    one_of("on", on, ("response", "latent"))
    return on == "response" and model.specification.observation.mean_name is not None


def response_units(model: ModelLike) -> str:
    """Units of the mean response."""
    return f"{model.specification.observation.mean_name} of {model.training.y_name}"


@lru_cache(maxsize=8)
def _mean_response(observation):
    f = pt.dmatrix("f") if observation.class_shape else pt.dvector("f")
    exposure = pt.dvector("exposure")
    return ThreadedFunction([f, exposure], observation.response(f, exposure).value)


def mean_response(
    observation: Likelihood, f: np.ndarray, exposure: np.ndarray | float = 1.0
) -> np.ndarray:
    """Mean response for draws f (chain, draw, obs), or with a last dim of classes."""
    classes = observation.class_shape
    wide = np.broadcast_to(exposure, f.shape[: f.ndim - len(classes)]).ravel()
    return _mean_response(observation)(f.reshape(-1, *classes), wide).reshape(f.shape)


@dataclass(frozen=True, eq=False)
class LatentQuantity:
    """A quantity of f itself, which functions are asked for as it is."""

    quantity: Quantity
    together = 1

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Operators for each function: the quantity, and its total."""
        total = self.quantity.total
        return (self.quantity.operator, *(total[1:] if total else ()))

    def spread(self, where: Points) -> Points:
        """Points at which functions are evaluated: the rows."""
        return where

    def combine(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Components of the rows in `rows`, and their total if there is one.

        For several classes (k, C, c) and (k, C).
        """
        first, *total = values
        if first.ndim == 1:
            return values
        by_class = first.reshape((-1, self.quantity.width, first.shape[1]))
        return [by_class.transpose(0, 2, 1), *total]


@dataclass(frozen=True, eq=False)
class ResponseQuantity:
    """A quantity of the mean response, by the chain rule; methods as in `LatentQuantity`.

    `latent` is the quantity of f, derivatives or attributions, at the points `where`; `degree` is
    for the polynomials along paths.
    """

    model: Any
    latent: Quantity
    where: Points
    degree: int = LEVELS[0]
    order: ClassVar = 1

    @property
    def quantity(self) -> Quantity:
        """As `latent`, in units of the response."""
        units = response_units(self.model)
        if not self.latent.total:
            units = f"{units} per unit of the feature"
        attrs = {**self.latent.attrs, "scale": "response"}
        return replace(self.latent, units=units, bends=False, attrs=attrs)

    @property
    def together(self) -> int:
        """Points for each observation."""
        return self.degree + 1 if self.latent.total else 1

    @property
    def operators(self) -> tuple[Callable, ...]:
        """Values and gradients of f."""
        return (
            quantities.value(self.model, smooth=True).operator,
            quantities.derivative(self.model).operator,
        )

    def of(self, rows: np.ndarray, degree: int) -> ResponseQuantity:
        """The same of some observations, by polynomials of another degree."""
        where = self.where
        own = {name: getattr(where, name) for name in ("X", "Z", "group")}
        picked = {name: array[rows] for name, array in own.items() if array is not None}
        where = replace(where, **picked)
        return replace(self, where=where, degree=degree)

    def answers(
        self, ask: Callable[..., Iterator], count: int
    ) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
        """Yield number, rows and answers of functions or draws, each with the degree that it needs.

        Some of the `count` functions choose a degree for each row. Then all are evaluated. If
        attributions still miss their sum, the row of this function is evaluated again with the next
        degree. `ask` maps a list of `ResponseQuantity` and numbers (None for all) to number,
        position in the list, a slice of rows, and the answers: attributions (k, d) and their
        differences (k,), or (k, C, d) and (k, C) for several classes.
        """
        rows = np.arange(len(self.where.X))
        if not self.latent.total:
            yield from ((number, rows[own], found) for number, _, own, found in ask([self], None))
            return
        few = np.unique(np.linspace(0, count - 1, TRIALS).round().astype(int))
        parts, largest = self._parts(ask, few)
        asked, numbers = [self.of(*part) for part in parts], None
        wanted, later = dict[int, np.ndarray](), dict[int, dict]()
        for degree in (None, *LEVELS):
            if degree is not None:  # the first pass, without a degree, is over all rows
                wanted = later.pop(degree, {})
                if not wanted:
                    continue
                numbers = set(wanted)
                parts = [(np.unique(np.concatenate([*wanted.values()])), degree)]
                asked = [self.of(*parts[0])]
            for number, k, own, found in ask(asked, numbers):
                rows, level = parts[k][0][own], parts[k][1]
                use = np.isin(rows, wanted[number]) if wanted else np.ones(len(rows), bool)
                missed = _missed(*found)
                good = (missed <= NEAR * largest) | (level == LEVELS[-1])
                again = rows[use & ~good]
                if len(again):
                    following = later.setdefault(LEVELS[LEVELS.index(level) + 1], {})
                    following[number] = np.append(following.get(number, again[:0]), again)
                use &= good
                if use.any():
                    yield number, rows[use], [part[use] for part in found]

    def _parts(self, ask, few):
        """Rows with the degree that a few functions or draws need, and the largest difference."""
        left, parts, largest = np.arange(len(self.where.X)), [], 0.0
        for degree in LEVELS:
            missed = np.zeros(len(left))
            for _, _, own, (shares, difference) in ask([self.of(left, degree)], set(few)):
                missed[own] = np.maximum(missed[own], _missed(shares, difference))
                largest = max(largest, np.abs(difference).max())
            done = (missed <= CLOSE * largest) | (degree == LEVELS[-1])
            if done.any():
                parts.append((left[done], degree))
            left = left[~done]
            if not len(left):
                return parts, largest

    @property
    def smooth(self) -> bool:
        """Whether a GPX's own deviations of new samples are left out."""
        return True

    def noise(self, theta: Mapping[str, Any]) -> float:
        """Variance of the noise that is added to f, on the model's scale."""
        return 0.0

    def spread(self, where: Points) -> Points:
        """All places on the path of the first row, then on the path of the second row."""
        if not self.latent.total:
            return where
        t = chebyshev(self.degree)[:, None]
        X = where.baseline + t * (where.X[:, None] - where.baseline)
        return self.at(where, X)

    def at(self, where: Points, X: np.ndarray) -> Points:
        """Points where each observation is at several X, (m, ..., d)."""
        X, Z, training = X.reshape((-1, X.shape[-1])), where.Z, self.model.training
        if training.tied:
            Z = np.hstack([X, np.ones((len(X), int(training.intercept)))])
        elif Z is not None:
            Z = np.repeat(Z, self.together, axis=0)
        group = None if where.group is None else np.repeat(where.group, self.together)
        return replace(where, X=X, Z=Z, baseline=None, group=group)

    def combine(self, rows: slice, values: list[np.ndarray]) -> list[np.ndarray]:
        """Slopes of the response times slopes of f, at the point or along the path.

        Values and gradients of f at t places for each of k rows, (k t,) and (k t d,), become
        attributions (k, d) and, along paths, differences (k,).
        """
        if self.model.specification.classes is not None:
            return self._combine_classes(rows, *values)
        f = values[0].reshape((-1, self.together)) + self._center
        slopes = values[1].reshape((*f.shape, -1))
        if not self.latent.total:
            return [(self._response(f)[1][..., None] * slopes)[:, 0]]
        across, w = fine(self.degree, self.degree // 2)
        slope = (w * self._response(f @ across.T)[1]) @ across
        mean = self._response(f[:, [0, -1]])[0]
        shares = self._way[rows] * np.einsum("mk,mkd->md", slope, slopes)
        return [shares, self._between(mean, rows)]

    def _combine_classes(self, rows, f, slopes):
        """As `combine`, (k, C, d) and (k, C): each probability varies with every f."""
        f = f.reshape((-1, self.together, f.shape[1]))
        slopes = slopes.reshape((*f.shape[:2], -1, f.shape[2]))
        if not self.latent.total:
            return [np.einsum("mcj,mdj->mcd", _jacobian(f[:, 0]), slopes[:, 0])]
        across, w = fine(self.degree, self.degree // 2)
        inside = np.einsum(
            "fcjm,f,ft->tcjm", _jacobian(across @ f).transpose(1, 2, 3, 0), w, across, optimize=True
        )
        shares = np.einsum("tcjm,mtdj->mcd", inside, slopes, optimize=True)
        ends = softmax(f[:, [0, -1]], axis=-1)
        return [self._way[rows][:, None] * shares, self._between(ends, rows)]

    def expected(self, mean: Jet, variance: Jet, response: Callable[..., Any]) -> list[np.ndarray]:
        """Means of the results of `combine` for normal f, by Stein's identity.

            E[dS(f)/dx_d] = m_d E S'(f) + V_d / 2 E S''(f)

        Jets are at the points of `spread`, on the model's scale. `response` maps mean and variance
        of f to E S(f), and to E S'(f) with E S''(f), if requested. Returns (m, d), and for
        attributions the differences (m,); for several classes (m, C, d) and (m, C), by quasi-random
        points.

        References
        ----------
        Seitz, "Gradient-based explanations for Gaussian process regression and classification
        models" (2022), equation 34, with Cov(f_d, f) for its second kernel.
        """
        if self.model.specification.classes is not None:
            return self._expected_classes(mean, variance)
        m, V = (jet.value.reshape((-1, self.together)) for jet in (mean, variance))
        by_feature = (*m.shape, -1)
        m_d = cast(np.ndarray, mean.first).reshape(by_feature)
        half_V_d = 0.5 * cast(np.ndarray, variance.first).reshape(by_feature)
        m = m + self._center
        if not self.latent.total:
            slope, bend = response(m, V, slopes=True)
            return [(slope[..., None] * m_d + bend[..., None] * half_V_d)[:, 0]]
        across, w = fine(self.degree, self.degree // 4 if self.degree > LEVELS[0] else 1)
        slope, bend = response(m @ across.T, np.maximum(V @ across.T, 0.0), slopes=True)
        shares = np.einsum("mk,mkd->md", (w * slope) @ across, m_d)
        shares += np.einsum("mk,mkd->md", (w * bend) @ across, half_V_d)
        ends = response(m[:, [0, -1]], V[:, [0, -1]], slopes=False)
        return [self._way * shares, self._between(ends, slice(None))]

    def _between(self, ends, rows):
        """Difference of both ends (m, 2[, C]) of paths; exactly 0 for paths of no length."""
        moved = self._way[rows].any(axis=1)
        return np.where(moved.reshape((-1, *[1] * (ends.ndim - 2))), ends[:, 1] - ends[:, 0], 0.0)

    def _expected_classes(self, mean, variance):
        jets = expected_probabilities(mean, variance)
        slopes = np.stack([jet.first for jet in jets], axis=1)
        if not self.latent.total:
            return [slopes]
        slopes = slopes.reshape((-1, self.together, *slopes.shape[1:]))
        across, w = fine(self.degree, self.degree // 4 if self.degree > LEVELS[0] else 1)
        shares = self._way[:, None] * np.einsum("k,mkcd->mcd", w @ across, slopes)
        value = np.stack([jet.value for jet in jets], axis=1).reshape(slopes.shape[:3])
        return [shares, self._between(value[:, [0, -1]], slice(None))]

    @property
    def _center(self):
        return self.model.training.y_scaling.center

    @property
    def _way(self):
        return self.where.X - self.where.baseline

    @cached_property
    def _response(self):
        return _compiled_response(self.model.specification.observation)


def _missed(shares, difference):
    """How far the shares of each row are from adding up, for the worst class."""
    apart = np.abs(shares.sum(axis=-1) - difference)
    return apart.reshape((len(apart), -1)).max(axis=1)


def _jacobian(f):
    """Derivatives of softmax probabilities (..., C) in each latent value, (..., C, C)."""
    p = softmax(f, axis=-1)
    return p[..., :, None] * (np.eye(f.shape[-1]) - p[..., None, :])


@lru_cache(maxsize=16)
def fine(degree: int, panels: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrix from a polynomial's values to its values at nodes of a quadrature, and the weights."""
    t, w = gauss_legendre(16, panels)
    return interpolation(degree, t), w


@lru_cache(maxsize=8)
def _compiled_response(observation):
    """Function from f (m, k) to the mean response and its slope."""
    f = pt.dmatrix("f")
    mean, slope, _ = observation.response(f)
    return ThreadedFunction([f], [mean, slope], trust_input=True)
