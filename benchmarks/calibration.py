"""Coverage of 90% intervals, by inference method for the hyperparameters.

Each run draws hyperparameters, weight functions and data from the model's own prior, so exact
posterior intervals have 90% coverage. The shortfall of a plug-in method (MAP) is the effect of the
uncertainty that it ignores.
"""

import sys
import warnings

import numpy as np
import pymc as pm
from scipy.stats import norm

import bayes_gpx as bx

LEVEL, ROWS, NEW, P = 0.9, 30, 10, 2
CENTERS = {"lengthscale": 1.0, "amplitude": 0.7, "sigma_w": 0.25, "sigma": 0.4}
SPREAD = 0.5
METHODS = ("known", "map", "laplace", "nuts")
KINDS = ("weight", "contribution", "y", *CENTERS)


def prior(name):
    """Log-normal prior around the center, for PyMC."""
    return pm.LogNormal(name, np.log(CENTERS[name]), SPREAD)


def world(rng):
    """Hyperparameters, data and the true quantities at new points, all from the prior."""
    theta = {name: center * np.exp(SPREAD * rng.normal()) for name, center in CENTERS.items()}
    x = rng.uniform(-2, 2, (ROWS + NEW, 1))
    Z = rng.normal(size=(ROWS + NEW, P))
    K = np.exp(-0.5 * ((x - x.T) / theta["lengthscale"]) ** 2) + 1e-10 * np.eye(len(x))
    smooth = theta["amplitude"] * np.linalg.cholesky(K) @ rng.normal(size=Z.shape)
    weights = smooth + theta["sigma_w"] * rng.normal(size=Z.shape)
    y = (Z * weights).sum(axis=1) + theta["sigma"] * rng.normal(size=len(x))
    truth = {"weight": weights[ROWS:], "contribution": (Z * weights)[ROWS:], "y": y[ROWS:]}
    return theta, x, Z, y, truth | theta


def held(model, idata, x, Z, truth, known):
    """Coverage of the central intervals; normal intervals if hyperparameters are known.

    For hyperparameters the value is 0 or 1, and NaN if they are known or a single mode.
    """
    shares = dict.fromkeys(CENTERS, np.nan)
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    if not known and idata["posterior"].sizes["draw"] > 1:
        for name in CENTERS:
            low, high = idata["posterior"][name].quantile(tails)
            shares[name] = float(low < truth[name] < high)
    for verb, kind in (
        (bx.weights, "weight"),
        (bx.contributions, "contribution"),
        (bx.predictions, "y"),
    ):
        options = {"keep": "summary"} if known else {"draws": 1000, "seed": 1}
        found = verb(model, idata, x, Z, progressbar=False, **options)
        if known:
            error = np.abs(found[f"{kind}_mean"].values - truth[kind])
            inside = error < norm.ppf((1 + LEVEL) / 2) * found[f"{kind}_sd"].values
        else:
            low, high = found[kind].quantile(tails, ["chain", "draw"]).values
            inside = (low < truth[kind]) & (truth[kind] < high)
        shares[kind] = inside.mean()
    return shares


def coverage(runs, methods=METHODS, seed=0):
    """Coverage of intervals, (run, method, kind)."""
    result = np.empty((runs, len(methods), len(KINDS)))
    for run in range(runs):
        theta, x, Z, y, truth = world(np.random.default_rng([seed, run]))
        priors = dict.fromkeys(CENTERS, prior)
        model = bx.GPX(x[:ROWS], y[:ROWS], Z[:ROWS], ard=False, scale=False, priors=priors)
        for m, method in enumerate(methods):
            options = {"chains": 2, "draws": 500, "tune": 500} if method == "nuts" else {}
            options |= {"seed": run} if method in ("nuts", "laplace") else {}
            known = method == "known"
            idata = theta if known else model.fit(method, progressbar=False, **options)
            shares = held(model, idata, x[ROWS:], Z[ROWS:], truth, known)
            result[run, m] = [shares[kind] for kind in KINDS]
    return result


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 140
    warnings.simplefilter("ignore")
    found = coverage(runs)
    print(f"{runs} runs, {ROWS} rows; share of true values in 90 % intervals, ± standard error\n")
    print("| hyperparameters | " + " | ".join(KINDS) + " |\n|" + "---|" * (1 + len(KINDS)))
    means, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(runs)
    for method, mean, error in zip(METHODS, means, errors, strict=True):
        pairs = zip(mean, error, strict=True)
        cells = ["" if np.isnan(m) else f"{m:.1%} ± {e:.1%}" for m, e in pairs]
        print(f"| {method} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
