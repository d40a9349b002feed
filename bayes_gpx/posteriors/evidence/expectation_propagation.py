"""Observations of a log-concave likelihood, and normal values in intervals, as normal sites.

Sites are found by expectation propagation: at its fixed point the posterior of each value alone
has the mean and the variance that its own density or bounds give it, where the sites of all others
stand for what these say. The evidence is stationary in the sites there.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 3.6;
Nickisch and Rasmussen, "Approximations for binary Gaussian process classification" (2008);
Riihimaki and Vehtari, "Gaussian processes with monotonicity information" (2010).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import ScalarLikelihood, Theta
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.posteriors.evidence.intervals import WithoutGradient, given_known, sites_of
from bayes_gpx.system.digests import digest

SWEEPS = 300
"""At most so many passes over all sites."""

TOLERANCE = 1e-7
"""Sites are found when no posterior mean or sd moves by more than this, in prior sds."""

LARGEST_MISS = 1e-5
"""Sites that still move by more than this after all passes count as not found."""

LEAST_SITE = 1e-9
"""Smallest information of an observation's site, relative to the information without it."""

LEAST_STEP = 0.1
"""Sites of all observations move at once, by at least this share of the way to their new values:
by half of the share before each time that they move further than in the pass before."""

REMEMBERED = 2**25
"""Bytes of sites that are kept: a fit, its scores and its explanations ask for the same ones."""

_FOUND: dict[tuple[ScalarLikelihood, str], list[np.ndarray]] = {}


class AllSites(NamedTuple):
    """Observations and constraints as normal observations."""

    mean: Tensor  # (n + k,), of the sites; first of the n observations
    variance: Tensor  # (n + k,)
    center: Tensor  # (n,), mean of f at each observation given all others
    spread: Tensor  # (n,), its variance
    log_factor: Tensor  # of the sites' normal densities, a scalar
    of_rows: Tensor  # (n,), the observations' contributions to it


@cache
def _given_y(likelihood: ScalarLikelihood) -> ThreadedFunction:
    """Compile the mean and the variance of f given y, from those before."""
    (y, mean, variance), exposure = pt.dvectors("y", "mean", "variance"), likelihood.exposures()
    theta = likelihood.symbols()
    moments = likelihood.posterior_moments(y, mean, variance, theta, exposure)
    return ThreadedFunction([mean, variance, y, exposure, *theta.values()], list(moments))


