"""Project the draws of a model onto a simpler model with predictions as close as possible."""

# Leave-one-out predictions of training responses are compared. In-sample predictions would be
# misleading: a submodel with little noise interpolates any responses.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_gpx.aliases import Draws, Tensor
from bayes_gpx.draws.each_draw import at_training_rows, for_threads
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
from bayes_gpx.inference.base import Start, ValueAndSlope
from bayes_gpx.inference.datatree import as_tree, name_method
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.optimise import Optimum, ascend
from bayes_gpx.numerics.threads import blas_threads, parallel_densities
from bayes_gpx.posteriors.base import OneDraw
from bayes_gpx.system.warning import warn

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model


CLOSE = 1e-8
"""Smallest relative decrease of the divergence for which a projection takes another step.

Smaller values double the time if features hardly matter, and gain less than 1e-6 nats a row.
"""


AIM = "jitter", "target_mean", "target_variance"
"""What a divergence is given: mean and variance of each response from the others, (n,)."""


class Reference(NamedTuple):
    """A fit with one chain, and its leave-one-out predictions for each draw."""

    model: Model
    hyper: HyperparameterDraws
    mean: np.ndarray  # (S, n) on the model's scale
    variance: np.ndarray  # (S, n)
    jitter: float  # largest relative jitter of any draw

    @classmethod
    def of(cls, model: Model, idata: Draws) -> Reference:
        """Compute the reference of a fit with one chain."""
        build: Any = _left_out
        (mean, variance), hyper, jitter = at_training_rows(model, idata, build, progressbar=False)
        return cls(model, hyper, mean[0], variance[0], jitter)


def thinned(idata: Draws, count: int) -> Draws:
    """At most `count` draws of a fit, evenly from all chains one after the other, as one chain."""
    if isinstance(idata, dict):
        return idata
    posterior = idata["posterior"].to_dataset()
    pooled = posterior.stack(pooled=("chain", "draw"), create_index=False)
    size = pooled.sizes["pooled"]
    kept = np.linspace(0, size - 1, min(count, size)).round().astype(int)
    some = pooled.isel(pooled=kept).drop_vars(["chain", "draw"], errors="ignore")
    some = some.rename(pooled="draw")
    some = some.expand_dims(chain=[0]).assign_coords(draw=np.arange(len(kept)))
    tree = xr.DataTree.from_dict({"posterior": some.transpose("chain", "draw", ...)})
    tree.attrs.update(idata.attrs)
    return tree


def project_to(reference: Reference, sources: list[str]) -> tuple[Model, xr.DataTree]:
    """The submodel of some features, with the projection of each draw of a reference."""
    # A draw's projection minimizes ``sum_i KL(p(y_i | y_-i, reference) || p(y_i | y_-i,
    # submodel))`` over the submodel's hyperparameters, by L-BFGS with exact gradients, starting at
    # the reference's own. `sample_stats` contains the divergence `kl`, an average over rows in
    # nats, and `converged`.
    model = reference.model
    submodel = model.of_features(sources)
    n, size = model.training.n, len(reference.mean)
    kept = np.isin(model.training.X.columns, submodel.training.X.columns)
    scales = _Scales(submodel)
    starts = [_of_columns(theta, submodel, kept) for _, theta in reference.hyper]
    jitter = np.asarray(reference.jitter)
    changing = dict(zip(AIM, (jitter, reference.mean[0], reference.variance[0]), strict=True))
    divergence = for_threads(submodel, _as_draws(starts), _divergence, changing)

    def projected(k: int) -> Optimum:
        target, own = (jitter, reference.mean[k], reference.variance[k]), divergence()
        climb = _Climb(scales, starts[k], lambda *theta: own(*theta, *target))
        return ascend(climb, {}, CLOSE)

    workers = min(size, parallel_densities(n))
    with blas_threads(n, workers), ThreadPoolExecutor(workers) as pool:
        optima = list(pool.map(projected, range(size)))
    failed = sum(not optimum.converged for optimum in optima)
    if failed:
        warn(
            f"{failed} of {size} projections to {len(sources)} features did not converge; see "
            "`converged` in the submodel's sample_stats.",
            ConvergenceWarning,
        )
    stats = {
        "kl": np.array([[max(-optimum.log_density, 0.0) / n for optimum in optima]]),
        "converged": np.array([[optimum.converged for optimum in optima]]),
    }
    draws = [scales.values(optimum.x) for optimum in optima]
    named = {
        submodel.posterior_names[name]: np.stack([draw[name] for draw in draws])[None]
        for name in scales.groups
    }
    idata = as_tree(submodel.objective, named, stats, [])
    name_method(idata, "projection")
    idata.attrs[submodel.signature_key] = submodel.signature
    return submodel, idata


