"""Derivatives of a new row's predictive mean and variance in its features, for one draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.sparse_products import weighed_squares
from bayes_gpx.posteriors.base import Asked, OneDraw
from bayes_gpx.posteriors.correlated import OfCorrelatedClass
from bayes_gpx.posteriors.softmax import OfOneClass
from bayes_gpx.processes import operators
from bayes_gpx.processes.basis_process import own_variances
from bayes_gpx.processes.operators import Operator


@dataclass(frozen=True)
class Sensitivity:
    """Mean m and variance V of f at new points, with their derivatives: a build function.

    With f_d and f_de short for the derivatives of f, given y, the central formula yields

        m_d = E f_d           V_d = 2 Cov(f_d, f)
        m_de = E f_de         V_de = 2 Cov(f_de, f) + 2 Cov(f_d, f_e)

    In a GPX f contains the new row's `eps_w`, except with `smooth`: V then adds ``sum_l sigma_w,l^2
    z_l^2``, which changes with x if z is x. The variance of Hessians is never needed.
    """

    order: int  # 0, 1 or 2
    tied: bool  # Z is X, perhaps with a last column of ones
    smooth: bool = False  # only z' g(x)

    def __call__(self, draw: OneDraw, label: TensorLike | None = None) -> list[Tensor]:
        """Return m and V (m,); then m_d and V_d (m, d); then m_de and V_de (m, d, d)."""
        q: Callable[[Operator], Any] = draw.posterior(label)
        asked = cast(Asked, draw.asked)
        x, z = asked.points, asked.Z_along if self.tied else asked["Z"]
        shape = tuple(asked["X"].shape)
        value = operators.evaluate(x, z, smooth=True)
        f = q(value)
        found = [f.mean, f.variance]
        if self.order > 0:
            slope = q(operators.gradient(x, z, tied=self.tied))
            mean = slope.mean_alone if self.order == 1 else slope.mean
            found += [mean.reshape(shape), 2.0 * slope.cross(f)]
        if self.order > 1:
            bend = q(operators.hessian(x, z, tied=self.tied))
            with_value = _symmetric(bend.cross(f), shape)
            found += [_symmetric(bend.mean_alone, shape), 2.0 * (with_value + slope.block)]
        spread = own_variances(draw.given.process, value)
        if spread is None or self.smooth:
            return found
        found[1] = found[1] + weighed_squares(z, spread)
        if self.tied and self.order > 0:
            d = asked["X"].type.shape[1]
            rate = 2.0 * pt.atleast_2d(spread * pt.ones(z.shape[1]))[:, :d]
            found[3] = found[3] + rate * asked["X"]
            if self.order > 1:
                found[5] = found[5] + rate[:, :, None] * pt.eye(d)
        return found


@dataclass(frozen=True)
class ClassSensitivity:
    """As `Sensitivity`, for several classes: means, and covariances between classes.

    With j and k for classes, V_jk = Cov(f_j, f_k) has the derivatives

        V_jk,d = Cov(f_j,d, f_k) + Cov(f_j, f_k,d)
        V_jk,de = Cov(f_j,de, f_k) + Cov(f_j,d, f_k,e) + Cov(f_j,e, f_k,d) + Cov(f_j, f_k,de)

    For j = k these are `Sensitivity`'s, and for independent classes they are 0.
    """

    order: int
    tied: bool
    smooth: bool = False

    def __call__(self, draw: OneDraw) -> list[Tensor]:
        """Return arrays as `Sensitivity`, with last dims (C,) of means and (C, C) of variances."""
        classes: Sequence[Any] = draw.given.labels
        asked = cast(Asked, draw.asked)
        each = Sensitivity(self.order, self.tied, self.smooth)
        own = [each(draw, label) for label in classes]
        means = [pt.stack(parts, axis=-1) for parts in list(zip(*own, strict=True))[::2]]
        spreads = [
            pt.stack(parts, axis=-1)[..., None] * pt.eye(len(own))
            for parts in list(zip(*own, strict=True))[1::2]
        ]
        parts = [self._parts(draw.posterior(label), asked) for label in classes]
        if not isinstance(parts[0][0], OfOneClass | OfCorrelatedClass):
            return [part for pair in zip(means, spreads, strict=True) for part in pair]
        found = [pt.zeros_like(spread) for spread in spreads]
        for j in classes:
            for k in range(j):
                for which, between in enumerate(self._between(parts[j], parts[k], asked)):
                    found[which] = found[which][..., j, k].set(between)
                    found[which] = found[which][..., k, j].set(between)
        spreads = [spread + between for spread, between in zip(spreads, found, strict=True)]
        return [part for pair in zip(means, spreads, strict=True) for part in pair]

    def _parts(self, q: Callable[[Operator], Any], asked: Asked) -> list[Any]:
        x, z = asked.points, asked.Z_along if self.tied else asked["Z"]
        wanted: list[Operator] = [operators.evaluate(x, z, smooth=True)]
        if self.order > 0:
            wanted.append(operators.gradient(x, z, tied=self.tied))
        if self.order > 1:
            wanted.append(operators.hessian(x, z, tied=self.tied))
        return [q(operator) for operator in wanted]

    def _between(self, ours: Sequence[Any], theirs: Sequence[Any], asked: Asked) -> list[Tensor]:
        """Covariance of two classes' values, and its derivatives."""
        f, other, shape = ours[0], theirs[0], tuple(asked["X"].shape)
        found = [f.with_value(other)]
        if self.order > 0:
            found.append(ours[1].beyond(other) + theirs[1].beyond(f))
        if self.order > 1:
            block = ours[1].block_beyond(theirs[1])
            bends = ours[2].beyond(other) + theirs[2].beyond(f)
            found.append(_symmetric(bends, shape) + block + block.transpose(0, 2, 1))
        return found


def _symmetric(pairs: Tensor, shape: tuple) -> Tensor:
    """Numbers for pairs of features as (m, d, d), symmetric to the last digit."""
    square = pairs.reshape((*shape, shape[1]))
    return 0.5 * (square + square.transpose(0, 2, 1))
