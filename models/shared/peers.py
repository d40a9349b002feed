"""Other measures of relevance, from their definitions.

All but RATE take the partial dependence of a function: a function from columns and places (m, k) in
these columns to mean predictions (m,). That of any predictions is `mean_predictions`; that of a sum
of products, such as the mean of a Gaussian process, is known in far less time.

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
"""Places along each of two features, for the variation of their partial dependence."""

ROUND_OFF = 1e-6
"""Changes of predictions, over those by the strongest feature, that are taken for none."""

LARGEST = 1_000
"""Most rows that are predicted at once."""


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

    The factors of all other columns are averaged once for each i: for n places, n^2 operations in
    the place of n^2 predictions, each of n operations.
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
    """H of each pair: the share of its partial dependence that the two single ones leave.

    It is 0 for a pair that predictions don't depend on, beyond round-off.
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
    """Of each pair: how much one feature's variation varies with the other, both ways."""
    places = np.quantile(X, DECILES, axis=0).T
    found = {}
    for i, j in combinations(range(X.shape[1]), 2):
        grid = list(product(places[i], places[j]))
        square = depend([i, j], grid).reshape(2 * (len(DECILES),))
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
