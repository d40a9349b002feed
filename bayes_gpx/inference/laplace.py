"""Laplace's approximation of the hyperparameters' posterior, reweighed to the posterior itself."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import batched, chain
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from scipy.stats import multivariate_t

from bayes_gpx.inference.base import Method, Start
from bayes_gpx.inference.datatree import as_tree
from bayes_gpx.inference.diagnostics import (
    BAD_EFFECTIVE,
    BORDERLINE,
    CONVERGED,
    FEWEST_EFFECTIVE,
    NOT_CONVERGED,
    ConvergenceWarning,
)
from bayes_gpx.inference.log_density import Density, observations
from bayes_gpx.inference.optimise import EVALUATIONS, Elsewhere, Optimum, climb, in_turns
from bayes_gpx.numerics.progress import announce, foretell, progress_bar
from bayes_gpx.numerics.threads import THREADED_FROM, TURN, begin_turn, parallel_densities
from bayes_gpx.system.warning import warn

WIDEST = 5.0
"""Largest standard deviation of a Laplace approximation, on the unconstrained scale."""

FEWEST_PROPOSED = 500
"""Least number of proposals in a round, which otherwise has as many as draws are kept."""

ROUNDS = {CONVERGED: 2, BORDERLINE: 4, NOT_CONVERGED: 8}
"""Rounds of proposals, by what their weights are."""

TAILS = 5
"""Degrees of freedom of the proposals' t distributions."""

LEAST_OWN = 0.01
"""Share of Laplace's covariance added to the weighted draws', which a few draws may dominate."""

NEGLIGIBLE = 500.0
"""How far below the highest log density others are cut off: weights there are as good as 0."""

ADVICE = "Use 'nuts', more draws, or tighter priors."


@dataclass(frozen=True)
class WeightedLaplace(Method):
    """Draw around the mode of the unconstrained density, weighted by this density."""

    # Proposals are multivariate t: a normal has lighter tails than a posterior, and no weight makes
    # up for missing draws. The first round is around the mode, scaled by Laplace's approximation;
    # each later round is around the posterior as weighted by all rounds before. More rounds follow
    # while a few proposals have most of the weight: all of them cost an eighth of NUTS or less.
    # Weights are smoothed by PSIS, and the draws resampled, so all have equal weight.
    # Cornuet et al., "Adaptive multiple importance sampling" (2012); Vehtari et al., "Pareto
    # smoothed importance sampling" (2024).

    gives = "weighted"
    takes = ("draws", "seed")

    def fit(
        self,
        model: pm.Model,
        starts: Sequence[Start],
        *,
        draws: int = 1000,
        seed: int | None = None,
        executor: Elsewhere | None = None,
        progressbar: bool = True,
    ) -> xr.DataTree:
        """Propose around the mode, weigh by the density, and resample; see the class."""
        found = weighted_draws(model, starts, draws, seed, executor, progressbar)
        if found.far:
            warn(f"{found.far} {ADVICE}", ConvergenceWarning)
        return found.tree


class Weighted(NamedTuple):
    """Weighted draws around a mode."""

    tree: xr.DataTree
    mode: dict[str, np.ndarray]
    """Values of the variables there, by name."""
    seconds: float
    """What an evaluation of the density took."""
    far: str
    """A sentence that says how far the posterior is from its approximation; "" if it is near."""


