"""Several classes, conditioned on labels by Laplace's approximation, which couples them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import solve, solve_root
from bayes_gpx.posteriors.evidence.softmax import factor
from bayes_gpx.posteriors.gaussian import Gaussian
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.operators import Operator


@dataclass(frozen=True, eq=False)
class OfOneClass(Gaussian):
    """As `Gaussian`, for one of several coupled classes.

    Attributes
    ----------
    row : tensor (n, C)
        That class's rows of the factors A of the information at the observations.
    """

    row: Any = None

    @cached_property
    def _explained(self):
        return solve_root(self.root, self._informed(self.K_Lu.T))

    def _informed(self, K_uL):
        """A' K_uL for this class alone, (n C, c m)."""
        informed = self.row[:, :, None] * K_uL[:, None]
        return informed.reshape((informed.shape[0] * informed.shape[1], -1))

    def cross(self, value):  # noqa: D102
        return self.process.cross(self.operator) + self.beyond(value)

    def beyond(self, value):
        """As `cross`, with f of another class, with which there is no prior covariance."""
        gain = solve(self.root, value._informed(value.K_Lu.T))
        gain = (gain.reshape((*self.row.shape, -1)) * self.row[:, :, None]).sum(axis=1)
        return -self.process.summed(self.operator, self.u, gain.T)

    def block_beyond(self, other):
        """Covariances (m, c, c) with another class's components of each observation."""
        m, n = pt.as_tensor_variable(self.operator.X).shape[0], self._explained.shape[0]
        ours, theirs = (part._explained.T.reshape((m, -1, n)) for part in (self, other))
        return -pt.matmul(ours, theirs.transpose(0, 2, 1))


def across(parts: Sequence[Gaussian], joint: bool = False) -> tuple[Tensor, Tensor]:
    """Means (m C,) of all classes at each observation, and their covariances (m, C, C).

    Parameters
    ----------
    parts : list
        The posterior of one operator for each class, its values one for each observation.
    joint : bool
        Covariances between observations too, (m C, m C).
    """
    if joint:
        return _jointly(parts)
    mean = pt.stack([part.mean for part in parts], axis=1)
    eye = pt.eye(len(parts))
    if not isinstance(parts[0], OfOneClass):
        variance = pt.stack([part.variance for part in parts], axis=1)
        return mean.ravel(), variance[:, :, None] * eye
    explained = pt.stack([part._explained for part in parts]).transpose(2, 0, 1)
    prior = parts[0].process.variance(parts[0].operator)[:, None, None] * eye
    return mean.ravel(), prior - pt.matmul(explained, explained.transpose(0, 2, 1))


def _jointly(parts):
    mean = pt.stack([part.mean for part in parts], axis=1).ravel()
    m, C, eye = parts[0].mean.shape[0], len(parts), pt.eye(len(parts))
    if not isinstance(parts[0], OfOneClass):
        apart = pt.stack([part.cov for part in parts], axis=2)
        cov = apart[:, :, :, None] * eye
        return mean, cov.transpose(0, 2, 1, 3).reshape((m * C, m * C))
    operator = parts[0].operator
    prior = pt.linalg.kron(parts[0].process.covariance(operator, operator), eye)
    explained = pt.stack([part._explained for part in parts], axis=2).reshape((-1, m * C))
    return mean, prior - pt.dot(explained.T, explained)


@dataclass(frozen=True, eq=False)
class Coupled:
    """The joint posterior of C processes with one prior, seen through labels at u.

    Attributes
    ----------
    process : Process
    u : Operator
    alpha : tensor (n, C)
    root : tensor (n C, n C)
        See `bayes_gpx.posteriors.evidence.softmax`.
    y : tensor (n,)
        Codes.
    """

    process: Process
    u: Operator
    alpha: Any
    root: Any
    y: Any

    @cached_property
    def A(self):  # noqa: N802
        """Factors (n, C, C) of the information, whose probabilities are one-hot y less alpha."""
        own = pt.eq(self.y[:, None], pt.arange(self.alpha.shape[1]))
        return factor(pt.maximum(own - self.alpha, 0.0), pt.eye)

    def of(self, label):
        """One class's posterior: call it with an operator."""
        return lambda operator: OfOneClass(
            self.process,
            operator,
            self.u,
            self.alpha[:, label],
            self.root,
            self.A[:, label],
        )

    def information(self, values, normal):
        """A B^-1 (A' values + normal), (n, C), of prior values (n, C), standard normals (n C,)."""
        own = (self.A * values[:, :, None]).sum(axis=1).ravel() + normal
        back = solve(self.root, own).reshape(values.shape)
        return (self.A * back[:, None, :]).sum(axis=2)
