"""Numbers of successes among trials."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import Exposure, Response, Theta
from bayes_gpx.likelihoods.classification import Logit, Probit, both_probabilities
from bayes_gpx.likelihoods.derived import Derived
from bayes_gpx.likelihoods.predictive import Labelled, Predictive
from bayes_gpx.numerics.jets import Jet


@dataclass(frozen=True)
class Binomial(Labelled, Derived):
    """y successes among trials, each of the same probability given f.

    The mean is trials times the probability, so trials take the place of an exposure.
    """

    link: Logit | Probit
    mean_name = "rate"
    support = "counts"
    exposed = True
    exposure_name = "trials"

    @property
    def response_units(self) -> str:
        """The mean of one trial."""
        return "probability of a success in {y}"

    @property
    def units(self) -> str:  # type: ignore[override]
        """Units of f."""
        return f"{self.link.units} of {{y}}"

    def refuse(self, y: np.ndarray, exposure: np.ndarray) -> None:
        """Raise for trials that are no whole numbers, or fewer than successes."""
        wrong = np.flatnonzero((exposure != np.floor(exposure)) | (y > exposure))
        if len(wrong):
            row = wrong[0]
            raise ValueError(
                f"y is {y[row]:g} of {exposure[row]:g} trials at position {row}. Pass trials=, a "
                "whole number of at least y for each row. If you have successes and failures, y is "
                "the successes, and trials their sum. For counts without a limit, use "
                "likelihood='poisson'."
            )

    def highest_y(self, exposure: np.ndarray) -> np.ndarray:
        """All trials."""
        return exposure

    def distribution(self, f: Tensor, exposure: Tensor, theta: Theta) -> Tensor:
        """Binomial distribution."""
        return pm.Binomial.dist(n=pt.cast(exposure, "int64"), p=self.link.response(f).value)

    def mean(self, f: Tensor, exposure: Tensor) -> Tensor:
        """Mean of y given f."""
        return exposure * self.link.response(f).value

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log probability of y given f."""
        failed = _trials(exposure) - y
        ways = pt.gammaln(_trials(exposure) + 1.0) - pt.gammaln(y + 1.0) - pt.gammaln(failed + 1.0)
        return ways + y * self.link.log_probability(f) + failed * self.link.log_probability(-f)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f."""
        failed, own, other = _trials(exposure) - y, self.link.slopes(f), self.link.slopes(-f)
        return (
            y * own[0] - failed * other[0],
            y * own[1] + failed * other[1],
            y * own[2] - failed * other[2],
        )

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        return _trials(exposure) * self.link.information(f)

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean of y, with two derivatives."""
        return Response(*(_trials(exposure) * v for v in self.link.response(f)))

    def expected(self, mean: Tensor, variance: Tensor, exposure: Exposure = None) -> Response:
        """Expected mean of y and derivatives where f ~ N(mean, variance)."""
        return Response(*(_trials(exposure) * v for v in self.link.expected(mean, variance)))

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Probabilities of failure and success of one trial, where f ~ N(mean, variance), jets."""
        return Predictive(both_probabilities(self.link, mean, variance))

    def rates(self, mean: Tensor, variance: Tensor) -> list[Tensor]:
        """Expected first four derivatives of the probability where f ~ N(mean, variance)."""
        return self.link.rates(mean, variance)

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        p, q = self.link.probability(f), self.link.probability(np.negative(f))
        return (1.0 if exposure is None else exposure) * p * q


def _trials(exposure: Exposure) -> Tensor:
    return pt.as_tensor(1.0) if exposure is None else pt.cast(exposure, "float64")
