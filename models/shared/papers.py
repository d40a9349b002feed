"""What the scripts after the papers share: cells computed once, tables beside published numbers.

A cell is what one method says of one data set and split, or one simulation: a few numbers that may
take an hour. It is on disk as soon as it is known, in `cells/`, and is never computed again; a
script that is killed goes on where it stopped. Delete its rows to compute it again.
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

DOCS = Path(__file__).resolve().parents[2] / "docs" / "papers"
PUBLISHED = Path(__file__).with_name("published.csv")
"""Numbers of the papers' tables: table, data, method, metric, mean, sd."""


class Paper:
    """One run of a script: its arguments, its cells, and where tables and figures go.

    Parameters
    ----------
    name : str
        Of the table or figure, and of the script.
    description : str
        Shown by ``--help``.
    arguments : list of str or None
        None for those of the command line.
    cells : str
        Scripts that name the same cells share them.

    Attributes
    ----------
    quick : bool
        Small and few computations, whose results go to another folder.
    folder : str or None
        Of the data sets.
    only : list of str
        Data sets that are asked for; all if empty.
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
            help="folder of tables and figures (default: docs/papers, with --quick results/papers)",
        )
        given = parser.parse_args(arguments)
        self.name, self.quick = name, given.quick
        self.folder, self.only = given.data, given.only
        self.out = given.out or (Path("results", "papers") if given.quick else DOCS)
        self.cells = Cells(self.out / "cells" / f"{cells or name}.csv")
        matplotlib.use("Agg")
        az.style.use("arviz-variat")

    def table(self, frame, suffix=""):
        """Write the table as `name`.csv."""
        _replace(frame, self.out / f"{self.name}{suffix}.csv")
        print(frame.to_string(index=False, float_format=lambda v: f"{v:.3f}"), flush=True)

    def beside_published(self, summary, metric=None):
        """Write a summary with the published mean and sd of each cell of the table beside it.

        Cells that were published and are not computed are left empty.

        Parameters
        ----------
        summary : DataFrame
            data, method, metric, mean, sd.
        metric : str, optional
            What was published, if each metric is another reading of it.

        Returns
        -------
        DataFrame
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
        """Arrays by name that belong to a cell, on disk or as the task returns them."""
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
    """Numbers by keys, on disk from the moment they are known.

    Parameters
    ----------
    path : Path
        A CSV file with a column for each key, `metric` and `value`.
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
        """Numbers of a cell: those on disk, or what the task returns, with a line of progress."""
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

    The sd divides by the number of splits, as the published ones do; of one split there is none.
    """
    chosen = frame[frame["metric"].isin(metrics)]
    grouped = chosen.groupby(["data", "method", "metric"], sort=False)["value"]
    found = grouped.agg(mean="mean", sd=lambda v: v.std(ddof=0), splits="count").reset_index()
    return found.assign(sd=found["sd"].where(found["splits"] > 1))


def means(frame, by):
    """Mean over simulations or splits with its 95 % interval, by Student's t: mean, low, high.

    Parameters
    ----------
    frame : DataFrame
        With a column `value`.
    by : list of str
        Columns that tell what is averaged apart.
    """
    found = frame.groupby(by, sort=False)["value"].agg(mean="mean", se="sem", runs="count")
    half = student_t.ppf(0.975, found["runs"] - 1) * found.pop("se")
    return found.assign(low=found["mean"] - half, high=found["mean"] + half).reset_index()


def _replace(frame, path):
    """Write a whole new file, then put it in the place of the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=".", suffix=".csv", delete=False
    ) as new:
        frame.to_csv(new, index=False, float_format="%.6g")
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)
