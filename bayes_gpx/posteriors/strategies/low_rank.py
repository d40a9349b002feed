"""Normal noise through coefficients: of inducing points, and of basis functions, fixed ones too."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors.base import Conditioning, Found
from bayes_gpx.posteriors.evidence.constrained_coefficients import Rows, constrained_rows
from bayes_gpx.posteriors.evidence.normal import low_rank_left_out, low_rank_logp
from bayes_gpx.posteriors.evidence.row_bounds import (
    best_normal,
    best_of_rows,
    bound_around,
    expected_normal,
)
from bayes_gpx.posteriors.evidence.sites import Sites, normal_sites
from bayes_gpx.posteriors.evidence.sums import Sums, sums_logp
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.strategies.collapsed import noise_of, own_of
from bayes_gpx.posteriors.strategies.laplace import where_found
from bayes_gpx.posteriors.strategies.through_coefficients import (
    CollapsedCoefficients,
    block_of,
    refuse_parts,
)
from bayes_gpx.processes.basis_process import BasisProcess


class LowRankNormal(CollapsedCoefficients):
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
        sigma = given.noise_sd
        return LowRankDesign(
            given.process, given.y, sigma, given.X, given.Z, given.inducing, given.jitter
        )

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen = self.design(given)
        penalty = self._penalty(seen)
        return [seen.F, seen.D + ridge, penalty, *self.constraint_parts(given, seen)]

    def _penalty(self, seen: LowRankDesign) -> Tensor:
        """By how much the bound is below the log density of y under the approximate prior."""
        return 0.5 * (seen.unseen / seen.D).sum()

    def signature(self, likelihood: Likelihood) -> str:
        return f"(n,m),(n),(){self.constraint_signature}"

    def joint_density(self, likelihood: Any, y: Tensor, *parts: Tensor) -> Tensor:
        rows, log_factor = self._rows(likelihood, y, *parts)
        return low_rank_logp(rows.y, rows.F, rows.rest) + log_factor - parts[2]

    def _rows(
        self, likelihood: Any, y: Tensor, F: Tensor, D: Tensor, _: Tensor, *constrained: Tensor
    ) -> tuple[Rows, TensorLike]:  # noqa: N803
        """All that is observed, and the log factor of the constraints' sites."""
        rows = Rows(F, None, D, y, pt.ones_like(y), None)
        return constrained_rows(likelihood, rows, [], *constrained) if constrained else (rows, 0.0)

    def condition(self, given: Conditioning) -> Found:
        if not self.constrained:
            block, out_of_core = block_of(given)
            seen = self.design(block)
            return Found(*best_normal(seen.F, seen.D, seen.y, out_of_core))
        rows, log_factor = self._rows(given.likelihood, given.y, *self.parts(given))
        return where_found(cast(Tensor, log_factor), *best_of_rows(rows.F, rows.rest, rows.y))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        return self.through(given, found)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        """Under the approximate prior, with the variance that inducing values leave."""
        refuse_parts(given)
        parts, n = self.parts(given), given.y.shape[0]
        rows, log_factor = self._rows(given.likelihood, given.y, *parts)
        joint, *found = low_rank_left_out(rows.y, rows.F, rows.rest)
        evidence = joint + log_factor - self.log_constraint(*parts) - parts[2]
        return evidence, around(given, self.design(given), *(v[:n] for v in found))


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

    def joint_density(self, likelihood: Any, y: Tensor, *parts: Tensor) -> Tensor:
        F, _, variance = parts
        return low_rank_logp(y, F, variance * pt.ones_like(y))

    def log_density_by_sums(self, sums: Sums, scales: Tensor, variance: Tensor) -> Tensor:
        """`log_density` of the y that went into the sums."""
        return sums_logp(sums, scales, variance)

    def condition(self, given: Conditioning) -> Found:
        scales, sigma = cast(BasisProcess, given.process).parted()[1], given.theta["sigma"]
        sums = cast(Sums, given.sums)
        weigh, ridge = scales / sigma, 1.0 + given.jitter
        root = cholesky(plus_diagonal(weigh[:, None] * sums.gram * weigh, ridge))

        def step(alpha: Tensor) -> Tensor:
            apart = sums.start - scales * alpha
            pull = sums.cross + pt.dot(sums.gram, apart)
            return alpha + solve(root, weigh * pull / sigma - ridge * alpha)

        # The second step removes the round-off of the first.
        return Found(step(step(pt.zeros_like(scales))), root)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        seen = LowRankDesign(given.process, None, 0.0, None)
        return LowRank(seen, found.alpha, found.root, deviates=False)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        """Sites of rows X and y, which the sums contain."""
        q, D = self.posterior(given, self.condition(given))(given.smooth), noise_of(given)
        scales, variance = self.scales_and_variance(given)
        left, alpha = 1.0 - q.variance / D, (given.y - q.mean) / D
        height = log_normal(given.y, q.mean, D)
        logp = sums_logp(cast(Sums, given.sums), scales, variance)
        return logp, Sites(q.mean, alpha, 1.0 / D, q.variance, left, height)


def around(given: Conditioning, seen: LowRankDesign, alpha: Tensor, precision: Tensor) -> Sites:
    """Sites of normal noise, through coefficients; arguments as of `normal_sites`."""
    rest = own_of(given, seen.D) + seen.unseen
    return normal_sites(given.y, seen.D, alpha, precision, rest=rest, unseen=seen.unseen)
