"""From a latent value to the probability of one of two labels."""

import numpy as np
import pytensor.tensor as pt
from scipy.special import expit, ndtr

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Response
from bayes_gpx.numerics.gaussian_expectations import moments, nodes
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_slopes, log_sum_exp, softplus


class Logit:
    """Logistic function; log P(label) is -log(1 + exp(-z)), z the latent value towards it."""

    units = "log odds"
    probability = staticmethod(expit)

    def log_probability(self, z: TensorLike) -> Tensor:
        """Log probability of a label towards which the latent value is z."""
        return -softplus(-z)

    def slopes(self, z: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `log_probability`."""
        information = self.information(z)
        return pt.sigmoid(-z), -information, information * pt.tanh(z / 2.0)

    def information(self, z: TensorLike) -> Tensor:
        """Fisher information about the latent value."""
        return pt.sigmoid(z) * pt.sigmoid(-z)

    def response(self, f: Tensor) -> Response:
        """Probability, with its derivatives."""
        slope = self.information(f)
        return Response(pt.sigmoid(f), slope, -slope * pt.tanh(f / 2.0))

    def log_odds(self, f: Tensor) -> Tensor:
        """Log odds of the probability."""
        return f

    def log_expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Log of the expected probability where z ~ N(mean, variance), by quadrature."""
        return log_sum_exp(self._nodes(mean, variance)[1])

    def posterior_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of z given the label, where z ~ N(mean, variance) before."""
        return moments(*self._nodes(mean, variance))

    def _nodes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        return nodes(self.log_probability, mean, variance, pt.sigmoid(-mean), np.inf)

    def expected(self, mean: Tensor, variance: Tensor) -> Response:
        """Expected probability and expected derivatives where f ~ N(mean, variance)."""
        f, weights = nodes(_log_logistic_slope, mean, variance, -pt.tanh(mean / 2.0), 0.0)
        weights = pt.exp(weights)
        return Response(
            pt.exp(self.log_expected(mean, variance)),
            weights.sum(axis=-1),
            -(weights * pt.tanh(f / 2.0)).sum(axis=-1),
        )

    def rates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """Expectations of the probability's first four derivatives where f ~ N(mean, variance)."""
        f, weights = nodes(_log_logistic_slope, mean, variance, -pt.tanh(mean / 2.0), 0.0)
        weights, t = pt.exp(weights), pt.tanh(f / 2.0)
        ratios = (1.0, -t, 1.5 * pt.sqr(t) - 0.5, t * (2.0 - 3.0 * pt.sqr(t)))
        return [(weights * ratio).sum(axis=-1) for ratio in ratios]


def _log_logistic_slope(f: Tensor) -> Tensor:
    return -softplus(f) - softplus(-f)


class Probit:
    """Standard normal distribution function; its expectations are closed."""

    units = "probit"
    probability = staticmethod(ndtr)

    def log_probability(self, z: TensorLike) -> Tensor:
        """Log probability of a label towards which the latent value is z."""
        return log_ndtr(z)

    def slopes(self, z: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `log_probability`."""
        return log_ndtr_slopes(z)

    def information(self, z: TensorLike) -> Tensor:
        """Fisher information about the latent value."""
        return log_ndtr_slopes(z)[0] * log_ndtr_slopes(-z)[0]

    def response(self, f: Tensor) -> Response:
        """Probability, with its derivatives."""
        return self.expected(f, 0.0)

    def log_odds(self, f: Tensor) -> Tensor:
        """Log odds of the probability."""
        return log_ndtr(f) - log_ndtr(-f)

    def log_expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Log of the expected probability where z ~ N(mean, variance)."""
        return log_ndtr(mean / pt.sqrt(1.0 + variance))

    def posterior_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of z given the label, where z ~ N(mean, variance) before."""
        wide = 1.0 + variance
        slope, curvature, _ = log_ndtr_slopes(mean / pt.sqrt(wide))
        share = variance / wide
        return mean + share * pt.sqrt(wide) * slope, variance * (1.0 + share * curvature)

    def expected(self, mean: Tensor, variance: TensorLike) -> Response:
        """Expected probability and expected derivatives where f ~ N(mean, variance)."""
        wide = 1.0 + variance
        u = mean / pt.sqrt(wide)
        slope = pt.exp(-pt.sqr(u) / 2.0) / pt.sqrt(2.0 * np.pi * wide)
        return Response(pt.erfc(-u / np.sqrt(2.0)) / 2.0, slope, -slope * mean / wide)

    def rates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """Expectations of the probability's first four derivatives where f ~ N(mean, variance)."""
        sd = pt.sqrt(1.0 + variance)
        u = mean / sd
        slope = pt.exp(-pt.sqr(u) / 2.0) / (sd * np.sqrt(2.0 * np.pi))
        hermite = (1.0, -u, pt.sqr(u) - 1.0, u * (3.0 - pt.sqr(u)))
        return [slope * polynomial / sd**k for k, polynomial in enumerate(hermite)]
