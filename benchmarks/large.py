"""Time and memory of a fit and its attributions for up to a hundred thousand rows.

Each size runs in its own process: a fit of 2000 rows from one starting point, the fit of all rows
from its optimum, then attributions of 1000 new rows with sd. Four of eight features matter.
"""

import resource
import subprocess
import sys
import time

import numpy as np

import bayes_gpx as bx

SIZES = (1_000, 10_000, 50_000, 100_000)
START = {"lengthscale": [3.0] * 8, "amplitude": 1.0, "sigma": 0.5}


def simulated(n, rng, reach=2.0):
    X = rng.uniform(-reach, reach, size=(n, 8))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3] ** 2
    return X, f, f + 0.3 * rng.normal(size=n)


def measure(n):
    rng, options = np.random.default_rng(0), {"approximation": bx.Inducing(200)}
    (X, _, y), (X_new, f_new, _) = simulated(n, rng), simulated(1000, rng, reach=1.8)
    begun = time.perf_counter()
    first = bx.GP(X[:2000], y[:2000], **options).fit("map", start=START, progressbar=False)
    early = time.perf_counter()
    model = bx.GP(X, y, **options)
    idata = model.fit("map", start=first, progressbar=False)
    fitted = time.perf_counter()
    bx.attributions(model, idata, X_new, keep="summary", progressbar=False)
    ended = time.perf_counter()
    found = bx.predictions(model, idata, X_new, keep="summary", progressbar=False)
    error = np.sqrt(np.mean((found["f_mean"].values - f_new) ** 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = f"{early - begun:.0f} | {fitted - early:.0f} | {ended - fitted:.1f}"
    print(f"| {n} | {seconds} | {peak:.2f} | {error:.3f} |", flush=True)


def main():
    print("| rows | fit of 2000, s | fit, s | 1000 attributions, s | peak GB | error of f |")
    print("|---|---|---|---|---|---|", flush=True)
    for n in SIZES:
        subprocess.run([sys.executable, __file__, str(n)], check=True)


if __name__ == "__main__":
    measure(int(sys.argv[1])) if len(sys.argv) > 1 else main()
