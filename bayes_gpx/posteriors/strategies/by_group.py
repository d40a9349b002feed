"""Groups with an approximation: coefficients that rows share, and each group's own ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood
from bayes_gpx.numerics.linear_algebra import solve_root
from bayes_gpx.posteriors.base import WHITENED, Conditioning, Found
from bayes_gpx.posteriors.by_group import LowRankByGroup
from bayes_gpx.posteriors.evidence.by_group import BestByGroup, VarianceAtRows
from bayes_gpx.posteriors.evidence.constrained_coefficients import (
    Rows,
    around_sites,
    constrained_rows,
)
from bayes_gpx.posteriors.evidence.coupled_classes import coupled_rows
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.row_bounds import AtRows, expectations, expected_log_normal
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.prior_functions import of_each_row
from bayes_gpx.posteriors.strategies.collapsed import own_of
from bayes_gpx.posteriors.strategies.laplace import (
    shapes_of,
    values_by_name,
    values_of,
    where_found,
)
from bayes_gpx.posteriors.strategies.sampled import SampledCoefficients
from bayes_gpx.posteriors.strategies.through_coefficients import (
    CollapsedCoefficients,
    ThroughCoefficients,
    couples,
)

LEAST_PRECISION = 1e-10
"""Precision below which a site tells nothing of its row's deviation."""


