"""Several a priori correlated classes, on all rows: class labels, or sampled latent values."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.linear_algebra import cholesky, solve, solve_root
from bayes_gpx.posteriors.base import LATENT, WHITENED, Collapsed, Conditioning, Found
from bayes_gpx.posteriors.correlated import Correlated
from bayes_gpx.posteriors.evidence.correlated import correlated_laplace, correlated_mode
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.prior_functions import by_class, prior_function
from bayes_gpx.posteriors.strategies.laplace import where_found
from bayes_gpx.posteriors.strategies.left_out import cavities, scored_by_values
from bayes_gpx.posteriors.strategies.on_rows import OnRows
from bayes_gpx.posteriors.strategies.sampled import LATENT_JITTER
from bayes_gpx.processes.operators import Derivative


class _OfCorrelatedClasses(OnRows):
    """Several classes with a priori correlated functions."""

    @abstractmethod
    def joint(self, given: Conditioning, found: Found) -> Correlated:
        """The posterior of all classes."""

    def posterior(self, given, found, label=None):
        return self.joint(given, found).of(label)

    def _covariances(self, given, jitter):
        """Prior covariances of the observations' values by each part of the process, (S, n, n)."""
        parts = given.process.parts
        return pt.stack([prior_covariance(part, given.X, jitter=jitter) for part in parts])

    def function(self, given, update, fresh):
        prior = prior_function(given, fresh)
        weights = [(part, pt.dot(update, shared)) for part, shared in given.process.each()]

        def summed(part, operator, own):
            return part.summed(operator, given.observed, own[None]).reshape((-1,))

        def moved(operator, part, own):
            if isinstance(operator, Derivative):
                return by_class(partial(summed, part), operator, own, given)
            return pt.dot(part.covariance(operator, given.observed), own)

        return lambda operator: prior(operator) + sum(moved(operator, *own) for own in weights)


class CorrelatedLaplace(_OfCorrelatedClasses, Collapsed):
    """Labels of classes that correlate, by Laplace's approximation at the joint mode."""

    def parts(self, given, ridge=0.0):
        K, own = self._covariances(given, 0.0), pt.arange(given.X.shape[0])
        return [K[:, own, own].inc(ridge), given.process.shared, given.exposure]

    def signature(self, likelihood):
        return "(s,n,n),(s,c,c),(n)"

    def log_density(self, likelihood, y, K, shared, exposure):  # noqa: N803
        return correlated_laplace(likelihood, K, shared, y).logp

    def condition(self, given):
        K = self._covariances(given, given.jitter)
        return where_found(*correlated_mode(given.likelihood, K, given.process.shared, given.y))

    def joint(self, given, found):
        own = pt.eq(given.y[:, None], pt.arange(given.likelihood.classes))
        p = pt.maximum(own - found.alpha, 0.0)
        return Correlated(given.process, given.observed, found.alpha, found.root, p)

    def leave_one_out(self, given):
        K = self._covariances(given, given.jitter)
        found = correlated_laplace(given.likelihood, K, given.process.shared, given.y)
        return cavities(given, found, given.process.times(K, found.alpha))

    def update(self, given, found, fresh):
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

    def _root(self, given):
        K = given.process.covariance(given.observed, given.observed)
        own = pt.arange(K.shape[0])
        return cholesky(K[own, own].inc(LATENT_JITTER * pt.diagonal(K).mean()))

    def condition(self, given):
        root, f = self._root(given), self.values(given)
        return Found(solve(root, f.ravel()).reshape(f.shape), root)

    def joint(self, given, found):
        return Correlated(given.process, given.observed, found.alpha, found.root)

    def leave_one_out(self, given):
        """Predictions of f_i given the other latent values, from the prior alone."""
        f, root = self.values(given), self._root(given)
        n, C = f.shape
        half = solve_root(root, pt.eye(root.shape[0]))
        by_rows = half.reshape((n * C, n, C)).transpose(1, 2, 0)
        own = pt.linalg.inv(pt.matmul(by_rows, by_rows.transpose(0, 2, 1)))
        pull = pt.dot(half.T, pt.dot(half, f.ravel())).reshape((n, C, 1))
        spread = pt.linalg.cholesky(own, lower=True, on_error="nan")
        return scored_by_values(given, f, f - pt.matmul(own, pull)[:, :, 0], spread)

    def update(self, given, found, fresh):
        values, joint = prior_function(given, fresh)(given.observed), self.joint(given, found)
        return found.alpha - joint.weighed(values[:, :, None])[:, :, 0]
