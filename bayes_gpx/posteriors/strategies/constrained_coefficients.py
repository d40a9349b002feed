"""Constraints beside rows that are conditioned on through coefficients."""

from __future__ import annotations

from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood
from bayes_gpx.posteriors.base import Conditioning, Found
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.posteriors.evidence.constrained_coefficients import (
    Rows,
    around_sites,
    constrained_rows,
)
from bayes_gpx.posteriors.evidence.normal import low_rank_left_out, low_rank_logp
from bayes_gpx.posteriors.evidence.row_bounds import (
    AtRows,
    Variational as VariationalBound,
    best_of_rows,
)
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.low_rank import LowRankDesign
from bayes_gpx.posteriors.strategies.by_group import Best, ByGroup
from bayes_gpx.posteriors.strategies.laplace import where_found
from bayes_gpx.posteriors.strategies.low_rank import LowRankNormal, around
from bayes_gpx.posteriors.strategies.variational import Variational
from bayes_gpx.posteriors.strategies.with_constraints import WithConstraints


def constrained_design(given: Conditioning, seen: LowRankDesign) -> tuple[Tensor, Tensor]:
    """How constrained quantities depend on shared coefficients (k, M), and variances around it."""
    constrained = given.constrained
    G, V = seen.design(constrained), pt.constant(cast(Constraints, given.constraints).sd ** 2)
    if seen.rest:  # what inducing values leave of a constrained quantity is like noise
        left = given.process.variance(constrained) - pt.sqr(G).sum(axis=1)
        V = V + pt.maximum(left, 0.0)
    return G, V


class _Beside(WithConstraints):
    """Constraints beside rows of a strategy through coefficients, the other base class."""

    _best: Any
    """Log of the joint density of y and constraints, the best posterior, and `AtRows`."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        plain: Any = self.plain()
        constrained = constrained_design(given, plain.design(given))
        return [*plain.parts(given, ridge), *constrained, *self._bounds(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return f"{self.plain().signature(likelihood)},(q,m),(q),(q),(q)"

    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        G, V = parts[-4:-2]
        return pt.dot(G, G.T) + pt.diag(V)

    def _joint_logp(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        return self._best(likelihood, y, *parts)[0]

    def _of(self, given: Conditioning) -> Any:
        parts, n = self.parts(given), given.y.shape[0]
        joint, best, at = self._best(given.likelihood, given.y, *parts)
        return joint - self.log_constraint(*parts), best, AtRows(*(v[:n] for v in at))


class BasisWithConstraints(_Beside, LowRankNormal):
    """Normal noise through coefficients, with constraints."""

    plain = LowRankNormal

    def _rows(self, likelihood: Any, y: Tensor, *parts: Tensor) -> tuple[Rows, Tensor]:
        """All that is observed, and the log factor of the constraints' sites."""
        F, D, _, *constrained = parts
        rows = Rows(F, None, D, y, pt.ones_like(y), None)
        return constrained_rows(likelihood, rows, [], *constrained)

    def _joint_logp(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        rows, log_factor = self._rows(likelihood, y, *parts)
        return low_rank_logp(rows.y, rows.F, rows.rest) + log_factor - parts[2]

    def condition(self, given: Conditioning) -> Found:
        rows, log_factor = self._rows(given.likelihood, given.y, *self.parts(given))
        return where_found(log_factor, *best_of_rows(rows.F, rows.rest, rows.y))

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        parts, n = self.parts(given), given.y.shape[0]
        rows, log_factor = self._rows(given.likelihood, given.y, *parts)
        joint, *found = low_rank_left_out(rows.y, rows.F, rows.rest)
        evidence = joint + log_factor - self.log_constraint(*parts) - parts[2]
        return evidence, around(given, self.design(given), *(v[:n] for v in found))


class VariationalWithConstraints(_Beside, Variational):
    """Another likelihood through coefficients, with constraints."""

    plain = Variational

    def _best(self, likelihood: ScalarLikelihood, y: Tensor, *parts: Tensor) -> VariationalBound:
        F, rest, exposure, *values, G, V, low, high = parts
        rows = Rows(F, None, rest, y, exposure, None)
        rows, log_factor = constrained_rows(likelihood, rows, values, G, V, low, high)
        own = rows.y, rows.F, rows.rest, rows.exposure
        found = super()._best(around_sites(likelihood), *own, *values)
        return found._replace(bound=found.bound + log_factor)

    def condition(self, given: Conditioning) -> Found:
        bound, found, _ = self._of(given)
        return where_found(bound, found.mean, found.root)


class ByGroupWithConstraints(_Beside, ByGroup):
    """Groups with an approximation and constraints, for any likelihood of one latent value."""

    plain = ByGroup

    def _best(
        self, likelihood: ScalarLikelihood, y: Tensor, *parts: Tensor
    ) -> tuple[Tensor, Best, AtRows]:
        F, E, D, unseen, codes, exposure, *values, G, V, low, high = parts
        rows = Rows(F, E, D if likelihood.normal else D + unseen, y, exposure, codes)
        rows, log_factor = constrained_rows(likelihood, rows, values, G, V, low, high)
        beyond = unseen if likelihood.normal else pt.zeros_like(unseen)
        own = rows.F, rows.E, rows.rest, pt.concatenate([beyond, pt.zeros_like(low)])
        known = around_sites(likelihood), rows.y, *own, rows.codes, rows.exposure, *values
        bound, best, at = super()._best(*known)
        return bound + log_factor, best, at
