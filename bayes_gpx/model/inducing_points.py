"""Initial positions of a model's inducing points, among the data."""

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2

from bayes_gpx.processes.approximations import Inducing, refuse_large

LARGEST_CLUSTERED = 10_000
"""Rows among which k-means looks for inducing points."""


def inducing_points(training, approximation):
    """Inducing points on the model's scale: dict of `U` and, for a GPX, `U_Z`; else empty."""
    if approximation is None:
        return {}
    refuse_large(approximation, training.d)
    if not isinstance(approximation, Inducing):
        return {}
    data, d = training.scaled(), training.d
    apart = training.Z is not None and not training.z_is_x
    weighed = data["Z"][:, : training.p - training.intercept] if apart else data["X"][:, :0]
    if isinstance(approximation.m, tuple):
        points = np.array(approximation.m)
        width = d + weighed.shape[1]
        if points.shape[1] != width:
            raise ValueError(
                f"Inducing points have {points.shape[1]} columns, but must have {width}, in user "
                "units."
            )
        X = Z = training.X_scaling.apply(points[:, :d])
        if apart:
            own, columns = training.Z_scaling, slice(weighed.shape[1])
            Z = (points[:, d:] - own.center[columns]) / own.scale[columns]
    else:
        centers = _centers(np.hstack([data["X"], weighed]), approximation)
        X, Z = centers[:, :d], centers[:, d:] if apart else centers
    if training.Z is None:
        return {"U": X}
    return {"U": X, "U_Z": np.hstack([Z, np.ones((len(Z), int(training.intercept)))])}


def _centers(rows, approximation):
    """Centers (m, columns) of clusters of the rows, or all different rows if they are no more."""
    rng = np.random.default_rng(approximation.seed)
    different = np.unique(rows, axis=0)
    if approximation.m >= len(different):
        return different
    kept = rng.permutation(len(different))
    some = different[kept[: max(LARGEST_CLUSTERED, approximation.m)]]
    try:
        return kmeans2(some, approximation.m, minit="++", missing="raise", rng=rng)[0]
    except ClusterError:
        return some[: approximation.m]
