"""Figure 7 of Butler, Feng and Djuric: three quadrature rules for one attribution.

The attribution of a wine's score to alcohol, relative to the mean wine of quality 5, by right-hand
sums, the trapezoid rule and Simpson's rule. The script computes the mean and sd against the number
of partitions L and against the number of gradients, and the squared error of the mean. The appendix
prints 1/4 (1, 2, 1) for Simpson's weights. These weights are the trapezoid rule with half the step
(`Simpson as printed`). Simpson's rule has 1/6 (1, 4, 1), as the authors' code does. `mse` is the
mean squared error over the eleven features.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler_wine
import papers

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
RULES = {
    "right-hand": ("right", 1, 0),
    "trapezoid": ("trapezoid", 1, 1),
    "Simpson": ("simpson", 2, 1),
    "Simpson as printed": ("trapezoid", 2, 1),
}
"""The package's rules: method, steps per partition, and gradients beyond its steps."""


def main(arguments=None):
    paper = papers.Paper("butler_figure7", __doc__, arguments)
    wines = butler_wine.load(paper)
    rules = [
        (
            {"rule": rule, "L": L, "gradients": each * L + more},
            {"method": method, "steps": each * L},
        )
        for rule, (method, each, more) in RULES.items()
        for L in NUMBERS
    ]
    found = butler_wine.converge(*wines[:3], wines.five, rules)
    error = (found["mean"] - found["exact_mean"]) ** 2
    found["squared_error"] = error
    found["mse"] = error.groupby([found["rule"], found["L"]]).transform("mean")
    found = found[found["feature"] == butler_wine.FOLLOWED]
    paper.table(found)
    paper.figure(plot(found))


def plot(found):
    """Plot distributions against partitions and gradients, and squared errors against gradients."""
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    mean, sd = found["exact_mean"].iloc[0], found["exact_sd"].iloc[0]
    for k, (rule, part) in enumerate(found.groupby("rule", sort=False)):
        style = {"color": f"C{k}", "fmt": "osD^"[k] + "-", "capsize": 2, "label": rule}
        for axis, at in zip(axes, ("L", "gradients"), strict=False):
            axis.errorbar(part[at] * 1.06**k, part["mean"], part["sd"], **style)
        axes[2].loglog(part["gradients"], part["mse"], "osD^"[k] + "-", color=f"C{k}")
    for axis in axes[:2]:
        axis.axhspan(mean - sd, mean + sd, color="gray", alpha=0.25, linewidth=0)
        axis.axhline(mean, color="gray", linewidth=1, label="exact, ± sd")
        axis.set(ylabel=f"attribution to {butler_wine.FOLLOWED}, mean ± sd")
    for axis, label in zip(axes, ("partitions L", "gradients", "gradients"), strict=True):
        axis.set_xscale("log", base=2)
        axis.set_xlabel(label)
    axes[2].set(ylabel="mean squared error over features")
    axes[2].yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


if __name__ == "__main__":
    main()
