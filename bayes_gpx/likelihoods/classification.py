"""Labels: two with a logit or probit link, or C with a softmax."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr, softmax

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.response import read_labels
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta, VectorLikelihood
from bayes_gpx.likelihoods.predictive import Labelled, Predictive
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.gaussian_expectations import moments, nodes
from bayes_gpx.numerics.jets import Jet, expectation
from bayes_gpx.numerics.special import (
    log_ndtr,
    log_ndtr_slopes,
    log_ndtr_within,
    log_softmax,
    log_sum_exp,
    softplus,
)
from bayes_gpx.numerics.threads import ThreadedFunction


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

    def inverse(self, p: Tensor) -> Tensor:
        """Latent value at which the probability is p."""
        return pt.log(p) - pt.log1p(-p)

    def log_between(self, low: Tensor, high: Tensor) -> Tensor:
        """Log probability that a logistic variable is between two finite bounds."""
        return -softplus(-high) - softplus(low) + pt.log1p(-pt.exp(low - high))

    def slopes_between(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `log_between` as both bounds rise."""
        above, below = self.slopes(high), self.slopes(-low)
        return above[0] - below[0], above[1] + below[1], above[2] - below[2]

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

    def inverse(self, p: Tensor) -> Tensor:
        """Latent value at which the probability is p."""
        return np.sqrt(2.0) * pt.erfinv(2.0 * p - 1.0)

    def log_between(self, low: Tensor, high: Tensor) -> Tensor:
        """Log probability that a standard normal variable is between two finite bounds."""
        return log_ndtr_within(low, high)

    def slopes_between(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `log_between` as both bounds rise."""
        # It is A + log(1 - exp(B - A)), with A of the end that is nearer to the bulk.
        mirrored = low > 0.0
        low, high = pt.switch(mirrored, -high, low), pt.switch(mirrored, -low, high)
        near, far = log_ndtr_slopes(high), log_ndtr_slopes(low)
        apart = log_ndtr(low) - log_ndtr(high)
        q = pt.exp(apart) / -pt.expm1(apart)
        d1, d2, d3 = (b - a for a, b in zip(near, far, strict=True))
        first = near[0] - q * d1
        second = near[1] - q * (1.0 + q) * pt.sqr(d1) - q * d2
        third = near[2] - q * (d3 + (1.0 + q) * d1 * (3.0 * d2 + (1.0 + 2.0 * q) * pt.sqr(d1)))
        sign = pt.switch(mirrored, -1.0, 1.0)
        return sign * first, second, sign * third

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


@dataclass(frozen=True)
class Bernoulli(Labelled, ScalarLikelihood):
    """Two labels in sorted order, coded 0 and 1; the probability is of the second."""

    link: Logit | Probit
    mean_name = "probability"
    discrete, ordered, labelled = True, False, True

    @property
    def units(self) -> str:
        """Units of f."""
        return f"{self.link.units} of {{y}}"

    def logp(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> Tensor:
        """Log probability of y given f."""
        return self.link.log_probability(_sign(y) * f)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        first, second, third = self.link.slopes(_sign(y) * f)
        return _sign(y) * first, second, _sign(y) * third

    def fisher(self, f: Tensor, theta: Theta | None = None, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        return self.link.information(f)

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Probability of the second label, with two derivatives."""
        return self.link.response(f)

    def expected(self, mean: Tensor, variance: Tensor, exposure: Exposure = None) -> Response:
        """Expected probability and derivatives where f ~ N(mean, variance)."""
        return self.link.expected(mean, variance)

    def rates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """Expected first four derivatives of the probability where f ~ N(mean, variance)."""
        return self.link.rates(mean, variance)

    def log_predictive(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
    ) -> Tensor:
        """Log probability of y where f ~ N(mean, variance)."""
        return self.link.log_expected(_sign(y) * mean, variance)

    def posterior_moments(
        self,
        y: Tensor,
        mean: Tensor,
        variance: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of f given y where f ~ N(mean, variance) before."""
        of_z, spread = self.link.posterior_moments(_sign(y) * mean, variance)
        return _sign(y) * of_z, spread

    def variance(
        self, f: ArrayLike, theta: Theta | None = None, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        return self.link.probability(f) * self.link.probability(np.negative(f))

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        return (rng.random(np.shape(f)) < self.link.probability(f)).astype("float64")

    def dist(
        self,
        name: str,
        f: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand.

        Its density, unlike `logp`, relies on PyTensor's rewrites: compiled with `fast_compile` it
        is -inf for the unlikely label beyond |f| = 37 (logit) or 8 (probit).
        """
        return pm.Bernoulli(name, logit_p=self.link.log_odds(f), **kwargs)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Probabilities of both labels where f ~ N(mean, variance), jets."""
        return Predictive(both_probabilities(self.link, mean, variance))

    def read(self, y: ArrayLike, labels: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return codes 0 and 1, and the two labels."""
        return read_labels(y, labels, two=True)


def both_probabilities(link: Logit | Probit, mean: Jet, variance: Jet) -> tuple[Jet, Jet]:
    """Expected probabilities of not and of being the second label, for f ~ N(mean, variance)."""
    below, above, *rates = expected(link)(mean.value, variance.value)
    falls = [-rate for rate in rates]
    return expectation(mean, variance, below, falls), expectation(mean, variance, above, rates)


@cache
def expected(link: Logit | Probit) -> ThreadedFunction:
    """Function from mean and variance of f to both labels' expected probabilities and `rates`."""
    mean, variance = pt.dvectors("mean", "variance")
    both = [pt.exp(link.log_expected(sign * mean, variance)) for sign in (-1.0, 1.0)]
    outputs = [*both, *link.rates(mean, variance)]
    return ThreadedFunction([mean, variance], outputs)


def _sign(y: Tensor) -> Tensor:
    return 2.0 * y - 1.0


@dataclass(frozen=True)
class Categorical(Labelled, VectorLikelihood):
    """C labels in sorted order, coded 0 to C - 1: softmax of C latent values, f (n, C).

    There is no quadrature over C latent values: expectations of the response are averages over
    draws of f. Jets of those, as the means of a `Predictive`, are all that relevance needs.
    """

    classes: int = 2
    mean_name = "probability"
    units = "latent value of {y}"
    discrete, ordered, labelled = True, False, True

    def logp(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> Tensor:
        """Log probability of y given f, (n,)."""
        own = _one_hot(f, y)
        ahead = f - (own * f).sum(axis=-1, keepdims=True)
        return -softplus(log_sum_exp(pt.switch(own, -np.inf, ahead)))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Gradient (n, C) and negative Hessian (n, C, C) of `logp`; the third: `contracted`."""
        own = _one_hot(f, y)
        others = (1.0 - own) * pt.exp(log_softmax(f))
        return own * others.sum(axis=-1, keepdims=True) - others, self.fisher(f)

    def fisher(self, f: Tensor, theta: Theta | None = None, exposure: Exposure = None) -> Tensor:
        """Expected information about f, diag(pi) - pi pi', (n, C, C)."""
        p, diagonal = pt.exp(log_softmax(f)), pt.eye(f.shape[-1])
        apart = p[..., :, None] * p[..., None, :] * (1.0 - diagonal)
        return apart.sum(axis=-1, keepdims=True) * diagonal - apart

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Probabilities (n, C) and their derivatives (n, C, C), the latent value last.

        Second derivatives come from `contracted`.
        """
        return Response(pt.exp(log_softmax(f)), self.fisher(f), None)

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """Derivatives (..., C, C) of the probabilities in f, in NumPy."""
        p = softmax(f, axis=-1)
        return p[..., :, None] * (np.eye(f.shape[-1]) - p[..., None, :])

    def second_derivatives(
        self, f: np.ndarray, gradients: np.ndarray, hessians: np.ndarray
    ) -> np.ndarray:
        """Second derivatives (m, C, d^2) of the probabilities in x."""
        # With E and Cov over classes with probabilities p: p_c times h_c - E h, h the Hessian, and
        # times the product of g_d,c - E g_d with g_e,c - E g_e less Cov(g_d, g_e).
        p = softmax(f, axis=-1)[:, None]
        centered = gradients - (p * gradients).sum(axis=-1, keepdims=True)
        crossed = (centered[:, :, None] * centered[:, None]).reshape(hessians.shape)
        inside = hessians + crossed
        return (p * (inside - (p * inside).sum(axis=-1, keepdims=True))).transpose(0, 2, 1)

    def expected_jets(self, mean: Jet, variance: Jet) -> tuple[Jet, ...]:
        """Jets of the expected probabilities, by quasi-random points."""
        return expected_probabilities(mean, variance)

    def logp_and_slopes(self, f: Tensor, y: Tensor, theta: Theta) -> tuple[Tensor, Tensor]:
        """`logp` and its gradient, of absolute precision alone, by one exponential for each f."""
        (p, log_p), own = _softmax(f), _one_hot(f, y)
        return (own * log_p).sum(axis=-1), own - p

    def expected_information(self, mean: Tensor, sd: Tensor) -> Tensor:
        """E `fisher` where f ~ N(mean, sd^2), independent over classes, (n, C, C)."""
        f, weights = self._independent(mean, sd)
        p, _ = _softmax(f)
        weighed = weights[:, None] * p
        own = weighed.sum(axis=1)[:, :, None] * pt.eye(self.classes)
        return own - weighed.transpose(0, 2, 1) @ p

    def contracted(self, f: Tensor, M: Tensor) -> Tensor:
        """Third derivatives of log sum exp f, summed against M (n, C, C), as (n, C).

        Entry c is ``sum_jk M_jk d2 S_c / df_j df_k``, S the probabilities. The chain rule of a
        Gaussian expectation needs it, with M_jk = Cov(df_j / dx, f_k). It is also the derivative of
        ``trace(M fisher)`` in f_c, minus the third derivative of `logp` against M. The gradient of
        a Laplace approximation needs it, with M the posterior covariance of f.
        """
        p = pt.exp(log_softmax(f))
        diagonal = pt.diagonal(M, axis1=-2, axis2=-1)
        both = ((M + pt.swapaxes(M, -1, -2)) * p[..., None, :]).sum(axis=-1)
        centered = diagonal - both
        return p * (centered - (p * centered).sum(axis=-1, keepdims=True))

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Probabilities of all classes, jets, from the jets of f with its covariances."""
        return Predictive(expected_probabilities(mean, variance))

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f (..., C)."""
        return (f + rng.gumbel(size=np.shape(f))).argmax(axis=-1).astype("float64")

    def dist(
        self,
        name: str,
        f: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        codes = kwargs.pop("observed", None)
        codes = None if codes is None else np.asarray(codes, dtype="int64")
        return pm.Categorical(name, logit_p=f, observed=codes, **kwargs)

    def read(self, y: ArrayLike, labels: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return codes, and the labels."""
        return read_labels(y, labels)


def _softmax(f: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities and their logs."""
    ahead = f - f.max(axis=-1, keepdims=True)
    weights = pt.exp(ahead)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, ahead - pt.log(total)


def _one_hot(f: Tensor, y: Tensor) -> Tensor:
    return pt.eq(pt.arange(f.shape[-1]), y[..., None]).astype("float64")
