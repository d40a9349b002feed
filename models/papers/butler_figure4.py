"""Figure 4 of Butler, Feng and Djuric: how sums along the path converge to exact attributions.

Right-hand sums of L gradients replace the integral. Panel (a) shows the attribution of a wine's
score to alcohol, relative to the mean wine of quality 5. Panel (b) shows the attribution to x1 in
the simulated system of equation 34, at three places on the diagonal relative to the origin; the
paper does not name its place. The text has sin(2 x2), but the authors' code uses sin(x1) sin(1.5
x2), and so does this script.

The paper states that places farther from the baseline need more partitions. `butler_figure4_needed`
contains the number of partitions: the smallest power of two from which on each mean is within
`TOLERANCE` sd of y of the exact one. It covers places at fractions of the path from the baseline to
the wines or to places of the simulated data.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import butler_wine
import papers

FREQUENCY, PLACES, MOST = 1.5, (2.5, 5.0, 10.0), 512
FRACTIONS, ROWS, TOLERANCE = (0.125, 0.25, 0.5, 1.0), 50, 0.01


def main(arguments=None):
    paper = papers.Paper("butler_figure4", __doc__, arguments)
    most, count = (32, 5) if paper.quick else (MOST, ROWS)
    rules = butler_wine.right(most)
    wines = butler_wine.load(paper)
    X, y = butler.simulate(FREQUENCY, 0)
    theta = butler.optimum(paper, f"simulated, {FREQUENCY:g}", X, y)
    model = butler.uncentred(X, y)
    diagonal = pd.DataFrame({"x1": PLACES, "x2": PLACES}, index=PLACES)
    zero = pd.Series(0.0, X.columns)

    wine = butler_wine.converge(*wines[:3], wines.five, rules)
    wine = wine[wine["feature"] == butler_wine.FOLLOWED].assign(data="wine")
    simulated = butler_wine.converge(model, theta, diagonal, zero, rules)
    simulated = simulated[simulated["feature"] == "x1"].assign(data="simulated")
    table = pd.concat([wine, simulated], ignore_index=True)
    paper.table(table)
    given = (wines.model, wines.theta, wines.X, wines.five), (model, theta, X, zero)
    parts = [needed(*one, count=count, rules=rules) for one in given]
    table = pd.concat(parts, keys=("wine", "simulated"), names=["data"])
    paper.table(table.reset_index("data"), "_needed")
    paper.figure(plot(wine, simulated))


def needed(model, theta, X, baseline, count, rules):
    """Median and maximal number of partitions for places at each fraction of the path.

    Places that need more than the tried numbers count as twice the largest.
    """
    some = X.iloc[:: max(1, len(X) // count)][:count]
    enough = TOLERANCE * model.training.y.std()
    rows = []
    for fraction in FRACTIONS:
        there = baseline + fraction * (some - baseline)
        found = butler_wine.converge(model, theta, there, baseline, rules)
        far = (found["mean"] - found["exact_mean"]).abs() > enough
        last = found["L"].where(far, 0).groupby(found["obs"]).max()
        L = np.where(last > 0, 2 * last, 1)
        row = {"fraction": fraction, "median": np.median(L), "mean": L.mean(), "largest": L.max()}
        rows.append(row | {"places": len(L)})
    return pd.DataFrame(rows)


def plot(wine, simulated):
    """Plot one panel for the wine, and one for each place of the simulated system."""
    parts = list(simulated.groupby("obs"))
    figure, axes = plt.subplots(1, 1 + len(parts), figsize=(15, 4), layout="constrained")
    butler_wine.draw_convergence(axes[0], wine)
    axes[0].set(title=f"wine: {butler_wine.FOLLOWED}", ylabel="attribution, mean ± sd")
    for axis, (place, part) in zip(axes[1:], parts, strict=True):
        butler_wine.draw_convergence(axis, part)
        axis.set(title=f"simulated: x1 at ({place:g}, {place:g})")
    for axis in axes:
        axis.set_xlabel("partitions L")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
