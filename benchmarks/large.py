"""Time and memory of a fit and its attributions as the rows grow to fifty thousand.

Each size runs in a process of its own: a fit of 2000 rows from one start, the fit of all rows
from there, then attributions of 1000 new rows with sd. Eight features of which four matter.
"""

import resource
import subprocess
import sys
import time

import numpy as np

import bayes_gpx as bx

SIZES = (2_000, 10_000, 50_000)
APPROXIMATIONS = {"inducing": bx.Inducing(200), "features": bx.RandomFeatures(300)}
START = {"lengthscale": [3.0] * 8, "amplitude": 1.0, "sigma": 0.5}


def simulated(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(n, 8))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3] ** 2
    return X, f, f + 0.3 * rng.normal(size=n)


def measure(name, n):
    X, _, y = simulated(n)
    X_new, f_new, _ = simulated(1000)
    X_new, options = 0.9 * X_new, {"approximation": APPROXIMATIONS[name]}
    f_new = np.sin(2 * X_new[:, 0]) + 0.5 * X_new[:, 1] * X_new[:, 2] + 0.3 * X_new[:, 3] ** 2
    begun = time.perf_counter()
    first = bx.GP(X[:2000], y[:2000], **options).fit(start=START, progressbar=False)
    early = time.perf_counter()
    model = bx.GP(X, y, **options)
    idata = model.fit(start=first, progressbar=False)
    fitted = time.perf_counter()
    bx.attributions(model, idata, X_new, keep="summary", progressbar=False)
    ended = time.perf_counter()
    found = bx.predictions(model, idata, X_new, keep="summary", progressbar=False)
    error = np.sqrt(np.mean((found["f_mean"].values - f_new) ** 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = f"{early - begun:.0f} | {fitted - early:.0f} | {ended - fitted:.1f}"
    print(f"| {name} | {n} | {seconds} | {peak:.2f} | {error:.3f} |", flush=True)


def main():
    print("| by | rows | fit of 2000, s | fit, s | 1000 attributions, s | peak GB | error of f |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in APPROXIMATIONS:
        for n in SIZES:
            subprocess.run([sys.executable, __file__, name, str(n)], check=True)


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else main()
