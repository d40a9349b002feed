"""Do 90% intervals of explanations by this and other packages hold the truth?

    python benchmarks/league [--runs N] [--cores N] [--only TRUTH ...] [--picture FILE]

Each data set of `truths.py` is explained by each method, and every interval is compared with the
truth of its own question: a method on the scale of logits is scored there, and one that centers its
curves by centered curves. The scores of each data set are lines of `cells.csv`; a data set that is
there is not repeated, so a call that was stopped goes on. The table `league.csv` has the coverage
with its standard error over data sets. A data set takes about a minute of a processor.
"""

import argparse
import csv
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import truths
from answer import PROB
from cells import OURS, scored

FOLDER = Path(__file__).parent
CELLS, TABLE, WARNED = (FOLDER / f"{name}.csv" for name in ("cells", "league", "warned"))
SCORES = ["count", "held", "width", "error", "claims", "wrong"]
FIELDS = ["truth", "run", "method", "estimand", *SCORES, "spread", "seconds", "said", "beyond"]
ERRORS = 3
"""Standard errors that the coverage may lie from 90% in a well-specified cell."""


def compute(names, runs, cores):
    """Add the data sets that are missing, run by run, so that every truth has its share."""
    done = set()
    if CELLS.exists():
        cells = pd.read_csv(CELLS, usecols=["truth", "run"])
        done = set(zip(cells["truth"], cells["run"], strict=True))
    asked = [(n, run) for run in range(runs) for n in names if (n, run) not in done]
    began = time.perf_counter()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes below, one for each core
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=spawn) as pool:
        waiting = {pool.submit(scored, *each): each for each in asked}
        for count, future in enumerate(as_completed(waiting), start=1):
            if future.exception():
                pool.shutdown(cancel_futures=True)
            lines = future.result()
            new = not CELLS.exists()
            with CELLS.open("a", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(FIELDS)
                writer.writerows(lines)
            took = time.perf_counter() - began
            print(f"{count} of {len(asked)}: {waiting[future]}, {took:.0f} s", file=sys.stderr)


def summarize(cells):
    """Coverage of each cell with its standard error over data sets, and whether it passes."""
    cells = cells.assign(coverage=cells["held"] / cells["count"])
    by = cells.groupby(["estimand", "truth", "method"], sort=False)
    total = by[["claims", "wrong", "count"]].sum()
    table = pd.DataFrame({"runs": by.size(), "coverage": by["coverage"].mean()})
    table["se"] = by["coverage"].std() / np.sqrt(table["runs"])
    table["low"], table["high"] = (table["coverage"] + s * ERRORS * table["se"] for s in (-1, 1))
    table["width"] = by["width"].mean() / by["spread"].mean()
    table["error"] = by["error"].mean() / by["spread"].mean()
    table["claims"] = total["claims"] / total["count"]
    table["wrong claims"] = (total["wrong"] / total["claims"]).where(total["claims"] > 0)
    table["seconds"] = by["seconds"].mean()
    table = table.reset_index()
    judged = table["truth"].isin(truths.WELL_SPECIFIED) & table["method"].isin(OURS)
    inside = (table["low"] <= PROB) & (PROB <= table["high"])
    table["passes"] = np.where(judged, np.where(inside, "yes", "no"), "")
    return table


COLORS = {
    "GP, MAP": "C0",
    "GP, Laplace": "C3",
    "GPX, MAP": "C9",
    "EBM, bags": "C2",
    "stochtree BART": "C1",
    "pygam": "C4",
    "linear, HC3": "0.55",
    "marginaleffects, spline GLM": "0.25",
    "TreeSHAP, bootstrap": "C5",
    "GP + KernelSHAP, bootstrap": "C6",
}


def draw(table, path):
    """Plot the coverage of each question: a column for each truth, a point for each method."""
    estimands, known = table["estimand"].unique(), list(truths.TRUTHS)
    rows = -(-len(estimands) // 2)
    shape = {"sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(rows, 2, figsize=(10, 1.9 * rows + 1.2), **shape)
    for ax, estimand in zip(axes.flat, estimands, strict=False):
        ax.axhline(PROB, color="0.4", linewidth=0.8)
        ax.axvline(len(truths.WELL_SPECIFIED) - 0.5, color="0.8", linewidth=0.8)
        own = table[table["estimand"] == estimand]
        methods = [method for method in COLORS if method in set(own["method"])]
        for k, method in enumerate(methods):
            part = own[own["method"] == method]
            x = part["truth"].map(known.index) + 0.7 * ((k + 0.5) / len(methods) - 0.5)
            told = {"color": COLORS[method], "label": method, "markersize": 4}
            mark = "o" if method in OURS else "x"
            bars = 2 * part["se"].fillna(0)
            ax.errorbar(x, part["coverage"], bars, fmt=mark, elinewidth=0.8, **told)
        ax.set(title=estimand.replace("_", " "), ylim=(0, 1.07), yticks=[0, 0.5, PROB])
        ax.set_xlim(-0.6, len(known) - 0.4)
        turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(known)), known, **turned)
    for ax in axes[:, 0]:
        ax.set_ylabel("coverage")
    found = [ax.get_legend_handles_labels() for ax in axes.flat]
    handles = {label: h for pair in found for h, label in zip(*pair, strict=True)}
    labels = [method for method in COLORS if method in handles]
    figure.legend([handles[m] for m in labels], labels, loc="outside upper center", ncols=4)
    figure.savefig(path, dpi=130)


def main():
    """Compute what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=truths.TRUTHS, choices=truths.TRUTHS)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    compute(asked.only, asked.runs, asked.cores)
    cells = pd.read_csv(CELLS, keep_default_na=False)
    numbers = [*SCORES, "spread", "seconds", "beyond"]
    cells[numbers] = cells[numbers].apply(pd.to_numeric)
    table = summarize(cells)
    table.to_csv(TABLE, index=False, float_format="%.3g")
    if asked.picture:
        draw(table, asked.picture)
    wide = table.pivot(index=["estimand", "method"], columns="truth", values="coverage")
    print((100 * wide[list(dict.fromkeys(table["truth"]))]).round(0).to_string(na_rep=""))
    own = cells[cells["method"].isin(OURS)].drop_duplicates(["truth", "run", "method"])
    own = own.assign(runs=1, fit=own["said"] != "")
    shares = {"runs": "sum", "fit": "mean", "beyond": "mean"}
    warned = own.groupby(["truth", "method"], sort=False).agg(shares)
    warned.to_csv(WARNED, float_format="%.3g")
    print(warned.to_string())


if __name__ == "__main__":
    main()
