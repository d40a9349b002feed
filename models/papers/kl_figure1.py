"""Figure 1 of Paananen, Andersen and Vehtari: the two terms of KL-diff in a linear model.

    T. Paananen, M. R. Andersen and A. Vehtari, "Uncertainty-aware sensitivity analysis using Renyi
    divergences" (2021).

The data are ten rows of two independent standard normal variables with coefficients 1 and 0. The
noise has sd 0.5, and the prior is flat. The figure shows the relevance of each variable along its
values, with the other variable at 0, by equation 2 with Student's t predictive distributions.
Dashed lines show only the term from the slope of the mean, dotted lines the term from the change of
the variance. `package` is the relevance by `bayes_gpx.relevance` with a linear kernel of very large
variance and known noise, which makes predictions normal. The paper's ten rows are unknown, so
`kl_figure1_shares` contains the proportion of a thousand data sets in which each of the paper's
statements about its figure is true.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers

ROWS, COEFFICIENTS, NOISE, EDGE = 10, np.array([1.0, 0.0]), 0.5, 3.0
FLAT = 1e4
"""Prior sd of coefficients, large enough to be flat."""


def main(arguments=None):
    paper = papers.Paper("kl_figure1", __doc__, arguments)
    along = np.linspace(-EDGE, EDGE, 61)
    X, y = simulate(0)
    tables = []
    for d in (0, 1):
        places = np.zeros((len(along), 2))
        places[:, d] = along
        slope, spread = terms(X, y, places, d)
        columns = {"variable": f"x{d + 1}", "x": along, "mean_term": slope, "variance_term": spread}
        columns |= {"relevance": np.hypot(slope, spread), "package": package(X, y, places)[:, d]}
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    paper.figure(plot(table))
    paper.table(table)
    paper.table(shares(100 if paper.quick else 1000), "_shares")


def simulate(seed):
    """Rows X (10, 2) and response y (10,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 2))
    return X, X @ COEFFICIENTS + NOISE * rng.normal(size=ROWS)


def fitted(X, y):
    """Least squares: coefficients, their covariance in units of the noise, and its variance."""
    inverse = np.linalg.inv(X.T @ X)
    beta = inverse @ X.T @ y
    return beta, inverse, ((y - X @ beta) ** 2).sum() / (len(y) - X.shape[1])


def terms(X, y, places, d):
    """Roots of the two terms of equation 2 for variable d at places (m, 2): two arrays (m,)."""
    beta, inverse, s2 = fitted(X, y)
    nu = len(y) - X.shape[1]
    variance = s2 * (1 + np.einsum("mi,ij,mj->m", places, inverse, places))
    change = 2 * s2 * places @ inverse[:, d]
    slope = np.abs(beta[d]) * np.sqrt((nu + 1) / ((nu + 3) * variance))
    return slope, np.abs(change) / variance * np.sqrt(nu / (2 * (nu + 3)))


def package(X, y, places):
    """KL-diff of the package at places (m, 2), with known noise."""
    model = bx.GP(X, y, kernel="linear", scale=False)
    theta = {"amplitude": FLAT, "sigma": np.sqrt(fitted(X, y)[2])}
    found = bx.relevance(model, theta, places, progressbar=False)
    return found["relevance"].values[0, 0]


def shares(simulations):
    """Proportion of data sets in which each statement of the paper is true."""
    said = {
        "relevance of x1 is less at both edges than at 0": [],
        "the variance's term is less than half of the mean's, for x1 at both edges": [],
        "the variance's term is more than the mean's, for x2 at both edges": [],
        "the variance raises the relevance of x2 by half or more, on average over the range": [],
    }
    ends = np.array([-EDGE, EDGE, 0.0])
    for seed in range(simulations):
        X, y = simulate(seed)
        first, second = (terms(X, y, np.outer(ends, np.eye(2)[d]), d) for d in (0, 1))
        whole = np.hypot(*first)
        line = terms(X, y, np.outer(np.linspace(-EDGE, EDGE, 31), [0.0, 1.0]), 1)
        held = (
            max(whole[:2]) < whole[2],
            (first[1][:2] < first[0][:2] / 2).all(),
            (second[1][:2] > second[0][:2]).all(),
            np.hypot(*line).mean() > 1.5 * line[0].mean(),
        )
        for name, value in zip(said, held, strict=True):
            said[name].append(value)
    return pd.DataFrame(
        {"statement": list(said), "share": [np.mean(held) for held in said.values()]}
    )


def plot(table):
    """Plot the relevance of each variable and its two terms."""
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for color, (name, part) in zip(("C1", "C0"), table.groupby("variable"), strict=True):
        axis.plot(part["x"], part["relevance"], color, label=f"{name}: relevance")
        axis.plot(part["x"], part["mean_term"], color, ls="--", label=f"{name}: slope of the mean")
        label = f"{name}: change of the variance"
        axis.plot(part["x"], part["variance_term"], color, ls=":", label=label)
    axis.set(xlabel="the variable, the other being 0", ylabel="KL-diff", ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
