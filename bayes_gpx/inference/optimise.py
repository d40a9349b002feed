"""The mode of a log density, and fits at it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr
from scipy.optimize import minimize

from bayes_gpx.inference.base import Method, Start
from bayes_gpx.inference.datatree import as_tree
from bayes_gpx.inference.diagnostics import ConvergenceWarning
from bayes_gpx.inference.log_density import Density, observations
from bayes_gpx.numerics.progress import foretell, progress_bar
from bayes_gpx.numerics.threads import blas_threads, parallel_densities
from bayes_gpx.system.tasks import in_turn
from bayes_gpx.system.warning import warn

EVALUATIONS = 30
"""About how often an optimiser evaluates the density from one start, and from the best end again:
of real data, 15 to 50."""

ENOUGH, TOGETHER = 1e-3, 3
"""Where there are several starts, each climbs until so many iterations together gain no more than
this, in nats; that is near its end, and enough to see which is the highest."""

TOLERANCE = 1e-11
"""Gain of an iteration, as a share of the value, below which a climb has arrived."""

LOST = 1e12
"""Stands in for the objective where the log density is not finite."""


class NowhereFinite(ValueError):
    """No start of an optimiser has a finite log density."""


@dataclass(frozen=True)
class Optimum:
    """Where one start of the optimiser ended."""

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


def climb(
    density: Density,
    starts: Sequence[Start],
    *,
    elsewhere: Elsewhere | None = None,
    progressbar: bool = True,
) -> list[Optimum]:
    """Maximise from every start by L-BFGS with exact gradients, several starts at a time.

    Of several starts, only the one that came highest climbs the last thousandths of a nat, which
    take half as many evaluations as the way there.

    Parameters
    ----------
    density : Density
    starts : list of dict
        Constrained values by variable name.
    elsewhere : Elsewhere, optional
        Runs the starts, in the place of threads; its processes compile the density anew.

    Returns
    -------
    list of Optimum, in the order of the starts
    """
    n = observations(density.model)
    workers = min(len(starts), parallel_densities(n))
    places = "one start" if len(starts) == 1 else f"{len(starts)} starts"
    what = f"Maximising the posterior density from {places}"
    first, evaluate = density.unconstrain(starts[0]), density.value_and_slope()
    times = EVALUATIONS * (len(starts) + 1)
    foretell(what, lambda: evaluate(first), times, workers, progressbar)
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
            "The log density is not finite at any start. Expected priors that allow "
            "hyperparameters of moderate size on the model's scale, and noise well above 0; check "
            "priors, fixed values such as sigma, and kernel."
        )
    best = max(optima, key=lambda o: o.log_density)
    if not best.converged:
        warn(
            "The best start of the optimiser did not converge; see the group `starts`. "
            "Pass another start=, such as a fit of some of the rows, or tighter priors.",
            ConvergenceWarning,
        )
    return optima


def _mapped(pool, density, starts, elsewhere):
    """Where the starts end, in their order."""
    enough = ENOUGH if len(starts) > 1 else 0.0
    if elsewhere is None:
        return pool.map(partial(ascend, density, enough=enough), starts)
    shared = elsewhere.model, density.jacobian, enough
    return in_turn(_ascend_of, shared, ((start,) for start in starts), elsewhere.executor)


def _ascend_of(shared, start):
    """Where a start ends, in the process that this is called in."""
    model, jacobian, enough = shared
    return ascend(Density(model(), jacobian=jacobian), start, enough=enough)


def _finished(value_and_slope, optimum):
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

    def value_and_slope(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Function x -> (value, gradient), for one thread; -inf where there is no value."""


def ascend(
    density: Climbable, start: Start, tolerance: float = TOLERANCE, enough: float = 0.0
) -> Optimum:
    """Climb from one start; each call has functions of its own and may run in a thread.

    It ends where an iteration gains less than `tolerance`, as a share of the value, or where
    `TOGETHER` of them gain no more than `enough`.
    """
    return _ascend(density.value_and_slope(), density.unconstrain(start), tolerance, enough)


def _ascend(value_and_slope, x0, tolerance=TOLERANCE, enough=0.0):
    trace: list[float] = []
    best: list[Any] = [LOST, x0]

    def objective(x):
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

    def scaled(x):
        value, slope = first if np.array_equal(x, x0) else objective(x)
        return value / unit, slope / unit

    reached = [*[np.inf] * TOGETHER, first[0]]

    def rest(intermediate_result):
        reached.append(intermediate_result.fun * unit)
        if enough and near_its_end():
            raise StopIteration

    def near_its_end():
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
    """Maximise the density of the hyperparameters; one chain, one draw.

    That of the unconstrained variables, which are logs of all that is above 0: a mode is not the
    same in other coordinates. In the hyperparameters themselves it is at the lowest of these where
    data say little, so that noise of 0 and short lengthscales win, and where the least value is 0
    the density may have no maximum at all: `jacobian=False` asks for that.
    """

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
