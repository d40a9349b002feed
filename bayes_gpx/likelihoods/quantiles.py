"""Quantile regression: f is a quantile of the response."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import DefaultPrior, Exposure, Theta
from bayes_gpx.likelihoods.continuous import SIGMA, Real
from bayes_gpx.likelihoods.predictive import Predictive
from bayes_gpx.likelihoods.tails import Slopes, tails_of_values
from bayes_gpx.numerics.gaussian_expectations import nodes_with_kinks
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.special import log_ndtr, log_ndtr_slopes, log_sum_exp, ndtr


@dataclass(frozen=True)
class AsymmetricLaplace(Real):
    """See `asymmetric_laplace`."""

    level: float = 0.5
    smooth = False

    def __repr__(self) -> str:
        """As results and plots name it."""
        return f"asymmetric_laplace(quantile={self.level:g})"

    @property
    def hyperparameters(self) -> Mapping[str, DefaultPrior]:  # type: ignore[override]
        """`sigma`; the sd of noise is a multiple of it."""
        multiple = float(np.sqrt(self.variance(0.0, {"sigma": 1.0})))

        def sigma(
            name: str,
            dims: tuple[str, ...] | None = None,
            least: np.ndarray | float | None = None,
        ) -> Tensor:
            return SIGMA.prior(name, dims, None if least is None else least / multiple)

        return {"sigma": DefaultPrior(sigma, in_units_of_y=True)}

    def _rates(self, theta: Theta) -> tuple[Any, Any]:
        """How fast the density falls above f, and below."""
        return self.level / theta["sigma"], (1.0 - self.level) / theta["sigma"]

    def _log_height(self, theta: Theta) -> Tensor:
        """Log density of y = f."""
        return np.log(self.level * (1.0 - self.level)) - pt.log(theta["sigma"])

    def logp(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Log density of y given f."""
        (above, below), e = self._rates(theta), y - f
        return self._log_height(theta) - above * pt.maximum(e, 0.0) - below * pt.maximum(-e, 0.0)

    def derivatives(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """First three derivatives of `logp` in f, away from its kink."""
        above, below = self._rates(theta)
        slope = pt.switch(pt.ge(y, f), above, -below)
        return slope, 0.0 * slope, 0.0 * slope

    def fisher(self, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Expected information about f."""
        above, below = self._rates(theta)
        return pt.ones_like(f) * above * below

    def predictive(self, mean: Jet, variance: Jet, theta: Theta) -> Predictive:
        """Distribution of y for f ~ N(mean, variance), jets.

        It is taken as normal, with the information about f that y has.
        """
        above, below = self._rates(theta)
        return Predictive((mean,), variance.shifted(1.0 / (above * below)))

    def cumulative(self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """Probability of at most y given f."""
        (above, below), e = self._rates(theta), y - f
        low = self.level * pt.exp(-below * pt.maximum(-e, 0.0))
        high = 1.0 - (1.0 - self.level) * pt.exp(-above * pt.maximum(e, 0.0))
        return pt.switch(e < 0.0, low, high)

    def tails(
        self, f: Tensor, y: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Slopes, Slopes]:
        """Logs of the probabilities of at most y, and of more than y, given f."""
        given, e, (falls, rises) = (f, y, theta), y - f, self._rates(theta)
        low = np.log(self.level) - rises * pt.maximum(-e, 0.0)
        high = np.log1p(-self.level) - falls * pt.maximum(e, 0.0)
        below = pt.switch(e < 0.0, low, pt.log1p(-pt.exp(high)))
        above = pt.switch(e < 0.0, pt.log1p(-pt.exp(low)), high)
        return tails_of_values(below, above, self.logp(*given), *self.derivatives(*given)[:2])

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """E `logp` for f ~ N(mean, sd^2), its slope in mean, and -2 times its slope in variance."""
        z, sigma = (y - mean) / sd, theta["sigma"]
        slope = (self.level - ndtr(-z)) / sigma
        density = pt.exp(-pt.sqr(z) / 2.0) / (np.sqrt(2.0 * np.pi) * sigma)
        return self._log_height(theta) - slope * (y - mean) - sd * density, slope, density / sd

    def _sides(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Distances and rates (n, 2) of y above and below f ~ N(mean, variance), and z and sd."""
        sd = pt.sqrt(variance)
        z = (y - mean) / sd
        rates = pt.stack([rate * sd for rate in self._rates(theta)], axis=-1)
        return pt.stack([z, -z], axis=-1), rates, z, sd

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Log density of y where f ~ N(mean, variance)."""
        sides = self._sides(y, mean, variance, theta)
        return self._log_height(theta) + log_sum_exp(_log_share(*sides[:2]))

    def posterior_moments(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance of f given y where f ~ N(mean, variance) before."""
        # y - f has a mixture of two truncated normal distributions.
        *sides, _, sd = self._sides(y, mean, variance, theta)
        logs, (means, variances) = _log_share(*sides), _truncated(*sides)
        share = pt.sigmoid(logs[..., 0] - logs[..., 1])
        shares, (up, down) = pt.stack([share, 1.0 - share], axis=-1), (means[..., 0], means[..., 1])
        within = (shares * variances).sum(axis=-1)
        between = share * (1.0 - share) * pt.sqr(up + down)
        return y - sd * (share * up - (1.0 - share) * down), variance * (within + between)

    def cumulative_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> Tensor:
        """Probability of at most y where f ~ N(mean, variance)."""
        *sides, z, _ = self._sides(y, mean, variance, theta)
        above, below = (pt.exp(_log_share(*sides))[..., k] for k in (0, 1))
        return self.level * below + ndtr(z) - (1.0 - self.level) * above

    def weighed_nodes(
        self, y: Tensor, mean: Tensor, variance: Tensor, theta: Theta, exposure: Exposure = None
    ) -> tuple[Tensor, Tensor]:
        """Nodes of f ~ N(mean, variance), and logs of weights that have p(y | f) in them."""
        log_p = lambda f: self.logp(f, y[:, None], theta)  # noqa: E731
        slope = self.derivatives(mean, y, theta)[0]
        return nodes_with_kinks(log_p, mean, variance, slope, y, [y])

    def shift(self, theta: Theta) -> Any:
        """Mean of y minus f."""
        above, below = self._rates(theta)
        return 1.0 / above - 1.0 / below

    def quantile(self, p: float, f: Tensor, theta: Theta, exposure: Exposure = None) -> Tensor:
        """The y that is not exceeded with probability p."""
        above, below = self._rates(theta)
        if p < self.level:
            return f + np.log(p / self.level) / below
        return f - np.log((1.0 - p) / (1.0 - self.level)) / above

    def variance(
        self, f: ArrayLike, theta: Theta, exposure: ArrayLike | None = None
    ) -> np.ndarray | float:
        """Variance of y given f."""
        above, below = self._rates(theta)
        return 1.0 / above**2 + 1.0 / below**2

    def draw(
        self,
        f: np.ndarray,
        theta: Theta,
        rng: np.random.Generator,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Random y given f."""
        above, below = self._rates(theta)
        up, down = rng.standard_exponential((2, *np.shape(f)))
        return f + up / above - down / below

    def dist(
        self, name: str, f: Tensor, theta: Theta, exposure: Exposure = None, **kwargs: Any
    ) -> Tensor:
        """Return y as a variable of the PyMC model at hand."""
        rate = np.sqrt(self.level * (1.0 - self.level)) / theta["sigma"]
        return pm.AsymmetricLaplace(name, q=self.level, mu=f, b=rate, **kwargs)


def asymmetric_laplace(quantile: float = 0.5) -> AsymmetricLaplace:
    """Make a likelihood for quantile regression: f is a quantile of y.

    y = f + noise of an asymmetric Laplace distribution, whose log density is minus the check loss
    of quantile regression over `sigma`, so outliers count little. `sigma` ~ HalfNormal(1) a priori,
    on the scale of a standardized y; the sd of the noise around a median is 2.8 `sigma`.

    f has the moments of expectation propagation, or with `approximation=` the best Gaussian.
    Its intervals, and new responses y, rest on noise of this shape. If only the quantile matters,
    compare the intervals with those of another likelihood, such as "heteroscedastic_normal".

    Parameters
    ----------
    quantile : float
        Probability that y is at most f, between 0 and 1; 0.5 for the median.

    Returns
    -------
    Likelihood
        To pass as ``likelihood=`` to `GP` and `GPX`.

    Raises
    ------
    ValueError
        For a quantile that is not between 0 and 1.

    References
    ----------
    Yu and Moyeed, "Bayesian quantile regression" (2001);
    Boukouvalas, Barillec and Cornford, "Gaussian process quantile regression using expectation
    propagation" (2012).

    Examples
    --------
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.linspace(0.0, 3.0, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[[3, 9, 15]] += 50.0  # outliers
    >>> median = bx.likelihoods.asymmetric_laplace(quantile=0.5)
    >>> model = bx.GP(X, y, likelihood=median, scale=False)
    >>> theta = {"lengthscale": [1.0], "amplitude": 1.0, "sigma": 0.01}
    >>> found = bx.predictions(model, theta, [[1.0]], keep="summary", progressbar=False)
    >>> round(found["f_mean"].item(), 2)  # sin(1)
    0.84
    """
    if not isinstance(quantile, float | np.floating) or not 0.0 < quantile < 1.0:
        raise ValueError(f"quantile is {quantile!r}. Pass a number between 0 and 1.")
    return AsymmetricLaplace(float(quantile))


def _log_share(z: Tensor, rate: Tensor) -> Tensor:
    """Log of E exp(-rate u) over u > 0, for u ~ N(z, 1)."""
    # It is rate^2 / 2 - rate z + log_ndtr(x), of which the first terms cancel with the last one's
    # tail where x is negative.
    x = z - rate
    far = pt.log(pt.erfcx(pt.maximum(-x, 0.0) / np.sqrt(2.0)) / 2.0) - pt.sqr(z) / 2.0
    return pt.switch(x < 0.0, far, log_ndtr(pt.maximum(x, 0.0)) - rate * (x + z) / 2.0)


def _truncated(z: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of u > 0 with density N(z, 1) times exp(-rate u)."""
    x = z - rate
    hazard, second, third = log_ndtr_slopes(x)
    # Ratios of derivatives keep their digits in the tail, where plain forms lose them.
    some = pt.maximum(hazard, 1e-300)
    mean = pt.switch(x < 0.0, -second / some, x + hazard)
    return mean, pt.switch(x < 0.0, pt.sqr(mean) - third / some, 1.0 + second)
