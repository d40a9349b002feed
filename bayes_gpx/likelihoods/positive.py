"""Positive numbers with a log link: amounts, durations and concentrations."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy import special

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta
from bayes_gpx.likelihoods.derived import Derived
from bayes_gpx.likelihoods.log_link import LogLink, log_mean, mean_of
from bayes_gpx.likelihoods.predictive import Located, Predictive
from bayes_gpx.likelihoods.tails import STEEPEST, Slopes, gumbel_tails, logistic_tails, normal_tails
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import gamma_quantile, log_gammaincc, log_normal, ndtr, softplus

SHAPE = DefaultPrior(lambda name: pm.Gamma(name, alpha=2.0, beta=0.5))
"""Shapes of about 1 to 10."""


class _Positive(Located, LogLink, Derived):
    """y above 0, and the mean response, or its median, is exposure exp(f)."""

    support = "positive"

    @abstractmethod
    def information(self, theta: Theta) -> Any:
        """Expected information about f, the same for each f."""

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        return pt.ones_like(f) * self.information(theta)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of log y where f ~ N(mean, variance), jets.

        It is taken as normal, with the information about f that y has: exact for `LogNormal`. A
        divergence between two distributions of y is the divergence between those of log y.
        """
        return Predictive((mean,), variance.shifted(1.0 / self.information(theta)))

    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Return exposure exp(f)."""
        return exposure * pt.exp(f)


@dataclass(frozen=True)
class LogNormal(_Positive):
    """log y ~ N(log mean - sigma^2 / 2, sigma^2), with mean exposure exp(f).

    sigma ~ HalfNormal(1) a priori. The median of y is exp(-sigma^2 / 2) times its mean.
    """

    hyperparameters = {"sigma": DefaultPrior(lambda name: pm.HalfNormal(name, sigma=1.0))}

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Log-normal distribution."""
        sigma = theta["sigma"]
        return pm.LogNormal.dist(f + pt.log(exposure) - pt.sqr(sigma) / 2.0, sigma)

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        z, log_y = self._distance(f, y, theta, exposure), pt.log(y)
        return log_normal(z, 0.0, 1.0) - pt.log(theta["sigma"]) - log_y

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        slope = self._distance(f, y, theta, exposure) / theta["sigma"]
        return slope, -self.fisher(f, theta), pt.zeros_like(f)

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f, which PyMC has to 8 digits only."""
        return ndtr(self._distance(f, y, theta, exposure))

    def log_tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        return normal_tails(self._distance(f, y, theta, exposure), theta["sigma"])

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        sigma = theta["sigma"]
        return pt.exp(log_mean(f, exposure) + sigma * (special.ndtri(p) - sigma / 2.0))

    def _distance(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure) -> Tensor:
        sigma = theta["sigma"]
        return (pt.log(y) - log_mean(f, exposure)) / sigma + sigma / 2.0

    def information(self, theta: Theta) -> Any:
        """Expected information about f."""
        return 1.0 / theta["sigma"] ** 2

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        return mean_of(f, exposure) ** 2 * np.expm1(theta["sigma"] ** 2)


@dataclass(frozen=True)
class Gamma(_Positive):
    """Gamma distribution of y, with mean exposure exp(f) and variance mean^2 / shape.

    shape ~ Gamma(2, 0.5) a priori.
    """

    hyperparameters = {"shape": SHAPE}

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Gamma distribution."""
        shape = theta["shape"]
        return pm.Gamma.dist(alpha=shape, beta=shape * pt.exp(-f) / exposure)

    # Much faster than PyMC's density with its derivatives, where a fit has few rows.
    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        a, distance = theta["shape"], pt.log(y) - log_mean(f, exposure)
        own = a * pt.log(a) - pt.gammaln(a) - pt.log(y)
        return own + a * (distance - pt.exp(pt.minimum(distance, STEEPEST)))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        distance = pt.minimum(pt.log(y) - log_mean(f, exposure), STEEPEST)
        above = theta["shape"] * pt.exp(distance)
        return above - theta["shape"], -above, above

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        return self.tails_by_rate(f, y, theta, exposure)

    def log_survival(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure) -> Tensor:
        """Log of the probability of more than y given f."""
        distance = pt.minimum(pt.log(y) - log_mean(f, exposure), STEEPEST)
        return log_gammaincc(theta["shape"], theta["shape"] * pt.exp(distance))

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        return pt.exp(log_mean(f, exposure)) * gamma_quantile(theta["shape"], np.float64(p))

    def information(self, theta: Theta) -> Any:
        """Expected information about f."""
        return theta["shape"]

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        return mean_of(f, exposure) ** 2 / theta["shape"]


