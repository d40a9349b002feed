"""Processes of several classes: functions that correlate, of the same kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky
from bayes_gpx.processes.base import KernelProcess, Process
from bayes_gpx.processes.operators import Operator


@dataclass(frozen=True)
class ClassProcess(Process):
    """C functions with ``Cov(f_c(x), f_k(x')) = sum_s shared[s, c, k] K_s(x, x')``."""

    # The intrinsic model of coregionalization, for each summand s of a kernel. Operators apply to
    # every class: the class is the last and fastest axis of their values.

    parts: Sequence[KernelProcess]  # with the covariances K_s
    shared: Tensor  # (S, C, C), positive definite

    def covariance(self, L: Operator, M: Operator) -> Tensor:  # noqa: D102
        K, C = [part.covariance(L, M) for part in self.parts], self.shared.shape[1]
        flat = sum(pt.outer(K_s.ravel(), self.shared[s].ravel()) for s, K_s in enumerate(K))
        by_class = cast(Tensor, flat).reshape((*K[0].shape, C, C)).transpose(0, 2, 1, 3)
        return by_class.reshape((by_class.shape[0] * C, by_class.shape[2] * C))

    def variance(self, L: Operator) -> Tensor:  # noqa: D102
        own = pt.diagonal(self.shared, axis1=1, axis2=2)
        return self.summed(lambda part: part.variance(L)[:, None], own).ravel()

    def block(self, L: Operator) -> Tensor:  # noqa: D102
        total = self.summed(
            lambda part: part.block(L)[:, :, None, :, None], self.shared[:, :, None]
        )
        m, c, C = total.shape[:3]
        return total.reshape((m, c * C, c * C))

    def between(self, of_part: Callable[[KernelProcess], Tensor], c: int, k: int) -> Tensor:
        """What is linear in a prior covariance, as of one part, for the classes c and k."""
        return self.summed(of_part, self.shared[:, c, k])

    def summed(self, of_part: Callable[[KernelProcess], Tensor], weights: Tensor) -> Tensor:
        """Sum over the parts of a function of each part, with separate weights."""
        return cast(Tensor, sum(weights[s] * of_part(p) for s, p in enumerate(self.parts)))

    def times(self, K: Tensor, values: Tensor) -> Tensor:
        """The covariance of observations by their parts' (S, n, n), times values (n, C)."""
        each = [pt.dot(pt.dot(K[s], values), B) for s, (_, B) in enumerate(self.each())]
        return cast(Tensor, sum(each))

    def each(self) -> list[tuple[KernelProcess, Tensor]]:
        """The parts with their covariances between classes, (C, C)."""
        return [(part, self.shared[s]) for s, part in enumerate(self.parts)]

    def mixing(self) -> list[tuple[KernelProcess, Tensor]]:
        """The parts with what mixes independent columns (n, C) of them: roots of `each`, turned."""
        return [(part, cholesky(shared).T) for part, shared in self.each()]


@dataclass(frozen=True)
class SeparateProcesses(ClassProcess):
    """C independent functions: each part is the process of one of them."""

    of: Callable[[TensorLike], Any]  # the process of a function's code, also symbolic

    @classmethod
    def made_by(cls, of: Callable[[TensorLike], Any], size: int) -> Self:
        """From the process of each function's code."""
        shared = np.eye(size)[:, :, None] * np.eye(size)
        return cls([of(code) for code in range(size)], pt.constant(shared), of)

    def mixing(self) -> list[tuple[KernelProcess, Tensor]]:  # noqa: D102
        return self.each()
