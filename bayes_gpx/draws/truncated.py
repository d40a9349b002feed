"""Draws of constrained quantities between their bounds, given the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.numerics.linear_algebra import plus_diagonal
from bayes_gpx.numerics.truncated_normal import truncated_normal
from bayes_gpx.posteriors.base import CONSTRAINED
from bayes_gpx.posteriors.strategies.collapsed import Collapsed
from bayes_gpx.processes.indexed_process import of_no_group

if TYPE_CHECKING:
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.posteriors.base import OneDraw
    from bayes_gpx.posteriors.constraints import Constraints

STATEMENT = "statement"
"""Dim of statements of constraints, each at one point."""


def _untruncated(draw: OneDraw) -> list:
    """Mean (k,) and covariance (k, k) of noisy values given all that is known but their bounds."""
    constraints = cast("Constraints", draw.given.constraints)
    bounded = cast("Constraints", constraints.bounded)
    strategy = cast("Collapsed", draw.strategy)
    operator = of_no_group(draw.given.process, bounded.operator)
    q = strategy.around(draw.given, constraints.values)(operator)
    return [q.mean, plus_diagonal(q.cov, bounded.sd**2)]


def with_truncated(
    model: ModelLike,
    idata: xr.DataTree,
    *,
    draws: int,
    seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Add a draw of the noisy values of bounded constraints to each draw of a fit."""
    # Given hyperparameters and these values the process is normal again, and the mixture over draws
    # is the truncated posterior, for a Gaussian likelihood. Hyperparameters are unchanged; they are
    # weighed by the probability of the bounds from expectation propagation. A single draw is
    # repeated `draws` times.
    found = _repeated(idata, draws)
    (means, covs), hyper, _ = at_training_rows(model, idata, _untruncated, progressbar=progressbar)
    each = draws if hyper.alone else 1
    constraints = cast("Constraints", model.specification.constraints)
    bounded = cast("Constraints", constraints.bounded)
    k = len(bounded.statements)
    mean = np.repeat(means.reshape((-1, k)), each, axis=0)
    cov = np.repeat(covs.reshape((-1, k, k)), each, axis=0)
    try:
        values = truncated_normal(mean, cov, bounded.low, bounded.high, np.random.default_rng(seed))
    except np.linalg.LinAlgError as singular:
        raise ValueError(
            "The constraints are linearly dependent at their points, up to round-off. Use a larger "
            "strength, or fewer points."
        ) from singular
    name, dim = model.in_model(CONSTRAINED), model.in_model(STATEMENT)
    drawn = xr.DataArray(
        (bounded.center + bounded.unit * values).reshape((len(hyper.chain), -1, k)),
        {dim: np.flatnonzero([not s.known for s in constraints.statements])},
        ("chain", "draw", dim),
    )
    found["posterior"] = xr.DataTree(found["posterior"].to_dataset().assign({name: drawn}))
    return found


def _repeated(idata: xr.DataTree, draws: int) -> xr.DataTree:
    """The fit, or so many copies of its single draw."""
    tree = idata.copy()
    if idata["posterior"].sizes["chain"] * idata["posterior"].sizes["draw"] > 1:
        return tree
    for group in ("posterior", "sample_stats"):
        own = tree[group].to_dataset().isel(draw=np.zeros(draws, int))
        tree[group] = xr.DataTree(own.assign_coords(draw=np.arange(draws)))
    return tree
