"""Counts with more zeros than a Poisson or negative binomial distribution has."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta
from bayes_gpx.likelihoods.counts import NegativeBinomial, Poisson
from bayes_gpx.likelihoods.derived import CLEAR, FARTHEST, Derived
from bayes_gpx.likelihoods.log_link import LogLink, log_mean, mean_of
from bayes_gpx.likelihoods.predictive import Inflated, Predictive
from bayes_gpx.likelihoods.tails import KEPT_POSITIVE, Slopes, kept_positive
from bayes_gpx.numerics.jets import Jet

INFLATION = DefaultPrior(lambda name: pm.Beta(name, alpha=1.0, beta=3.0))


class _ZeroInflated(Inflated, LogLink, Derived):
    """Counts of mean exposure exp(f), which are zeros of their own with probability `inflation`."""

    units = "log rate of {y}"
    mean_name = "rate"
    support = "counts"
    concave = False
    information_at_mode = KEPT_POSITIVE
    uninflated: ClassVar[Poisson | NegativeBinomial]

    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Mean of all counts given f."""
        return exposure * pt.exp(f)

    def log_density(self, f: Tensor, y: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Log probability of y given f, all of them scalars."""
        inflation = theta["inflation"]
        own = self.uninflated.logp(f - pt.log1p(-inflation), y, theta, exposure)
        zero = pt.log1p((1.0 - inflation) * pt.expm1(own))
        return pt.switch(pt.eq(y, 0.0), zero, pt.log1p(-inflation) + own)

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        share = 1.0 - theta["inflation"]
        others = self.uninflated.cumulative(f - pt.log(share), y, theta, exposure)
        return theta["inflation"] + share * others

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        below, above = self.tails_of_counts(f, y, theta, exposure)
        zeros = Slopes(pt.log(theta["inflation"]), *[pt.zeros_like(f)] * 3)
        return below.or_else(zeros), above

    def tails_of_counts(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> list[Slopes]:
        """The same without structural zeros, which have the probability `inflation`."""
        log_share = pt.log1p(-theta["inflation"])
        tails = self.uninflated.tails(f - log_share, y, theta, exposure)
        return [tail._replace(value=log_share + tail.value) for tail in tails]

    @abstractmethod
    def _others(self, rate: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        """Mean over variance of the other counts, and the log of their share of zeros."""

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        share = 1.0 - theta["inflation"]
        rate = pt.exp(log_mean(pt.clip(f, -FARTHEST, FARTHEST), exposure)) / share
        ratio, log_zeros = self._others(rate, theta)
        zeros = pt.exp(log_zeros)
        positive = share * pt.sqr(ratio) * rate * (1.0 / ratio - rate * zeros)
        return positive + pt.sqr(share * zeros * rate * ratio) / (1.0 - share + share * zeros)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y at exposure 1 for f ~ N(mean, variance), jets, with the exact mean."""
        found = self.uninflated.predictive(mean, variance, theta)
        return found._replace(excess=np.array([found.excess, theta["inflation"]]))

    def laplace_information(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """The observed information, kept above 0, and its slope.

        A zero says little about f where rates are large, while `fisher` averages over other y.
        """
        return kept_positive(*self.derivatives(f, y, theta, exposure))

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Curvature for Newton's steps: observed where that is clearly positive.

        Elsewhere it is the curvature of the other counts, times the probability that y is one of
        them: the least that no step overshoots, as in EM. The expected information of a zero among
        large rates is so much larger that steps would hardly move.
        """
        near, inflation = pt.clip(f, -FARTHEST, FARTHEST), theta["inflation"]
        at = near - pt.log1p(-inflation), y, theta, exposure
        other = pt.log1p(-inflation) + self.uninflated.logp(*at)
        share = pt.exp(other - self.logp(near, y, theta, exposure))
        least = pt.maximum(-share * self.uninflated.derivatives(*at)[1], np.float64(1e-100))
        observed = -self.derivatives(f, y, theta, exposure)[1]
        return pt.switch(observed > CLEAR * least, observed, least)

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        mean = mean_of(f, exposure)
        share, dispersion = 1.0 - theta["inflation"], theta.get("dispersion", np.inf)
        rate = mean / share
        return mean * (1.0 + rate / dispersion + rate - mean)


@dataclass(frozen=True)
class ZeroInflatedPoisson(_ZeroInflated):
    """y is 0 with probability `inflation`, else Poisson; the mean of all y is exposure exp(f).

    inflation ~ Beta(1, 3) a priori; with an inflation of 0 the distribution is Poisson.
    """

    hyperparameters = {"inflation": INFLATION}
    uninflated = Poisson()

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Zero-inflated Poisson distribution."""
        share = 1.0 - theta["inflation"]
        return pm.ZeroInflatedPoisson.dist(share, exposure * pt.exp(f) / share)

    def _others(self, rate: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        return pt.ones_like(rate), -rate


@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """y is 0 with probability `inflation`, else negative binomial; their mean is exposure exp(f).

    The other counts have the variance rate + rate^2 / dispersion. A priori inflation ~ Beta(1, 3)
    and log(dispersion) ~ N(1, 1.5^2).
    """

    hyperparameters = {"inflation": INFLATION, **NegativeBinomial.hyperparameters}
    uninflated = NegativeBinomial()

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Zero-inflated negative binomial distribution."""
        share = 1.0 - theta["inflation"]
        rate = exposure * pt.exp(f) / share
        return pm.ZeroInflatedNegativeBinomial.dist(share, rate, theta["dispersion"])

    def _others(self, rate: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        growth = rate / theta["dispersion"]
        return 1.0 / (1.0 + growth), -theta["dispersion"] * pt.log1p(growth)
