"""Laplace's approximation for several classes with latent values coupled by the data.

C independent processes have one prior covariance K (n, n) each, and a softmax. The information W at
the mode is diag(p) - p p' in each row with probabilities p. With D_c the diagonal matrix of the
probabilities of one class,

    E_c = D_c^1/2 (I + D_c^1/2 K D_c^1/2)^-1 D_c^1/2          S = sum_c E_c

the posterior is the prior conditioned through a matrix C with the blocks

    C_cc' = [c = c'] E_c - E_c S^-1 E_c'

The determinant of I + K W is the product of the determinants of I + D_c^1/2 K D_c^1/2 and of S.
Time grows with C n^3 and memory with C n^2. Newton steps to the mode use conjugate gradients, with
C n^2 operations for each iteration.

References
----------
Williams and Barber, "Bayesian classification with Gaussian processes" (1998); Rasmussen and
Williams, "Gaussian Processes for Machine Learning" (2006), algorithm 3.3 and section 5.5.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.tensor import TensorVariable

from bayes_gpx.aliases import Tensor
from bayes_gpx.likelihoods.rows import unweighted, weighed
from bayes_gpx.numerics.threads import ThreadedFunction
from bayes_gpx.posteriors.evidence.factors import factor, half, inverse
from bayes_gpx.posteriors.evidence.laplace import FLAT, LARGEST_MISS, TOLERANCE, FindsMode
from bayes_gpx.posteriors.evidence.newton import ascend

if TYPE_CHECKING:
    from bayes_gpx.likelihoods.classification import Categorical

SOLVED, ITERATIONS = 1e-4, 1000
"""Residual of a Newton step, as a share of its right-hand side, and most iterations to reach it."""

LEAST_PROBABLE = 1e-8
"""Probability below which a row's posterior variance is not divided by it, for rounding's sake."""


def spread[Array: (TensorVariable, np.ndarray)](p: Array, v: Array) -> Array:
    """A v, where A A' is the information of each row, w (diag(q) - q q'): p = w q and v are (n, C).

    q are probabilities and w the row's weight, the sum of p.
    """
    own = p**0.5 * v
    return own - p / p.sum(axis=1, keepdims=True) * own.sum(axis=1, keepdims=True)


def gathered[Array: (TensorVariable, np.ndarray)](p: Array, v: Array) -> Array:
    """A' v, see `spread`."""
    return p**0.5 * (v - (p * v).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True))


class _State(NamedTuple):
    """Latent values f, and quantities that follow from them."""

    height: float
    apart: float
    f: np.ndarray  # (n, C)
    alpha: np.ndarray  # (n, C), K^-1 f
    logp: np.ndarray  # log p(y | f), a scalar
    slope: np.ndarray  # (n, C), its slope
    p: np.ndarray  # (n, C), probabilities times the row's weight


type _Given = tuple[Any, Sequence[np.ndarray], Callable]
"""K or an equivalent; codes and, if rows have them, weights; `local_graph`."""


def local_graph(likelihood: Categorical) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs f, y and weights; log density of all labels, its slope in f, and probabilities.

    There are weights if the likelihood is `Weighted`, and they multiply the outputs.
    """
    of, weighted = unweighted(likelihood)
    f, y, w = pt.dmatrix("f"), pt.dvector("y"), pt.dvector("weights")
    outputs = of.logp(f, y), of.derivatives(f, y)[0], of.response(f).value
    logp, slope, p = weighed(w, outputs) if weighted else outputs
    return [f, y, *[w] * weighted], [logp.sum(), slope, p]


def climb(
    local: Callable, K: Any, rest: Sequence[np.ndarray], begun: np.ndarray, concave: bool
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Search for the mode of p(f | y) as `bayes_gpx.posteriors.evidence.laplace.climb` does."""
    given = K, rest, local
    state = _at(np.zeros_like(begun), np.zeros_like(begun), given)
    if begun.any():
        alpha = local(begun, *rest)[1]  # K^-1 f at the mode f of another K
        state = max(state, _at(alpha, K @ alpha, given), key=lambda one: one.height)
    arrived, state = ascend(state, _direction, _step, given, TOLERANCE)
    least = LARGEST_MISS * (1.0 + np.abs(state.f).max())
    near = bool(np.abs(state.f - K @ state.slope).max() <= least)
    if near or not arrived or not isinstance(K, np.ndarray):
        return near and arrived, state.f, state.alpha
    # Under a wide prior K magnifies what conjugate gradients leave, and the rounding of the slope.
    try:
        _, state = ascend(state, _exact_direction, _step, given, TOLERANCE)
        missed = np.abs(_exact_direction(state, given)[1][1]).max()
    except np.linalg.LinAlgError:
        missed = np.inf
    return bool(missed <= least), state.f, state.alpha


def _at(
    alpha: np.ndarray, f: np.ndarray, given: _Given, before: np.ndarray | float = np.inf
) -> _State:
    _, rows, local = given
    logp, slope, p = local(f, *rows)
    apart = np.abs(f - before).max() / (1.0 + np.abs(f).max())
    return _State(logp - 0.5 * (alpha * f).sum(), apart, f, alpha, logp, slope, p)


