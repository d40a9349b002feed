"""Counts with a log link and an optional exposure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.response import read_counts
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta, column
from bayes_gpx.likelihoods.log_link import LogLink, log_mean, mean_of
from bayes_gpx.likelihoods.predictive import Counted, Predictive
from bayes_gpx.likelihoods.tails import Slopes
from bayes_gpx.numerics.gaussian_expectations import (
    DROP,
    LARGEST,
    NODES,
    SDS,
    nodes,
    standard_nodes,
)
from bayes_gpx.numerics.jets import Jet, expectation
from bayes_gpx.numerics.special import log_rising_ratio, ndtr, softplus

MOST = 1e15
"""Above this, a drawn count equals its rate: the difference is below 1e-7 of it."""


class _Counts(Counted, LogLink):
    """Whole numbers around the rate exposure exp(f)."""

    units = "log rate of {y}"
    mean_name = "rate"
    discrete = True

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Nodes of f ~ N(mean, variance), and logs of weights that have p(y | f) in them."""
        slope = self.derivatives(mean, y, theta, exposure)[0]
        # Below rate 1 the slope of log p(0 | f) is above -1, so the peak is less than `variance`
        # below that rate or the mean.
        unit = -log_mean(0.0, exposure)
        lowest = pt.minimum(mean, unit) - variance
        peak = pt.switch(y > 0, pt.log(pt.maximum(y, 1.0)) + unit, lowest)
        log_p = lambda f: self.logp(f, y[:, None], theta, column(exposure))  # noqa: E731
        return nodes(log_p, mean, variance, slope, peak)

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        # The probability of at most y falls with f at the rate (y + 1) p(y + 1 | f).
        return self.tails_by_rate(f, y + 1.0, theta, exposure)

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance), by quadrature."""
        # Given f, it is the probability that g exceeds f, where g is a variable with the
        # log-concave density (y + 1) p(y + 1 | g). The integral is over the narrower of f and g:
        # exact to 1e-7 for a dispersion of at least 0.4.
        sd = pt.sqrt(variance)
        over_f = super().cumulative_predictive(y, mean, variance, theta, exposure)
        above = y + 1.0
        peak = pt.log(above) - log_mean(0.0, exposure)
        width = 1.0 / pt.sqrt(-self.derivatives(peak, above, theta, exposure)[1])
        # Beyond these points the log density falls at least as fast as it does there.
        low, high = (peak + side * SDS * width for side in (-1.0, 1.0))
        low, high = (
            end - DROP / self.derivatives(end, above, theta, exposure)[0] for end in (low, high)
        )
        g = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, NODES)
        density = above[:, None] * pt.exp(self.logp(g, above[:, None], theta, column(exposure)))
        below = ndtr((g - mean[:, None]) / pt.maximum(sd, 1e-150)[:, None])
        over_g = (density * below).sum(axis=1) * (high - low) / (NODES - 1)
        return pt.switch(sd < width, over_f, over_g)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y at exposure 1 for f ~ N(mean, variance), jets, with the exact mean."""
        # The exact distribution has more variance: this is the approximation of the paper that
        # `relevance` follows.
        rate = np.exp(mean.value + variance.value / 2.0)
        excess = 1.0 / theta["dispersion"] if self.hyperparameters else 0.0
        return Predictive((expectation(mean, variance, rate, [rate] * 4),), None, excess)

    def read(self, y: ArrayLike, labels: ArrayLike | None = None) -> tuple[np.ndarray, None]:
        """Return counts, and None."""
        return read_counts(y), None


