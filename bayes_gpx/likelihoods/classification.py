"""Labels: two with a logit or probit link, or C with a softmax."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.response import read_labels
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta, VectorLikelihood
from bayes_gpx.likelihoods.links import Logit, Probit
from bayes_gpx.likelihoods.predictive import Labelled, Predictive
from bayes_gpx.likelihoods.softmax_expectations import expected_probabilities
from bayes_gpx.numerics.jets import Jet, expectation
from bayes_gpx.numerics.special import log_softmax, log_sum_exp, softplus
from bayes_gpx.numerics.threads import ThreadedFunction


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
        *both, one, two, three, four = _expected(self.link)(mean.value, variance.value)
        signed = zip((-1.0, 1.0), both, strict=True)
        return Predictive(
            tuple(
                expectation(mean, variance, p, [s * rate for rate in (one, two, three, four)])
                for s, p in signed
            )
        )

    def read(self, y: ArrayLike, labels: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return codes 0 and 1, and the two labels."""
        return read_labels(y, labels, two=True)


@cache
def _expected(link: Logit | Probit) -> ThreadedFunction:
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
