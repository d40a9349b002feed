"""Laplace's approximation to the marginal likelihood, with its gradient.

The mode of p(f | y) by damped Newton steps, and the log evidence of the normal approximation
there, with derivatives in the prior covariance and in the likelihood's hyperparameters that take
the mode's own move into account.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), algorithms 3.1 and 5.1;
Hartmann and Vanhatalo, "Laplace approximation and natural gradient for Gaussian process regression
with heteroscedastic Student-t model" (2019), for Fisher's information in place of a curvature
that may be negative.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.base import Exposure, Likelihood, ScalarLikelihood, Theta
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import LOCK, Copies, MadeAnew
from bayes_gpx.posteriors.evidence.factors import (
    factor,
    half,
    inverse,
    signed_factor,
    signed_solve,
    solve,
)
from bayes_gpx.system.digests import digest

STEPS, HALVINGS = 200, 30
"""At most so many Newton steps to the mode, each halved at most so many times."""

TOLERANCE = 1e-11
"""The mode is found when a step is smaller than this share of the latent values' size."""

LARGEST_MISS = 1e-5
"""A search has failed if it ends further from the mode than this share of f's size: by its last
full step, or by K times the slope of log p(y | f), which f equals at the mode. Under a wide prior K
magnifies the rounding of the slope, and the step is the better measure."""

NEAR = 1e-2
"""Once a step is smaller than this share of f's size, the next ones use the same Cholesky factor,
as long as each is at most a tenth of the last."""

NEAR_OF_OBSERVED = 0.3
"""Where the likelihood is not log-concave: once a step is smaller than this share of f's size, the
next ones use the observed information."""

LEAST_KNOWN = 1e-6
"""An observation that takes a smaller share of its variance away than this has that share from a
difference that rounding has eaten; a form without the difference is used there."""

FLAT = 1e-200
"""Information below which an observation is treated as if it said nothing about f."""

REMEMBERED = 2**25
"""Bytes of modes that are kept in one memory: explanations come back to their draws."""


class _Modes(dict[str, list[np.ndarray]]):
    """Modes of the last searches, of at most `REMEMBERED` bytes."""

    held = 0

    def keep(self, key: str, mode: list[np.ndarray]) -> None:
        """Keep a new mode, and forget the oldest ones."""
        with LOCK:
            if key not in self:
                self[key] = mode
                self.held += sum(part.nbytes for part in mode)
            while self.held > REMEMBERED:
                self.held -= sum(part.nbytes for part in self.pop(next(iter(self))))


@lru_cache(maxsize=4)
def _modes_of(likelihood: Likelihood) -> _Modes:
    """Modes that all operations of a likelihood share, whose searches always begin at 0.

    A mode then depends on its arguments alone, and leave-one-out terms take the fit's modes.
    """
    return _Modes()


@lru_cache(maxsize=64)
def _places(n: int) -> np.ndarray:
    """Random whole numbers, one for each column."""
    return np.random.default_rng(n).integers(2**63, size=n)


