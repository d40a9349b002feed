"""Squared Euclidean distances between the rows of matrices, as one operation.

Inner products of rows: one BLAS product and no array with both row axes and the column axis.
"""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op


class SquaredDistances(Op):
    """(A,) or (A, B) -> |a_i - b_j|^2, (n, m); of A with itself, exactly 0 on the diagonal.

    Round-off below 0 is clipped. The pullback is that of the unclipped distance, which is
    continuous where rows coincide.
    """

    __props__ = ()

    def make_node(self, *points):  # noqa: D102
        points = [pt.as_tensor_variable(p) for p in points]
        rows = [p.type.shape[0] for p in (points[0], points[-1])]
        return Apply(self, points, [pt.tensor(dtype="float64", shape=rows)])

    def perform(self, node, inputs, output_storage):  # noqa: D102
        A, B = inputs[0], inputs[-1]
        a, b = (A * A).sum(axis=1, keepdims=True), (B * B).sum(axis=1, keepdims=True)
        left = np.concatenate([-2.0 * A, a, np.ones_like(a)], axis=1)
        right = np.concatenate([B, np.ones_like(b), b], axis=1)
        distances = left @ right.T
        np.maximum(distances, 0.0, out=distances)
        if A is B:
            distances.ravel()[:: len(A) + 1] = 0.0
        output_storage[0][0] = distances

    def pullback(self, inputs, outputs, cotangents):  # noqa: D102
        A, B, G = inputs[0], inputs[-1], cotangents[0]
        if len(inputs) == 1:
            G = G + G.T
            return [2.0 * (A * G.sum(axis=1)[:, None] - pt.dot(G, A))]
        return [
            2.0 * (A * G.sum(axis=1)[:, None] - pt.dot(G, B)),
            2.0 * (B * G.sum(axis=0)[:, None] - pt.dot(G.T, A)),
        ]

    def infer_shape(self, node, shapes):  # noqa: D102
        return [(shapes[0][0], shapes[-1][0])]


squared_distances = SquaredDistances()
