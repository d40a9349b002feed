"""Observations left out, one or a group, given all others: from moments, or from normal sites."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import VectorLikelihood
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.posteriors.base import Conditioning, GroupsLeft, LeftOut
from bayes_gpx.posteriors.evidence.groups import Precision, groups_left_out, sum_of_group
from bayes_gpx.posteriors.evidence.softmax import CoupledSites

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.classification import Categorical

LEAST_SITE = 1e-9
"""Smallest information of a left-out observation, relative to its product with f's variance: less
is negligible, and lost in the difference of two covariances."""


def with_normal_noise(given: Conditioning, logp: Tensor, mean: Tensor, variance: Tensor) -> LeftOut:
    """`LeftOut` from moments of y_i given the others, (n,)."""
    of_f = pt.maximum(variance - pt.sqr(given.theta["sigma"]), 0.0)
    return LeftOut(logp, log_normal(given.y, mean, variance), mean, of_f)


def scored(given: Conditioning, evidence: Tensor, mean: Tensor, spread: Tensor) -> LeftOut:
    """`LeftOut` from moments of f_i given the others; independent classes have a root each.

    Each observation's site is taken out of the posterior: Vehtari et al., "Bayesian leave-one-out
    cross-validation approximations for Gaussian latent variable models" (2016), section 3.3.
    """
    if not given.columns:
        known = given.theta, given.exposure
        terms = given.likelihood.log_predictive(given.y, mean, spread, *known)
        return LeftOut(evidence, terms, mean, spread)
    if spread.ndim == 2:
        spread = pt.sqrt(spread)[:, :, None] * pt.eye(given.likelihood.classes)
    terms = cast(VectorLikelihood, given.likelihood).log_predictive(given.y, mean, spread)
    return LeftOut(evidence, terms, mean, spread)


def scored_by_values(given: Conditioning, f: Tensor, mean: Tensor, own: Tensor) -> LeftOut:
    """`scored`, the evidence being log p(y | f) of sampled latent values."""
    evidence = given.likelihood.logp(f, given.y, given.theta, given.exposure).sum()
    return scored(given, evidence, mean, own)


def cavities(given: Conditioning, found: CoupledSites, f: Tensor) -> LeftOut:
    """`LeftOut` of several classes, from `CoupledSites` at the mode f (n, C)."""
    likelihood = cast("Categorical", given.likelihood)
    information, eye = likelihood.fisher(f), pt.eye(likelihood.classes)
    # What is known of f_i without its own site: covariance (Sigma_i^-1 - W_i)^-1.
    # PyTensor types the arguments of matmul as NumPy's.
    seen = pt.matmul(found.covariance, information)  # type: ignore[arg-type]
    cavity = pt.linalg.solve(eye - seen, found.covariance)
    mean = f - (cavity * found.alpha[:, None, :]).sum(axis=2)
    root = pt.linalg.cholesky(cavity + 1e-12 * eye, lower=True, on_error="nan")
    return scored(given, found.logp, mean, root)


def groups_of_normal(
    given: Conditioning, shift: Tensor, variance: Tensor, joint: Tensor
) -> GroupsLeft:
    """`GroupsLeft` from moments of y_i given the other groups, (n,)."""
    mean = given.y - shift
    of_f = pt.maximum(variance - pt.sqr(given.theta["sigma"]), 0.0)
    return GroupsLeft(joint, log_normal(given.y, mean, variance), mean, of_f)


def sites_at_mode(
    f: Tensor, alpha: Tensor, W: Tensor, height: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and log factor (n,) of normal sites that are log p(y | f) near a mode.

    There it is `height`, with slope `alpha` and information `W`, (n,) each.
    """
    log_factor = height + 0.5 * (pt.sqr(alpha) / W - pt.log(W) + np.log(2.0 * np.pi))
    return f + alpha / W, 1.0 / W, log_factor


def groups_of_sites(
    given: Conditioning,
    groups: Tensor,
    precision: Precision,
    alpha: Tensor,
    mean: Tensor,
    variance: Tensor,
    log_factor: Tensor,
    rest: TensorLike = 0.0,
) -> GroupsLeft:
    """`GroupsLeft` for observations that are normal sites.

    The joint density of a group is computed from its sites. For sites of Laplace's approximation
    this is Laplace's approximation too: once a group's sites are removed, the mode of the rest
    times its likelihood is unchanged. A group of one row needs no approximation. `alpha` is the
    precision times the sites' `mean`, and `rest` are variances besides the sites' variances.
    """
    shift, own, joint = groups_left_out(precision, alpha, groups)
    center, spread = mean - shift, pt.maximum(own - variance, 0.0) + rest
    known = given.theta, given.exposure
    terms = given.likelihood.log_predictive(given.y, center, spread, *known)
    joint = joint + sum_of_group(log_factor, groups)
    alone = pt.eq(sum_of_group(pt.ones_like(mean), groups), 1.0)
    return GroupsLeft(pt.switch(alone, terms, joint), terms, center, spread)
