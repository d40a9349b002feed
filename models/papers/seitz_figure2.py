"""Figure 2 of Seitz: variances of explanations of Boston's housing values, averaged over tracts.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

The paper's figure is of average path gradients, not of integrated gradients, and its variances
leave S out: what is not known at the ten inducing points. Here are both quantities and gradient x
input, with and without S.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import seitz_boston


def main(arguments=None):
    paper = papers.Paper("seitz_figure2", __doc__, arguments)
    found = seitz_boston.averages(paper)
    paper.table(found[["quantity", "feature", "variance", "variance_without_S"]])
    paper.figure(plot(found))


def plot(found):
    """Variances of each explanation, with and without S."""
    groups = list(found.groupby("quantity", sort=False))
    figure, axes = plt.subplots(1, 3, figsize=(13, 5), sharey=True, layout="constrained")
    for axis, (quantity, part) in zip(axes, groups, strict=True):
        axis.plot(part["variance"], part["feature"], "o", label="with S")
        style = {"fillstyle": "none", "label": "without S, as in the paper"}
        axis.plot(part["variance_without_S"], part["feature"], "s", **style)
        axis.grid(axis="y", alpha=0.4)
        axis.locator_params(axis="x", nbins=4)
        axis.set(title=quantity, xlabel="mean variance [squared sd of medv]", xlim=(0, None))
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
