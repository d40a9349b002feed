"""The red wines of Butler, Feng and Djuric, one of which is explained, and quadratures of that.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    sections 5.4 and 5.5, appendix C.1, Figures 4 to 7.

The wine is the first in their order that its tasters gave an 8; it is not learnt from.
Hyperparameters are those to which a climb from the authors' start leads. Another optimum has more
evidence and says nothing: rows come twice with equal scores, the noise collapses, and each wine is
its own reason.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

import bayes_gpx as bx
import butler
import script

FOLLOWED = "alcohol"


class Wines(NamedTuple):
    """What is explained, and by which model.

    Attributes
    ----------
    model : bayes_gpx.GP
        Of all wines but the explained one: X standardised, y the scores.
    theta : dict
        Hyperparameters.
    explained : frame (1, 11)
    five : series (11,)
        The mean wine of quality 5.
    X : frame (n, 11)
        Wines that are learnt from, standardised.
    """

    model: bx.GP
    theta: dict
    explained: pd.DataFrame
    five: pd.Series
    X: pd.DataFrame


def load(paper):
    """The wines and their model; the climb is a cell. A quick run has every eighth wine."""
    data = bx.datasets.load("wine", path=paper.folder)
    order = butler.permuted(len(data.y))[:: 8 if paper.quick else 1]
    X, y = script.z_scores(data.X).iloc[order], data.y.iloc[order].astype(float)
    label = y.index[y == 8][0]
    explained, five = X.loc[[label]], X[y == 5].mean()
    X, y = X.drop(index=label), y.drop(index=label)
    theta = butler.optimum(paper, "wine", X, y)
    return Wines(butler.uncentred(X, y), theta, explained, five, X)


def converge(model, theta, X, baseline, rules):
    """Attributions by rules beside the exact ones, in long form.

    Parameters
    ----------
    model, theta, X, baseline
        As `bayes_gpx.attributions` takes them.
    rules : list of (str, dict)
        Labels of a rule with the options `method` and `steps`.

    Returns
    -------
    DataFrame
        obs, feature, mean, sd, exact_mean, exact_sd, and the labels.
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
    """Rules for `converge`: right-hand sums of 1, 2, 4 ... partitions of the path."""
    numbers = 2 ** np.arange(int(np.log2(most)) + 1)
    return [({"L": int(L)}, {"method": "right", "steps": int(L)}) for L in numbers]


def draw_convergence(axis, part, color="C0"):
    """Mean and sd of an attribution by right-hand sums, against the number of partitions."""
    mean, sd = part["exact_mean"].iloc[0], part["exact_sd"].iloc[0]
    axis.axhspan(mean - sd, mean + sd, color="gray", alpha=0.3, linewidth=0, label="exact, ± sd")
    axis.axhline(mean, color="gray", linewidth=1)
    axis.errorbar(
        part["L"], part["mean"], part["sd"], fmt="o-", color=color, capsize=2, label="sum"
    )
    axis.set_xscale("log", base=2)
