"""Gaussian process priors: covariances of linear operators, for one hyperparameter draw."""

# A process answers three questions about operators L and M, each by its own cheap graph:
# `covariance(L, M)`, the full matrix; `block(L)`, the covariance between the components of each
# observation; `variance(L)`, the diagonal. The vector of an operator is obs-major and
# component-minor.

from dataclasses import dataclass
from functools import cached_property

from pymc.gp import cov

from bayes_gpx.aliases import Tensor
from bayes_gpx.kernels.base import Kernel
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.processes import covariance
from bayes_gpx.processes.base import KernelProcess, diagonals
from bayes_gpx.processes.operators import AtPoints, Derivative, Value


@dataclass(frozen=True)
class GaussianProcess(KernelProcess):
    """Define a zero-mean Gaussian process with a PyMC covariance function.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Including its amplitude.
    """

    cov_func: cov.BaseCovariance

    @cached_property
    def kernel(self) -> Kernel:
        """The covariance function as this package's kernel."""
        return from_pymc(self.cov_func)

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        return covariance.covariance(self.kernel, L, M)

    def _variance(self, L: AtPoints) -> Tensor:
        return diagonals(self._block(L))

    def _block(self, L: AtPoints) -> Tensor:
        return covariance.block(self.kernel, L)

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        return covariance.summed(self.kernel, L, M, weights)

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return covariance.cross(self.kernel, L)
