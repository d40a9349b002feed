"""Kernels of one column for functions with mean zero under a measure of weighted points."""

# Durrande, Ginsbourger, Roustant and Carraro, "ANOVA kernels and RKHS of zero mean functions for
# model-based sensitivity analysis", Journal of Multivariate Analysis 115 (2013).

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.kernels.base import Kernel, Pairs
from bayes_gpx.kernels.tensor_products import Slots
from bayes_gpx.numerics.quadrature import gauss_legendre

STEPS, REACH = 240, 9.0
"""Number of steps of the trapezoid rule for a normal measure, and its range in sds to each side."""

NODES = 100
"""Gauss-Legendre nodes of a uniform measure."""

HALF_WIDTH = 3.0**0.5
"""Half-width of the uniform measure with mean 0 and variance 1, for standardized columns."""


class Measure(NamedTuple):
    """Points (S,) of one column with weights (S,) that sum to 1."""

    points: np.ndarray
    weights: np.ndarray


def measures(measure: str | tuple | TensorLike, d: int) -> list[Measure]:
    """The measure of each of d columns, see `bayes_gpx.Additive`; ValueError for other measures."""
    if isinstance(measure, str) or (isinstance(measure, tuple) and isinstance(measure[0], str)):
        kind, *numbers = (measure,) if isinstance(measure, str) else measure
        if kind not in PARAMETERS or len(numbers) not in (0, 2):
            raise ValueError(f"measure is {measure!r}. Pass {EXPECTED}.")
        made, defaults = PARAMETERS[kind]
        given = [np.broadcast_to(np.asarray(v, float), (d,)) for v in numbers or defaults]
        if not np.isfinite(given).all():
            raise ValueError(f"measure is {measure!r}. Pass finite numbers.")
        return [made(*own) for own in zip(*given, strict=True)]
    rows = np.asarray(measure, float)
    if rows.ndim != 2 or rows.shape[1] != d or not rows.size or not np.isfinite(rows).all():
        raise ValueError(
            f"measure has shape {rows.shape}. Pass finite rows of {d} columns, or {EXPECTED}."
        )
    found = [_empirical(column) for column in rows.T]
    for k, own in enumerate(found):
        if len(own.points) < 2:
            raise ValueError(
                f"measure: all rows have {own.points[0]:g} in column {k}. Pass at least two "
                "different values in each column."
            )
    return found


EXPECTED = (
    "'gaussian' or ('gaussian', mean, sd), 'uniform' or ('uniform', low, high), or rows of data"
)


def _gaussian(mean: float, sd: float) -> Measure:
    if not sd > 0.0:
        raise ValueError(f"measure: the sd is {sd}. Pass a positive number.")
    z = np.linspace(-REACH, REACH, STEPS + 1)
    weights = np.exp(-0.5 * z**2)
    return Measure(mean + sd * z, weights / weights.sum())


def _uniform(low: float, high: float) -> Measure:
    if not high > low:
        raise ValueError(f"measure: uniform from {low} to {high}. Pass two numbers, low first.")
    t, w = gauss_legendre(NODES)
    return Measure(low + (high - low) * t, w)


def _empirical(column: np.ndarray) -> Measure:
    values, counts = np.unique(column, return_counts=True)
    return Measure(values, counts / len(column))


PARAMETERS = {
    "gaussian": (_gaussian, (0.0, 1.0)),
    "uniform": (_uniform, (-HALF_WIDTH, HALF_WIDTH)),
}
"""From two numbers to a measure, and the two by default, by name."""


class Centred(pm.gp.cov.Covariance):
    """k(x, x') - E_s k(x, s) E_s k(s, x') / E_st k(s, t), with s and t from a measure."""

    # The covariance of f of one column if its mean under the measure is known to be zero.

    def __init__(self, base: pm.gp.cov.Covariance, measure: Measure) -> None:
        super().__init__(1)
        self.base, self.measure = base, measure

    def full(self, X: TensorLike, Xs: TensorLike | None = None) -> Tensor:
        """Covariance (n, m) of the points X (n, 1) with Xs, or with themselves."""
        left, total = self._means(X)
        right = left if Xs is None else self._means(Xs)[0]
        return self.base.full(X, Xs) - left[:, None] * right / total

    def diag(self, X: TensorLike) -> Tensor:
        """Variance (n,) at the points X (n, 1)."""
        left, total = self._means(X)
        return self.base.diag(X) - pt.sqr(left) / total

    def _means(self, X: TensorLike) -> tuple[Tensor, Tensor]:
        points, weights = self.measure.points[:, None], self.measure.weights
        within = pt.dot(weights, pt.dot(self.base.full(points, points), weights))
        return pt.dot(self.base.full(X, points), weights), within


@dataclass(frozen=True, eq=False)
class ZeroMean(Kernel):
    """k(x, x') - E_s k(x, s) E_s k(s, x') / E_st k(s, t), of points with one column."""

    kernel: Kernel
    measure: Measure

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        jet = self.kernel._jet(pairs, slots)
        points, weights = pt.constant(self.measure.points[:, None]), self.measure.weights
        total = pt.dot(weights, pt.dot(self.kernel.gram(points), weights))
        if pairs.matrix:
            each = pairs.map(lambda x: pt.dot(self.kernel.value(x, points), weights))
            return jet - each.x[:, None] * each.xs / total
        left, right = (self._mean(x, points, slots.count(slot)) for slot, x in enumerate(pairs[:2]))
        order = len(slots)
        left, right = (part.reshape((*part.shape, *[1] * order)) for part in (left, right))
        return (0.0 if jet is None else jet) - left * right / total

    def _mean(self, x: Tensor, points: Tensor, order: int) -> Tensor:
        """Derivative in x (..., 1) of E_s k(x, s), without its axes of one column, (...)."""
        each = self.kernel.derivative(x[..., None, :], points, order, 0)
        return pt.dot(each[(..., *[0] * order)], self.measure.weights)
