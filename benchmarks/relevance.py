"""Relevance of 12 features and interactions of their 66 pairs at 400 rows, compared with peers.

Three peers explain the same posterior mean at the training rows: Friedman and Popescu's H-statistic
and the variation of partial dependence of Greenwell et al., from their definitions
(`models/shared/peers.py`), and scikit-learn's permutation importance. RATE explains the same
posterior, from its definition (L. Crawford, S. R. Flaxman, D. E. Runcie and M. West, "Variable
prioritization in nonlinear black box methods" (2019)).
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import permutation_importance

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "models" / "shared"))
import peers  # noqa: E402

ROWS, FEATURES, CHAINS, DRAWS = 400, 12, 4, 50
TRUE = [(0, 1), (2, 3), (4, 5)]
ONE = {"lengthscale": np.full(FEATURES, 4.0), "amplitude": 1.5}


def data():
    """Three products, three single effects, three features without any effect."""
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


def other_likelihoods(X):
    """Responses of other likelihoods, and their own hyperparameters."""
    rng, f = np.random.default_rng(2), 0.5 * X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
    return {
        "student_t": (f + 0.2 * rng.standard_t(4, len(f)), {"sigma": 0.2, "nu": 4.0}),
        "bernoulli": (f + 0.2 * rng.normal(size=len(f)) > 0, {}),
        "poisson": (rng.poisson(np.exp(f)), {}),
    }


def timed(task):
    start = time.process_time()
    result = task()
    return result, time.process_time() - start


class Plain(RegressorMixin, BaseEstimator):
    """A Gaussian process in NumPy, with known hyperparameters."""

    def __init__(self, lengthscale, amplitude, sigma):
        self.lengthscale, self.amplitude, self.sigma = lengthscale, amplitude, sigma

    def _kernel(self, A, B):
        A, B = A / self.lengthscale, B / self.lengthscale
        squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
        return self.amplitude**2 * np.exp(-0.5 * np.maximum(squares, 0.0))

    def fit(self, X, y):
        K = self._kernel(X, X)
        noisy = K + self.sigma**2 * np.eye(len(X))
        self.X_, self.alpha_ = X, np.linalg.solve(noisy, y)
        self.covariance_ = K - K @ np.linalg.solve(noisy, K)
        return self

    def predict(self, X):
        return self._kernel(X, self.X_) @ self.alpha_


def main():
    X, y = data()
    model, idata, quiet = bx.GP(X, y), posterior(), {"progressbar": False}
    theta = {**ONE, "sigma": 0.2}

    def one():
        return bx.relevance(model, theta, **quiet), bx.interactions(model, theta, **quiet)

    _, first = timed(one)
    (_, pairs), again = min((timed(one) for _ in range(5)), key=lambda found: found[1])
    _, relevance = timed(lambda: bx.relevance(model, idata, **quiet))
    summary, interactions = timed(lambda: bx.interactions(model, idata, keep="summary", **quiet))
    scaled = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    gp, X = Plain(**theta).fit(*scaled), scaled[0]
    depend = peers.mean_predictions(gp.predict, X)
    peer, seconds = timed(lambda: peers.h_statistics(depend, X))
    tasks = {
        "variation of partial dependence, 12 features": lambda: peers.pd_variation(depend, X),
        "the same of 66 pairs": lambda: peers.pd_interactions(depend, X),
        "RATE, 12 features": lambda: peers.rate(gp.X_, gp.predict(gp.X_), gp.covariance_),
        "permutation importance, 12 features, 5 times": lambda: (
            permutation_importance(gp, *scaled, n_repeats=5, random_state=0).importances_mean
        ),
    }
    others = {name: timed(task) for name, task in tasks.items()}
    print("| what | CPU s |\n|---|---|")
    print(f"| 12 features and 66 pairs, one draw, first call | {first:.2f} |")
    print(f"| the same, later calls | {again:.3f} |")
    print(f"| {CHAINS * DRAWS} draws of them | {relevance + interactions:.1f} |")
    print(f"| H-statistic of 66 pairs, one draw | {seconds:.1f} ({seconds / again:.0f} x) |")
    for name, (_, taken) in others.items():
        print(f"| {name} | {taken:.2f} |")
    for name, (response, own) in other_likelihoods(X).items():
        other, given = bx.GP(X, response, likelihood=name), {**ONE, **own}

        def both(other=other, given=given):
            bx.relevance(other, given, **quiet)
            bx.interactions(other, given, **quiet)

        both()
        print(f"| 12 features and 66 pairs, {name}, one draw, later calls | {timed(both)[1]:.3f} |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory {peak:.0f} MB")
    print("\ntrue pairs", [f"x{i} : x{j}" for i, j in TRUE])
    ranked = bx.ranking(pairs)["average_interaction_mean"].to_series().nlargest(4)
    print("KL-diff^2:", ranked.round(3).to_dict())
    top = bx.ranking(summary)["probability_top"].sel(rank=3).to_series().nlargest(4)
    print("P(among the first 3):", top.round(2).to_dict())
    found = {"H": peer, "variation of partial dependence": others["the same of 66 pairs"][0]}
    for name, values in found.items():
        best = sorted(values, key=values.get, reverse=True)[:4]
        print(f"{name}:", {f"x{i} : x{j}": round(float(values[i, j]), 3) for i, j in best})
    print("\nfeatures, as shares of the largest")
    average = bx.relevance(model, theta, **quiet)["average_relevance"].values[0, 0]
    alone = {"KL-diff": average} | {
        name: values for name, (values, _) in others.items() if "pairs" not in name
    }
    for name, values in alone.items():
        print(f"{name.split(',')[0]}:", (values / values.max()).round(2).tolist())


if __name__ == "__main__":
    main()
