"""The response in a PyMC model: integrated out but for hyperparameters, or around latent values."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace

from bayes_gpx.model.latent_variables import latent_values, weighed_values
from bayes_gpx.numerics.row_sums import parameters_of
from bayes_gpx.posteriors.constraints import sites, with_sites
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.posteriors.laplace import prior_covariance
from bayes_gpx.posteriors.strategies.choice import has_large_design
from bayes_gpx.posteriors.strategies.exact import Exact
from bayes_gpx.posteriors.strategies.low_rank import FixedBasis, LowRankNormal
from bayes_gpx.posteriors.strategies.with_constraints import (
    BasisWithConstraints,
    ExactWithConstraints,
)


def observe(specification, given, training, *, rename, ridge=None, sums=None):
    """Add the response to the PyMC model on the stack; return the graphs of hyperparameters.

    In a hierarchy, f (and in a GPX the weights) are variables, and y is observed around f.
    Otherwise a Gaussian likelihood integrates f out, and other likelihoods observe y around
    whitened latent values. `rename` maps names of variables and dims to those in the model; `ridge`
    is added to variances if f is integrated out; `sums` maps a response in user units to `Sums` by
    name, for a strategy `by_sums`.
    """
    if training.streamed:
        return streamed(specification, given, training, rename=rename, ridge=ridge, sums=sums)
    if specification.hierarchical:
        return hierarchy(specification, given, training, rename=rename)
    if specification.normal:
        return collapsed(specification, given, training, rename=rename, ridge=ridge, sums=sums)
    return latent_response(specification, given, training, rename=rename)


def collapsed(specification, given, training, *, rename, ridge, sums=None):
    """Add y with all but hyperparameters integrated out, exactly or by an approximate density.

    Arguments and result as in `observe`.
    """
    strategy, scaling = specification.strategy_of(), training.response_scaling
    draw = GENERATIVE.get(type(strategy))
    large = has_large_design(strategy, given)
    if large or strategy.by_sums:
        given = _unfolded(given)
    density = (_by_rows if large else _at_once)(strategy, given, ridge)
    if given.constraints is not None:
        pm.Potential(rename("constraints"), strategy.log_constraint(*density.parts))

    def log_density(value, *parts):
        if strategy.by_sums and isinstance(value, Constant):
            evidence = strategy.log_density_by_sums(Sums(**sums(value.data)), *parts[1:])
        else:
            y = (value - scaling.center) / scaling.scale
            evidence = density.log_density(y, *parts)
        return evidence - (np.log(scaling.scale) * pt.ones_like(value)).sum()

    def dist(*parts_and_size):
        return scaling.center + scaling.scale * draw(*parts_and_size)

    pm.modelcontext(None).collapsed = True  # of which `BoundModel` warns
    pm.CustomDist(
        rename("y"),
        *density.parts,
        logp=log_density,
        signature=f"{density.signature}->(n)",
        dims=rename(training.responses[0]),
        observed=training.y,
        **({} if draw is None else {"dist": dist}),
    )
    return density.parts


def _unfolded(given):
    """The data as products with variables, which PyMC does not evaluate as constants.

    PyMC evaluates graphs of constants when it derives a density, but not graphs of variables. It
    does not need the design of all rows there.
    """
    one = pytensor.shared(1.0, "one")
    return replace(given, X=given.X * one, Z=None if given.Z is None else given.Z * one)


class Density(NamedTuple):
    """The density of y as a function of `parts`, with core shapes in `signature`."""

    parts: list
    signature: str
    log_density: Callable


def _at_once(strategy, given, ridge):
    likelihood = given.likelihood
    log_density = partial(strategy.log_density, likelihood)
    return Density(strategy.parts(given, ridge), strategy.signature(likelihood), log_density)


def _by_rows(strategy, given, ridge):
    """The density with the parts that y is drawn from, and the parts that it needs besides rows."""
    whole, y = _at_once(strategy, given, ridge), pt.as_tensor_variable(given.y).type()
    evidence, k = strategy.by_rows(replace(given, y=y), ridge), len(whole.parts)
    needed = parameters_of([evidence], [y])
    shapes = [",".join(f"k{i}{axis}" for axis in range(v.ndim)) for i, v in enumerate(needed)]

    def log_density(value, *parts):
        own = dict(zip(needed, parts[k:], strict=True))
        return clone_replace(evidence, {y: value, **own})

    signature = ",".join([whole.signature, *(f"({shape})" for shape in shapes)])
    return Density([*whole.parts, *needed], signature, log_density)


def _normal(C, size):  # noqa: N803
    """Y (..., n) on the model's scale, from its covariance (n, n)."""
    return pm.MvNormal.dist(pt.zeros(C.shape[0]), C, size=size)


