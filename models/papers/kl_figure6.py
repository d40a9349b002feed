"""Figure 6 of Paananen, Andersen and Vehtari: errors of finite differences by their step.

The data are 50 simulations of equation 4 with 400 rows. The script compares KL-diff by finite
differences of the divergence with the closed form, for twelve variables, averaged over rows. The
mean squared error over variables is averaged over data sets. The finite difference of the 2019
paper lacks the factor 2 under the root and would converge to KL-diff over sqrt(2); this script
includes the factor.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import kl_simulation
import papers

STEPS = 10.0 ** np.arange(-8, 1)


def main(arguments=None):
    paper = papers.Paper("kl_figure6", __doc__, arguments)
    rows, simulations = (120, 2) if paper.quick else (400, 50)
    for simulation in range(simulations):
        paper.cells.compute(
            lambda: errors(rows, simulation),  # noqa: B023
            rows=rows,
            simulation=simulation,
        )
    cells = paper.cells.frame
    found = papers.means(cells.assign(step=cells["metric"].astype(float)), ["step"])
    paper.table(found)
    paper.figure(plot(found))


def errors(rows, simulation):
    """Mean squared error over variables, by step."""
    _, model, theta = kl_simulation.fitted(rows, simulation)
    exact = bx.relevance(model, theta, progressbar=False)["average_relevance"]
    found = {}
    for step in STEPS:
        options = {"method": "finite_difference", "step": step, "progressbar": False}
        near = bx.relevance(model, theta, **options)["average_relevance"]
        found[f"{step:.0e}"] = ((near - exact) ** 2).mean().item()
    return found


def plot(found):
    """Plot errors against the step, with their intervals."""
    figure, axis = plt.subplots(figsize=(6, 4.5), layout="constrained")
    smallest = found["mean"].min() / 10
    axis.fill_between(found["step"], np.maximum(found["low"], smallest), found["high"], alpha=0.3)
    axis.loglog(found["step"], found["mean"], "o-")
    axis.set(xlabel="step, sd of the variable", ylabel="mean squared error of KL-diff")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(lambda value, _: f"{value:.0e}")
    axis.tick_params("x", rotation=45)
    return figure


if __name__ == "__main__":
    main()
