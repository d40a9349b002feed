"""Figure 3 of Butler, Feng and Djuric: attributions of a house's price do not depend on units.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

The data are houses in Sindian, New Taipei; the explained house is held out. Attributions divide the
difference between its price and the price of an average house among the features, which are in
meters, years and degrees. The upper panels show the house minus the average house. In source units
the meters dominate; in z-scores they do not. The lower panels show the attributions by a model in
each kind of units. They agree, because the integrand is a slope times a change and the units
cancel. `butler_figure3_optimum` compares the hyperparameters behind the paper's figure with the
optimum from the authors' starting point.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import papers
import script

HELD_OUT = 50
STATED = {
    "negative log evidence": 1270.79,
    "lengthscale 1": 32.4,
    "lengthscale 2": 4.69,
    "lengthscale 3": 2.24,
    "lengthscale 4": 7.35,
    "lengthscale 5": 2.85,
    "lengthscale 6": np.inf,
    "amplitude": 43.3,
    "sigma": 7.09,
}
"""Optimum behind the paper's figure, for standardized features; one feature is switched off."""


def main(arguments=None):
    paper = papers.Paper("butler_figure3", __doc__, arguments)
    data = bx.datasets.load("taipei", path=paper.folder)
    order = butler.permuted(len(data.y))
    raw, y = data.X.iloc[order], data.y.iloc[order][:-HELD_OUT]
    units = {"source units": raw, "z-scores": script.z_scores(raw)}
    found = {kind: explain(X, y, kind) for kind, X in units.items()}
    table = pd.concat([part for part, _ in found.values()])
    paper.table(table.drop(columns="obs"))
    best = found["z-scores"][1]
    ours = [best.negative_log_evidence, *best.hyperparameters["lengthscale"]]
    ours += [best.hyperparameters[name] for name in ("amplitude", "sigma")]
    columns = {"quantity": STATED.keys(), "ours": ours, "published": STATED.values()}
    paper.table(pd.DataFrame(columns), "_optimum")
    price = f"attribution to {y.name}\n[{data.units[y.name]}]"
    plt.rcParams["text.parse_math"] = False  # units contain dollar signs
    paper.figure(plot_invariance(table, price))


def explain(X, y, kind):
    """Attributions of the house in one kind of units, in long form, and the optimum."""
    train, house = X[:-HELD_OUT], X.iloc[[-HELD_OUT]]
    best = butler.climb(train, y)
    options = {"keep": "summary", "progressbar": False}
    found = bx.attributions(butler.uncentred(train, y), best.hyperparameters, house, **options)
    way = (house.iloc[0] - train.mean()).values
    return script.attribution_table(found, kind=kind, way=way), best


def plot_invariance(table, price):
    """Plot the change from the average house and the attributions, for each kind of units."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 8), sharey=True, layout="constrained")
    for (above, below), (kind, part) in zip(axes.T, table.groupby("kind", sort=False), strict=True):
        above.barh(part["feature"], part["way"], color="gray")
        above.axvline(0, color="gray", linewidth=1)
        above.set_title(f"From {kind}")
        above.set_xlabel(f"house less average house [{kind}]")
        script.draw_intervals(below, part, "kind")
        below.set_xlabel(price)
    figure.suptitle(f"One house: its way there, and attributions with {script.LEVEL:.0%} interval")
    return figure


if __name__ == "__main__":
    main()