def _basis_with_constraints(F, D, G, V, low, high, size):  # noqa: N803
    """Y (..., n) on the model's scale given constraints, from both designs and variances."""
    design = pt.concatenate([F, G])
    C = pt.dot(design, design.T) + pt.diag(pt.concatenate([D, V]))
    return _normal_with_constraints(C, low, high, size)


def _normal_with_constraints(C, low, high, size):  # noqa: N803
    """Y (..., n) on the model's scale given constraints, from their covariance (n + k, n + k)."""
    n = C.shape[0] - low.shape[0]
    constrained, noisy = with_sites(
        C[n:, n:], pt.zeros(0), sites(C[n:, n:], pt.zeros(0), low, high)
    )
    gain = pt.linalg.solve(noisy, C[n:, :n], assume_a="pos").T
    return pm.MvNormal.dist(
        pt.dot(gain, constrained), C[:n, :n] - pt.dot(gain, C[n:, :n]), size=size
    )


def _low_rank_normal(F, D, *others):  # noqa: N803
    """Y (..., n) on the model's scale, from a design (n, M) and variances (n,) around it."""
    size = others[-1]
    batch = () if rv_size_is_none(size) else tuple(size)
    coefficients = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[1]))
    noise = pm.Normal.dist(0.0, 1.0, size=(*batch, F.shape[0]))
    return pt.dot(coefficients, F.T) + pt.sqrt(D) * noise


def _fixed_basis(F, scales, variance, size):  # noqa: N803
    """Y (..., n) on the model's scale, from a design (n, M) and the variance around it."""
    return _low_rank_normal(F, variance * pt.ones(F.shape[0]), size)


def streamed(specification, given, training, *, rename, ridge, sums):
    """Add the log density of an out-of-core response from sums over its rows, as a potential.

    Sums are computed once, or again for each density. Arguments and result as in `observe`.
    """
    strategy = specification.strategy_of()
    if strategy.by_sums:
        parts = strategy.scales_and_variance(given, ridge)
        evidence = strategy.log_density_by_sums(Sums(**sums(training.y)), *parts)
    else:
        evidence = strategy.by_rows(given, ridge)
    scale = training.response_scaling.scale
    pm.Potential(rename("y"), evidence - training.n * np.log(scale))
    return [evidence]


GENERATIVE = {
    Exact: _normal,
    ExactWithConstraints: _normal_with_constraints,
    BasisWithConstraints: _basis_with_constraints,
    LowRankNormal: _low_rank_normal,
    FixedBasis: _fixed_basis,
}
"""What draws y from the parts of a density, where that is y's own and not an approximation."""


def latent_response(specification, given, training, *, rename, ridge=None):
    """Add whitened latent values, and y around them.

    Basis functions have coefficients instead of latent values; a GPX adds the deviations of rows.
    With inducing points the process itself is the model. Arguments and result as in `observe`.
    """
    scaling = training.response_scaling
    f = latent_values(specification, given, rename("y"), rename)
    return _around(given, training, scaling.center + scaling.scale * f, rename)


def hierarchy(specification, given, training, *, rename, ridge=None):
    """Add f (in a GPX also the weights) in user units, and y around f.

    Arguments and result as in `observe`.
    """
    scaling = training.y_scaling
    if training.Z is None:
        f = latent_values(specification, given, rename("f"), rename)
        f = scaling.center + scaling.scale * f
    else:
        f = weighed_values(given, training, rename)
    classes = (rename("class"),) if given.columns else ()
    f = pm.Deterministic(rename("f"), f, dims=(rename("obs"), *classes))
    # Where y is not scaled, the exposure has the prior mean of f as a factor.
    return _around(given, training, f - (scaling.center - training.response_scaling.center), rename)


def _around(given, training, f, rename):
    """Observe y around latent values (n,) or (n, C) in its units; return as `observe` does."""
    theta = given.likelihood.in_units(given.theta, training.response_scaling.scale)
    options = {"dims": rename("obs"), "observed": training.y}
    given.likelihood.dist(rename("y"), f, theta, given.exposure, **options)
    return [prior_covariance(given.process, given.X, given.Z)]
