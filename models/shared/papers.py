"""Cached cells and published numbers, shared by the scripts for the papers.

A cell contains a few numbers for one method on one data set and split, or for one simulation. It
can take an hour, so it is stored in `cells/` at once and never computed again. If a script is
stopped, the next run continues from there. To compute a cell again, delete its rows.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import arviz as az
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import t as student_t

OUTPUT = Path(__file__).resolve().parents[1] / "papers" / "output"
PUBLISHED = Path(__file__).with_name("published.csv")
"""Numbers of the papers' tables: table, data, method, metric, mean, sd."""


class Paper:
    """One run of a script: its arguments, its cells, and the folder for tables and figures.

    `name` is the name of the table or figure and of the script. Scripts with equal `cells` share
    them. `quick` marks small computations with another result folder, `folder` contains the data
    sets, and `only` lists the requested data sets (all if empty).
    """

    def __init__(self, name, description, arguments=None, *, cells=None):
        parser = argparse.ArgumentParser(
            prog=f"{name}.py",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--quick", action="store_true", help="minutes, in place of hours")
        parser.add_argument("--data", help="folder of the data sets (default: $BAYES_GPX_DATA)")
        parser.add_argument("--only", nargs="+", default=[], help="compute these data sets alone")
        parser.add_argument(
            "--out",
            type=Path,
            help="folder of tables and figures (default: output/, with --quick results/papers)",
        )
        given = parser.parse_args(arguments)
        self.name, self.quick = name, given.quick
        self.folder, self.only = given.data, given.only
        self.out = given.out or (Path("results", "papers") if given.quick else OUTPUT)
        self.cells = Cells(self.out / "cells" / f"{cells or name}.csv")
        matplotlib.use("Agg")
        az.style.use("arviz-variat")

    def table(self, frame, suffix=""):
        """Write the table as `name`.csv."""
        _replace(frame, self.out / f"{self.name}{suffix}.csv")
        print(frame.to_string(index=False, float_format=lambda v: f"{v:.3f}"), flush=True)

    def beside_published(self, summary, metric=None):
        """Write and return a summary with the published mean and sd of each cell.

        `summary` contains data, method, metric, mean and sd. Published cells without a computed
        value stay empty. Pass `metric` if all metrics are readings of one published metric.
        """
        numbers = published(self.name)
        keys = ["data", "method", "metric"]
        if metric is not None:
            readings = [name for name in summary["metric"].unique() if name.startswith(metric)]
            numbers = numbers.drop(columns="metric").merge(
                pd.DataFrame({"metric": readings}), "cross"
            )
        every = pd.concat([numbers[keys], summary[keys]]).drop_duplicates()
        table = every.merge(summary, how="left", on=keys)
        table = table.merge(numbers, how="left", on=keys)
        self.table(table)
        return table

    def arrays(self, task, name):
        """Load named arrays of a cell from disk, or compute and store them."""
        path = self.cells.path.parent / f"{self.cells.path.stem}_{name}.npz"
        if not path.is_file():
            print(f"{path.stem} ...", end=" ", flush=True)
            start = time.perf_counter()
            found = task()
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as new:
                np.savez_compressed(new, **found)
            os.chmod(new.name, 0o644)
            os.replace(new.name, path)
            print(f"{time.perf_counter() - start:.0f} s", flush=True)
        with np.load(path) as held:
            return dict(held)

    def figure(self, figure, suffix=""):
        """Write the figure as `name`.png."""
        self.out.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out / f"{self.name}{suffix}.png", dpi=100)
        plt.close("all")


class Cells:
    """Numbers by keys, stored in a CSV file as soon as they are computed.

    The file has a column for each key, `metric` and `value`.
    """

    def __init__(self, path):
        self.path = path
        text = dict.fromkeys(("metric", "data", "method"), str)
        self.frame = pd.read_csv(path, dtype=text) if path.is_file() else pd.DataFrame()

    def get(self, **keys):
        """Numbers of a cell by metric, or None if it was not computed."""
        if self.frame.empty:
            return None
        same = np.logical_and.reduce([self.frame[name] == value for name, value in keys.items()])
        found = self.frame[same]
        return None if found.empty else dict(zip(found["metric"], found["value"], strict=True))

    def compute(self, task, **keys):
        """Load the numbers of a cell, or compute them with a line of progress."""
        found = self.get(**keys)
        if found is not None:
            return found
        what, start = " ".join(map(str, keys.values())), time.perf_counter()
        print(f"{self.path.stem}: {what} ...", end=" ", flush=True)
        found = {name: float(value) for name, value in task().items()}
        rows = pd.DataFrame({**keys, "metric": list(found), "value": list(found.values())})
        known = pd.read_csv(self.path) if self.path.is_file() else None  # others may have written
        self.frame = rows if known is None else pd.concat([known, rows], ignore_index=True)
        _replace(self.frame, self.path)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
        return found


def published(table):
    """A table's published numbers: data, method, metric, published_mean, published_sd."""
    found = pd.read_csv(PUBLISHED).query("table == @table").drop(columns="table")
    return found.rename(columns={"mean": "published_mean", "sd": "published_sd"})


def over_splits(frame, metrics):
    """Mean and sd over splits of some metrics: data, method, metric, mean, sd, splits.

    The sd divides by the number of splits, as in the papers; a single split has none.
    """
    chosen = frame[frame["metric"].isin(metrics)]
    grouped = chosen.groupby(["data", "method", "metric"], sort=False)["value"]
    found = grouped.agg(mean="mean", sd=lambda v: v.std(ddof=0), splits="count").reset_index()
    return found.assign(sd=found["sd"].where(found["splits"] > 1))


def means(frame, by):
    """Mean of `value` in each group, with its 95% interval by Student's t: mean, low, high."""
    found = frame.groupby(by, sort=False)["value"].agg(mean="mean", se="sem", runs="count")
    half = student_t.ppf(0.975, found["runs"] - 1) * found.pop("se")
    return found.assign(low=found["mean"] - half, high=found["mean"] + half).reset_index()


def _replace(frame, path):
    """Write a whole new file, then replace the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=".", suffix=".csv", delete=False
    ) as new:
        frame.to_csv(new, index=False, float_format="%.6g")
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)
