"""Explain the probability of a class: draws joint within rows, next to random functions.

A Bernoulli GP of 500 rows and 10 columns with fixed hyperparameters explains 20 rows with sds from
1,000 draws. ``joint=True`` follows random functions, as all calls did before. CPU seconds of the
second call, on one core: set the number of BLAS threads to 1.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_gpx as bx

N, D, ROWS = 500, 10, 20
OPTIONS = {"progressbar": False, "keep": "summary", "seed": 1}


def seconds(call):
    """CPU seconds of the second call, whose functions are compiled."""
    call()
    started = time.process_time()
    call()
    return time.process_time() - started


def main(quick=False):
    """Print the table, and store it next to this script."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    odds = X[:, 0] + X[:, 1] * X[:, 2]
    y = rng.uniform(size=N) < 1 / (1 + np.exp(-odds))
    theta = {"lengthscale": np.full(D, 2.5), "amplitude": 1.5}
    model = bx.GP(X, y.astype(int), likelihood="bernoulli")
    calls = {
        "attributions": bx.attributions,
        "derivatives": bx.derivatives,
        "shapley_values": bx.shapley_values,
    }
    table = []
    for name, explain in calls.items():
        rows = X[: 2 if quick else ROWS]
        own = seconds(lambda: explain(model, theta, rows, **OPTIONS))  # noqa: B023
        functions = seconds(lambda: explain(model, theta, rows, joint=True, **OPTIONS))  # noqa: B023
        table.append({"call": name, "rows": len(rows), "by row": own, "by functions": functions})
    variables = {"x0": (0.0, 1.0)}
    rows = X[: 20 if quick else 200]
    own = seconds(lambda: bx.comparisons(model, theta, rows, variables=variables, **OPTIONS))
    table.append({"call": "comparisons", "rows": len(rows), "by row": own})
    found = pd.DataFrame(table).round(3)
    print(found.to_string(index=False))
    if not quick:
        found.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main("--quick" in sys.argv)
