"""Other measures of relevance, from their definitions.

All but RATE take a function from rows (m, d) to predictions (m,), and the rows that are averaged
over.

    L. Crawford, S. R. Flaxman, D. E. Runcie and M. West, "Variable prioritization in nonlinear
    black box methods: a genetic association case study" (2019): RATE.

    J. H. Friedman and B. E. Popescu, "Predictive learning via rule ensembles" (2008): the
    H-statistic.
    B. M. Greenwell, B. C. Boehmke and A. J. McCarthy, "A simple and effective model-based variable
    importance measure" (2018): the variation of the partial dependence.
"""

from itertools import combinations, product

import numpy as np

GRID = 6
"""Places along each of two features, for the variation of their partial dependence."""

LARGEST = 1_000
"""Most rows that are predicted at once."""


def dependence(predict, X, columns, places):
    """Partial dependence: mean prediction over X with these columns set to each of the places."""
    places = np.asarray(places)
    blocks = np.array_split(places, -(-len(places) * len(X) // LARGEST))
    found = []
    for block in blocks:
        moved = np.tile(X, (len(block), 1))
        moved[:, columns] = np.repeat(block, len(X), axis=0)
        found.append(predict(moved).reshape((len(block), len(X))).mean(axis=1))
    return np.concatenate(found)


def h_statistics(predict, X):
    """H of each pair: the share of its partial dependence that the two single ones leave."""

    def centred(columns):
        found = dependence(predict, X, columns, X[:, columns])
        return found - found.mean()

    alone, found = [centred([j]) for j in range(X.shape[1])], {}
    for i, j in combinations(range(X.shape[1]), 2):
        both = centred([i, j])
        found[i, j] = np.sqrt(((both - alone[i] - alone[j]) ** 2).sum() / (both**2).sum())
    return found


def pd_variation(predict, X):
    """Standard deviation of each feature's partial dependence over its values, (d,)."""
    columns = range(X.shape[1])
    return np.array([dependence(predict, X, [j], X[:, [j]]).std(ddof=1) for j in columns])


def pd_interactions(predict, X):
    """Of each pair: how much one feature's variation varies with the other, both ways."""
    places = np.quantile(X, np.linspace(0.05, 0.95, GRID), axis=0).T
    found = {}
    for i, j in combinations(range(X.shape[1]), 2):
        grid = list(product(places[i], places[j]))
        square = dependence(predict, X, [i, j], grid).reshape((GRID, GRID))
        found[i, j] = np.mean([square.std(axis=a, ddof=1).std(ddof=1) for a in (0, 1)])
    return found


def rate(X, mean, covariance):
    """Share of each feature in how far the other coefficients move once its own is 0, (d,).

    Coefficients are those of a linear projection of f, which is normal with this mean (m,) and
    covariance (m, m) at X; distances are Kullback-Leibler's.
    """
    project = np.linalg.pinv(X)
    mean, cov = project @ mean, project @ covariance @ project.T
    found = np.empty(len(mean))
    for j in range(len(mean)):
        others = np.delete(np.arange(len(mean)), j)
        slope = cov[others, j] / cov[j, j]
        left = cov[np.ix_(others, others)]
        right = left - np.outer(slope, cov[j, others])
        shift = slope * mean[j]
        logs = np.linalg.slogdet(right)[1] - np.linalg.slogdet(left)[1]
        inside = np.trace(np.linalg.solve(right, left)) + shift @ np.linalg.solve(right, shift)
        found[j] = 0.5 * (logs + inside - len(others))
    return found / found.sum()
