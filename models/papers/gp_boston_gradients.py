"""What makes a house dear, on average? Path gradients aren't attributions.

Housing values of Boston's tracts by a Gaussian process with ten inducing points, and means over all
tracts of what its gradients say, as in

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), section 6, Figures 1 and 2.

An integrated gradient is the gradient averaged along the path from a baseline, here the average
tract, times the way that the feature goes. The paper's figures have it without the way: they show
the average gradient, and the figure `gradients` shows both. Gradients have a sign in common where
a feature works the same way everywhere. Attributions of tracts on either side of the baseline
cancel in their mean, and what is left of it says how the function bends; so features lead by the
one that hardly matter by the other. How much a feature matters is told by the mean size, printed.

The paper's variances leave out what is not known at the inducing points (S): the crosses. It says
what ten points cannot see, and not what 506 tracts leave open.

The paper sums over ten steps (`right`), and so do the figures; how far that is from the closed form
is printed. Ten points make a function that is all but a plane, whatever the tracts say. The column
`black` encodes an assumption about race and is kept only because the figure has it.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.ticker import MaxNLocator

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

INDUCING, STEPS = 10, 10
EXPLAINED_DRAWS = 200
KNOWN = 1e-3
"""Noise, over that of the fit, at which the values at inducing points are as good as known."""

PATH, INTEGRATED = "average path gradient", "integrated gradient"
PLUG_IN, WITHOUT_S = "posterior median, plugged in", "the same without S, as in the paper"


def main(arguments=None):
    run = script.Run("gp_boston_gradients", __doc__, arguments, data="boston", method="nuts")
    X, y = script.z_scores(run.data.X), script.z_scores(run.data.y)
    model = bx.GP(X, y, scale=False, ard=False, approximation=bx.Inducing(INDUCING))
    idata = run.fit(model)
    plugged = {n: v.median().item() for n, v in idata["posterior"].data_vars.items()}

    sums = {"baseline": "zero", "method": "right", "steps": STEPS, "keep": "summary"}
    found = script.summed(model, idata, num_draws=EXPLAINED_DRAWS, **sums)
    at_median = script.summed(model, plugged, **sums)
    without = script.summed(model, without_S(plugged), **sums)
    parts = []
    for quantity in (PATH, INTEGRATED):
        parts += [
            average(found, quantity, f"posterior, by {run.method}"),
            average(at_median, quantity, PLUG_IN),
            average(without, quantity, WITHOUT_S).assign(mean=np.nan, size=np.nan),
        ]
    table = pd.concat(parts, ignore_index=True)
    run.table(table, "gradients")
    report(table)
    exact = bx.attributions(model, plugged, baseline="zero", keep="summary")["attribution_mean"]
    apart = abs(exact - at_median["attribution_mean"])
    print(
        f"Ten steps miss the closed form by at most {apart.max():.3f} in any tract's integrated "
        f"gradient, by {apart.mean():.4f} on average."
    )
    run.figure(plot_averages(table), "gradients")


def without_S(hyperparameters):
    """Hyperparameters whose variances lack S: with next to no noise, the data fix u.

    Their means are of no use.
    """
    return hyperparameters | {"sigma": KNOWN * hyperparameters["sigma"]}


def average(found, quantity, hyperparameters=None):
    """Means over rows of each feature's mean, its size and its variance, in long form.

    Parameters
    ----------
    found : xarray.Dataset
        Attributions against the baseline 0.
    quantity : {PATH, INTEGRATED}
        Attributions themselves, or without the way of the feature.
    """
    mean, variance = found["attribution_mean"], found["attribution_sd"] ** 2
    if quantity == PATH:
        mean, variance = mean / found["value"], variance / found["value"] ** 2
    columns = {"mean": mean, "size": abs(mean), "variance": variance}
    table = xr.Dataset(columns).mean("obs").to_dataframe().reset_index()
    labels = {"quantity": quantity, "hyperparameters": hyperparameters}
    return table.assign(sd=np.sqrt(table["variance"]), **labels)


def report(table):
    """Print the averages, and which features lead."""
    posterior = table[table["hyperparameters"] == table["hyperparameters"].iloc[0]]
    features = posterior["feature"].unique()
    print("\nAverages over tracts, [sd of medv], of gradients by sd of the feature:")
    for column in ("mean", "size", "variance"):
        shown = posterior.pivot(index="feature", columns="quantity", values=column)
        print(f"{column}:\n{shown.loc[features].round(4).to_string()}")
    for quantity, part in posterior.groupby("quantity", sort=False):
        for column in ("mean", "size"):
            order = part["feature"].values[np.argsort(-part[column].abs())]
            print(f"{quantity}, by {column}: {', '.join(order[:5])} lead")


def plot_averages(table):
    """Means and variances of average path gradients, and of integrated gradients."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 13), sharey=True, layout="constrained")
    features = table["feature"].unique()
    units = {PATH: "sd of medv by sd of the feature", INTEGRATED: "sd of medv"}
    for row, (quantity, part) in zip(axes, table.groupby("quantity", sort=False), strict=True):
        for panel, column in zip(row, ("mean", "variance"), strict=True):
            for k, (_, one) in enumerate(part.groupby("hyperparameters", sort=False)):
                if one[column].isna().all():
                    continue
                style = {"fillstyle": "none"} if k else {}
                panel.plot(one[column], features, "osX"[k], ls="", color=f"C{k}", ms=9, **style)
            panel.grid(axis="y", alpha=0.4)
            panel.axvline(0, color="gray", linewidth=1)
            panel.xaxis.set_major_locator(MaxNLocator(5))
            panel.set_title(f"{quantity}: {column}")
            square = "squared " if column == "variance" else ""
            panel.set_xlabel(f"mean over tracts [{square}{units[quantity]}]", fontsize="medium")
    axes[0, 0].set_ylim(len(features) - 0.5, -0.5)
    figure.legend(
        axes[0, 1].get_lines()[:-1],
        table["hyperparameters"].unique(),
        loc="outside lower center",
        ncols=2,
    )
    return figure


if __name__ == "__main__":
    main()