def _moments(draw: OneDraw) -> tuple[Tensor, Tensor]:
    """Mean and variance of each y_i given the others."""
    found = draw.strategy.leave_one_out(draw.given)
    return found.mean, found.spread + pt.sqr(draw.given.theta["sigma"])


def _left_out(draw: OneDraw) -> list[Tensor]:
    return [*_moments(draw)]


def _divergence(draw: OneDraw) -> list[Tensor]:
    """Divergence of two normals, summed over rows, and its slope in each hyperparameter."""
    (mean, variance), theta = _moments(draw), draw.given.theta
    aim, wide = (draw.changing[name] for name in AIM[1:])
    ratio = wide / variance
    apart = 0.5 * (ratio - 1.0 - pt.log(ratio) + pt.sqr(mean - aim) / variance).sum()
    slopes = pt.grad(apart, list(theta.values()), disconnected_inputs="ignore")
    return [apart, *cast(list[Tensor], slopes)]


def _of_columns(
    theta: Mapping[str, np.ndarray], submodel: Model, kept: np.ndarray
) -> dict[str, np.ndarray]:
    """A reference's draw, without the columns that the submodel does not have."""
    by_feature = {h.name for h in submodel.specification.hyperparameters if h.dim == "feature"}
    return {name: own[kept] if name in by_feature else own for name, own in theta.items()}


def _as_draws(draws: Sequence[Mapping[str, np.ndarray]]) -> HyperparameterDraws:
    """Convert dicts of hyperparameters to one chain of draws."""
    values = {name: np.stack([draw[name] for draw in draws])[None] for name in draws[0]}
    return HyperparameterDraws(values, np.arange(1), np.arange(len(draws)), len(draws) == 1)


class _Scales:
    """Logarithms of the hyperparameters that a model infers, as one vector."""

    # `groups` holds, for each of them, which number each of its values is: columns that share a
    # prior variable, as all indicators of a categorical column do, share a number.

    def __init__(self, model: Model) -> None:
        self.groups, self._alone, self._sizes = {}, {}, {}
        for name, variable in model.variables.items():
            count = model.training.d if model.hyperparameters[name] else 1
            apart = variable.ndim > 0
            self.groups[name] = model.training.X.groups if apart else np.zeros(count, int)
            self._alone[name] = not apart
            self._sizes[name] = self.groups[name].max() + 1

    def vector(self, theta: Mapping[str, np.ndarray]) -> np.ndarray:
        """From values of each column."""
        parts = []
        for name, groups in self.groups.items():
            logs = np.broadcast_to(np.log(theta[name]), groups.shape)
            parts.append(np.bincount(groups, logs) / np.bincount(groups))
        return np.concatenate(parts)

    def values(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the model's variables, by the names of the hyperparameters."""
        parts = self._split(x)
        return {n: np.exp(part[0] if self._alone[n] else part) for n, part in parts.items()}

    def theta(self, x: np.ndarray, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of each column, and the values of `given` that are not inferred."""
        parts = self._split(x)
        return {
            name: np.exp(parts[name][self.groups[name]]).reshape(np.shape(own))
            if name in parts
            else own
            for name, own in given.items()
        }

    def slope(
        self, theta: Mapping[str, np.ndarray], slopes: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """In the vector, from slopes in the values of each column."""
        return np.concatenate(
            [
                np.bincount(groups, np.ravel(slopes[name] * theta[name]))
                for name, groups in self.groups.items()
            ]
        )

    def _split(self, x: np.ndarray) -> dict[str, np.ndarray]:
        ends = np.cumsum([*self._sizes.values()])[:-1]
        return dict(zip(self.groups, np.split(x, ends), strict=True))


class _Climb(NamedTuple):
    """Minus a divergence as a function of a vector, as the optimiser climbs it."""

    scales: _Scales
    start: dict
    divergence: Callable

    def unconstrain(self, start: Start) -> np.ndarray:
        """The starting point: hyperparameters of the reference, unconstrained."""
        return self.scales.vector(self.start)

    def value_and_slope(self) -> ValueAndSlope:
        """Function x -> (minus the divergence, gradient)."""

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            theta = self.scales.theta(x, self.start)
            with np.errstate(all="ignore"):
                value, *slopes = self.divergence(*theta.values())
            slope = self.scales.slope(theta, dict(zip(theta, slopes, strict=True)))
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return -np.inf, np.zeros_like(x)
            return -float(value), -slope

        return evaluate
