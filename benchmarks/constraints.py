"""How much is a constraint worth? A monotone dose response from few noisy rows.

The script fits models without constraints, with a right one and with a wrong one. It prints the
error of the function, the coverage and width of its 90% intervals, leave-one-out densities, and the
inferred lengthscale. The number of data sets is an optional argument; 15 take about 5 minutes.
"""

import sys
import warnings

import numpy as np
import pandas as pd

import bayes_gpx as bx

ROWS, NOISE, LEVEL = 8, 1.5, 0.9
CONSTRAINTS = {
    "none": [],
    "increasing": [bx.constraints.Increasing("dose")],
    "decreasing": [bx.constraints.Decreasing("dose")],
}


def response(dose):
    """Emax curve, between 0 and 8."""
    return 10.0 * dose / (2.5 + dose)


def scores(seed):
    """Scores of each set of constraints for one data set."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, ROWS)})
    y = response(X["dose"]) + rng.normal(0, NOISE, ROWS)
    new = pd.DataFrame({"dose": np.linspace(*X["dose"].agg(["min", "max"]), 50)})
    found = {}
    for name, constraints in CONSTRAINTS.items():
        model = bx.GP(X, y.rename("y"), constraints=constraints)
        fit = model.fit("laplace", draws=200, seed=seed, progressbar=False)
        f = bx.predictions(model, fit, new, ci_prob=LEVEL, keep="summary", progressbar=False)
        low, high = f["f_interval"].values.T
        truth = response(new["dose"].to_numpy())
        terms = fit["log_likelihood"]["y"].values.reshape((-1, ROWS))
        found[name] = {
            "error": np.sqrt(np.mean((f["f_mean"].values - truth) ** 2)),
            "coverage": np.mean((low < truth) & (truth < high)),
            "width": np.mean(high - low),
            "elpd": -np.log(np.exp(-terms).mean(axis=0)).sum(),
            "lengthscale": float(fit["posterior"]["lengthscale"].median()),
            "sigma": float(fit["posterior"]["sigma"].median()),
        }
    return pd.DataFrame(found).T


if __name__ == "__main__":
    warnings.simplefilter("ignore", bx.ConvergenceWarning)
    warnings.simplefilter("ignore", bx.ConstraintConflictWarning)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    every = []
    for seed in range(runs):
        every.append(scores(seed))
        mean = sum(every) / len(every)
        print(f"{len(every)} data sets, means:\n{mean.round(2)}", flush=True)
    error = np.std(every, axis=0, ddof=1) / np.sqrt(runs)
    print("standard errors:", pd.DataFrame(error, mean.index, mean.columns).round(2), sep="\n")
