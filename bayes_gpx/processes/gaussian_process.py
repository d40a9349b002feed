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
from bayes_gpx.processes.base import KernelProcess, diagonals, placed
from bayes_gpx.processes.operators import AtPoints, Components, Derivative, Gradient, Value


@dataclass(frozen=True)
class GaussianProcess(KernelProcess):
    """Define a zero-mean Gaussian process with a PyMC covariance function.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Including its amplitude.
    place : (int, int), optional
        Position among components, and their number: the process is this component, and has none of
        the others. By default, each summand of the kernel is a component.
    """

    cov_func: cov.BaseCovariance
    place: tuple[int, int] | None = None

    @cached_property
    def kernel(self) -> Kernel:
        """The covariance function as this package's kernel."""
        return from_pymc(self.cov_func)

    def _covariance(self, L: AtPoints, M: AtPoints) -> Tensor:
        K = covariance.covariance(self.kernel, self._asked(L), self._asked(M))
        for axis, one in enumerate((L, M)):
            if self.place and isinstance(one, Components):
                K = placed(K, self.place, axis)
        return K

    def _variance(self, L: AtPoints) -> Tensor:
        return diagonals(self._block(L))

    def _block(self, L: AtPoints) -> Tensor:
        block = covariance.block(self.kernel, self._asked(L))
        if self.place and isinstance(L, Components):
            return placed(placed(block, self.place, 1), self.place, 2)
        return block

    def _asked(self, L: AtPoints) -> AtPoints:
        """The operator; for components, the value that is one of them."""
        return Value(L.X) if self.place and isinstance(L, Components) else L

    def _summed(self, L: Derivative, M: Value, weights: Tensor) -> Tensor:
        return covariance.summed(self.kernel, L, M, weights)

    def summed_slopes(self, L: Gradient, M: Gradient, weights: Tensor) -> Tensor:  # noqa: D102
        return covariance.summed_slopes(self.kernel, L, M, weights)

    def cross(self, L: Derivative) -> Tensor:  # noqa: D102
        return covariance.cross(self.kernel, L)
