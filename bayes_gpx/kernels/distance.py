"""Squared Euclidean distances between the rows of matrices, as one operation."""

# They come from inner products of rows: one BLAS product and no array with both row axes and the
# column axis. Inner products lose digits if a distance is small relative to the rows' distances
# from their center, for example within one of two distant clusters. Only these pairs are
# recomputed, from differences.

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from bayes_gpx.aliases import Tensor

LEAST = 1000.0
"""Up to this sum of squared norms of scaled rows, inner products are exact to 1e-12."""

CLOSE = 64.0
"""A squared distance so many times smaller than that sum is computed again, from differences."""

BLOCK = 2**20
"""An array of differences has at most so many numbers, 8 MB."""


class SquaredDistances(Op):
    """(X,) or (X, Xs) -> |x_i - xs_j|^2, (n, m); for X with itself, exactly 0 on the diagonal."""

    # With ``scaled``, a last input `scale` (d,) divides the columns of all differences, and an
    # error of 1e-12 is allowed (`LEAST`). Without it, every distance that lost digits is
    # recomputed. Round-off below 0 is clipped. The pullback differentiates the unclipped distance,
    # which is continuous at coinciding rows.

    __props__ = ("scaled",)

    def __init__(self, scaled: bool = False) -> None:
        self.scaled = scaled

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        tensors = [pt.as_tensor_variable(v) for v in inputs]
        points = tensors[: len(tensors) - self.scaled]
        shape = points[0].type.shape[0], points[-1].type.shape[0]
        return Apply(self, tensors, [pt.tensor(dtype="float64", shape=shape)])

    def _split(self, inputs: Sequence) -> tuple[Sequence, Any]:
        """Return the points, X or X and Xs, and their scale."""
        return (inputs[:-1], inputs[-1]) if self.scaled else (inputs, 1.0)

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        points, scale = self._split(inputs)
        with np.errstate(all="ignore"):
            output_storage[0][0] = _squared(points, scale, LEAST if self.scaled else 0.0)

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        points, scale = self._split(inputs)
        (distances,), (G,) = outputs, cotangents
        center = points[-1].mean(axis=0)
        rows = [(p - center) / scale for p in points]
        if len(points) == 1:
            both = G + G.T
            pulled = [rows[0] * both.sum(axis=1)[:, None] - pt.dot(both, rows[0])]
        else:
            pulled = [
                rows[0] * G.sum(axis=1)[:, None] - pt.dot(G, rows[1]),
                rows[1] * G.sum(axis=0)[:, None] - pt.dot(G.T, rows[0]),
            ]
        pulled = [2.0 * part / scale for part in pulled]
        if self.scaled:
            pulled.append(-2.0 / scale * ScaleSlopes()(G, distances, *points, scale))
        return pulled

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        points, _ = self._split(shapes)
        return [(points[0][0], points[-1][0])]


class ScaleSlopes(Op):
    """(G, distances, X[, Xs], scale) -> sum_ij G_ij ((x_ia - xs_ja) / scale_a)^2, (d,)."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        tensors = [pt.as_tensor_variable(v) for v in inputs]
        return Apply(self, tensors, [pt.tensor(dtype="float64", shape=tensors[-1].type.shape)])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        G, distances, *points, scale = inputs
        with np.errstate(all="ignore"):
            output_storage[0][0] = _slopes(G, distances, points, scale)

    def infer_shape(self, node: Apply, shapes: Sequence[tuple]) -> list[tuple]:  # noqa: D102
        return [shapes[-1]]


def squared_distances(*points: Tensor, scale: Tensor | None = None) -> Tensor:
    """|x_i - xs_j|^2 of rows X (n, d) and Xs (m, d), or X, with columns divided by `scale` (d,)."""
    if scale is None:
        return cast(Tensor, SquaredDistances()(*points))
    return cast(Tensor, SquaredDistances(scaled=True)(*points, scale))


def _squared(points: Sequence[np.ndarray], scale: np.ndarray | float, least: float) -> np.ndarray:
    """Squared distances (n, m), with recomputed `_close_pairs`."""
    (A, a), (B, b) = _centered(points, scale)
    left = np.concatenate([-2.0 * A, a, np.ones_like(a)], axis=1)
    right = np.concatenate([B, np.ones_like(b), b], axis=1)
    distances = left @ right.T
    np.maximum(distances, 0.0, out=distances)
    if len(points) == 1:
        distances.ravel()[:: len(A) + 1] = 0.0
    for places, apart in _close_pairs(distances, a, b, points, scale, least):
        distances.ravel()[places] = (apart * apart).sum(axis=1)
    return distances


def _slopes(
    G: np.ndarray, distances: np.ndarray, points: Sequence[np.ndarray], scale: np.ndarray | float
) -> np.ndarray:
    (A, a), (B, b) = _centered(points, scale)
    close = [*_close_pairs(distances, a, b, points, scale, LEAST)]
    if close:
        G = np.array(G, order="C")
    total = np.zeros(A.shape[1])
    for places, apart in close:
        total += G.ravel()[places] @ (apart * apart)
        G.ravel()[places] = 0.0
    return total + G.sum(axis=1) @ (A * A) + G.sum(axis=0) @ (B * B) - 2.0 * (A * (G @ B)).sum(0)


def _centered(
    points: Sequence[np.ndarray], scale: np.ndarray | float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Centered and scaled rows of X, then of Xs (or X again), each with squared norms (n, 1)."""
    center = points[-1].mean(axis=0)
    rows = [(p - center) / scale for p in points]
    both = [(A, (A * A).sum(axis=1, keepdims=True)) for A in rows]
    return both[0], both[-1]


def _close_pairs(
    distances: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    points: Sequence[np.ndarray],
    scale: np.ndarray | float,
    least: float,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield flat indices of pairs that lost digits, and their differences; none up to `least`."""
    X, Xs = points[0], points[-1]
    if not a.max(initial=0.0) + b.max(initial=0.0) > least:
        return
    near, size = np.flatnonzero(CLOSE * distances < a + b.T), max(1, BLOCK // X.shape[1])
    for start in range(0, len(near), size):
        places = near[start : start + size]
        rows, columns = np.divmod(places, len(Xs))
        yield places, (X[rows] - Xs[columns]) / scale
