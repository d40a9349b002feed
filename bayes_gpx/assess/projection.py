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
from bayes_gpx.data.row_data import counted
from bayes_gpx.draws.each_draw import at_training_rows
from bayes_gpx.draws.hyperparameter_draws import HyperparameterDraws
from bayes_gpx.draws.turns import for_threads
from bayes_gpx.inference.base import Start, ValueAndSlope
from bayes_gpx.inference.datatree import as_tree, name_method
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.optimise import Optimum, ascend
from bayes_gpx.numerics.jets import Jet
from bayes_gpx.numerics.threads import blas_threads, parallel_densities
from bayes_gpx.posteriors.base import OneDraw
from bayes_gpx.system.warning import warn

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model


CLOSE = 1e-8
"""A projection takes another step while the divergence decreases by this share.

Smaller values double the time if features hardly matter, and gain less than 1e-6 nats a row.
"""

ROUGH = 0.05
"""Lengthscales of a second start, relative to the reference's, with normal noise."""

STEP = 1e-4
"""Step of differences of the divergence in the logarithms of hyperparameters."""

AIM = "target_mean", "target_variance", "known_variance"
"""Inputs of a divergence of normals: mean and variance of each response from the others, and
variances of noise without sigma."""


class Reference(NamedTuple):
    """A fit with one chain, and its leave-one-out predictions for each draw."""

    model: Model
    hyper: HyperparameterDraws
    mean: np.ndarray  # (S, n[, C]) of f on the model's scale
    spread: np.ndarray  # (S, n) variances, or (S, n, C, C) square roots
    jitter: float  # largest relative jitter of any draw

    @classmethod
    def of(cls, model: Model, idata: Draws) -> Reference:
        """Compute the reference of a fit with one chain."""
        build: Any = _left_out
        (mean, spread), hyper, jitter = at_training_rows(model, idata, build, progressbar=False)
        return cls(model, hyper, mean[0], spread[0], jitter)

    def predictive(self, k: int) -> Any:
        """Distributions of the responses for one draw."""
        theta = [theta for _, theta in self.hyper][k]
        return predictive(self.model, (self.mean[k], self.spread[k]), theta)


def predictive(
    model: Model, moments: tuple[np.ndarray, np.ndarray], theta: Mapping[str, Any]
) -> Any:
    """Distributions of the training responses, from moments of f as in `LeftOut`."""
    observation, (mean, spread) = model.specification.observation, moments
    if observation.class_shape:
        spread = spread @ np.swapaxes(spread, -1, -2)
    elif observation.exposed and observation.exposure_name == "exposure":
        mean = mean + np.log(model.training.scaled_exposure)
    noise = {"noise_sd": model.training.scaled_exposure}  # of rows, where it is known
    return observation.predictive(Jet(mean), Jet(spread), noise | dict(theta))