def _direction(state: _State, given: _Given) -> tuple[bool, tuple[np.ndarray, np.ndarray]]:
    """Newton's step of alpha and f, (n, C) each; see `ascend`."""
    K, gap = given[0], state.slope - state.alpha
    way = gap - spread(state.p, _solved(K, state.p, gathered(state.p, K @ gap)))
    return True, (way, K @ way)


def _exact_direction(state: _State, given: _Given) -> tuple[bool, tuple[np.ndarray, np.ndarray]]:
    """As `_direction`, by Cholesky factors."""
    K, gap = given[0], state.slope - state.alpha
    sds = np.sqrt(np.maximum(state.p, FLAT))
    E = [_inverted(_factor(K, sd), sd) for sd in sds.T]
    pulled = np.stack([own @ (K @ gap[:, c]) for c, own in enumerate(E)], axis=1)
    shared = np.linalg.solve(sum(E), pulled.sum(axis=1))
    way = gap - pulled + np.stack([own @ shared for own in E], axis=1)
    return True, (way, K @ way)


def _step(
    state: _State, way: tuple[np.ndarray, np.ndarray], share: float, given: _Given
) -> tuple[bool, _State]:
    """The state a share of a direction further."""
    alpha, f = state.alpha + share * way[0], state.f + share * way[1]
    return True, _at(alpha, f, given, state.f)


