"""Constraints beside rows of any likelihood, through coefficients.

The rows have the best Gaussian posterior of the coefficients, as without constraints. Bounds of
constraints are normal sites by expectation propagation: each is fitted to the posterior without
the sites of bounds, and the posterior is fitted again, until neither moves. A site is then a
further row, a normal observation. At the fixed point, the log marginal likelihood has the
derivatives of fixed sites: the bound of the rows does not change with its posterior, nor the
probability of the bounds with their sites.

References
----------
Minka, "Expectation propagation for approximate Bayesian inference" (2001); Khan and Lin,
"Conjugate-computation variational inference" (2017), for sites of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from scipy.linalg import solve_triangular

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import ScalarLikelihood, Theta
from bayes_gpx.numerics.special import log_normal
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.posteriors.evidence.by_group import BestByGroup
from bayes_gpx.posteriors.evidence.intervals import WithoutGradient, interval_sites
from bayes_gpx.posteriors.evidence.row_bounds import best_of_rows, variational

ROUNDS = 100
"""At most so many times the posterior is fitted around new sites."""

TOLERANCE = 1e-8
"""Sites are found when no posterior mean or sd moves by more than this, in prior sds."""

LARGEST_MISS = 1e-5
"""Sites that still move by more than this after all rounds count as not found."""


@dataclass(frozen=True)
class WithSites:
    """A likelihood of rows of which some are normal sites.

    Such a row has the site's mean as y, and as its exposure minus the site's variance.
    """

    likelihood: ScalarLikelihood
    classes, class_shape, normal, processes = None, (), False, ()

    @property
    def hyperparameters(self) -> Any:
        """Those of the likelihood."""
        return self.likelihood.hyperparameters

    def symbols(self) -> dict[str, Tensor]:
        """Those of the likelihood."""
        return self.likelihood.symbols()

    def exposures(self) -> Tensor:
        """Exposures, or variances of sites, (n,)."""
        return pt.dvector("exposure")

    @property
    def concave(self) -> bool:
        """As the likelihood is."""
        return self.likelihood.concave

    def expected_log(
        self, mean: Tensor, sd: Tensor, y: Tensor, theta: Theta, exposure: Tensor
    ) -> tuple[Tensor, ...]:
        """As `ScalarLikelihood.expected_log`."""
        own = pt.lt(exposure, 0.0)
        # What is not chosen must be finite, or the gradient of the choice is not.
        none = (0.0, mean), (1.0, sd), (y[pt.argmin(own)], y)
        f, spread, response = (pt.switch(own, *both) for both in none)
        exposed = pt.switch(own, 1.0, exposure)
        of_rows = self.likelihood.expected_log(f, spread, response, theta, exposed)
        variance = pt.switch(own, -exposure, 1.0)
        height = log_normal(y, mean, variance) - 0.5 * pt.sqr(sd) / variance
        of_sites = height, (y - mean) / variance, 1.0 / variance
        return tuple(pt.switch(own, *both) for both in zip(of_sites, of_rows, strict=True))


class Rows(NamedTuple):
    """Rows through coefficients; E and codes are of groups, or None."""

    F: Any  # (n, M)
    E: Any  # (n, K)
    rest: Any  # (n,), variance around the coefficients: of normal noise, or of remainders
    y: Any  # (n,)
    exposure: Any  # (n,)
    codes: Any  # (n,)

    def given(self) -> list[Any]:
        """Those that there are."""
        return [v for v in self if v is not None]


@cache
def _best(likelihood: ScalarLikelihood, by_group: bool) -> ThreadedFunction:
    """Compile mean and root of the precision of the shared coefficients, from rows."""
    F, E, rest, y, exposure = pt.dmatrix(), pt.dmatrix(), pt.dvector(), pt.dvector(), pt.dvector()
    codes, around = pt.dvector(), around_sites(likelihood)
    theta = {} if likelihood.normal else likelihood.symbols()
    if by_group:
        rows = Rows(F, E, rest, y, exposure, codes)
        found: Any = BestByGroup(around)(*rows.given(), *theta.values())
        outputs = [found[0], found[2]]
    elif likelihood.normal:
        rows = Rows(F, None, rest, y, exposure, None)
        outputs = [*best_of_rows(F, rest, y)]
    else:
        rows = Rows(F, None, rest, y, exposure, None)
        outputs = [*variational(around, F, rest, y, theta, exposure).found]
    return ThreadedFunction([*rows.given(), *theta.values()], outputs)


def around_sites(likelihood: ScalarLikelihood) -> Any:
    """The likelihood of rows with sites among them; normal rows have a variance each anyway."""
    return likelihood if likelihood.normal else WithSites(likelihood)


class ConstrainedSites(WithoutGradient):
    """(G, V, low, high, *rows, *hyperparameters) -> mean and variance of sites, and log factor.

    A constraint is about a row of G (k, M) times the coefficients, with noise of variance V (k,),
    between bounds; equal bounds are a value. Rows are those of `Rows` that there are. The log
    factor is -inf without sites. Nothing is differentiable.
    """

    __props__ = ("likelihood", "by_group")
    interpreted = True

    def __init__(self, likelihood: ScalarLikelihood, by_group: bool) -> None:
        self.likelihood, self.by_group = likelihood, by_group

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        known = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, known, [pt.dvector(), pt.dvector(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        G, V, low, high, *given = (np.asarray(v, "float64") for v in inputs)
        count = 6 if self.by_group else 4
        own, theta = iter(given[:count]), given[count:]
        rows = Rows(*(next(own) if self.by_group or i not in (1, 5) else None for i in range(6)))
        with np.errstate(all="ignore"):
            found = self._sites(G, V, low, high, rows, theta)
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)

    def _sites(
        self,
        G: np.ndarray,
        V: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: Rows,
        theta: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Rounds of fits of the posterior and of sites."""
        best, prior = _best(self.likelihood, self.by_group), G @ G.T + np.diag(V)
        bounded, scale = low != high, np.sqrt(np.diag(prior))
        mean, variance, log_factor = interval_sites(prior, np.zeros(0), low, high)
        before, moved = np.inf, np.inf
        for _ in range(ROUNDS):
            if not np.isfinite(log_factor):
                break
            around = with_sites(rows, G, mean, V + variance, self.likelihood.normal, np)
            v, root = best(*around.given(), *theta)
            half = solve_triangular(root, G.T, lower=True, check_finite=False)
            at, S = G @ v, half.T @ half
            now = np.concatenate([at, np.sqrt(np.diag(S))]) / np.tile(scale, 2)
            before, moved = now, np.abs(now - before).max()
            if moved < TOLERANCE or np.isnan(moved):
                break
            # The sites of bounds are subtracted from the natural parameters of what G gives.
            tau = bounded / (V + variance)
            without = np.linalg.solve(np.eye(len(S)) - S * tau, S)
            at = at + without @ (tau * (at - mean))
            without = 0.5 * (without + without.T) + np.diag(V)
            mean, variance, log_factor = _shifted_sites(without, at, low, high, bounded)
        if not moved < LARGEST_MISS:
            return low, np.ones(len(low)), -np.inf
        return mean, variance, log_factor

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[1], shapes[1], ()]


