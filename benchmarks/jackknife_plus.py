"""Do 90% jackknife+ intervals contain 90% of new responses, on real data and with wrong noise?

Each run draws rows at random: some to fit by MAP, some to calibrate, and 100 new ones. "all rows"
fits to both parts together, so its intervals are approximate; "predictive" are the intervals of
`predictions` for that fit. MAPIE has scikit-learn's Gaussian process with the hyperparameters and
scales of the first part, refitted to the calibration rows. Simulated responses have three features
and noise that no model has: of heavy tails, with a sd that grows, or skewed.
"""

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from mapie.regression import CrossConformalRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import LeaveOneOut

import bayes_gpx as bx

REAL = ["diabetes", "boston", "taipei", "fish", "wine"]
NOISE = {
    "heavy tails": lambda x, rng: rng.standard_t(2, len(x)),
    "growing sd": lambda x, rng: np.exp(x[:, 0]) * rng.normal(size=len(x)),
    "skewed": lambda x, rng: rng.exponential(1.5, len(x)) ** 1.5,
}
SIZES = {180: 20, 40: 40}
"""Runs by the number of rows to fit and to calibrate."""

NEW, PROB = 100, 0.9
QUIET = {"progressbar": False}
TABLE = Path(__file__).with_suffix(".csv")
FIELDS = ["data", "rows", "method", "runs", "coverage", "se", "width"]


def rows_of(name, rng):
    """Rows of a real data set, or simulated ones."""
    if name in NOISE:
        X = rng.normal(size=(400, 3))
        return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * NOISE[name](X, rng)
    data = bx.datasets.load(name, **({"kind": "red"} if name == "wine" else {}))
    return data.X.to_numpy(float), data.y.to_numpy(float)


def fitted(X, y):
    model = bx.GP(X, y)
    return model, model.fit("map", seed=0, **QUIET)


def by_mapie(model, idata, X, y, X_new):
    """Intervals of MAPIE, on the scales of the first part."""
    found = idata["posterior"].isel(chain=0, draw=0)
    training = model.training
    kernel = ConstantKernel(float(found["amplitude"]) ** 2) * RBF(found["lengthscale"].values)
    process = GaussianProcessRegressor(kernel, alpha=float(found["sigma"]) ** 2, optimizer=None)
    peer = CrossConformalRegressor(
        process, confidence_level=PROB, method="plus", cv=LeaveOneOut(), n_jobs=1
    )
    center, scale = training.X_scaling.center, training.X_scaling.scale
    of_y = training.y_scaling
    peer.fit_conformalize((X - center) / scale, (y - of_y.center) / of_y.scale)
    ends = peer.predict_interval((X_new - center) / scale)[1][..., 0]
    return of_y.center + of_y.scale * ends


def run(X, y, rows, rng):
    """Intervals of each method for new rows."""
    picked = rng.permutation(len(X))[: rows + NEW]
    own, new = picked[:rows], picked[rows:]
    # A rare value may be constant among few rows, and then is no feature.
    varying = [j for j in range(X.shape[1]) if np.ptp(X[own[: rows // 2 - 10], j]) > 0]
    X = X[:, varying]
    half = rows // 2 - 10 if rows > 100 else rows // 2
    first, second = own[:half], own[half:]
    part, idata = fitted(X[first], y[first])
    calibration = X[second], y[second]
    found = bx.jackknife_plus(part, idata, X[new], calibration=calibration, **QUIET)
    ends = {"jackknife_plus": found["jackknife_interval"].values}
    ends["MAPIE"] = by_mapie(part, idata, *calibration, X[new])
    whole, idata = fitted(X[own], y[own])
    try:
        found = bx.jackknife_plus(whole, idata, X[new], **QUIET)["jackknife_interval"].values
        ends["jackknife_plus, all rows"] = found
    except ValueError:  # the fit has almost no noise
        pass
    found = bx.predictions(whole, idata, X[new], keep="summary", **QUIET)
    ends["predictive"] = found["y_interval"].values
    observed, spread = y[new], y.std()
    inside = {k: ((v[:, 0] <= observed) & (observed <= v[:, 1])).mean() for k, v in ends.items()}
    width = {k: np.diff(v, axis=1).mean() / spread for k, v in ends.items()}
    return inside, width


def main():
    """Print the table."""
    warnings.simplefilter("ignore", UserWarning)  # of rows outside, and of fits with little noise
    names, began = sys.argv[1:] or [*REAL, *NOISE], time.perf_counter()
    with TABLE.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for name in names:
            for rows, runs in SIZES.items():
                rng = np.random.default_rng(17)
                each = [run(*rows_of(name, rng), rows=rows, rng=rng) for _ in range(runs)]
                for method in dict.fromkeys(m for inside, _ in each for m in inside):
                    covered = [inside[method] for inside, _ in each if method in inside]
                    widths = [width[method] for _, width in each if method in width]
                    line = dict.fromkeys(FIELDS) | {"data": name, "rows": rows, "method": method}
                    line |= {"runs": len(covered), "coverage": f"{np.mean(covered):.3f}"}
                    error = np.std(covered, ddof=1) / np.sqrt(len(covered))
                    line |= {"se": f"{error:.3f}", "width": f"{np.mean(widths):.2f}"}
                    table.writerow(line)
                    file.flush()
                    print(*line.values(), sep=", ", flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
