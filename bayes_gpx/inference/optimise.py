"""The mode of a log density, and fits at it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
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

EVALUATIONS = 50
"""About how often an optimiser evaluates the density from one start: of real data, 30 to 80."""

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
    what = f"Maximising the posterior density from {len(starts)} starts"
    first, evaluate = density.unconstrain(starts[0]), density.value_and_slope()
    foretell(what, lambda: evaluate(first), EVALUATIONS * len(starts), workers, progressbar)
    with (
        ThreadPoolExecutor(workers) as pool,
        blas_threads(n, workers),
        progress_bar(progressbar) as progress,
    ):
        ends = _mapped(pool, density, starts, elsewhere)
        optima = list(progress.track(ends, total=len(starts), description=what))
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
    if elsewhere is None:
        return pool.map(partial(ascend, density), starts)
    shared, each = (elsewhere.model, density.jacobian), ((start,) for start in starts)
    return in_turn(_ascend_of, shared, each, elsewhere.executor)


def _ascend_of(shared, start):
    """Where a start ends, in the process that this is called in."""
    model, jacobian = shared
    return ascend(Density(model(), jacobian=jacobian), start)


class Climbable(Protocol):
    """What can be climbed: a `Density`, or another function of an unconstrained vector."""

    def unconstrain(self, start: Start) -> np.ndarray:
        """Unconstrained vector of a start."""

    def value_and_slope(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Function x -> (value, gradient), for one thread; -inf where there is no value."""


def ascend(density: Climbable, start: Start, tolerance: float = 1e-11) -> Optimum:
    """Climb from one start; each call has functions of its own and may run in a thread.

    It ends where a step gains less than `tolerance`, as a share of the value.
    """
    value_and_slope, trace = density.value_and_slope(), []
    x0 = density.unconstrain(start)
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

    result = minimize(
        scaled,
        x0,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(x0 - reach, x0 + reach, strict=True)),
        options={"maxiter": 1000, "maxfun": 2000, "ftol": tolerance, "gtol": 1e-4 / unit},
    )
    result.fun, result.jac = result.fun * unit, result.jac * unit
    inside = (np.abs(result.x - x0) < 0.999 * reach).all()
    flat = np.abs(result.jac).max() < 1e-2 * max(1.0, 1e-3 * abs(result.fun))
    converged = bool((flat or (result.success and inside)) and result.fun < LOST)
    value, x = best if best[0] < result.fun else (result.fun, result.x)
    return Optimum(x, -float(value), converged, result.nfev, np.array(trace))


@dataclass(frozen=True)
class Maximum(Method):
    """Maximise the density in the hyperparameters themselves; one chain, one draw."""

    gives = "mode"

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        executor: Elsewhere | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Climb from every start, and keep the highest end."""
        density = Density(model, jacobian=False)
        optima = climb(density, starts, elsewhere=executor, progressbar=progressbar)
        best = max(optima, key=lambda o: o.log_density)
        draws = {k: np.asarray(v)[None, None] for k, v in density.expand()(best.x).items()}
        return as_tree(model, draws, {"lp": np.array([[best.log_density]])}, optima)
