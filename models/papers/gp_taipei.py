"""What makes one house dear? Attributions of its price, and that units do not matter to them.

Houses of Sindian, New Taipei, and one of them explained, as in

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    section 5.3 and Figure 3.

The price of the house less that of an average house is shared out among the features by
integrated gradients. Features come in metres, years and degrees. Does the answer depend on that?
The figure `invariance` has the authors' answer. Above, the house less the average house: in source
units the metres drown everything, in z-scores they don't. Below, the attributions from a model of
each, which agree: what is integrated is a slope times a way, whose units cancel.

The authors plug in the hyperparameters of highest evidence, at which longitude is switched off.
The figure `attributions` shows beside them what is left of that when hyperparameters are drawn from
their posterior: the same features lead, with wider intervals, and longitude has a share again.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import script

HELD_OUT = 50
STATED = 1270.79
"""Negative log evidence at the optimum behind the paper's figure."""


def main(arguments=None):
    run = script.Run("gp_taipei", __doc__, arguments, data="taipei", method="nuts", draws=400)
    order = butler.permuted(len(run.data.y))
    raw, y = run.data.X.iloc[order], run.data.y.iloc[order]
    scaled = script.z_scores(raw)
    y, y_test = y[:-HELD_OUT], y[-HELD_OUT:]

    model = butler.uncentred(scaled[:-HELD_OUT], y)
    idata = run.fit(model)
    predicted = bx.predictions(model, idata, scaled[-HELD_OUT:], seed=run.seed)
    run.score(predicted, y_test)
    run.figure(script.plot_predictions(predicted, y_test, run.data.units), "predictions")

    plugged = [
        explain_plug_in(X, y, kind) for kind, X in {"source units": raw, "z-scores": scaled}.items()
    ]
    print(f"The paper's figure has negative log evidence {STATED}.")
    apart = np.abs(plugged[0]["mean"] - plugged[1]["mean"]).max()
    print(f"Attributions from source units and from z-scores differ by at most {apart:.1e}.")
    run.table(pd.concat(plugged), "invariance")
    price = f"attribution to {y.name}\n[{run.data.units[y.name]}]"
    run.figure(plot_invariance(pd.concat(plugged), price), "invariance")

    house = scaled.iloc[[-HELD_OUT]]
    drawn = bx.attributions(model, idata, house, seed=run.seed)
    name = "plug-in: highest evidence"
    table = pd.concat(
        [
            plugged[1].assign(hyperparameters=name),
            script.attribution_table(drawn, hyperparameters=f"posterior, by {run.method}"),
        ]
    )
    run.table(table.drop(columns=["kind", "way"]), "attributions")
    run.figure(plot_attributions(table, price), "attributions")


def explain_plug_in(X, y, kind):
    """Fit features of one kind by highest evidence; the attributions of the house, in long form."""
    train, house = X[:-HELD_OUT], X.iloc[[-HELD_OUT]]
    best = butler.climb(train, y)
    in_sd = best._replace(
        hyperparameters=best.hyperparameters
        | {"lengthscale": best.hyperparameters["lengthscale"] / X.std().values}
    )
    print(f"\nPlug-in optimum from {kind}, lengthscales in sd: {in_sd.describe(X.columns)}")
    model = butler.uncentred(train, y)
    found = bx.attributions(model, best.hyperparameters, house, keep="summary")
    predicted = found["difference_mean"].item()
    table = script.attribution_table(found, kind=kind, way=(house.iloc[0] - train.mean()).values)
    print(
        f"House of row {house.index[0] + 1}: its attributions sum to {table['mean'].sum():.4f}, "
        f"f(x) - f(baseline) is {predicted:.4f}"
    )
    return table


def plot_invariance(table, price):
    """The way from the average house to this one, and attributions, from each kind of units."""
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


def plot_attributions(table, price):
    """Attributions at the plug-in optimum, and from draws of the hyperparameters."""
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    script.draw_intervals(axes, table, "hyperparameters")
    axes.set_xlabel(price)
    axes.set_title(f"One house: mean and {script.LEVEL:.0%} interval")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
