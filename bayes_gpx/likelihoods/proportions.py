"""Proportions, between 0 and 1."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import expit

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta
from bayes_gpx.likelihoods.classification import Logit, both_probabilities
from bayes_gpx.likelihoods.derived import FARTHEST, Derived, log_odds
from bayes_gpx.likelihoods.predictive import Predictive, Proportioned
from bayes_gpx.likelihoods.tails import Slopes, both_tails, summed_tail
from bayes_gpx.numerics.gaussian_expectations import falling_side
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import softplus

LOGIT = Logit()
"""The link, one object: compiled functions are kept by it."""

WIDEST = 200.0
"""Log odds of both signs beyond which a tail is constant: its slopes are not finite from 270 on."""


@dataclass(frozen=True)
class Beta(Proportioned, Derived):
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

    def log_density(self, f: Tensor, y: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Log density of y given f, all of them scalars."""
        # PyMC's gamma function of the sum of both parameters has a slope that is not simplified.
        precision = theta["precision"]
        a, b = precision * pt.sigmoid(f), precision * pt.sigmoid(-f)
        constant = pt.gammaln(precision) - pt.gammaln(a) - pt.gammaln(b)
        return constant + (a - 1.0) * pt.log(y) + (b - 1.0) * pt.log1p(-y)

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        f = pt.clip(f, -FARTHEST, FARTHEST)
        p, q, precision = pt.sigmoid(f), pt.sigmoid(-f), theta["precision"]
        spread = pt.tri_gamma(precision * p) + pt.tri_gamma(precision * q)
        return pt.sqr(precision * p * q) * spread

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Beta distribution of y for f ~ N(mean, variance), jets, with the exact mean.

        The exact distribution has more variance.
        """
        both = both_probabilities(LOGIT, mean, variance)
        return Predictive(both[::-1], None, theta["precision"])

    def log_tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        # In the log odds u of y, where much may be nearer to 0 or 1 than y can be.
        near = pt.clip(f, np.float64(-WIDEST), np.float64(WIDEST))
        every = pt.broadcast_arrays(near, y, theta["precision"])
        at, bound, precision = (v.ravel()[:, None] for v in every)
        p, q = pt.sigmoid(at), pt.sigmoid(-at)
        a, b = precision * p, precision * q
        constant = pt.gammaln(a) + pt.gammaln(b) - pt.gammaln(precision)
        height = lambda u: -a * softplus(-u) - b * softplus(u) - constant  # noqa: E731
        start = log_odds(bound)
        low, high = pt.sigmoid(start), pt.sigmoid(-start)
        bends = a * high - b * low, -precision * low * high
        side, u, log_weights = falling_side(height, start, *bends)
        # Slopes of the log density are `rate` (u - mean) in f, of which both change with f.
        rate = [precision * v for v in (p * q, p * q * (q - p), p * q * (1.0 - 6.0 * p * q))]
        spread = pt.tri_gamma(a) + pt.tri_gamma(b)
        bend = pt.polygamma(2, a) - pt.polygamma(2, b)
        mean = pt.psi(a) - pt.psi(b), rate[0] * spread, rate[1] * spread + rate[0] ** 2 * bend
        off = u - mean[0]
        slopes = (
            rate[0] * off,
            rate[1] * off - rate[0] * mean[1],
            rate[2] * off - 2.0 * rate[1] * mean[1] - rate[0] * mean[2],
        )
        tail = Slopes(*(v.reshape(every[0].shape) for v in summed_tail(log_weights, slopes)))
        return both_tails(tail, side.reshape(every[0].shape) < 0.0, self.concave)

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        f = np.asarray(f)
        return expit(f) * expit(-f) / (1.0 + theta["precision"])
