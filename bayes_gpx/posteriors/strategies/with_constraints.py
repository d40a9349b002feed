"""Constraints with a Gaussian likelihood, on all rows or through coefficients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import cholesky, solve, solve_root
from bayes_gpx.posteriors.base import (
    CONSTRAINED,
    Collapsed,
    Conditioning,
    Found,
    GroupsLeft,
    LeftOut,
    Values,
)
from bayes_gpx.posteriors.constraints import Constraints, joint_logp, sites, with_sites
from bayes_gpx.posteriors.evidence.groups import Precision, groups_left_out
from bayes_gpx.posteriors.evidence.normal import (
    leave_one_out,
    low_rank_leave_one_out,
    low_rank_logp,
)
from bayes_gpx.posteriors.evidence.row_bounds import Coefficients, best_normal
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.left_out import groups_of_normal, with_normal_noise
from bayes_gpx.posteriors.strategies.low_rank import LowRankNormal, groups_through_coefficients
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.posteriors.strategies.through_coefficients import ThroughCoefficients
from bayes_gpx.processes.operators import Operator


class WithConstraints(Collapsed):
    """Gaussian likelihood, with an additional row for each constraint.

    Bounds are sites of expectation propagation from the full fit, also if rows are left out; or
    values, if a draw contains those.
    """

    plain: ClassVar[type[Collapsed]]
    """The strategy for data without constraints."""

    def around(
        self, given: Conditioning, constraints: Constraints | None
    ) -> Callable[[Operator], Values]:
        """The posterior given the data and such constraints in the place of all."""
        strategy = self.plain() if constraints is None else self
        given = replace(given, constraints=constraints)
        return strategy.posterior(given, strategy.condition(given))

    def _bounds(self, given: Conditioning) -> list[Tensor]:
        """Bounds (k,), the same where a value is known or was drawn."""
        known = cast(Constraints, given.constraints)
        bounds: list[Tensor] = [pt.constant(bound) for bound in (known.low, known.high)]
        if CONSTRAINED not in given.theta:
            return bounds
        own = np.flatnonzero(known.low < known.high)
        return [bound[own].set(given.theta[CONSTRAINED]) for bound in bounds]

    def log_density(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        """Log density of y given the constraints."""
        joint = self._joint_logp(likelihood, y, *parts)
        return pt.switch(pt.isinf(joint), -np.inf, joint - self.log_constraint(*parts))

    @abstractmethod
    def _joint_logp(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        """Log density of y and probability, or density, of the constraints."""

    def log_constraint(self, *parts: Tensor) -> Tensor:
        """Log prior probability of the constraints, or density of constraints that are values."""
        C, low, high = self.constraint_covariance(*parts), *parts[-2:]
        return joint_logp(C, pt.zeros(0), low, high)

    @abstractmethod
    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        """Prior covariance of constrained quantities, noise included, (k, k)."""


def joint_covariance(given: Conditioning, sigma: TensorLike, **added: TensorLike) -> Tensor:
    """Covariance of values at rows, with noise of sd sigma, and of constrained quantities.

    Which have the noise of the constraints; `added` is a ridge or a jitter of `noisy_covariance`.
    """
    sd = sigma * pt.ones(given.y.shape[0])
    if given.constraints is not None:
        sd = pt.concatenate([sd, given.constraints.sd])
    return noisy_covariance(given.process, given.known, sd, given.Z, **added)


class ExactWithConstraints(OnRows, WithConstraints):
    """Constraints with a Gaussian likelihood on every row."""

    plain = Exact

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [self._covariance(given, ridge=ridge), *self._bounds(given)]

    def _covariance(self, given: Conditioning, **added: TensorLike) -> Tensor:
        """Covariance of y and of constrained quantities, noise included."""
        return joint_covariance(given, given.theta["sigma"], **added)

    def signature(self, likelihood: Likelihood) -> str:
        return "(m,m),(k),(k)"

    def _joint_logp(
        self, likelihood: Likelihood, y: Tensor, C: Tensor, low: Tensor, high: Tensor
    ) -> Tensor:  # noqa: N803
        return joint_logp(C, y, low, high)

    def constraint_covariance(self, C: Tensor, low: Tensor, high: Tensor) -> Tensor:  # noqa: N803
        n = C.shape[0] - low.shape[0]
        return C[n:, n:]

    def condition(self, given: Conditioning) -> Found:
        y, C, _ = self._seen(given)
        root = cholesky(C)
        return Found(solve(root, y), root)

    def _seen(self, given: Conditioning) -> tuple[Tensor, Tensor, Tensor]:
        """Observations and constraints as sites; their covariance; logs of the sites' factors."""
        C = self._covariance(given, jitter=given.jitter)
        found = sites(C, given.y, *self._bounds(given))
        return *with_sites(C, given.y, found), found.log_factor

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        y, C, log_factor = self._seen(given)
        prior = self._covariance(given, jitter=given.jitter)
        constraints = self.log_constraint(prior, *self._bounds(given))
        joint, mean, variance = leave_one_out(y, C)
        n = given.y.shape[0]
        return with_normal_noise(given, joint + log_factor - constraints, mean[:n], variance[:n])

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        y, C, _ = self._seen(given)
        n, precision = given.y.shape[0], Precision.of(C)
        alpha = pt.dot(precision.H.T, pt.dot(precision.H, y))[:n]
        own = Precision(precision.own[:n], precision.H[:, :n], precision.sign)
        return groups_of_normal(given, *groups_left_out(own, alpha, groups))


