"""Figure 3 of Seitz: the four explained handwritten digits.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

The table contains their places among the zeros and ones of MNIST's training images, their labels,
and the proportion of their ink in the central 8 x 8 pixels. The paper assumes that the classifiers
use these pixels.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import seitz_mnist


def main(arguments=None):
    paper = papers.Paper("seitz_figure3", __doc__, arguments)
    X, y = seitz_mnist.images(paper)
    X, y = X.values[seitz_mnist.PLACES], y.iloc[seitz_mnist.PLACES].values
    shares = [seitz_mnist.middle(x) for x in X]
    paper.table(pd.DataFrame({"image": seitz_mnist.EXPLAINED, "label": y, "middle": shares}))
    figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
    for axis, pixels, label in zip(axes, X, y, strict=True):
        axis.imshow(pixels.reshape((28, 28)), cmap="gray")
        axis.set_title(label)
        axis.set_axis_off()
    paper.figure(figure)


if __name__ == "__main__":
    main()
