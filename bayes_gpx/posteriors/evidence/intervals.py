"""Normal values with known intervals, by expectation propagation.

Each interval becomes a normal site, a value observed with noise, so all results are normal.

References
----------
Cunningham, Hennig and Lacoste-Julien, "Gaussian probabilities and expectation propagation" (2011);
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 3.6.
"""

from collections.abc import Sequence
from math import exp, isfinite, log, pi
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from bayes_gpx.numerics.special import log_ndtr_between

SWEEPS = 500
"""At most so many passes over all sites."""

TOLERANCE = 1e-9
"""Sites are found when no posterior mean or sd moves by more than this, in prior sds."""

LARGEST_MISS = 1e-6
"""Sites that still move by more than this after all passes count as not found."""

LEAST_SITE = 1e-10
"""Smallest information of a site, relative to the prior's; smaller sites are negligible."""

FAR, NARROW = 5.0, 3e-3
"""Number of sds in a tail above which moments use a continued fraction, and width of intervals
below which they use a series, because the density is almost constant. Differences of distribution
functions would lose all digits."""

CLEAR = 1e-4
"""Proportion of the prior variance that a site must leave for its cavity to be a difference of two
precisions, which has about this squared times 1e16 digits left."""

NEGLIGIBLE = 37.0
"""A bound beyond which exp(-this) of the probability lies is none."""

FRACTION = 40
"""Levels of the continued fraction: exact to round-off at `FAR`, where it converges slowest."""


LOG_ROOT = 0.5 * log(2.0 * pi)
"""Log of the root in the normal density."""


def truncated_moments(low: float, high: float) -> tuple[float, float, float]:
    """Log probability of an interval under a standard normal, and mean and variance inside it."""
    if low > 0.0:  # where differences of distribution functions lose digits: mirror it
        logp, mean, variance = truncated_moments(-high, -low)
        return logp, -mean, variance
    logp = log_ndtr_between(low, high)
    if (high - low) * max(1.0, -low) < NARROW:
        middle, variance = 0.5 * (low + high), (high - low) ** 2 / 12.0
        return logp, middle * (1.0 - variance), variance
    if high < -FAR and (high - low) * -high > NEGLIGIBLE:
        return logp, *_of_tail(-high)
    at_low, at_high = (
        exp(-0.5 * z**2 - LOG_ROOT - logp) if isfinite(z) else 0.0 for z in (low, high)
    )
    mean, inside = at_low - at_high, 1.0
    inside += low * at_low if isfinite(low) else 0.0
    inside -= high * at_high if isfinite(high) else 0.0
    return logp, mean, inside - mean**2


def _of_tail(t: float) -> tuple[float, float]:
    """Mean and variance of a standard normal below -t, by Laplace's continued fraction.

    Its levels are y_k = k / (t + y_{k+1}); the mean is -(t + y_1).
    """
    later = 0.0
    for level in range(FRACTION, 2, -1):
        later = level / (t + later)
    second = 2.0 / (t + later)
    first = 1.0 / (t + second)
    return -(t + first), (second - first) / (t + second)


