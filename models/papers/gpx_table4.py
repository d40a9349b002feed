"""Table 4 of Yoshikawa and Iwata: seconds of training, and of explaining all test rows, on Digits.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

The script uses the first split. One process times all methods, one after the other, and the machine
must be otherwise idle: `load` is the number of running or waiting processes in the minute before a
method began, including this one. LIME and SHAP explain the GP with one lengthscale, and KL explains
the GP with ARD, so their training time is the time of that GP. The training time of the local
lassos is their last fit, as in the paper; `searching` is the earlier search for penalties, on the
paper's grid and one held-out fifth. Explaining is the first call, including compilation.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_info

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_data
import paper_points
import papers
from gpx_methods import METHODS, Split

NAMES = ("GPX", "LIME", "SHAP", "KL", "Localized", "Network", "ARD")
QUICK = ("GPX", "Network")
QUICK_ROWS = slice(None, 120)
SECONDS = ("training", "explaining", "searching")
TOTAL = SECONDS[:2]


def main(arguments=None):
    paper = papers.Paper("gpx_table4", __doc__, arguments)
    split = gpx_data.problem("digits", paper.folder).splits()[0]
    if paper.quick:
        split = Split(split.train.of(QUICK_ROWS), split.test.of(QUICK_ROWS))
    for name in QUICK if paper.quick else NAMES:
        paper.cells.compute(lambda: timed(name, split), data="digits", method=name)  # noqa: B023
    table = seconds(paper.cells.frame)
    paper.table(table)
    shown = table[table["metric"].isin([*TOTAL, "total"])]
    paper.figure(paper_points.plot(shown, "seconds", panel="metric", log=True))


def timed(name, split):
    """Seconds of one method, and the load of the machine."""
    load = os.getloadavg()[0]
    found = METHODS[name](split)
    said = {"training": found.training, "explaining": found.explaining} | found.notes
    said = {what: said[what] for what in SECONDS if what in said}
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    return said | {"processors": os.cpu_count(), "threads": threads, "load": load}


def seconds(cells):
    """Seconds of training, explaining, both, and searching, next to the published ones."""
    machine = cells.pivot(index="method", columns="metric", values="value")
    table = cells[cells["metric"].isin(SECONDS)].rename(columns={"value": "mean"})
    keys = ["data", "method", "metric"]
    table = table.merge(papers.published("gpx_table4"), how="left", on=keys)
    both = table[table["metric"].isin(TOTAL)].groupby(keys[:2], sort=False, as_index=False)
    total = both[["mean", "published_mean"]].sum().assign(metric="total")
    table = pd.concat([table, total])
    table = table.sort_values("method", key=lambda names: names.map(NAMES.index), kind="stable")
    table.insert(table.columns.get_loc("mean") + 1, "sd", np.nan)
    return table.merge(machine[["processors", "threads", "load"]], on="method")


if __name__ == "__main__":
    main()
