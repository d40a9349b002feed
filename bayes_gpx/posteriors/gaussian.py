"""The central formula: a Gaussian process conditioned on observed quantities.

For any linear operator L and observed quantities u,

    mean = K_Lu alpha          cov = K_LL - K_Lu C K_uL

`alpha` and `C` come from a posterior (`bayes_gpx.posteriors`). Covariances do not form C: it is
`root^-T root^-1` with a triangular root.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import solve, solve_root
from bayes_gpx.processes.base import KernelProcess, Process
from bayes_gpx.processes.operators import AtPoints, Derivative, Operator


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The posterior of an operator's values: symbolic, for one hyperparameter draw."""

    process: Process
    operator: Operator  # of m observations with c components
    u: Operator
    alpha: Any  # (n,)
    root: Any  # (n, n)

    @cached_property
    def K_Lu(self) -> Tensor:  # noqa: D102, N802
        return self.process.covariance(self.operator, self.u)

    @cached_property
    def mean(self) -> Tensor:
        """Obs-major, component-minor, (c m,)."""
        return pt.dot(self.K_Lu, self.alpha)

    @property
    def C(self) -> Tensor:  # noqa: N802
        """C, (n, n), for expectations of products."""
        return solve(self.root, pt.eye(self.alpha.shape[0]))

    @cached_property
    def mean_alone(self) -> Tensor:
        """`mean` of a gradient or Hessian, computed without `K_Lu`."""
        process, L = cast(KernelProcess, self.process), cast(AtPoints, self.operator)
        return process.summed(L, self.u, self.alpha[None]).reshape((-1,))

    def cross(self, value: "Gaussian") -> Tensor:
        """Covariance (m, c) of a derivative with `value`, f at its points, without `K_Lu`."""
        process, L = cast(KernelProcess, self.process), cast(Derivative, self.operator)
        gain = solve(self.root, value.K_Lu.T).T
        return process.cross(L) - process.summed(L, self.u, gain)

    @cached_property
    def _explained(self) -> Tensor:
        """root^-1 K_uL, (n, c m), with products that the data subtract from prior covariances."""
        return solve_root(self.root, self.K_Lu.T)

    @cached_property
    def variance(self) -> Tensor:
        """The diagonal of `cov` (c m,), computed without it; never negative."""
        explained = (self._explained**2).sum(axis=0)
        return pt.maximum(self.process.variance(self.operator) - explained, 0.0)

    @cached_property
    def block(self) -> Tensor:
        """Covariance of the components of each observation (m, c, c), computed without `cov`."""
        prior = self.process.block(self.operator)
        n = self._explained.shape[0]
        explained = self._explained.T.reshape((prior.shape[0], prior.shape[1], n))
        return prior - pt.matmul(explained, explained.transpose(0, 2, 1))

    @cached_property
    def cov(self) -> Tensor:
        """K_LL - K_Lu C K_uL, (c m, c m)."""
        return self.between(self)

    def between(self, other: "Gaussian") -> Tensor:
        """Covariance with another operator's values, K_LM - K_Lu C K_uM."""
        prior = self.process.covariance(self.operator, other.operator)
        return prior - pt.dot(self._explained.T, other._explained)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a process that was seen through the operator u; call it with an operator."""

    process: Process
    u: Operator
    y: Any  # (n,)
    alpha: Any  # (n,)
    root: Any  # (n, n), lower triangular, with C = root^-T root^-1

    def __call__(self, operator: Operator) -> Gaussian:
        """Posterior of the operator's values, a `Gaussian`."""
        return Gaussian(self.process, operator, self.u, self.alpha, self.root)
