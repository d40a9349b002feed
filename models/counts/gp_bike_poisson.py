"""How many bikes are rented per hour? Two count models with a Gaussian process.

The data are hourly rentals in Washington in February, with wind, humidity, temperature, hour and
kind of day, from

    T. Paananen, M. R. Andersen and A. Vehtari, "Uncertainty-aware sensitivity analysis using Renyi
    divergences" (2021), section 4.

A Poisson distribution has a variance equal to its rate; a negative binomial distribution allows a
larger variance. Which distribution fits the dispersion of the counts? Held-out hours decide (figure
`coverage`). The figure `hours` shows the rate during a working day and a day off, with all other
features at their means.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

LIKELIHOODS = ("poisson", "negative_binomial")


def main(arguments=None):
    run = script.Run(
        "gp_bike_poisson", __doc__, arguments, data="bike", method="laplace", draws=200
    )
    X, X_test, y, y_test = train_test_split(run.data.X, run.data.y, test_size=0.2, random_state=0)
    covered, hours, scores = {}, [], {}
    for likelihood in LIKELIHOODS:
        model = bx.GP(X, y, likelihood=likelihood)
        idata = run.fit(model, suffix="" if likelihood == "poisson" else f"_{likelihood}")
        predicted = bx.predictions(model, idata, X_test, seed=run.seed)
        covered[likelihood] = bx.metrics.coverage(predicted, y_test, script.LEVELS)
        error = predicted["rate_mean"].values - y_test.values
        inside = covered[likelihood].sel(ci_prob=0.9).item()
        scores[likelihood] = {"rmse": np.sqrt(np.mean(error**2)), "coverage_90": inside}
        days = through_the_day(X)
        rate = bx.predictions(model, idata, days, seed=run.seed)["rate"]
        low, high = script.intervals(rate)
        mean = rate.mean(("chain", "draw")).values
        hours.append(days.assign(likelihood=likelihood, mean=mean, low=low, high=high))

    table = pd.DataFrame(scores).rename_axis("score")
    print(f"\nOn {len(y_test)} held-out hours:\n{table.round(3).to_string()}")
    run.table(table.reset_index(), "scores")
    hours = pd.concat(hours)
    inside = xr.Dataset(covered).to_array("likelihood", name="inside")
    run.table(inside.to_series().reset_index(), "coverage")
    run.table(hours, "hours")
    run.figure(script.plot_coverage(covered, len(y_test), "hours"), "coverage")
    run.figure(plot_hours(hours), "hours")


def through_the_day(X):
    """Rows for each hour of a working day and of a day off, other features at their means."""
    days = [(3, 1), (0, 0)]
    rows = pd.DataFrame([X.mean()] * 24 * len(days)).reset_index(drop=True)
    rows["hr"] = np.tile(np.arange(24.0), len(days))
    rows["weekday"], rows["workingday"] = np.repeat(days, 24, axis=0).T
    return rows


def plot_hours(hours):
    """Plot the rate by hour for both days, one panel per likelihood."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
    for panel, (name, part) in zip(axes, hours.groupby("likelihood", sort=False), strict=True):
        for k, (label, day) in enumerate(part.groupby("workingday", sort=False)):
            name_of_day = "Wednesday" if label else "Sunday"
            panel.fill_between(day["hr"], day["low"], day["high"], color=f"C{k}", alpha=0.3)
            panel.plot(day["hr"], day["mean"], color=f"C{k}", label=name_of_day)
        panel.set_title(name)
        panel.set_xlabel("hour")
    axes[0].set_ylabel("rate [rentals per hour]")
    axes[0].legend()
    figure.suptitle(f"Through the day: mean and {script.LEVEL:.0%} interval")
    return figure


if __name__ == "__main__":
    main()
