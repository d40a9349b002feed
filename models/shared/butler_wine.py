"""The red wines of Butler, Feng and Djuric: model, explained wine, and quadrature rules.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    sections 5.4 and 5.5, appendix C.1, Figures 4 to 7.

The explained wine is the first with a score of 8 in their order; it is held out from the fit. The
hyperparameters are the optimum from the authors' starting point. Another optimum has a higher
marginal likelihood but explains nothing: because some rows are repeated with equal scores, its
noise collapses to 0 and each wine is explained only by itself.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import bayes_gpx as bx
import butler
import script

FOLLOWED = "alcohol"


class Wines(NamedTuple):
    """The explained wine, and the model that explains it.

    `X` (n, 11) are the standardized training wines, `model` is the Gaussian process of their
    scores, `theta` are its hyperparameters, `explained` (1, 11) is the held-out wine, and `five`
    (11,) is the mean wine of quality 5.
    """

    model: bx.GP
    theta: dict
    explained: pd.DataFrame
    five: pd.Series
    X: pd.DataFrame


def load(paper):
    """Load the wines and their model at the cached optimum; quick runs use every eighth wine."""
    data = bx.datasets.load("wine", path=paper.folder)
    order = butler.permuted(len(data.y))[:: 8 if paper.quick else 1]
    X, y = script.z_scores(data.X).iloc[order], data.y.iloc[order].astype(float)
    label = y.index[y == 8][0]
    explained, five = X.loc[[label]], X[y == 5].mean()
    X, y = X.drop(index=label), y.drop(index=label)
    theta = butler.optimum(paper, "wine", X, y)
    return Wines(butler.uncentred(X, y), theta, explained, five, X)


def converge(model, theta, X, baseline, rules):
    """Compare attributions by quadrature rules with the exact ones, in long form.

    `rules` is a list of pairs: the labels of a rule, and its options `method` and `steps`. Columns
    of the result: obs, feature, mean, sd, exact_mean, exact_sd, and the labels.
    """
    options = {"baseline": baseline, "keep": "summary", "progressbar": False}
    exact = script.attribution_table(bx.attributions(model, theta, X, **options))
    exact = exact.set_index(["obs", "feature"])[["mean", "sd"]].add_prefix("exact_")
    tables = []
    for labels, rule in rules:
        found = script.attribution_table(script.summed(model, theta, X, **rule, **options))
        tables.append(found.drop(columns=["low", "high"]).assign(**labels))
    return pd.concat(tables, ignore_index=True).join(exact, on=["obs", "feature"])


def right(most):
    """Rules for `converge`: right-hand sums with 1, 2, 4 ... partitions of the path."""
    numbers = 2 ** np.arange(int(np.log2(most)) + 1)
    return [({"L": int(L)}, {"method": "right", "steps": int(L)}) for L in numbers]


def draw_convergence(axis, part, color="C0"):
    """Plot the mean and sd of an attribution against the number of partitions."""
    mean, sd = part["exact_mean"].iloc[0], part["exact_sd"].iloc[0]
    axis.axhspan(mean - sd, mean + sd, color="gray", alpha=0.3, linewidth=0, label="exact, ± sd")
    axis.axhline(mean, color="gray", linewidth=1)
    axis.errorbar(
        part["L"], part["mean"], part["sd"], fmt="o-", color=color, capsize=2, label="sum"
    )
    axis.set_xscale("log", base=2)
