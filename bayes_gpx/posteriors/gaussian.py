"""The central formula: a Gaussian process conditioned on observed quantities.

For any linear operator L and observed quantities u,

    mean = K_Lu alpha          cov = K_LL - K_Lu C K_uL

`alpha` and `C` come from a posterior (`bayes_gpx.posteriors`). C is never formed: it is `root^-T
root^-1` with a triangular root.
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
    """The posterior of an operator's values: symbolic, for one hyperparameter draw.

    Attributes
    ----------
    mean : tensor (c m,)
        Obs-major, component-minor.
    variance : tensor (c m,)
        The diagonal of `cov`, computed without it; never negative.
    block : tensor (m, c, c)
        Covariance between the components of each observation, computed without `cov`.
    cov : tensor (c m, c m)
    """

    process: Process
    operator: Operator
    u: Operator
    alpha: Any
    root: Any

    @cached_property
    def K_Lu(self) -> Tensor:  # noqa: D102, N802
        return self.process.covariance(self.operator, self.u)

    @cached_property
    def mean(self) -> Tensor:  # noqa: D102
        return pt.dot(self.K_Lu, self.alpha)

    @cached_property
    def mean_alone(self) -> Tensor:
        """`mean` of a gradient or Hessian, computed without `K_Lu`."""
        process, L = cast(KernelProcess, self.process), cast(AtPoints, self.operator)
        return process.summed(L, self.u, self.alpha[None]).reshape((-1,))

    def cross(self, value: "Gaussian") -> Tensor:
        """Covariance (m, c) of a gradient's or Hessian's components with f at the same points.

        `value` is the posterior of these f. Computed without `K_Lu`.
        """
        process, L = cast(KernelProcess, self.process), cast(Derivative, self.operator)
        gain = solve(self.root, value.K_Lu.T).T
        return process.cross(L) - process.summed(L, self.u, gain)

    @cached_property
    def _explained(self) -> Tensor:
        """root^-1 K_uL, (n, c m), with products that the data subtract from prior covariances."""
        return solve_root(self.root, self.K_Lu.T)

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        explained = (self._explained**2).sum(axis=0)
        return pt.maximum(self.process.variance(self.operator) - explained, 0.0)

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        prior = self.process.block(self.operator)
        n = self._explained.shape[0]
        explained = self._explained.T.reshape((prior.shape[0], prior.shape[1], n))
        return prior - pt.matmul(explained, explained.transpose(0, 2, 1))

    @cached_property
    def cov(self) -> Tensor:  # noqa: D102
        prior = self.process.covariance(self.operator, self.operator)
        return prior - pt.dot(self._explained.T, self._explained)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a process that was seen through the operator u.

    Call it with an operator to get that operator's posterior, a `Gaussian`.

    Attributes
    ----------
    process : Process
    u : Operator
    y : tensor (n,)
    alpha : tensor (n,)
    root : tensor (n, n)
        Lower triangular, with C = root^-T root^-1.
    """

    process: Process
    u: Operator
    y: Any
    alpha: Any
    root: Any

    def __call__(self, operator: Operator) -> Gaussian:
        """Posterior of the operator's values, a `Gaussian`."""
        return Gaussian(self.process, operator, self.u, self.alpha, self.root)
