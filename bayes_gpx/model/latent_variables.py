"""Latent values in a PyMC model: whitened variables, and the functions and weights made of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

from bayes_gpx.aliases import Rename, Tensor, TensorLike
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.training import TrainingData
from bayes_gpx.model.specification import Specification
from bayes_gpx.posteriors.base import (
    CONSTRAINED,
    CONSTRAINED_WHITENED,
    LATENT,
    OWN_WHITENED,
    WHITENED,
    Conditioning,
)
from bayes_gpx.posteriors.prior_functions import by_class
from bayes_gpx.posteriors.strategies.correlated import CorrelatedValues
from bayes_gpx.posteriors.strategies.processes import ProcessesValues
from bayes_gpx.posteriors.strategies.sampled import SampledValues
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.gaussian_process import GaussianProcess
from bayes_gpx.processes.operators import weight
from bayes_gpx.processes.weight_process import WeightProcess


def latent_names(specification: Specification, rename: Rename) -> dict[str, str]:
    """Names of latent variables that a posterior is conditioned on, by their internal names."""
    # For a Gaussian likelihood, everything but hyperparameters integrates out exactly, unless
    # constraints have bounds.
    constraints = specification.constraints
    if specification.normal and (constraints is None or constraints.bounded is None):
        return {}
    if specification.normal and not specification.hierarchical:
        return {CONSTRAINED: rename(CONSTRAINED)}
    weighs, rows = specification.family == "GPX", _on_rows(specification)
    # Coefficients determine what constraints are about.
    about = {CONSTRAINED_WHITENED: rename(CONSTRAINED_WHITENED)} if constraints and rows else {}
    if not specification.hierarchical:
        own = {OWN_WHITENED: f"{rename('y')}_{OWN_WHITENED}"} if weighs and not rows else {}
        return {WHITENED: f"{rename('y')}_{WHITENED}", **own, **about}
    if not weighs:
        return {WHITENED: f"{rename('f')}_{WHITENED}", **about}
    coefficients = {} if rows else {WHITENED: f"{rename('g')}_{WHITENED}"}
    return {LATENT: rename("f"), **coefficients}


def _on_rows(specification: Specification) -> bool:
    """Whether latent values are sampled at the observations, and not through coefficients."""
    return isinstance(
        specification.strategy_of((WHITENED,)), SampledValues | CorrelatedValues | ProcessesValues
    )


def latent_values(
    specification: Specification, given: Conditioning, prefix: str, rename: Rename
) -> Tensor:
    """Add whitened latent values, or coefficients and deviations; return f (n,) or (n, C)."""
    # f is on the model's scale. With constraints, the constrained quantities are added too, and the
    # probability of the constraints given them.
    # Each of `SampledValues`, `SampledCoefficients` and `CorrelatedValues` has a part of these.
    sampled: Any = specification.strategy_of((WHITENED,))
    dims = _by_row(given, rename, "obs" if specification.outputs is None else "cell")
    name, white = f"{prefix}_{WHITENED}", {}
    if _on_rows(specification):
        white[WHITENED] = pm.Normal(name, dims=dims)
    else:
        design = sampled.design(given)
        white[WHITENED] = pm.Normal(name, shape=(sampled.coefficients(design), *given.columns))
        if design.deviates:
            white[OWN_WHITENED] = pm.Normal(f"{prefix}_{OWN_WHITENED}", dims=dims)
    constraints = given.constraints
    if constraints is None:
        return sampled.values(replace(given, theta=given.theta | white))
    if _on_rows(specification):
        shape = len(constraints.statements)
        white[CONSTRAINED_WHITENED] = pm.Normal(rename(CONSTRAINED_WHITENED), shape=shape)
    known, n = sampled.known_values(replace(given, theta=given.theta | white)), given.y.shape[0]
    pm.Potential(rename("constraints"), constraints.log_probability(known[n:]).sum())
    return known[:n]


def weighed_values(given: Conditioning, training: TrainingData, rename: Rename) -> Tensor:
    """Add the weights w = g + eps_w of a GPX, in units of y per unit of z, and return f."""
    # With `sigma_w` fixed at 0 there is no `eps_w`: all its draws would be 0, and R-hat undefined.
    # f is (n,) or (n, C) in units of y.
    obs, *classes = _by_row(given, rename)
    dims = (obs, rename("z_feature"), *classes)

    def by_feature(values: TensorLike) -> Tensor:
        """Values of each feature, or one of all, as they multiply weights (n, p[, C])."""
        return pt.shape_padright(pt.atleast_1d(pt.as_tensor(values)), len(classes))

    process, y_scaling = given.process, training.y_scaling
    scaling = cast(Scaling, training.Z_scaling)
    deviating = cast(WeightProcess, process.own if isinstance(process, BasisProcess) else process)
    unit = by_feature(y_scaling.scale / scaling.scale)
    smooth = _weight_functions(given, training.p, by_feature, dims, rename)
    g = pm.Deterministic(rename("g"), unit * smooth, dims=dims)
    sigma_w, eps_w = given.theta["sigma_w"], 0.0
    if not isinstance(sigma_w, Constant) or sigma_w.data.any():
        own = pm.Normal(f"{rename('eps_w')}_{WHITENED}", dims=dims)
        spread = by_feature(deviating.sigma_w)
        eps_w = pm.Deterministic(rename("eps_w"), unit * spread * own, dims=dims)
    w = pm.Deterministic(rename("w"), g + eps_w, dims=dims)
    moved = pt.shape_padright(scaling.scale * given.Z, len(classes))
    return y_scaling.center + (moved * w).sum(axis=1)


def _weight_functions(
    given: Conditioning,
    p: int,
    by_feature: Callable[[TensorLike], Tensor],
    dims: tuple[str, ...],
    rename: Rename,
) -> Tensor:
    """Smooth weights at the observations (n, p[, C]), on the model's scale, from whitened ones."""
    process, name = given.process, f"{rename('g')}_{WHITENED}"
    n, shape = given.X.shape[0], (given.X.shape[0], p, *given.columns)
    if isinstance(process, BasisProcess):
        count = process.design(given.smooth).shape[1]
        white = pm.Normal(name, shape=(count, *given.columns))
        at = weight(given.X, smooth=True)
        return by_class(process.values, at, white, given).reshape(shape)
    functions = cast(WeightProcess, process)
    summands = list(zip(functions.cov_funcs, functions.amplitudes, strict=True))
    if len(summands) == 1:
        white = pm.Normal(name, dims=dims)[None]
    else:
        pm.modelcontext(None).add_coord(rename("summand"), range(len(summands)))
        white = pm.Normal(name, dims=(rename("summand"), *dims))
    total: Any = 0.0
    for i, (cov_func, amplitude) in enumerate(summands):
        known = {WHITENED: white[i].reshape((n, -1))}
        alone = replace(given, process=GaussianProcess(cov_func), Z=None, theta=known)
        total = total + by_feature(amplitude) * SampledValues().values(alone).reshape(shape)
    return total


def _by_row(given: Conditioning, rename: Rename, dim: str = "obs") -> tuple[str, ...]:
    """Dims of a latent value for each observation, and each class where there are several."""
    return (rename(dim), *((rename(given.likelihood.class_dim),) if given.columns else ()))
