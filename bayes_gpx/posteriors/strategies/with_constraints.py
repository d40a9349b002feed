"""Constraints beside rows, each a further observation; with normal noise on all rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import cholesky, solve
from bayes_gpx.posteriors.base import CONSTRAINED, Conditioning, Found, Values
from bayes_gpx.posteriors.constraints import Constraints, joint_logp, sites, with_sites
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.normal import left_out
from bayes_gpx.posteriors.evidence.sites import Sites, normal_sites
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.posteriors.strategies.collapsed import Collapsed, noise_of
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.on_rows import OnRows
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
        return joint_covariance(given, given.noise_sd, **added)

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

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        y, C, log_factor = self._seen(given)
        prior = self._covariance(given, jitter=given.jitter)
        constraints = self.log_constraint(prior, *self._bounds(given))
        joint, *found = left_out(y, C)
        of_rows = (v[: given.y.shape[0]] for v in found)
        evidence = joint + log_factor - constraints
        return evidence, normal_sites(given.y, noise_of(given), *of_rows)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        return [Between.of(self._seen(given)[1], given.y.shape[0])]
