"""A variational bound from some rows, for fits by minibatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytensor.tensor as pt

from bayes_gpx.aliases import Tensor
from bayes_gpx.posteriors.evidence.row_bounds import Coefficients, at_rows

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.base import Likelihood
    from bayes_gpx.posteriors.base import Conditioning
    from bayes_gpx.posteriors.strategies.variational import Variational


class Batch(NamedTuple):
    """Symbols of some rows, their share of all, and the coefficients' mean and precision's root."""

    y: pt.TensorVariable
    exposure: pt.TensorVariable
    share: pt.TensorVariable
    coefficients: pt.TensorVariable
    root: pt.TensorVariable


def batch_of(likelihood: Likelihood) -> Batch:
    """Symbols of a batch; with several classes, coefficients (C, M) and root (C, M, M)."""
    more = len(likelihood.class_shape)
    return Batch(
        pt.dvector("y"),
        likelihood.exposures(),
        pt.dscalar("share"),
        pt.tensor("coefficients", dtype="float64", shape=(None,) * (1 + more)),
        pt.tensor("root", dtype="float64", shape=(None,) * (2 + more)),
    )


def bound_of(strategy: Variational, given: Conditioning, batch: Batch) -> tuple[Tensor, ...]:
    """Estimate of the expected log likelihood of all rows, and the parts of its gradient.

    Returns the scalar estimate; the design (b, M) of the rows; slopes in the means of f, and -2
    times slopes in the variances, (b,) or (b, C).
    """
    observation, seen = given.likelihood, strategy.design(given)
    rest, found = seen.unseen + seen.D, Coefficients(batch.coefficients, batch.root)
    known = batch.y, given.theta, batch.exposure, found.by_class
    at = at_rows(observation, seen.F, rest, *known)
    return at.logp.sum() / batch.share, seen.F, at.slope, at.W
