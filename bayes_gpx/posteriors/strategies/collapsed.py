"""Strategies with a density of y: a normal site for each row, and rows left out by their sites."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor, TensorLike
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.posteriors.base import (
    CONSTRAINED,
    Conditioning,
    GroupsLeft,
    LeftOut,
    Strategy,
    Values,
)
from bayes_gpx.posteriors.constraints import Constraints, joint_logp
from bayes_gpx.posteriors.evidence.groups import Between, groups_left_out, sum_of_group
from bayes_gpx.posteriors.evidence.sites import Sites
from bayes_gpx.processes.operators import Operator


class Collapsed(Strategy):
    """A strategy with a density of y given hyperparameters alone: f is integrated out.

    The likelihood of each row is a normal site, exactly for normal noise. Each constraint is a
    further row: bounds are sites of expectation propagation from the full fit, also if rows are
    left out, or values, if a draw contains those.
    """

    def __init__(self, *, constrained: bool = False) -> None:
        self.constrained = constrained

    @abstractmethod
    def parts(self, given: Conditioning, ridge: TensorLike = 0.0) -> list[Tensor]:
        """List the tensors that `log_density` is a function of; `ridge` is added to variances.

        With constraints, their bounds are the last two.
        """

    @abstractmethod
    def signature(self, likelihood: Likelihood) -> str:
        """Core shapes of `parts`, as NumPy writes them."""

    def log_density(self, likelihood: Likelihood, y: Tensor, *parts: Tensor) -> Tensor:
        """Log density of y given any constraints, or its approximation or bound: a scalar."""
        joint = self.joint_density(likelihood, y, *parts)
        if not self.constrained:
            return joint
        return pt.switch(pt.isinf(joint), -np.inf, joint - self.log_constraint(*parts))

    @abstractmethod
    def joint_density(self, likelihood: Any, y: Tensor, *parts: Any) -> Tensor:
        """Log density of y and probability, or density, of any constraints."""

    def log_constraint(self, *parts: Tensor) -> Tensor:
        """Log prior probability of the constraints, or density of constraints that are values."""
        if not self.constrained:
            return pt.zeros(())
        C, low, high = self.constraint_covariance(*parts), *parts[-2:]
        return joint_logp(C, pt.zeros(0), low, high)

    def constraint_covariance(self, *parts: Tensor) -> Tensor:
        """Prior covariance of constrained quantities, noise included, (k, k)."""
        raise NotImplementedError(f"{type(self).__name__} has no constraints.")

    def bounds(self, given: Conditioning) -> list[Tensor]:
        """Bounds (k,), the same where a value is known or was drawn; none without constraints."""
        if not self.constrained:
            return []
        known = cast(Constraints, given.constraints)
        bounds: list[Tensor] = [pt.constant(bound) for bound in (known.low, known.high)]
        if CONSTRAINED not in given.theta:
            return bounds
        own = np.flatnonzero(known.low < known.high)
        return [bound[own].set(given.theta[CONSTRAINED]) for bound in bounds]

    def around(
        self, given: Conditioning, constraints: Constraints | None
    ) -> Callable[[Operator], Values]:
        """The posterior given the data and such constraints in the place of all."""
        strategy = type(self)(constrained=constraints is not None)
        given = replace(given, constraints=constraints)
        return strategy.posterior(given, strategy.condition(given))

    @abstractmethod
    def sites(self, given: Conditioning) -> tuple[Tensor, Sites]:
        """`log_density` of the data, and the sites of all rows."""

    @abstractmethod
    def between(self, given: Conditioning, sites: Sites) -> list[Between]:
        """How rows vary together, for each class with an independent posterior."""

    def leave_one_out(self, given: Conditioning) -> LeftOut:
        evidence, sites = self.sites(given)
        beyond = given.beyond
        evidence = evidence if beyond is None else evidence + beyond.sum()
        return scored(given, evidence, *sites.cavity())

    def leave_groups_out(self, given: Conditioning, groups: Tensor) -> GroupsLeft:
        """The joint density of a group is computed from its sites.

        For sites of Laplace's approximation this is Laplace's approximation too: once a group's
        sites are removed, the mode of the rest times its likelihood is unchanged. For variational
        sites it is the group's bound. A group of one row of weight 1 needs no approximation.
        """
        _, sites = self.sites(given)
        between = self.between(given, sites)
        noise, beyond = None, given.beyond
        if sites.unseen is not None:  # each of the rows that a weighted one stands for has it
            noise = 1.0 / sites.tau + sites.unseen / given.weights
            beyond = given.beyond_normal(sites.unseen)
        if sites.tau.ndim == 2:
            of_classes = [
                groups_left_out(one, _of_class(sites, c), groups) for c, one in enumerate(between)
            ]
            shift, variance = (pt.stack([v[k] for v in of_classes], axis=1) for k in (0, 1))
            joint: Any = sum(v[2] for v in of_classes)
        else:
            shift, variance, joint = groups_left_out(between[0], sites, groups, noise)
        center = sites.mean - shift
        if sites.tau.ndim == 3:
            spread = sites.class_root(variance)
        else:
            spread = pt.maximum(variance, 0.0) + sites.by_class(sites.rest)
        if beyond is not None:
            joint = joint + sum_of_group(beyond, groups)
        left = scored(given, joint, center, spread)
        if noise is None:
            joint = joint + sum_of_group(sites.height, groups)
            ones = pt.ones_like(left.terms)
            alone = pt.eq(sum_of_group(ones, groups), 1.0) & pt.eq(given.weights * ones, 1.0)
            joint = pt.switch(alone, left.terms, joint)
        return GroupsLeft(joint, *left[1:])


def _of_class(sites: Sites, c: int) -> Sites:
    return sites._replace(slope=sites.slope[:, c], tau=sites.tau[:, c])


def noise_of(given: Conditioning) -> Tensor:
    """Variance of normal noise at each row, (n,)."""
    return pt.sqr(given.noise_sd) * pt.ones(given.y.shape[0])


def own_of(given: Conditioning, D: Tensor) -> Tensor:  # noqa: N803
    """Variance (n,) of deviations, each as of weight 1; that of y around the smooth part is D."""
    own = D - noise_of(given)
    return own if given.counts is None else own * given.counts


def scored(given: Conditioning, evidence: Tensor, mean: Tensor, spread: Tensor) -> LeftOut:
    """`LeftOut` from moments of f_i given the others; independent classes have a root each."""
    if given.columns and spread.ndim == 2:
        spread = pt.sqrt(spread)[:, :, None] * pt.eye(given.likelihood.classes)
    terms = given.likelihood.score(given.y, mean, spread, given.theta, given.exposure)
    return LeftOut(evidence, terms, mean, spread)


def scored_by_values(given: Conditioning, f: Tensor, mean: Tensor, own: Tensor) -> LeftOut:
    """`scored`, the evidence being log p(y | f) of sampled latent values."""
    evidence = given.likelihood.logp(f, given.y, given.theta, given.exposure).sum()
    return scored(given, evidence, mean, own)
