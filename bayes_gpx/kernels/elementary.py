"""Kernels without a distance: constant, linear, and a user's own, differentiated automatically."""

from collections.abc import Callable
from dataclasses import dataclass

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import HIGHEST_ORDER, Kernel, Pairs, autodiff
from bayes_gpx.kernels.tensor_products import Slots


@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """k = variance."""

    variance: Tensor

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        return None if slots else self.variance


@dataclass(frozen=True, eq=False)
class LinearKernel(Kernel):
    """k = sum_a weights_a (x_a - center_a) (x'_a - center_a)."""

    center: Tensor
    weights: Tensor | float = 1.0

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        x, xs, matrix = pairs.map(lambda points: points - self.center)
        left = self.weights * x
        if matrix:
            return pt.dot(left, xs.T)
        mixed = pt.eye(x.type.shape[-1]) * self.weights
        rates = {(): (left * xs).sum(-1), (0,): self.weights * xs, (1,): left, (0, 1): mixed}
        return rates.get(slots)


@dataclass(frozen=True, eq=False)
class Automatic(Kernel):
    """k from its matrix of values, `covariance(X, Xs)`; derivatives by autodiff."""

    covariance: Callable
    name: str
    smoothness: float = HIGHEST_ORDER
    measured: bool = False

    def _jet(self, pairs: Pairs, slots: Slots) -> Tensor | None:
        self._require(slots)
        if pairs.matrix:
            return self.covariance(pairs.x, pairs.xs)
        return autodiff(lambda x, xs: self.covariance(x[None], xs[None])[0, 0], pairs[:2], slots)
