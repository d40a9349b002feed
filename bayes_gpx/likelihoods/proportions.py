"""Proportions, between 0 and 1."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import expit

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta
from bayes_gpx.likelihoods.derived import FARTHEST, Derived


@dataclass(frozen=True)
class Beta(Derived):
    """Beta distribution of y, with mean 1 / (1 + exp(-f)).

    The variance is mean (1 - mean) / (1 + precision), and the parameters of the distribution are
    precision mean and precision (1 - mean).
    precision ~ Gamma(2, 0.1) a priori.
    """

    units = "log odds of {y}"
    mean_name = "mean"
    support = "unit"
    concave = False
    hyperparameters = {"precision": DefaultPrior(lambda name: pm.Gamma(name, alpha=2.0, beta=0.1))}

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Beta distribution."""
        precision = theta["precision"]
        return pm.Beta.dist(precision * pt.sigmoid(f), precision * pt.sigmoid(-f))

    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Mean of y given f."""
        return pt.sigmoid(f)

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        f = pt.clip(f, -FARTHEST, FARTHEST)
        p, q, precision = pt.sigmoid(f), pt.sigmoid(-f), theta["precision"]
        spread = pt.tri_gamma(precision * p) + pt.tri_gamma(precision * q)
        return pt.sqr(precision * p * q) * spread

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        f = np.asarray(f)
        return expit(f) * expit(-f) / (1.0 + theta["precision"])