def weighted_draws(
    model: pm.Model,
    starts: Sequence[Start],
    draws: int,
    seed: int | None,
    executor: Elsewhere | None,
    progressbar: bool,
) -> Weighted:
    """Propose around the mode, weigh by the density, and resample, as `WeightedLaplace` says."""
    density = Density(model, jacobian=True)
    rng, count = np.random.default_rng(seed), ROUNDS[CONVERGED] * max(draws, FEWEST_PROPOSED)
    first = density.unconstrain(starts[0])
    climbs = EVALUATIONS * (len(starts) + 1)
    places = in_turns(first)
    foretell(
        "Drawing around the mode of the posterior density",
        lambda: density.height(next(places)),
        climbs + 2 * len(first) + count,
        _workers(observations(model)),
        progressbar,
        ("fit('map'), without the uncertainty of hyperparameters", climbs / (climbs + count)),
    )
    optima, mode, spread = mode_and_spread(density, starts, executor, progressbar)
    begun = perf_counter()
    points, log_p, log_q, log_weights, told = _weighed(
        density, mode, spread, draws, rng, progressbar
    )
    seconds = (perf_counter() - begun) / len(points)
    kept = resampled(np.exp(log_weights), draws, rng)
    expand = density.expand()
    columns = [expand(x) for x in points[kept]]
    stacked = {k: np.stack([c[k] for c in columns])[None] for k in columns[0]}
    stats = {"lp": log_p[kept][None], "lp_approximation": log_q[kept][None]}
    tree = as_tree(model, stacked, stats, optima)
    tree.attrs.update(told)
    summary = told["convergence_summary"]
    if told["convergence"] == BORDERLINE:
        warn(f"{summary} {ADVICE}", ConvergenceWarning)
    if np.linalg.norm(spread, axis=0).max() > 0.999 * WIDEST:
        summary += " It is nearly flat in some direction at its mode."
    far = summary if told["convergence"] == NOT_CONVERGED else ""
    return Weighted(tree, dict(expand(mode)), seconds, far)


