"""Several a priori correlated classes, on all rows: class labels, or sampled latent values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.rows import rows_of
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve, solve_root
from bayes_gpx.posteriors.base import LATENT, WHITENED, Conditioning, Found, LeftOut, Values
from bayes_gpx.posteriors.correlated import Correlated
from bayes_gpx.posteriors.evidence.correlated import correlated_laplace, correlated_mode
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.evidence.softmax import probabilities
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.prior_functions import Fresh, by_class, prior_function
from bayes_gpx.posteriors.strategies.collapsed import Collapsed, scored_by_values
from bayes_gpx.posteriors.strategies.laplace import between_classes, coupled_sites, where_found
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.posteriors.strategies.sampled import LATENT_JITTER
from bayes_gpx.processes.base import KernelProcess
from bayes_gpx.processes.class_process import ClassProcess
from bayes_gpx.processes.operators import AtPoints, Derivative, Operator

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.classification import Categorical


def _process(given: Conditioning) -> ClassProcess:
    return cast(ClassProcess, given.process)


class OfClasses(OnRows):
    """Several classes with a `ClassProcess`."""

    def _covariances(self, given: Conditioning, jitter: TensorLike) -> Tensor:
        """Prior covariances of the observations' values by each part of the process, (S, n, n)."""
        parts = _process(given).parts
        return pt.stack([prior_covariance(part, given.X, jitter=jitter) for part in parts])

    def function(
        self, given: Conditioning, update: Tensor, fresh: Fresh
    ) -> Callable[[Operator], Tensor]:
        prior = prior_function(given, fresh)
        weights = [(part, pt.dot(update, shared)) for part, shared in _process(given).each()]

        def summed(part: KernelProcess, operator: Operator, own: Tensor) -> Tensor:
            L = cast(AtPoints, operator)
            return part.summed(L, given.observed, own[None]).reshape((-1,))

        def moved(operator: Operator, part: KernelProcess, own: Tensor) -> Tensor:
            if isinstance(operator, Derivative):
                return by_class(partial(summed, part), operator, own, given)
            return pt.dot(part.covariance(operator, given.observed), own)

        return lambda operator: prior(operator) + sum(moved(operator, *own) for own in weights)


class _OfCorrelatedClasses(OfClasses):
    """Several classes with a priori correlated functions."""

    @abstractmethod
    def joint(self, given: Conditioning, found: Found) -> Correlated:
        """The posterior of all classes."""

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        return self.joint(given, found).of(label)


class CorrelatedLaplace(_OfCorrelatedClasses, Collapsed):
    """Labels of classes that correlate, by Laplace's approximation at the joint mode."""

    at_mode = True

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        K = plus_diagonal(self._covariances(given, 0.0), ridge)
        return [K, _process(given).shared, given.exposure]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(s,n,n),(s,c,c),{likelihood.core_shape}"

    def joint_density(
        self, likelihood: Categorical, y: Tensor, K: Tensor, shared: Tensor, exposure: Tensor
    ) -> Tensor:  # noqa: N803
        return correlated_laplace(likelihood, K, shared, *rows_of(likelihood, y, exposure))[0]

    def condition(self, given: Conditioning) -> Found:
        K = self._covariances(given, given.jitter)
        shared = _process(given).shared
        return where_found(*correlated_mode(given.likelihood, K, shared, *given.rows))

    def joint(self, given: Conditioning, found: Found) -> Correlated:
        p = probabilities(found.alpha, *given.rows)
        return Correlated(_process(given), given.observed, found.alpha, found.root, p)

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        K, shared = self._covariances(given, given.jitter), _process(given).shared
        logp, alpha, covariance = correlated_laplace(given.likelihood, K, shared, *given.rows)
        f = _process(given).times(K, alpha)
        return logp, coupled_sites(given, f, alpha, covariance)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        return between_classes(self, given)

    def update(self, given: Conditioning, found: Found, fresh: Fresh) -> Tensor:
        values = prior_function(given, fresh)(given.observed)
        K, normal = self._covariances(given, given.jitter), fresh.normal(values.shape)
        return found.alpha - self.joint(given, found).information(K, values, normal)


class CorrelatedValues(_OfCorrelatedClasses):
    """Latent values of classes that correlate, which were sampled."""

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n, C): as sampled, or from whitened ones."""
        if LATENT in given.theta:
            return given.theta[LATENT]
        white = given.theta[WHITENED]
        return pt.dot(self._root(given), white.ravel()).reshape(white.shape)

    def _root(self, given: Conditioning) -> Tensor:
        K = given.process.covariance(given.observed, given.observed)
        return cholesky(plus_diagonal(K, LATENT_JITTER * pt.diagonal(K).mean()))

    def condition(self, given: Conditioning) -> Found:
        root, f = self._root(given), self.values(given)
        return Found(solve(root, f.ravel()).reshape(f.shape), root)

    def joint(self, given: Conditioning, found: Found) -> Correlated:
        return Correlated(_process(given), given.observed, found.alpha, found.root)

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Predictions of f_i given the other latent values, from the prior alone."""
        f, root = self.values(given), self._root(given)
        n, C = f.shape
        half = solve_root(root, pt.eye(root.shape[0]))
        by_rows = half.reshape((n * C, n, C)).transpose(1, 2, 0)
        own: Any = pt.linalg.inv(pt.matmul(by_rows, by_rows.transpose(0, 2, 1)))
        pull = pt.dot(half.T, pt.dot(half, f.ravel())).reshape((n, C, 1))
        spread = pt.linalg.cholesky(own, lower=True, on_error="nan")
        return scored_by_values(given, f, f - pt.matmul(own, pull)[:, :, 0], spread)

    def update(self, given: Conditioning, found: Found, fresh: Fresh) -> Tensor:
        values, joint = prior_function(given, fresh)(given.observed), self.joint(given, found)
        return found.alpha - joint.weighed(values[:, :, None])[:, :, 0]
