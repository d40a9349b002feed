"""When are flights late, and how much delay do long ones make up? 327,346 flights by NUTS.

The data are flights from New York City in 2013. Three models of increasing detail explain the
delay:

- by day of the year and hour of departure: a Gaussian process;
- by a coefficient of distance that varies with day and hour: a GPX with `sigma_w` fixed at 0;
- by carrier too: a Gaussian process with 100 inducing points and Laplace's method, fitted to
  20,000 flights. It passes over all rows for each density.

The first two have fixed basis functions,

    A. Solin and S. Sarkka, "Hilbert space methods for reduced-rank Gaussian process regression",
    Statistics and Computing 30 (2020) 419-446, section 3.3,

so the data enter through sufficient statistics, and NUTS takes equally long for any number of rows.

Delays have heavy tails: a few flights are late by most of a day. The response is therefore 20
asinh(delay / 20), which is close to the delay in minutes if it is short and grows like its
logarithm if it is long. One day in five is held out. Scores are computed on the transformed delay
and compared with boosted trees.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

WHEN = ["day", "hour"]
BASIS = bx.HSGP(10)
FEW, POINTS, SCORED, COMPARED = 20_000, 100, 5000, 100
BENT = 20.0
DAYS = {"15 January": 15.0, "15 April": 105.0, "15 July": 196.0, "15 October": 288.0}
HOURS = np.arange(6.0, 22.1, 0.5)


def main(arguments=None):
    run = script.Run("gp_flights", __doc__, arguments, data="flights", method="nuts", draws=500)
    rng = np.random.default_rng(run.seed)
    X = run.data.X.assign(distance=run.data.X["distance"] / 1000)
    y = transformed(run.data.y).rename("delay")
    held_out = X["day"].isin(rng.permutation(np.unique(X["day"]))[::5])
    X, y, X_test, y_test = X[~held_out], y[~held_out], X[held_out], y[held_out]
    scored = rng.permutation(len(X_test))[:SCORED]
    X_test, y_test = X_test.iloc[scored], y_test.iloc[scored]
    few = rng.permutation(len(X))[:FEW]

    by_time = bx.GP(X[WHEN], y, approximation=BASIS)
    when = run.fit(by_time)
    of_distance = {
        "approximation": BASIS,
        "priors": {"sigma_w": 0.0},
        "weight_prior": "per_feature",
        "intercept": True,
    }
    by_distance = bx.GPX(X[WHEN], y, X[["distance"]], **of_distance)
    distance = run.fit(by_distance, suffix="_distance")
    cause = [*WHEN, "distance", "carrier"]
    by_carrier = bx.GP(X[cause].iloc[few], y.iloc[few], approximation=bx.Inducing(POINTS))
    method = "map" if run.method == "map" else "laplace"
    carrier = run.fit(by_carrier, suffix="_carrier", method=method)

    options = {"seed": run.seed, "keep": "summary", "num_draws": 50}
    models = {
        "day and hour": bx.predictions(by_time, when, X_test[WHEN], **options),
        "and distance": bx.predictions(
            by_distance, distance, X_test[WHEN], X_test[["distance"]], **options
        ),
        f"and carrier, {len(few)} flights": bx.predictions(
            by_carrier, carrier, X_test[cause], **options
        ),
    }
    scores = [
        score("mean of all", y.mean(), y.std(), y_test),
        *(score(name, p["y_mean"].values, p["y_sd"].values, y_test) for name, p in models.items()),
        *(score(name, *trees(X[c], y, X_test), y=y_test) for name, c in LEARNT.items()),
        score(
            f"trees of {len(few)} flights",
            *trees(X[cause].iloc[few], y.iloc[few], X_test),
            y=y_test,
        ),
    ]
    table = pd.DataFrame(scores)
    print(f"\nOn {len(y_test)} flights of held-out days:\n{table.round(3).to_string(index=False)}")
    run.table(table, "scores")

    run.figure(plot_delays(by_time, when, run.seed), "delays")
    run.figure(plot_distance(by_distance, distance), "distance")
    carriers = list(X["carrier"].iloc[few].value_counts().index[:8])
    found = bx.comparisons(
        by_carrier,
        carrier,
        X[cause].iloc[few[:COMPARED]],
        variables={"carrier": carriers},
        by=True,
        draws=400,
        seed=run.seed,
    )
    run.figure(bx.plot_comparisons(found), "carriers")


LEARNT = {
    "trees: day and hour": WHEN,
    "trees: and distance": [*WHEN, "distance"],
    "trees: and carrier": [*WHEN, "distance", "carrier"],
}
"""Columns for each model of boosted trees."""


def transformed(delay):
    """20 asinh(delay / 20): linear for short delays, logarithmic for long ones."""
    return BENT * np.arcsinh(delay / BENT)


def minutes(y):
    """Convert transformed delays back to minutes."""
    return BENT * np.sinh(y / BENT)


def trees(X, y, X_test):
    """Mean prediction of boosted trees for new rows, and sd of their training residuals."""
    options = {
        "learning_rate": 0.05,
        "max_iter": 100,
        "max_leaf_nodes": 15,
        "min_samples_leaf": min(200, len(X) // 40),
    }
    learnt = HistGradientBoostingRegressor(
        categorical_features="from_dtype", random_state=0, **options
    ).fit(X, y)
    return learnt.predict(X_test[X.columns]), (y - learnt.predict(X)).std()


def score(name, mean, sd, y):
    """Score a normal forecast: RMSE, CRPS, error of its median in minutes, and coverage."""
    z = (y - mean) / sd
    crps = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return {
        "model": name,
        "rmse": np.sqrt(np.mean((y - mean) ** 2)),
        "crps": np.mean(crps),
        "median_error_minutes": np.median(abs(minutes(y) - minutes(mean))),
        "coverage_90": np.mean(abs(z) < norm.ppf(0.95)),
    }


def through(day):
    """Rows for the hours of one day."""
    return pd.DataFrame({"day": day, "hour": HOURS})


def plot_delays(model, idata, seed):
    """Plot the median delay in minutes by hour, for four days."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for k, (label, day) in enumerate(DAYS.items()):
        found = bx.predictions(model, idata, through(day), keep="summary", seed=seed)
        low, high = minutes(found["f_interval"].values.T)
        axes.fill_between(HOURS, low, high, color=f"C{k}", alpha=0.3)
        axes.plot(HOURS, minutes(found["f_mean"]), color=f"C{k}", label=label)
    axes.set(xlabel="hour of departure", ylabel="median delay at arrival [minutes]")
    axes.legend()
    return figure


def plot_distance(model, idata):
    """Plot the coefficient of distance by hour, for four days."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for k, (label, day) in enumerate(DAYS.items()):
        found = bx.weights(model, idata, through(day), features=["distance"], keep="summary")
        low, high = found["weight_interval"].isel(feature=0).values.T
        axes.fill_between(HOURS, low, high, color=f"C{k}", alpha=0.3)
        axes.plot(HOURS, found["weight_mean"].isel(feature=0), color=f"C{k}", label=label)
    axes.axhline(0, color="gray", linewidth=1)
    axes.set(xlabel="hour of departure", ylabel="minutes per 1000 miles, near delay 0")
    axes.legend()
    return figure


if __name__ == "__main__":
    main()
