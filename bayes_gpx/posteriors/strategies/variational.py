"""Other likelihoods through coefficients, by the best Gaussian posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.posteriors.base import Conditioning, Found
from bayes_gpx.posteriors.evidence.constrained_coefficients import (
    Rows as Observed,
    around_sites,
    constrained_rows,
)
from bayes_gpx.posteriors.evidence.coupled_classes import coupled_rows
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.row_bounds import (
    Coefficients,
    Rows,
    Variational as VariationalBound,
    at_rows,
    best_variational,
    bound_around,
    variational,
)
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.step_graphs import Gaussians
from bayes_gpx.posteriors.low_rank import LowRank
from bayes_gpx.posteriors.strategies.laplace import (
    shapes_of,
    values_by_name,
    values_of,
    where_found,
)
from bayes_gpx.posteriors.strategies.through_coefficients import (
    CollapsedCoefficients,
    block_of,
    couples,
    refuse_parts,
)


class Variational(CollapsedCoefficients):
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
        own = [seen.F, seen.unseen + seen.D + ridge, given.exposure, *values_of(given)]
        return [*own, *self.constraint_parts(given, seen)]

    def signature(self, likelihood: Likelihood) -> str:
        design = "(n,c,m),(n,c)" if likelihood.processes else "(n,m),(n)"
        known = f"{likelihood.core_shape}{shapes_of(likelihood)}{self.constraint_signature}"
        return f"{design},{known}"

    def joint_density(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        return self._best(likelihood, y, *parts).bound

    def _best(self, likelihood: Any, y: Tensor, *parts: Tensor) -> VariationalBound:
        """The joint bound of rows and constraints, and the best posterior."""
        (F, rest, exposure, *values), constrained = self.apart(parts)
        theta = values_by_name(likelihood, values)
        if not constrained:
            return variational(likelihood, F, rest, y, theta, exposure)
        known = Observed(F, None, rest, y, exposure, None)
        rows, log_factor = constrained_rows(likelihood, known, values, *constrained)
        own = rows.F, rows.rest, rows.y, theta, rows.exposure
        found = variational(around_sites(likelihood), *own)
        return found._replace(bound=found.bound + log_factor)

    def _of(self, given: Conditioning) -> VariationalBound:
        refuse_parts(given)
        return VariationalBound(*super()._of(given))

    def condition(self, given: Conditioning) -> Found:
        bound, found, *_ = self._of(given) if self.constrained else self._by_rows(given)
        return where_found(bound, found.mean.T, found.root)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        own = found if label is None else Found(found.alpha[:, label], found.root[label])
        return self.through(given, own, label)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        seen, (bound, _, at) = self.design(given), self._of(given)
        if couples(given):
            return bound, self._coupled(given)[0]
        return bound, at.sites(rest=seen.unseen + seen.D)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        return [self._coupled(given)[1]] if couples(given) else super().between(given, sites)

    def _coupled(self, given: Conditioning) -> tuple[Sites, Between]:
        seen, at = self.design(given), self._of(given).seen
        return coupled_rows(given.likelihood, seen.F, seen.unseen + seen.D, given.exposure, at)
