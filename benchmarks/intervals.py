"""Do 90% intervals of probabilities and of their derivatives have 90% coverage?

Labels come from functions drawn from the model itself, with hyperparameters from their priors, at
60 rows with two features. Intervals are checked at 20 other places. The methods are full sampling
of latent values, NUTS on Laplace's marginal, its single mode, and a sparse variational fit with 8
inducing points. The last two ignore the uncertainty of hyperparameters, so the script also shows
both posteriors of f with known hyperparameters.
"""

import sys
import warnings

import numpy as np

import bayes_gpx as bx

SIMULATIONS, ROWS, PLACES, LEVEL = 20, 60, 20, 0.9
QUIET = {"progressbar": False}
CHAINS = {"draws": 400, "tune": 400, "chains": 2}
ROADS = {
    "NUTS, latent values": (None, {"method": "nuts", "latent": "sample"} | CHAINS),
    "NUTS on Laplace's marginal": (None, {"method": "nuts"} | CHAINS),
    "Laplace, mode of hyperparameters": (None, {"method": "map"}),
    "svgp, 8 inducing points": (bx.Inducing(8), {"method": "svgp"}),
    "Laplace, hyperparameters known": (None, None),
    "svgp, hyperparameters known": (bx.Inducing(8), None),
}


def world(rng):
    """Rows with labels; places, the probability and its slopes there; hyperparameters."""
    X = rng.normal(size=(ROWS + PLACES, 2))
    lengthscale, amplitude = np.exp(rng.normal(0.5 * np.log(2) + 0.5, 0.5)), abs(rng.normal(0, 2))
    waves = rng.normal(size=(2, 2000)) / lengthscale
    shift, size = rng.uniform(0, 2 * np.pi, 2000), amplitude * np.sqrt(2 / 2000)
    weights = rng.normal(size=2000) * size
    f = np.cos(X @ waves + shift) @ weights
    slopes = -(np.sin(X @ waves + shift) * weights) @ waves.T
    p = 1 / (1 + np.exp(-f))
    slopes = slopes * (p * (1 - p))[:, None]
    y = (rng.random(ROWS) < p[:ROWS]).astype(int)
    theta = {"lengthscale": lengthscale, "amplitude": amplitude}
    return X[:ROWS], y, X[ROWS:], p[ROWS:], slopes[ROWS:], theta


def inside(draws, truth):
    """Coverage of central intervals of the draws."""
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = draws.quantile(tails, dim=("chain", "draw")).values
    return np.mean((low <= truth) & (truth <= high))


def main():
    warnings.simplefilter("ignore")
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SIMULATIONS
    found = {name: [] for name in ROADS}
    for k in range(number):
        rng = np.random.default_rng([k, 5])
        X, y, places, p, slopes, theta = world(rng)
        while len(set(y)) < 2:
            X, y, places, p, slopes, theta = world(rng)
        for name, (approximation, options) in ROADS.items():
            priors = {"lengthscale": _prior}
            model = bx.GP(
                X,
                y,
                likelihood="bernoulli",
                ard=False,
                scale=False,
                approximation=approximation,
                priors=priors,
            )
            idata = theta
            if options is not None:
                seed = {"seed": k} if options["method"] == "nuts" else {}
                idata = model.fit(**options, **seed, **QUIET)
            asked = {"seed": k, **QUIET}
            predicted = bx.predictions(model, idata, places, **asked)["probability"]
            gradient = bx.derivatives(model, idata, places, num_draws=400, **asked)["derivative"]
            found[name].append([inside(predicted, p), inside(gradient, slopes)])
    print("| fit | probabilities | their derivatives |\n|---|---|---|")
    for name, shares in found.items():
        mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(number)
        cells = [f"{m:.1%} ± {e:.1%}" for m, e in zip(mean, error, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")


def _prior(name):
    import pymc as pm

    return pm.LogNormal(name, mu=0.5 * np.log(2) + 0.5, sigma=0.5)


if __name__ == "__main__":
    main()
