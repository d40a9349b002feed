"""Laplace's approximation for independent processes that the data couple, one kernel for each.

Process c has the prior covariance K_c (n, n). Fisher's information is diagonal, W_c in each row, so
the posteriors of the processes are independent given hyperparameters, each through C_c = (K_c +
W_c^-1)^-1. The mode f of the joint log density couples them: with the observed information H, the
negative Hessian of log p(y | f), Newton's steps solve (K^-1 + H) v = gap by conjugate gradients
that are preconditioned by K^-1 + W. Where the curvature is not positive, the step is Fisher's. The
log evidence is

    log p(y | f) - f' K^-1 f / 2 - sum_c log det(I + W_c^1/2 K_c W_c^1/2) / 2

and the mode moves with K_c by (K^-1 + H)^-1 K^-1 dK K^-1 f.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.rows import Censored, unweighted, weighed
from bayes_gpx.posteriors.evidence.factors import factor, half, inverse, solve
from bayes_gpx.posteriors.evidence.laplace import FLAT, LARGEST_MISS, LEAST_KNOWN
from bayes_gpx.posteriors.evidence.newton import ascend
from bayes_gpx.posteriors.evidence.softmax import EvidenceOfClasses, FindsModeOfClasses

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.heteroscedastic import HeteroscedasticNormal

ROUGH, FINE, EXACT = 0.3, 1e-6, 1e-11
"""Residuals of the first and the last steps towards the mode, and at the mode, as a share of the
right-hand side. In between, a residual is as small as the last step was."""

CLOSE = 1e-7
"""The mode is found when a step is smaller than this share of f's size: steps converge about
quadratically, so the distance that is left is about the square."""

CHANGED = 8.0
"""The preconditioner stays while no information is this many times what it was then, or this part
of it: the number of iterations grows with the root of that."""

ITERATIONS = 300
"""Most iterations of conjugate gradients."""


def local_graph(likelihood: HeteroscedasticNormal) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs f, y and weights; outputs are those of `_State`, and units of f.

    There are weights as of `bayes_gpx.posteriors.evidence.softmax.local_graph`.
    """
    of, weighted = unweighted(likelihood)
    f, y, w = pt.dmatrix("f"), pt.dvector("y"), pt.dvector("weights")
    fisher = pt.diagonal(of.fisher(f), axis1=-2, axis2=-1)
    outputs = [of.logp(f, y), *of.derivatives(f, y), fisher]
    logp, *others = weighed(w, outputs) if weighted else outputs
    units = pt.constant(of.prior_sds[0])
    return [f, y, *[w] * weighted], [logp.sum(), *others, units]


class _State(NamedTuple):
    """Latent values f, and quantities that follow from them."""

    height: float
    apart: float
    f: np.ndarray  # (n, C)
    alpha: np.ndarray  # (n, C), K^-1 f
    logp: np.ndarray
    slope: np.ndarray  # (n, C), of log p(y | f)
    observed: np.ndarray  # (n, C, C), minus its second derivatives
    W: np.ndarray  # (n, C), Fisher's information


class _Given(NamedTuple):
    K: np.ndarray  # (C, n, n)
    rows: Sequence[np.ndarray]  # y and, if there are any, weights
    local: Callable  # `local_graph`
    last: list[Fisher]  # empty, or the last preconditioner


def _times(K: Sequence[np.ndarray] | np.ndarray, v: np.ndarray) -> np.ndarray:
    """K_c times each column of v (n, C)."""
    return np.stack([own @ v[:, c] for c, own in enumerate(K)], axis=1)


class Factor:
    """B = I + W^1/2 K W^1/2 of one process, factorized, and inverted if it serves often."""

    def __init__(self, K: np.ndarray, root: np.ndarray) -> None:
        self.K, self.root, self.left = K, np.ascontiguousarray(root), np.zeros(0)
        self.inverse: np.ndarray | None = None
        there, self.upper = factor(K, self.root)
        if not there:
            raise np.linalg.LinAlgError

    def invert(self) -> None:
        """Keep B^-1, and its diagonal as the proportion of variance that other rows leave."""
        if self.inverse is None:
            self.inverse, self.left = inverse(self.upper.copy())

    def solved(self, v: np.ndarray) -> np.ndarray:
        """B^-1 v, (n,)."""
        return solve(self.upper, v.copy()) if self.inverse is None else self.inverse @ v

    def variances(self) -> np.ndarray:
        """Posterior variances (n,)."""
        known = 1.0 - self.left
        found, small = known / self.root**2, np.flatnonzero(known < LEAST_KNOWN)
        rows = half(self.upper, self.K[small] * self.root)
        found[small] = np.diag(self.K)[small] - (rows**2).sum(axis=1)
        return found


