"""How the response varies around the process: one small class each.

For relevance a likelihood says three things of y's predictive distribution at new points: what it
is, from mean and variance of f (`response`); which parameters it has, each with its Fisher
information (`parameters`); and how far apart two of them are (`divergence`).
"""

from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt


@dataclass(frozen=True)
class Normal:
    """y = f + noise, noise ~ N(0, sigma^2)."""

    hyperparameters = ("sigma",)

    def log_predictive(self, y, mean, variance):
        """Log density of y where the predictive distribution is N(mean, variance)."""
        return -0.5 * (np.log(2 * np.pi) + pt.log(variance) + (y - mean) ** 2 / variance)

    def response(self, mean, variance, theta):
        """Mean and variance of y, jets, from those of f, for one draw of the hyperparameters."""
        return mean, variance.shifted(theta["sigma"] ** 2)

    def parameters(self, mean, variance):
        """Parameters of N(mean, variance), jets, each with its Fisher information (m,)."""
        return (mean, 1.0 / variance.value), (variance, 0.5 / variance.value**2)

    def divergence(self, here, there):
        """Kullback-Leibler divergence from one N(mean, variance) to another; pairs of arrays."""
        (mean, variance), (moved, other) = here, there
        growth = (other - variance) / variance
        spread = np.log1p(growth) - growth / (1.0 + growth)
        return 0.5 * (spread + (moved - mean) ** 2 / other)


LIKELIHOODS = {"normal": Normal()}
