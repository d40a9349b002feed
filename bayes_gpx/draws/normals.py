"""Normals of one draw by their moments, in user units: what varies, and draws."""

from __future__ import annotations

import numpy as np

from bayes_gpx.numerics.linear_algebra import sqrt_psd


def variances(second: np.ndarray) -> np.ndarray:
    """Variances (m, k), of second moments as `Question.in_units` returns them."""
    block = blocks(second)
    return second if block is None else np.maximum(np.einsum("icc->ic", block), 0.0)


def blocks(second: np.ndarray) -> np.ndarray | None:
    """Covariances within rows (m, k, k); None where only variances are known."""
    if second.ndim == 2:
        return None
    return second if second.ndim == 3 else np.einsum("icid->icd", second)


def drawn(mean: np.ndarray, second: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Turn standard normals (draw, m, k) into draws of a normal with these moments."""
    if second.ndim == 2:
        return mean + np.sqrt(second) * normal
    if second.ndim == 3:
        return mean + np.einsum("mij,dmj->dmi", sqrt_psd(second), normal)
    root = sqrt_psd(second.reshape((mean.size, mean.size)))
    return mean + (normal.reshape((len(normal), -1)) @ root.T).reshape(normal.shape)


def with_deviations(
    f: tuple[np.ndarray, np.ndarray],
    beside: tuple[np.ndarray, np.ndarray, np.ndarray],
    normal: np.ndarray,
    other: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn standard normals (draw, m, 1), twice, into draws of a smooth part s and of f."""
    # f_i = s_i + d_i with deviations d_i of variance D_i, independent of each other. The data
    # inform d_i only through f_i, as a normal site of precision W_i (0 at a new row), so
    #     f_i | s_i ~ N(E f_i + u_i (s_i - E s_i), D_i u_i),    u_i = 1 / (1 + D_i W_i)
    # independently over rows. Both variances determine u_i: Var f_i = u_i^2 Var s_i + D_i u_i.
    # `beside` has the moments of s and the D_i (m, 1).
    mean, second, D = beside
    variance = variances(f[1])
    root = np.sqrt(D**2 + 4.0 * variances(second) * variance)
    # A form without cancellation; where nothing varies, any u will do.
    u = np.minimum(np.divide(2.0 * variance, D + root, np.ones_like(D), where=D + root > 0), 1.0)
    smooth = drawn(mean, second, normal)
    return smooth, f[0] + u * (smooth - mean) + np.sqrt(D * u) * other
