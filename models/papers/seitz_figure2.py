"""Figure 2 of Seitz: variances of explanations of Boston's housing values, averaged over tracts.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

Equations 23 and 24 have S, the uncertainty of the values at the ten inducing points, and the factor
x_k. The author's code for this figure leaves out both. This script shows average path gradients,
integrated gradients and gradient x input, each with and without S.
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
    """Plot variances of each explanation, with and without S."""
    groups = list(found.groupby("quantity", sort=False))
    figure, axes = plt.subplots(1, 3, figsize=(13, 5), sharey=True, layout="constrained")
    for axis, (quantity, part) in zip(axes, groups, strict=True):
        axis.plot(part["variance"], part["feature"], "o", label="with S")
        style = {"fillstyle": "none", "label": "without S, as in the author's code"}
        axis.plot(part["variance_without_S"], part["feature"], "s", **style)
        axis.grid(axis="y", alpha=0.4)
        axis.locator_params(axis="x", nbins=4)
        axis.set(title=quantity, xlabel="mean variance [squared sd of medv]", xlim=(0, None))
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
