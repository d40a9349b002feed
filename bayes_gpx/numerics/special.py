"""Functions that stay accurate in the tails, where textbook forms are 0 or infinite."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy import special

from bayes_gpx.aliases import Tensor, TensorLike

FAR = -5.0
"""Below this z the hazard is a continued fraction; above, plain forms lose at most three digits."""

FRACTION = 24
"""Levels of the continued fraction: exact to round-off at z = -5, where it converges slowest."""

GAMMA_FAR, GAMMA_FRACTION = 60.0, 12
"""Where the fraction of `log_gammaincc` begins, and its levels."""

LARGE = 25.0
"""From here on four terms of Stirling's series are exact to round-off."""


def softplus(z: TensorLike) -> Tensor:
    """Return log(1 + exp(z))."""
    # The logarithm is written by arctanh: PyTensor's own form of log1p(exp) has no NumPy function
    # and runs thirty times slower in the Python linker.
    small = pt.exp(-pt.abs(z))
    return pt.maximum(z, 0.0) + 2.0 * pt.arctanh(small / (2.0 + small))


def ndtr(z: TensorLike) -> Tensor:
    """Return the standard normal distribution function."""
    return 0.5 * pt.erfc(-z / np.sqrt(2.0))


def log_ndtr(z: TensorLike) -> Tensor:
    """Log of the standard normal distribution function."""
    below, above = pt.maximum(-z, 0.0), pt.maximum(z, 0.0)
    left = pt.log(pt.erfcx(below / np.sqrt(2.0)) / 2.0) - pt.sqr(below) / 2.0
    return pt.switch(z < 0, left, pt.log1p(-pt.erfc(above / np.sqrt(2.0)) / 2.0))


def log_ndtr_between(low: float, high: float) -> float:
    """Log probability of an interval, `low` below `high`, under a standard normal; a number."""
    if low > 0.0:  # where differences of distribution functions lose digits
        low, high = -high, -low
    above = special.log_ndtr(high)
    return above + np.log1p(-np.exp(special.log_ndtr(low) - above))


def log_ndtr_within(low: Tensor, high: Tensor) -> Tensor:
    """Log probability of finite intervals under a standard normal, differentiable."""
    mirrored = low > 0.0
    low, high = pt.switch(mirrored, -high, low), pt.switch(mirrored, -low, high)
    above = log_ndtr(high)
    return above + pt.log(-pt.expm1(log_ndtr(low) - above))


def log_ndtr_slopes(z: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives r, -r (z + r) and r ((z + r) (z + 2 r) - 1) of `log_ndtr`; r = pdf / cdf."""
    # In the left tail z + r is 1 / |z| and the bracket 2 / z^4, so both come from Laplace's
    # continued fraction r = t + 1 / (t + 2 / (t + 3 / ...)), t = -z, with positive levels y_k = k /
    # (t + y_{k+1}).
    r, excess, bracket = _far(pt.maximum(-z, -FAR))
    near = pt.maximum(z, FAR)
    left, right = pt.minimum(near, 0.0), pt.maximum(near, 0.0)
    scale = np.sqrt(2.0 / np.pi)
    hazard = pt.switch(
        near < 0,
        scale / pt.erfcx(-left / np.sqrt(2.0)),
        scale * pt.exp(-pt.sqr(right) / 2.0) / (2.0 - pt.erfc(right / np.sqrt(2.0))),
    )
    far = z < FAR
    r = pt.switch(far, r, hazard)
    excess = pt.switch(far, excess, near + hazard)
    bracket = pt.switch(far, bracket, (near + hazard) * (near + 2.0 * hazard) - 1.0)
    return r, -r * excess, r * bracket


def _far(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hazard r, z + r and the bracket at z = -t, for t >= -FAR, without cancellation."""
    # z + r is y_1, the bracket y_1 (2 y_1 - y_2), and 2 y_1 - y_2 is 2 (y_3 - y_2) over a product.
    y = (pt.sqrt(pt.sqr(t) + 4.0 * FRACTION) - t) / 2.0
    for level in range(FRACTION, 4, -1):
        y = level / (t + y)
    fourth = 4.0 / (t + y)
    third = 3.0 / (t + fourth)
    second = 2.0 / (t + third)
    first = 1.0 / (t + second)
    difference = (t + 3.0 * third - 2.0 * fourth) / ((t + third) * (t + fourth))
    bracket = 2.0 * first * difference / ((t + second) * (t + third))
    return t + first, first, bracket


def stirling(a: TensorLike) -> Tensor:
    """Return log gamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2), Stirling's remainder."""
    few, many = pt.minimum(a, LARGE), pt.maximum(a, LARGE)
    exact = pt.gammaln(few) - (few - 0.5) * pt.log(few) + few - 0.5 * np.log(2.0 * np.pi)
    x = 1.0 / pt.sqr(many)
    series = (1.0 / 12.0 - x * (1.0 / 360.0 - x * (1.0 / 1260.0 - x / 1680.0))) / many
    return pt.switch(a < LARGE, exact, series)


def log_rising_ratio(a: TensorLike, b: TensorLike) -> Tensor:
    """Return log gamma(a + b) - log gamma(a) - b log a, which tends to 0 for large a."""
    return (a + b - 0.5) * pt.log1p(b / a) - b + stirling(a + b) - stirling(a)


def log_sum_exp(x: Tensor) -> Tensor:
    """Log of the sum of exponentials over the last axis."""
    largest = x.max(axis=-1, keepdims=True)
    return largest[..., 0] + pt.log(pt.exp(x - largest).sum(axis=-1))


def log_softmax(f: Tensor) -> Tensor:
    """Log of the softmax over the last axis."""
    return f - log_sum_exp(f)[..., None]


def log_normal(y: TensorLike, mean: TensorLike, variance: TensorLike) -> Tensor:
    """Log density of N(mean, variance) at y."""
    return -0.5 * (np.log(2.0 * np.pi) + pt.log(variance) + pt.sqr(y - mean) / variance)


def log_gammaincc(a: TensorLike, x: TensorLike) -> Tensor:
    """Log of the regularized upper incomplete gamma function."""
    # Far above its mean it underflows, and Legendre's continued fraction is exact to round-off.
    begins = a + 0.5 * GAMMA_FAR + pt.sqrt(GAMMA_FAR * a + 0.25 * GAMMA_FAR**2)
    far = x > begins  # where (x - a)^2 is above `GAMMA_FAR` x
    near, beyond = pt.switch(far, np.float64(1.0), x), pt.switch(far, x, begins)
    rest: TensorLike = 0.0
    for k in range(GAMMA_FRACTION, 0, -1):
        rest = k * (a - k) / (beyond + (2 * k + 1) - a + rest)
    fraction = a * pt.log(beyond) - beyond - pt.gammaln(a) - pt.log(beyond + 1.0 - a + rest)
    return pt.switch(far, fraction, pt.log(pt.gammaincc(a, near)))


def gamma_quantile(alpha: TensorLike, u: TensorLike) -> Tensor:
    """Quantile at u of Gamma with shape alpha and mean 1, differentiable in alpha."""
    x = disconnected_grad(pt.gammaincinv(alpha, u))
    density = pt.exp((alpha - 1.0) * pt.log(x) - x - pt.gammaln(alpha))
    # A Newton step, which changes the value by round-off only: through it PyTensor finds the
    # derivative by the implicit function theorem.
    return (x - (pt.gammainc(alpha, x) - u) / disconnected_grad(density)) / alpha
