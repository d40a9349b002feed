"""Conditioning on all rows: base of strategies that condition on n latent values."""

import pytensor.tensor as pt

from bayes_gpx.numerics.linear_algebra import solve
from bayes_gpx.posteriors.base import Strategy
from bayes_gpx.posteriors.gaussian import Posterior
from bayes_gpx.posteriors.prior_functions import by_class, prior_function
from bayes_gpx.processes.operators import Derivative


class OnRows(Strategy):
    """Conditioning on the n latent values at the observations."""

    def posterior(self, given, found, label=None):
        alpha = found.alpha if label is None else found.alpha[:, label]
        return Posterior(given.process, given.known, given.y, alpha, found.root)

    def update(self, given, found, fresh):
        """Matheron's rule: alpha less C times the prior function's values, noise added."""
        values = prior_function(given, fresh)(given.known_smooth)
        own = self._observed_variance(given, found) - given.process.variance(given.known_smooth)
        noise = pt.sqrt(pt.maximum(own, 0.0))
        noise = noise[:, None] if given.columns else noise
        values = values + noise * fresh.normal((found.alpha.shape[0], *given.columns))
        return found.alpha - self._weights(given, found, values, fresh)

    def _observed_variance(self, given, found):
        """Prior variance of the observed quantity, with noise for a Gaussian likelihood."""
        return pt.sqr(found.root).sum(axis=1)

    def _weights(self, given, found, values, fresh):
        """C times such values, (n,) or (n, C)."""
        return solve(found.root, values)

    def function(self, given, update, fresh):
        prior, process = prior_function(given, fresh), given.process

        def summed(operator, weights):
            return process.summed(operator, given.known_smooth, weights[None]).reshape((-1,))

        def moved(operator):
            if isinstance(operator, Derivative):
                return by_class(summed, operator, update, given)
            return pt.dot(process.covariance(operator, given.known_smooth), update)

        return lambda operator: prior(operator) + moved(operator)
