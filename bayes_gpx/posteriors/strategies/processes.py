"""Independent processes that the data couple, on all rows: Laplace, or sampled latent values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.rows import rows_of
from bayes_gpx.numerics.linear_algebra import cholesky, plus_diagonal, solve
from bayes_gpx.posteriors.base import LATENT, WHITENED, Conditioning, Found, LeftOut, Values
from bayes_gpx.posteriors.evidence.groups import Between
from bayes_gpx.posteriors.evidence.processes import processes_laplace, processes_mode
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.posteriors.prior_functions import Fresh, prior_function
from bayes_gpx.posteriors.strategies.collapsed import Collapsed, scored_by_values
from bayes_gpx.posteriors.strategies.correlated import OfClasses
from bayes_gpx.posteriors.strategies.laplace import LEAST_SITE, where_found
from bayes_gpx.posteriors.strategies.sampled import SampledValues
from bayes_gpx.processes.class_process import SeparateProcesses
from bayes_gpx.processes.operators import Operator


def _process(given: Conditioning) -> SeparateProcesses:
    return cast(SeparateProcesses, given.process)


class _OfProcesses(OfClasses):
    """Processes with independent posteriors: `Found` has alpha (n, C) and roots (C, n, n)."""

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        process = _process(given).of(cast(TensorLike, label))
        own = found.alpha[:, label], found.root[label]
        return Posterior(process, given.observed, given.y, *own)

    def update(self, given: Conditioning, found: Found, fresh: Fresh) -> Tensor:
        """Matheron's rule for each process."""
        values = prior_function(given, fresh)(given.observed)
        values = values + self._noise(given, found) * fresh.normal(values.shape)
        each = [solve(found.root[c], values[:, c]) for c in given.labels]
        return found.alpha - pt.stack(each, axis=1)

    @abstractmethod
    def _noise(self, given: Conditioning, found: Found) -> Tensor | float:
        """Standard deviations of the sites' noise, (n, C)."""


class ProcessesLaplace(_OfProcesses, Collapsed):
    """Laplace's approximation at the joint mode, with Fisher's information, which is diagonal."""

    at_mode = True

    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        return [plus_diagonal(self._covariances(given, 0.0), ridge), given.exposure]

    def signature(self, likelihood: Likelihood) -> str:
        return f"(s,n,n),{likelihood.core_shape}"

    def joint_density(self, likelihood: Any, y: Tensor, K: Tensor, exposure: Tensor) -> Tensor:  # noqa: N803
        return processes_laplace(likelihood, K, *rows_of(likelihood, y, exposure))[0]

    def condition(self, given: Conditioning) -> Found:
        K = self._prior(given)
        evidence, alpha, W = processes_mode(given.likelihood, K, *given.rows)
        sd = 1.0 / pt.sqrt(W)
        each = []
        for c in given.labels:
            B = K[c] / sd[:, c] / sd[:, c][:, None]
            each.append(cholesky(plus_diagonal(B, 1.0)) * sd[:, c][:, None])
        return where_found(evidence, alpha, pt.stack(each))

    def _prior(self, given: Conditioning) -> Tensor:
        return self._covariances(given, given.jitter)

    def _noise(self, given: Conditioning, found: Found) -> Tensor:
        noisy = pt.sqr(found.root).sum(axis=2).T
        prior = pt.diagonal(self._prior(given), axis1=1, axis2=2).T
        return pt.sqrt(pt.maximum(noisy - prior, 0.0))

    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        K = self._prior(given)
        logp, f, alpha, W, variance, left = processes_laplace(given.likelihood, K, *given.rows)
        height = given.likelihood.logp(f, given.y, given.theta, given.exposure)
        W = pt.maximum(W, LEAST_SITE / pt.diagonal(K, axis1=1, axis2=2).T)
        return logp, Sites(f, alpha, W, variance, left, height)

    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        K = self._prior(given)
        each = [plus_diagonal(K[c], 1.0 / sites.tau[:, c]) for c in given.labels]
        return [Between.of(C, given.X.shape[0]) for C in each]


class ProcessesValues(_OfProcesses):
    """Latent values of all processes, which were sampled."""

    def _each(self, given: Conditioning) -> list[tuple[SampledValues, Conditioning]]:
        """Each process by itself, with its own latent values."""
        name = LATENT if LATENT in given.theta else WHITENED
        found = []
        for c, part in enumerate(_process(given).parts):
            known = {name: given.theta[name][:, c]}
            found.append((SampledValues(), replace(given, process=part, theta=known)))
        return found

    def values(self, given: Conditioning) -> Tensor:
        """Latent values at the observations, (n, C): as sampled, or from whitened ones."""
        return pt.stack([one.values(own) for one, own in self._each(given)], axis=1)

    def condition(self, given: Conditioning) -> Found:
        each = [one.condition(own) for one, own in self._each(given)]
        alpha, root = ([found[k] for found in each] for k in range(2))
        return Found(pt.stack(alpha, axis=1), pt.stack(root))

    def _noise(self, given: Conditioning, found: Found) -> float:
        return 0.0

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        """Predictions of f_i given the other latent values, from the prior alone."""
        each: list[Any] = [one.left_out_values(own) for one, own in self._each(given)]
        f, mean, own = (pt.stack(part, axis=1) for part in zip(*each, strict=True))
        return scored_by_values(given, f, mean, own)
