"""Figure 5 of Yoshikawa and Iwata: GPX's weights of ten digits.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

At a positive weight (red), ink raises the prediction toward 5 to 9; at a negative weight (blue),
toward 0 to 4. The upper part uses the paper's setting, with hyperparameters that maximize the
marginal likelihood. The lower part uses the package's default priors with MAP. Both have one
lengthscale, and pixels between 0 and 1. Labels as numbers have almost no noise, so both noises
collapse to 0 and the sd of weights equals the sd of the Gaussian process: one number per image
cannot determine its 64 weights separately.

The paper finds that weights have the sign of y at pixels with ink. Over all held-out images, the
table contains the proportion of ink with weights of the sign of y (`ink`) and their proportion of
the sum of |weight x pixel| (`weighed_ink`), with the error and coverage of predictions.
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
    """Measure the paper's claim about weights: one row of the table."""
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