class BasisWithConstraints(ThroughCoefficients, WithConstraints):
    """Constraints with a Gaussian likelihood and basis functions."""

    plain = LowRankNormal

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        return self.plain().design(given)

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen, constrained = self.design(given), given.constrained
        G, V = seen.design(constrained), pt.constant(cast(Constraints, given.constraints).sd ** 2)
        if seen.rest:  # what inducing values leave of a constrained quantity is like noise
            left = given.process.variance(constrained) - pt.sqr(G).sum(axis=1)
            V = V + pt.maximum(left, 0.0)
        penalty = 0.5 * (seen.unseen / seen.D).sum()
        return [seen.F, seen.D + ridge, penalty, G, V, *self._bounds(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return "(n,m),(n),(),(k,m),(k),(k),(k)"

    def constraint_covariance(
        self, F: Tensor, D: Tensor, penalty: Tensor, G: Tensor, V: Tensor, low: Tensor, high: Tensor
    ) -> Tensor:  # noqa: N803
        return pt.dot(G, G.T) + pt.diag(V)

    def _joint_logp(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        y, F, D, log_factor = self._seen(y, *parts)
        evidence = low_rank_logp(y, F, D) + log_factor - parts[2]
        return pt.switch(pt.isinf(log_factor), -np.inf, evidence)

    def _seen(
        self,
        y: Tensor,
        F: Tensor,
        D: Tensor,
        penalty: Tensor,
        G: Tensor,
        V: Tensor,
        low: Tensor,
        high: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # noqa: N803
        """All that is observed, constraints as sites; how it depends on coefficients; log factors.

        The rows are F (n, M), with noise of variance D (n,), the constraints G (k, M), with V (k,).
        """
        q = _best_of(F, D, y)
        mean, half = pt.dot(G, q.mean), solve_root(q.root, G.T)
        C = pt.dot(half.T, half) + pt.diag(V)
        found = sites(C, pt.zeros(0), low - mean, high - mean)
        # Sites are what they are: where the density is differentiated, too.
        y = pt.concatenate([y, disconnected_grad(mean + found.mean)])
        return y, pt.concatenate([F, G]), pt.concatenate([D, V + found.variance]), found.log_factor

    def condition(self, given: Conditioning) -> Found:
        y, F, D, _ = self._seen(given.y, *self.parts(given))
        return Found(*_best_of(F, D, y))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        return LowRank(self.design(given), found.alpha, found.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        parts = self.parts(given)
        y, F, D, log_factor = self._seen(given.y, *parts)
        joint, mean, variance = low_rank_leave_one_out(y, F, D)
        evidence, n = joint + log_factor - self.log_constraint(*parts) - parts[2], given.y.shape[0]
        unseen = self.design(given).unseen
        return with_normal_noise(given, evidence, mean[:n], variance[:n] + unseen)

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        return groups_through_coefficients(given, self.design(given), self.condition(given), groups)


def _best_of(F: Tensor, D: Tensor, y: Tensor) -> Coefficients:  # noqa: N803
    """`best_normal` of arrays of all rows."""
    f, d, of_y = (v.type.clone(shape=(None, *v.type.shape[1:]))() for v in (F, D, y))
    return best_normal(f, d, of_y, {f: F, d: D, of_y: y})
