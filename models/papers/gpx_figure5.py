"""Figure 5 of Yoshikawa and Iwata: GPX's weights of ten digits.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

Where a weight is positive (red), ink speaks for 5 to 9; where it is negative (blue), for 0 to 4.
Above is the paper's setting, where hyperparameters maximise the marginal likelihood, below the
package's default priors with MAP; both have one lengthscale, and pixels between 0 and 1. Labels as
numbers are all but free of noise, so that both noises collapse and the sd of weights is that of
the Gaussian process: 64 weights of an image cannot be told apart by its one number.

The paper finds that weights have the sign of y where there is ink. The table has, over all held-out
images, the share of the ink whose weights have the sign of y (`ink`), and the same of the sum of
|weight x pixel| (`weighed_ink`), with the error and coverage of predictions.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_digits
import papers
from gpx_scores import ink_of_one_sign


def main(arguments=None):
    paper = papers.Paper("gpx_figure5", __doc__, arguments, cells=gpx_digits.CELLS)
    found, test, digits = gpx_digits.weights(paper)
    paper.table(pd.DataFrame([scores(name, told, test) for name, told in found.items()]))
    paper.figure(gpx_digits.plot(found, test, np.searchsorted(digits, np.arange(10))))


def scores(name, told, rows):
    """What the paper claims of weights, in numbers: a row of the table."""
    error = told["y_mean"] - rows.y
    ink, weighed_ink = (share.mean() for share in ink_of_one_sign(told["weights"], rows))
    return {
        "setting": name,
        "ink": ink,
        "weighed_ink": weighed_ink,
        "weight_sd": told["weight_sd"].mean(),
        "mse": np.mean(error**2),
        "coverage_90": np.mean(np.abs(error) < norm.ppf(0.95) * told["y_sd"]),
        "images": len(rows.y),
    }


if __name__ == "__main__":
    main()
