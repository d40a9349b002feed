"""GPX's weights of the pixels of digits, in the paper's setting and in this package's.

At a positive weight, ink raises the prediction toward 5 to 9; at a negative weight, toward 0 to 4.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayes_gpx as bx
import gpx_data
from gpx_methods import maximum_likelihood

CELLS = "gpx_figure5"
QUICK_ROWS = 120
OPTIONS = {"keep": "summary", "progressbar": False}


def likeliest(train):
    model, idata, _ = maximum_likelihood("GPX", train)
    return model, idata


def default(train):
    model = bx.GPX(train.X, train.y, ard=False, scale=False, resolution=0)
    return model, model.fit("map", seed=0, progressbar=False, jacobian=False)


SETTINGS = {"marginal likelihood": likeliest, "default priors": default}


def weights(paper):
    """Weights and predictions of all held-out images in each setting, their rows, and their digits.

    Two figures share the results, so `paper` must use `CELLS`.
    """
    train, test, digits = gpx_data.images(None, QUICK_ROWS if paper.quick else None)
    found = {
        name: paper.arrays(lambda: _explained(fit, train, test), name.replace(" ", "_"))  # noqa: B023
        for name, fit in SETTINGS.items()
    }
    return found, test, digits


def _explained(fit, train, test):
    """Weights of images, their mean sd for each image, and predictions of y with sd."""
    model, idata = fit(train)
    weights = bx.weights(model, idata, test.X, **OPTIONS)
    predicted = bx.predictions(model, idata, test.X, **OPTIONS)
    told = {"weights": weights["weight_mean"], "weight_sd": weights["weight_sd"].mean("feature")}
    told |= {name: predicted[name] for name in ("y_mean", "y_sd")}
    return {name: values.values.astype("float32") for name, values in told.items()}


def plot(found, rows, chosen):
    """Plot images, and their weights in each setting: red is positive, blue negative."""
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
        axis.set_ylabel(name.replace(" ", "\n"), fontsize="small")
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(True)
    return figure
