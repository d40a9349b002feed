"""Levels and weight functions of 500 groups in 100,000 rows: seconds from the data to the fit.

Rows share 50 inducing points. In a GP each group adds a level, one coefficient; in a GPX with three
weights it adds weight functions, with 50 coefficients of its own. The fits are by MAP, from the
package's starting points. The last column tells how near the levels, or weights, of the groups are
to the true ones: the correlation of posterior means at the middle of the data with the truth.

The second table compares one conditioning of all coefficients, which eliminates one group after the
other, with the same coefficients as columns of one dense design, at the size that a dense design
still allows.
"""

import resource
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

import bayes_gpx as bx
from bayes_gpx.posteriors.evidence.by_group import Arrow, ByGroup

N, GROUPS, POINTS = 100_000, 500, 50
QUIET = {"progressbar": False}


def used():
    """Seconds, and processor seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([time.perf_counter(), usage.ru_utime + usage.ru_stime])


def data(n=N, groups=GROUPS):
    """Features, groups, a smooth function and levels."""
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(n, 2)), rng.integers(0, groups, n)
    return rng, X, group, np.sin(X[:, 0]) * X[:, 1], rng.normal(0.0, 0.5, groups)


def levels(likelihood):
    """A GP with levels, and the true levels."""
    rng, X, group, f, level = data()
    f = f + level[group]
    y = {
        "normal": lambda: f + 0.3 * rng.normal(size=N),
        "poisson": lambda: rng.poisson(np.exp(f)),
        "bernoulli": lambda: (f + rng.logistic(size=N) > 0).astype(int),
    }[likelihood]()
    options = {"likelihood": likelihood, "approximation": bx.Inducing(POINTS)}
    return bx.GP(X, y, groups=group, **options), level


def weights():
    """A GPX with three weights, of which each group has its own deviations; and these."""
    rng, X, group, _, _ = data()
    Z, own = rng.normal(size=(N, 2)), rng.normal(0.0, 0.4, (GROUPS, 3))
    y = (np.sin(X[:, 0]) + own[group, 0]) * Z[:, 0] + (X[:, 1] + own[group, 1]) * Z[:, 1]
    y = y + own[group, 2] + 0.3 * rng.normal(size=N)
    options = {"intercept": True, "approximation": bx.Inducing(POINTS)}
    return bx.GPX(X, y, Z, groups=group, **options), own[:, 0]


def estimates(model, idata):
    """Posterior means of f, or of the first weight, in every group at the middle of the data."""
    middle, every = np.zeros((GROUPS, 2)), np.arange(GROUPS)
    if isinstance(model, bx.GP):
        found = bx.predictions(model, idata, middle, groups_new=every, keep="summary", **QUIET)
        return found["f_mean"].values
    rows = {"Z_new": middle, "groups_new": every, "smooth": True, "keep": "summary"}
    return bx.weights(model, idata, middle, **rows, **QUIET)["weight_mean"].values[:, 0]


MODELS = {
    "GP, normal": lambda: levels("normal"),
    "GP, poisson": lambda: levels("poisson"),
    "GP, bernoulli": lambda: levels("bernoulli"),
    "GPX, normal": weights,
}


def fits(names):
    """Print the table of fits."""
    print("| model | rows | groups | seconds | CPU s | peak GiB | correlation |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        begun = used()
        model, truth = MODELS[name]()
        idata = model.fit("map", seed=0, **QUIET)
        seconds, processor = used() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        near = np.corrcoef(estimates(model, idata), truth)[0, 1]
        sizes = f"{N} | {GROUPS} | {seconds:.0f} | {processor:.0f} | {peak:.1f} | {near:.3f}"
        print(f"| {name} | {sizes} |", flush=True)


def _timed(way):
    """Processor seconds of a call."""
    begun = used()
    way()
    return (used() - begun)[1]


def conditioning():
    """Print the table of single conditionings."""
    print("\n| coefficients of a group | rows | groups | by group, CPU s | dense, CPU s |")
    print("|---|---|---|---|---|")
    for K, n, groups in ((1, N, GROUPS), (POINTS, 20_000, 40)):
        rng, _, codes, *_ = data(n, groups)
        order = np.argsort(codes, kind="stable")
        F, E = rng.normal(size=(n, POINTS)), rng.normal(size=(n, K))
        rows = ByGroup(F, E, np.searchsorted(codes[order], np.arange(groups + 1)))
        own = np.zeros((n, groups, K))
        own[np.arange(n), codes[order]] = E
        design, tau = np.hstack([F, own.reshape((n, -1))]), np.ones(n)
        ways = (
            lambda rows=rows, tau=tau: Arrow(rows, tau),
            lambda design=design: np.linalg.cholesky(np.eye(design.shape[1]) + design.T @ design),
        )
        with threadpool_limits(1):
            seconds = [min(_timed(way) for _ in range(3)) for way in ways]
        shown = " | ".join(f"{one:.3f}" for one in seconds)
        print(f"| {K} | {n} | {groups} | {shown} |", flush=True)


if __name__ == "__main__":
    fits(sys.argv[1:] or MODELS)
    conditioning()
