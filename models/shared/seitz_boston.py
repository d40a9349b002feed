"""What makes a house dear, on average? Gradients and attributions of Boston's tracts, after Seitz.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), section 6, Figures 1 and 2.

A Gaussian process with one lengthscale and ten inducing points explains the standardised values of
all tracts, against the average tract. Three explanations of each tract are averaged:

- the integrated gradient: the gradient averaged along the path from the baseline, times the way
  that the feature goes;
- the average path gradient, which is the same without the way: the author's code computes this for
  the figures, whereas equation 24 has the factor x;
- gradient x input, the paper's linear explanation: the gradient at the tract times the feature.

Integrals are right-hand sums of ten steps, as in the author's code; the paper names no number.
Attributions of tracts on either side of the baseline cancel in their mean: how much a feature
matters is told by the mean size. Equation 23 has S, the uncertainty of the values at the inducing
points. The author's code leaves S out of the figure's variances, which then describe what ten
points cannot see and not what 506 tracts leave open. The column `black` encodes an assumption about
race and is kept only because the figure has it.
"""

import numpy as np
import pandas as pd
import xarray as xr

import bayes_gpx as bx
import script

INDUCING, STEPS = 10, 10
KNOWN = 1e-3
"""Noise, over that of the fit, at which the values at inducing points are as good as known."""

PATH, INTEGRATED, LINEAR = "average path gradient", "integrated gradient", "gradient x input"
SUMS = {"baseline": "zero", "method": "right", "steps": STEPS}
SUMMARY = {"keep": "summary", "progressbar": False}


def averages(paper):
    """Averages over tracts: feature, mean, size, variance, variance_without_S, quantity.

    `missed` is the largest error of ten steps in any tract's integrated gradient.
    """
    data = bx.datasets.load("boston", path=paper.folder)
    X, y = script.z_scores(data.X), script.z_scores(data.y)
    if paper.quick:
        X, y = X[::4], y[::4]
    model = bx.GP(X, y, scale=False, ard=False, resolution=0, approximation=bx.Inducing(INDUCING))
    idata = model.fit("map", progressbar=False, jacobian=False)
    theta = {name: value.item() for name, value in idata["posterior"].data_vars.items()}
    found, without = (explained(model, given) for given in (theta, without_S(theta)))
    exact = bx.attributions(model, theta, baseline="zero", **SUMMARY)["attribution_mean"]
    parts = []
    for quantity, (mean, variance) in found.items():
        own = average(mean, variance).assign(quantity=quantity)
        own["variance_without_S"] = average(*without[quantity])["variance"]
        missed = abs(mean - exact).max("obs").values if quantity == INTEGRATED else np.nan
        parts.append(own.assign(missed=missed))
    return pd.concat(parts, ignore_index=True)


def explained(model, theta):
    """Mean and variance of each explanation of every tract, by quantity."""
    sums = script.summed(model, theta, **SUMS, **SUMMARY)
    slopes = bx.derivatives(model, theta, **SUMMARY)
    mean, variance, x = sums["attribution_mean"], sums["attribution_sd"] ** 2, sums["value"]
    slope, spread = slopes["derivative_mean"], slopes["derivative_sd"] ** 2
    return {
        PATH: (mean / x, variance / x**2),
        INTEGRATED: (mean, variance),
        LINEAR: (slope * x, spread * x**2),
    }


def without_S(theta):
    """Hyperparameters whose variances lack S: with next to no noise, the data fix u.

    Their means are of no use.
    """
    return theta | {"sigma": KNOWN * theta["sigma"]}


def average(mean, variance):
    """Means over rows of each feature's mean, its size and its variance, in long form."""
    columns = {"mean": mean, "size": abs(mean), "variance": variance}
    return xr.Dataset(columns).mean("obs").to_dataframe().reset_index()
