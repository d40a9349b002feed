"""The observed response of the PyMC model, with all but hyperparameters integrated out."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none

from bayes_gpx.posteriors.collapsed import _penalty
from bayes_gpx.posteriors.evidence.laplace import laplace_evidence
from bayes_gpx.posteriors.evidence.normal import (
    low_rank_logp,
    normal_logp,
)
from bayes_gpx.posteriors.evidence.softmax import softmax_laplace
from bayes_gpx.posteriors.evidence.variational import variational
from bayes_gpx.posteriors.exact import noisy_covariance
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.marginals import _sampled_values
from bayes_gpx.posteriors.strategies import OWN_WHITE, WHITE, seen_through


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
        return generative(specification, process, theta, s, scaling=scaling, name=name, **observed)
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


def marginal(specification, process, theta, s, *, ridge, scaling, name, class_dim=None, **observed):
    """Add what stands in for the response's evidence to the PyMC model on the context stack.

    What `fit` works on where noise is not normal: its only random variables are hyperparameters.
    Arguments are those of `bayes_gpx.model.observed_response.observe`.
    """
    observation = specification.observation
    seen = seen_through(specification, process, theta, s)
    if seen is None:
        K = prior_covariance(process, s.X, s.Z)
        own = pt.arange(K.shape[0])
        parts, signature = [K[own, own].inc(ridge)], "(n,n)"
    else:
        parts, signature = [seen.F, seen.unseen + seen.D + ridge], "(n,m),(n)"
    names = observation.hyperparameters

    def logp(value, *given):
        *parts, exposure = given[: len(given) - len(names)]
        known = dict(zip(names, given[len(given) - len(names) :], strict=True))
        y = (value - scaling.center) / scaling.scale
        evidence = _evidence(observation, parts, y, known, exposure)
        return evidence - value.shape[0] * np.log(scaling.scale)

    pm.CustomDist(
        name,
        *parts,
        s.exposure,
        *(theta[n] for n in names),
        logp=logp,
        signature=f"{signature},(n){',()' * len(names)}->(n)",
        **observed,
    )


def _evidence(observation, parts, y, theta, exposure):
    if len(parts) > 1:
        return variational(observation, *parts, y, theta, exposure).bound
    if observation.classes is not None:
        return softmax_laplace(observation, *parts, y).logp
    return laplace_evidence(observation, *parts, y, theta, exposure)[0]


def generative(
    specification, process, theta, s, *, scaling, name, dims, class_dim=None, **observed
):
    """Add whitened latent values, and y around them, to the PyMC model on the context stack.

    With basis functions their coefficients take the place of the latent values, and in a GPX there
    are the samples' own deviations too. With inducing points the process itself is the model.

    Returns
    -------
    list of the graphs that hyperparameters enter by
    """
    observation, several = specification.observation, specification.classes
    classes = () if several is None else (class_dim,)
    seen = seen_through(specification, process, theta, s) if s.U is None else None
    sampled = {}
    if seen is None:
        sampled[WHITE] = pm.Normal(f"{name}_{WHITE}", dims=(dims, *classes))
        entries = [prior_covariance(process, s.X, s.Z)]
    else:
        shape = (seen.F.shape[1], *(() if several is None else (several,)))
        sampled[WHITE] = pm.Normal(f"{name}_{WHITE}", shape=shape)
        entries = [seen.F]
        if seen.own_variances is not None:
            sampled[OWN_WHITE] = pm.Normal(f"{name}_{OWN_WHITE}", dims=(dims, *classes))
            entries.append(seen.D)
    f = scaling.center + scaling.scale * _sampled_values(process, theta | sampled, seen, s)
    own = observation.in_units(theta, scaling.scale)
    observation.dist(name, f, own, s.exposure, dims=dims, **observed)
    return entries
