"""Handwritten zeros and ones by sparse variational classifiers, after Seitz.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), section 6, Figures 3 to 5.

There are ten inducing points, starting at the first ten images. The models are fitted to the zeros
and ones of MNIST's test images. Of its training images, only the 27 zeros and ones among the first
hundred could be obtained; they include the paper's four images. Explanations are means of
integrated gradients of the probability, with the black image as baseline. The paper shows the
positive parts for the right class and for the wrong one.
"""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

EXPLAINED = [1, 9, 2, 3]
"""Numbers of the paper's images among the zeros and ones of the training images, from 1."""

PLACES = [number - 1 for number in EXPLAINED]

INDUCING, SIDE, MIDDLE = 10, 28, slice(10, 18)
NAMES = {0: "zero", 1: "one"}
QUIET = {"progressbar": False}


class Explained(NamedTuple):
    """Explanations of the four images, by one model.

    `right` and `wrong` (4, 784) are the positive parts of the attributions to the probability of
    the right and the wrong class. Columns of `table`: image, label, probability (of the right
    class), black_image (the same probability at the baseline), explained (the sum of the
    attributions to the right class), middle_right and middle_wrong (proportions of the positive
    parts in the central 8 x 8 pixels, a twelfth of the image), accuracy (on the 27 images).
    """

    table: pd.DataFrame
    right: np.ndarray
    wrong: np.ndarray


def images(paper):
    """The zeros and ones among the first hundred training images: pixels in [0, 1], labels."""
    first = bx.datasets.load("mnist01_first", path=paper.folder)
    return first.X / 255.0, first.y.map(NAMES)


def explain(paper, likelihood):
    """Fit a classifier, and explain the four images."""
    data = bx.datasets.load("mnist01", path=paper.folder)
    X, y = data.X / 255.0, data.y.map(NAMES)
    if paper.quick:
        X, y = X[:200], y[:200]
    held_out, truth = images(paper)
    points = bx.Inducing(X.iloc[:INDUCING].values)
    options = {"ard": False, "scale": False, "approximation": points}
    model = bx.GP(X, y, likelihood=likelihood, **options)
    idata = model.fit("svgp", seed=0, jacobian=False, **QUIET)
    options = {"keep": "summary", **QUIET}
    predicted = of_classes(
        bx.predictions(model, idata, held_out, **options), "probability_mean", 1.0
    )
    accuracy = (predicted.idxmax(axis=1).values == truth.values).mean()
    shown, labels = held_out.iloc[PLACES], truth.iloc[PLACES]
    found = bx.attributions(model, idata, shown, baseline="zero", **options)
    of = {name: of_one(found, name, model.training.labels) for name in NAMES.values()}
    rows, right, wrong = [], [], []
    for k, label in enumerate(labels):
        own = of[label][k]
        right.append(np.maximum(own, 0))
        wrong.append(np.maximum(of[other(label)][k], 0))
        probability = predicted[label].iloc[PLACES[k]]
        row = {"image": EXPLAINED[k], "label": label, "probability": probability}
        row |= {"black_image": probability - own.sum(), "explained": own.sum()}
        row |= {"middle_right": middle(right[-1]), "middle_wrong": middle(wrong[-1])}
        rows.append(row | {"accuracy": accuracy})
    return Explained(pd.DataFrame(rows), np.array(right), np.array(wrong))


def other(label):
    return next(name for name in NAMES.values() if name != label)


def of_classes(found, name, whole):
    """Values for both classes as a frame; with two classes, the model gives only the second."""
    own = found[name]
    if "class" in own.dims:
        return own.transpose("obs", "class").to_pandas()
    first, second = found.attrs["labels"]
    return pd.DataFrame({first: whole - own.values, second: own.values})


def of_one(found, label, labels):
    """Attributions (4, 784) to the probability of one class."""
    own = found["attribution_mean"]
    if "class" in own.dims:
        return own.sel({"class": label}).transpose("obs", "feature").values
    return (1 if label == labels[1] else -1) * own.transpose("obs", "feature").values


def middle(values):
    """Proportion of positive values in the central 8 x 8 pixels."""
    square = values.reshape((SIDE, SIDE))
    return square[MIDDLE, MIDDLE].sum() / square.sum()


def plot(found):
    """Plot positive parts for the right class above, for the wrong one below."""
    figure, axes = plt.subplots(2, 4, figsize=(11, 6), layout="constrained")
    rows = zip(axes, ("right", "wrong"), (found.right, found.wrong), strict=True)
    for row, which, values in rows:
        for axis, own, label in zip(row, values, found.table["label"], strict=True):
            axis.imshow(own.reshape((SIDE, SIDE)), cmap="gray")
            axis.set_title(f"{which} class: {label if which == 'right' else other(label)}")
            axis.set_axis_off()
    return figure
