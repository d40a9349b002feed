"""Laplace's approximation for several a priori correlated classes.

The prior covariance of the latent values f (n, C), rows first, is a sum of Kronecker products,

    K = sum_s K_s (x) B_s,     K_s (n, n), B_s (C, C)

The information at the mode is block-diagonal, W_i = diag(p_i) - p_i p_i' = A_i A_i' in row i with
probabilities p_i. With M = I + A' K A the posterior is the prior conditioned through C = A M^-1 A',
and det(I + K W) = det(M). Newton steps to the mode use conjugate gradients, with S C n^2 operations
for each iteration. In total, time grows with (n C)^3, and memory with (n C)^2.

References
----------
Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), section 3.5, where classes
are independent; Bonilla, Chai and Williams, "Multi-task Gaussian process prediction" (2008), for
the prior covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply

from bayes_gpx.aliases import Tensor
from bayes_gpx.posteriors.evidence.factors import inverse
from bayes_gpx.posteriors.evidence.softmax import EvidenceOfClasses, FindsModeOfClasses, climb


class Kroneckers:
    """K as a matrix that multiplies values (n, C) from the left, without being formed."""

    def __init__(self, K: np.ndarray, shared: np.ndarray) -> None:
        self.K, self.shared = K, shared

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        return sum(K @ values @ B for K, B in zip(self.K, self.shared, strict=True))


def climb_together(
    local: Callable, K: np.ndarray, rest: Sequence[np.ndarray], begun: np.ndarray, concave: bool
) -> tuple[bool, np.ndarray, np.ndarray]:
    """As `bayes_gpx.posteriors.evidence.softmax.climb`, of K (S, n, n) and further data."""
    shared, *rows = rest
    return climb(local, Kroneckers(K, shared), rows, begun, concave)


class _OfCorrelated(FindsModeOfClasses):
    """(K, shared, y) -> results at the mode; K (S, n, n), shared (S, C, C), codes y (n,)."""

    climb = staticmethod(climb_together)


class CorrelatedMode(_OfCorrelated):
    """(K, shared, y) -> log marginal likelihood, and a summary of the data; no gradient.

    The other outputs are alpha (n, C), the slope of log p(y | f) at the mode, where f is K alpha;
    and the lower triangular root (n C, n C) of M. Without a mode the first output is -inf.
    """

    outputs = (pt.dscalar, pt.dmatrix, pt.dmatrix)

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        shared, *rows = rest
        logp, slope, p = self._search.local(f, *rows)
        root = np.linalg.cholesky(_information(K, shared, p))
        return logp - 0.5 * (alpha * f).sum() - np.log(np.diag(root)).sum(), slope, root

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        n, C = shapes[0][1], self.likelihood.classes
        return [(), (n, C), (n * C, n * C)]


class CorrelatedEvidence(_OfCorrelated, EvidenceOfClasses):
    """(K, shared, y) -> log marginal likelihood, and the parts of its gradient.

    The other outputs are its derivatives in K and in `shared`; alpha (n, C), the slope of log p(y |
    f) at the mode, where f is K alpha; and the posterior covariances of each row's latent values
    (n, C, C). Without a mode the first output is -inf and the gradient zero. Only the first output
    is differentiable.
    """

    outputs = (pt.dscalar, pt.dtensor3, pt.dtensor3, pt.dmatrix, pt.dtensor3)
    alone, slopes = CorrelatedMode, 2

    def at_mode(self, K: np.ndarray, rest: Sequence, f: np.ndarray, alpha: np.ndarray) -> tuple:  # noqa: D102
        shared, *rows = rest
        logp, slope, p = self._search.local(f, *rows)
        root = np.linalg.cholesky(_information(K, shared, p))
        logs = np.log(np.diag(root)).sum()
        seen = _seen(inverse(np.ascontiguousarray(root.T))[0], p)
        covariance = _covariances(K, shared, seen)
        pull = -0.5 * self.contracted(f, covariance) * p.sum(axis=1, keepdims=True)
        back = (Kroneckers(K, shared) @ pull).ravel()
        moved = pull - (seen.reshape(root.shape) @ back).reshape(f.shape)
        u = 0.5 * alpha + moved
        in_K = [
            _symmetric(u @ B @ alpha.T) - 0.5 * np.einsum("icjk,ck->ij", seen, B) for B in shared
        ]
        in_shared = [
            _symmetric(u.T @ own @ alpha) - 0.5 * np.einsum("icjk,ij->ck", seen, own) for own in K
        ]
        evidence = logp - 0.5 * (alpha * f).sum() - logs
        return evidence, np.stack(in_K), np.stack(in_shared), slope, covariance

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        n, C = shapes[0][1], self.likelihood.classes
        return [(), shapes[0], shapes[1], (n, C), (n, C, C)]


def _information(K: np.ndarray, shared: np.ndarray, p: np.ndarray) -> np.ndarray:
    """M = I + A' K A, (n C, n C).

    Between the cells (i, c) and (j, k) that is, but for I, the sum over s of

        p_ic^1/2 p_jk^1/2 K_s,ij (e_c - q_i)' B_s (e_k - q_j)

    with p = w q, see `bayes_gpx.posteriors.evidence.softmax.spread`.
    """
    n, C = p.shape
    M, sd, q = np.empty((n, C, n, C)), np.sqrt(p), p / p.sum(axis=1, keepdims=True)
    expected = [q @ B for B in shared]
    both = [e @ q.T for e in expected]
    for c in range(C):
        for k in range(c + 1):
            block = np.zeros((n, n))
            for own, B, e, squared in zip(K, shared, expected, both, strict=True):
                block += own * (B[c, k] - e[:, c] - e[:, k][:, None] + squared)
            block *= sd[:, c][:, None] * sd[:, k]
            M[:, c, :, k] = block
            if k < c:
                M[:, k, :, c] = block.T
    M = M.reshape((n * C, n * C))
    M.ravel()[:: n * C + 1] += 1.0
    return M


def _seen(inverse_of_M: np.ndarray, p: np.ndarray) -> np.ndarray:  # noqa: N803
    """C = A M^-1 A', (n, C, n, C), in the place of M^-1."""
    seen = inverse_of_M.reshape((*p.shape, *p.shape))
    own, q = np.sqrt(p), p / p.sum(axis=1, keepdims=True)
    seen *= own[:, :, None, None]
    seen -= q[:, :, None, None] * seen.sum(axis=1, keepdims=True)
    seen *= own
    seen -= q * seen.sum(axis=3, keepdims=True)
    return seen


