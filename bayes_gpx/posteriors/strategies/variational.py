"""Other likelihoods through coefficients, by the best Gaussian posterior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.numerics.linear_algebra import solve_root
from bayes_gpx.posteriors.base import Collapsed, Conditioning, Found, GroupsLeft, LeftOut
from bayes_gpx.posteriors.evidence.groups import Precision
from bayes_gpx.posteriors.evidence.row_bounds import (
    Coefficients,
    Rows,
    Variational as VariationalBound,
    at_rows,
    best_variational,
    bound_around,
    variational,
)
from bayes_gpx.posteriors.evidence.step_graphs import Gaussians
from bayes_gpx.posteriors.low_rank import LEAST_VARIANCE, LowRank, LowRankDesign
from bayes_gpx.posteriors.strategies.laplace import values_by_name, values_of, where_found
from bayes_gpx.posteriors.strategies.left_out import (
    LEAST_SITE,
    groups_of_sites,
    scored,
    sites_at_mode,
)
from bayes_gpx.posteriors.strategies.through_coefficients import (
    ThroughCoefficients,
    block_of,
    refuse_parts,
)


class Variational(ThroughCoefficients, Collapsed):
    """Another likelihood: the best Gaussian posterior of the coefficients, and its bound."""

    def by_rows(self, given: Conditioning, ridge: TensorLike = 0.0) -> Tensor:
        """`log_density` of `parts`, by sums over blocks of rows."""
        bound, found, expected, rows = self._by_rows(given, ridge)
        return pt.switch(pt.isinf(bound), -np.inf, bound_around(found, expected, rows))

    def _by_rows(
        self, given: Conditioning, ridge: TensorLike = 0.0
    ) -> tuple[Tensor, Coefficients, Callable[[Gaussians], Tensor], Rows]:
        """Bound, the best posterior, expectations at rows, and the rows."""
        block, rows = block_of(given)
        seen = self.design(block)
        rest = seen.unseen + seen.D + ridge
        known = given.likelihood, seen.F, rest, block.y, given.theta, block.exposure
        bound, found = best_variational(*known, rows)
        return bound, found, lambda q: at_rows(*known, q).logp, rows

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen = self.design(given)
        return [seen.F, seen.unseen + seen.D + ridge, given.exposure, *values_of(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(n,m),(n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(
        self,
        likelihood: Likelihood,
        y: Tensor,
        F: Tensor,
        rest: Tensor,
        exposure: Tensor,
        *values: Tensor,
    ) -> Tensor:  # noqa: N803
        theta = values_by_name(likelihood, values)
        return variational(likelihood, F, rest, y, theta, exposure).bound

    def _best(self, given: Conditioning) -> tuple[LowRankDesign, Tensor, VariationalBound]:
        """Design, variances besides the coefficients', and the best posterior."""
        seen = self.design(given)
        rest = seen.unseen + seen.D
        data = given.y, given.theta, given.exposure
        return seen, rest, variational(given.likelihood, seen.F, rest, *data)

    def condition(self, given: Conditioning) -> Found:
        bound, found, _, _ = self._by_rows(given)
        return where_found(bound, found.mean.T, found.root)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        own = found if label is None else Found(found.alpha[:, label], found.root[label])
        return self.through(given, own)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        refuse_parts(given)
        _, rest, (bound, _, at) = self._best(given)
        known = at.known / (1.0 - at.W * at.known)
        mean = at.mean - known * at.slope
        spread = known + (rest[:, None] if given.columns else rest)
        return scored(given, bound, mean, spread)

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        """The joint density is the group's bound, at the best posterior of all rows."""
        likelihood = given.likelihood
        if given.columns or not likelihood.concave:
            return super().leave_groups_out(given, groups)
        seen, rest, (_, found, at) = self._best(given)
        W = pt.maximum(at.W, LEAST_SITE / pt.maximum(at.known, LEAST_VARIANCE))
        precision = Precision(W, solve_root(found.root, seen.F.T) * W, -1)
        height = at.logp + 0.5 * W * at.known
        own = sites_at_mode(at.mean, at.slope, W, height)
        return groups_of_sites(given, groups, precision, at.slope, *own, rest)
