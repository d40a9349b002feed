"""Which pixels make a digit small or large? GPX on images of handwritten digits.

Reproduces the digits experiment of

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise
    feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
    5789-5803, Figures 3, 5 and 6.

The target is +1 for the digits 5 to 9 and -1 for 0 to 4. Each image has a weight for each
pixel, so its weights are an image too. Where a weight is positive, ink speaks for 5 to 9; what
the ink that is there does say is the contribution, weight times pixel.

Two classes as numbers are all but free of noise, and both noises collapse: the standard
deviations shown come from the Gaussian process. Compare them with `amplitude`, their prior value:
64 weights of one image cannot be told apart by its one number. MAP is the default; NUTS needs
thousands of steps that each cost as much as one of MAP's few.
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

EXAMPLES = 2


def main(arguments=None):
    run = script.Run("gpx_digits", __doc__, arguments, data="digits", method="map")
    images, digits = run.data.X, run.data.y

    darkest, brightest = images.min(axis=1), images.max(axis=1)
    X = images.sub(darkest, axis=0).div(brightest - darkest, axis=0)
    y = digits.ge(5).map({True: 1.0, False: -1.0}).rename("side")
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)

    # Some pixels are white in every image, so columns cannot be standardised.
    model = bx.GPX(X, y, ard=False, scale=False)
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, seed=run.seed)
    run.score(predicted, y_test)

    weights = bx.weights(model, idata, X_test, keep="summary")
    contributions = bx.contributions(model, idata, X_test, keep="summary")
    digits_test = digits.loc[X_test.index]
    examples = digits_test.sort_values(kind="stable").groupby(digits_test).head(EXAMPLES).index
    run.figure(bx.plot_image(weights, (8, 8), obs=examples), "weights")
    run.figure(bx.plot_image(contributions, (8, 8), obs=examples), "contributions")
    run.figure(plot_means(weights["weight_mean"], digits_test), "mean_weights")


def plot_means(weights, digits):
    """The mean weights of each digit's images."""
    means = weights.assign_coords(digit=("obs", digits.values)).groupby("digit").mean()
    limit = np.abs(means).max()
    colors = ScalarMappable(Normalize(-limit, limit), "RdBu_r")
    figure, axes = plt.subplots(2, 5, figsize=(9, 4.3), layout="constrained")
    for panel, mean in zip(axes.flat, means, strict=True):
        panel.imshow(mean.values.reshape(8, 8), norm=colors.norm, cmap=colors.cmap)
        panel.set(xticks=[], yticks=[], title=mean["digit"].item())
        panel.spines[:].set_visible(True)
    figure.colorbar(colors, ax=axes, label="mean weight")
    figure.suptitle("Red for 5 to 9, blue for 0 to 4")
    return figure


if __name__ == "__main__":
    main()
