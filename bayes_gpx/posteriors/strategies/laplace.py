"""Labels, counts and other responses on all rows, by Laplace's approximation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood, ScalarLikelihood
from bayes_gpx.posteriors.base import Collapsed, Conditioning, Found, GroupsLeft, LeftOut, Values
from bayes_gpx.posteriors.evidence.groups import Precision
from bayes_gpx.posteriors.evidence.laplace import laplace_evidence, laplace_sites
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace, softmax_mode
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.prior_functions import Fresh
from bayes_gpx.posteriors.softmax import Coupled
from bayes_gpx.posteriors.strategies.left_out import (
    LEAST_SITE,
    cavities,
    groups_of_sites,
    scored,
    sites_at_mode,
)
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.processes.operators import Operator

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.classification import Categorical


class Laplace(OnRows, Collapsed):
    """Another likelihood of one latent value, by Laplace's approximation at the mode."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [_ridged(given, ridge), given.exposure, *values_of(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(n,n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(
        self, likelihood: ScalarLikelihood, y: Tensor, K: Tensor, exposure: Tensor, *values: Tensor
    ) -> Tensor:  # noqa: N803
        return laplace_evidence(likelihood, K, y, values_by_name(likelihood, values), exposure)[0]

    def condition(self, given: Conditioning) -> Found:
        options = {"theta": given.theta, "exposure": given.exposure, "jitter": given.jitter}
        likelihood = cast(ScalarLikelihood, given.likelihood)
        q = laplace(given.process, given.X, given.y, likelihood, given.Z, **options)
        return Found(q.alpha, q.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        K = prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)
        likelihood = cast(ScalarLikelihood, given.likelihood)
        found = laplace_sites(likelihood, K, given.y, given.theta, given.exposure)
        spread = found.variance / found.left
        return scored(given, found.logp, found.f - spread * found.alpha, spread)

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        K = prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)
        likelihood = cast(ScalarLikelihood, given.likelihood)
        found = laplace_sites(likelihood, K, given.y, given.theta, given.exposure)
        W, own = pt.maximum(found.W, LEAST_SITE / pt.diagonal(K)), pt.arange(K.shape[0])
        precision = Precision.of(K[own, own].inc(1.0 / W))
        height = likelihood.logp(found.f, given.y, given.theta, given.exposure)
        own = sites_at_mode(found.f, found.alpha, W, height)
        return groups_of_sites(given, groups, precision, found.alpha, *own)


class SoftmaxLaplace(OnRows, Collapsed):
    """Several classes, which the data couple, by Laplace's approximation at the joint mode."""

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [_ridged(given, ridge), given.exposure, *values_of(given)]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(n,n),(n){',()' * len(likelihood.hyperparameters)}"

    def log_density(
        self, likelihood: Categorical, y: Tensor, K: Tensor, exposure: Tensor, *values: Tensor
    ) -> Tensor:  # noqa: N803
        return softmax_laplace(likelihood, K, y).logp

    def condition(self, given: Conditioning) -> Found:
        likelihood = cast("Categorical", given.likelihood)
        return where_found(*softmax_mode(likelihood, self._prior(given), given.y))

    def _prior(self, given: Conditioning) -> Tensor:
        return prior_covariance(given.process, given.X, given.Z, jitter=given.jitter)

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        return self._coupled(given, found).of(label)

    def _coupled(self, given: Conditioning, found: Found) -> Coupled:
        return Coupled(given.process, given.observed, found.alpha, found.root, given.y)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        K = self._prior(given)
        found = softmax_laplace(cast("Categorical", given.likelihood), K, given.y)
        return cavities(given, found, pt.dot(K, found.alpha))

    def _observed_variance(self, given: Conditioning, found: Found) -> Tensor:
        return given.process.variance(given.observed)

    def _weights(self, given: Conditioning, found: Found, values: Tensor, fresh: Fresh) -> Tensor:
        coupled = self._coupled(given, found)
        return coupled.information(self._prior(given), values, fresh.normal(values.shape))


def _ridged(given: Conditioning, ridge: TensorLike) -> Tensor:
    """Covariance of the latent values (n, n), a ridge added."""
    K = prior_covariance(given.process, given.X, given.Z)
    own = pt.arange(K.shape[0])
    return K[own, own].inc(ridge)


def values_of(given: Conditioning) -> list[Tensor]:
    """The likelihood's hyperparameters, in its order."""
    return [given.theta[name] for name in given.likelihood.hyperparameters]


def values_by_name(likelihood: Likelihood, values: Sequence[Tensor]) -> dict[str, Tensor]:
    """Such values as a dict."""
    return dict(zip(likelihood.hyperparameters, values, strict=True))


def where_found(evidence: Tensor, *arrays: Tensor) -> Found:
    """The arrays as `Found`, NaN where no posterior was found."""
    return Found(*(pt.switch(pt.isinf(evidence), np.nan, array) for array in arrays))
