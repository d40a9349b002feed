"""The mode of a log density, and fits at it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr
from scipy.optimize import OptimizeResult, minimize

from bayes_gpx.inference.base import Method, Start, ValueAndSlope
from bayes_gpx.inference.datatree import UNFINISHED, as_tree
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density, observations
from bayes_gpx.numerics.progress import foretell, progress_bar
from bayes_gpx.numerics.threads import begin_turn, blas_threads, parallel_densities
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.system.warning import warn

APART = 0.1
"""Distance of the places where a density is timed, on the unconstrained scale."""

EVALUATIONS = 30
"""About how often an optimiser evaluates the density from one start, and from the best end again:
of real data, 15 to 50."""

ENOUGH, TOGETHER = 1e-3, 3
"""With several starting points, optimization pauses once this number of iterations together gain at
most this many nats: close enough to the optimum to find the best one."""

TOLERANCE = 1e-11
"""Gain of an iteration, as a share of the value, below which a climb has arrived."""

LOST = 1e12
"""Stands in for the objective where the log density is not finite."""


class NowhereFinite(ValueError):
    """No start of an optimiser has a finite log density."""


@dataclass(frozen=True)
class Optimum:
    """The optimum from one starting point."""

    x: np.ndarray
    log_density: float
    converged: bool
    evaluations: int
    trace: np.ndarray


@dataclass(frozen=True)
class Elsewhere:
    """An executor for starts of an optimiser, and how its processes come by the model."""

    executor: Executor
    model: Callable[[], pm.Model]
    """Can be pickled, as PyMC's models can't."""


def in_turns(place: np.ndarray) -> Iterator[np.ndarray]:
    """A neighbor and the place itself in turns, at which to measure the time of a density.

    A density that searches for a mode begins at the last one, so the same place twice is too quick.
    """
    return cycle([place + APART, place])


def climb(
    density: Density,
    starts: Sequence[Start],
    *,
    elsewhere: Elsewhere | None = None,
    progressbar: bool = True,
) -> list[Optimum]:
    """Optimize from every starting point by L-BFGS with exact gradients, several at a time."""
    # Only the best of several optima is optimized to convergence; the last thousandths of a nat
    # take half as many evaluations as the rest. Starting points are constrained values by variable
    # name. `elsewhere` runs them instead of threads, in processes that compile the density again.
    # Optima are in the order of the starting points.
    n = observations(density.model)
    workers = min(len(starts), parallel_densities(n))
    places = "one start" if len(starts) == 1 else f"{len(starts)} starts"
    what = f"Maximising the posterior density from {places}"
    first, evaluate = in_turns(density.unconstrain(starts[0])), density.value_and_slope()
    times = EVALUATIONS * (len(starts) + 1)
    foretell(what, lambda: evaluate(next(first)), times, workers, progressbar)
    with (
        ThreadPoolExecutor(workers) as pool,
        blas_threads(n, workers),
        progress_bar(progressbar) as progress,
    ):
        ends = _mapped(pool, density, starts, elsewhere)
        optima = list(progress.track(ends, total=len(starts), description=what))
        if len(starts) > 1:
            top = max(range(len(starts)), key=lambda k: optima[k].log_density)
            highest = progress.track([optima[top]], description="Finishing the highest of them")
            with blas_threads(n):
                (optima[top],) = (_finished(evaluate, optimum) for optimum in highest)
    if not any(o.log_density > -LOST for o in optima):
        raise NowhereFinite(
            "The log density is not finite at any start. Use priors that allow hyperparameters of "
            "moderate size on the model's scale, and noise well above 0; check priors, fixed "
            "values such as sigma, and kernel."
        )
    best = max(optima, key=lambda o: o.log_density)
    if not best.converged:
        warn(UNFINISHED, ConvergenceWarning)
    return optima


def _mapped(
    pool: ThreadPoolExecutor, density: Density, starts: Sequence[Start], elsewhere: Elsewhere | None
) -> Iterator[Optimum]:
    """Optima of the starting points, in their order."""
    enough = ENOUGH if len(starts) > 1 else 0.0
    if elsewhere is None:
        return pool.map(partial(ascend, density, enough=enough), starts)
    shared = elsewhere.model, density.jacobian, enough
    return in_turn(_ascend_of, shared, ((start,) for start in starts), elsewhere.executor)


def _ascend_of(shared: tuple[Callable[[], pm.Model], bool, float], start: Start) -> Optimum:
    """The optimum of a starting point, computed in the current process."""
    model, jacobian, enough = shared
    return ascend(Density(model(), jacobian=jacobian), start, enough=enough)


def _finished(value_and_slope: ValueAndSlope, optimum: Optimum) -> Optimum:
    """The end of a climb from where an optimum is, as one climb."""
    if optimum.log_density <= -LOST:
        return optimum
    last = _ascend(value_and_slope, optimum.x)
    trace = np.concatenate([optimum.trace, last.trace])
    converged = optimum.converged and last.converged
    return replace(last, converged=converged, evaluations=len(trace), trace=trace)


class Climbable(Protocol):
    """What can be climbed: a `Density`, or another function of an unconstrained vector."""

    def unconstrain(self, start: Start) -> np.ndarray:
        """Unconstrained vector of a start."""

    def value_and_slope(self) -> ValueAndSlope:
        """Function x -> (value, gradient), for one thread; -inf where there is no value."""


def ascend(
    density: Climbable, start: Start, tolerance: float = TOLERANCE, enough: float = 0.0
) -> Optimum:
    """Optimize from one starting point, with separate functions for each call, in any thread."""
    # It stops once an iteration gains less than `tolerance`, relative to the value, or `TOGETHER`
    # iterations gain at most `enough`.
    begin_turn()
    return _ascend(density.value_and_slope(), density.unconstrain(start), tolerance, enough)


def _ascend(
    value_and_slope: ValueAndSlope,
    x0: np.ndarray,
    tolerance: float = TOLERANCE,
    enough: float = 0.0,
) -> Optimum:
    trace: list[float] = []
    best: list[Any] = [LOST, x0]

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_slope(x)
        trace.append(value)
        if not np.isfinite(value):
            return LOST, slope
        if -value < best[0]:
            best[:] = -value, x.copy()
        return -value, -slope

    reach = np.maximum(20.0, np.abs(x0))
    # Within bounds the first step is the whole gradient: in units of its length, it is one of 1.
    first = objective(x0)
    unit = max(1.0, float(np.linalg.norm(first[1])))

    def scaled(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = first if np.array_equal(x, x0) else objective(x)
        return value / unit, slope / unit

    reached = [*[np.inf] * TOGETHER, first[0]]

    def rest(intermediate_result: OptimizeResult) -> None:
        reached.append(intermediate_result.fun * unit)
        if enough and near_its_end():
            raise StopIteration

    def near_its_end() -> bool:
        return reached[-1 - TOGETHER] - reached[-1] <= enough

    result = minimize(
        scaled,
        x0,
        jac=True,
        method="L-BFGS-B",
        callback=rest,
        bounds=list(zip(x0 - reach, x0 + reach, strict=True)),
        options={"maxiter": 1000, "maxfun": 2000, "ftol": tolerance, "gtol": 1e-4 / unit},
    )
    result.fun, result.jac = result.fun * unit, result.jac * unit
    inside = (np.abs(result.x - x0) < 0.999 * reach).all()
    flat = np.abs(result.jac).max() < 1e-2 * max(1.0, 1e-3 * abs(result.fun))
    arrived = flat or ((result.success or near_its_end()) and inside)
    converged = bool(arrived and result.fun < LOST)
    value, x = best if best[0] < result.fun else (result.fun, result.x)
    return Optimum(x, -float(value), converged, result.nfev, np.array(trace))


@dataclass(frozen=True)
class Maximum(Method):
    """Maximize the density of the hyperparameters; one chain, one draw."""

    # The density is of the unconstrained variables, which are logs of positive ones; the mode
    # depends on this choice. The mode of the hyperparameters themselves (`jacobian=False`) is at
    # their smallest values if data are uninformative: noise of 0 and short lengthscales win, and
    # the density may have no maximum at all.

    gives = "mode"

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        executor: Elsewhere | None = None,
        progressbar: bool = True,
        jacobian: bool = True,
    ) -> xr.DataTree:
        """Climb from every start, and keep the highest end."""
        density = Density(model, jacobian=jacobian)
        optima = climb(density, starts, elsewhere=executor, progressbar=progressbar)
        best = max(optima, key=lambda o: o.log_density)
        draws = {k: np.asarray(v)[None, None] for k, v in density.expand()(best.x).items()}
        return as_tree(model, draws, {"lp": np.array([[best.log_density]])}, optima)
