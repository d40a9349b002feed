"""Few features that predict as well as all: projection, compared with lasso, ARD and KL-diff.

There are three data sets: one with 5 relevant features out of 100, and two real ones (the Boston
data are read from the folder named by BAYES_GPX_DATA). 300 rows are for training, and the others
are scored. "KL-diff" and "ARD" select as many features as the projection suggests, by largest
relevance or shortest lengthscale, and are fitted to the response. Stability is the similarity of
the features that a method selects without each of five folds. It is the mean over pairs of folds of
the number of features in both sets, divided by the number in either.
"""

import sys
import time
from itertools import combinations, starmap

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import StandardScaler

import bayes_gpx as bx
from bayes_gpx.draws.leave_one_out import averaged, held_out_log_likelihood

ROWS, FOLDS, CLUSTERS = 300, 5, 5
FIT = {"method": "laplace", "draws": 200, "seed": 1, "progressbar": False}


def simulated():
    """100 features with 5 relevant ones: two by curves, two by their product, one by a line."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(600, 100))).add_prefix("x")
    f = np.sin(1.5 * X["x0"]) + 0.5 * X["x1"] ** 2 + X["x2"] * X["x3"] + X["x4"]
    return X, f + 0.5 * rng.normal(size=600)


def real(name):
    """A data set, its rows in random order."""
    data = bx.datasets.load(name)
    order = np.random.default_rng(1).permutation(len(data.y))
    frames = data.X.iloc[order], data.y.iloc[order]
    return tuple(frame.reset_index(drop=True) for frame in frames)


def score(model, idata, X_new, y_new):
    """Mean log predictive density of held-out rows."""
    rows = model.training.read_observed(X_new, None, y_new, model.specification.observation)
    return averaged(held_out_log_likelihood(model, idata, rows, progressbar=False)).mean()


def by_lengthscale(model, idata, size):
    """The features with the shortest lengthscales."""
    lengths = idata["posterior"]["lengthscale"].median(["chain", "draw"]).values
    return [model.training.X.sources[j] for j in np.argsort(lengths)[:size]]


def lasso(X, y):
    """Features that lasso keeps, and a function that predicts means and a standard deviation."""
    scaler = StandardScaler().fit(X)
    found = LassoCV(cv=FOLDS, random_state=1).fit(scaler.transform(X), y)
    chosen = list(X.columns[found.coef_ != 0])
    left = y - found.predict(scaler.transform(X))
    sigma = np.sqrt(np.sum(left**2) / (len(y) - 1 - len(chosen)))
    return chosen, lambda X_new: (found.predict(scaler.transform(X_new)), sigma)


def alike(sets):
    """Mean over pairs of sets of intersection size divided by union size."""
    return np.mean([len(a & b) / max(len(a | b), 1) for a, b in combinations(map(set, sets), 2)])


def compared(X, y):
    """Rows of the table: method, features, held-out score, stability, seconds."""
    X_new, y_new, X, y = X[ROWS:], y[ROWS:], X[:ROWS], y[:ROWS]
    own = np.random.default_rng(2).permutation(ROWS) % FOLDS
    parts = [(X[own != k], y[own != k]) for k in range(FOLDS)]

    begun = time.perf_counter()
    model = bx.GP(X, y)
    idata = model.fit(**FIT)
    taken = time.perf_counter() - begun
    yield "all features", X.columns, score(model, idata, X_new, y_new), np.nan, taken

    sizes = range(1 + (X.shape[1] if X.shape[1] < 20 else 8))
    options = {"sizes": sizes, "folds": FOLDS, "clusters": CLUSTERS, "seed": 1}
    for path in ("variance", "relevance"):
        begun = time.perf_counter()
        found = bx.project(model, idata, path=path, **options, progressbar=False)
        taken = time.perf_counter() - begun
        print(found, flush=True)
        size = max(sizes) if found.suggested is None else max(found.suggested, 1)
        first, names = found.path[:size], found.inclusion["feature"].values
        in_folds = [names[row <= size] for row in found.inclusion.values]
        held_out = score(*found.submodel(size), X_new, y_new)
        yield f"projection by {path}", first, held_out, alike(in_folds), taken

    begun = time.perf_counter()
    refitted = bx.GP(X[first], y)
    held_out = score(refitted, refitted.fit(**FIT), X_new, y_new)
    yield "KL-diff", first, held_out, alike(in_folds), time.perf_counter() - begun

    chosen = by_lengthscale(model, idata, size)
    begun = time.perf_counter()
    refitted = bx.GP(X[chosen], y)
    held_out = score(refitted, refitted.fit(**FIT), X_new, y_new)
    taken, fits = time.perf_counter() - begun, [bx.GP(*part) for part in parts]
    in_folds = [by_lengthscale(one, one.fit(**FIT), size) for one in fits]
    yield "ARD", chosen, held_out, alike(in_folds), taken

    begun = time.perf_counter()
    chosen, predict = lasso(X, y)
    taken, held_out = time.perf_counter() - begun, norm.logpdf(y_new, *predict(X_new)).mean()
    yield "lasso", chosen, held_out, alike(found for found, _ in starmap(lasso, parts)), taken


def main(names):
    for name in names or ("simulated", "diabetes", "boston"):
        X, y = simulated() if name == "simulated" else real(name)
        print(f"\n{name}: {X.shape[1]} features\n", flush=True)
        rows = list(compared(X, y))
        print("\n| method | features | held-out elpd per row | stability | seconds |")
        print("|---|---|---|---|---|")
        for method, chosen, held_out, stable, taken in rows:
            print(f"| {method} | {len(chosen)} | {held_out:.3f} | {stable:.2f} | {taken:.0f} |")
        for method, chosen, *_ in rows[1:]:
            print(f"{method}: {', '.join(chosen[:30])}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
