"""A log link: the mean response is exp(f), times an exposure."""

from typing import ClassVar

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood, Theta
from bayes_gpx.likelihoods.tails import Slopes, both_tails, tail_of_rate
from bayes_gpx.numerics.gaussian_expectations import falling_side
from bayes_gpx.numerics.special import log_sum_exp


class LogLink(ScalarLikelihood):
    """y of at least 0 around exposure exp(f), its mean."""

    units = "log mean of {y}"
    mean_name = "mean"
    exposed = True
    finite: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    """Between these f no exponential in the log density overflows."""
    exact_to: ClassVar[float] = np.inf
    """Tails are constant beyond this log mean. Their slopes need the difference of two logs, and
    round-off leaves nothing of it there."""

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean, with two derivatives: all equal."""
        mean = pt.exp(log_mean(f, exposure))
        return Response(mean, mean, mean)

    def expected(self, mean: Tensor, variance: Tensor, exposure: Exposure = None) -> Response:
        """Expected mean and derivatives where f ~ N(mean, variance)."""
        return self.response(mean + variance / 2.0, exposure)

    def tails_by_rate(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure
    ) -> tuple[Slopes, Slopes]:
        """Logs of two probabilities, that fall and grow with f at the rate y p(y | f)."""
        # They are integrals of this rate over g beyond f. Averages of differences of its slopes
        # keep their digits where a probability is e^-1000.
        f = pt.minimum(f, np.float64(self.exact_to) - log_mean(0.0, exposure))
        log_rate_here = self.logp(f, y, theta, exposure)
        first, second, _ = self.derivatives(f, y, theta, exposure)
        times = pt.ones_like(f) if exposure is None else exposure
        every = pt.broadcast_arrays(f, y, times, first, second)
        start, own, times, here, curvature = (v.ravel()[:, None] for v in every)
        height = lambda g: self.logp(g, own, theta, times)  # noqa: E731
        side, g, log_weights = falling_side(height, start, here, curvature, *self.finite)
        value = log_sum_exp(log_weights)
        off = self.derivatives(g, own, theta, times)[0] - here
        share = pt.exp(log_weights - value[:, None])
        change = pt.switch(share > 0.0, share * off, 0.0).sum(axis=1)
        value, change, side = (v.reshape(every[0].shape) for v in (value, change, side))
        slope = -side * pt.exp(log_rate_here - value)
        tail = tail_of_rate(value + pt.log(y), slope, change, second)
        return both_tails(tail, side > 0.0, self.concave)

    def center(
        self, y: np.ndarray, exposure: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> float:
        """Log of the mean y, or of y per exposure; raises if all y are 0."""
        return log_average(y, exposure, weights)


def log_average(y: np.ndarray, exposure: np.ndarray | None, weights: np.ndarray | None) -> float:
    """Log of the mean y, or of y per exposure; raises if all y are 0."""
    total, rows = (
        np.sum(v if weights is None else weights * v)
        for v in (y, np.ones(len(y)) if exposure is None else exposure)
    )
    if total == 0:
        raise ValueError(
            "y is 0 everywhere, so its mean has no logarithm. Pass scale=False for a prior mean of "
            "0."
        )
    return float(np.log(total / rows))


def log_mean(f: TensorLike, exposure: Exposure) -> Tensor:
    """Log of exposure exp(f)."""
    return pt.as_tensor(f) if exposure is None else f + pt.log(pt.cast(exposure, "float64"))


def mean_of(f: ArrayLike, exposure: ArrayLike | None) -> np.ndarray:
    """Return exposure exp(f), in NumPy."""
    return np.exp(f) * (1.0 if exposure is None else exposure)
