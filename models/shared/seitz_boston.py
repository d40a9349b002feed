"""Why is a house expensive, on average? Gradients and attributions of Boston's tracts, after Seitz.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), section 6, Figures 1 and 2.

A Gaussian process with one lengthscale and ten inducing points explains the standardized values of
all tracts, with the average tract as baseline. Three explanations of each tract are averaged:

- the integrated gradient: the gradient averaged along the path from the baseline, times the change
  of the feature;
- the average path gradient, without this factor: the author's code computes it for the figures,
  although equation 24 has the factor x;
- gradient x input, the paper's linear explanation: the gradient at the tract times the feature.

Integrals are right-hand sums of ten steps, as in the author's code; the paper gives no number.
Attributions of tracts on opposite sides of the baseline cancel in their mean, so the mean absolute
value shows how much a feature matters. Equation 23 has S, the uncertainty of the values at the
inducing points. The author's code leaves S out of the figure's variances. These variances then
describe the approximation error of ten points and not the uncertainty that 506 tracts leave. The
column `black` encodes an assumption about race and is kept only because the figure includes it.
"""

import numpy as np
import pandas as pd
import xarray as xr

import bayes_gpx as bx
import script

INDUCING, STEPS = 10, 10
KNOWN = 1e-3
"""Noise relative to the fit at which the values at inducing points are practically known."""

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
    """Hyperparameters with almost no noise: the data determine u, so variances lack S.

    Do not use their means.
    """
    return theta | {"sigma": KNOWN * theta["sigma"]}


def average(mean, variance):
    """Means over rows of each feature's mean, size and variance, in long form."""
    columns = {"mean": mean, "size": abs(mean), "variance": variance}
    return xr.Dataset(columns).mean("obs").to_dataframe().reset_index()
