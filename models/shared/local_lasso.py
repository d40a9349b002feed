"""The localized lasso, and the network lasso, its special case without the second penalty.

    M. Yamada, T. Koh, T. Iwata, J. Shawe-Taylor and S. Kaski, "Localized lasso for
    high-dimensional regression" (2017).
    D. Hallac, J. Leskovec and S. Boyd, "Network lasso: clustering and optimization in large
    graphs" (2015).

Each row i has its own weights w_i, (n, d). They minimize

    sum_i (y_i - w_i'x_i)^2 + network sum_ij r_ij |w_i - w_j|_2 + sparse sum_i |w_i|_1^2

over a graph r of nearest neighbors. As in the authors' method, each step replaces the norms by
quadratic functions that touch them at the last weights, and solves the resulting linear system. The
system has n d unknowns; conjugate gradients take O(n (k + 1) d) per iteration.

Norms are smoothed, |v| = sqrt(v^2 + SMOOTH^2), so there is a single optimum with a zero gradient.
`residual` is the remaining gradient, relative to the gradient at zero weights.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import LinearOperator, cg

SMOOTH = 1e-3
"""Differences between weights, and weights, below this value count as small."""

STEPS = 100
ENOUGH = 1e-3
"""Stop once the relative residual is below this value."""


class Fitted(NamedTuple):
    """Weights (n, d) of the rows, the remaining relative gradient, and the number of steps."""

    weights: np.ndarray
    residual: float
    steps: int


def neighbour_graph(X, k):
    """Symmetric sparse graph (n, n) of the k rows with the largest cosine similarity."""
    similarity = _cosine(X, X)
    np.fill_diagonal(similarity, -np.inf)
    nearest = np.argpartition(-similarity, k, axis=1)[:, :k]
    rows = np.repeat(np.arange(len(X)), k)
    graph = sparse.csr_array((np.ones(rows.size), (rows, nearest.ravel())), shape=(len(X),) * 2)
    return graph.maximum(graph.T).tocsr()


def fit(X, y, graph, network, sparsity=0.0, start=None):
    """Minimize the objective above over the weights.

    `network` and `sparsity` are the strengths of the two penalties; the network lasso uses only the
    first.
    """
    n, d = X.shape
    edges = sparse.triu(graph).tocoo()
    first, second = edges.row, edges.col
    pull = X * y[:, None]
    weights = np.zeros((n, d)) if start is None else start
    largest = np.linalg.norm(pull)
    step, left = 0, np.inf
    for step in range(STEPS + 1):
        apart = np.linalg.norm(weights[first] - weights[second], axis=1)
        strength = network * edges.data / np.sqrt(apart**2 + SMOOTH**2)
        between = sparse.coo_array((strength, (first, second)), shape=(n, n))
        between = (between + between.T).tocsr()
        degree = np.asarray(between.sum(axis=1)).ravel()
        size = np.sqrt(weights**2 + SMOOTH**2)
        own = sparsity * size.sum(axis=1, keepdims=True) / size

        def applied(v, between=between, degree=degree, own=own):
            v = v.reshape((n, d))
            fitted = (X * v).sum(axis=1, keepdims=True) * X
            return (fitted + degree[:, None] * v - between @ v + own * v).ravel()

        left = np.linalg.norm(applied(weights) - pull.ravel()) / largest
        if left < ENOUGH or step == STEPS:
            break
        inverse = 1.0 / np.maximum(degree[:, None] + own, SMOOTH)
        pushed = inverse * X
        share = pushed / (1.0 + (X * pushed).sum(axis=1, keepdims=True))

        def preconditioned(v, inverse=inverse, pushed=pushed, share=share):
            v = v.reshape((n, d))
            return (inverse * v - share * (pushed * v).sum(axis=1, keepdims=True)).ravel()

        shape = (n * d, n * d)
        weights = cg(
            LinearOperator(shape, applied),
            pull.ravel(),
            weights.ravel(),
            rtol=0.1 * min(left, 1e-2),
            maxiter=500,
            M=LinearOperator(shape, preconditioned),
        )[0].reshape((n, d))
    return Fitted(weights, float(left), step)


def weights_at(X_new, X, weights, k, steps=100):
    """Weights (m, d) of new rows that minimize the sum of distances to the weights of the k nearest
    rows.
    """
    nearest = np.argpartition(-_cosine(X_new, X), k, axis=1)[:, :k]
    theirs = weights[nearest]
    found = theirs.mean(axis=1)
    for _ in range(steps):  # Weiszfeld's iterations
        apart = np.sqrt(((theirs - found[:, None]) ** 2).sum(axis=2) + SMOOTH**2)
        found = (theirs / apart[:, :, None]).sum(axis=1) / (1 / apart).sum(axis=1, keepdims=True)
    return found


def _cosine(one, other):
    """Cosine similarity between rows, (m, n); 0 for a row of zeros."""

    def unit(X):
        norm = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(norm > 0, norm, 1.0)

    return unit(one) @ unit(other).T
