"""The response in a PyMC model: integrated out but for hyperparameters, or around latent values."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none

from bayes_gpx.posteriors.base import OWN_WHITENED, WHITENED
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.strategies import Exact, LowRankNormal, SampledValues


def observe(specification, given, *, scaling, name, **options):
    """Add the response that generates y to the PyMC model on the context stack.

    Normal noise: y with the function integrated out. Otherwise latent values, and y around them.

    Parameters
    ----------
    specification : Specification
    given : Conditioning
    scaling : Scaling
        From the response's units to the model's.
    name : str
    **options
        `observed` and `dims` of the variable; `ridge`, a scalar added to variances where the
        function is integrated out; `class_dim`, the dim of classes.

    Returns
    -------
    list of the graphs that hyperparameters enter by
    """
    if specification.normal:
        return collapsed(specification, given, scaling=scaling, name=name, **options)
    return latent_response(specification, given, scaling=scaling, name=name, **options)


def collapsed(specification, given, *, ridge, scaling, name, dims, observed, class_dim=None):
    """Add y with all but hyperparameters integrated out, or what stands in for that density.

    Arguments and result are those of `observe`.
    """
    strategy, likelihood = specification.strategy_of(), given.likelihood
    parts = strategy.parts(given, ridge)
    draw = GENERATIVE.get(type(strategy))

    def log_density(value, *parts):
        y = (value - scaling.center) / scaling.scale
        evidence = strategy.log_density(likelihood, y, *parts)
        return evidence - value.shape[0] * np.log(scaling.scale)

    def dist(*parts_and_size):
        return scaling.center + scaling.scale * draw(*parts_and_size)

    pm.CustomDist(
        name,
        *parts,
        logp=log_density,
        signature=f"{strategy.signature(likelihood)}->(n)",
        dims=dims,
        observed=observed,
        **({} if draw is None else {"dist": dist}),
    )
    return parts


def _normal(C, size):  # noqa: N803
    """Y (..., n) on the model's scale, from its covariance (n, n)."""
    return pm.MvNormal.dist(pt.zeros(C.shape[0]), C, size=size)


def _low_rank_normal(F, D, penalty, size):  # noqa: N803
    """Y (..., n) on the model's scale, from a design (n, M) and variances (n,) around it."""
    batch = () if rv_size_is_none(size) else tuple(size)
    coefficients = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[1]))
    noise = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[0]))
    return pt.dot(coefficients, F.T) + pt.sqrt(D) * noise


GENERATIVE = {Exact: _normal, LowRankNormal: _low_rank_normal}
"""What draws y from the parts of a density, where that is y's own and not an approximation."""


def latent_response(
    specification, given, *, scaling, name, dims, observed, ridge=None, class_dim=None
):
    """Add whitened latent values, and y around them.

    With basis functions their coefficients take the place of the latent values, and in a GPX there
    are the samples' own deviations too. With inducing points the process itself is the model.
    Arguments and result are those of `observe`.
    """
    sampled = specification.strategy_of((WHITENED,))
    of_classes = (class_dim,) if given.columns else ()
    white = {}
    if isinstance(sampled, SampledValues):
        white[WHITENED] = pm.Normal(f"{name}_{WHITENED}", dims=(dims, *of_classes))
        entries = [prior_covariance(given.process, given.X, given.Z)]
    else:
        design = sampled.design(given)
        shape = (design.F.shape[1], *given.columns)
        white[WHITENED] = pm.Normal(f"{name}_{WHITENED}", shape=shape)
        entries = [design.F]
        if design.own_variances is not None:
            white[OWN_WHITENED] = pm.Normal(f"{name}_{OWN_WHITENED}", dims=(dims, *of_classes))
            entries.append(design.D)
    known = replace(given, theta=given.theta | white)
    f = scaling.center + scaling.scale * sampled.values(known)
    theta = given.likelihood.in_units(given.theta, scaling.scale)
    given.likelihood.dist(name, f, theta, given.exposure, dims=dims, observed=observed)
    return entries
