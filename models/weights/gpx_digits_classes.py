"""Which pixels indicate each digit? GPX with a softmax over ten classes.

This script extends the digits experiment of

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise
    feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
    5789-5803, section V,

to all ten digits, which the paper leaves to future work. Each image has a weight for each pixel and
class; with a positive weight, ink raises the latent value of that digit. The posterior is sparse
and variational. The data determine weights only up to a part that all classes share, so the script
subtracts the mean over classes. The fitted lengthscale is long: weights hardly vary between images,
so all rows of the figure look similar.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

INDUCING = 60


def main(arguments=None):
    run = script.Run("gpx_digits_classes", __doc__, arguments, data="digits", method="svgp")
    X, X_test, y, y_test = train_test_split(
        run.data.X / 16.0, run.data.y, test_size=0.2, random_state=0, stratify=run.data.y
    )
    model = bx.GPX(
        X,
        y,
        likelihood="categorical",
        ard=False,
        scale=False,
        intercept=True,
        approximation=bx.Inducing(INDUCING),
    )
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, draws=200, seed=run.seed)
    scores = script.classified(predicted, y_test)
    run.table(scores, "scores")
    print(f"\nOn {len(y_test)} held-out images:\n{scores.round(4).to_string(index=False)}")

    pixels = list(X.columns)
    found = bx.weights(model, idata, X_test, features=pixels, keep="summary", smooth=True)
    mean = found["weight_mean"] - found["weight_mean"].mean("class")
    run.figure(plot_classes(mean, y_test), "weights")


def plot_classes(weights, digits):
    """Plot mean weights of each class (columns) for images of each digit (rows)."""
    means = weights.assign_coords(digit=("obs", digits.values)).groupby("digit").mean()
    limit = float(np.abs(means).max())
    colors = ScalarMappable(Normalize(-limit, limit), "RdBu_r")
    number = means.sizes["digit"]
    figure, axes = plt.subplots(number, number, figsize=(9, 9.6), layout="constrained")
    for row, digit in zip(axes, means["digit"].values, strict=True):
        for panel, label in zip(row, means["class"].values, strict=True):
            image = means.sel({"digit": digit, "class": label}).values.reshape(8, 8)
            panel.imshow(image, norm=colors.norm, cmap=colors.cmap)
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_visible(True)
        row[0].set_ylabel(f"images of {digit}", fontsize=8)
    for panel, label in zip(axes[0], means["class"].values, strict=True):
        panel.set_title(f"for {label}", fontsize=9)
    figure.colorbar(colors, ax=axes, label="mean weight, less that of all classes", shrink=0.6)
    return figure


if __name__ == "__main__":
    main()
