"""How often do permuted columns and refits call noise relevant, and real features?

Data sets have four real features (a sine, a product of two, a line) and four columns of noise. A
fifth column has correlation .8 with the first real feature and no effect given this feature. The
script prints the proportion of p-values of at most .05 by kind of column, with seconds, and writes
all p-values.

    python benchmarks/null.py [--sets 50] [--real 10] [--out docs/_static/null.csv]
"""

import argparse
import time

import numpy as np
import pandas as pd

import bayes_gpx as bx

REAL, NOISE, ECHO = [f"real_{k}" for k in range(4)], [f"noise_{k}" for k in range(4)], "echo"


def data_set(n, seed):
    """Features and response of a data set."""
    rng = np.random.default_rng([n, seed])
    X = pd.DataFrame(rng.normal(size=(n, 8)), columns=[*REAL, *NOISE])
    X[ECHO] = 0.8 * X["real_0"] + 0.6 * rng.normal(size=n)
    f = np.sin(X["real_0"]) + 0.7 * X["real_1"] * X["real_2"] + 0.5 * X["real_3"]
    return X, f + 0.5 * rng.normal(size=n)


def p_values(n, seed, features):
    """p-values of some features, and the seconds per refit."""
    X, y = data_set(n, seed)
    model = bx.GP(X, y)
    idata = model.fit("map", seed=seed, progressbar=False)
    begun = time.process_time()
    found = bx.relevance(
        model, idata, features=features, null=True, seed=seed, keep="summary", progressbar=False
    )
    seconds = (time.process_time() - begun) / (19 * len(features))
    return found["relevance_p"].to_series(), seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=[100, 400])
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--real", type=int, default=10, help="sets that real features are tried on")
    parser.add_argument("--out", default=None)
    given = parser.parse_args()
    lines = []
    for n in given.rows:
        for seed in range(given.sets):
            features = [*NOISE, ECHO, *(REAL if seed < given.real else [])]
            found, seconds = p_values(n, seed, features)
            for feature, p in found.items():
                kind = feature.partition("_")[0]
                lines.append(dict(rows=n, set=seed, feature=feature, kind=kind, p=p, cpu_s=seconds))
            if given.out:
                pd.DataFrame(lines).to_csv(given.out, index=False)
    table = pd.DataFrame(lines)
    table["called relevant"] = table["p"] <= 0.05
    by = {"p": "count", "called relevant": "mean", "cpu_s": "mean"}
    print(table.groupby(["rows", "kind"]).agg(by).round(4).to_string())


if __name__ == "__main__":
    main()