class Search:
    """The search for modes under one likelihood, with one search for each thread.

    It begins near the last mode of the thread's turn, which only saves time: a log-concave
    likelihood has one mode. For other likelihoods it begins at 0. `graph` and `climb` are like
    `local_graph` and `climb` below.
    """

    def __init__(self, likelihood: Likelihood, graph: Callable, climb: Callable) -> None:
        self.likelihood, self._graph, self._climb = likelihood, graph, climb
        self._modes = _Modes() if likelihood.concave else _modes_of(likelihood)
        self._copies: Copies | None = None

    @property
    def _own(self) -> Copies:
        # Threads that begin together have one object, or the last mode of one of them is lost.
        if self._copies is None:
            with LOCK:
                if self._copies is None:
                    self._copies = Copies(lambda: [self._compiled])
        return self._copies

    @property
    def local(self) -> Callable:
        """What `local_graph` computes, for the running thread."""
        return self._own.functions[0]

    @cached_property
    def _compiled(self) -> Any:
        options: dict[str, Any] = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
        return pytensor.function(*self._graph(self.likelihood), **options)

    def mode(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Mode f of the posterior, with alpha = K^-1 f; None where none is found.

        K (n, n), or a stack of such, and `rest` as `climb` takes it. Both are (n,), or (n, C) for
        classes.
        """
        # Sums of each row's numbers as integers tell covariances apart in their last bits, in a
        # tenth of the time of a digest of them all. Weights tell columns apart, since rows of
        # balanced features have the same numbers in other places.
        sums = np.einsum(
            "...j,j->...", np.ascontiguousarray(K).view(np.int64), _places(K.shape[-1])
        )
        which, concave = digest(sums, *rest), self.likelihood.concave
        last, begun = self._own.last or ("", None)
        if begun is None or len(begun) != K.shape[-1] or not concave:
            begun = np.zeros((K.shape[-1], *self.likelihood.class_shape))
        # Round-off of a mode depends on where the search began, so both are remembered together.
        key = last if last.startswith(which) else which + digest(begun)
        mode = self._modes.get(key)
        if mode is None:
            with np.errstate(all="ignore"):
                arrived, *mode = self._climb(self.local, K, rest, begun, concave)
            if not arrived:
                return None
            self._modes.keep(key, mode)
        self._own.last = key, mode[0]
        return [part.copy() for part in mode]


def local_graph(likelihood: ScalarLikelihood) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs f, y, exposure and hyperparameters, and outputs of what `climb` and `at_mode` ask.

    The log density of all observations; slopes, information and minus its derivatives in f; what
    Newton steps take for the information; the observed information, which says how the mode moves;
    and the f of the highest densities, near which a search begins, or infinity.
    """
    f, y, exposure = pt.dvector("f"), pt.dvector("y"), likelihood.exposures()
    theta = likelihood.symbols()
    logp = likelihood.logp(f, y, theta, exposure)
    slope, curvature, third = likelihood.derivatives(f, y, theta, exposure)
    W, steps, observed = -curvature, -curvature, -curvature
    if not likelihood.concave:
        W, rise = likelihood.laplace_information(f, y, theta, exposure)
        steps, third = likelihood.steps(f, y, theta, exposure), -rise
    highest = pt.zeros_like(f) + likelihood.highest(f, y, theta, exposure)
    outputs = [logp.sum(), slope, W, third, steps, observed, highest]
    return [f, y, exposure, *theta.values()], outputs


def climb(
    local: Callable, K: np.ndarray, rest: Sequence[np.ndarray], begun: np.ndarray, concave: bool
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Search for the mode of p(f | y) by damped Newton steps; numba can compile this function.

    It duplicates `newton.ascend`, because numba takes minutes if steps are passed as functions.
    `local` is a `local_graph` with arguments f and `rest`, and K (n, n) the prior covariance of f.
    The search begins a step from `begun`, the mode of some other K, or from where densities are
    highest; or at 0, where neither is better. Returns whether it converged, the mode f, and alpha =
    K^-1 f.
    """
    n = len(K)
    f, alpha = np.zeros(n), np.zeros(n)
    logp, slope, _, _, W, observed, highest = local(f, *rest)
    lowest = height = logp.item()
    for near_mode in (begun, highest):
        if height > lowest or not (np.all(np.isfinite(near_mode)) and np.any(near_mode != 0.0)):
            continue
        # Where Newton's step arrives depends on f alone, and not on K^-1 f, which another K changes
        # more.
        _, slope_there, _, _, W_there, _, _ = local(near_mode, *rest)
        root_W = np.sqrt(np.maximum(W_there, FLAT))
        there, upper = factor(K, root_W)
        if not there:
            continue
        aim = root_W**2 * near_mode + slope_there
        tried_alpha = aim - root_W * solve(upper, root_W * (K @ aim))
        tried = K @ tried_alpha
        logp, slope_there, _, _, W_there, observed_there, _ = local(tried, *rest)
        higher = logp.item() - 0.5 * (tried_alpha @ tried)
        if higher > height:
            f, alpha, height, slope, W = tried, tried_alpha, higher, slope_there, W_there
            observed = observed_there
    if not np.isfinite(height):
        return False, f, alpha
    moved, missed, reused, near = np.inf, np.inf, False, False
    root_W, upper = np.zeros(n), np.zeros((1, 1))
    below, sd, inner = np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0))
    for _ in range(STEPS):
        gap = slope - alpha
        way, along, share = gap, gap, 1.0
        if near and not reused:
            # The observed information, of either sign, leads to the mode in fewer steps; where the
            # posterior does not curve down it leads to a saddle point.
            near, root_W, upper, below, sd, inner = signed_factor(K, observed)
        if near:
            way = signed_solve(K, root_W, upper, below, sd, inner, gap)
            along = K @ way
            near = gap @ along > 0.0
        if not near:
            if not (reused and concave):
                root_W = np.sqrt(np.maximum(W, FLAT))
                there, upper = factor(K, root_W)
                if not there:
                    return False, f, alpha
            way = gap - root_W * solve(upper, root_W * (K @ gap))
            along = K @ way
        missed = np.abs(along).max()
        for _ in range(HALVINGS):
            alpha_there, f_there = alpha + share * way, f + share * along
            logp, slope_there, _, _, W_there, observed_there, _ = local(f_there, *rest)
            higher = logp.item() - 0.5 * (alpha_there @ f_there)
            if higher >= height - 1e-12 * (1.0 + abs(height)):
                break
            share *= 0.5
        else:
            break
        before, moved = moved, np.abs(f_there - f).max()
        alpha, f, slope, W, height = alpha_there, f_there, slope_there, W_there, higher
        observed = observed_there
        size = 1.0 + np.abs(f).max()
        if moved <= TOLERANCE * size:
            break
        reused = (concave or near) and share == 1.0 and moved < min(NEAR * size, 0.1 * before)
        near = not concave and share == 1.0 and moved < NEAR_OF_OBSERVED * size
    missed = min(missed, np.abs(f - K @ slope).max())
    return missed <= LARGEST_MISS * (1.0 + np.abs(f).max()), f, alpha


def at_mode(
    local: Callable,
    K: np.ndarray,
    rest: Sequence[np.ndarray],
    f: np.ndarray,
    alpha: np.ndarray,
    concave: bool,
) -> tuple[np.ndarray, ...]:
    """What `LaplaceEvidence` returns, at the mode f (n,), with alpha = K^-1 f (n,), K (n, n)."""
    n = len(K)
    logp, _, W, third, _, observed, _ = local(f, *rest)
    W = np.maximum(W, FLAT)
    root_W = np.sqrt(W)
    there, upper = factor(K, root_W)
    if not there:
        return nothing(n)
    log_root = np.log(np.diag(upper)).sum()
    R, left = inverse(upper)
    known = 1.0 - left
    variance, clear = known / W, known >= LEAST_KNOWN
    small = np.flatnonzero(~clear)
    if len(small) > 0:
        there, upper = factor(K, root_W)
        variance[small] = np.diag(K)[small] - (half(upper, K[small] * root_W) ** 2).sum(axis=1)
    R *= root_W
    R *= root_W.reshape((n, 1))
    pull = 0.5 * variance * third
    # These forms of (I + W K)^-1 pull, and of K times it, have no large terms that cancel where the
    # prior is wide. Rows that say nearly nothing need the others.
    beyond = np.where(clear, 0.0, pull)
    moved = R @ np.where(clear, pull / W, 0.0) + beyond
    along = np.where(clear, (pull - moved) / W, 0.0)
    if len(small) > 0:
        moved -= R @ (K @ beyond)
        along = np.where(clear, along, K @ moved)
    if not concave and np.any(pull != 0.0):
        # The mode moves by the observed information, which W is not; by W where the search ended at
        # no maximum.
        there, root, upper, below, sd, inner = signed_factor(K, observed)
        if there and np.all(observed > FLAT):
            moved = root * solve(upper, pull / root)
        elif there:
            moved = signed_solve(K, root, upper, below, sd, inner, pull)
        along = K @ moved
    u = 0.25 * alpha + 0.5 * moved
    R *= -0.5
    R += u * alpha.reshape((n, 1))
    R += alpha * u.reshape((n, 1))
    evidence = logp.item() - 0.5 * (alpha @ f) - log_root
    return np.asarray(evidence), R, f, alpha, W, variance, along, left


def nothing(n: int) -> tuple[np.ndarray, ...]:
    """What `LaplaceEvidence` returns where there is no mode."""
    empty = np.zeros(n)
    return np.asarray(-np.inf), np.zeros((n, n)), empty, empty, empty, empty, empty, empty


class FindsMode(MadeAnew, Op):
    """(K, y, ...) -> results at the mode.

    The likelihood is elementwise, unless `graph` and `climb` are others.
    """

    __props__ = ("likelihood",)
    outputs: tuple
    alone: ClassVar[type | None] = None
    """Another operation with the same first output, where that is cheaper alone."""
    graph: Callable = staticmethod(local_graph)
    climb: Callable = staticmethod(climb)

    def __init__(self, likelihood: Any) -> None:
        self.likelihood = likelihood
        self._search = Search(likelihood, self.graph, self.climb)

    def make_node(self, K: Any, *rest: Any) -> Apply:  # noqa: D102
        inputs = [pt.as_tensor_variable(v) for v in (K, *rest)]
        return Apply(self, inputs, [kind() for kind in self.outputs])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        K, *rest = inputs
        K, rest = np.ascontiguousarray(K), [np.asarray(v, "float64") for v in rest]
        for storage, value in zip(output_storage, self.found(K, rest), strict=True):
            storage[0] = np.asarray(value)

    @abstractmethod
    def found(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> Sequence:
        """Outputs in numbers."""

    def refuse_others(self, cotangents: Sequence) -> None:
        """Raise where a gradient of anything but the first output is asked for."""
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:]):
            raise NotImplementedError(
                "Of Laplace's approximation only the log evidence is differentiable, not the mode "
                "or the posterior. Explain after fitting, or draw latent values in the model."
            )


class LaplaceMode(FindsMode):
    """K^-1 f, which is the slope of log p(y | f), and the information, at the mode; else NaN."""

    outputs = (pt.dvector, pt.dvector)

    def found(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> Sequence[np.ndarray]:  # noqa: D102
        mode = self._search.mode(K, rest)
        if mode is None:
            return [*np.full((2, len(K)), np.nan)]
        W = self._search.local(mode[0], *rest)[2]
        return mode[1], np.maximum(W, FLAT)

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[1]] * 2


class LaplaceHeight(FindsMode):
    """The first output of `LaplaceEvidence` alone, with the same inputs."""

    outputs = (pt.dscalar,)

    def found(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> Sequence[Any]:  # noqa: D102
        mode = self._search.mode(K, rest)
        if mode is None:
            return [-np.inf]
        f, alpha = mode
        logp, _, W, *_ = self._search.local(f, *rest)
        there, upper = factor(K, np.sqrt(np.maximum(W, FLAT)))
        if not there:
            return [-np.inf]
        return [logp.item() - 0.5 * (alpha @ f) - np.log(np.diag(upper)).sum()]

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [()]


class LaplaceEvidence(FindsMode):
    """(K, y, exposure, *hyperparameters) -> log marginal likelihood, and parts of its gradient.

    K (n, n) is the prior covariance of the latent values f at the observations. The other outputs
    are its derivative in K; the mode f; alpha = K^-1 f; W, the information there; the posterior
    variances of f; the derivative of the log marginal likelihood through the mode; and the
    proportion of each prior variance left by the other observations, 1 - W variance, (n,) each.
    Without a mode the first output is -inf and the gradient zero. Only the first output is
    differentiable. The likelihood is elementwise.
    """

    outputs = (pt.dscalar, pt.dmatrix, *[pt.dvector] * 6)
    alone = LaplaceHeight

    def found(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> Sequence[np.ndarray]:  # noqa: D102
        mode = self._search.mode(K, rest)
        if mode is None:
            return nothing(len(K))
        f, alpha = mode
        with np.errstate(all="ignore"):
            return at_mode(self._search.local, K, rest, f, alpha, self.likelihood.concave)

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        self.refuse_others(cotangents)
        weight, (_, y, exposure, *hyperparameters) = cotangents[0], inputs
        unknown = [DisconnectedType()() for _ in (y, exposure)]
        if not hyperparameters:
            return [weight * outputs[1], *unknown]
        f, variance, pull = outputs[2], outputs[5], outputs[6]
        theta = self.likelihood.symbols()
        own = [*theta.values()]
        slope, curvature, _ = self.likelihood.derivatives(f, y, theta, exposure)
        if not self.likelihood.concave:
            curvature = -self.likelihood.laplace_information(f, y, theta, exposure)[0]
        local = (
            self.likelihood.logp(f, y, theta, exposure) + pull * slope + 0.5 * variance * curvature
        )
        slopes: Any = pt.grad(local.sum(), own, consider_constant=[f, variance, pull])
        given: Any = dict(zip(own, hyperparameters, strict=True))
        slopes = clone_replace(slopes, given)
        return [weight * outputs[1], *unknown, *(weight * s for s in slopes)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        connected = [True, False, False, *[True] * (len(node.inputs) - 3)]
        return [[own] * len(node.outputs) for own in connected]

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [(), shapes[0], *[shapes[1]] * 6]


class AtMode(NamedTuple):
    """What Laplace's approximation finds: log evidence, and vectors (n,) at the mode f."""

    logp: Tensor
    f: Tensor
    alpha: Tensor
    W: Tensor
    variance: Tensor
    left: Tensor


def laplace_sites(
    likelihood: ScalarLikelihood, K: Tensor, y: Tensor, theta: Theta, exposure: Exposure
) -> AtMode:
    """Laplace's approximation for symbolic arguments, as `AtMode`.

    `theta` contains the likelihood's hyperparameters, and perhaps others. Only the log marginal
    likelihood is differentiable.
    """
    own = [theta[name] for name in likelihood.hyperparameters]
    found: Any = LaplaceEvidence(likelihood)(K, y, exposure, *own)
    logp, _, f, alpha, W, variance, _, left = found
    return AtMode(logp, f, alpha, W, variance, left)


def laplace_mode(
    likelihood: ScalarLikelihood, K: Tensor, y: Tensor, theta: Theta, exposure: Exposure
) -> list[Tensor]:
    """Alpha and W (n,) at the mode; no gradient."""
    own = [theta[name] for name in likelihood.hyperparameters]
    found: Any = LaplaceMode(likelihood)(K, y, exposure, *own)
    return found


def laplace_evidence(
    likelihood: ScalarLikelihood, K: Tensor, y: Tensor, theta: Theta, exposure: Exposure
) -> tuple[Tensor, Tensor, Tensor]:
    """Log evidence, a scalar graph, with alpha and W (n,) at the mode; see `laplace_sites`."""
    found = laplace_sites(likelihood, K, y, theta, exposure)
    return found.logp, found.alpha, found.W