def _covariances(K: np.ndarray, shared: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Posterior covariances of each row's latent values, (n, C, C): of K - K C K."""
    found = np.zeros((seen.shape[0], seen.shape[1], seen.shape[1]))
    for own, B in zip(K, shared, strict=True):
        found += np.diag(own)[:, None, None] * B
        passed = np.tensordot(seen, own, (2, 0))  # (j, c, k, i)
        for other, D in zip(K, shared, strict=True):
            found -= D @ np.einsum("ij,jcki->ick", other, passed) @ B
    return 0.5 * (found + found.transpose(0, 2, 1))


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return 0.5 * (matrix + matrix.T)


def correlated_laplace(likelihood: Any, K: Tensor, shared: Tensor, *rows: Tensor) -> list[Tensor]:
    """As `bayes_gpx.posteriors.evidence.softmax.softmax_laplace`."""
    found: Any = CorrelatedEvidence(likelihood)(K, shared, *rows)
    logp, _, _, *others = found
    return [logp, *others]


def correlated_mode(likelihood: Any, K: Tensor, shared: Tensor, *rows: Tensor) -> list[Tensor]:
    """Log evidence, alpha and root for symbolic arguments, see `CorrelatedMode`; no gradient."""
    found: Any = CorrelatedMode(likelihood)(K, shared, *rows)
    return found
