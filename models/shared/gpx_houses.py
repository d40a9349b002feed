"""Contributions to the prices of Boston houses by GPX, in the paper's settings and in this
package's.

The model of a split explains the houses that the split holds out. The column `black` encodes an
assumption about race; the paper includes it.
"""

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import bayes_gpx as bx
import gpx_data
from gpx_methods import Rows, maximum_likelihood

QUANTITIES = ("contribution", "weight")
LEVEL = 0.9
VERBS = (bx.contributions, bx.weights)
OPTIONS = {"keep": "summary", "ci_prob": LEVEL, "progressbar": False}
QUICK = 2
"""Splits of a quick run."""


def likeliest(train):
    model, idata, _ = maximum_likelihood("GPX", train)
    return model, idata


def default(train):
    model = bx.GPX(train.X, train.y, resolution=0)
    return model, model.fit("map", seed=0, progressbar=False, jacobian=False)


def standardised(rows):
    return rows


def between_0_and_1(rows):
    X = (rows.X - rows.X.min(axis=0)) / np.ptp(rows.X, axis=0)
    return Rows(X, X, rows.y)


SETTINGS = {
    "one lengthscale": (likeliest, standardised),
    "one lengthscale, [0, 1]": (likeliest, between_0_and_1),
    "ARD, default priors": (default, standardised),
}
"""For each setting, how the model is fitted and how the standardized rows are transformed first."""


def houses(paper):
    """Contributions and weights of the held-out houses in each setting, and their prices in sd."""
    problem = gpx_data.problem("boston", paper.folder)
    found = {}
    for name, (fit, changed) in SETTINGS.items():
        own = problem._replace(rows=changed(problem.rows))
        splits = own.splits()[: QUICK if paper.quick else None]
        found[name] = _explained(fit, splits, problem.features)
    return found, np.concatenate([split.test.y for split in splits])


def _explained(fit, splits, features):
    parts = []
    for split in splits:
        model, idata = fit(split.train)
        told = [verb(model, idata, split.test.X, **OPTIONS) for verb in VERBS]
        kept = [f"{what}_{number}" for what in QUANTITIES for number in ("mean", "sd", "interval")]
        parts.append(xr.merge(told, combine_attrs="drop", compat="equals")[kept])
    return xr.concat(parts, "obs").assign_coords(feature=features)


def at_prices(prices, places):
    """Indices of the houses with prices at the given quantiles."""
    order = np.argsort(prices, kind="stable")
    return [order[int(place * len(order))] for place in places]


def bars(axis, told, house):
    """Plot contributions to one house, with their sd."""
    own = told.isel(obs=house)
    mean = own["contribution_mean"].values
    axis.barh(
        told["feature"].values,
        mean,
        xerr=own["contribution_sd"].values,
        color=np.where(mean > 0, "tab:red", "tab:blue"),
        error_kw={"linewidth": 1, "capsize": 2},
    )
    axis.axvline(0, color="gray", linewidth=1)


def panels(rows, columns, size):
    """Make a figure of bars with common axes, the first feature on top."""
    figure, axes = plt.subplots(
        rows, columns, figsize=size, sharex=True, sharey=True, layout="constrained", squeeze=False
    )
    axes[0, 0].invert_yaxis()
    figure.supxlabel("contribution and its sd, in sd of the price", fontsize="medium")
    return figure, axes
