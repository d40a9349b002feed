"""Responses with constraints or kinks, on all rows, by expectation propagation."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood, Theta
from bayes_gpx.numerics.linear_algebra import plus_diagonal
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors.base import Conditioning
from bayes_gpx.posteriors.evidence.expectation_propagation import AllSites, all_sites
from bayes_gpx.posteriors.evidence.normal import normal_logp
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.laplace import shapes_of, values_by_name, values_of


class Propagation(Exact):
    """Another log-concave likelihood of one latent value, with constraints or with kinks.

    Every observation and every bound is a site of expectation propagation, like a Gaussian
    likelihood with a variance for each. Laplace's approximation would fail: if a sign is sharp, the
    mode is at the bound, and the information of a log density with kinks is in these.
    """

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [given.exposure, *values_of(given), *super().parts(given, ridge)]

    def noise_sd(self, given: Conditioning) -> TensorLike:
        return 0.0

    def signature(self, likelihood: Likelihood) -> str:
        return f"{likelihood.core_shape}{shapes_of(likelihood)},{super().signature(likelihood)}"

    def joint_density(
        self, likelihood: ScalarLikelihood, y: Tensor, exposure: Tensor, *others: Tensor
    ) -> Tensor:
        k = len(likelihood.hyperparameters)
        theta, (C, *bounds) = values_by_name(likelihood, others[:k]), others[k:]
        return _evidence(C, _all_sites(likelihood, C, y, theta, exposure, bounds))

    def seen(self, given: Conditioning) -> tuple[Tensor, Tensor, Tensor]:
        C, found = self._sites(given)
        return found.mean, _noisy(C, found), found.log_factor

    def _sites(self, given: Conditioning) -> tuple[Tensor, AllSites]:
        """Prior covariance of all values, and their sites."""
        C, bounds = self.covariance(given, jitter=given.jitter), self.bounds(given)
        likelihood = cast(ScalarLikelihood, given.likelihood)
        return C, _all_sites(likelihood, C, given.y, given.theta, given.exposure, bounds)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        C, found = self._sites(given)
        evidence = _evidence(C, found) - self.log_constraint(C, *self.bounds(given))
        site, own = (v[: given.y.shape[0]] for v in (found.mean, found.variance))
        slope, left = (site - found.center) / (found.spread + own), own / (found.spread + own)
        mean = found.center + found.spread * slope
        height = found.of_rows + log_normal(mean, site, own)
        return evidence, Sites(mean, slope, 1.0 / own, found.spread * left, left, height)


def _all_sites(
    likelihood: ScalarLikelihood,
    C: Tensor,
    y: Tensor,
    theta: Theta,
    exposure: Tensor,
    bounds: Sequence[Tensor],
) -> AllSites:  # noqa: N803
    """Sites of rows and of any constraints."""
    low, high = bounds or [pt.zeros(0)] * 2
    return all_sites(likelihood, C, y, theta, exposure, low, high)


def _noisy(C: Tensor, found: AllSites) -> Tensor:  # noqa: N803
    """Covariance of the sites' means."""
    return plus_diagonal(C, found.variance)


def _evidence(C: Tensor, found: AllSites) -> Tensor:  # noqa: N803
    """Log density of y and probability, or density, of the constraints; -inf where no sites are."""
    of_means = normal_logp(found.mean, _noisy(C, found))
    return pt.switch(pt.isinf(of_means), -np.inf, of_means + found.log_factor)
