"""Compare the time that a call announces with the time that it takes, for 30 calls.

A call announces its first long step by the second draw. Each line has the sum of what a call
announced, and the seconds from its first announcement to its end.
"""

import csv
import io
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.draws import turns

ROWS, CHAINS, DRAWS = 353, 2, 100
TABLE = Path(__file__).with_suffix(".csv")
LIKELIHOODS = {"GP": "normal", "GPX": "normal", "labels": "bernoulli", "counts": "poisson"}
CALLS = {
    "GP": "predictions derivatives attributions shapley_values slopes comparisons relevance "
    "interactions partial_dependence importances",
    "GPX": "predictions weights contributions derivatives attributions shapley_values slopes "
    "relevance",
    "labels": "predictions attributions derivatives shapley_values slopes relevance",
    "counts": "predictions attributions derivatives shapley_values slopes relevance",
}


def fitted(kind):
    """A model of diabetes, and draws around plausible hyperparameters."""
    data = bx.datasets.load("diabetes")
    X, y = data.X[:ROWS], data.y[:ROWS]
    if kind == "labels":
        y = (y > y.median()).astype(int)
    if kind == "counts":
        y = (y / 25).round().astype(int)
    make = bx.GPX if kind == "GPX" else bx.GP
    model, rng = make(X, y, ard=False, likelihood=LIKELIHOODS[kind]), np.random.default_rng(0)
    centers = {"lengthscale": 4.0, "amplitude": 0.6, "sigma_w": 0.05, "sigma": 0.68}
    draws = {
        name: (("chain", "draw"), centers[name] * np.exp(0.1 * rng.normal(size=(CHAINS, DRAWS))))
        for name in model.hyperparameters
    }
    return model, xr.DataTree.from_dict({"posterior": xr.Dataset(draws)}), data.X[ROWS:]


def announced(call):
    """Seconds that a call announces, and that it takes from then on."""
    first, announce = [], turns.announce

    def noted(what, seconds, more="."):
        first.append((time.perf_counter(), seconds))
        announce(what, seconds, more)

    turns.announce = noted
    try:
        with redirect_stderr(io.StringIO()):
            call()
    finally:
        turns.announce = announce
    ended = time.perf_counter()
    return sum(seconds for _, seconds in first), ended - first[0][0] if first else np.nan


def main(quick=False):
    found = []
    for kind, names in CALLS.items():
        model, idata, X_new = fitted(kind)
        rows = X_new[: 5 if quick else 60]
        for name in names.split():
            told, took = announced(lambda: getattr(bx, name)(model, idata, rows, seed=1))  # noqa: B023
            row = {"model": kind, "call": name, "announced, s": told, "took, s": took}
            row["ratio"] = told / took
            found.append({k: v if isinstance(v, str) else f"{v:.2g}" for k, v in row.items()})
            print(found[-1], flush=True)
    ratios = np.array([float(row["ratio"]) for row in found])
    print(f"{(abs(np.log2(ratios)) <= 1).sum()} of {len(ratios)} within a factor of two")
    if not quick:
        with TABLE.open("w", newline="") as file:
            writer = csv.DictWriter(file, found[0])
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main("--quick" in sys.argv)
