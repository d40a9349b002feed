"""The cells of Yoshikawa and Iwata's tables: every method on every split of every data set."""

import gpx_data
from gpx_methods import METHODS
from gpx_scores import scores

QUICK = ("diabetes",), 2, ("GPX", "GPR", "ARD", "Lasso", "Ridge", "Network")
"""Data sets, splits and methods of a quick run."""

SEARCHED_ONCE = ("digits", "abalone", "wine", "paper")
"""Data sets whose penalties of the two local lassos are searched for on the first split alone."""


def compute(paper, wanted=None, names=gpx_data.NAMES):
    """Compute the cells that are not there yet, the small data sets first.

    Parameters
    ----------
    paper : papers.Paper
    wanted : list of str, optional
        Methods; all by default.
    names : list of str
        Data sets.

    Returns
    -------
    DataFrame
        data, method, split, metric, value.
    """
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
            if (known := _fitted(paper.cells, name, number)) is not None:
                split.gp = known
            for method in methods:
                paper.cells.compute(
                    lambda: scores(method, split, METHODS[method](split), name != "paper"),  # noqa: B023
                    data=name,
                    method=method,
                    split=number,
                )
    return paper.cells.frame


def _chosen(cells, name):
    """What the local lassos chose on the first split."""
    found = {method: cells.get(data=name, method=method, split=0) for method in METHODS}
    return {
        method: (int(own["neighbours"]), own["network"], own["sparsity"])
        for method, own in found.items()
        if own is not None and "neighbours" in own
    }


def _fitted(cells, name, number):
    """The GP of a split as `Split.gp` has it, without model and idata, if it was fitted before."""
    own = cells.get(data=name, method="GPR", split=number)
    if own is None:
        return None
    theta = {name: own[name] for name in ("lengthscale", "amplitude", "sigma")}
    return (None, None, theta), own["training"]
