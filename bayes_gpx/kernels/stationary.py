"""Stationary kernels: functions of a scaled distance, with their derivatives."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel, Pairs
from bayes_gpx.kernels.distance import squared_distances
from bayes_gpx.kernels.profiles import RadialProfile
from bayes_gpx.kernels.tensor_products import (
    Differences,
    Slots,
    TensorProduct,
    chain,
    on_diagonal,
    sum_of_products,
)


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k = F_0(s^2), s^2 = sum_a (delta_a / lengthscale_a)^2, a function of delta = x - x'."""

    # F_0 is its profile's. With a period, delta_a stands for sin(pi (x_a - x'_a) / period_a), as in
    # PyMC's Periodic. The name is for messages.

    name: str
    lengthscale: Tensor
    profile: RadialProfile
    period: Tensor | None = None

    @property
    def smoothness(self) -> float:  # noqa: D102
        return self.profile.smoothness

    @property
    def measured(self) -> bool:
        """Whether its smoothness was found by differences."""
        return self.profile.measured

    def squared(self, X: Tensor, Xs: Tensor) -> Tensor:
        """Squared distances s^2 between all rows of X and of Xs, (n, m)."""
        if self.period is None and self.lengthscale.ndim == 0:
            s2 = squared_distances(X) if X is Xs else squared_distances(X, Xs)
            return s2 / pt.sqr(self.lengthscale)  # so that the data alone decide the distances
        scale = self.lengthscale + pt.zeros(X.type.shape[1] or X.shape[1])
        points = [X] if X is Xs else [X, Xs]
        if self.period is not None:
            # Periodic columns go around a circle. Whole periods are left out first, which is exact.
            angles = [2.0 * math.pi * pt.mod(p, self.period) / self.period for p in points]
            points = [0.5 * pt.concatenate([pt.cos(a), pt.sin(a)], axis=1) for a in angles]
            scale = pt.concatenate([scale, scale])
        return squared_distances(*points, scale=scale)

    def _rates(self, delta: Tensor) -> tuple[Tensor, Callable[[int], Tensor | None]]:
        """Return s^2, and a function from an order to that derivative of s^2 / 2; None is 0."""
        metric = pt.sqr(1.0 / self.lengthscale)
        if self.period is None:
            rates, sine = {1: delta, 2: np.ones(delta.type.shape[-1])}, delta
        else:
            rate = math.pi / self.period
            wave, turn = pt.sin(2.0 * rate * delta), pt.cos(2.0 * rate * delta)
            sine, rates = pt.sin(rate * delta), {1: 0.5 * rate * wave, 2: pt.sqr(rate) * turn}
            rates |= {3: -2.0 * rate**3 * wave, 4: -4.0 * rate**4 * turn}

        def inner(order: int) -> Tensor | None:
            each = rates.get(order)
            return None if each is None else on_diagonal(each * metric, order, delta.type.shape[-1])

        return pt.sqr(sine / self.lengthscale).sum(-1), inner

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        if pairs.matrix:
            return self.profile.radial(self.squared(pairs.x, pairs.xs), 0)
        if not slots and pairs.x is pairs.xs:
            return self.profile.radial(pt.zeros_like(pairs.x[..., 0], "float64"), 0)
        return sum_of_products(self._chained(pairs, slots), len(slots))

    def _terms(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        if slots == (0,) and self.period is None:
            return self._gradient_terms(pairs)
        return self._chained(pairs, slots) if slots else super()._terms(pairs, slots)

    def _gradient_terms(self, pairs: Pairs) -> list[TensorProduct]:
        """Terms of the gradient in x, both sides relative to xs[0]: exactly 0 if all are equal."""
        self._require((0,), once=True)
        x, xs = pairs.x[:, 0], pairs.xs[0]
        rate, metric = -self.profile.radial(self.squared(x, xs), 1), pt.sqr(self.lengthscale)
        return [[(rate, ()), (Differences((x - xs[0]) / metric, (xs - xs[0]) / metric), (0,))]]

    def _chained(self, pairs: Pairs, slots: Slots) -> list[TensorProduct]:
        """Terms of a derivative of F_0, with k-th derivative (-1)^k F_k in s^2 / 2."""
        self._require(slots, once=True)
        s2, rate = self._rates(pairs.x - pairs.xs)

        def inner(slots: Slots) -> Tensor | None:
            each = rate(len(slots))
            return -each if each is not None and sum(slots) % 2 else each

        return chain(lambda k: (-1) ** k * self.profile.radial(s2, k), inner, slots)
