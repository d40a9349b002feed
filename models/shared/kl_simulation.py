"""The simulated model of Paananen, Andersen and Vehtari (equation 4), and its measures of
relevance.

    T. Paananen, M. R. Andersen and A. Vehtari, "Uncertainty-aware sensitivity analysis using Renyi
    divergences" (2021).

There are twelve independent normal variables with sd 0.4. Variables 1 to 8 act by sines of
increasing frequency, and three pairs act by their products. In the first pair both variables have
main effects, in the second one does, in the third none. Variable 9 has no effect. The paper states
that the eleven terms have equal variance but not its value; here it is 1. The noise has sd 0.6.
Variables and response are standardized. The kernel is squared exponential with a lengthscale per
variable, and its hyperparameters maximize the marginal likelihood.
"""

from itertools import combinations

import numpy as np
from scipy.spatial.distance import cdist

import bayes_gpx as bx
import gpx_means
import gpx_methods
import peers

SD, NOISE = 0.4, 0.6
FREQUENCIES = np.pi / 8 * np.arange(1, 9)
PRODUCTS = (0, 5), (3, 10), (9, 11)
FEATURES = [f"x{j}" for j in range(1, 13)]
PAIRS = list(combinations(range(12), 2))
VARIABLES = "KL-diff", "ARD", "RATE"
INTERACTIONS = "KL-diff²", "H-statistic", "partial dependence"
QUIET = {"progressbar": False}


def terms(X):
    """The eleven terms of the mean at X (n, 12), each with variance 1: (n, 11)."""
    sines = np.sin(FREQUENCIES * X[:, :8]) / np.sqrt((1 - np.exp(-2 * (FREQUENCIES * SD) ** 2)) / 2)
    products = [X[:, i] * X[:, j] / SD**2 for i, j in PRODUCTS]
    return np.column_stack([sines, *products])


def simulate(rows, seed):
    """Standardized rows of the simulated model."""
    rng = np.random.default_rng(seed)
    X = SD * rng.normal(size=(rows, 12))
    y = terms(X).sum(axis=1) + NOISE * rng.normal(size=rows)
    X, y = ((values - values.mean(axis=0)) / values.std(axis=0) for values in (X, y))
    return gpx_methods.Rows(X, X, y)


def fitted(rows, seed):
    """A data set, its model, and hyperparameters with the highest marginal likelihood."""
    data = simulate(rows, seed)
    model, _, theta = gpx_methods.maximum_likelihood("GP", data, ard=True)
    return data, model, theta


def of_variables(data, model, theta):
    """Measures of the twelve variables, by method."""
    relevance = bx.relevance(model, theta, **QUIET)["average_relevance"].values[0, 0]
    X = data.X / theta["lengthscale"]
    prior = theta["amplitude"] ** 2 * np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    known = np.linalg.solve(prior + theta["sigma"] ** 2 * np.eye(len(X)), prior)
    rate = peers.rate(data.X, known.T @ data.y, prior - prior @ known)
    return dict(zip(VARIABLES, (relevance, 1 / theta["lengthscale"], rate), strict=True))


def of_pairs(data, model, theta):
    """Measures of the pairs, by method."""
    both = bx.interactions(model, theta, **QUIET)["average_interaction"].values[0, 0]
    mean = gpx_means.PosteriorMean(data, theta)
    depend = peers.product_dependence(data.X, mean.lengthscale, mean.amplitude**2 * mean.alpha)
    found = {(i, j): both[i, j] for i, j in PAIRS}
    others = peers.h_statistics(depend, data.X), peers.pd_interactions(depend, data.X)
    values = (np.array([own[pair] for pair in PAIRS]) for own in (found, *others))
    return dict(zip(INTERACTIONS, values, strict=True))


def name(pair):
    """Name of a pair of variables, given by their places."""
    return f"{FEATURES[pair[0]]} : {FEATURES[pair[1]]}"


def cells(paper, simulations):
    """Measures of all variables and pairs at 400 rows, relative to the largest of each method.

    Columns: simulation, method, of, value.
    """
    rows = 120 if paper.quick else 400

    def task(simulation):
        given = fitted(rows, simulation)
        measured = of_variables(*given), of_pairs(*given)
        names = FEATURES, [name(pair) for pair in PAIRS]
        return {
            f"{method}|{of}": value
            for own, known in zip(measured, names, strict=True)
            for method, values in own.items()
            for of, value in zip(known, values / values.max(), strict=True)
        }

    for simulation in range(2 if paper.quick else simulations):
        paper.cells.compute(lambda: task(simulation), rows=rows, simulation=simulation)  # noqa: B023
    frame = paper.cells.frame
    method, of = frame["metric"].str.split("|", expand=True).values.T
    return frame.assign(method=method, of=of)[["simulation", "method", "of", "value"]]
