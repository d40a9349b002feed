"""Probabilities of constraints: before the data, given the data alone, and given both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr
from scipy.special import ndtr

from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.processes.indexed_process import of_no_group
from bayes_gpx.system.warning import warn

if TYPE_CHECKING:
    from bayes_gpx.aliases import Draws
    from bayes_gpx.draws.protocols import ModelLike
    from bayes_gpx.posteriors.base import OneDraw
    from bayes_gpx.posteriors.constraints import Constraints
    from bayes_gpx.posteriors.strategies.collapsed import Collapsed

NUM_DRAWS = 200
"""Draws of the hyperparameters that probabilities of constraints are averaged over, at the most."""

UNLIKELY = 0.01
"""Probability given the data alone below which data contradict a constraint."""


class ConstraintConflictWarning(UserWarning):
    """Constraints contradict the data."""


@dataclass(frozen=True)
class _Moments:
    """Moments of constrained quantities at one draw, as a build function."""

    collapsed: Collapsed
    """The strategy without latent values, which provides the posterior given the data alone."""

    def __call__(self, draw: OneDraw) -> list:
        given, constraints = draw.given, cast("Constraints", draw.given.constraints)
        operator = given.constrained
        known = self.collapsed.around(given, None)(operator)
        posterior = draw.strategy.posterior(given, draw.strategy.condition(given))
        rows = constraints.everywhere(given.bare_X, given.Z).values()
        # Given the data alone, given the constraints too, and for each constraint in bounds at all
        # training rows.
        found = [known, posterior(operator)]
        found += [posterior(of_no_group(given.process, row)) for row in rows]
        moments = [moment for q in found for moment in (q.mean, q.variance)]
        return [given.process.variance(operator), *moments]


def constraints_met(model: ModelLike, idata: Draws, *, progressbar: bool) -> xr.Dataset:
    """Compare each constraint with the data and the posterior, averaged over hyperparameters."""
    # A statement is one point of a constraint. Equal bounds are a stated value, with noise of that
    # sd. `violation` is the mean over the training rows of the posterior probability to be outside
    # of the bounds; it is NaN for values.
    constraints = cast("Constraints", model.specification.constraints)
    build = _Moments(cast("Collapsed", model.specification.strategy_of()))
    arrays, *_ = at_training_rows(model, idata, build, num_draws=NUM_DRAWS, progressbar=progressbar)
    prior, *rest = [a.reshape((-1, a.shape[-1])) for a in arrays]
    low, high, sd = constraints.low, constraints.high, constraints.sd
    stages = {"prior": (np.zeros_like(prior), prior), "data": rest[:2], "posterior": rest[2:4]}
    names = [s.name for s in constraints.statements]
    unit, center = constraints.unit, constraints.center
    found = {"low": center + unit * low, "high": center + unit * high, "sd": unit * sd}
    for stage, (mean, variance) in stages.items():
        probability = _probability(mean, variance, low, high, sd)
        found[f"{stage}_probability"] = probability.mean(axis=0)
        if stage != "prior":
            spread = np.sqrt(variance.mean(axis=0) + mean.var(axis=0))
            found[f"{stage}_mean"] = center + unit * mean.mean(axis=0)
            found[f"{stage}_sd"] = unit * spread
    kinds, violation = constraints.names, {}
    at_rows = zip(rest[4::2], rest[5::2], strict=True)
    bounded = dict.fromkeys(s.name for s in constraints.statements if not s.known)
    for name, moments in zip(bounded, at_rows, strict=True):
        own = names.index(name)
        violation[name] = 1.0 - _probability(*moments, low[own], high[own], sd[own]).mean()
    dataset = xr.Dataset(
        {name: ("statement", value) for name, value in found.items()}
        | {"violation": ("constraint", [violation.get(name, np.nan) for name in kinds])},
        coords={
            "statement": np.arange(len(names)),
            "constraint_of_statement": ("statement", names),
            "constraint": kinds,
        },
    )
    unlikely = found["data_probability"] < UNLIKELY
    against = list(dict.fromkeys(np.array(names)[unlikely].tolist()))
    if against:
        warn(
            f"The data alone give {against} a probability below {UNLIKELY} at one of their points. "
            "Look at data_mean, data_sd and data_probability in idata['constraints'], and compare "
            "leave-one-out densities with those of a model without these constraints.",
            ConstraintConflictWarning,
        )
    return dataset


def _probability(
    mean: np.ndarray, variance: np.ndarray, low: np.ndarray, high: np.ndarray, sd: np.ndarray
) -> np.ndarray:
    """Probability of bounds, or of a distance from the mean at least as large as the value's."""
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(variance)
        below, above = (low - mean) / spread, (high - mean) / spread
        inside = ndtr(above) - ndtr(below)
        distance = np.abs(low - mean) / np.sqrt(variance + sd**2)
    return np.where(low == high, 2.0 * ndtr(-distance), inside)
