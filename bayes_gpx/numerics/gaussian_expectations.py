"""Integrals over one Gaussian variable, by trapezoids that end where the integrand does."""

# The trapezoid rule converges exponentially for analytic integrands that vanish at both ends.
# Gauss-Hermite nodes do not: the poles of the logistic function spoil them.

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy.special import ndtri
from scipy.stats import qmc

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.numerics.special import log_normal, log_sum_exp, ndtr, softplus, stirling

NODES = 281
"""Nodes of a trapezoid rule, exact to round-off whatever the standard deviation, and to 1e-5 where
a density ends within a fortieth of it; with Student-t noise for nu from 0.2 to 400, and beyond that
within 40 standard deviations of the response."""

COARSE, ZOOMS = 25, 3
"""The interval is narrowed 3 times, to where the integrand is not negligible at 25 nodes."""

DROP = 36.0
"""An integrand below exp(-36) of its peak is left out."""

SDS = 9.0
"""Standard deviations at which a normal density is below this limit."""

WIDE = 33.0
"""Bounds in standard deviations of f where a log density is not concave; also bounds of log y, of
the log odds of y and of arcsinh y in integrals over y."""

NODES_OF_A_SIDE = 60
"""Of integrals up to a kink, and beyond it."""

FURTHEST, FEW = 8.0, 41
"""The trapezoid rule from -8 to 8 with 41 nodes, for a standard normal variable. With a logit link
expectations are good to 1e-10 for standard deviations of f up to 2, and to 1e-4 at 5."""

POINTS = 128
"""Quasi-random points, in pairs x and -x, where a row has several latent values."""


MANY_SDS, MOST_SDS, PARTS = 1e4, 1e30, np.logspace(-30.0, 0.0, 25)
"""Parts of the way from a mean to a peak are tried if it is longer than `MANY_SDS` standard
deviations. `MOST_SDS` is its largest length."""

LARGEST = 700.0
"""Larger numbers than this have no exponential."""

LEAST_FALL = 1e-8
"""Tails fall at least so fast, in logs."""

_X, _W = np.polynomial.legendre.leggauss(16)
_ENDS = np.array([0.0, 0.5, 1.5, 4.0, 12.0, 40.0, 130.0, 400.0, 1300.0])[:, None]
DISTANCES = (_ENDS[:-1] + np.diff(_ENDS, axis=0) * (_X + 1.0) / 2.0).ravel()
STEPS_BETWEEN = (np.diff(_ENDS, axis=0) * _W / 2.0).ravel()
"""Nodes from 0 to infinity, and their weights, for what falls about like exp(-distance)."""


def nodes(
    log_g: Callable[[Tensor], Tensor],
    mean: Tensor,
    variance: Tensor,
    slope: Tensor,
    peak: TensorLike,
) -> tuple[Tensor, Tensor]:
    """Nodes f and log weights (n, K) with E g(f) h(f) = sum exp(log_weights) h(f), f normal."""
    # `log_g` is the log of a log-concave g, elementwise on (n, K), with derivative `slope` (n,) at
    # the mean; h is any smooth function. The variance (n,) may be 0. The peak of g times the
    # density lies between `mean` and `peak`, which may be infinite.
    sd = pt.sqrt(variance)
    height = lambda z: log_g(mean[:, None] + sd[:, None] * z) - pt.sqr(z) / 2.0  # noqa: E731
    # In standard deviations: log g is concave, so its slope at the mean bounds the way to the peak.
    reach = pt.minimum(pt.abs(sd * slope), pt.abs(peak - mean) / pt.maximum(sd, 1e-150))
    end = _shortened(height, pt.sign(slope) * pt.minimum(reach, MOST_SDS))
    low, high = pt.minimum(end, 0.0) - SDS, pt.maximum(end, 0.0) + SDS
    z, log_weights = trapezoid(height, low, high)
    return mean[:, None] + sd[:, None] * z, log_weights - 0.5 * np.log(2.0 * np.pi)


