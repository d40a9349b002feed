"""Conditioning on all rows: base of strategies that condition on n latent values."""

from collections.abc import Callable
from typing import cast

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.linear_algebra import solve
from bayes_gpx.posteriors.base import Conditioning, Found, Strategy, Values
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.posteriors.prior_functions import Fresh, by_class, prior_function
from bayes_gpx.processes.base import KernelProcess
from bayes_gpx.processes.operators import AtPoints, Derivative, Operator


class OnRows(Strategy):
    """Conditioning on the n latent values at the observations."""

    def posterior(
        self, given: Conditioning, found: Found, label: TensorLike | None = None
    ) -> Callable[[Operator], Values]:
        alpha = found.alpha if label is None else found.alpha[:, label]
        return Posterior(given.process, given.known, given.y, alpha, found.root)

    def update(self, given: Conditioning, found: Found, fresh: Fresh) -> Tensor:
        """Matheron's rule: alpha less C times the prior function's values, noise added."""
        values = prior_function(given, fresh)(given.known_smooth)
        own = self._observed_variance(given, found) - given.process.variance(given.known_smooth)
        noise = pt.sqrt(pt.maximum(own, 0.0))
        noise = noise[:, None] if given.columns else noise
        values = values + noise * fresh.normal((found.alpha.shape[0], *given.columns))
        return found.alpha - self._weights(given, found, values, fresh)

    def _observed_variance(self, given: Conditioning, found: Found) -> Tensor:
        """Prior variance of the observed quantity, with noise for a Gaussian likelihood."""
        return pt.sqr(found.root).sum(axis=1)

    def _weights(self, given: Conditioning, found: Found, values: Tensor, fresh: Fresh) -> Tensor:
        """C times such values, (n,) or (n, C)."""
        return solve(found.root, values)

    def function(
        self, given: Conditioning, update: Tensor, fresh: Fresh
    ) -> Callable[[Operator], Tensor]:
        prior, process = prior_function(given, fresh), cast(KernelProcess, given.process)

        def summed(operator: Operator, weights: Tensor) -> Tensor:
            L = cast(AtPoints, operator)
            return process.summed(L, given.known_smooth, weights[None]).reshape((-1,))

        def moved(operator: Operator) -> Tensor:
            if isinstance(operator, Derivative):
                return by_class(summed, operator, update, given)
            return pt.dot(process.covariance(operator, given.known_smooth), update)

        return lambda operator: prior(operator) + moved(operator)
