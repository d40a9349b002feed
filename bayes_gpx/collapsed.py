"""The response with all but hyperparameters integrated out.

With normal noise exactly; through basis functions, whose density of y is exact too; or through
inducing points, with Titsias' bound in its place. Other likelihoods: `bayes_gpx.marginals`.
"""

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none

from bayes_gpx import marginals
from bayes_gpx.conditioning import solve_root
from bayes_gpx.evidence import leave_one_out, low_rank_leave_one_out, low_rank_logp, normal_logp
from bayes_gpx.posteriors.exact import exact, noisy_covariance, restored
from bayes_gpx.posteriors.low_rank import LowRank, low_rank
from bayes_gpx.tails import log_normal
from bayes_gpx.views import seen_through


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


def observe(specification, process, theta, s, *, ridge, scaling, name, **observed):
    """Add the observed response, in user units, to the PyMC model on the context stack.

    Parameters
    ----------
    ridge : scalar
        Added to the variance of y, where noise is normal.
    scaling : Scaling
        From the response's units to the model's.
    name : str
    **observed
        `observed` and `dims` of the variable.

    Returns
    -------
    list of the graphs that hyperparameters enter by
    """
    if not specification.normal:
        return marginals.generative(
            specification, process, theta, s, scaling=scaling, name=name, **observed
        )
    seen, n = seen_through(specification, process, theta, s), s.X.shape[0]
    mean, scale = pt.full((n,), scaling.center), scaling.scale
    if seen is None:
        C = noisy_covariance(process, s.X, theta["sigma"], s.Z, ridge=ridge)
        pm.CustomDist(
            name,
            mean,
            scale**2 * C,
            logp=lambda value, mean, C: normal_logp(value - mean, C),
            dist=lambda mean, C, size: pm.MvNormal.dist(mean, C, size=size),
            signature="(n),(n,n)->(n)",
            **observed,
        )
        return [C]
    pm.CustomDist(
        name,
        mean,
        scale * seen.F,
        scale**2 * (seen.D + ridge),
        _penalty(seen),
        logp=lambda value, mean, F, D, penalty: low_rank_logp(value - mean, F, D) - penalty,
        dist=_low_rank_normal,
        signature="(n),(n,m),(n),()->(n)",
        **observed,
    )
    return [seen.F, seen.D, seen.unseen]


def _low_rank_normal(mean, F, D, penalty, size):
    batch = () if rv_size_is_none(size) else tuple(size)
    coefficients = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[1]))
    noise = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[0]))
    return mean + pt.dot(coefficients, F.T) + pt.sqrt(D) * noise
