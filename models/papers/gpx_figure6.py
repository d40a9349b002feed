"""Figure 6 of Yoshikawa and Iwata: GPX's weights of three twos.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

The settings are the settings of `gpx_figure5`. The paper finds that images of one digit have
similar weights. The table contains the mean correlation of weights between two held-out images: of
the same digit, of two digits on the same side, and of digits on different sides.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_digits
import papers

DIGIT, IMAGES = 2, 3


def main(arguments=None):
    paper = papers.Paper("gpx_figure6", __doc__, arguments, cells=gpx_digits.CELLS)
    found, test, digits = gpx_digits.weights(paper)
    own = {name: told["weights"] for name, told in found.items()}
    paper.table(pd.DataFrame([alike(name, w, test.y, digits) for name, w in own.items()]))
    paper.figure(gpx_digits.plot(found, test, np.flatnonzero(digits == DIGIT)[:IMAGES]))


def alike(name, weights, y, digits):
    """Mean correlations of weights between images: one row of the table."""
    same = digits[:, None] == digits
    side = np.equal.outer(y, y)
    correlations = np.corrcoef(weights)
    others = ~np.eye(len(digits), dtype=bool)
    return {
        "setting": name,
        "same_digit": correlations[same & others].mean(),
        "same_side": correlations[side & ~same].mean(),
        "other_side": correlations[~side].mean(),
        "images": len(digits),
    }


if __name__ == "__main__":
    main()
