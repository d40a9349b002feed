"""A log link: the mean response is exp(f), times an exposure."""

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Exposure, Response, ScalarLikelihood


class LogLink(ScalarLikelihood):
    """y of at least 0 around exposure exp(f), its mean."""

    units = "log mean of {y}"
    mean_name = "mean"
    exposed = True

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean, with two derivatives: all equal."""
        mean = pt.exp(log_mean(f, exposure))
        return Response(mean, mean, mean)

    def expected(self, mean: Tensor, variance: Tensor, exposure: Exposure = None) -> Response:
        """Expected mean and derivatives where f ~ N(mean, variance)."""
        return self.response(mean + variance / 2.0, exposure)

    def center(self, y: np.ndarray, exposure: np.ndarray | None = None) -> float:
        """Log of the mean y, or of y per exposure; raises if all y are 0."""
        return log_average(y, exposure)


def log_average(y: np.ndarray, exposure: np.ndarray | None) -> float:
    """Log of the mean y, or of y per exposure; raises if all y are 0."""
    total = np.sum(y)
    if total == 0:
        raise ValueError(
            "y is 0 everywhere, so its mean has no logarithm. Pass scale=False for a prior mean of "
            "0."
        )
    return float(np.log(total / (len(y) if exposure is None else np.sum(exposure))))


def log_mean(f: TensorLike, exposure: Exposure) -> Tensor:
    """Log of exposure exp(f)."""
    return pt.as_tensor(f) if exposure is None else f + pt.log(pt.cast(exposure, "float64"))


def mean_of(f: ArrayLike, exposure: ArrayLike | None) -> np.ndarray:
    """Return exposure exp(f), in NumPy."""
    return np.exp(f) * (1.0 if exposure is None else exposure)
