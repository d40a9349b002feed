"""Figure 1 of Butler, Feng and Djuric: uncertainty of attributions grows away from the baseline.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

A Gaussian process learns a function of two features from 500 random places with noise. The script
explains its predictions along the diagonal of the square, with the origin as baseline. The noise is
constant, but the uncertainty of the attributions is not. It is 0 at the baseline and grows along
the path, because uncertainty accumulates. The uncertainty of the sum of both attributions, f(x) -
f(baseline), grows differently. Within one lengthscale it reaches the uncertainty at the baseline, a
corner with data on one side only. It then stays constant up to the other corner. Far along the
path, the sum is more certain than the two attributions, because their errors cancel.

The paper states the function sin(x1) sin(2 x2), but the authors' code uses sin(x1) sin(1.5 x2).
This script computes both; `_text` in a file name marks the function of the text. From the authors'
starting point, the fit of that function ends at a maximum of the marginal likelihood where x2
hardly matters. So this script starts at shorter lengthscales; the cells contain both optima. The
500 places are the authors', but their noise is unknown. The dashed lines, the attributions of the
true function, are not in the paper.

`butler_figure1_growth` contains the sd at some places, the proportion of the hundred steps along
the diagonal at which it grows, and the coverage of 90% intervals.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import papers
import script

FREQUENCIES = {"": 1.5, "_text": 2.0}
STARTS = {1.5: {}, 2.0: {"reach": 0.3}}
"""Starting points that differ from the authors', because the function of the text would look like
noise from there."""

SUMMARY = {"keep": "summary", "progressbar": False}


def main(arguments=None):
    paper = papers.Paper("butler_figure1", __doc__, arguments)
    tables = []
    for suffix, frequency in FREQUENCIES.items():
        X, y = butler.simulate(frequency, 0)
        if paper.quick:
            X, y = X[::3], y[::3]
        model = butler.uncentred(X, y)
        name = f"simulated, {frequency:g}"
        theta = butler.optimum(paper, name, X, y, **STARTS[frequency])
        if STARTS[frequency]:
            butler.optimum(paper, f"{name}, authors' start", X, y)
        t = np.linspace(0, butler.SIDE, 101)
        diagonal = pd.DataFrame({"x1": t, "x2": t}, index=t)
        found = bx.attributions(model, theta, diagonal, baseline="zero", **SUMMARY)
        table = tabulate(found, true_attributions(frequency, t))
        function = f"sin(x1) sin({frequency:g} x2)"
        tables.append(table.assign(function=function))
        paper.figure(plot(model, theta, table, function), suffix)
    table = pd.concat(tables, ignore_index=True)
    paper.table(table)
    paper.table(growth(table), "_growth")


def true_attributions(frequency, t):
    """Attributions of sin(x1) sin(frequency x2) at (t, t) relative to the origin, by column.

    The attribution to x1 is the integral of cos(u) sin(frequency u) from 0 to t. Both sum to the
    function.
    """
    first = sum((1 - np.cos(w * t)) / (2 * w) for w in (frequency + 1, frequency - 1))
    return {"x1": first, "x2": np.sin(t) * np.sin(frequency * t) - first}


def tabulate(found, truth):
    """Tabulate attributions and the difference along the diagonal in long form, with the truth."""
    total = {"mean": found["difference_mean"], "sd": found["difference_sd"]}
    both = pd.DataFrame(total | {"feature": "both", "obs": found["obs"]})
    both["low"], both["high"] = (both["mean"] + norm.ppf(p) * both["sd"] for p in script.TAILS)
    table = pd.concat([script.attribution_table(found), both], ignore_index=True)
    table = table.rename(columns={"obs": "t"})
    truth = {**truth, "both": truth["x1"] + truth["x2"]}
    place = np.searchsorted(np.unique(table["t"]), table["t"])
    table["truth"] = [truth[f][k] for f, k in zip(table["feature"], place, strict=True)]
    return table


def growth(table):
    """Measure how the sd grows along the diagonal, and the coverage of intervals."""
    rows = []
    for (function, feature), own in table.groupby(["function", "feature"], sort=False):
        sd = own.set_index("t").sort_index()["sd"]
        row = {"function": function, "feature": feature}
        row |= {f"sd_at_{t}": sd.loc[float(t)] for t in (0, 1, 3, 5, 7, 9, 10)}
        row["growing"] = (np.diff(sd) > 0).mean()
        away = own[own["t"] > 0]
        rows.append(row | {"covered": away["truth"].between(away["low"], away["high"]).mean()})
    return pd.DataFrame(rows)


def plot(model, theta, table, function):
    """Plot the predicted surface, both attributions, and variances along the diagonal."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
    surface, *panels, spread = axes.flat
    side = np.linspace(0, butler.SIDE, 41)
    x1, x2 = (grid.ravel() for grid in np.meshgrid(side, side))
    f = bx.predictions(model, theta, pd.DataFrame({"x1": x1, "x2": x2}), **SUMMARY)["f_mean"]
    image = surface.pcolormesh(side, side, f.values.reshape((41, 41)), cmap="viridis")
    surface.plot(side, side, "w--", linewidth=1.5)
    surface.set(title=f"mean prediction, {function}", xlabel="x1", ylabel="x2")
    figure.colorbar(image, ax=surface)
    for k, (feature, part) in enumerate(table.groupby("feature", sort=False)):
        title = f"attribution to {feature}" if feature != "both" else "f(x) - f(baseline)"
        spread.plot(part["t"], part["sd"] ** 2, "-:-"[k], color=f"C{k}", lw=2.5, label=title)
        if feature == "both":
            continue
        panel, ends = panels[k], (part["mean"] - part["sd"], part["mean"] + part["sd"])
        panel.fill_between(part["t"], *ends, color=f"C{k}", alpha=0.3, linewidth=0)
        panel.plot(part["t"], part["mean"], color=f"C{k}", label="mean ± sd")
        panel.plot(part["t"], part["truth"], "k--", linewidth=1.5, label="true function")
        panel.set(title=title, ylabel="units of y", xlabel="t, place (t, t) on the diagonal")
        panel.legend()
    spread.set(title="variances", xlabel="t, place (t, t) on the diagonal")
    spread.legend()
    return figure


if __name__ == "__main__":
    main()