@dataclass(frozen=True)
class Weibull(_Positive):
    """Durations y with P(Y > y) = exp(-(y / scale)^shape) and mean exposure exp(f).

    The scale is the mean over Gamma(1 + 1 / shape), so f accelerates time. The hazard grows with
    time for a shape above 1. shape ~ Gamma(2, 0.5) a priori.
    """

    hyperparameters = {"shape": SHAPE}

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Weibull distribution."""
        scale = exposure * pt.exp(f - self._log_ratio(theta))
        return pm.Weibull.dist(alpha=theta["shape"], beta=scale)

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        z = self._distance(f, y, theta, exposure)
        return pt.log(theta["shape"] / y) + z - pt.exp(pt.minimum(z, STEEPEST))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        shape = theta["shape"]
        z = pt.minimum(self._distance(f, y, theta, exposure), STEEPEST)
        above = shape * pt.exp(z)
        return above - shape, -shape * above, pt.sqr(shape) * above

    def highest(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The f of the highest density of y, which falls off like exp(-exp(-shape f))."""
        return pt.log(y) - log_mean(pt.zeros_like(f), exposure) + self._log_ratio(theta)

    def log_tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        return gumbel_tails(self._distance(f, y, theta, exposure), theta["shape"])

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        distance = np.log(-np.log1p(-p)) / theta["shape"] - self._log_ratio(theta)
        return pt.exp(log_mean(f, exposure) + distance)

    def _distance(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure) -> Tensor:
        """Log of y over its scale, times the shape."""
        return theta["shape"] * (pt.log(y) - log_mean(f, exposure) + self._log_ratio(theta))

    def _log_ratio(self, theta: Theta) -> Tensor:
        """Log of the mean over the scale."""
        return pt.gammaln(1.0 + 1.0 / theta["shape"])

    def information(self, theta: Theta) -> Any:
        """Expected information about f."""
        return theta["shape"] ** 2

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        one, two = (special.gammaln(1.0 + k / theta["shape"]) for k in (1.0, 2.0))
        return mean_of(f, exposure) ** 2 * np.expm1(two - 2.0 * one)


@dataclass(frozen=True)
class LogLogistic(_Positive):
    """Durations y with P(Y > y) = 1 / (1 + (y / median)^shape) and median exposure exp(f).

    log y is logistic around log(median), with scale 1 / shape, so f accelerates time. The mean is
    infinite for a shape of at most 1, so explanations on the response scale are of the median.
    shape ~ Gamma(2, 0.5) a priori.
    """

    hyperparameters = {"shape": SHAPE}
    units = "log median of {y}"
    mean_name = "median"
    level = 0.5

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Distribution of exp of a logistic variable."""
        return pt.exp(pm.Logistic.dist(f + pt.log(exposure), 1.0 / theta["shape"]))

    def center(
        self, y: np.ndarray, exposure: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> float:
        """Median of log y, or of y per exposure."""
        log_y = np.log(y if exposure is None else y / exposure)
        each = np.ones(len(y)) if weights is None else weights
        # A weight of 2 equals a repeated row, and between two middle ones lies their mean.
        lower, upper = (
            side * np.quantile(side * log_y, 0.5, method="inverted_cdf", weights=each)
            for side in (1, -1)
        )
        return float(lower + upper) / 2.0

    # PyMC's density loses its derivatives to rounding where y is far from its median.
    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        z = self._distance(f, y, theta, exposure)
        return pt.log(theta["shape"] / y) - softplus(z) - softplus(-z)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        z, shape = self._distance(f, y, theta, exposure), theta["shape"]
        slope = shape * pt.tanh(z / 2.0)
        second = -2.0 * pt.sqr(shape) * pt.sigmoid(z) * pt.sigmoid(-z)
        return slope, second, second * slope

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        return pt.sigmoid(self._distance(f, y, theta, exposure))

    def log_tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        return logistic_tails(self._distance(f, y, theta, exposure), theta["shape"])

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        return pt.exp(log_mean(f, exposure) + special.logit(p) / theta["shape"])

    def _distance(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure) -> Tensor:
        return theta["shape"] * (pt.log(y) - log_mean(f, exposure))

    def information(self, theta: Theta) -> Any:
        """Expected information about f."""
        return theta["shape"] ** 2 / 3.0

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Mean square of y about its median; infinite for a shape of at most 2."""
        angle = np.pi / np.maximum(theta["shape"], 2.0 + 1e-12)
        about = 2.0 * angle / np.sin(2.0 * angle) - 2.0 * angle / np.sin(angle) + 1.0
        finite = mean_of(f, exposure) ** 2 * about
        return np.where(np.asarray(theta["shape"]) > 2.0, finite, np.inf)
