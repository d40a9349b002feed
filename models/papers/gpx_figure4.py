"""Figure 4 of Yoshikawa and Iwata: why four Boston houses are expensive, with error bars.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

This is `gpx_figure1` for four houses. The paper does not name its houses, so this script uses the
houses with prices at one, three, five and seven eighths of all.

The paper finds that some features contribute consistently, for example AGE positively and DIS
negatively. The table shows how often this is true among all 506 houses. `positive` is the
proportion of houses with a contribution above 0, and `surely_positive` the proportion with a 90%
interval above 0; both are given for weights too. With standardized inputs, a contribution changes
its sign with its feature, so weights of one sign give contributions of both signs. With inputs
between 0 and 1, contributions have the sign of the weights. The paper does not state which inputs
its figures use.
"""

import sys
from itertools import product
from pathlib import Path

import pandas as pd
import xarray as xr

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_houses
import papers

PLACES = (0.125, 0.375, 0.625, 0.875)
"""Quantiles of the prices of the plotted houses."""


def main(arguments=None):
    paper = papers.Paper("gpx_figure4", __doc__, arguments)
    found, prices = gpx_houses.houses(paper)
    paper.table(shares(found))
    paper.figure(plot(found, prices))


def shares(found):
    """Proportions of houses by sign of the contribution and of the weight, one row per feature."""
    parts = []
    for (name, told), what in product(found.items(), gpx_houses.QUANTITIES):
        mean, interval = told[f"{what}_mean"], told[f"{what}_interval"]
        signs = {
            "positive": mean > 0,
            "negative": mean < 0,
            "surely_positive": interval.sel(ci_bound="lower", drop=True) > 0,
            "surely_negative": interval.sel(ci_bound="upper", drop=True) < 0,
        }
        table = xr.Dataset(signs).mean("obs").to_dataframe().reset_index()
        table.insert(0, "quantity", what)
        table.insert(0, "setting", name)
        parts.append(table.assign(houses=mean.sizes["obs"]))
    return pd.concat(parts, ignore_index=True)


def plot(found, prices):
    """Plot one row of panels per setting, and one column per house."""
    chosen = gpx_houses.at_prices(prices, PLACES)
    figure, axes = gpx_houses.panels(len(found), len(chosen), (13, 11))
    for row, (name, told) in zip(axes, found.items(), strict=True):
        for axis, house in zip(row, chosen, strict=True):
            gpx_houses.bars(axis, told, house)
            axis.set_title(f"price {prices[house]:+.1f} sd")
        row[0].set_ylabel(name)
    return figure


if __name__ == "__main__":
    main()
