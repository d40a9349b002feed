"""Normal noise through coefficients: of inducing points, and of basis functions, fixed ones too."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import cholesky, solve, solve_root
from bayes_gpx.posteriors.base import Collapsed, Conditioning, Found, GroupsLeft, LeftOut
from bayes_gpx.posteriors.evidence.groups import Precision, groups_left_out
from bayes_gpx.posteriors.evidence.normal import low_rank_leave_one_out, low_rank_logp
from bayes_gpx.posteriors.evidence.row_bounds import best_normal, bound_around, expected_normal
from bayes_gpx.posteriors.evidence.sums import Sums, sums_logp
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.strategies.left_out import groups_of_normal, with_normal_noise
from bayes_gpx.posteriors.strategies.through_coefficients import (
    ThroughCoefficients,
    block_of,
    refuse_parts,
)
from bayes_gpx.processes.basis_process import BasisProcess


class LowRankNormal(ThroughCoefficients, Collapsed):
    """Normal noise; exact with basis functions, by Titsias' bound with inducing points."""

    def by_rows(self, given: Conditioning, ridge: TensorLike = 0.0) -> Tensor:
        """`log_density` of `parts`, by sums over blocks of rows."""
        block, rows = block_of(given)
        seen = self.design(block)
        D = seen.D + ridge
        found = best_normal(seen.F, D, block.y, rows)
        expected = partial(expected_normal, seen.F, D, seen.unseen, block.y)
        bound = bound_around(found, expected, rows)
        return pt.switch(pt.isnan(bound), -np.inf, bound)

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        sigma = given.theta["sigma"]
        return LowRankDesign(
            given.process, given.y, sigma, given.X, given.Z, given.inducing, given.jitter
        )

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen = self.design(given)
        return [seen.F, seen.D + ridge, self._penalty(seen)]

    def _penalty(self, seen: LowRankDesign) -> Tensor:
        """By how much the bound is below the log density of y under the approximate prior."""
        return 0.5 * (seen.unseen / seen.D).sum()

    def signature(self, likelihood: Likelihood) -> str:
        return "(n,m),(n),()"

    def log_density(
        self, likelihood: Likelihood, y: Tensor, F: Tensor, D: Tensor, penalty: Tensor
    ) -> Tensor:  # noqa: N803
        return low_rank_logp(y, F, D) - penalty

    def condition(self, given: Conditioning) -> Found:
        block, rows = block_of(given)
        seen = self.design(block)
        return Found(*best_normal(seen.F, seen.D, seen.y, rows))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        return self.through(given, found)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Under the approximate prior, with the variance that inducing values leave."""
        refuse_parts(given)
        seen = self.design(given)
        logp, mean, variance = low_rank_leave_one_out(given.y, seen.F, seen.D)
        logp, variance = logp - self._penalty(seen), variance + seen.unseen
        return with_normal_noise(given, logp, mean, variance)

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        """As `leave_one_out`, with the same variance for each row of a group."""
        return groups_through_coefficients(given, self.design(given), self.condition(given), groups)


class FixedBasis(LowRankNormal):
    """Gaussian likelihood and basis functions without hyperparameters: sufficient statistics.

    The process is the functions times `scales`, which depend on hyperparameters, and rows do not
    deviate from it.
    """

    by_sums = True

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [self.design(given).F, *self.scales_and_variance(given, ridge)]

    def scales_and_variance(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        """Hyperparameters for `log_density_by_sums`: scales (M,), and the variance of noise."""
        return [cast(BasisProcess, given.process).parted()[1], pt.sqr(given.theta["sigma"]) + ridge]

    def signature(self, likelihood: Likelihood) -> str:
        return "(n,m),(m),()"

    def log_density(
        self, likelihood: Likelihood, y: Tensor, F: Tensor, scales: Tensor, variance: Tensor
    ) -> Tensor:  # noqa: N803
        return low_rank_logp(y, F, variance * pt.ones_like(y))

    def log_density_by_sums(self, sums: Sums, scales: Tensor, variance: Tensor) -> Tensor:
        """`log_density` of the y that went into the sums."""
        return sums_logp(sums, scales, variance)

    def condition(self, given: Conditioning) -> Found:
        scales, sigma = cast(BasisProcess, given.process).parted()[1], given.theta["sigma"]
        sums = cast(Sums, given.sums)
        weigh, own = scales / sigma, pt.arange(scales.shape[0])
        inner = weigh[:, None] * sums.gram * weigh
        root = cholesky(inner[own, own].inc(1.0 + given.jitter))
        return Found(solve(root, weigh * sums.cross / sigma), root)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        seen = LowRankDesign(given.process, None, 0.0, None)
        return LowRank(seen, found.alpha, found.root, deviates=False)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Predictions of rows X and y in the sums: their sites are removed from the posterior."""
        found = self.condition(given)
        q, variance = self.posterior(given, found)(given.smooth), pt.sqr(given.theta["sigma"])
        left = 1.0 - q.variance / variance
        mean = (q.mean - given.y * q.variance / variance) / left
        scales = cast(BasisProcess, given.process).parted()[1]
        logp = sums_logp(cast(Sums, given.sums), scales, variance)
        return with_normal_noise(given, logp, mean, variance / left)


def groups_through_coefficients(
    given: Conditioning, seen: LowRankDesign, found: Found, groups: Tensor
) -> GroupsLeft:
    """`GroupsLeft` for normal noise, from the posterior of coefficients."""
    alpha = (given.y - pt.dot(seen.F, found.alpha)) / seen.D
    precision = Precision(1.0 / seen.D, solve_root(found.root, seen.F.T) / seen.D, -1)
    return groups_of_normal(given, *groups_left_out(precision, alpha, groups, seen.unseen))
