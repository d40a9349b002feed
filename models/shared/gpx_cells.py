"""The cells of Yoshikawa and Iwata's tables: every method on every split of every data set."""

import gpx_data
from gpx_methods import METHODS
from gpx_scores import scores

QUICK = ("diabetes",), 2, ("GPX", "GPR", "ARD", "Lasso", "Ridge", "Network")
"""Data sets, splits and methods of a quick run."""

SEARCHED_ONCE = ("digits", "abalone", "wine", "paper")
"""Data sets with a search for the penalties of the local lassos only on the first split."""

THETA = ("lengthscale", "amplitude", "sigma_w", "sigma")


def compute(paper, wanted=None, names=gpx_data.NAMES):
    """Compute the missing cells, small data sets first: data, method, split, metric, value."""
    methods, count = list(METHODS), gpx_data.SPLITS
    if paper.quick:
        quick, count, methods = QUICK
        names = [name for name in quick if name in names]
    methods = [m for m in methods if wanted is None or m in wanted]
    for name in [name for name in names if not paper.only or name in paper.only]:
        problem = gpx_data.problem(name, paper.folder)
        for number, split in enumerate(problem.splits()[:count]):
            if name in SEARCHED_ONCE and number:
                split.chosen = _chosen(paper.cells, name)
            _put_fitted(split, paper.cells, name, number)
            for method in methods:
                paper.cells.compute(
                    lambda: scores(method, split, METHODS[method](split), name != "paper"),  # noqa: B023
                    data=name,
                    method=method,
                    split=number,
                )
    return paper.cells.frame


def first_weights(paper, methods):
    """Yield weights of the test rows of the first split by data set and method, cached on disk.

    If the cells of Table 1 exist, the methods use their hyperparameters and penalties. Each item is
    the problem, its test rows, and a dict from method to weights (rows, p).
    """
    for name, wanted in methods.items():
        problem = gpx_data.problem(name, paper.folder)
        split = problem.splits()[0]
        split.chosen = _chosen(paper.cells, name)
        _put_fitted(split, paper.cells, name, 0)
        weights = {
            method: paper.arrays(
                lambda: {"weights": METHODS[method](split).weights.astype("float32")},  # noqa: B023
                f"weights_{name}_{method}",
            )["weights"].astype(float)
            for method in wanted
        }
        yield problem, split.test, weights


def _chosen(cells, name):
    """Neighbors and penalties of the local lassos on the first split."""
    found = {method: cells.get(data=name, method=method, split=0) for method in METHODS}
    return {
        method: (int(own["neighbours"]), own["network"], own["sparsity"])
        for method, own in found.items()
        if own is not None and "neighbours" in own
    }


def _put_fitted(split, cells, name, number):
    """Set GP and GPX of a split from cached hyperparameters, without model and idata."""
    for attribute, method in (("gp", "GPR"), ("gpx", "GPX")):
        if (own := cells.get(data=name, method=method, split=number)) is not None:
            theta = {name: own[name] for name in THETA if name in own}
            setattr(split, attribute, ((None, None, theta), own["training"]))
