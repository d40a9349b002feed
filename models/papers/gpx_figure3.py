"""Figure 3 of Yoshikawa and Iwata: weights of the pixels of two digits, by every method.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

The figure shows a two (y = -1) and a six (y = +1), with pixels between 0 and 1. Red is positive and
blue negative, and each panel has its own scale, as in the paper. Weights of KL and ARD have no
sign.

The paper calls weights appropriate if they have the sign of y at pixels with ink. The table
contains the proportion of the ink with such weights (`ink`), and their proportion of the sum of
|weight x pixel| (`weighed_ink`). Both are given for the two images and as means over three images
of each digit. Chance gives a half. If most weights are zero, `ink` is small and `weighed_ink` shows
whether the other weights are right. `off_ink` is the proportion of the total absolute weight at
pixels without ink. `size` is the largest weight of an image.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_data
import papers
from gpx_methods import METHODS, Split
from gpx_scores import RELEVANCES, ink_of_one_sign

NAMES = ("GPX", "LIME", "SHAP", "Network", "Localized", "KL", "ARD")
QUICK = ("GPX", "Network", "KL", "ARD")
QUICK_ROWS = 120
DIGITS = (2, 6)
EACH = 3
"""Explained images per digit."""


def main(arguments=None):
    paper = papers.Paper("gpx_figure3", __doc__, arguments)
    train, test, digits = gpx_data.images(EACH, QUICK_ROWS if paper.quick else None)
    split = Split(train, test)
    weights = {
        name: paper.arrays(lambda: {"weights": METHODS[name](split).weights}, name)["weights"]  # noqa: B023
        for name in (QUICK if paper.quick else NAMES)
    }
    paper.table(agreement(weights, test, digits))
    paper.figure(plot(weights, test, digits))


def agreement(weights, rows, digits):
    """Proportions of ink with weights of the sign of y, and of weights off the ink, by method."""
    table = []
    for name, own in weights.items():
        shares = np.full((2, len(rows.y)), np.nan)
        if name not in RELEVANCES:
            shares = np.array(ink_of_one_sign(own, rows))
        sizes = np.abs(own)
        whole = sizes.sum(axis=1)
        beside = (sizes * (rows.Z == 0)).sum(axis=1)
        off = np.divide(beside, whole, out=np.full_like(whole, np.nan), where=whole > 0)
        told = np.vstack([shares, off, sizes.max(axis=1)])
        for digit in DIGITS:
            first = np.flatnonzero(digits == digit)[0]
            table.append((name, f"the {digit}", *told[:, first]))
        table.append((name, "mean", *told.mean(axis=1)))
    return pd.DataFrame(table, columns=["method", "image", "ink", "weighed_ink", "off_ink", "size"])


def plot(weights, rows, digits):
    """Plot the images, and the weights of each method next to them."""
    figure, axes = plt.subplots(
        len(DIGITS), 1 + len(weights), figsize=(13, 4), layout="constrained"
    )
    for line, digit in zip(axes, DIGITS, strict=True):
        first = np.flatnonzero(digits == digit)[0]
        line[0].imshow(rows.X[first].reshape(8, 8), cmap="Greys")
        line[0].set_ylabel(f"y = {rows.y[first]:+.0f}")
        for axis, own in zip(line[1:], weights.values(), strict=True):
            limit = np.abs(own[first]).max()
            axis.imshow(own[first].reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    for axis, name in zip(axes[0], ("image", *weights), strict=True):
        axis.set_title(name)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(True)
    return figure


if __name__ == "__main__":
    main()
