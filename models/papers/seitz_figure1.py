"""Figure 1 of Seitz: mean explanations of Boston's housing values, averaged over all tracts.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

The author's code for this figure leaves out the factor x_k, which equations 11 and 24 have, so the
figure shows average path gradients. This script shows both quantities, with the paper's linear
explanation (gradient x input), and mean absolute values next to the means. `missed` is the largest
error of ten steps in any tract's integrated gradient.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import seitz_boston


def main(arguments=None):
    paper = papers.Paper("seitz_figure1", __doc__, arguments)
    found = seitz_boston.averages(paper)
    paper.table(found[["quantity", "feature", "mean", "size", "missed"]])
    paper.figure(plot(found))


def plot(found):
    """Plot bars of means, and of mean sizes, for each explanation."""
    groups = list(found.groupby("quantity", sort=False))
    figure, axes = plt.subplots(1, 3, figsize=(13, 5), sharey=True, layout="constrained")
    for axis, (quantity, part) in zip(axes, groups, strict=True):
        axis.barh(part["feature"], part["size"], color="gray", alpha=0.3, label="mean size")
        axis.barh(part["feature"], part["mean"], height=0.5, label="mean")
        axis.axvline(0, color="gray", linewidth=1)
        axis.set(title=quantity, xlabel="mean over tracts [sd of medv]")
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
