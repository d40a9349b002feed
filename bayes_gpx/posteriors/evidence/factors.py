"""Factors of the matrices of Laplace's approximation, by LAPACK, which numba compiles as well."""

import numpy as np

from bayes_gpx.numerics.lapack import LOWER, PLAIN, invert, potrf, potrs, trtrs


def factor(K: np.ndarray, root_W: np.ndarray) -> tuple[bool, np.ndarray]:
    """Upper triangular U with U'U = I + W^1/2 K W^1/2, after whether there is one."""
    n = len(K)
    upper = K * root_W
    upper *= root_W.reshape((n, 1))
    upper.ravel()[:: n + 1] += 1.0
    order, info = np.array([n], np.int32), np.zeros(1, np.int32)
    # C's upper triangle is Fortran's lower one.
    potrf(LOWER.ctypes, order.ctypes, upper.ctypes, order.ctypes, info.ctypes)
    return info[0] == 0 and np.isfinite(upper[-1, -1]), upper


def solve(upper: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(U'U)^-1 b; b is overwritten."""
    order, one, info = np.array([len(b)], np.int32), np.ones(1, np.int32), np.zeros(1, np.int32)
    k = order.ctypes
    potrs(LOWER.ctypes, k, one.ctypes, upper.ctypes, k, b.ctypes, k, info.ctypes)
    return b


def signed_factor(
    K: np.ndarray,
    W: np.ndarray,  # noqa: N803
) -> tuple[bool, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Factors for `signed_solve`, for an information W (n,) of either sign.

    The first value is whether K^-1 + diag(W) is positive definite. The others are the square root
    of the positive information and its `factor`, and for the rows with a negative one their
    positions, its square root, and a factor of what it leaves of the variance.
    """
    root, below = np.sqrt(np.maximum(W, 0.0)), np.flatnonzero(W < 0.0)
    sd, inner = np.sqrt(-W[below]), np.zeros((0, 0))
    there, upper = factor(K, root)
    if there and len(below) > 0:
        explained = half(upper, K[below] * root)
        covariance = K[below][:, below] - explained @ explained.T  # given all positive information
        there, inner = factor(-covariance, sd)
    return there, root, upper, below, sd, inner


def signed_solve(
    K: np.ndarray,
    root: np.ndarray,
    upper: np.ndarray,
    below: np.ndarray,
    sd: np.ndarray,
    inner: np.ndarray,
    b: np.ndarray,
) -> np.ndarray:
    """(I + W K)^-1 b, by a `signed_factor`: Woodbury's formula for the negative information."""
    x = b - root * solve(upper, root * (K @ b))
    if len(below) == 0:
        return x
    moved = b.copy()
    moved[below] += sd * solve(inner, sd * (K[below] @ x))
    return moved - root * solve(upper, root * (K @ moved))


def half(upper: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """U'^-1 b for each of the rows b, which are overwritten."""
    order, count = np.array([len(upper)], np.int32), np.array([len(rows)], np.int32)
    info, k, plain = np.zeros(1, np.int32), order.ctypes, PLAIN.ctypes
    b, c = rows.ctypes, count.ctypes
    trtrs(LOWER.ctypes, plain, plain, k, c, upper.ctypes, k, b, k, info.ctypes)
    return rows


def inverse(upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(U'U)^-1, and a copy of its diagonal; U is overwritten."""
    invert(upper)
    return symmetric(upper), np.diag(upper).copy()


def symmetric(upper: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this upper triangle."""
    whole = np.triu(upper)
    whole += np.triu(upper, 1).T
    return whole