def _weighed(
    density: Density,
    mode: np.ndarray,
    spread: np.ndarray,
    draws: int,
    rng: np.random.Generator,
    progressbar: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """Proposals (S, d), log densities of the model and of them, log weights (S,), attributes."""
    # Each round proposes from a t distribution, the first around the mode, the next with the mean
    # and covariance of the weighted draws so far; weights are against the equal mixture of them
    # all.
    points, log_p, proposals = np.empty((0, len(mode))), np.empty(0), [(mode, spread)]
    begun = perf_counter()
    for done in range(1, ROUNDS[NOT_CONVERGED] + 1):
        center, root = proposals[-1]
        standard = rng.standard_normal((max(draws, FEWEST_PROPOSED), len(mode)))
        standard /= np.sqrt(rng.chisquare(TAILS, len(standard)) / TAILS)[:, None]
        new = center + standard @ root.T
        points = np.concatenate([points, new])
        log_p = np.concatenate([log_p, _heights(density, new, progressbar)])
        log_q = np.logaddexp.reduce([_log_t(points, *one) for one in proposals])
        log_q -= np.log(len(proposals))
        log_weights, khat = smoothed(log_q - np.maximum(log_p, log_p.max() - NEGLIGIBLE))
        told = diagnosed(log_weights, khat, draws)
        if done >= ROUNDS[told["convergence"]]:
            break
        if done == ROUNDS[CONVERGED] and progressbar:
            each, further = (perf_counter() - begun) / done, ROUNDS[told["convergence"]] - done
            announce("A few draws have most of the weight. Drawing more", each * further)
        weights = np.exp(log_weights)
        mean = weights @ points
        covariance = (weights[:, None] * (points - mean)).T @ (points - mean)
        # Few effective draws tell the scale of many variables, but not their correlations.
        known = 1.0 / (1.0 + len(mean) * (weights @ weights))
        covariance = known * covariance + (1.0 - known) * np.diag(np.diag(covariance))
        root = np.linalg.cholesky(covariance + LEAST_OWN * spread @ spread.T)
        proposals.append((mean, root))
    return points, log_p, log_q, log_weights, told


def smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto smoothed log weights (S,), in proportion to exp(-log_ratios), and Pareto k.

    k is infinite for weights without a tail, as of few or repeated draws, or of draws that have the
    highest weight together.
    """
    try:
        log_weights, khat = array_stats.psislw(log_ratios)
    except (ValueError, IndexError):
        return -log_ratios - np.logaddexp.reduce(-log_ratios), np.inf
    return log_weights, float(khat)


def smoothed_of_points(log_ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `smoothed`, of each column of ratios (S, n): log weights (S, n), and Pareto k (n,)."""
    log_weights, pareto_k = zip(*map(smoothed, log_ratios.T), strict=True)
    return np.stack(log_weights, axis=1), np.array(pareto_k)


def diagnosed(
    log_weights: np.ndarray,
    khat: float,
    draws: int,
    far: str = "The posterior is far from its Laplace approximation",
) -> dict[str, Any]:
    """Attributes of a fit that say whether proposals weighted so represent the posterior."""
    heavy, tail = False, "the tail of the weights is too short for a Pareto k"
    if np.isfinite(khat):
        largest = min(1.0 - 1.0 / np.log10(len(log_weights)), 0.7)
        heavy = khat > largest
        tail = f"Pareto k of the weights is {khat:.2f} (want at most {largest:.2f})"
    fewest, effective = min(FEWEST_EFFECTIVE, draws), np.exp(-np.logaddexp.reduce(2 * log_weights))
    if heavy or effective < fewest * BAD_EFFECTIVE / FEWEST_EFFECTIVE:
        state, said = NOT_CONVERGED, far
    elif effective < fewest * (1.0 - 1e-9):  # equal weights, to round-off
        state, said = BORDERLINE, "Borderline, which is good enough to explore"
    else:
        state, said = CONVERGED, "Converged"
    summary = (
        f"{said}: {tail}, and together they are worth {effective:.0f} draws (want at least "
        f"{fewest})."
    )
    return {"khat": khat, "convergence": state, "convergence_summary": summary}


def _log_t(points: np.ndarray, center: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Log density of the proposals' t distribution, (S,)."""
    standard = np.linalg.solve(root, (points - center).T).T
    log_density = multivariate_t.logpdf(standard, df=TAILS, shape=np.eye(len(center)))
    return log_density - np.linalg.slogdet(root)[1]


def _heights(density: Density, points: np.ndarray, progressbar: bool) -> np.ndarray:
    """Log densities at points (S, d), by parallel threads."""
    # So many that their matrices (n, n) together take no more memory than one of `THREADED_FROM`
    # rows.
    with (
        ThreadPoolExecutor(_workers(observations(density.model))) as pool,
        progress_bar(progressbar) as progress,
    ):
        # Compiled once, before threads begin.
        in_turn = partial(_in_turn, density.height)
        found = chain.from_iterable(pool.map(in_turn, batched(points, TURN)))
        what = "Weighing draws by the posterior density"
        return np.array([*progress.track(found, total=len(points), description=what)])


def _in_turn(height: Callable, points: Sequence[np.ndarray]) -> list[float]:
    begin_turn()
    return [height(point) for point in points]


def _workers(n: int) -> int:
    """How many densities of n rows are evaluated at a time."""
    return max(1, min(parallel_densities(n), (THREADED_FROM // max(1, n)) ** 2))


def mode_and_spread(
    density: Density, starts: Sequence[Start], executor: Elsewhere | None, progressbar: bool
) -> tuple[list[Optimum], np.ndarray, np.ndarray]:
    """Optima, mode (d,), and a square root (d, d) of the inverse negative Hessian at the mode."""
    # The mode is on the unconstrained scale; the Hessian comes from differences of slopes. Standard
    # deviations are at most `WIDEST`.
    optima = climb(density, starts, elsewhere=executor, progressbar=progressbar)
    mode = max(optima, key=lambda o: o.log_density).x
    value_and_slope = density.value_and_slope()
    step = 1e-4
    hessian = np.stack(
        [
            (value_and_slope(mode + step * e)[1] - value_and_slope(mode - step * e)[1]) / (2 * step)
            for e in np.eye(len(mode))
        ]
    )
    curvature, directions = np.linalg.eigh(-(hessian + hessian.T) / 2)
    sd = 1.0 / np.sqrt(np.maximum(curvature, WIDEST**-2))
    return optima, mode, directions * sd


def resampled(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of `count` draws, in proportion to weights (S,) >= 0, by systematic resampling."""
    # Each is taken ``count`` times its proportion of the weights, rounded up or down; in random
    # order.
    ends = np.cumsum(weights)
    at = (np.arange(count) + rng.uniform()) / count * ends[-1]
    return rng.permutation(np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1))
