"""Latent values, or coefficients, that were sampled."""

from __future__ import annotations

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import cholesky, solve_root
from bayes_gpx.posteriors.base import (
    CONSTRAINED_WHITENED,
    LATENT,
    OWN_WHITENED,
    WHITENED,
    Conditioning,
    Found,
    LeftOut,
)
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.posteriors.latent import latent
from bayes_gpx.posteriors.low_rank import LowRank, LowRankDesign
from bayes_gpx.posteriors.strategies.collapsed import scored_by_values
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.posteriors.strategies.through_coefficients import ThroughCoefficients

LATENT_JITTER = 1e-8
"""Added to the covariance of latent values that are drawn, as a multiple of its mean diagonal."""


class SampledValues(OnRows):
    """Latent values at the observations that were sampled: nothing of them is uncertain."""

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n,) or (n, C): as sampled, or from whitened ones."""
        return self.known_values(given)[: given.y.shape[0]]

    def known_values(self, given: Conditioning) -> Tensor:
        """The same and, after them, those that constraints are about, where there are any."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        white = given.theta[WHITENED]
        if given.constraints is not None:
            white = pt.concatenate([white, given.theta[CONSTRAINED_WHITENED]])
        return pt.dot(self._root(given), white)

    def _root(self, given: Conditioning) -> Tensor:
        return cholesky(
            noisy_covariance(given.process, given.known, 0.0, given.Z, jitter=LATENT_JITTER)
        )

    def condition(self, given: Conditioning) -> Found:
        options = {"jitter": LATENT_JITTER}
        q = latent(given.process, given.known, self.known_values(given), given.Z, **options)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Predictions of f_i given the other latent values, from the prior alone."""
        return scored_by_values(given, *self.left_out_values(given))

    def left_out_values(self, given: Conditioning) -> tuple[Tensor, Tensor, Tensor]:
        """Latent values at the observations, and their means and variances given the others."""
        known, root, n = self.known_values(given), self._root(given), given.y.shape[0]
        inverse = solve_root(root, pt.eye(root.shape[0]))
        own = 1.0 / pt.sqr(inverse).sum(axis=0)[:n]
        own = own[:, None] * pt.ones_like(known[:n]) if known.ndim == 2 else own
        mean = known[:n] - own * pt.dot(inverse.T, pt.dot(inverse, known))[:n]
        return known[:n], mean, own


class SampledCoefficients(ThroughCoefficients):
    """Coefficients of basis functions that were sampled, and samples' own deviations with them."""

    def design(self, given: Conditioning, label: TensorLike | None = None) -> LowRankDesign:
        """With y the latent values, where samples' own deviations were sampled."""
        seen = super().design(given, label)
        if not self._own_sampled(given) or (given.columns and label is None):
            return seen
        y = self.values(given)
        return LowRankDesign(
            given.process, y if label is None else y[:, label], 0.0, given.X, given.Z
        )

    def _own_sampled(self, given: Conditioning) -> bool:
        """Whether samples' own deviations from the smooth part were sampled too."""
        return OWN_WHITENED in given.theta or LATENT in given.theta

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n,) or (n, C): as sampled, or from coefficients."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        seen = super().design(given)
        smooth = self.smooth_values(given, given.theta[WHITENED])
        if OWN_WHITENED not in given.theta:
            return smooth
        sd = pt.sqrt(seen.D)
        return smooth + (sd[:, None] if given.columns else sd) * given.theta[OWN_WHITENED]

    def known_values(self, given: Conditioning) -> Tensor:
        """The same and, after them, the values that constraints are about."""
        G = super().design(given).design(given.constrained)
        return pt.concatenate([self.values(given), pt.dot(G, given.theta[WHITENED][: G.shape[1]])])

    def coefficients(self, seen: LowRankDesign) -> Tensor:
        """How many coefficients there are."""
        return seen.F.shape[-1]

    def smooth_values(self, given: Conditioning, white: Tensor) -> Tensor:
        """The smooth part at the observations, (n,) or (n, C), from coefficients."""
        return self.by_design(given, lambda seen, values: pt.dot(seen.F, values), white)

    def condition(self, given: Conditioning) -> Found:
        white = given.theta[WHITENED]
        return Found(white, pt.zeros((white.shape[0], 1)))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> LowRank:
        alpha = found.alpha if label is None else found.alpha[:, label]
        return LowRank(self.design(given, label), alpha, None, found.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Predictions of f_i given the coefficients, with the rows' deviations."""
        seen, f = super().design(given), self.values(given)
        own = seen.D if self._own_sampled(given) else pt.zeros(given.X.shape[0])
        own = own[:, None] * pt.ones_like(f) if given.columns else own
        return scored_by_values(given, f, self.smooth_values(given, given.theta[WHITENED]), own)
