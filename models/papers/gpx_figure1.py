"""Figure 1 of Yoshikawa and Iwata: why one Boston house is expensive or cheap, with error bars.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

Contributions of all 13 columns to the standardized price, with their sd, in three settings: the
paper's (one lengthscale, marginal likelihood), the paper's with inputs between 0 and 1, and this
package's (one lengthscale per feature, default priors, MAP). The paper does not name its house, so
this script uses the house with the median price. `gpx_figure4` shows four others, and counts over
all houses.
"""

import sys
from pathlib import Path

import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_houses
import papers

PLACE = 0.5
"""Quantile of the price of the plotted house."""

NUMBERS = ("contribution_mean", "contribution_sd", "weight_mean", "weight_sd")


def main(arguments=None):
    paper = papers.Paper("gpx_figure1", __doc__, arguments)
    found, prices = gpx_houses.houses(paper)
    (house,) = gpx_houses.at_prices(prices, [PLACE])
    paper.table(table(found, house))
    paper.figure(plot(found, house, prices[house]))


def table(found, house):
    """Contributions and weights of the house, one row per setting and feature."""
    parts = []
    for name, told in found.items():
        own = told[list(NUMBERS)].isel(obs=house).to_dataframe()[list(NUMBERS)].reset_index()
        own.insert(0, "setting", name)
        parts.append(own)
    return pd.concat(parts, ignore_index=True)


def plot(found, house, price):
    """Plot one panel per setting."""
    figure, axes = gpx_houses.panels(1, len(found), (11, 4.5))
    for axis, (name, told) in zip(axes[0], found.items(), strict=True):
        gpx_houses.bars(axis, told, house)
        axis.set_title(name)
    figure.suptitle(f"price {price:+.2f} sd")
    return figure


if __name__ == "__main__":
    main()
