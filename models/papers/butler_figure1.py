"""Figure 1 of Butler, Feng and Djuric: attributions are less certain the farther from the baseline.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

A function of two features is sampled at 500 random places with noise, and what a Gaussian process
makes of it is explained along the diagonal of its square, against the origin. The noise is the same
everywhere; the uncertainty of the attributions isn't. It is 0 at the baseline and grows along the
way, since what is known badly anywhere on the path adds up. That of the difference
f(x) - f(baseline), to which both attributions add up, doesn't: within a lengthscale it reaches what
is not known of the baseline, a corner with data on one side only, and there it stays until the
other corner. Far along, the sum is known better than its parts, whose errors cancel.

The paper prints the function sin(x1) sin(2 x2), and the authors' code has sin(x1) sin(1.5 x2).
Both are here, the text's with `_text` behind the name of the figure. From the authors' start the
text's function ends at a maximum of the evidence where x2 hardly matters: it starts at shorter
lengthscales here, and the cells hold both ends. The 500 places are the authors'; their noise is not
known. The dashed lines, the attributions of the true function, are not in the paper.

`butler_figure1_growth` has the sd at some places, the share of the hundred steps along the diagonal
at which it grows, and the share of 90 % intervals that hold the truth.
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
"""Where climbs start, if it isn't where the authors' do: from there the text's function looks like
noise."""

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
    """Attributions of sin(x1) sin(frequency x2) at (t, t) against the origin, by column.

    That to x1 is the integral of cos(u) sin(frequency u) from 0 to t; both sum to the function.
    """
    first = sum((1 - np.cos(w * t)) / (2 * w) for w in (frequency + 1, frequency - 1))
    return {"x1": first, "x2": np.sin(t) * np.sin(frequency * t) - first}


def tabulate(found, truth):
    """Attributions and the difference along the line in long form, with the truth."""
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
    """How sd grows along the line, and how often intervals hold the truth."""
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
    """The predicted surface, both attributions, and variances along the diagonal."""
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
