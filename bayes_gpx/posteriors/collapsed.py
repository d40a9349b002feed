"""The response with all but hyperparameters integrated out.

With normal noise exactly; through basis functions, whose density of y is exact too; or through
inducing points, with Titsias' bound in its place. Other likelihoods:
`bayes_gpx.posteriors.marginals`.
"""

import pytensor.tensor as pt

from bayes_gpx.numerics.linear_algebra import solve_root
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors import marginals
from bayes_gpx.posteriors.evidence.normal import (
    leave_one_out,
    low_rank_leave_one_out,
)
from bayes_gpx.posteriors.exact import exact, noisy_covariance, restored
from bayes_gpx.posteriors.low_rank import LowRank, low_rank
from bayes_gpx.posteriors.strategies import seen_through


def conditioned(specification, process, theta, s):
    """Condition on y: `alpha` and `root` of the posterior."""
    if not specification.normal:
        return marginals.conditioned(specification, process, theta, s)
    seen = seen_through(specification, process, theta, s)
    if seen is None:
        q = exact(process, s.X, s.y, theta["sigma"], s.Z, jitter=s.jitter)
    else:
        q = low_rank(seen)
    return q.alpha, q.root


def again(specification, process, theta, s, label=None):
    """The posterior that `conditioned` found before, of one class, from `alpha` and `root`."""
    if not specification.normal:
        return marginals.again(specification, process, theta, s, label)
    seen = seen_through(specification, process, theta, s)
    if seen is not None:
        return LowRank(seen, s.alpha, s.root)
    return restored(process, s.X, s.y, s.alpha, s.root, s.Z)


def inducing_moments(specification, process, theta, s):
    """Mean of the inducing values, (M,) or (M, C), and a factor of their covariance.

    The factor is lower triangular, (M, M) or (C, M, M).
    """
    alpha, root = conditioned(specification, process, theta, s)
    to_values = seen_through(specification, process, theta, s).inducing_root
    half = solve_root(root, pt.broadcast_to(to_values.T, root.shape))
    covariance = pt.matmul(pt.swapaxes(half, -1, -2), half)
    return [pt.dot(to_values, alpha), pt.linalg.cholesky(covariance, lower=True, on_error="nan")]


def left_out(specification, process, theta, s):
    """Log density of y, that of each y_i given the others, and what f_i is given the others.

    With inducing points the first is the bound; the others follow from the approximate prior, of
    which the bound is a penalised density, with the variance that inducing values leave.

    Returns
    -------
    list of a scalar; (n,); mean (n,) and variance (n,) of f_i
        Of C classes mean (n, C) and a square root (n, C, C) of the covariance.
    """
    if not specification.normal:
        return marginals.left_out(specification, process, theta, s)
    seen = seen_through(specification, process, theta, s)
    if seen is None:
        C = noisy_covariance(process, s.X, theta["sigma"], s.Z, jitter=s.jitter)
        logp, mean, variance = leave_one_out(s.y, C)
    else:
        logp, mean, variance = low_rank_leave_one_out(s.y, seen.F, seen.D)
        logp, variance = logp - _penalty(seen), variance + seen.unseen
    of_f = pt.maximum(variance - pt.sqr(theta["sigma"]), 0.0)
    return [logp, log_normal(s.y, mean, variance), mean, of_f]


def _penalty(seen):
    return 0.5 * (seen.unseen / seen.D).sum()