def _solved(K: Any, p: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(I + A' K A)^-1 target (n, C) by conjugate gradients, near enough for an ascent."""
    x, missing, way = np.zeros_like(target), target.copy(), target.copy()
    size = first = (missing**2).sum()
    for _ in range(ITERATIONS):
        if not size > SOLVED**2 * first:
            break
        along = way + gathered(p, K @ spread(p, way))
        share = size / (way * along).sum()
        x += share * way
        missing -= share * along
        before, size = size, (missing**2).sum()
        way = missing + (size / before) * way
    return x


class FindsModeOfClasses(FindsMode):
    """(K, ..., y[, weights]) -> results at the mode; y (n,) are codes."""

    interpreted = True
    graph: Callable = staticmethod(local_graph)
    climb: Callable = staticmethod(climb)

    @abstractmethod
    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:
        """Outputs in numbers, at the mode f (n, C) with alpha (n, C)."""

    @abstractmethod
    def infer_shape(self, node: Apply | None, shapes: Sequence[tuple]) -> list[tuple]:
        """Shapes of the outputs."""

    def found(self, K: np.ndarray, rest: Sequence[np.ndarray]) -> tuple:  # noqa: D102
        with np.errstate(all="ignore"):
            mode = self._search.mode(K, rest)
            if mode is not None:
                try:
                    return self.at_mode(K, rest, *mode)
                except np.linalg.LinAlgError:
                    pass
        shapes = self.infer_shape(None, [K.shape, *(v.shape for v in rest)])
        return -np.inf, *(np.zeros(shape) for shape in shapes[1:])

    @cached_property
    def _contraction(self) -> ThreadedFunction:
        f, M = pt.dmatrix("f"), pt.dtensor3("M")
        return ThreadedFunction([f, M], self.likelihood.contracted(f, M), trust_input=True)

    def contracted(self, f: np.ndarray, M: np.ndarray) -> np.ndarray:
        """The likelihood's `contracted` in numbers: f (n, C) and M (n, C, C) to (n, C)."""
        return self._contraction(f, M)


class EvidenceOfClasses(FindsModeOfClasses):
    """The first output has derivatives in the first inputs: the outputs after it."""

    slopes = 1

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        self.refuse_others(cotangents)
        slopes = [cotangents[0] * own for own in outputs[1 : self.slopes + 1]]
        return [*slopes, *(DisconnectedType()() for _ in inputs[self.slopes :])]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        return [[k < self.slopes] * len(node.outputs) for k in range(len(node.inputs))]


class SoftmaxMode(FindsModeOfClasses):
    """(K, y) -> log marginal likelihood, and a summary of the data; no gradient.

    The other outputs are alpha (n, C), with f = K alpha the mode; and roots (C + 1, n, n), lower
    triangular: of K + D_c^-1, which is E_c^-1, for each class, and of S. Without a mode the first
    output is -inf.
    """

    outputs = (pt.dscalar, pt.dmatrix, pt.dtensor3)

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        logp, _, p = self._search.local(f, *rest)
        root, S, logs = np.empty((f.shape[1] + 1, *K.shape)), np.zeros(K.shape), 0.0
        for c, sd in enumerate(np.sqrt(np.maximum(p, FLAT)).T):
            upper = _factor(K, sd)
            logs += np.log(np.diag(upper)).sum()
            root[c] = np.tril(upper.T) / sd[:, None]
            S += _inverted(upper, sd)
        root[-1] = np.linalg.cholesky(S)
        logs += np.log(np.diag(root[-1])).sum() - 0.5 * np.log(p.sum(axis=1)).sum()
        return logp - 0.5 * (alpha * f).sum() - logs, alpha, root

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        n, C = shapes[0][0], self.likelihood.classes
        return [(), (n, C), (C + 1, n, n)]


class SoftmaxEvidence(EvidenceOfClasses):
    """(K, y) -> log marginal likelihood, and the parts of its gradient.

    The other outputs are its derivative in K; alpha (n, C), with f = K alpha the mode; and the
    posterior covariances of each row's latent values (n, C, C). Without a mode the first output is
    -inf and the gradient zero. Only the first output is differentiable.
    """

    outputs = (pt.dscalar, pt.dmatrix, pt.dmatrix, pt.dtensor3)
    alone = SoftmaxMode

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        logp, _, p = self._search.local(f, *rest)
        blocks, logs = np.empty((f.shape[1], *K.shape)), 0.0
        for c, sd in enumerate(np.sqrt(np.maximum(p, FLAT)).T):
            upper = _factor(K, sd)
            logs += np.log(np.diag(upper)).sum()
            blocks[c] = _inverted(upper, sd)
        S = blocks.sum(axis=0)
        M = np.linalg.cholesky(S)
        logs += np.log(np.diag(M)).sum() - 0.5 * np.log(p.sum(axis=1)).sum()
        back, alone, taken = _seen(K, p, blocks, M)
        between = np.matmul(blocks.transpose(1, 0, 2), blocks.transpose(1, 2, 0))
        covariance = between + alone[:, :, None] * np.eye(p.shape[1])
        pull = -0.5 * self.contracted(f, covariance) * p.sum(axis=1, keepdims=True)
        within = np.einsum("cij,ic->cj", blocks, pull)
        through = within.sum(axis=0)
        through = p * ((back @ through)[:, None] - np.einsum("cij,j->ic", blocks, through))
        moved = pull - M @ within.T + through  # pull - C K pull
        in_K = (0.5 * alpha + moved) @ alpha.T
        in_K = 0.5 * (in_K + in_K.T) - 0.5 * (S - taken)
        return logp - 0.5 * (alpha * f).sum() - logs, in_K, alpha, covariance

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        n, C = shapes[0][0], self.likelihood.classes
        return [(), (n, n), (n, C), (n, C, C)]


def _factor(K: np.ndarray, sd: np.ndarray) -> np.ndarray:
    there, upper = factor(K, sd)
    if not there:
        raise np.linalg.LinAlgError
    return upper


def _inverted(upper: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """E_c (n, n) from the factor of I + D_c^1/2 K D_c^1/2, which is overwritten."""
    E = inverse(upper)[0]
    E *= sd
    E *= sd[:, None]
    return E


def _seen(
    K: np.ndarray, p: np.ndarray, blocks: np.ndarray, M: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Information of the data about each class, with S = M M'; E_c (C, n, n) become K E_c M^-T.

    Rows of likely labels in these products follow from E_c K = I - E_c D_c^-1. Only rows of
    unlikely ones are computed, because rounding would matter there. Returns back (n, n), which is
    M^-T, so E_c M^-T is D_c times the difference of back and K E_c M^-T; alone (n, C), the
    posterior variances if all information were D_c; and taken (n, n), the sum of E_c S^-1 E_c.
    """
    upper, towards = np.ascontiguousarray(M.T), K @ M
    back, taken = half(upper, np.eye(len(K))), np.zeros(K.shape)
    alone = np.empty(p.shape)
    for c, E in enumerate(blocks):
        likely, rare = p[:, c], np.flatnonzero(p[:, c] < LEAST_PROBABLE)
        alone[:, c] = np.einsum("ij,ij->i", K, E) / likely
        half(upper, E)
        taken += E @ E.T
        of_rare = K[rare] @ E
        alone[rare, c] = np.diag(K)[rare] - (of_rare * towards[rare]).sum(axis=1)
        np.divide(E, -likely[:, None], out=E)
        E += back
        E[rare] = of_rare
    return back, alone, taken


def probabilities(alpha: Tensor, y: Tensor, *weights: Tensor) -> Tensor:
    """Probabilities at a mode with this slope alpha (n, C), times the weights of rows."""
    own = pt.eq(y[:, None], pt.arange(alpha.shape[1])).astype("float64")
    return pt.maximum((weighed(weights[0], [own])[0] if weights else own) - alpha, 0.0)


def softmax_laplace(likelihood: Any, K: Tensor, *rows: Tensor) -> list[Tensor]:
    """Log evidence, alpha and covariances for symbolic arguments, see `SoftmaxEvidence`."""
    found: Any = SoftmaxEvidence(likelihood)(K, *rows)
    logp, _, *others = found
    return [logp, *others]


def softmax_mode(likelihood: Any, K: Tensor, *rows: Tensor) -> list[Tensor]:
    """Log evidence, alpha and roots for symbolic arguments, see `SoftmaxMode`; no gradient."""
    found: Any = SoftmaxMode(likelihood)(K, *rows)
    return found