@dataclass(frozen=True)
class Poisson(_Counts):
    """y ~ Poisson(exposure exp(f))."""

    finite = (-np.inf, LARGEST)
    exact_to = 28.0

    def logp(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> Tensor:
        """Log probability of y given f."""
        log_rate = log_mean(f, exposure)
        return y * log_rate - pt.exp(log_rate) - pt.gammaln(y + 1.0)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        rate = pt.exp(log_mean(f, exposure))
        return y - rate, -rate, -rate

    def cumulative(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y given f."""
        return pt.gammaincc(y + 1.0, pt.exp(log_mean(f, exposure)))

    def fisher(self, f: Tensor, theta: Theta | None = None, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        return pt.exp(log_mean(f, exposure))

    def variance(
        self, f: ArrayLike, theta: Theta | None = None, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        return mean_of(f, exposure)

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` for f ~ N(mean, sd^2), its slope in mean, and -2 times its slope in variance."""
        rate = self.expected(mean, pt.sqr(sd), exposure).value
        return y * log_mean(mean, exposure) - rate - pt.gammaln(y + 1.0), y - rate, rate

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        return _draw_counts(mean_of(f, exposure), rng)

    def dist(
        self,
        name: str,
        f: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        return pm.Poisson(name, mu=pt.exp(log_mean(f, exposure)), **kwargs)


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """Counts of mean mu = exposure exp(f) and variance mu + mu^2 / dispersion.

    The larger the dispersion, the nearer to Poisson.
    """

    hyperparameters = {
        "dispersion": DefaultPrior(lambda name: pm.LogNormal(name, mu=1.0, sigma=1.5))
    }

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log probability of y given f."""
        a, log_rate = theta["dispersion"], log_mean(f, exposure)
        return self._logp(log_rate, softplus(log_rate - pt.log(a)), y, a)

    def _logp(self, log_rate: Tensor, growth: Tensor, y: Tensor, a: Any) -> Tensor:
        """`logp`, where `growth` is the softplus of log_rate - log(a): linear in both."""
        constant = log_rising_ratio(a, y) - pt.gammaln(y + 1.0)
        return constant + y * log_rate - (a + y) * growth

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` for f ~ N(mean, sd^2), its slope in mean, and -2 times its slope in variance.

        By quadrature as for all likelihoods, except the terms that are linear in f.
        """
        (x, weights), a = standard_nodes(), theta["dispersion"]
        log_rate = log_mean(mean, exposure)
        log_odds = (log_rate - pt.log(a))[:, None] + sd[:, None] * x
        # Half the time of PyTensor's sigmoid.
        share = 1.0 / (1.0 + pt.exp(pt.minimum(-log_odds, LARGEST)))
        logp = self._logp(log_rate, pt.dot(softplus(log_odds), weights), y, a)
        slope = y - (a + y) * pt.dot(share, weights)
        return logp, slope, (a + y) * pt.dot(share, weights * x) / sd

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        a = theta["dispersion"]
        log_odds = log_mean(f, exposure) - pt.log(a)
        p, q = pt.sigmoid(log_odds), pt.sigmoid(-log_odds)
        information = (a + y) * p * q
        return y * q - a * p, -information, information * pt.tanh(log_odds / 2.0)

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        # The integral has no slope at its end, 1, so it is of the smaller of two probabilities.
        a = theta["dispersion"]
        log_odds = log_mean(f, exposure) - pt.log(a)
        low = log_odds < 0.0
        ends = (pt.switch(low, *both) for both in ((y + 1.0, a), (a, y + 1.0)))
        part = pt.betainc(*ends, pt.sigmoid(pt.switch(low, log_odds, -log_odds)))
        return pt.switch(low, 1.0 - part, part)

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        a = theta["dispersion"]
        return a * pt.sigmoid(log_mean(f, exposure) - pt.log(a))

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        rate = mean_of(f, exposure)
        return rate + rate**2 / theta["dispersion"]

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        rate, a = mean_of(f, exposure), theta["dispersion"]
        return _draw_counts(rate * rng.gamma(a, 1.0 / a, np.shape(rate)), rng)

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        mu = pt.exp(log_mean(f, exposure))
        return pm.NegativeBinomial(name, mu=mu, alpha=theta["dispersion"], **kwargs)


def _draw_counts(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.poisson(np.minimum(rate, MOST)).astype("float64")
    return np.where(rate > MOST, rate, drawn)
