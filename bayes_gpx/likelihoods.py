"""How the response varies around the process: one small class each."""

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


LIKELIHOODS = {"normal": Normal()}
