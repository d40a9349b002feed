"""Equation 39 of Seitz: expected gradients of probabilities by Taylor expansion, and exact.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

The mean gradient of a class's probability is an expectation over the latent functions. The paper
expands it around their means, with the trace of a Hessian. This script computes the expectation
exactly by Gauss-Hermite quadrature, for three species of iris (equation 39) and for two of them
(equation 35, corrected: see the errata). Both computations assume independent latent functions, as
the paper does. The posterior of a softmax does not have independent functions, even if its prior
does. `independence` is the difference between the package's mean gradients, with coupled classes,
and the independent ones.

Errors are the largest over flowers, features (in sd) and classes, and `share` is the error relative
to the largest gradient. Hyperparameters are at their mode. To make posteriors narrower, the script
also uses an amplitude of 1.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import script

NODES, STEP = 41, 1e-4
SUMMARY = {"keep": "summary", "progressbar": False}


def main(arguments=None):
    paper = papers.Paper("seitz_equation39", __doc__, arguments)
    data = bx.datasets.load("iris")
    some = slice(None, None, 10 if paper.quick else 1)
    two = (data.y != "setosa").values
    problems = {
        "three species": (data.X, data.y, "categorical"),
        "two species": (data.X[two], data.y[two], "bernoulli"),
    }
    rows, points = [], []
    for name, (X, y, likelihood) in problems.items():
        X, y = script.z_scores(X)[some], y[some]
        model = bx.GP(X, y, likelihood=likelihood, ard=False, scale=False)
        idata = model.fit("map", progressbar=False, jacobian=False)
        mode = {key: value.item() for key, value in idata["posterior"].data_vars.items()}
        for theta in (mode, mode | {"amplitude": 1.0}):
            latent = moments(model, theta)
            exact, taylor = exactly(*latent), expanded(*latent)
            own = bx.derivatives(model, theta, **SUMMARY)["derivative_mean"]
            if likelihood == "bernoulli":  # the probability of the second label
                exact, taylor = exact[..., 0], taylor[..., 0]
                coupled = own.transpose("obs", "feature").values
            else:
                coupled = own.transpose("obs", "feature", "class").values
            largest, error = np.abs(exact).max(), np.abs(taylor - exact).max()
            row = {"data": name, "amplitude": theta["amplitude"]}
            sd = np.median(np.sqrt(latent[1][:, 0]))
            row |= {"sd_of_f": sd, "largest": largest, "error": error, "share": error / largest}
            rows.append(row | {"independence": np.abs(coupled - exact).max()})
            label = f"{name}, amplitude {theta['amplitude']:.3g}"
            points.append((label, exact.ravel(), taylor.ravel()))
    paper.table(pd.DataFrame(rows))
    paper.figure(plot(points))


def moments(model, theta):
    """Moments of the latent functions at the training rows, independent of each other.

    Means (m, C), variances (m, C), means of derivatives (m, d, C), and covariances of derivatives
    with the functions (m, d, C). The covariance is half the derivative of the variance. Two classes
    are a softmax of f and 0.
    """
    X = pd.DataFrame(model.training.X.values, columns=list(model.training.X.columns))

    def at(places):
        found = bx.predictions(model, theta, places, on="latent", **SUMMARY)
        mean, variance = found["f_mean"], found["f_sd"] ** 2
        return tuple(_with_classes(own) for own in (mean, variance))

    mean, variance = at(X)
    slopes = bx.derivatives(model, theta, X, on="latent", **SUMMARY)["derivative_mean"]
    slopes = _with_classes(slopes.transpose("obs", "feature", ...))
    covariance = np.empty_like(slopes)
    for k, name in enumerate(X):
        there = [at(X.assign(**{name: X[name] + sign * STEP}))[1] for sign in (1, -1)]
        covariance[:, k] = (there[0] - there[1]) / (4 * STEP)
    return mean, variance, slopes, covariance


def _with_classes(own):
    if "class" in own.dims:
        return own.transpose("obs", ..., "class").values
    return np.stack([own.values, np.zeros(own.shape)], axis=-1)


def softmax_derivatives(f):
    """Softmax at f (..., C): S_c; dS_c / df_j; d2S_c / df_j df_i; d3S_c / df_j df_i df_i."""
    S = np.exp(f - f.max(axis=-1, keepdims=True))
    S = S / S.sum(axis=-1, keepdims=True)
    same = np.eye(f.shape[-1])
    apart = same - S[..., None, :]  # c, j
    first = S[..., :, None] * apart
    second = first[..., :, None, :] * apart[..., :, :, None]  # c, j, i
    second = second - S[..., :, None, None] * first[..., None, :, :]
    twice = np.diagonal(second, axis1=-2, axis2=-1)  # c, i: d2S_c / df_i^2
    third = twice[..., :, None, :] * apart[..., :, :, None]
    third = third - 2 * first[..., :, None, :] * first[..., None, :, :]
    return S, first, second, third - S[..., :, None, None] * twice[..., None, :, :]


def expanded(mean, variance, slopes, covariance):
    """Equation 39: (m, d, C)."""
    _, first, second, third = softmax_derivatives(mean)
    around = first + 0.5 * np.einsum("ncji,ni->ncj", third, variance)
    return np.einsum("ncj,nkj->nkc", around, slopes) + np.einsum(
        "ncjj,nkj->nkc", second, covariance
    )


def exactly(mean, variance, slopes, covariance):
    """The expectation in equation 39, by quadrature and Stein's lemma: (m, d, C)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    C = mean.shape[1]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * C)], axis=-1)
    weights = np.prod(np.meshgrid(*[weights / weights.sum()] * C), axis=0).ravel()
    known = weights > 1e-16
    grid, weights = grid[known], weights[known]
    found = np.empty_like(slopes)
    for n in range(len(mean)):
        _, first, second, _ = softmax_derivatives(mean[n] + grid * np.sqrt(variance[n]))
        found[n] = slopes[n] @ np.tensordot(weights, first, 1).T
        bends = np.diagonal(np.tensordot(weights, second, 1), axis1=1, axis2=2)
        found[n] += covariance[n] @ bends.T
    return found


def plot(points):
    """Plot expanded against exact gradients, one panel per problem."""
    figure, axes = plt.subplots(1, len(points), figsize=(15, 4.2), layout="constrained")
    for axis, (label, exact, taylor) in zip(axes, points, strict=True):
        ends = [exact.min(), exact.max()]
        axis.plot(ends, ends, color="gray", linewidth=1)
        axis.plot(exact, taylor, ".", markersize=4)
        axis.set_title(label, fontsize="medium")
        axis.set_xlabel("exact mean gradient")
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_ylabel("by Taylor expansion")
    return figure


if __name__ == "__main__":
    main()