def _shifted_sites(
    cov: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray, bounded: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sites of bounds of N(mean, cov); values, which that contains, are sites of their own."""
    own = np.flatnonzero(bounded)
    center, variance = low.copy(), np.zeros(len(low))
    known = cov[np.ix_(own, own)], np.zeros(0), low[own] - mean[own], high[own] - mean[own]
    found, variance[own], log_factor = interval_sites(*known)
    center[own] = found + mean[own]
    return center, variance, log_factor


def with_sites(
    rows: Rows,
    G: Any,
    mean: Any,
    variance: Any,
    normal: bool,
    xp: Any = pt,  # noqa: N803
) -> Rows:
    """Rows with constraints as further ones, of no group; `xp` is NumPy or PyTensor.

    Among rows of normal noise they have their variance as noise, and else as `WithSites` has it.
    """
    joined, none = xp.concatenate, xp.zeros_like(mean)
    return Rows(
        joined([rows.F, G]),
        None if rows.E is None else joined([rows.E, xp.zeros((G.shape[0], rows.E.shape[1]))]),
        joined([rows.rest, variance if normal else none]),
        joined([rows.y, mean]),
        joined([rows.exposure, -variance]),
        None if rows.codes is None else joined([rows.codes, none.astype(rows.codes.dtype)]),
    )


def constrained_rows(
    likelihood: ScalarLikelihood,
    rows: Rows,
    values: Sequence[Tensor],
    G: Tensor,
    V: Tensor,
    low: Tensor,
    high: Tensor,
) -> tuple[Rows, Tensor]:  # noqa: N803
    """Rows with the constraints' sites as further ones, and the log factor of these sites.

    `values` are hyperparameters of the likelihood; none for normal noise, which is in the rows.
    """
    op = ConstrainedSites(likelihood, rows.codes is not None)
    found: Any = op.make_node(G, V, low, high, *rows.given(), *values).outputs
    mean, variance, log_factor = found
    # Sites are what they are: where the density is differentiated, too.
    normal = likelihood.normal
    return with_sites(rows, G, mean, V + variance, normal), log_factor
