"""The response with all but hyperparameters integrated out, by each road.

With normal noise exactly; through basis functions, whose density of y is exact too; or through
inducing points, with Titsias' bound in its place. Else by Laplace's approximation. The namespace
`s` of a model holds the data `X`, `y`, `Z`, `exposure`, the inducing points `U`, `U_Z`, and what an
earlier call left behind, `alpha` and `root`.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none
from scipy.cluster.vq import ClusterError, kmeans2

from bayes_gpx.approximations import Inducing, refuse_large
from bayes_gpx.conditioning import cholesky, informed
from bayes_gpx.evidence import leave_one_out, low_rank_leave_one_out, low_rank_logp, normal_logp
from bayes_gpx.expansions import expanded
from bayes_gpx.laplace import laplace_evidence, laplace_sites
from bayes_gpx.operators import evaluate
from bayes_gpx.posteriors.exact import exact, noisy_covariance, restored
from bayes_gpx.posteriors.laplace import laplace, prior_covariance
from bayes_gpx.posteriors.low_rank import LowRank, Seen, low_rank
from bayes_gpx.tails import log_normal

LATENT_JITTER = 1e-8
"""Added to the covariance of latent values that are drawn, as a multiple of its mean diagonal."""

LARGEST_CLUSTERED = 10_000
"""Rows among which k-means looks for inducing points."""


def prior(specification, theta, d, called, s):
    """Prior process on the model's scale, with basis functions where the model has them."""
    process = informed(specification.process(theta, d, called), s.Z)
    approximation = specification.approximation
    if approximation is None or isinstance(approximation, Inducing):
        return process
    return expanded(process, approximation, s.X)


def seen_through(specification, process, theta, s):
    """Return what was seen through coefficients; None where the road is exact."""
    if specification.approximation is None:
        return None
    inducing = None if s.U is None else evaluate(s.U, s.U_Z, smooth=True)
    return Seen(process, s.y, theta["sigma"], s.X, s.Z, inducing, s.jitter)


def conditioned(specification, process, theta, s):
    """Condition on y: a posterior with `alpha` and `root`."""
    if not specification.normal:
        options = {"theta": theta, "exposure": s.exposure, "jitter": s.jitter}
        return laplace(process, s.X, s.y, specification.observation, s.Z, **options)
    seen = seen_through(specification, process, theta, s)
    if seen is not None:
        return low_rank(seen)
    return exact(process, s.X, s.y, theta["sigma"], s.Z, jitter=s.jitter)


def again(specification, process, theta, s):
    """The posterior that `conditioned` computed before, from its `alpha` and `root`."""
    seen = seen_through(specification, process, theta, s)
    if seen is not None:
        return LowRank(seen, s.alpha, s.root)
    return restored(process, s.X, s.y, s.alpha, s.root, s.Z)


def laplace_marginal(specification, process, theta, s, *, ridge, scaling, name, **observed):
    """Add the response's Laplace evidence to the PyMC model on the context stack.

    What `fit` works on where noise is not normal: its only random variables are hyperparameters.
    Arguments are those of `observe`.
    """
    K = prior_covariance(process, s.X, s.Z)
    own = pt.arange(K.shape[0])
    K, names = K[own, own].inc(ridge), specification.observation.hyperparameters

    def logp(value, K, exposure, *hyperparameters):
        known = dict(zip(names, hyperparameters, strict=True))
        y = (value - scaling.center) / scaling.scale
        evidence = laplace_evidence(specification.observation, K, y, known, exposure)[0]
        return evidence - value.shape[0] * np.log(scaling.scale)

    pm.CustomDist(
        name,
        K,
        s.exposure,
        *(theta[n] for n in names),
        logp=logp,
        signature=f"(n,n),(n){',()' * len(names)}->(n)",
        **observed,
    )


def left_out(specification, process, theta, s):
    """Log density of y, and of each y_i given the others.

    With inducing points the first is the bound; the others follow from the approximate prior, of
    which the bound is a penalised density, with the variance that inducing values leave. By
    Laplace's approximation each site is taken out of the posterior at the mode.
    """
    if not specification.normal:
        return _left_out_by_laplace(specification.observation, process, theta, s)
    seen = seen_through(specification, process, theta, s)
    if seen is None:
        C = noisy_covariance(process, s.X, theta["sigma"], s.Z, jitter=s.jitter)
        logp, mean, variance = leave_one_out(s.y, C)
        return logp, log_normal(s.y, mean, variance)
    logp, mean, variance = low_rank_leave_one_out(s.y, seen.F, seen.D)
    return logp - _penalty(seen), log_normal(s.y, mean, variance + seen.unseen)


def _left_out_by_laplace(observation, process, theta, s):
    """As `left_out`, with cavities.

    Vehtari et al., "Bayesian leave-one-out cross-validation approximations for Gaussian latent
    variable models" (2016), section 3.3.
    """
    K = prior_covariance(process, s.X, s.Z, jitter=s.jitter)
    found = laplace_sites(observation, K, s.y, theta, s.exposure)
    variance = found.variance / found.left
    mean = found.f - variance * found.alpha
    return found.logp, observation.log_predictive(s.y, mean, variance, theta, s.exposure)


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
        K = prior_covariance(process, s.X, s.Z, jitter=LATENT_JITTER)
        white = pm.Normal(f"{name}_white", dims=observed["dims"])
        f = scaling.center + scaling.scale * pt.dot(cholesky(K), white)
        own = theta | ({"sigma": scaling.scale * theta["sigma"]} if "sigma" in theta else {})
        specification.observation.dist(name, f, own, s.exposure, **observed)
        return [K]
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


def inducing_points(training, approximation):
    """Inducing points on the model's scale: dict of `U` and, for weighed features, `U_Z`.

    Empty for other approximations.

    Raises
    ------
    ValueError
        For given points of the wrong width, or too large a basis.
    """
    if approximation is None:
        return {}
    refuse_large(approximation, training.d)
    if not isinstance(approximation, Inducing):
        return {}
    data, d = training.scaled(), training.d
    apart = training.Z is not None and not training.z_is_x
    weighed = data["Z"][:, : training.p - training.intercept] if apart else data["X"][:, :0]
    if isinstance(approximation.m, tuple):
        points = np.array(approximation.m)
        width = d + weighed.shape[1]
        if points.shape[1] != width:
            raise ValueError(
                f"Inducing points have {points.shape[1]} columns; expected {width}, in user units."
            )
        X = training.X_scaling.apply(points[:, :d])
        Z = X
        if apart:
            own = training.Z_scaling
            ones = np.ones((len(points), int(training.intercept)))
            return {"U": X, "U_Z": own.apply(np.hstack([points[:, d:], ones]))}
    else:
        centers = _centers(np.hstack([data["X"], weighed]), approximation)
        X, Z = centers[:, :d], centers[:, d:] if apart else centers
    if training.Z is None:
        return {"U": X}
    return {"U": X, "U_Z": np.hstack([Z, np.ones((len(Z), int(training.intercept)))])}


def _centers(rows, approximation):
    rng = np.random.default_rng(approximation.seed)
    different = np.unique(rows, axis=0)
    if approximation.m >= len(different):
        return different
    kept = rng.permutation(len(different))
    some = different[kept[: max(LARGEST_CLUSTERED, approximation.m)]]
    try:
        return kmeans2(some, approximation.m, minit="++", missing="raise", rng=rng)[0]
    except ClusterError:
        return some[: approximation.m]
