"""How far can an explanation be trusted? Attributions where the truth is known.

A function of two features is sampled at 500 random places with noise, and what a Gaussian process
makes of it is explained along the diagonal of its square, against the origin:

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    section 5.1 and Figure 1.

The noise is the same everywhere; the uncertainty of the attributions isn't. It is 0 at the baseline
and grows all along the way, since what is known badly anywhere on the path adds up. That of the
difference f(x) - f(baseline), to which both attributions add up, doesn't: within a lengthscale it
reaches what is not known of the baseline, a corner with data on one side only, and there it stays
until the other corner. Far along, the sum is known better than its parts, whose errors cancel.

The paper prints the function sin(x1) sin(2 x2), but its figure is of sin(x1) sin(1.5 x2). Both are
here: the figure's as `fit.nc` and `attributions`, the text's with `_text` behind the name. The 500
places are the authors', the noise is that of `--seed`. The dashed lines, the attributions of the
true function, are not in the paper.
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

FREQUENCIES = {"": 1.5, "_text": 2.0}
EXPLAINED_DRAWS = 200
LINES = ("-", "--", ":")


def main(arguments=None):
    run = script.Run(
        "gp_simulated_attributions", __doc__, arguments, data=None, method="nuts", draws=150
    )
    t = np.linspace(0, butler.SIDE, 101)
    for suffix, frequency in FREQUENCIES.items():
        X, y = butler.simulate(frequency, run.seed)
        model = butler.uncentred(X, y)
        idata = run.fit(model, suffix=suffix)
        found = bx.attributions(
            model,
            idata,
            pd.DataFrame({"x1": t, "x2": t}, index=t),
            baseline="zero",
            num_draws=EXPLAINED_DRAWS,
            seed=run.seed,
        )
        table = tabulate(found, true_attributions(frequency, t))
        run.table(table, f"attributions{suffix}")
        report(table, frequency)
        run.figure(plot_line(table, f"sin(x1) sin({frequency:g} x2)"), f"attributions{suffix}")


def true_attributions(frequency, t):
    """Attributions of sin(x1) sin(frequency x2) at (t, t) against the origin, by column.

    That to x1 is the integral of cos(u) sin(frequency u) from 0 to t; both sum to the function.
    """
    first = sum((1 - np.cos(w * t)) / (2 * w) for w in (frequency + 1, frequency - 1))
    return {"x1": first, "x2": np.sin(t) * np.sin(frequency * t) - first}


def tabulate(found, truth):
    """Attributions and the difference along the line in long form, with the truth."""
    parts = [script.attribution_table(found)]
    low, high = script.intervals(found["difference"])
    total = {"mean": found["difference_mean"], "sd": found["difference_sd"]}
    parts.append(
        pd.DataFrame(total | {"low": low, "high": high, "feature": "both", "obs": found["obs"]})
    )
    table = pd.concat(parts, ignore_index=True).rename(columns={"obs": "t"})
    truth = {**truth, "both": truth["x1"] + truth["x2"]}
    table["truth"] = [truth[f][k] for f, k in zip(table["feature"], _places(table), strict=True)]
    return table


def _places(table):
    return np.searchsorted(np.unique(table["t"]), table["t"])


def report(table, frequency):
    """Print how sd grows along the line, and how often intervals hold the truth."""
    print(f"\nsin(x1) sin({frequency:g} x2): sd of attributions along the diagonal (t, t)")
    sd = table.pivot(index="t", columns="feature", values="sd")
    print(sd.iloc[[10, 30, 50, 70, 90, 100]].round(4).to_string())
    inside = table["truth"].between(table["low"], table["high"])[table["t"] > 0]
    print(f"Share of {script.LEVEL:.0%} intervals that hold the truth:")
    print(inside.groupby(table["feature"]).mean().round(3).to_string())


def plot_line(table, function):
    """The difference, both attributions and their variances along the diagonal."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 9), sharex=True, layout="constrained")
    titles = {"both": "f(x) - f(baseline)", "x1": "Attribution to x1", "x2": "Attribution to x2"}
    panels = dict(zip(titles, axes.flat, strict=False))
    spread = axes.flat[3]
    for k, (feature, title) in enumerate(titles.items()):
        part, panel = table[table["feature"] == feature], panels[feature]
        ends = part["mean"] - part["sd"], part["mean"] + part["sd"]
        panel.fill_between(part["t"], *ends, color=f"C{k}", alpha=0.3, linewidth=0)
        panel.plot(part["t"], part["mean"], color=f"C{k}", label="mean ± sd")
        panel.plot(part["t"], part["truth"], "k--", linewidth=1.5, label="true function")
        panel.set_title(title)
        spread.plot(part["t"], part["sd"] ** 2, LINES[k], color=f"C{k}", lw=2.5, label=title)
        panel.set_ylabel("units of y")
    spread.set_title("Variances")
    spread.set_ylabel("squared units of y")
    spread.legend()
    for panel in axes[1]:
        panel.set_xlabel("t, place (t, t) on the diagonal")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(function)
    return figure


if __name__ == "__main__":
    main()
