"""Figures 1 and 4 of Yoshikawa and Iwata: what makes four Boston houses dear, with error bars.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

Contributions of all 13 columns to the standardised price, with their sd, in the paper's setting
(one lengthscale, marginal likelihood) and in this package's (a lengthscale for each feature,
default priors, MAP). The paper does not say which houses it shows: here their prices are at an
eighth, three, five and seven eighths of all. Each house is explained by the split that holds it
out.

The paper finds that some features, such as AGE and DIS, contribute consistently, AGE positively and
DIS negatively. The table says how often that is so among all 506 houses: `positive` is the share of
houses with a contribution above 0, `surely_positive` the share whose 90 % interval lies above 0;
likewise for weights. Where inputs are standardised, a contribution changes its sign with its
feature, so that a weight of one sign gives contributions of both. Inputs between 0 and 1 have
contributions of the weights' sign; whether the paper's figures have such inputs, it does not say.
The column `black` encodes an assumption about race; the paper has it.
"""

import sys
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_data
import papers
from gpx_methods import Rows, maximum_likelihood

QUANTITIES = ("contribution", "weight")
LEVEL = 0.9
PLACES = (0.125, 0.375, 0.625, 0.875)
"""Quantiles of the prices of the houses that are drawn."""

VERBS = (bx.contributions, bx.weights)
OPTIONS = {"keep": "summary", "ci_prob": LEVEL, "progressbar": False}
QUICK = 2
"""Splits of a quick run."""


def likeliest(train):
    model, idata, _ = maximum_likelihood("GPX", train)
    return model, idata


def default(train):
    model = bx.GPX(train.X, train.y)
    return model, model.fit("map", seed=0, progressbar=False)


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
"""How a model is fitted, and what is done to the standardised rows before."""


def main(arguments=None):
    paper = papers.Paper("gpx_figure1", __doc__, arguments)
    problem = gpx_data.problem("boston", paper.folder)
    found = {}
    for name, (fit, changed) in SETTINGS.items():
        own = problem._replace(rows=changed(problem.rows))
        splits = own.splits()[: QUICK if paper.quick else None]
        found[name] = explained(fit, splits, problem.features)
    paper.table(shares(found))
    paper.figure(plot(found, np.concatenate([split.test.y for split in splits])))


def explained(fit, splits, features):
    """Contributions and weights of the test rows of all splits: mean, sd and interval."""
    parts = []
    for split in splits:
        model, idata = fit(split.train)
        told = [verb(model, idata, split.test.X, **OPTIONS) for verb in VERBS]
        kept = [f"{what}_{number}" for what in QUANTITIES for number in ("mean", "sd", "interval")]
        parts.append(xr.merge(told, combine_attrs="drop", compat="equals")[kept])
    return xr.concat(parts, "obs").assign_coords(feature=features)


def shares(found):
    """How many houses have a contribution, and a weight, of either sign: a row for each feature."""
    parts = []
    for (name, told), what in product(found.items(), QUANTITIES):
        mean, interval = told[f"{what}_mean"], told[f"{what}_interval"]
        signs = {
            "positive": mean > 0,
            "negative": mean < 0,
            "surely_positive": interval.sel(ci_bound="lower", drop=True) > 0,
            "surely_negative": interval.sel(ci_bound="upper", drop=True) < 0,
        }
        table = xr.Dataset(signs).mean("obs").to_dataframe().reset_index()
        table.insert(0, "quantity", what)
        table.insert(0, "setting", name)
        parts.append(table.assign(houses=mean.sizes["obs"]))
    return pd.concat(parts, ignore_index=True)


def plot(found, prices):
    """Contributions to four houses with their sd, a row of panels for each setting."""
    order = np.argsort(prices, kind="stable")
    houses = [order[int(place * len(order))] for place in PLACES]
    figure, axes = plt.subplots(
        len(found), len(houses), figsize=(13, 11), sharex=True, sharey=True, layout="constrained"
    )
    for row, (name, told) in zip(axes, found.items(), strict=True):
        for axis, house in zip(row, houses, strict=True):
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
            axis.set_title(f"price {prices[house]:+.1f} sd")
        row[0].set_ylabel(name)
    axes[0, 0].invert_yaxis()
    figure.supxlabel("contribution and its sd, in sd of the price", fontsize="medium")
    return figure


if __name__ == "__main__":
    main()