def propagate(
    given_y: Callable, m: np.ndarray, S: np.ndarray, n: int, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Sites for values ~ N(m, S): n with likelihoods, and k others between bounds.

    `given_y` maps mean and variance of the first n values to their moments given their own
    observation. Returns mean and variance (n + k,) of the sites; center and spread (n,), the
    moments of the first n values given all sites but their own; and the log factor of the bounds'
    sites. Raises LinAlgError if no sites are found.
    """
    scale: np.ndarray = np.sqrt(np.diag(S)[:n])
    of_bounds: Any = None if len(low) else (low, low, 0.0)
    tau, nu = np.zeros(n), np.zeros(n)
    share, before = 1.0, np.inf
    for _ in range(SWEEPS):
        mean, own, cov = _given_rows(m, S, tau, nu)
        if len(low):
            of_bounds = sites_of(mean[n:], cov[n:], low, high, of_bounds)
            root = cholesky(cov[n:] + np.diag(of_bounds[1]), lower=True)
            half = solve_triangular(root, cov[:n].T, lower=True)
            own = own - (half**2).sum(axis=0)
            towards = solve_triangular(root, of_bounds[0] - mean[n:], lower=True)
            mean = mean[:n] + half.T @ towards
        precision = 1.0 / own - tau
        spread = 1.0 / precision
        center = spread * (mean / own - nu)
        found, variance = given_y(center, spread)
        steps = np.abs(found - mean), np.abs(np.sqrt(variance) - np.sqrt(own))
        moved = max((step / scale).max() for step in steps)
        if moved < TOLERANCE:
            break
        if not np.isfinite(moved):
            raise LinAlgError("Expectation propagation has left the numbers.")
        if moved > before:
            share = max(0.5 * share, LEAST_STEP)
        before = moved
        wanted = np.maximum(1.0 / variance - precision, LEAST_SITE * precision)
        nu += share * (found * (precision + wanted) - center * precision - nu)
        tau += share * (wanted - tau)
    if not moved < LARGEST_MISS:
        raise LinAlgError("Expectation propagation has found no fixed point.")
    of_rows, log_factor = (nu / tau, 1.0 / tau), of_bounds[2]
    mean, variance = (np.append(*pair) for pair in zip(of_rows, of_bounds, strict=False))
    return mean, variance, center, spread, log_factor


def _given_rows(
    m: np.ndarray, S: np.ndarray, tau: np.ndarray, nu: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (n + k,), variances (n,) and covariances with the last k (n + k, k) of all values.

    The distribution is N(m, S) times sites of the first n of precision tau and mean nu / tau.
    """
    n, root = len(tau), np.sqrt(tau)
    factor = cholesky(np.eye(n) + root[:, None] * S[:n, :n] * root, lower=True)
    half = solve_triangular(factor, root[:, None] * S[:n], lower=True)
    pull = nu - tau * m[:n]
    mean = m + S[:, :n] @ pull - half.T @ (half[:, :n] @ pull)
    own = np.diag(S)[:n] - (half[:, :n] ** 2).sum(axis=0)
    return mean, own, S[:, n:] - half.T @ half[:, n:]


class PropagatedSites(WithoutGradient):
    """(C, y, exposure, low, high, *hyperparameters) -> results of `propagate`, for all values.

    C is the prior covariance of f at the observations y (n,), followed by k values between bounds,
    with their noise. If the bounds are equal the value is known, and its site has no variance.
    Nothing is differentiable: at the fixed point the derivative of the log marginal likelihood in
    C, and in the hyperparameters of the (log-concave) likelihood, is the derivative with all sites
    fixed. Without sites, variances are NaN and the log factor is -inf.
    """

    __props__ = ("likelihood",)

    def __init__(self, likelihood: ScalarLikelihood) -> None:
        self.likelihood = likelihood

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        known = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, known, [*(pt.dvector() for _ in range(4)), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        inputs = [np.asarray(v, "float64") for v in inputs]
        which = self.likelihood, digest(*inputs)
        found = _FOUND.get(which)  # which another thread may clear
        if found is None:
            found = [np.asarray(v) for v in self._found(*inputs)]
            if len(_FOUND) * sum(v.nbytes for v in found) > REMEMBERED:
                _FOUND.clear()
            _FOUND[which] = found
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = value.copy()

    def _found(
        self,
        C: np.ndarray,
        y: np.ndarray,
        exposure: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        *own: np.ndarray,
    ) -> tuple:
        n, unknown = len(y), low != high
        mean, variance = np.append(np.zeros(n), low), np.zeros(len(C))
        free = np.append(np.ones(n, bool), unknown)

        def given_y(mean: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
            return _given_y(self.likelihood)(mean, variance, y, exposure, *own)

        try:
            m, S = given_known(C, ~free, low[~unknown])
            with np.errstate(all="ignore"):
                mean[free], variance[free], *rest = propagate(
                    given_y, m, S, n, low[unknown], high[unknown]
                )
        except (LinAlgError, ValueError):  # not positive definite, or not finite
            return mean, np.full(len(C), np.nan), np.zeros(n), np.ones(n), -np.inf
        return mean, variance, *rest

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(shapes[0][0],)] * 2 + [shapes[1]] * 2 + [()]


def all_sites(
    likelihood: ScalarLikelihood,
    C: Tensor,  # noqa: N803
    y: Tensor,
    theta: Theta,
    exposure: Tensor,
    low: Tensor,
    high: Tensor,
) -> AllSites:
    """Sites of observations and constraints, for symbolic arguments.

    Only the log factors have a derivative, in the likelihood's hyperparameters; see
    `PropagatedSites` for arguments and for the meaning of this derivative.
    """
    own = [theta[name] for name in likelihood.hyperparameters]
    found: Any = PropagatedSites(likelihood).make_node(C, y, exposure, low, high, *own).outputs
    mean, variance, center, spread, log_factor = found
    n = y.shape[0]
    density = likelihood.log_predictive(y, center, spread, theta, exposure)
    of_rows = density - log_normal(mean[:n], center, spread + variance[:n])
    return AllSites(mean, variance, center, spread, log_factor + of_rows.sum(), of_rows)
