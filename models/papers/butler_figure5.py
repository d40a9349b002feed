"""Figure 5 of Butler, Feng and Djuric: attributions by random Fourier features.

The attribution of a wine's score to alcohol relative to the average wine, with M = 10, 50 and 100
random frequencies, each with a sine and a cosine. Every seed gives another model; the marginalized
model is the equal mixture over 500 seeds. The authors' code passes standard deviations where their
equations have variances, which makes the ridge too strong. The second row uses their ridge and
converges to another model. In addition to the densities, the table compares a single seed and the
mixture with the exact model, for each M.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler_wine
import papers

FREQUENCIES, SEEDS, SHOWN = (10, 50, 100), 500, 4
EQUATIONS, FIGURE = "variances, as in the equations", "sds, as in the authors' code"
"""Quantities used for the variances of f and of the noise."""

OPTIONS = {"baseline": "zero", "keep": "summary", "progressbar": False}


def main(arguments=None):
    paper = papers.Paper("butler_figure5", __doc__, arguments)
    wines = butler_wine.load(paper)
    for M in FREQUENCIES:
        for seed in range(10 if paper.quick else SEEDS):
            paper.cells.compute(lambda: one(wines, M, seed), M=M, seed=seed)  # noqa: B023
    exact = of_alcohol(bx.attributions(wines.model, wines.theta, wines.explained, **OPTIONS))
    cells = paper.cells.frame
    ridge, moment = cells["metric"].str.split("|", expand=True).values.T
    seeds = cells.assign(ridge=ridge, moment=moment).pivot(
        index=["ridge", "M", "seed"], columns="moment", values="value"
    )
    paper.table(compared(seeds, *exact))
    paper.figure(plot(seeds.reset_index(), *exact))


def one(wines, M, seed):
    """Mean and sd by the random features of one seed, for either ridge."""
    X, y = wines.X, wines.model.training.y
    model = bx.GP(X, y, scale=False, approximation=bx.RandomFeatures(2 * M, seed))
    # To pass an sd where a variance is expected, as the authors do, pass its root as the sd.
    sds = wines.theta | {name: np.sqrt(wines.theta[name]) for name in ("amplitude", "sigma")}
    found = {}
    for ridge, theta in {EQUATIONS: wines.theta, FIGURE: sds}.items():
        mean, sd = of_alcohol(bx.attributions(model, theta, wines.explained, **OPTIONS))
        found |= {f"{ridge}|mean": mean, f"{ridge}|sd": sd}
    return found


def of_alcohol(found):
    """Mean and sd of the attribution to alcohol."""
    own = found.sel(feature=butler_wine.FOLLOWED).squeeze()
    return own["attribution_mean"].item(), own["attribution_sd"].item()


def compared(seeds, mean, sd):
    """Compare the mixture and single seeds with the exact mean and sd.

    The moments of the mixture follow from the laws of total expectation and variance: the mean of
    means, and the mean of variances plus the variance of means. `standard_error` is the standard
    error of the mixture's mean.
    """
    rows = []
    for (ridge, M), own in seeds.groupby(["ridge", "M"], sort=False):
        between = own["mean"].var(ddof=0)
        row = {
            "ridge": ridge,
            "M": M,
            "seeds": len(own),
            "exact_mean": mean,
            "exact_sd": sd,
            "mixture_mean": own["mean"].mean(),
            "standard_error": own["mean"].sem(),
            "mixture_sd": np.sqrt((own["sd"] ** 2).mean() + between),
            "sd_of_means": np.sqrt(between),
            "median_sd": own["sd"].median(),
            "rms_error": np.sqrt(((own["mean"] - mean) ** 2).mean()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def plot(seeds, mean, sd):
    """Plot densities of the exact model, of some seeds and of the mixture; one column per M."""
    figure, axes = plt.subplots(
        2, len(FREQUENCIES), figsize=(13, 7), sharex=True, sharey="row", layout="constrained"
    )
    x = mean + sd * np.linspace(-6, 4, 400)
    for row, ridge in zip(axes, (EQUATIONS, FIGURE), strict=True):
        for axis, M in zip(row, FREQUENCIES, strict=True):
            own = seeds[(seeds["ridge"] == ridge) & (seeds["M"] == M)]
            exactly = norm.pdf(x, mean, sd)
            axis.fill_between(x, exactly, color="gray", alpha=0.35, linewidth=0, label="exact")
            single = norm.pdf(x[:, None], own["mean"].values, own["sd"].values)
            axis.plot(x, single[:, :SHOWN], "C0", linewidth=1)
            axis.plot(x, single.mean(axis=1), "k--", linewidth=2.5, label="mixture of all seeds")
            axis.set_title(f"M = {M}")
        row[0].lines[0].set_label("single seeds")
        row[0].set_ylabel(f"density\n({ridge})", fontsize="medium")
    for axis in axes[1]:
        axis.set_xlabel(f"attribution to {butler_wine.FOLLOWED} [score]")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


if __name__ == "__main__":
    main()