def wide_nodes(
    log_g: Callable[[Tensor], Tensor], mean: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    """Such nodes for a g that need not be log-concave."""
    sd = pt.sqrt(variance)
    at = lambda z: mean[:, None] + sd[:, None] * z  # noqa: E731
    height = lambda z: log_g(at(z)) - pt.sqr(z) / 2.0  # noqa: E731
    z, log_weights = trapezoid(height, pt.full_like(mean, -WIDE), pt.full_like(mean, WIDE))
    return at(z), log_weights - 0.5 * np.log(2.0 * np.pi)


def nodes_with_kinks(
    log_g: Callable[[Tensor], Tensor],
    mean: Tensor,
    variance: Tensor,
    slope: Tensor,
    peak: TensorLike,
    kinks: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Such nodes for a log-concave g with kinks, (n,) each, in rising order."""
    f, _ = nodes(log_g, mean, variance, slope, peak)
    low, high = f[:, :1], f[:, -1:]
    ends = [low, *(pt.clip(kink[:, None], low, high) for kink in kinks), high]
    x, weights = np.polynomial.legendre.leggauss(NODES_OF_A_SIDE)
    sides = [(start, end - start) for start, end in itertools.pairwise(ends)]
    f = pt.concatenate([start + wide * (x + 1.0) / 2.0 for start, wide in sides], axis=1)
    steps = pt.concatenate([wide * weights / 2.0 for _, wide in sides], axis=1)
    return f, log_g(f) + log_normal(f, mean[:, None], variance[:, None]) + pt.log(steps)


def trapezoid(
    height: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, zooms: int = ZOOMS
) -> tuple[Tensor, Tensor]:
    """Nodes x (n, K) and log weights of the integral of exp(height(x)) h(x), for any smooth h."""
    low, high = narrowed(height, low, high, zooms)
    x = _grid(low, high, NODES)
    return x, height(x) + pt.log((high - low) / (NODES - 1))[:, None]


def half_line(
    height: Callable[[Tensor], Tensor], start: Tensor, side: float
) -> tuple[Tensor, Tensor]:
    """Nodes x (n, K) and log weights of such an integral from `start` (n, 1) to -inf or inf.

    `side` is -1 or 1. Distances from `start` go from 1e-30 to 1000. An integrand that falls off
    more slowly than exp(-0.07 distance) loses up to a thousandth.
    """
    x = lambda v: start + side * softplus(v)  # noqa: E731
    low, high = (pt.full_like(start[:, 0], end) for end in (-70.0, 1000.0))
    v, log_weights = trapezoid(lambda v: height(x(v)) - softplus(-v), low, high, zooms=6)
    return x(v), log_weights


def falling_side(
    height: Callable[[Tensor], Tensor],
    start: Tensor,
    slope: Tensor,
    curvature: Tensor,
    low: float = -np.inf,
    high: float = np.inf,
) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes and log weights of the integral from `start` (n, 1) to the side without the mode.

    Also the side (n, 1), -1 or 1. `height` is concave, with this slope and curvature at `start`,
    and for the integral to be right it falls at most a thousand times more slowly than these say.
    Between `low` and `high` it is finite, and there is next to nothing beyond them.
    """
    fall = pt.abs(slope) + pt.sqrt(pt.maximum(-curvature, 0.0))
    side = disconnected_grad(pt.switch(slope > 0.0, np.float64(-1.0), np.float64(1.0)))
    unit = disconnected_grad(1.0 / pt.maximum(fall, LEAST_FALL))
    x = start + side * unit * DISTANCES
    near = pt.clip(x, np.float64(low), np.float64(high))
    return side, near, height(near) - pt.abs(x - near) + pt.log(unit * STEPS_BETWEEN)


def narrowed(
    height: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, zooms: int = ZOOMS
) -> tuple[Tensor, Tensor]:
    """Where in [low, high], (n,) each, exp(height) is not negligible; without gradients."""
    for _ in range(zooms):
        x = _grid(low, high, COARSE)
        found = height(x)
        seen = found > found.max(axis=1, keepdims=True) - DROP
        step = (high - low) / (COARSE - 1)
        low = pt.switch(seen, x, np.inf).min(axis=1) - step
        high = pt.switch(seen, x, -np.inf).max(axis=1) + step
    # Up to round-off, a sum does not depend on where it ends.
    return disconnected_grad(low), disconnected_grad(high)


def _shortened(height: Callable[[Tensor], Tensor], end: Tensor) -> Tensor:
    """An end (n,), between 0 and which a concave height has its peak; without gradients.

    A slope that grows like an exponential says next to nothing of how far the peak is. From
    `MANY_SDS` on, this end is at most some 300 times as far, or 20 standard deviations.
    """
    tried = disconnected_grad(end[:, None] * PARTS)
    found = height(tried)
    best = pt.switch(pt.isnan(found), -np.inf, found).argmax(axis=1)
    nearer = tried[pt.arange(end.shape[0]), pt.minimum(best + 1, len(PARTS) - 1)]
    return pt.switch(pt.abs(end) < MANY_SDS, end, nearer)


def _grid(low: Tensor, high: Tensor, count: int) -> Tensor:
    return low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, count)


def moments(f: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (n,) of the distributions with such nodes, and logs of weights, (n, K)."""
    weights = pt.exp(log_weights - log_sum_exp(log_weights)[:, None])
    mean = (weights * f).sum(axis=1)
    return mean, (weights * pt.sqr(f - mean[:, None])).sum(axis=1)


def log_student_normal(
    distance: Tensor, variance: Tensor, sigma: TensorLike, nu: TensorLike
) -> Tensor:
    """Log density of Student-t plus normal noise, at a `distance` (n,) from their mean."""
    # The Student-t distribution is a mixture of normals over a precision lambda ~ Gamma(nu / 2, nu
    # / 2). The integrand is analytic in log lambda for any two widths.
    a = nu / 2.0
    square = pt.sqr(distance)
    # Two bounds on how far a distance can pull log lambda down from 0: the second, by the normal
    # variable's width, holds where it is positive.
    b, c = a + 0.5, a - square / pt.maximum(8.0 * variance, 1e-150)
    by_sigma = pt.log(b / (b + square / (2.0 * pt.sqr(sigma)))) - _margin(b)
    c = pt.maximum(c, 1e-3 * a)
    low = pt.maximum(by_sigma, pt.switch(c > 1e-3 * a, pt.log(c / a) - _margin(c), -np.inf))
    log_weights, spread = _precisions(low, variance, sigma, nu)
    return log_sum_exp(log_weights + log_normal(distance[:, None], 0.0, spread))


def student_normal_cdf(
    distance: Tensor, variance: Tensor, sigma: TensorLike, nu: TensorLike
) -> Tensor:
    """Distribution function of Student-t plus normal noise; exact to 1e-9 if nu is at least 0.5."""
    low = -_margin(nu / 2.0) + pt.zeros_like(distance)
    log_weights, spread = _precisions(low, variance, sigma, nu)
    return (pt.exp(log_weights) * ndtr(distance[:, None] / pt.sqrt(spread))).sum(axis=1)


def _precisions(
    low: Tensor, variance: Tensor, sigma: TensorLike, nu: TensorLike
) -> tuple[Tensor, Tensor]:
    """Log weights of nodes in log lambda from `low` (n,) up, and variances given lambda, (n, K)."""
    a = nu / 2.0
    high = pt.log1p(DROP / a + SDS / pt.sqrt(a)) + pt.zeros_like(low)
    x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, NODES)
    spread = variance[:, None] + pt.sqr(sigma) * pt.exp(-x)
    log_gamma = a * (x - pt.expm1(x)) + 0.5 * pt.log(a / (2.0 * np.pi)) - stirling(a)
    log_step = pt.log((high - low) / (NODES - 1))
    return log_gamma + log_step[:, None], spread


def _margin(a: TensorLike) -> Tensor:
    """Return delta with a (exp(-delta) - 1 + delta) above `DROP`: log lambda stays above -delta."""
    return DROP / a + SDS / pt.sqrt(a)


@lru_cache(maxsize=8)
def standard_nodes(
    classes: int | None = None, points: int = POINTS
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of standard normal variables, (K,) or (classes, K), and their weights (K,)."""
    # Not (K, classes): sums over classes would then add up few numbers that are neighbours in
    # memory, which NumPy does slowly.
    if classes is None:
        x = np.linspace(-FURTHEST, FURTHEST, FEW)
        weights = np.exp(-(x**2) / 2)
        return x, weights / weights.sum()
    half = ndtri(qmc.Sobol(classes, rng=np.random.default_rng(0)).random(points // 2))
    x = np.concatenate([half, -half])
    return (x / np.sqrt((x**2).mean(axis=0))).T.copy(), np.full(points, 1.0 / points)
