"""Several classes, conditioned on labels by Laplace's approximation, which couples them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import solve, solve_root, solve_upper
from bayes_gpx.posteriors.correlated import OfCorrelatedClass, covariances
from bayes_gpx.posteriors.evidence.softmax import gathered, spread
from bayes_gpx.posteriors.gaussian import Gaussian
from bayes_gpx.processes.base import KernelProcess, Process
from bayes_gpx.processes.operators import AtPoints, Operator


@dataclass(frozen=True, eq=False)
class OfOneClass(Gaussian):
    """As `Gaussian`, for one of several coupled classes, with separate and shared information."""

    # `root` is of K + D_c^-1; see `bayes_gpx.posteriors.evidence.softmax`.
    joint: Any = None  # (n, n), root of S

    @cached_property
    def alone(self) -> Gaussian:
        """As if all information were this class's own, D_c."""
        return Gaussian(self.process, self.operator, self.u, self.alpha, self.root)

    @cached_property
    def shared(self) -> Tensor:
        """Columns (n, c m) with products that are covariances of classes through each other."""
        back = solve_upper(self.root, self.alone._explained)
        return solve_root(self.joint, back)

    @property
    def C(self) -> Tensor:  # noqa: D102, N802
        alone = self.alone.C
        through = solve_root(self.joint, alone)
        return alone - pt.dot(through.T, through)

    @cached_property
    def variance(self) -> Tensor:  # noqa: D102
        return self.alone.variance + pt.sqr(self.shared).sum(axis=0)

    @cached_property
    def block(self) -> Tensor:  # noqa: D102
        return self.alone.block + self.block_beyond(self)

    def between(self, other: Any) -> Tensor:  # noqa: D102
        return self.alone.between(other.alone) + self.beyond_class(other)

    def beyond_class(self, other: Any) -> Tensor:
        """As `between`, with values of another class, which have no prior covariance."""
        return pt.dot(self.shared.T, other.shared)

    def cross(self, value: Any) -> Tensor:  # noqa: D102
        return self.alone.cross(value) + self.beyond(value)

    def with_value(self, other: OfOneClass) -> Tensor:
        """Covariances (m,) with another class's values at the same points."""
        return (self.shared * other.shared).sum(axis=0)

    def beyond(self, value: Gaussian) -> Tensor:
        """As `cross`, with f of another class, which has no prior covariance."""
        gain = solve(self.root, solve(self.joint, solve(value.root, value.K_Lu.T)))
        process, L = cast(KernelProcess, self.process), cast(AtPoints, self.operator)
        return process.summed(L, self.u, gain.T)

    def block_beyond(self, other: OfOneClass) -> Tensor:
        """Covariances (m, c, c) with another class's components of each observation."""
        m, n = cast(AtPoints, self.operator).x.shape[0], self.shared.shape[0]
        ours, theirs = (part.shared.T.reshape((m, -1, n)) for part in (self, other))
        return pt.matmul(ours, theirs.transpose(0, 2, 1))


def across(parts: Sequence[Any], joint: bool = False) -> tuple[Tensor, Tensor]:
    """Means (m C,) of all classes at each observation, and their covariances (m, C, C).

    `parts` has the posterior of one operator for each class, with one value for each observation.
    With `joint`, covariances are also between observations, (m C, m C).
    """
    mean = pt.stack([part.mean for part in parts], axis=1)
    if isinstance(parts[0], OfCorrelatedClass):
        return mean.ravel(), covariances(parts, joint)
    if joint:
        return mean.ravel(), _jointly(parts)
    variance = pt.stack([_alone(part).variance for part in parts], axis=1)
    cov = variance[:, :, None] * pt.eye(len(parts))
    if each := _shared(parts):
        shared = pt.stack(each).transpose(2, 0, 1)
        cov = cov + pt.matmul(shared, shared.transpose(0, 2, 1))
    return mean.ravel(), cov


def between_classes(ours: Sequence[Any], theirs: Sequence[Any]) -> Tensor:
    """Covariances (k, C, m, C) of two operators' values, (k,) and (m,), of all classes each."""

    def of_pair(c: int, k: int) -> Tensor:
        if isinstance(ours[c], OfCorrelatedClass):
            return ours[c].between(theirs[k])
        if c == k:
            return ours[c].between(theirs[k])
        if isinstance(ours[c], OfOneClass):
            return ours[c].beyond_class(theirs[k])
        return pt.zeros((ours[c].mean.shape[0], theirs[k].mean.shape[0]))

    labels = range(len(ours))
    rows = [pt.stack([of_pair(c, k) for k in labels], axis=2) for c in labels]
    return pt.stack(rows, axis=1)


def _jointly(parts: Sequence[Any]) -> Tensor:
    m, C = parts[0].mean.shape[0], len(parts)
    apart = pt.stack([_alone(part).cov for part in parts], axis=2)
    cov = (apart[:, :, :, None] * pt.eye(C)).transpose(0, 2, 1, 3).reshape((m * C, m * C))
    if each := _shared(parts):
        shared = pt.stack(each, axis=2).reshape((-1, m * C))
        cov = cov + pt.dot(shared.T, shared)
    return cov


def _alone(part: Any) -> Any:
    """A class's posterior without the information that classes share."""
    return part.alone if isinstance(part, OfOneClass) else part


def _shared(parts: Sequence[Any]) -> list[Tensor]:
    """What each class shares with the others, (n, m) each; [] where classes are independent."""
    return [part.shared for part in parts if isinstance(part, OfOneClass)]


@dataclass(frozen=True, eq=False)
class Coupled:
    """The joint posterior of C processes with one prior, given class labels at u."""

    process: Process
    u: Operator
    alpha: Any  # (n, C)
    # (C + 1, n, n), of K + D_c^-1 for each class, and of S; see
    # `bayes_gpx.posteriors.evidence.softmax`.
    root: Any
    p: Any  # (n, C), probabilities at the mode, times the weights of rows

    def of(self, label: TensorLike | None) -> Callable[[Operator], OfOneClass]:
        """One class's posterior: call it with an operator."""
        return lambda operator: OfOneClass(
            self.process,
            operator,
            self.u,
            self.alpha[:, label],
            self.root[label],
            self.root[-1],
        )

    def information(self, K: Tensor, values: Tensor, normal: Tensor) -> Tensor:
        """C times prior values (n, C) with the noise that labels have: (I + W K)^-1 (W f + A e).

        `normal` are standard normals e (n, C); With v the last factor, this is v - C K v.
        """
        v = spread(self.p, gathered(self.p, values) + normal)
        each = solve(self.root[:-1], pt.dot(K, v).T[:, :, None])
        between = solve(self.root[-1], each.sum(axis=0))
        within = each - solve(self.root[:-1], between[None])
        return v - within[:, :, 0].T
