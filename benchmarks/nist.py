"""Correct digits of regression coefficients on the linear reference data sets of NIST.

A Gaussian process with a linear kernel is a ridge regression whose penalty is the noise variance
over the prior variance of a slope. With a wide fixed amplitude and the certified noise, the slopes
of f are the least-squares coefficients, except for the penalty and for rounding: the covariance of
all rows has a condition number of at least (amplitude / sigma)^2. The script prints the smallest
number of correct digits of all coefficients for several amplitudes, next to NumPy's `lstsq`. The
certified values themselves have three to ten digits. At the best amplitude, 100, seven sets have 3
to 10 correct digits. Filip and Wampler 3 to 5 have at most 2: where noise is large beside the
smallest singular value of the columns, the penalty moves the slopes, and a wider prior loses as
much to rounding. Needs the folder BAYES_GPX_DATA.

    python benchmarks/nist.py
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

import bayes_gpx as bx

POWERS = {"pontius": 2} | {f"wampler{number}": 5 for number in range(1, 6)}
"""Degrees of the polynomials whose files contain only x."""

NAMES = ("filip", "longley", "noint1", "noint2", "norris", *POWERS)
"""Data sets, as their files are called."""

AMPLITUDES = (1e1, 1e2, 1e3, 1e4)
"""Prior sds of the slopes, of standardized columns and response."""

LEAST_NOISE = 1e-6
"""Noise of responses that lie exactly on the line, in standard deviations of y."""


def certified(name):
    """Columns, response, certified coefficients and residual sd of a data set."""
    folder = Path(os.environ["BAYES_GPX_DATA"]) / "nist_strd"
    rows = pd.read_csv(folder / f"{name}.csv").astype(float)
    known = pd.read_csv(folder / f"{name}_certified.csv")
    X, y = rows.drop(columns="y"), rows["y"]
    for power in range(2, POWERS.get(name, 1) + 1):
        X[f"x^{power}"] = X.iloc[:, 0] ** power
    return X, y, known["NIST-Beta"].to_numpy(float), float(known["NIST-RSD"][0])


def digits(found, expected):
    """The fewest correct digits of all coefficients; at most 16."""
    relative = np.abs(found - expected) / np.abs(expected)
    return float(-np.log10(np.clip(relative.max(), 1e-16, 1.0)))


def by_slopes(name, amplitude):
    """Correct digits of the slopes of f, and of f at 0 as the intercept."""
    X, y, expected, sigma = certified(name)
    scale = not name.startswith("noint")
    sigma = max(sigma / y.std(ddof=0) if scale else sigma, LEAST_NOISE)
    priors = {"amplitude": amplitude, "sigma": sigma}
    model = bx.GP(X, y, kernel="linear", scale=scale, priors=priors)
    options = {"keep": "summary", "progressbar": False}
    found = bx.derivatives(model, {}, obs=[0], **options)["derivative_mean"].values[0]
    if scale:
        zero = bx.predictions(model, {}, 0.0 * X[:1], **options)["f_mean"].values
        found = np.concatenate([zero, found])
    return digits(found, expected)


def by_lstsq(name):
    """Correct digits of NumPy's least squares."""
    X, y, expected, _ = certified(name)
    ones = [] if name.startswith("noint") else [np.ones(len(X))]
    found, *_ = np.linalg.lstsq(np.column_stack([*ones, X]), y, rcond=None)
    return digits(found, expected)


def main():
    """Print the table."""
    bx_columns = {f"amplitude {a:g}": [by_slopes(n, a) for n in NAMES] for a in AMPLITUDES}
    table = pd.DataFrame(bx_columns | {"numpy lstsq": [*map(by_lstsq, NAMES)]}, index=NAMES)
    print(table.round(1).abs().to_string())


if __name__ == "__main__":
    main()
