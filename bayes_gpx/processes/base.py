"""What processes share: prior covariances, blocks and variances of operators."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.processes.operators import (
    AtPoints,
    Composite,
    Derivative,
    Gradient,
    Operator,
    Stack,
    Value,
)

MOST_SUMS = 20
"""Most sums over points whose covariances are found one by one: each is a part of the graph."""


@dataclass(frozen=True, eq=False)
class WeightedSums(Composite):
    """Weighted sums of one operator over its points, group-major: (g c), of weights (m, g)."""

    weights: Tensor
    groups: int

    @property
    def of_slopes(self) -> bool:
        """Whether these are few sums, of gradients."""
        return isinstance(self.parts[0], Gradient) and self.groups <= MOST_SUMS

    def assembled(self, blocks: list[Tensor], axis: int) -> Tensor:  # noqa: D102
        values = blocks[0] if axis == 0 else blocks[0].T
        by_points = values.reshape((self.weights.shape[0], -1))
        found = pt.dot(self.weights.T, by_points).reshape((-1, values.shape[1]))
        return found if axis == 0 else found.T


class Process(ABC):
    """A zero-mean Gaussian process: prior covariances of operators."""

    @abstractmethod
    def covariance(self, L: Operator, M: Operator) -> Tensor:
        """Prior covariance matrix of L's values with M's, (len L, len M)."""

    @abstractmethod
    def variance(self, L: Operator) -> Tensor:
        """Prior variance of each of L's values, (len L,)."""

    @abstractmethod
    def block(self, L: Operator) -> Tensor:
        """Prior covariance between the components of each observation, (obs, c, c)."""


class KernelProcess(Process):
    """A process known by covariances of operators at points; they extend to composites."""

    def covariance(self, L: Operator, M: Operator) -> Tensor:  # noqa: D102
        if isinstance(L, WeightedSums) and isinstance(M, WeightedSums):
            if L.of_slopes and M.of_slopes:
                return self._between_sums(L, M)
        return bilinear(self._covariance, L, M)

    def _between_sums(self, L: WeightedSums, M: WeightedSums) -> Tensor:
        """As `covariance`, of weighted sums of gradients."""
        # Sums over pairs of points are products of matrices (m, n d), where the covariances of all
        # pairs would be d times as many numbers.
        ours, theirs = cast(Gradient, L.parts[0]), cast(Gradient, M.parts[0])
        columns = []
        for k in range(M.groups):
            slopes = self.summed_slopes(ours, theirs, M.weights[:, k][None])
            columns.append(pt.tensordot(L.weights.T, slopes, 1))  # (g, d, d)
        found = pt.stack(columns, axis=2)
        return found.reshape((found.shape[0] * found.shape[1], -1))

    def variance(self, L: Operator) -> Tensor:  # noqa: D102
        if isinstance(L, AtPoints):
            return self._variance(L)
        if isinstance(L, Stack):
            return pt.concatenate([self.variance(part) for part in L.parts])
        return pt.diagonal(self.covariance(L, L))

    def block(self, L: Operator) -> Tensor:  # noqa: D102
        if isinstance(L, AtPoints):
            return self._block(L)
        raise ValueError(
            "block is defined for one operator at points; a sum or stack of operators has no "
            "single component axis. Ask for `cov`, or for each operator's block."
        )

    def summed(self, L: AtPoints, M: Operator, weights: Tensor) -> Tensor:
        """Sum over M's values of weights (m | 1, len M) times their covariances with L, (m, c)."""
        # The matrix of covariances is not formed.
        if isinstance(L, Derivative) and isinstance(M, Value):
            return self._summed(L, M, weights)
        by_points = self.covariance(L, M).reshape((L.x.shape[0], -1, weights.shape[1]))
        return (by_points * weights[:, None]).sum(axis=2)

    @abstractmethod
    def summed_slopes(self, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:
        """Sum over M's points of weights (m | 1, n) times covariances of gradients, (m, d, d)."""

    @abstractmethod
    def cross(self, L: Derivative) -> Tensor:
        """Prior covariance of a gradient's or Hessian's components with f there, (m, c)."""

    @abstractmethod
    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        """As `covariance`, of operators at points."""

    @abstractmethod
    def _variance(self, L: AtPoints) -> Tensor:
        """As `variance`, of an operator at points."""

    @abstractmethod
    def _block(self, L: AtPoints) -> Tensor:
        """As `block`."""

    @abstractmethod
    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        """As `summed`, of a gradient or Hessian and values."""


def by_pairs(K: Tensor, factor: Tensor) -> Tensor:
    """Covariance K (m c, n c') of components at points, times a factor (m, n) of each pair."""
    m, n = factor.shape
    spread = K.reshape((m, K.shape[0] // m, n, K.shape[1] // n))
    return (spread * factor[:, None, :, None]).reshape(K.shape)


def placed(values: Tensor, place: tuple[int, int], axis: int) -> Tensor:
    """Replace each entry along an axis by c components: the i-th is the entry, others are 0."""
    i, c = place
    unit = np.eye(c)[i].reshape([-1 if a == axis + 1 else 1 for a in range(values.ndim + 1)])
    shape = [c * size if a == axis else size for a, size in enumerate(values.shape)]
    return (pt.expand_dims(values, axis + 1) * unit).reshape(shape)


def diagonals(block: Tensor) -> Tensor:
    """Variances (obs c,) from covariances within observations, (obs, c, c)."""
    return pt.diagonal(block, axis1=1, axis2=2).reshape((-1,))


def bilinear(of_pair: Callable, L: Operator, M: Operator) -> Tensor:
    """Covariance (len L, len M) of composites, from `of_pair` for two operators at points."""
    if isinstance(L, Composite):
        return L.assembled([bilinear(of_pair, part, M) for part in L.parts], axis=0)
    if isinstance(M, Composite):
        return M.assembled([bilinear(of_pair, L, part) for part in M.parts], axis=1)
    return of_pair(L, M)
