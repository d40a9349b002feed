"""Figure 2 of Paananen, Andersen and Vehtari: relevance of twelve variables, by three methods.

The data are 20 simulations of equation 4 with 400 rows. The methods are KL-diff, the inverse
lengthscales of automatic relevance determination (ARD) and RATE. Values are relative to a method's
largest in the data set; means have 95% intervals. Variables 1 to 8 have equal main effects, and 1,
4 and 6 also interact. Variables 10, 11 and 12 act only by interactions, and 9 has no effect.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import kl_simulation
import papers


def main(arguments=None):
    paper = papers.Paper("kl_figure2", __doc__, arguments, cells="kl_simulation")
    cells = kl_simulation.cells(paper, 20)
    found = papers.means(cells[cells["method"].isin(kl_simulation.VARIABLES)], ["method", "of"])
    paper.table(found)
    paper.figure(plot(found))


def plot(found):
    """Plot means and their intervals, with the methods side by side."""
    figure, axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
    for k, (method, part) in enumerate(found.groupby("method", sort=False)):
        ends = part["mean"] - part["low"], part["high"] - part["mean"]
        at = np.arange(12) + 0.2 * (k - 1)
        axis.errorbar(at, part["mean"], ends, fmt="osD"[k], capsize=3, label=method)
    axis.set_xticks(range(12), kl_simulation.FEATURES)
    axis.set(ylabel="share of the method's largest", ylim=(0, 1.05))
    figure.legend(loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()
