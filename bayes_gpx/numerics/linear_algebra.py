"""Cholesky factors with adaptive jitter, and solutions from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy.linalg.lapack import dpstrf

from bayes_gpx.aliases import Tensor, TensorLike

JITTERS = tuple(10.0**k for k in range(-14, -3))
"""The jitters that `with_jitter` tries after 0, as multiples of the mean diagonal."""


def cholesky(C: Tensor) -> Tensor:
    """Lower Cholesky factor of C (n, n); all NaN where C is not positive definite."""
    return pt.linalg.cholesky(C, lower=True, on_error="nan")


def plus_diagonal(C: Tensor, added: TensorLike) -> Tensor:
    """C (..., n, n) with numbers added to its diagonal."""
    own = pt.arange(C.shape[-1])
    return C[..., own, own].inc(added)


def solve_root(root: Tensor, B: Tensor) -> Tensor:
    """root^-1 B for a lower triangular root."""
    return pt.linalg.solve_triangular(root, B, lower=True)


def solve_upper(root: Tensor, B: Tensor) -> Tensor:
    """(root')^-1 B for a lower triangular root."""
    return pt.linalg.solve_triangular(root, B, lower=True, trans="T")


def solve(root: Tensor, B: Tensor) -> Tensor:
    """C^-1 B for C = root root'."""
    return solve_upper(root, solve_root(root, B))


def with_jitter(attempt: Callable[[float], Any]) -> tuple[Any, float]:
    """Arrays of ``attempt(jitter)``, with the least relative jitter for which all are finite."""
    for jitter in (0.0, *JITTERS):
        arrays = attempt(jitter)
        if all(np.isfinite(array).all() for array in arrays):
            return arrays, jitter
    raise ValueError(
        "No posterior was found. Either the covariance of the observations is not positive "
        f"definite, even with {JITTERS[-1]:g} of its mean diagonal added, or a result is not "
        "finite, or the search for the posterior did not end. Use finite hyperparameters of "
        "moderate size, and check them for values such as 0, inf or 1e150."
    )


def sqrt_psd(covariance: np.ndarray) -> np.ndarray:
    """Square root A of covariances (..., c, c), A A' = covariance."""
    # A Cholesky factor. For a singular matrix, a factor with pivots, at a tenth of the cost of
    # eigenvectors; for many small ones, scaled eigenvectors. All use the correlations, so
    # components in small units are not lost in the round-off of components in huge units. A
    # component without variance stays exactly 0.
    sd = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = covariance / scale[..., :, None] / scale[..., None, :]
    try:
        return sd[..., None] * np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        if correlation.ndim == 2 and np.isfinite(correlation).all():
            # Of equal diagonals the first is the pivot; round-off in them would choose another one
            # from call to call, and with it other draws for the same seed.
            np.fill_diagonal(correlation, np.where(sd > 0, 1.0, 0.0))
            return sd[:, None] * _pivoted(correlation)
        values, vectors = np.linalg.eigh(correlation)
    # Eigenvalues within round-off count as 0, since their roots would be 1e-8 and not 1e-16.
    least = values.shape[-1] * np.finfo(float).eps * values[..., -1:]
    known = np.where(values > least, values, 0.0)
    return sd[..., None] * vectors * np.sqrt(known)[..., None, :]


def _pivoted(correlation: np.ndarray) -> np.ndarray:
    """Square root A (n, n) of a positive semidefinite matrix, with columns of 0 beyond its rank."""
    n = len(correlation)
    # Pivots within round-off count as 0, like eigenvalues in `sqrt_psd`.
    factor, pivots, rank, _ = dpstrf(correlation, lower=1, tol=n * np.finfo(float).eps)
    lower = np.tril(factor)
    lower[:, rank:] = 0.0
    root = np.empty_like(lower)
    root[pivots - 1] = lower
    return root
