"""Four grades of a disease: does a model with correlated classes find their order?

A softmax model has one latent function per class. The functions are independent in

    C. K. I. Williams and D. Barber, "Bayesian classification with Gaussian processes", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 20 (1998) 1342-1351,

so a class gains no information from the others. Here classes share functions, as outputs do in

    E. V. Bonilla, K. M. A. Chai and C. K. I. Williams, "Multi-task Gaussian process prediction",
    Advances in Neural Information Processing Systems 20 (2008).

The progression of diabetes is cut into four grades with equal numbers of patients. The model does
not receive their order. How probable are the grades of held-out patients if classes share no
function, one or two? Species of iris and digits have no order; with them the script checks that
shared functions do no harm.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

GRADES = ["mild", "moderate", "serious", "severe"]
SPLITS, HELD_OUT = 3, 500
ROWS = {"diabetes": 100, "iris": 75, "digits": 100}
"""Number of training rows."""
ALIKE = [1, 3, 5, 8, 9]
"""Digits that are easily confused."""


def main(arguments=None):
    run = script.Run("gpc_grades", __doc__, arguments, data="diabetes", method="map")
    grades = pd.qcut(run.data.y, len(GRADES), labels=GRADES).astype(str).rename("grade")
    digits = run.second("digits")
    ours = digits.y.isin(ALIKE)
    pixels = digits.X.loc[ours, digits.X[ours].std() > 1.0]
    iris = run.second("iris")
    tables = {
        "diabetes": (run.data.X, grades),
        "iris": (iris.X, iris.y),
        "digits": (pixels, digits.y[ours].astype(str)),
    }
    scores = []
    for name, (X, y) in tables.items():
        for split in range(SPLITS):
            train, test = train_test_split(
                np.arange(len(y)), train_size=ROWS[name], random_state=split, stratify=y
            )
            test = test[:HELD_OUT]
            for rank in (0, 1, 2):
                options = {"likelihood": "categorical", "ard": False, "correlation": rank}
                model = bx.GP(X.iloc[train], y.iloc[train], **options)
                if name == "diabetes" and split == 0:
                    idata = run.fit(model, suffix=f"_{rank}")
                    if rank == 1:
                        run.figure(plot_covariance(idata, y.name), "grades")
                else:
                    idata = model.fit(run.method, seed=run.seed, progressbar=False)
                predicted = bx.predictions(
                    model, idata, X.iloc[test], keep="summary", seed=run.seed, progressbar=False
                )
                own = script.classified(predicted, y.iloc[test]).set_index("score")["value"]
                scores.append({"data": name, "split": split, "correlation": rank, **own})
    table = pd.DataFrame(scores)
    run.table(table, "scores")
    means = table.groupby(["data", "correlation"], sort=False).mean().drop(columns="split")
    print(f"\nOn rows that were held out, means of {SPLITS} splits:\n{means.round(3).to_string()}")
    run.figure(plot_scores(table), "scores")


def plot_covariance(idata, what):
    """Plot the centered covariance H B H of the grades, in order, with its numbers."""
    found = idata["posterior"]["output_covariance_centred"].mean(("chain", "draw"))
    found = found.sel({"class": GRADES, "class_bis": GRADES}).values
    figure, panel = plt.subplots(figsize=(6.5, 5), layout="constrained")
    most = np.abs(found).max()
    shown = panel.imshow(found, cmap="RdBu_r", vmin=-most, vmax=most)
    for row, column in np.ndindex(found.shape):
        dark = abs(found[row, column]) > 0.6 * most
        color = "white" if dark else "black"
        panel.text(column, row, f"{found[row, column]:.2f}", ha="center", va="center", color=color)
    panel.set_xticks(range(len(GRADES)), GRADES)
    panel.set_yticks(range(len(GRADES)), GRADES)
    panel.grid(visible=False)
    panel.set_title(f"Covariance of the functions of each {what}, less their mean", fontsize=10)
    figure.colorbar(shown, ax=panel, shrink=0.8)
    return figure


def plot_scores(scores):
    """Plot the gain in log probability of held-out classes over independent classes, by split."""
    names = list(ROWS)
    figure, panels = plt.subplots(
        1, len(names), figsize=(10, 3.6), sharey=True, layout="constrained"
    )
    for panel, name in zip(panels, names, strict=True):
        table = scores[scores["data"] == name]
        table = table.pivot(index="split", columns="correlation", values="log_predictive_density")
        for k, rank in enumerate((1, 2)):
            gain = table[rank] - table[0]
            at = rank + 0.05 * (gain.index - gain.index.values.mean())
            panel.plot(at, gain, script.MARKERS[k], color=f"C{k}", alpha=0.7)
            panel.hlines(gain.mean(), rank - 0.2, rank + 0.2, color=f"C{k}")
        panel.axhline(0.0, color="gray", linewidth=1)
        panel.set(title=f"{name}, {ROWS[name]} rows", xlabel="shared functions", xlim=(0.5, 2.5))
        panel.set_xticks((1, 2))
    panels[0].set_ylabel("gain in log density per row")
    return figure


if __name__ == "__main__":
    main()
