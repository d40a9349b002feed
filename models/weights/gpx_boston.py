"""Why is a house expensive, and where? GPX on the housing values of Boston.

Each of the 506 tracts has its own weight for each feature, as in

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise
    feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
    5789-5803,

but with one lengthscale per feature and with draws of the hyperparameters. The model is fitted to
four of five tracts; the script predicts and explains the others.

The column `black` encodes an assumption about race. `models/papers/gpx_table1.py` needs it to
reproduce the paper's errors; this script leaves it out.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

EXPLAINED_DRAWS = 1000


def main(arguments=None):
    run = script.Run("gpx_boston", __doc__, arguments, data="boston", method="nuts")
    X, y = run.data.X.drop(columns="black"), run.data.y
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)

    model = bx.GPX(X, y)
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, seed=run.seed)
    run.score(predicted, y_test)
    run.figure(script.plot_predictions(predicted, y_test), "predictions")

    thinned = {"num_draws": EXPLAINED_DRAWS, "seed": run.seed}
    contributions = bx.contributions(model, idata, X_test, **thinned)
    order = X_test.index[np.argsort(predicted["y_mean"].values)]
    cheap_middle_dear = [order[0], order[len(order) // 2], order[-1]]
    plot = bx.plot_contributions(contributions, obs=cheap_middle_dear, ci_prob=script.LEVEL)
    run.figure(plot, "contributions")

    weights = bx.weights(model, idata, X_test, **thinned)
    run.figure(plot_weights(weights, run.data.units), "weights")


def plot_weights(weights, units):
    """Plot weights with intervals against the value of their feature, one panel per feature."""
    low, high = script.intervals(weights["weight"])
    figure, axes = plt.subplots(3, 4, figsize=(13, 9), layout="constrained")
    for j, (feature, panel) in enumerate(zip(weights["feature"].values, axes.flat, strict=True)):
        value = weights["value"].values[:, j]
        panel.vlines(value, low[:, j], high[:, j], color="C0", alpha=0.2, linewidth=1)
        panel.scatter(value, weights["weight_mean"].values[:, j], s=10, color="C0")
        panel.axhline(0, color="gray", linewidth=1)
        panel.set_xlabel(f"{feature} [{units[feature]}]" if units[feature] else feature)
    figure.supylabel(weights.attrs["units"])
    figure.suptitle(f"Weights of the held-out tracts: mean and {script.LEVEL:.0%} interval")
    return figure


if __name__ == "__main__":
    main()
