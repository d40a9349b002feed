"""Relevance of 12 features and interactions of their 66 pairs at 400 rows, against the H-statistic.

The peer is Friedman and Popescu's H of the same posterior mean, from its definition: the part of
the partial dependence on a pair that the two single ones leave, at the training rows.
"""

import resource
import time
from itertools import combinations

import numpy as np
import xarray as xr

import bayes_gpx as bx

ROWS, FEATURES, CHAINS, DRAWS = 400, 12, 4, 50
TRUE = [(0, 1), (2, 3), (4, 5)]


def data():
    """Three products, three single effects, three features without any."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    products = sum(X[:, i] * X[:, j] for i, j in TRUE)
    single = np.sin(X[:, 6]) + 0.5 * X[:, 7] + 0.25 * X[:, 8] ** 2
    return X, products + single + 0.5 * rng.normal(size=ROWS)


def posterior():
    """Draws around a plausible point."""
    rng = np.random.default_rng(1)
    spread = np.exp(0.1 * rng.normal(size=(CHAINS, DRAWS, FEATURES)))
    draws = {
        "lengthscale": (("chain", "draw", "feature"), 4.0 * spread),
        "amplitude": (("chain", "draw"), 1.5 * spread[..., 0]),
        "sigma": (("chain", "draw"), 0.2 * spread[..., 1]),
    }
    names = {"feature": [f"x{i}" for i in range(FEATURES)]}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(draws, names)})


def timed(task):
    start = time.process_time()
    result = task()
    return result, time.process_time() - start


def h_statistic(X, y, lengthscale, amplitude, sigma):
    """H of each pair, with the function of a plain NumPy Gaussian process."""

    def kernel(A, B):
        A, B = A / lengthscale, B / lengthscale
        squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
        return amplitude**2 * np.exp(-0.5 * np.maximum(squares, 0.0))

    alpha = np.linalg.solve(kernel(X, X) + sigma**2 * np.eye(len(X)), y)

    def dependence(features):
        """Mean over rows of f with these features set to each row's, centred."""
        found = np.empty(len(X))
        for i, row in enumerate(X):
            moved = X.copy()
            moved[:, features] = row[features]
            found[i] = (kernel(moved, X) @ alpha).mean()
        return found - found.mean()

    alone = [dependence([j]) for j in range(X.shape[1])]
    found = {}
    for i, j in combinations(range(X.shape[1]), 2):
        both = dependence([i, j])
        found[i, j] = np.sqrt(((both - alone[i] - alone[j]) ** 2).sum() / (both**2).sum())
    return found


def main():
    X, y = data()
    model, idata, quiet = bx.GP(X, y), posterior(), {"progressbar": False}
    theta = {"lengthscale": np.full(FEATURES, 4.0), "amplitude": 1.5, "sigma": 0.2}

    def one():
        return bx.relevance(model, theta, **quiet), bx.interactions(model, theta, **quiet)

    _, first = timed(one)
    (_, pairs), again = min((timed(one) for _ in range(5)), key=lambda found: found[1])
    _, relevance = timed(lambda: bx.relevance(model, idata, **quiet))
    summary, interactions = timed(lambda: bx.interactions(model, idata, keep="summary", **quiet))
    scaled = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    peer, seconds = timed(lambda: h_statistic(*scaled, **theta))
    print("| what | CPU s |\n|---|---|")
    print(f"| 12 features and 66 pairs, one draw, first call | {first:.2f} |")
    print(f"| the same, later calls | {again:.3f} |")
    print(f"| {CHAINS * DRAWS} draws of them | {relevance + interactions:.1f} |")
    print(f"| H-statistic of 66 pairs, one draw | {seconds:.1f} ({seconds / again:.0f} x) |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory {peak:.0f} MB")
    print("\ntrue pairs", [f"x{i} : x{j}" for i, j in TRUE])
    ranked = bx.ranking(pairs)["average_interaction_mean"].to_series().nlargest(4)
    print("KL-diff^2:", ranked.round(3).to_dict())
    top = bx.ranking(summary)["probability_top"].sel(rank=3).to_series().nlargest(4)
    print("P(among the first 3):", top.round(2).to_dict())
    best = sorted(peer, key=peer.get, reverse=True)[:4]
    print("H:", {f"x{i} : x{j}": round(float(peer[i, j]), 3) for i, j in best})


if __name__ == "__main__":
    main()
