"""Several a priori correlated classes, conditioned on class labels or on latent values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import solve_root, solve_upper
from bayes_gpx.posteriors.evidence.softmax import gathered, spread
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.operators import Derivative, Operator


@dataclass(frozen=True, eq=False)
class Correlated:
    """The joint posterior of C correlated processes, observed at u."""

    process: ClassProcess
    u: Operator
    alpha: Any  # (n, C)
    # (n C, n C), lower triangular. For observed labels the root of I + A' K A, see
    # `bayes_gpx.posteriors.evidence.correlated`; for observed latent values the root of K.
    root: Any
    p: Any = None  # (n, C), probabilities that make A; None for observed latent values

    def of(self, label: TensorLike | None) -> Any:
        """One class's posterior: call it with an operator."""
        return lambda operator: OfCorrelatedClass(self, operator, label)

    def half(self, values: Tensor) -> Tensor:
        """Columns (n C, m), from values (n, C, m): their squares are values' C values."""
        if self.p is not None:
            values = gathered(self.p[:, :, None], values)
        return solve_root(self.root, values.reshape((-1, values.shape[2])))

    def weighed(self, values: Tensor) -> Tensor:
        """C times values (n, C, m)."""
        back = solve_upper(self.root, self.half(values))
        back = back.reshape(values.shape)
        return back if self.p is None else spread(self.p[:, :, None], back)

    def information(self, K: Tensor, values: Tensor, normal: Tensor) -> Tensor:
        """As `bayes_gpx.posteriors.softmax.Coupled.information`, with K (S, n, n)."""
        v = spread(self.p, gathered(self.p, values) + normal)
        return v - self.weighed(self.process.times(K, v)[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class OfCorrelatedClass:
    """The posterior of an operator's values for one class; see `Gaussian`."""

    joint: Correlated
    operator: Operator
    label: Any

    def _prior(self, of_part: Callable[[Any], Tensor], other: OfCorrelatedClass) -> Tensor:
        return self.joint.process.between(of_part, self.label, other.label)

    @cached_property
    def K_uL(self) -> Tensor:  # noqa: N802
        """Prior covariance of the observations with the requested values, (n, C, m c)."""
        u, L = self.joint.u, self.operator
        own = self.joint.process.shared[:, self.label]
        return self.joint.process.summed(
            lambda part: part.covariance(L, u).T[:, None, :], own[:, None, :, None]
        )

    @cached_property
    def _explained(self) -> Tensor:
        """Columns (n C, m c) with products that the data subtract from prior covariances."""
        return self.joint.half(self.K_uL)

    @cached_property
    def mean(self) -> Tensor:  # noqa: D102
        return self._by_alpha(lambda part, alpha: pt.dot(self._seen_by(part), alpha))

    def _seen_by(self, part: Process) -> Tensor:
        return part.covariance(self.operator, self.joint.u)

    @cached_property
    def mean_alone(self) -> Tensor:
        """`mean` of a gradient or Hessian, computed without covariances of all its values."""
        return self._by_alpha(
            lambda part, alpha: part.summed(self.operator, self.joint.u, alpha[None]).ravel()
        )

    def _by_alpha(self, of_part: Callable[[Any, Tensor], Tensor]) -> Tensor:
        alpha = self.joint.alpha
        each = (
            of_part(part, pt.dot(alpha, shared[:, self.label]))
            for part, shared in self.joint.process.each()
        )
        return cast(Tensor, sum(each))

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        prior = self._prior(lambda part: part.variance(self.operator), self)
        return pt.maximum(prior - pt.sqr(self._explained).sum(axis=0), 0.0)

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        return self.block_beyond(self)

    @cached_property
    def cov(self) -> Tensor:  # noqa: D102
        return self.between(self)

    def with_value(self, other: OfCorrelatedClass) -> Tensor:
        """Covariances (m,) of this class's values with another's at the same points."""
        prior = self._prior(lambda part: part.variance(self.operator), other)
        return prior - (self._explained * other._explained).sum(axis=0)

    def between(self, other: OfCorrelatedClass) -> Tensor:
        """Covariances with an operator's values of another class."""
        L, M = self.operator, other.operator
        prior = self._prior(lambda part: part.covariance(L, M), other)
        return prior - pt.dot(self._explained.T, other._explained)

    def block_beyond(self, other: OfCorrelatedClass) -> Tensor:
        """Covariances (m, c, c) with another class's components of each observation."""
        prior = self._prior(lambda part: part.block(self.operator), other)
        m, _, c = prior.shape
        ours, theirs = (part._explained.T.reshape((m, c, -1)) for part in (self, other))
        return prior - pt.matmul(ours, theirs.transpose(0, 2, 1))

    def cross(self, value: OfCorrelatedClass) -> Tensor:
        """Covariance (m, c) of a gradient's or Hessian's components with f at the same points."""
        return self.beyond(value)

    def beyond(self, value: OfCorrelatedClass) -> Tensor:
        """As `cross`, with f of another class."""
        L, u = cast(Derivative, self.operator), self.joint.u
        gain = self.joint.weighed(value.K_uL)
        found = self._prior(lambda part: part.cross(L), value)
        for part, shared in self.joint.process.each():
            own = (gain * shared[:, self.label][:, None]).sum(axis=1)
            found = found - part.summed(L, u, own.T)
        return found


def covariances(parts: Sequence[OfCorrelatedClass], joint: bool) -> Tensor:
    """Covariances (m, C, C) of all classes at each observation, or of all values, (m C, m C)."""
    rows = [[ours.between(o) if joint else ours.with_value(o) for o in parts] for ours in parts]
    if not joint:
        return pt.stack([pt.stack(row, axis=1) for row in rows], axis=1)
    whole = pt.stack([pt.stack(row, axis=2) for row in rows], axis=1)  # (m, C, m, C)
    size = whole.shape[0] * whole.shape[1]
    return whole.reshape((size, size))
