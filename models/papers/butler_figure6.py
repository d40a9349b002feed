"""Figure 6 of Butler, Feng and Djuric: convergence for all features of a wine, and their relevance.

Panels show right-hand sums of L gradients for each of the eleven features, relative to the mean
wine of quality 5. Bars show the sizes of the exact attributions, and relevances (inverse
lengthscales).

The paper states, without a number, that the speed of convergence follows relevance and not the size
of an attribution. `butler_figure6_ranks` contains rank correlations over the features between these
two and the errors of 16 partitions. They are computed for the explained wine, and as a mean over
wines of the data with its 95% interval. Errors are absolute, or relative to the exact attribution.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from scipy.stats import spearmanr

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler_wine
import papers

MOST, AT, ROWS = 128, 16, 100


def main(arguments=None):
    paper = papers.Paper("butler_figure6", __doc__, arguments)
    wines = butler_wine.load(paper)
    relevance = pd.Series(1 / wines.theta["lengthscale"], wines.X.columns)
    found = butler_wine.converge(*wines[:3], wines.five, butler_wine.right(MOST))
    paper.table(found.assign(relevance=found["feature"].map(relevance)))
    some = wines.X.iloc[:: max(1, len(wines.X) // ROWS)][:ROWS]
    rule = [({"L": AT}, {"method": "right", "steps": AT})]
    others = butler_wine.converge(wines.model, wines.theta, some, wines.five, rule)
    ranks = ranked(found[found["L"] == AT], relevance).rename(columns={"value": "explained"})
    by = ["of", "with"]
    everyone = papers.means(ranked(others, relevance), by)
    paper.table(ranks.drop(columns="obs").merge(everyone, on=by), "_ranks")
    paper.figure(plot(found, relevance))


def ranked(found, relevance):
    """Rank correlations over features between errors and sizes or relevances, for each wine."""
    error = (found["mean"] - found["exact_mean"]).abs()
    found = found.assign(
        relevance=found["feature"].map(relevance),
        size=found["exact_mean"].abs(),
        absolute=error,
        relative=error / found["exact_mean"].abs(),
    )
    return pd.DataFrame(
        {"obs": obs, "of": a, "with": f"{b} error", "value": spearmanr(own[a], own[b])[0]}
        for obs, own in found.groupby("obs", sort=False)
        for a in ("relevance", "size")
        for b in ("absolute", "relative")
    )


def plot(found, relevance):
    """Plot one panel per feature, and bars of sizes and relevances."""
    figure, axes = plt.subplots(3, 5, figsize=(17, 10), layout="constrained")
    panels = axes.flat
    for axis, (feature, part) in zip(panels, found.groupby("feature", sort=False), strict=False):
        butler_wine.draw_convergence(axis, part)
        axis.set(title=feature, xlabel="partitions L")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    sizes = found[found["L"] == 1].set_index("feature")["exact_mean"].abs()
    bars = {"size of the attribution": sizes, "relevance, 1 / lengthscale": relevance}
    for axis, (title, values) in zip(axes.flat[11:13], bars.items(), strict=True):
        axis.barh(values.index, values)
        axis.set(title=title)
        axis.tick_params("y", labelsize=9)
        axis.invert_yaxis()
    for axis in axes.flat[13:]:
        axis.set_axis_off()
    return figure


if __name__ == "__main__":
    main()
