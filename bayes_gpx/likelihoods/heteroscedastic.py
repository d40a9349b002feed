"""Normal noise with a standard deviation that is a process of its own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.data.moments import Moments
from bayes_gpx.likelihoods.base import Exposure, Response, Theta, VectorLikelihood
from bayes_gpx.likelihoods.predictive import Located, Predictive
from bayes_gpx.numerics.gaussian_expectations import standard_nodes
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import log_normal, log_sum_exp, ndtr


@dataclass(frozen=True)
class HeteroscedasticNormal(Located, VectorLikelihood):
    """y = m + noise, noise ~ N(0, exp(s)^2); m and s are processes with separate kernels.

    The latent values f (n, 2) are m and s less their prior means `centers`. A priori, m varies
    around the mean of y, in units of its standard deviation. s has an intercept, which is normal
    around log(sd of y) + `log_sd` with standard deviation `log_sd_sd`; f contains its deviation
    from that mean. Fisher's information is diagonal, so given hyperparameters Laplace's posteriors
    of m and s are independent.
    """

    classes: int = 2
    log_sd: float = -1.0  # prior mean of the intercept of s, relative to the log of y's sd
    log_sd_sd: float = 1.5  # its prior standard deviation
    y_mean: float = 0.0  # mean of y
    y_sd: float = 1.0  # standard deviation of y
    processes = ("mean", "log_sd")
    responses = ("mean", "sd")
    class_dim = "process"
    mean_name = "mean and standard deviation"
    reported = "y"
    units = "{y} (mean), log of {y} (log_sd)"
    response_units = "{y}"
    concave = False

    @property
    def centers(self) -> np.ndarray:
        """Prior means of m and s."""
        return np.array([self.y_mean, np.log(self.y_sd) + self.log_sd])

    @property
    def prior_sds(self) -> tuple[np.ndarray, np.ndarray]:
        """What the amplitudes of m and s are in units of, and the sds of their intercepts."""
        return np.array([self.y_sd, 1.0]), np.array([0.0, self.log_sd_sd])

    def settled(self, of_y: Moments, scale: bool = True) -> dict[str, Any]:
        """Mean and standard deviation of y, where the model scales it."""
        if not scale:
            return {}
        return {"y_mean": float(of_y.mean[0]), "y_sd": float(of_y.sd[0]) or 1.0}

    def _parts(self, f: Tensor, y: TensorLike) -> tuple[Tensor, Tensor]:
        """The residual y - m and the precision exp(-2 s)."""
        m, s = self.centers
        return y - f[..., 0] - m, pt.exp(-2.0 * (f[..., 1] + s))

    def logp(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y given f, (n,)."""
        residual, precision = self._parts(f, y)
        s = f[..., 1] + self.centers[1]
        return -0.5 * pt.sqr(residual) * precision - s - 0.5 * np.log(2.0 * np.pi)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta | None = None, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Gradient (n, 2) and negative Hessian (n, 2, 2) of `logp`."""
        residual, precision = self._parts(f, y)
        first = residual * precision
        square = residual * first
        rows = [[precision, 2.0 * first], [2.0 * first, 2.0 * square]]
        hessian = pt.stack([pt.stack(row, axis=-1) for row in rows], axis=-2)
        return pt.stack([first, square - 1.0], axis=-1), hessian

    def fisher(self, f: Tensor, theta: Theta | None = None, exposure: Exposure = None) -> Tensor:
        """Expected information about f, diag(exp(-2 s), 2), (n, 2, 2)."""
        precision = self._parts(f, 0.0)[1]
        return pt.stack([precision, 2.0 + pt.zeros_like(precision)], axis=-1)[..., None] * np.eye(2)

    def contracted(self, f: Tensor, M: Tensor) -> Tensor:
        """Derivative of ``trace(M fisher)`` in f, (n, 2)."""
        slope = -2.0 * M[..., 0, 0] * self._parts(f, 0.0)[1]
        return pt.stack([pt.zeros_like(slope), slope], axis=-1)

    def response(self, f: Tensor, exposure: Exposure = None) -> Response:
        """Mean and standard deviation of y (n, 2), with derivatives (n, 2, 2)."""
        m, s = self.centers
        sd = pt.exp(f[..., 1] + s)
        slopes = pt.stack([pt.ones_like(sd), sd], axis=-1)[..., None] * np.eye(2)
        return Response(pt.stack([f[..., 0] + m, sd], axis=-1), slopes, None)

    def slopes(self, f: np.ndarray) -> np.ndarray:
        """Derivatives (..., 2, 2) of the responses in f, in NumPy."""
        sd = np.exp(f[..., 1] + self.centers[1])
        return np.stack([np.ones_like(sd), sd], axis=-1)[..., None] * np.eye(2)

    def second_derivatives(
        self, f: np.ndarray, gradients: np.ndarray, hessians: np.ndarray
    ) -> np.ndarray:
        """Second derivatives (m, 2, d^2) of the responses in x."""
        crossed = gradients[:, :, None, 1] * gradients[:, None, :, 1]
        bends = hessians[..., 1] + crossed.reshape(hessians.shape[:2])
        sd = np.exp(f[:, 1] + self.centers[1])
        return np.stack([hessians[..., 0], sd[:, None] * bends], axis=1)

    def expected_jets(self, mean: Jet, variance: Jet) -> tuple[Jet, Jet]:
        """Jets of the expected mean and sd, from jets of f with last dims (2,) and (2, 2)."""
        center, s = self.centers
        log_sd = mean.component(1).plus(variance.component(1, 1), 0.5)
        return mean.component(0).shifted(center), log_sd.shifted(s).exp()

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """The normal distribution with the mean and variance of y, from the same jets."""
        log_sd = mean.component(1).plus(variance.component(1, 1)).shifted(self.centers[1])
        square = log_sd.plus(log_sd).exp()  # E exp(2 s)
        return Predictive((mean.component(0),), variance.component(0, 0).plus(square))

    def moments(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (..., 2) of a new y and of its sd, where (m, s) ~ N(mean, cov)."""
        spread = cov[..., 1, 1]
        sd = np.exp(mean[..., 1] + 0.5 * spread)
        square = sd**2 * np.exp(spread)
        variances = cov[..., 0, 0] + square, sd**2 * np.expm1(spread)
        return np.stack([mean[..., 0], sd], axis=-1), np.stack(variances, axis=-1)

    def expected_information(self, mean: Tensor, sd: Tensor) -> Tensor:
        """E `fisher` where f ~ N(mean, sd^2), independent, (n, 2, 2)."""
        return self.fisher(mean - pt.sqr(sd))

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` where f ~ N(mean, sd^2), its slope in mean, and -2 times that in variance."""
        residual, precision = self._parts(mean - pt.sqr(sd) * [0.0, 1.0], y)
        square = (pt.sqr(residual) + pt.sqr(sd[..., 0])) * precision
        logp = -0.5 * square - mean[..., 1] - self.centers[1] - 0.5 * np.log(2.0 * np.pi)
        slopes = pt.stack([residual * precision, square - 1.0], axis=-1)
        return logp, slopes, pt.stack([precision, 2.0 * square], axis=-1)

    def given_log_sd(
        self, y: Tensor, mean: Tensor, root: Tensor
    ) -> tuple[Tensor, Tensor, np.ndarray]:
        """At nodes of s: y less its mean (n, K), variances of y (n, K), and weights (K,)."""
        x, weights = standard_nodes()
        m, s = (mean[..., k, None] + self.centers[k] for k in range(2))
        sd = pt.sqrt(pt.sqr(root[..., 1, :]).sum(axis=-1))
        slope = (root[..., 0, :] * root[..., 1, :]).sum(axis=-1) / pt.maximum(sd, 1e-150)
        apart = y[:, None] - m - slope[:, None] * x
        left = pt.maximum(pt.sqr(root[..., 0, :]).sum(axis=-1) - pt.sqr(slope), 0.0)
        variance = left[:, None] + pt.exp(2.0 * (s + sd[:, None] * x))
        return apart, variance, weights

    def log_predictive(
        self,
        y: Tensor,
        mean: Tensor,
        root: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
    ) -> Tensor:
        """Log density of y where f ~ N(mean, root root'), root (n, 2, 2)."""
        apart, variance, weights = self.given_log_sd(y, mean, root)
        return log_sum_exp(log_normal(apart, 0.0, variance) + np.log(weights))

    def cumulative_predictive(
        self,
        y: Tensor,
        mean: Tensor,
        root: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, root root')."""
        apart, variance, weights = self.given_log_sd(y, mean, root)
        return (weights * ndtr(apart / pt.sqrt(variance))).sum(axis=1)

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f (..., 2)."""
        m, s = np.moveaxis(f + self.centers, -1, 0)
        return m + np.exp(s) * rng.standard_normal(m.shape)

    def dist(
        self,
        name: str,
        f: Tensor,
        theta: Theta | None = None,
        exposure: Exposure = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        m, s = self.centers
        return pm.Normal(name, mu=f[..., 0] + m, sigma=pt.exp(f[..., 1] + s), **kwargs)
