"""Classes and counts with constraints, on all rows, by expectation propagation."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors.base import Conditioning, Values
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.posteriors.evidence.expectation_propagation import AllSites, all_sites
from bayes_gpx.posteriors.evidence.normal import normal_logp
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.strategies.laplace import shapes_of, values_by_name, values_of
from bayes_gpx.posteriors.strategies.with_constraints import ExactWithConstraints, joint_covariance
from bayes_gpx.processes.operators import Operator


class Propagation(ExactWithConstraints):
    """Another log-concave likelihood of one latent value, with constraints.

    Every observation and every bound is a site of expectation propagation, like a Gaussian
    likelihood with a variance for each. Laplace's approximation would fail: if a sign is sharp, the
    mode is at the bound.
    """

    def around(
        self, given: Conditioning, constraints: Constraints | None
    ) -> Callable[[Operator], Values]:
        given = replace(given, constraints=constraints)
        return self.posterior(given, self.condition(given))

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [given.exposure, *values_of(given), *super().parts(given, ridge)]

    def _covariance(self, given: Conditioning, **added: TensorLike) -> Tensor:
        return joint_covariance(given, 0.0, **added)

    def _bounds(self, given: Conditioning) -> list[Tensor]:
        return [pt.zeros(0)] * 2 if given.constraints is None else super()._bounds(given)

    def signature(self, likelihood: Likelihood) -> str:
        return f"{likelihood.core_shape}{shapes_of(likelihood)},{super().signature(likelihood)}"

    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        return super().constraint_covariance(*parts[-3:])

    def _joint_logp(
        self, likelihood: ScalarLikelihood, y: Tensor, exposure: Tensor, *others: Tensor
    ) -> Tensor:
        *values, C, low, high = others
        theta = values_by_name(likelihood, values)
        return _evidence(C, all_sites(likelihood, C, y, theta, exposure, low, high))

    def _seen(self, given: Conditioning) -> tuple[Tensor, Tensor, Tensor]:
        C, found = self._sites(given)
        return found.mean, _noisy(C, found), found.log_factor

    def _sites(self, given: Conditioning) -> tuple[Tensor, AllSites]:
        """Prior covariance of all values, and their sites."""
        C, known = self._covariance(given, jitter=given.jitter), (given.theta, given.exposure)
        likelihood = cast(ScalarLikelihood, given.likelihood)
        return C, all_sites(likelihood, C, given.y, *known, *self._bounds(given))

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        C, found = self._sites(given)
        evidence = _evidence(C, found) - self.log_constraint(C, *self._bounds(given))
        site, own = (v[: given.y.shape[0]] for v in (found.mean, found.variance))
        slope, left = (site - found.center) / (found.spread + own), own / (found.spread + own)
        mean = found.center + found.spread * slope
        height = found.of_rows + log_normal(mean, site, own)
        return evidence, Sites(mean, slope, 1.0 / own, found.spread * left, left, height)


class PropagationAlone(Propagation):
    """A likelihood of one latent value whose information is in kinks, without constraints."""

    def log_constraint(self, *parts: Tensor) -> Tensor:
        return pt.zeros(())


def _noisy(C: Tensor, found: AllSites) -> Tensor:  # noqa: N803
    """Covariance of the sites' means."""
    own = pt.arange(C.shape[0])
    return C[own, own].inc(found.variance)


def _evidence(C: Tensor, found: AllSites) -> Tensor:  # noqa: N803
    """Log density of y and probability, or density, of the constraints; -inf where no sites are."""
    of_means = normal_logp(found.mean, _noisy(C, found))
    return pt.switch(pt.isinf(of_means), -np.inf, of_means + found.log_factor)
