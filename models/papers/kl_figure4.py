"""Figure 4 of Paananen, Andersen and Vehtari: interactions of six pairs by number of rows.

The data are 50 simulations of equation 4 for each number of rows, 50 to 500. Three pairs interact
and three do not, although their variables matter. In each group, both, one or none of the variables
have main effects. The paper does not name the pairs without interaction; here each of their
variables interacts with a third variable if possible. Values are relative to the method's largest
among all 66 pairs of the data set; means have 95% intervals.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import kl_simulation
import papers

ROWS = 50, 100, 200, 300, 400, 500
OTHERS = (0, 3), (5, 10), (10, 11)
"""Pairs without an interaction: both, one and none of their variables have main effects."""

PANELS = "both have a main effect", "one has a main effect", "neither has a main effect"


def main(arguments=None):
    paper = papers.Paper("kl_figure4", __doc__, arguments)
    sizes, simulations = ((50, 100), 2) if paper.quick else (ROWS, 50)
    for simulation in range(simulations):
        for rows in sizes:
            paper.cells.compute(
                lambda: six(rows, simulation),  # noqa: B023
                rows=rows,
                simulation=simulation,
            )
    cells = paper.cells.frame
    method, of = cells["metric"].str.split("|", expand=True).values.T
    found = papers.means(cells.assign(method=method, of=of), ["method", "of", "rows"])
    paper.table(found.sort_values(["method", "of", "rows"]))
    paper.figure(plot(found))


def six(rows, simulation):
    """Relative sizes of the six pairs, by method."""
    measured = kl_simulation.of_pairs(*kl_simulation.fitted(rows, simulation))
    return {
        f"{method}|{kl_simulation.name(pair)}": values[kl_simulation.PAIRS.index(pair)]
        / values.max()
        for method, values in measured.items()
        for pair in (*kl_simulation.PRODUCTS, *OTHERS)
    }


def plot(found):
    """Plot one panel per kind of pair; solid lines interact, dotted lines do not."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.5), sharey=True, layout="constrained")
    pairs = zip(kl_simulation.PRODUCTS, OTHERS, strict=True)
    for axis, title, own in zip(axes, PANELS, pairs, strict=True):
        for k, method in enumerate(kl_simulation.INTERACTIONS):
            for pair, style in zip(own, ("-", ":"), strict=True):
                part = found[
                    (found["method"] == method) & (found["of"] == kl_simulation.name(pair))
                ].sort_values("rows")
                ends = part["mean"] - part["low"], part["high"] - part["mean"]
                axis.errorbar(
                    part["rows"],
                    part["mean"],
                    ends,
                    fmt="osD"[k] + style,
                    color=f"C{k}",
                    capsize=2,
                    label=method if style == "-" else None,
                )
        names = " and ".join(kl_simulation.name(pair) for pair in own)
        axis.set(title=f"{title}\n{names}", xlabel="rows", ylim=(0, 1.05))
    axes[0].set_ylabel("share of the method's largest")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()