class Best(NamedTuple):
    """Outputs of `BestByGroup`: the coefficients' posterior, moments at rows, and divergence."""

    v: Any
    u: Any
    root: Any
    factor: Any
    gain: Any
    mean: Any
    known: Any
    with_v: Any
    with_u: Any
    divergence: Any

    def moments(
        self, F: Tensor, E: Tensor, codes: Tensor, classes: int | None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of rows' latent values, (n,) or (n, C), with derivatives in F and E.

        The derivatives are those at a fixed posterior: of the variance, twice the covariances of a
        row's latent value with the coefficients.
        """
        known = self.v, self.u, self.known, self.with_v, self.with_u
        if classes is None:
            return _moments(F, E, codes, *known)
        each = [_moments(F, E, codes, *(v[c] for v in known)) for c in range(classes)]
        mean, variance = (pt.stack(columns, axis=1) for columns in zip(*each, strict=True))
        return mean, variance


def _moments(
    F: Tensor,
    E: Tensor,
    codes: Tensor,
    v: Tensor,
    u: Tensor,
    known: Tensor,
    with_v: Tensor,
    with_u: Tensor,
) -> tuple[Tensor, Tensor]:
    mean = pt.dot(F, v) + (E * u[codes]).sum(axis=1)
    variance: Any = VarianceAtRows()(F, E, known, with_v, with_u)
    return mean, variance


class ByGroup(CollapsedCoefficients):
    """An approximation with groups, for any likelihood: exact for normal noise, else a bound.

    With inducing points, Titsias' bound for normal noise too.
    """

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        if not given.likelihood.normal:
            return super().design(given)
        sigma = given.noise_sd
        return super().design(given, y=given.y, sigma=sigma)

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen = self.design(given)
        values = [] if given.likelihood.normal else values_of(given)
        exposure = pt.ones_like(seen.D) if given.exposure is None else given.exposure
        own = [seen.F, seen.E, seen.D + ridge, seen.unseen, seen.codes, exposure, *values]
        return [*own, *self.constraint_parts(given, seen)]

    def signature(self, likelihood: Likelihood) -> str:
        known = "" if likelihood.normal else shapes_of(likelihood)
        rows = f"(n,m),(n,k),(n),(n),(n),{likelihood.core_shape}{known}"
        return f"{rows}{self.constraint_signature}"

    def joint_density(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        return self._best(likelihood, y, *parts)[0]

    def _best(
        self, likelihood: Likelihood, y: Tensor, *parts: Tensor
    ) -> tuple[Tensor, Best, AtRows]:
        """The joint bound of rows and constraints, the best posterior, and `AtRows`."""
        (F, E, D, unseen, codes, exposure, *values), constrained = self.apart(parts)
        rows = Rows(F, E, D if likelihood.normal else D + unseen, y, exposure, codes)
        log_factor: TensorLike = 0.0
        if constrained:
            scalar = cast(ScalarLikelihood, likelihood)
            rows, log_factor = constrained_rows(scalar, rows, values, *constrained)
            beyond = unseen if likelihood.normal else pt.zeros_like(unseen)
            unseen = pt.concatenate([beyond, pt.zeros_like(constrained[-1])])
            likelihood = around_sites(scalar)
        bound, best, at = self._best_of(likelihood, rows, unseen, values)
        return bound + log_factor, best, at

    def _best_of(
        self, likelihood: Likelihood, rows: Rows, unseen: Tensor, values: Sequence[Tensor]
    ) -> tuple[Tensor, Best, AtRows]:
        """The bound, the best posterior, and at rows: slopes, information and moments."""
        found: Any = BestByGroup(likelihood)(*rows, *values)
        best = Best(*found)
        lost = pt.isinf(best.divergence)
        F, E, rest = (
            pt.switch(lost, *both) for both in ((0.0, rows.F), (0.0, rows.E), (1.0, rows.rest))
        )
        mean, known = best.moments(F, E, rows.codes, likelihood.classes)
        if likelihood.normal:
            around = known + pt.switch(lost, 0.0, unseen)
            logp = expected_log_normal(rows.y, mean, around, rest)
            at = AtRows(logp, (rows.y - mean) / rest, 1.0 / rest, mean, known)
        else:
            theta = values_by_name(likelihood, values)
            at = expectations(likelihood, mean, known, rest, rows.y, theta, rows.exposure)
        bound = pt.switch(lost, -np.inf, at.logp.sum() - pt.switch(lost, 0.0, best.divergence))
        return bound, best, at

    def condition(self, given: Conditioning) -> Found:
        bound, best, _ = self._of(given)
        u = best.u.reshape((*tuple(best.u.shape)[:-2], -1))
        alpha = pt.concatenate([best.v, u], axis=-1)
        found = alpha.T if given.columns else alpha, best.root, best.factor, best.gain
        return where_found(bound, *found)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRankByGroup:
        if label is not None:
            found = Found(found.alpha[:, label], *(part[label] for part in found[1:]))
        alpha, root, factor, gain = found
        return LowRankByGroup(self.design(given), alpha, root, None, True, factor, gain)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        seen, (bound, _, at) = self.design(given), self._of(given)
        if couples(given):
            return bound, _coupled(given, seen.F, seen.D + seen.unseen, at, seen.E, seen.codes)[0]
        if not given.likelihood.normal:
            return bound, at.sites(rest=seen.D + seen.unseen)
        return bound, at.sites(rest=own_of(given, seen.D) + seen.unseen, unseen=seen.unseen)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        seen, (_, best, at) = self.design(given), self._of(given)
        if couples(given):
            return [_coupled(given, seen.F, seen.D + seen.unseen, at, seen.E, seen.codes)[1]]
        moved = seen.F - pt.matmul(seen.E[:, None], best.gain[seen.codes])[:, 0]
        own = pt.matmul(seen.E[:, None], best.factor[seen.codes])[:, 0]
        return [Between(solve_root(best.root, moved.T), of_group=own, codes=seen.codes)]


class ByRow(ByGroup):
    """Weights with other than normal noise: a row's own deviation is like the level of a group."""

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        return ThroughCoefficients.design(self, given, label)

    def _known(self, given: Conditioning) -> tuple[LowRankDesign, Tensor, Tensor]:
        """The design, that of deviations (n, 1), and a code of each row."""
        seen = self.design(given)
        return seen, pt.sqrt(seen.D)[:, None], pt.arange(given.X.shape[0])

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        seen, E, codes = self._known(given)
        own = [seen.F, E, ridge * pt.ones_like(seen.D), seen.unseen, codes, given.exposure]
        return [*own, *values_of(given)]

    def condition(self, given: Conditioning) -> Found:
        bound, best, at = self._of(given)
        noise = 1.0 / pt.switch(abs(at.W) < LEAST_PRECISION, LEAST_PRECISION, at.W)
        alpha = best.v.T if given.columns else best.v
        return where_found(bound, alpha, best.root, at.mean + at.slope * noise, noise)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        """Of responses at the rows' sites, with the noise of these."""
        alpha, root, y, noise = found
        if label is not None:
            alpha, root, y, noise = alpha[:, label], root[label], y[:, label], noise[:, label]
        seen = replace(self.design(given, label), y=y, variance=noise)
        return LowRank(seen, alpha, root)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        (seen, *own), (bound, _, at) = self._known(given), self._of(given)
        if couples(given):
            return bound, _coupled(given, seen.F, seen.unseen, at, *own)[0]
        return bound, at.sites(rest=seen.unseen)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        (seen, E, codes), (_, best, at) = self._known(given), self._of(given)
        if couples(given):
            return [_coupled(given, seen.F, seen.unseen, at, E, codes)[1]]
        moved, own = seen.F - E * best.gain[:, 0], E * best.factor[:, 0]
        return [Between(solve_root(best.root, moved.T), of_group=own, codes=codes)]


def _coupled(
    given: Conditioning, F: Tensor, rest: Tensor, at: AtRows, E: Tensor, codes: Tensor
) -> tuple[Sites, Between]:
    return coupled_rows(given.likelihood, F, rest, given.exposure, at, E, codes)


class SampledByGroup(SampledCoefficients):
    """Coefficients that rows share and those of groups, which were sampled."""

    def coefficients(self, seen: LowRankDesign) -> Tensor:
        return seen.F.shape[1] + (seen.codes.max() + 1) * seen.E.shape[1]

    def smooth_values(self, given: Conditioning, white: Tensor) -> Tensor:
        seen = ThroughCoefficients.design(self, given)
        M, shape = seen.F.shape[1], (-1, seen.E.shape[1], *tuple(white.shape)[1:])
        return pt.dot(seen.F, white[:M]) + of_each_row(seen.E, white[M:].reshape(shape)[seen.codes])

    def condition(self, given: Conditioning) -> Found:
        seen, white = ThroughCoefficients.design(self, given), given.theta[WHITENED]
        M, K, G = seen.F.shape[1], seen.E.shape[1], seen.codes.max() + 1
        return Found(white, pt.zeros((M, 1)), pt.zeros((G, K, K)), pt.zeros((G, K, M)))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRankByGroup:
        alpha = found.alpha if label is None else found.alpha[:, label]
        seen = self.design(given, label)
        return LowRankByGroup(seen, alpha, None, found.root, True, found.factor, found.gain)
