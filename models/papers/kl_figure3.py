"""Figure 3 of Paananen, Andersen and Vehtari: interactions of 66 pairs, by three methods.

The data are 20 simulations of equation 4 with 400 rows. The methods are KL-diff^2, the H-statistic
of Friedman and Popescu, and the variation of partial dependence of Greenwell et al. H averages
partial dependence over all rows and evaluates it at all rows. The variation of partial dependence
uses the 81 pairs of deciles. Values are relative to a method's largest in the data set; means have
95% intervals. Three pairs interact. In the first, both variables have main effects; in the second,
one variable does; in the third, none.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import kl_simulation
import papers


def main(arguments=None):
    paper = papers.Paper("kl_figure3", __doc__, arguments, cells="kl_simulation")
    cells = kl_simulation.cells(paper, 20)
    cells = cells[cells["method"].isin(kl_simulation.INTERACTIONS)]
    found = papers.means(cells, ["method", "of"])
    paper.table(found)
    paper.table(judged(cells), "_judged")
    paper.figure(plot(found))


def judged(cells):
    """Separation of the true pairs from each other and from the rest, for each method.

    `all_on_top` is the proportion of data sets in which the three true pairs are the largest three.
    `first`, `second` and `third` are their means, and `next` is the mean of the largest other pair.
    """
    true = [kl_simulation.name(pair) for pair in kl_simulation.PRODUCTS]
    rows = []
    for method, own in cells.groupby("method", sort=False):
        wide = own.pivot(index="simulation", columns="of", values="value")
        others = wide.drop(columns=true)
        on_top = wide[true].min(axis=1) > others.max(axis=1)
        means = dict(zip(("first", "second", "third"), wide[true].mean(), strict=True))
        rows.append(
            {"method": method, "all_on_top": on_top.mean(), **means, "next": others.mean().max()}
        )
    return papers.pd.DataFrame(rows)


def plot(found):
    """Plot one panel per method; true pairs have a green background."""
    true = [kl_simulation.name(pair) for pair in kl_simulation.PRODUCTS]
    groups = list(found.groupby("method", sort=False))
    figure, axes = plt.subplots(3, 1, figsize=(13, 9), sharex=True, layout="constrained")
    for axis, (method, part) in zip(axes, groups, strict=True):
        ends = part["mean"] - part["low"], part["high"] - part["mean"]
        axis.errorbar(np.arange(len(part)), part["mean"], ends, fmt="o", markersize=4, capsize=2)
        for k in np.flatnonzero(part["of"].isin(true)):
            axis.axvspan(k - 0.5, k + 0.5, color="tab:green", alpha=0.25, linewidth=0)
        axis.set(ylabel="share of the largest", ylim=(0, 1.05), title=method, xlim=(-1, len(part)))
    axes[-1].set_xticks(range(len(part)), part["of"], rotation=90, fontsize=8)
    return figure


if __name__ == "__main__":
    main()
