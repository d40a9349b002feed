"""Posterior means of fitted Gaussian processes by NumPy, for methods that need millions of them."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial.distance import cdist

AT_ONCE = 4_000
"""Maximal number of rows predicted at once."""

MOST_PAIRS = 20
"""Maximal number of sums per requested row in `MeanOfMixtures`."""

JITTERS = (0.0, 1e-12, 1e-10, 1e-8)
"""Jitters relative to the mean variance, tried in this order."""


class PosteriorMean:
    """Mean of f at new rows by NumPy; LIME and SHAP need it millions of times.

    `theta` are the hyperparameters on the scale of `rows`; it contains `sigma_w` for a GPX.
    """

    def __init__(self, rows, theta):
        self.lengthscale = np.broadcast_to(theta["lengthscale"], rows.X.shape[1])
        self.amplitude, self.weighed = theta["amplitude"], "sigma_w" in theta
        self.X, self.Z = rows.X / self.lengthscale, rows.Z
        covariance = self.amplitude**2 * np.exp(-0.5 * cdist(self.X, self.X, "sqeuclidean"))
        if self.weighed:
            covariance += theta["sigma_w"] ** 2 * np.eye(len(rows.y))
            covariance *= rows.Z @ rows.Z.T
        covariance[np.diag_indices_from(covariance)] += theta["sigma"] ** 2
        self.alpha = cho_solve(_factor(covariance), rows.y)

    def __call__(self, X, Z):
        return np.concatenate(
            [self._of(X[k : k + AT_ONCE], Z[k : k + AT_ONCE]) for k in range(0, len(X), AT_ONCE)]
        )

    def _of(self, X, Z):
        k = self.amplitude**2 * np.exp(-0.5 * cdist(X / self.lengthscale, self.X, "sqeuclidean"))
        if self.weighed:
            return (Z * (k @ (self.alpha[:, None] * self.Z))).sum(axis=1)
        return k @ self.alpha


class MeanOfMixtures(PosteriorMean):
    """Mean of f at rows with few values per feature, such as the rows of Kernel SHAP.

    The kernel is a product over features, so it has two factors, one for each half of the features.
    Each half has few distinct rows, and a matrix product gives the sums for all pairs of halves.
    """

    def __call__(self, X, Z):
        half = X.shape[1] // 2
        columns = slice(None, half), slice(half, None)
        found = [np.unique(X[:, own], axis=0, return_inverse=True) for own in columns]
        (left, right), places = zip(*found, strict=True)
        if self.weighed or len(left) * len(right) > MOST_PAIRS * len(X):
            return super().__call__(X, Z)
        one, other = (
            np.exp(-0.5 * cdist(rows / self.lengthscale[own], self.X[:, own], "sqeuclidean"))
            for rows, own in zip((left, right), columns, strict=True)
        )
        return self.amplitude**2 * ((one * self.alpha) @ other.T)[places]


def _factor(covariance):
    """Cholesky factor, with jitter only if noise has collapsed and the factorization fails."""
    size = covariance.diagonal().mean()
    for jitter in JITTERS:
        try:
            return cho_factor(covariance + jitter * size * np.eye(len(covariance)), lower=True)
        except LinAlgError:
            continue
    raise LinAlgError(f"The covariance has no Cholesky factor with a jitter of {JITTERS[-1]}.")