class Fisher:
    """K^-1 + W; processes with the information of the `last` one keep its factors."""

    def __init__(self, K: np.ndarray, W: np.ndarray, last: Sequence[Fisher] = ()) -> None:
        self.K, self.W = K, np.maximum(W, FLAT)
        self.roots, self.factors = np.sqrt(self.W), list[Factor]()
        for c, own in enumerate(K):
            if last and (last[0].W[:, c] == self.W[:, c]).all():
                self.factors.append(last[0].factors[c])
                self.factors[c].invert()
            else:
                self.factors.append(Factor(own, self.roots[:, c]))

    @property
    def log_roots(self) -> float:
        """Half the log determinants of B, summed."""
        return sum(np.log(np.diag(one.upper)).sum() for one in self.factors)

    def differs(self, W: np.ndarray) -> bool:
        """Whether some information W (n, C) is far from this one."""
        ratio = np.maximum(W, FLAT) / self.W
        return not (ratio.max() < CHANGED and ratio.min() > 1.0 / CHANGED)

    def solved(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return x = (K^-1 + W)^-1 v (n, C), and K^-1 x."""
        # With b = B^-1 W^1/2 K v, x is W^-1/2 b.
        moved = self.roots * _times(self.K, v)
        b = np.stack([one.solved(moved[:, c]) for c, one in enumerate(self.factors)], axis=1)
        return b / self.roots, v - self.roots * b

    def conjugate(
        self, observed: np.ndarray, target: np.ndarray, share: float
    ) -> tuple[bool, np.ndarray, np.ndarray]:
        """Find x = (K^-1 + H)^-1 target by conjugate gradients, and K^-1 x.

        The first value is whether the residual fell to a share. If H leaves a negative curvature,
        x is the last one before it, and Fisher's step before the first.
        """
        missing = target.copy()
        z, above = self.solved(missing)
        x, of_x = np.zeros_like(z), np.zeros_like(z)
        way, of_way = z, above
        size = first = (missing * z).sum()
        for k in range(ITERATIONS):
            if not size > share**2 * first:
                return True, x, of_x
            along = of_way + np.einsum("ncj,nj->nc", observed, way)
            curvature = (way * along).sum()
            if not curvature > 0.0:
                return False, *((way, of_way) if k == 0 else (x, of_x))
            step = size / curvature
            x, of_x, missing = x + step * way, of_x + step * of_way, missing - step * along
            z, above = self.solved(missing)
            before, size = size, (missing * z).sum()
            way, of_way = z + (size / before) * way, above + (size / before) * of_way
        return False, x, of_x


_KEPT = threading.local()
"""K, and the last preconditioner of the search for its mode, which `at_mode` goes on with."""


def _kept(K: np.ndarray) -> Sequence[Fisher]:
    of, last = getattr(_KEPT, "last", (None, []))
    _KEPT.last = None, []
    return last if of is K else []


def climb(
    local: Callable, K: np.ndarray, rest: Sequence[np.ndarray], begun: np.ndarray, concave: bool
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Search for the mode of p(f | y) from f = 0; results as of `softmax.climb`."""
    given = _Given(K, rest, local, [])
    state = _at(np.zeros_like(begun), np.zeros_like(begun), given)
    if not np.isfinite(state.height):
        return False, state.f, state.alpha
    arrived, state = ascend(state, _direction, _step, given, CLOSE)
    _KEPT.last = K, given.last
    near = _apart(state.f, _times(K, state.slope), local(state.f, *rest)[-1]) <= LARGEST_MISS
    return arrived and near, state.f, state.alpha


def _apart(f: np.ndarray, other: np.ndarray | float, units: np.ndarray) -> float:
    """Largest difference of two latent values, as a share of the size of their process."""
    return (np.abs(f - other).max(axis=0) / (units + np.abs(f).max(axis=0))).max()


def _at(
    alpha: np.ndarray, f: np.ndarray, given: _Given, before: np.ndarray | float = np.inf
) -> _State:
    logp, slope, observed, W, units = given.local(f, *given.rows)
    height = logp - 0.5 * (alpha * f).sum()
    return _State(height, _apart(f, before, units), f, alpha, logp, slope, observed, W)


def _direction(state: _State, given: _Given) -> tuple[bool, tuple[np.ndarray, np.ndarray]]:
    """Newton's step of alpha and f, (n, C) each; see `ascend`."""
    gap = state.slope - state.alpha
    if not given.last or given.last[0].differs(state.W):
        try:
            given.last[:] = [Fisher(given.K, state.W, given.last)]
        except np.linalg.LinAlgError:
            return False, (gap, gap)
    share = min(max(state.apart, FINE), ROUGH)
    _, _, above = given.last[0].conjugate(state.observed, gap, share)
    return True, (above, _times(given.K, above))


def _step(
    state: _State, way: tuple[np.ndarray, np.ndarray], share: float, given: _Given
) -> tuple[bool, _State]:
    """The state a share of a direction further."""
    found = _at(state.alpha + share * way[0], state.f + share * way[1], given, state.f)
    return bool(np.isfinite(found.height)), found


class _OfProcesses(FindsModeOfClasses):
    """(K, y) -> results at the mode; K (C, n, n)."""

    graph, climb = staticmethod(local_graph), staticmethod(climb)


class ProcessesMode(_OfProcesses):
    """(K, y) -> log marginal likelihood, alpha (n, C) and W (n, C) at the mode; no gradient.

    Alpha is the slope of log p(y | f), where f is K alpha. Without a mode the first output is -inf.
    """

    outputs = (pt.dscalar, pt.dmatrix, pt.dmatrix)

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        logp, slope, _, W, _ = self._search.local(f, *rest)
        fisher = Fisher(K, W, _kept(K))
        return logp - 0.5 * (alpha * f).sum() - fisher.log_roots, slope, fisher.W

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        C, n = shapes[0][:2]
        return [(), (n, C), (n, C)]


class ProcessesEvidence(_OfProcesses, EvidenceOfClasses):
    """(K, y) -> log marginal likelihood, and the parts of its gradient.

    The other outputs are its derivative in K; the mode f; alpha, the slope of log p(y | f) there;
    Fisher's information W there; the posterior variances of f; and the proportion of each prior
    variance left by the other observations, 1 - W variance, (n, C) each. Without a mode the first
    output is -inf and the gradient zero. Only the first output is differentiable.
    """

    outputs = (pt.dscalar, pt.dtensor3, *[pt.dmatrix] * 5)
    alone = ProcessesMode

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        logp, slope, observed, W, _ = self._search.local(f, *rest)
        fisher = Fisher(K, W, _kept(K))
        evidence = logp - 0.5 * (alpha * f).sum() - fisher.log_roots
        for one in fisher.factors:
            one.invert()
        variance = np.stack([one.variances() for one in fisher.factors], axis=1)
        left = np.stack([one.left for one in fisher.factors], axis=1)
        M = variance[:, :, None] * np.eye(f.shape[1])
        target = -0.5 * self.contracted(f, M)
        if len(rest) > 1:
            target *= rest[1][:, None]
        found, _, pull = fisher.conjugate(observed, target, EXACT)
        if not found:
            raise np.linalg.LinAlgError
        in_K = np.empty_like(K)
        for c, one in enumerate(fisher.factors):
            half_slope = np.outer(0.25 * alpha[:, c] + 0.5 * pull[:, c], alpha[:, c])
            np.multiply(cast(np.ndarray, one.inverse), -0.5 * one.root, out=in_K[c])
            in_K[c] *= one.root[:, None]
            in_K[c] += half_slope
            in_K[c] += half_slope.T
        return evidence, in_K, f, slope, fisher.W, variance, left

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        C, n = shapes[0][:2]
        return [(), shapes[0], *[(n, C)] * 5]


def processes_laplace(likelihood: Any, K: Tensor, *rows: Tensor) -> list[Tensor]:
    """Log evidence, f, alpha, W, variance and left, see `ProcessesEvidence`."""
    _refuse_bounds(likelihood)
    found: Any = ProcessesEvidence(likelihood)(K, *rows)
    logp, _, *others = found
    return [logp, *others]


def processes_mode(likelihood: Any, K: Tensor, *rows: Tensor) -> list[Tensor]:
    """Log evidence, alpha and W for symbolic arguments, see `ProcessesMode`; no gradient."""
    _refuse_bounds(likelihood)
    found: Any = ProcessesMode(likelihood)(K, *rows)
    return found


def _refuse_bounds(likelihood: Any) -> None:
    if isinstance(unweighted(likelihood)[0], Censored):
        raise ValueError(
            "censoring was given with a mean and a noise process, of which Laplace's approximation "
            "takes no bounds of y. Pass approximation=bx.Inducing(m) to the model, with m as many "
            "as rows if there are few, or fit by method='nuts' with latent='sample'."
        )
