"""Figures 5 and 6 of Yoshikawa and Iwata: GPX's weights of ten digits, and of three twos.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

Where a weight is positive (red), ink speaks for 5 to 9; where it is negative (blue), for 0 to 4.
Above is the paper's setting, where hyperparameters maximise the marginal likelihood, below the
package's default priors with MAP; both have one lengthscale, and pixels between 0 and 1. Labels as
numbers are all but free of noise, so that both noises collapse and the sd of weights is that of
the Gaussian process: 64 weights of an image cannot be told apart by its one number.

The paper finds that weights have the sign of y where there is ink, and that images of one digit
have similar weights. The table has, over all held-out images, the share of the ink whose weights
have the sign of y (`ink`), the same of the sum of |weight x pixel| (`weighed_ink`), and the mean
correlation of weights between two images of the same digit, of two digits on the same side, and of
digits on both sides; with the error and coverage of predictions.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_data
import papers
from gpx_methods import maximum_likelihood
from gpx_scores import ink_of_one_sign

QUICK_ROWS = 120
TWOS = 3
"""Images of Figure 6."""

OPTIONS = {"keep": "summary", "progressbar": False}


def likeliest(train):
    model, idata, _ = maximum_likelihood("GPX", train)
    return model, idata


def default(train):
    model = bx.GPX(train.X, train.y, ard=False, scale=False)
    return model, model.fit("map", seed=0, progressbar=False)


SETTINGS = {"marginal likelihood": likeliest, "default priors": default}


def main(arguments=None):
    paper = papers.Paper("gpx_figure5", __doc__, arguments)
    train, test, digits = gpx_data.images(None, QUICK_ROWS if paper.quick else None)
    found = {
        name: paper.arrays(lambda: explained(fit, train, test), name.replace(" ", "_"))  # noqa: B023
        for name, fit in SETTINGS.items()
    }
    paper.table(pd.DataFrame([scores(name, told, test, digits) for name, told in found.items()]))
    first = np.searchsorted(digits, np.arange(10))
    paper.figure(plot(found, test, first))
    paper.figure(plot(found, test, first[2] + np.arange(TWOS)), "_twos")


def explained(fit, train, test):
    """Weights of images, their mean sd for each image, and predictions of y with sd."""
    model, idata = fit(train)
    weights = bx.weights(model, idata, test.X, **OPTIONS)
    predicted = bx.predictions(model, idata, test.X, **OPTIONS)
    told = {"weights": weights["weight_mean"], "weight_sd": weights["weight_sd"].mean("feature")}
    told |= {name: predicted[name] for name in ("y_mean", "y_sd")}
    return {name: values.values.astype("float32") for name, values in told.items()}


def scores(name, told, rows, digits):
    """What the paper claims of weights, in numbers: a row of the table."""
    same = digits[:, None] == digits
    side = np.equal.outer(rows.y, rows.y)
    alike = np.corrcoef(told["weights"])
    others = ~np.eye(len(digits), dtype=bool)
    error = told["y_mean"] - rows.y
    ink, weighed_ink = (share.mean() for share in ink_of_one_sign(told["weights"], rows))
    return {
        "setting": name,
        "ink": ink,
        "weighed_ink": weighed_ink,
        "same_digit": alike[same & others].mean(),
        "same_side": alike[side & ~same].mean(),
        "other_side": alike[~side].mean(),
        "weight_sd": told["weight_sd"].mean(),
        "mse": np.mean(error**2),
        "coverage_90": np.mean(np.abs(error) < norm.ppf(0.95) * told["y_sd"]),
        "images": len(digits),
    }


def plot(found, rows, chosen):
    """Images, and their weights in each setting."""
    figure, axes = plt.subplots(
        1 + len(found),
        len(chosen),
        figsize=(1.3 * len(chosen) + 0.5, 1.3 * (1 + len(found))),
        layout="constrained",
    )
    for k, place in enumerate(chosen):
        axes[0, k].imshow(rows.X[place].reshape(8, 8), cmap="Greys")
        for axis, told in zip(axes[1:, k], found.values(), strict=True):
            own = told["weights"][place]
            limit = np.abs(own).max()
            axis.imshow(own.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    for axis, name in zip(axes[:, 0], ("image", *found), strict=True):
        axis.set_ylabel(name, fontsize="small")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(True)
    return figure


if __name__ == "__main__":
    main()
