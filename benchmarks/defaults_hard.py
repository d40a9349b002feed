"""Score the defaults on data that defeated earlier defaults, and on sets that must not get worse.

Scores are the scores of `defaults.py`, as means over splits, for these groups:

- wine: red wine, five random 90/10 splits. A fifth of the rows repeat others with the same rating.
- repeated: five real sets with a response rounded to a few values and a proportion of repeated
  training rows. Held-out rows are not repeated.
- twelve: `WORLDS` data sets of twelve rows and three columns; only the first column matters.
- known: diabetes, Boston, fish and concrete, five random 90/10 splits. "GP map before" is the
  earlier default: the mode of the hyperparameters themselves, without a lower bound of sigma.

    python benchmarks/defaults_hard.py [--groups NAME ...] [--data FOLDER] [--workers 2]
        [--out docs/_static/defaults_hard.csv]
"""

import argparse
import gzip
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_gpx as bx
import defaults
from defaults_data import CHOOSE, REAL, DataSet, one_of_many, parts, simulate

OUT = Path("docs/_static/defaults_hard.csv")
SPLITS, WORLDS = 5, 12

REPEATED = {"diabetes": (0.1, 10), "Auto": (0.2, 8), "Prestige": (0.3, 12), "Credit": (0.4, 20),
            "mtcars": (0.5, 8)}  # fmt: skip
"""Proportion of repeated rows, and number of values of the response, by data set."""


def named(name):
    data = bx.datasets.load(name)
    return data.X, data.y


def concrete():
    path = Path(os.environ[bx.datasets.FOLDER_VARIABLE]) / "uci_splits" / "concrete.json.gz"
    held = json.loads(gzip.open(path).read())
    return pd.DataFrame(held["X"]).add_prefix("x"), pd.Series(held["y"], name="strength")


def split(load, seed, share=0.1):
    X, y = load()
    order = np.random.default_rng([3, seed]).permutation(len(y))
    held_out = round(share * len(y))
    return parts(X, y, np.sort(order[held_out:]), np.sort(order[:held_out]))


def repeated(name, seed):
    """Round the response, and repeat some of the training rows."""
    share, values = REPEATED[name]
    X, X_test, y, y_test = split(REAL[name][2], seed, 0.25)
    step = np.ptp(y) / (values - 1)
    y, y_test = (step * (v / step).round() for v in (y, y_test))
    rng = np.random.default_rng([4, seed])
    twice = np.r_[np.arange(len(y)), rng.choice(len(y), round(share * len(y)), replace=False)]
    return (
        X.iloc[twice].reset_index(drop=True),
        X_test,
        y.iloc[twice].reset_index(drop=True),
        y_test,
    )


def sets():
    """Group, data set, number of splits and models."""
    usual = ("ridge", "GP map", "GP")
    make = partial(DataSet, half=CHOOSE, source="real", likelihood="normal")
    yield "wine", make("wine", kind="rounded", split=partial(split, partial(named, "wine"))), (
        SPLITS, usual)  # fmt: skip
    for name in REPEATED:
        yield "repeated", make(f"{name}, repeated", kind="rounded",
                               split=partial(repeated, name)), (SPLITS, usual)  # fmt: skip
    worlds = partial(simulate, partial(one_of_many, d=3), 12, False)
    few = make("twelve rows", kind="few rows", split=worlds)
    yield "twelve", few, (WORLDS, (*usual, "GPX"))
    known = {name: partial(named, name) for name in ("diabetes", "boston", "fish")}
    for name, load in (known | {"concrete": concrete}).items():
        data = make(name, kind="plain", split=partial(split, load))
        yield "known", data, (SPLITS, ("ridge", "GP map before", "GP map", "GP"))


def fitted(name, seed, models):
    (data,) = (data for _, data, _ in sets() if data.name == name)
    found = [defaults.row(data, seed, model) for model in models]
    return pd.DataFrame(found, columns=defaults.COLUMNS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", nargs="+", default=["twelve", "repeated", "wine", "known"])
    parser.add_argument("--data", help="folder of the data sets that no package ships")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.data:
        os.environ[bx.datasets.FOLDER_VARIABLE] = given.data
    os.environ |= defaults.ONE_THREAD
    out, kept = given.out, defaults.KEY
    done = set(pd.read_csv(out)[kept].itertuples(index=False, name=None)) if out.exists() else set()
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        tasks = []
        for group, data, (splits, models) in sets():
            for seed in range(splits if group in given.groups else 0):
                missing = [m for m in models if (data.name, seed, m) not in done]
                if missing:
                    tasks.append(pool.submit(fitted, data.name, seed, missing))
        for task in as_completed(tasks):
            table = task.result()
            table.to_csv(out, mode="a", header=not out.exists(), index=False, float_format="%.6g")
            print(table[[*kept, "log_score", "cpu_s", "error"]].to_string(header=False), flush=True)
    table = pd.read_csv(out)
    table["messages"] = table["messages"].notna() | table["messages_predicting"].notna()
    how = dict.fromkeys(["rmse", "log_score", "coverage", "width", "cpu_s", "messages"], "mean")
    how |= {"sigma": "min", "split": "count"}
    print(table.groupby(["set", "model"], sort=False).agg(how).round(3).to_string())


if __name__ == "__main__":
    main()
