"""Real numbers: normal noise, and Student-t noise for outliers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import ndtri

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Response, ScalarLikelihood, Theta
from bayes_gpx.likelihoods.predictive import Located, Predictive
from bayes_gpx.likelihoods.tails import Slopes, normal_tails, student_tails
from bayes_gpx.numerics.gaussian_expectations import log_student_normal, student_normal_cdf
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import log_normal, log_rising_ratio, ndtr


def _sd(
    name: str, dims: tuple[str, ...] | None = None, least: np.ndarray | float | None = None
) -> Tensor:
    if least is None:
        return pm.HalfNormal(name, sigma=1.0, dims=dims)
    return pm.Truncated(name, pm.HalfNormal.dist(1.0), lower=least, dims=dims)


SIGMA = DefaultPrior(_sd, in_units_of_y=True)
"""Standard deviation, or scale, of noise; one for each output, which the dims then name."""


class Real(Located, ScalarLikelihood):
    """y in real numbers around f; hyperparameters are on the scale of a standardised y."""

    scaled = True
    units = "{y}"

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Return f itself."""
        return Response(f, pt.ones_like(f), pt.zeros_like(f))

    def expected(
        self, mean: Tensor, variance: Tensor | None, exposure: Exposure = None
    ) -> Response:
        """Return the mean itself."""
        return self.response(mean)


@dataclass(frozen=True)
class Normal(Real):
    """y = f + noise, noise ~ N(0, sigma^2)."""

    hyperparameters = {"sigma": SIGMA}
    normal = True

    def sd(self, theta: Theta, exposure: Any = None) -> Any:
        """Standard deviation of noise: of all rows, or of each."""
        return theta["sigma"]

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        return log_normal(y, f, pt.sqr(self.sd(theta, exposure)))

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        information = self.fisher(f, theta, exposure)
        return information * (y - f), -information, pt.zeros_like(f)

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        return pt.ones_like(f) / pt.sqr(self.sd(theta, exposure))

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        return ndtr((y - f) / self.sd(theta, exposure))

    def log_tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        sd = self.sd(theta, exposure)
        return normal_tails((y - f) / sd, sd)

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        return f + self.sd(theta, exposure) * ndtri(p)

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y where f ~ N(mean, variance)."""
        return log_normal(y, mean, variance + pt.sqr(self.sd(theta, exposure)))

    def posterior_moments(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of f given y where f ~ N(mean, variance) before."""
        noise = pt.sqr(self.sd(theta, exposure))
        left = noise / (variance + noise)
        return mean + (1.0 - left) * (y - mean), variance * left

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance)."""
        return ndtr((y - mean) / pt.sqrt(variance + pt.sqr(self.sd(theta, exposure))))

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        return self.sd(theta, exposure) ** 2

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        return f + self.sd(theta, exposure) * rng.standard_normal(np.shape(f))

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        return pm.Normal(name, mu=f, sigma=self.sd(theta, exposure), **kwargs)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y where f ~ N(mean, variance), jets: with the variance of the noise."""
        return Predictive((mean,), variance.shifted(theta["sigma"] ** 2))


@dataclass(frozen=True)
class KnownNoise(Normal):
    """y = f + noise of a known sd at each row, which takes the place of an exposure.

    With `extra`, `sigma` adds a variance: noise ~ N(0, noise_sd^2 + sigma^2).
    """

    extra: bool = False
    exposed = True
    exposure_name = "noise_sd"

    def __str__(self) -> str:
        """As results and plots name it."""
        return "normal"

    @property
    def called(self) -> str:
        """What messages call the likelihood."""
        return "a model with noise_sd"

    @property
    def hyperparameters(self) -> Mapping[str, DefaultPrior]:  # type: ignore[override]
        """`sigma` only where it adds a variance."""
        return {"sigma": SIGMA} if self.extra else {}

    def sd(self, theta: Theta, exposure: Any = None) -> Any:
        """Standard deviation of noise at each row."""
        if exposure is None:
            raise ValueError(
                "The model has a noise_sd for each training row, but this needs the noise of other "
                "rows. Ask about f, or use a model without noise_sd."
            )
        return (exposure**2 + theta["sigma"] ** 2) ** 0.5 if self.extra else exposure

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y where f ~ N(mean, variance), jets, and `theta` has a `noise_sd`."""
        return Predictive((mean,), variance.shifted(self.sd(theta, theta["noise_sd"]) ** 2))


@dataclass(frozen=True)
class StudentT(Real):
    """y = f + sigma t, t ~ Student(nu): robust to outliers, and not log-concave in f.

    Far from f the second derivative of the log density is positive: Newton's method needs
    `fisher` in its place there.
    """

    hyperparameters = {
        "sigma": SIGMA,
        "nu": DefaultPrior(lambda name: pm.Gamma(name, alpha=2.0, beta=0.1)),
    }
    concave = False

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        nu, sigma = theta["nu"], theta["sigma"]
        constant = log_rising_ratio(nu / 2.0, 0.5) - np.log(2.0 * np.pi) / 2.0 - pt.log(sigma)
        return constant - (nu + 1.0) / 2.0 * pt.log1p(pt.sqr((y - f) / sigma) / nu)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        e, wide = y - f, theta["nu"] * pt.sqr(theta["sigma"])
        spread = wide + pt.sqr(e)
        slope = (theta["nu"] + 1.0) / spread
        return (
            slope * e,
            slope * (pt.sqr(e) - wide) / spread,
            2.0 * slope * (e / spread) * (pt.sqr(e) - 3.0 * wide) / spread,
        )

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        nu = theta["nu"]
        return pt.ones_like(f) * (nu + 1.0) / ((nu + 3.0) * pt.sqr(theta["sigma"]))

    def steps(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Positive curvature that bounds the density's own: steps with it never overshoot."""
        return (theta["nu"] + 1.0) / (theta["nu"] * pt.sqr(theta["sigma"]) + pt.sqr(y - f))

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        # Not by the usual integral, where at t = 0 the slope is a product of 0 and infinity.
        t, nu = (y - f) / theta["sigma"], theta["nu"]
        wide = pt.sqrt(nu + pt.sqr(t))
        lower = nu / (2.0 * wide * (wide - pt.switch(t < 0.0, t, -t)))
        beyond = pt.betainc(nu / 2.0, nu / 2.0, lower)
        return pt.switch(t < 0.0, beyond, 1.0 - beyond)

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        first, second, _ = self.derivatives(f, y, theta)
        z = (y - f) / theta["sigma"]
        return student_tails(z, theta["nu"], self.logp(f, y, theta), first, second)

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y where f ~ N(mean, variance), by quadrature."""
        return log_student_normal(y - mean, variance, theta["sigma"], theta["nu"])

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance), by quadrature."""
        return student_normal_cdf(y - mean, variance, theta["sigma"], theta["nu"])

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f; infinite where nu is at most 2."""
        nu = np.asarray(theta["nu"])
        finite = nu / np.maximum(nu - 2.0, 1e-300)
        return theta["sigma"] ** 2 * np.where(nu > 2.0, finite, np.inf)

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        return f + theta["sigma"] * rng.standard_t(theta["nu"], np.shape(f))

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        return pm.StudentT(name, nu=theta["nu"], mu=f, sigma=theta["sigma"], **kwargs)

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Student-t distribution of y for f ~ N(mean, variance), jets.

        Its squared scale is sigma^2 plus the variance of f: the approximation of the paper that
        `relevance` follows.
        """
        return Predictive((mean,), variance.shifted(theta["sigma"] ** 2), 1.0 / theta["nu"])
