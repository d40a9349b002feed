"""Other measures of relevance, computed from their definitions.

All except RATE use the partial dependence of a function, which maps columns and places (m, k) in
these columns to mean predictions (m,). `mean_predictions` computes it for any predictions;
`product_dependence` is much faster for a sum of products, such as the mean of a Gaussian process.

    L. Crawford, S. R. Flaxman, D. E. Runcie and M. West, "Variable prioritization in nonlinear
    black box methods: a genetic association case study" (2019): RATE.

    J. H. Friedman and B. E. Popescu, "Predictive learning via rule ensembles" (2008): the
    H-statistic.
    B. M. Greenwell, B. C. Boehmke and A. J. McCarthy, "A simple and effective model-based variable
    importance measure" (2018): the variation of the partial dependence.
"""

from itertools import combinations, product

import numpy as np

DECILES = np.arange(1, 10) / 10
"""Quantiles of each feature at which the variation of partial dependence is computed."""

ROUND_OFF = 1e-6
"""Changes of predictions below this value, relative to the strongest feature, count as zero."""

LARGEST = 1_000
"""Maximal number of rows predicted at once."""


def mean_predictions(predict, X):
    """Partial dependence of a function from rows (m, d) to predictions (m,), averaged over X."""

    def depend(columns, places):
        places, found = np.asarray(places), []
        for block in np.array_split(places, -(-len(places) * len(X) // LARGEST)):
            moved = np.tile(X, (len(block), 1))
            moved[:, columns] = np.repeat(block, len(X), axis=0)
            found.append(predict(moved).reshape((len(block), len(X))).mean(axis=1))
        return np.concatenate(found)

    return depend


def product_dependence(X, lengthscale, coefficients):
    """Partial dependence of ``sum_i c_i exp(-|(x - X_i) / lengthscale|^2 / 2)``, averaged over X.

    The factors of all other columns are averaged once for each i. For n places this takes n^2
    operations instead of n^2 predictions with n operations each.
    """
    X = X / lengthscale
    squares = (X.T[:, :, None] - X.T[:, None, :]) ** 2
    whole = squares.sum(axis=0)

    def depend(columns, places):
        others = np.exp(-0.5 * (whole - squares[columns].sum(axis=0))).mean(axis=0)
        own = np.asarray(places)[:, None] / lengthscale[columns] - X[:, columns]
        return np.exp(-0.5 * (own**2).sum(axis=2)) @ (others * coefficients)

    return depend


def h_statistics(depend, X):
    """H of each pair: root of the proportion of its partial dependence beyond the two single ones.

    It is 0 for a pair without any effect on predictions, up to round-off.
    """

    def centred(columns):
        found = depend(columns, X[:, columns])
        return found - found.mean()

    alone, found = [centred([j]) for j in range(X.shape[1])], {}
    nothing = ROUND_OFF**2 * max((own**2).sum() for own in alone)
    for i, j in combinations(range(X.shape[1]), 2):
        both = centred([i, j])
        left, whole = ((both - alone[i] - alone[j]) ** 2).sum(), (both**2).sum()
        found[i, j] = np.sqrt(left / whole) if whole > nothing else 0.0
    return found


def pd_variation(depend, X):
    """Standard deviation of each feature's partial dependence over its values, (d,)."""
    columns = range(X.shape[1])
    return np.array([depend([j], X[:, [j]]).std(ddof=1) for j in columns])


def pd_interactions(depend, X):
    """For each pair, how much the variation along one feature varies along the other, both ways."""
    places = np.quantile(X, DECILES, axis=0).T
    found = {}
    for i, j in combinations(range(X.shape[1]), 2):
        grid = list(product(places[i], places[j]))
        square = depend([i, j], grid).reshape(2 * (len(DECILES),))
        found[i, j] = np.mean([square.std(axis=a, ddof=1).std(ddof=1) for a in (0, 1)])
    return found


def rate(X, mean, covariance):
    """RATE of each feature, (d,): how far the other coefficients move if its own is set to 0.

    Coefficients are a linear projection of f, which is normal with this mean (m,) and covariance
    (m, m) at X. Distances are Kullback-Leibler divergences, normalized to sum to 1.
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