def sites_of(
    m: np.ndarray, S: np.ndarray, low: np.ndarray, high: np.ndarray, begun: Sequence | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Normal sites for g ~ N(m, S) between bounds, (k,) each.

    The search begins at the sites with the moments `begun`, if any. Returns mean and variance (k,),
    each site being N(g_i | mean, variance) up to a factor, and the sum of the logs of these
    factors, -inf if no sites were found. The log probability of the box is this plus the log
    density of `mean` under N(m, S + diag(variance)).
    """
    k, scale = len(m), np.sqrt(np.diag(S))
    tau, nu = np.zeros(k), np.zeros(k)
    if begun is not None:
        tau, nu = 1.0 / begun[1], begun[0] / begun[1]
    mean, cov = times_sites(m, S, tau, nu)
    logs, moved = np.zeros(k), np.inf
    for _ in range(SWEEPS):
        before = mean.copy(), np.sqrt(np.diag(cov))
        for i in range(k):
            own = cov[i, i]
            center, v = _cavity(i, mean, cov, m, S, tau, nu)
            precision, sd = 1.0 / v, np.sqrt(v)
            logs[i], shift, share = truncated_moments(
                (low[i] - center) / sd, (high[i] - center) / sd
            )
            tau_new = max(precision * (1.0 / share - 1.0), LEAST_SITE * precision)
            nu_new = (center + sd * shift) * (precision + tau_new) - center * precision
            step, column = tau_new - tau[i], cov[:, i].copy()
            gain = 1.0 / (1.0 + step * own)
            mean += gain * column * (nu_new - nu[i] - step * mean[i])
            cov -= ((step * gain) * column)[:, None] * column
            tau[i], nu[i] = tau_new, nu_new
        sd = np.sqrt(np.diag(cov))
        steps = np.abs(mean - before[0]), np.abs(sd - before[1])
        moved = max((step / scale).max(initial=0.0) for step in steps)
        if moved < TOLERANCE:
            break
    if not moved < LARGEST_MISS:
        return np.full(k, np.nan), np.full(k, np.nan), -np.inf
    mean, cov = times_sites(m, S, tau, nu)  # without the round-off of all steps
    center, v = np.transpose([_cavity(i, mean, cov, m, S, tau, nu) for i in range(k)])
    sd = np.sqrt(v)
    for i in range(k):
        logs[i] = truncated_moments((low[i] - center[i]) / sd[i], (high[i] - center[i]) / sd[i])[0]
    site, variance = nu / tau, 1.0 / tau
    spread = v + variance
    densities = -0.5 * (np.log(2 * np.pi * spread) + (site - center) ** 2 / spread)
    return site, variance, (logs - densities).sum()


def _cavity(
    i: int,
    mean: np.ndarray,
    cov: np.ndarray,
    m: np.ndarray,
    S: np.ndarray,
    tau: np.ndarray,
    nu: np.ndarray,
) -> tuple[float, float]:
    """Mean and variance of g_i without its own site."""
    own = cov[i, i]
    if own > CLEAR * S[i, i]:
        v = 1.0 / (1.0 / own - tau[i])
        return v * (mean[i] / own - nu[i]), v
    others = np.arange(len(m)) != i
    mean, cov = times_sites(m, S, tau * others, nu * others)
    return mean[i], cov[i, i]


def times_sites(
    m: np.ndarray, S: np.ndarray, tau: np.ndarray, nu: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of N(m, S) times sites of precision tau and mean nu / tau, (k,)."""
    root = np.sqrt(tau)
    B = np.eye(len(m)) + root[:, None] * S * root
    half = solve_triangular(cholesky(B, lower=True), root[:, None] * S, lower=True)
    cov = S - half.T @ half
    return m + cov @ (nu - tau * m), cov


class WithoutGradient(Op):
    """An operation without derivatives."""

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        return [DisconnectedType()() for _ in inputs]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        return [[False] * len(node.outputs) for _ in node.inputs]


class IntervalSites(WithoutGradient):
    """(C, y, low, high) -> means and variances of sites (k,), and the log of their factors.

    C is the covariance of y (n,), followed by k values between bounds. If the bounds are equal the
    value is known, and its site has no variance. Sites have no derivatives: at a fixed point of
    expectation propagation the derivative of the log marginal likelihood in C is the derivative
    with fixed sites.
    """

    __props__ = ()

    def make_node(self, C: Any, y: Any, low: Any, high: Any) -> Apply:  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (C, y, low, high)]
        return Apply(self, inputs, [pt.dvector(), pt.dvector(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        for storage, value in zip(output_storage, interval_sites(*inputs), strict=True):
            storage[0] = np.asarray(value)

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[2], shapes[2], ()]


def interval_sites(
    C: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """See `IntervalSites`."""
    mean, variance = np.array(low), np.zeros(len(low))
    unknown = low != high
    if not unknown.any():
        return mean, variance, 0.0
    seen = np.concatenate([np.ones(len(y), bool), ~unknown])
    try:
        m, S = given_known(C, seen, np.concatenate([y, low[~unknown]]))
        with np.errstate(all="ignore"):
            found: tuple[Any, Any, float] = sites_of(m, S, low[unknown], high[unknown])
    except (LinAlgError, ValueError):  # not positive definite, or not finite
        found = np.nan, np.nan, -np.inf
    mean[unknown], variance[unknown], log_factor = found
    return mean, variance, log_factor


def given_known(
    C: np.ndarray, seen: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of components of N(0, C) given the others, which are `seen`."""
    root = cholesky(C[np.ix_(seen, seen)], lower=True)
    white = solve_triangular(root, C[np.ix_(seen, ~seen)], lower=True)
    known = solve_triangular(root, values, lower=True)
    return white.T @ known, C[np.ix_(~seen, ~seen)] - white.T @ white
