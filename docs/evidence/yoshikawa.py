"""Yoshikawa and Iwata: variances and posteriors of a GPX."""

import numpy as np
from numpy.linalg import eigvalsh, inv, solve

from evidence.case import Case, expquad, given


def gpx():
    """Everything of a small GPX as a linear map of independent variables."""
    n, p, sw2, sy2 = 6, 3, 0.15, 0.07
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(n + 1, 2)), rng.normal(size=(n + 1, p))
    K = np.linalg.cholesky(expquad(X, X) + 1e-12 * np.eye(n + 1))
    own = np.hstack(
        [np.kron(np.eye(p), K), np.sqrt(sw2) * np.eye(p * (n + 1)), np.zeros((p * (n + 1), n + 1))]
    )  # (weight l of sample i, latent variables), l-major
    rows = np.hstack([np.diag(Z[:, k]) for k in range(p)])
    noise = np.hstack([np.zeros((n + 1, 2 * p * (n + 1))), np.sqrt(sy2) * np.eye(n + 1)])
    everything = np.vstack([own, rows @ own + noise])
    cov = everything @ everything.T
    y = np.arange(p * (n + 1), (p + 1) * (n + 1))
    w = np.concatenate([np.arange(n) + k * (n + 1) for k in range(p)])
    return X, Z, sw2, sy2, cov, w, y[:n], y[n:]


def weights():
    """Predictive variance and posterior of the training weights."""
    X, Z, sw2, sy2, cov, w, y, new = gpx()
    n, p = len(y), Z.shape[1]
    K, k = expquad(X[:n], X[:n]), expquad(X[:n], X[n:])[:, 0]
    C = sy2 * np.eye(n) + (K + sw2 * np.eye(n)) * (Z[:n] @ Z[:n].T)
    c, zz = k * (Z[:n] @ Z[n]), Z[n] @ Z[n]
    explained = c @ solve(C, c)
    joint = given(cov, new, y)[0, 0]
    by = "conditioning the joint normal"
    yield Case(
        "(14), (22)",
        "predictive variance",
        sy2 + 1.0 + sw2 * zz - explained,
        sy2 + (1.0 + sw2) * zz - explained,
        joint,
        by,
    )
    Zbar = np.hstack([np.diag(Z[:n, k]) for k in range(p)])
    Kbar, ZZ = np.kron(np.eye(p), K), Zbar.T @ Zbar / sy2
    L = Kbar + sw2 * np.eye(n * p)
    posterior = given(cov, w, y)
    yield Case(
        "(29) to (32)",
        "smallest eigenvalue of the weights' precision",
        eigvalsh(inv(Kbar) - ZZ)[0],
        eigvalsh(inv(L) + ZZ)[0],
        1 / eigvalsh(posterior)[-1],
        by,
    )
    yield Case(
        "(29) to (32), sign mended",
        "variance of a training weight",
        inv(inv(Kbar) + ZZ)[0, 0],
        inv(inv(L) + ZZ)[0, 0],
        posterior[0, 0],
        by,
    )
