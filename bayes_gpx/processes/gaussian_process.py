"""Gaussian process priors: covariances of linear operators, for one hyperparameter draw.

A process answers three questions about operators L and M, each by its own cheap graph:
`covariance(L, M)`, the full matrix; `block(L)`, the covariance between the components of
each observation; `variance(L)`, the diagonal. The vector of an operator is obs-major and
component-minor.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.processes import covariance
from bayes_gpx.processes.base import Process, _diagonals


@dataclass(frozen=True)
class GaussianProcess(Process):
    """A zero-mean Gaussian process with a PyMC covariance function.

    Parameters
    ----------
    cov_func : pymc.gp.cov.Covariance
        Complete with its amplitude.
    """

    cov_func: Any

    @cached_property
    def kernel(self):
        """The covariance function as this package's kernel."""
        return from_pymc(self.cov_func)

    def _covariance(self, L, M):
        _refuse_weights(L, M)
        return covariance.covariance(self.kernel, L, M)

    def _variance(self, L):
        return _diagonals(self._block(L))

    def _block(self, L):
        _refuse_weights(L)
        return covariance.block(self.kernel, L)

    def _summed(self, L, M, weights):
        return covariance.summed(self.kernel, L, M, weights)

    def _cross(self, L):
        return covariance.cross(self.kernel, L)


def _refuse_weights(*operators):
    for operator in operators:
        if operator.kind in ("weight", "contribution"):
            raise ValueError(
                f"{operator.kind} is defined for a WeightProcess; a GaussianProcess has no "
                "weights. Ask for values or slopes, or use bx.GPX."
            )
