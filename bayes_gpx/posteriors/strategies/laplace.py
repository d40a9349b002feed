"""Labels, counts and other responses on all rows, by Laplace's approximation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood
from bayes_gpx.likelihoods.rows import rows_of
from bayes_gpx.numerics.linear_algebra import plus_diagonal
from bayes_gpx.posteriors.base import Conditioning, Found, Strategy, Values
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.laplace import laplace_evidence, laplace_sites
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.softmax import probabilities, softmax_laplace, softmax_mode
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.prior_functions import Fresh
from bayes_gpx.posteriors.softmax import Coupled, across
from bayes_gpx.posteriors.strategies.collapsed import Collapsed
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.processes.operators import Operator

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.classification import Categorical


LEAST_SITE = 1e-9
"""Smallest information of rows in a group that is left out, relative to its product with f's prior
variance: less is negligible, and lost in the difference of two covariances."""


class _AtMode(OnRows, Collapsed):
    """Another likelihood, by Laplace's approximation at the mode."""

    at_mode = True

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        K = prior_covariance(given.process, given.X, given.Z)
        return [plus_diagonal(K, ridge), given.exposure, *values_of(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(n,n),{likelihood.core_shape}{shapes_of(likelihood)}"

    def _prior(self, given: Conditioning) -> Tensor:
        return prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)


class Laplace(_AtMode):
    """A likelihood of one latent value."""

    def joint_density(
        self, likelihood: ScalarLikelihood, y: Tensor, K: Tensor, exposure: Tensor, *values: Tensor
    ) -> Tensor:  # noqa: N803
        return laplace_evidence(likelihood, K, y, values_by_name(likelihood, values), exposure)[0]

    def condition(self, given: Conditioning) -> Found:
        options = {"theta": given.theta, "exposure": given.exposure, "jitter": given.jitter}
        likelihood = cast(ScalarLikelihood, given.likelihood)
        q = laplace(given.process, given.X, given.y, likelihood, given.Z, **options)
        return Found(q.alpha, q.root)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        K, likelihood = self._prior(given), cast(ScalarLikelihood, given.likelihood)
        found = laplace_sites(likelihood, K, given.y, given.theta, given.exposure)
        W = pt.maximum(found.W, LEAST_SITE / pt.diagonal(K))
        height = likelihood.logp(found.f, given.y, given.theta, given.exposure)
        return found.logp, Sites(found.f, found.alpha, W, found.variance, found.left, height)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        K = self._prior(given)
        return [Between.of(plus_diagonal(K, 1.0 / sites.tau), K.shape[0])]


class SoftmaxLaplace(_AtMode):
    """Several classes, which the data couple."""

    def joint_density(
        self, likelihood: Categorical, y: Tensor, K: Tensor, exposure: Tensor, *values: Tensor
    ) -> Tensor:  # noqa: N803
        return softmax_laplace(likelihood, K, *rows_of(likelihood, y, exposure))[0]

    def condition(self, given: Conditioning) -> Found:
        return where_found(*softmax_mode(given.likelihood, self._prior(given), *given.rows))

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        return self._coupled(given, found).of(label)

    def _coupled(self, given: Conditioning, found: Found) -> Coupled:
        p = probabilities(found.alpha, *given.rows)
        return Coupled(given.process, given.observed, found.alpha, found.root, p)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        K = self._prior(given)
        logp, alpha, covariance = softmax_laplace(given.likelihood, K, *given.rows)
        return logp, coupled_sites(given, pt.dot(K, alpha), alpha, covariance)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        return between_classes(self, given)

    def _observed_variance(self, given: Conditioning, found: Found) -> Tensor:
        return given.process.variance(given.observed)

    def _weights(self, given: Conditioning, found: Found, values: Tensor, fresh: Fresh) -> Tensor:
        coupled = self._coupled(given, found)
        return coupled.information(self._prior(given), values, fresh.normal(values.shape))


def coupled_sites(given: Conditioning, f: Tensor, alpha: Tensor, covariance: Tensor) -> Sites:
    """Sites of several classes at the mode f (n, C) with this slope alpha and covariances."""
    likelihood, known = cast("Categorical", given.likelihood), (given.theta, given.exposure)
    information, height = likelihood.fisher(f, *known), likelihood.logp(f, given.y, *known)
    # PyTensor types the arguments of matmul as NumPy's.
    seen = pt.matmul(covariance, information)  # type: ignore[arg-type]
    return Sites(f, alpha, information, covariance, pt.eye(f.shape[1]) - seen, height)


def between_classes(strategy: Strategy, given: Conditioning) -> list[Between]:
    """The posterior covariance of all classes at all rows."""
    found = strategy.condition(given)
    each = [strategy.posterior(given, found, c)(given.observed) for c in given.labels]
    return [Between(across(each, joint=True)[1], whole=True)]


def values_of(given: Conditioning) -> list[Tensor]:
    """The likelihood's hyperparameters, in its order."""
    return [given.theta[name] for name in given.likelihood.hyperparameters]


def shapes_of(likelihood: Likelihood) -> str:
    """Core shapes of the hyperparameters, as the end of a signature."""
    return "".join(f",({h.dim or ''})" for h in likelihood.hyperparameters.values())


def values_by_name(likelihood: Likelihood, values: Sequence[Tensor]) -> dict[str, Tensor]:
    """Such values as a dict."""
    return dict(zip(likelihood.hyperparameters, values, strict=True))


def where_found(evidence: Tensor, *arrays: Tensor) -> Found:
    """The arrays as `Found`, NaN where no posterior was found."""
    return Found(*(pt.switch(pt.isinf(evidence), np.nan, array) for array in arrays))