def divergences(model: Model, aim: Any, found: Any) -> np.ndarray:
    """From the distribution of each training response to another, in nats, (n,)."""
    observation = model.specification.observation
    each = observation.divergence(aim, found)
    # The distributions are those of one trial.
    return each * model.training.scaled_exposure if observation.exposure_name == "trials" else each


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
    # A draw's projection minimizes ``sum_i w_i KL(p(y_i | y_-i, reference) || p(y_i | y_-i,
    # submodel))`` over the submodel's hyperparameters, by L-BFGS, starting at the reference's own.
    # Gradients are exact with normal noise and all rows; others are differences, because the mode
    # of Laplace's approximation has no gradient. `sample_stats` contains the divergence `kl`, an
    # average over rows in nats, and `converged`.
    model = reference.model
    submodel = model.of_features(sources)
    counts, size = counted(model.training.row_data, model.training.n), len(reference.mean)
    starts = [_of_columns(theta, model, submodel) for _, theta in reference.hyper]
    scales = _Scales(submodel, starts[0])
    aims = [reference.predictive(k) for k in range(size)]
    jitter, spec = np.asarray(reference.jitter), model.specification
    exact = spec.normal and spec.approximation is None
    changing, known = {"jitter": jitter}, np.zeros(model.training.n)
    if spec.observation.exposure_name == "noise_sd":
        known = cast(np.ndarray, model.training.scaled_exposure) ** 2
    if exact:
        changing |= dict.fromkeys(AIM, reference.mean[0])
    left_out = for_threads(
        submodel, _as_draws(starts), _divergence if exact else _left_out, changing
    )

    kinds = {h.name: h.kind for h in submodel.specification.hyperparameters}

    def rough(theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        # f may take the place of what other features explained, and is closest where it is rough:
        # above all where noise is known, and cannot grow.
        return {n: v * ROUGH if kinds[n] == "lengthscale" else v for n, v in theta.items()}

    def projected(k: int) -> Optimum:
        own, aim = left_out(), aims[k]
        if exact:
            target = jitter, aim.means[0].value, aim.variance.value, known
            begun = starts[k], rough(starts[k])
            climbs = (_Climb(scales, one, lambda *theta: own(*theta, *target)) for one in begun)
            return max((ascend(c, {}, CLOSE) for c in climbs), key=lambda o: o.log_density)

        def divergence(*theta: np.ndarray) -> float:
            mean, spread = (np.array(part) for part in own(*theta, jitter))
            named = dict(zip(starts[k], theta, strict=True))
            found = predictive(submodel, (mean, spread), named)
            return counts @ divergences(submodel, aim, found)

        return ascend(_Climb(scales, starts[k], by_differences(divergence)), {}, CLOSE)

    workers = min(size, parallel_densities(len(counts)))
    with blas_threads(len(counts), workers), ThreadPoolExecutor(workers) as pool:
        optima = list(pool.map(projected, range(size)))
    failed = sum(not optimum.converged for optimum in optima)
    if failed:
        warn(
            f"{failed} of {size} projections to {len(sources)} features did not converge; see "
            "`converged` in the submodel's sample_stats.",
            ConvergenceWarning,
        )
    stats = {
        "kl": np.array([[max(-o.log_density, 0.0) / counts.sum() for o in optima]]),
        "converged": np.array([[optimum.converged for optimum in optima]]),
    }
    draws = [
        {name: start[name] for name in scales.held} | scales.values(optimum.x)
        for start, optimum in zip(starts, optima, strict=True)
    ]
    named = {
        submodel.posterior_names[name]: np.stack([draw[name] for draw in draws])[None]
        for name in submodel.variables
    }
    idata = as_tree(submodel.objective, named, stats, [])
    name_method(idata, "projection")
    idata.attrs[submodel.signature_key] = submodel.signature
    return submodel, idata


def by_differences(function: Callable) -> Callable:
    """A function of positive arrays as itself and its slope, by differences of the logarithms."""

    def value_and_slopes(*arrays: np.ndarray) -> list:
        slopes = [np.zeros(np.shape(array)) for array in arrays]
        for k, array in enumerate(arrays):
            for place in np.ndindex(np.shape(array)):
                ends = []
                for step in (STEP, -STEP):
                    moved = np.array(array, float)
                    moved[place] *= np.exp(step)
                    ends.append(function(*arrays[:k], moved, *arrays[k + 1 :]))
                slopes[k][place] = (ends[0] - ends[1]) / (2.0 * STEP * np.asarray(array)[place])
        return [function(*arrays), *slopes]

    return value_and_slopes


def _left_out(draw: OneDraw) -> list[Tensor]:
    """Mean and variance of each f_i given the other rows."""
    found = draw.strategy.leave_one_out(draw.given)
    return [found.mean, found.spread]


def _divergence(draw: OneDraw) -> list[Tensor]:
    """Divergence of two normals, summed over rows, and its slope in each hyperparameter."""
    (mean, spread), theta = _left_out(draw), draw.given.theta
    aim, wide, known = (draw.changing[name] for name in AIM)
    variance = spread + known + pt.sqr(theta.get("sigma", 0.0))
    ratio = wide / variance
    each = 0.5 * (ratio - 1.0 - pt.log(ratio) + pt.sqr(mean - aim) / variance)
    apart = (draw.given.weights * each).sum()
    slopes = pt.grad(apart, list(theta.values()), disconnected_inputs="ignore")
    return [apart, *cast(list[Tensor], slopes)]


def _of_columns(
    theta: Mapping[str, np.ndarray], model: Model, submodel: Model
) -> dict[str, np.ndarray]:
    """A reference's draw, without the columns that the submodel does not have."""
    kept = {"feature": np.isin(model.training.X.columns, submodel.training.X.columns)}
    if model.training.Z is not None:
        own = cast("Frame", submodel.training.Z).columns
        kept["z_feature"] = np.isin(model.training.Z.columns, own)
    dims = {h.name: h.dim for h in model.specification.hyperparameters}
    return {
        name: theta[name][..., kept[str(dims[name])]] if dims[name] in kept else theta[name]
        for name in submodel.hyperparameters
    }


def _as_draws(draws: Sequence[Mapping[str, np.ndarray]]) -> HyperparameterDraws:
    """Convert dicts of hyperparameters to one chain of draws."""
    values = {name: np.stack([draw[name] for draw in draws])[None] for name in draws[0]}
    return HyperparameterDraws(values, np.arange(1), np.arange(len(draws)), len(draws) == 1)


class _Scales:
    """Logarithms of the hyperparameters that a projection changes, as one vector."""

    # `groups` holds, for each of them, which number each of its values is: columns that share a
    # prior variable, as all indicators of a categorical column do, share a number. `held` are the
    # shapes of the response's distribution, such as a dispersion, where divergences are between
    # members of one family; and numbers of any sign, or 0, which have no logarithm.

    def __init__(self, model: Model, start: Mapping[str, np.ndarray]) -> None:
        spec, self.groups, self._shapes = model.specification, {}, {}
        shapes = {
            name
            for name, h in spec.observation.hyperparameters.items()
            if not (h.in_units_of_y or spec.observation.any_shapes)
        }
        signed = {h.name for h in spec.hyperparameters if h.signed}
        dims = {h.name: h.dim for h in spec.hyperparameters}
        positive = {name: np.all(start[name] > 0) for name in model.variables}
        self.held = [n for n in model.variables if n in shapes | signed or not positive[n]]
        for name, variable in model.variables.items():
            if name in self.held:
                continue
            shape, apart = np.shape(start[name]), variable.ndim > 0
            each = np.arange(np.prod(shape[-1:], dtype=int))
            each = model.training.X.groups if dims[name] == "feature" else each
            first = (each.max() + 1) * np.arange(np.prod(shape[:-1], dtype=int))
            self.groups[name] = np.add.outer(first, each).ravel() * apart
            self._shapes[name] = (*shape[:-1], -1) if apart else ()
        self._sizes = {name: groups.max() + 1 for name, groups in self.groups.items()}

    def vector(self, theta: Mapping[str, np.ndarray]) -> np.ndarray:
        """From values of each column."""
        parts = []
        for name, groups in self.groups.items():
            logs = np.log(np.ravel(theta[name]))
            parts.append(np.bincount(groups, logs) / np.bincount(groups))
        return np.concatenate(parts)

    def values(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the model's variables, by the names of the hyperparameters."""
        parts = self._split(x).items()
        return {name: np.exp(part).reshape(self._shapes[name]) for name, part in parts}

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
        seen = list[float]()

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            theta = self.scales.theta(x, self.start)
            with np.errstate(all="ignore"):
                value, *slopes = self.divergence(*theta.values())
            slope = self.scales.slope(theta, dict(zip(theta, slopes, strict=True)))
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                # Where f has no mode. Next to an infinite value a line search takes steps so small
                # that it ends, so this one is a nat worse than the best.
                return max(seen) - 1.0 if seen else -np.inf, np.zeros_like(x)
            seen.append(-float(value))
            return seen[-1], -slope

        return evaluate
