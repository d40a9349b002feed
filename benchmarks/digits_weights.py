"""GPX on Digits (1437 images, 64 pixels): weights, compared with the paper's own algorithm.

The script implements Yoshikawa and Iwata's equations 16 to 18 for 360 test images, in n x n blocks
with Woodbury's identity. Without this identity the equations need a matrix of n d rows, shown for
small n. Both use the hyperparameters of this package's fit.
"""

import resource
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

NAMES = ("lengthscale", "amplitude", "sigma_w", "sigma")
SMALL = (10, 20, 40, 60)


def timed(task):
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


def split():
    X, digit = load_digits(return_X_y=True)
    low, high = X.min(axis=1, keepdims=True), X.max(axis=1, keepdims=True)
    y = np.where(digit >= 5, 1.0, -1.0)
    return train_test_split((X - low) / (high - low), y, test_size=0.2, random_state=0)


def blocks(theta, X, y, X_new, covariance):
    """Equations 16 to 18 in n x n blocks: mean and (co)variance of the weights at X_new."""
    lengthscale, amplitude, sigma_w, sigma = (theta[n] for n in NAMES)
    n, d = X.shape

    def k(a, b):
        return amplitude**2 * np.exp(
            -0.5 * euclidean_distances(a, b, squared=True) / lengthscale**2
        )

    prior = k(X, X) + sigma_w**2 * np.eye(n)
    inverse = np.linalg.inv(prior * (X @ X.T) + sigma**2 * np.eye(n))
    across = k(X, X_new)
    A = np.linalg.solve(prior, across)
    fresh = amplitude**2 + sigma_w**2 - (A * across).sum(axis=0)
    mean, cov = np.empty((len(X_new), d)), np.empty((len(X_new), d, d if covariance else 1))
    for a in range(d):
        left = (prior * X[:, a]) @ inverse
        mean[:, a] = A.T @ (left @ y)
        for b in range(a, d) if covariance else (a,):
            S = -(left * X[:, b]) @ prior
            if a == b:
                S += prior
            cov[:, a, b if covariance else 0] = ((A.T @ S) * A.T).sum(axis=1) + (a == b) * fresh
            if covariance:
                cov[:, b, a] = cov[:, a, b]
    return mean, cov


def whole(theta, X, y, X_new):
    """Equation 17 before Woodbury's identity, with a precision of n d rows."""
    lengthscale, amplitude, sigma_w, sigma = (theta[n] for n in NAMES)
    n, d = X.shape
    k = amplitude**2 * np.exp(-0.5 * euclidean_distances(X, X, squared=True) / lengthscale**2)
    across = amplitude**2 * np.exp(
        -0.5 * euclidean_distances(X, X_new, squared=True) / lengthscale**2
    )
    prior = np.kron(np.eye(d), k + sigma_w**2 * np.eye(n))
    features = np.concatenate([np.diag(column) for column in X.T], axis=1)
    S = np.linalg.inv(np.linalg.inv(prior) + features.T @ features / sigma**2)
    A = np.kron(np.eye(d), np.linalg.solve(k + sigma_w**2 * np.eye(n), across).T)
    return (A @ (S @ (features.T @ y)) / sigma**2).reshape(d, -1).T


def main():
    X, X_test, y, _ = split()
    model = bx.GPX(X, y, ard=False, scale=False)
    quiet = {"keep": "summary", "progressbar": False}
    idata, seconds = timed(lambda: model.fit("map", progressbar=False))
    print(f"Fit by MAP, five starts: {seconds:.1f} s.\n")

    print("| weights of 360 images | seconds | times slower |")
    print("|---|---|---|")
    theta = {name: idata["posterior"][name].item() for name in NAMES}
    own = {
        covariance: timed(
            lambda c=covariance: bx.weights(model, idata, X_test, covariance=c, **quiet)
        )
        for covariance in (False, True)
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    for covariance, text in ((False, "sd"), (True, "covariance between all features")):
        found, seconds = own[covariance]
        (mean, cov), peer = timed(lambda c=covariance: blocks(theta, X, y, X_test, c))
        sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2) if covariance else cov[..., 0])
        np.testing.assert_allclose(found["weight_mean"], mean, atol=1e-6)
        np.testing.assert_allclose(found["weight_sd"], sd, rtol=1e-4)
        print(f"| bayes_gpx, {text} | {seconds:.2f} | 1 |")
        print(f"| equations 16 to 18, {text} | {peer:.1f} | {peer / seconds:.0f} |", flush=True)

    print("\n| images to learn from | bayes_gpx, s | with n d rows, s | means differ by |")
    print("|---|---|---|---|")
    for n in SMALL:
        small = bx.GPX(X[:n], y[:n], ard=False, scale=False)
        found, seconds = timed(lambda s=small: bx.weights(s, theta, X_test, **quiet))
        mean, peer = timed(lambda n=n: whole(theta, X[:n], y[:n], X_test))
        apart = np.abs(found["weight_mean"].values - mean).max()
        print(f"| {n} | {seconds:.2f} | {peer:.2f} | {apart:.0e} |", flush=True)
    print(f"\nPeak memory before the peers: {peak:.2f} GB.")


if __name__ == "__main__":
    main()
