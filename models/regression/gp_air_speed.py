"""How fast are flights to an airport? Repeated flights to 94 airports, and to new airports.

The data are flights from New York City in 2013 to airports with at least 60 flights. Ground speed
depends on the distance, because takeoff and landing are slow, and on the day of the year, because
of the winds. It also depends on traits that no column records, such as the direction and the queue
at the destination. All flights to one airport share these. The script compares two Gaussian
processes of day and distance, one without groups and one with a level per airport. Levels are
pooled as in

    A. Gelman and J. Hill, "Data analysis using regression and multilevel/hierarchical models",
    Cambridge University Press (2007), chapter 12.

Both models predict further flights to known airports and flights to new airports. The script also
predicts each airport from all others, without a refit.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

LEAST, LEARNT, SCORED, UNSEEN = 60, 5, 10, 20
MIDSUMMER = 172.0


def main(arguments=None):
    run = script.Run("gp_air_speed", __doc__, arguments, data="air_speed", method="nuts", draws=500)
    rng = np.random.default_rng(run.seed)
    X, y = run.data.X.drop(columns="destination"), run.data.y
    airport = run.data.X["destination"].astype(str)
    X["distance"] = np.log10(X["distance"])

    flights = airport.value_counts()
    known = rng.permutation(flights.index[flights >= LEAST].sort_values())
    seen, unseen = known[UNSEEN:], known[:UNSEEN]
    rows = {name: rng.permutation(own) for name, own in airport.groupby(airport).groups.items()}
    learnt = np.concatenate([rows[name][:LEARNT] for name in seen])
    tests = {
        "seen": np.concatenate([rows[name][LEARNT : LEARNT + SCORED] for name in seen]),
        "new": np.concatenate([rows[name][:SCORED] for name in unseen]),
    }

    pooled = bx.GP(X.loc[learnt], y[learnt])
    grouped = bx.GP(X.loc[learnt], y[learnt], groups=airport[learnt])
    fits = {
        "no groups": (pooled, run.fit(pooled, suffix="_pooled")),
        "a level for each airport": (grouped, run.fit(grouped)),
    }
    scores = []
    for name, fit in fits.items():
        for which, test in tests.items():
            own = {"groups_new": airport[test]} if fit[0] is grouped else {}
            found = bx.predictions(*fit, X.loc[test], keep="summary", seed=run.seed, **own)
            scores.append(score(name, f"flights to {which} airports", found, y[test]))
        left = bx.loo_predictions(*fit, groups=airport[learnt], seed=run.seed)
        scores.append(score(name, "each airport from the others", left, y[learnt]))
    table = pd.DataFrame(scores)
    print(f"\n{table.round(3).to_string(index=False)}")
    run.table(table, "scores")
    run.figure(plot_airports(*fits["a level for each airport"], X, airport, seen, run), "airports")


def score(model, rows, found, y):
    """Compute the error and the coverage of 90% intervals, with the sd of the mixture."""
    away = y.values - found["y_mean"].values
    sd = found["y_sd"].values
    return {
        "model": model,
        "of": rows,
        "rmse": np.sqrt(np.mean(away**2)),
        "mean_sd": sd.mean(),
        "coverage_90": np.mean(np.abs(away) < 1.645 * sd),
    }


def plot_airports(model, idata, X, airport, seen, run):
    """Plot speed in midsummer by distance, for known airports and for a new one."""
    figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
    distance = np.linspace(X["distance"].min(), X["distance"].max(), 60)
    options = {"keep": "summary", "seed": run.seed, "ci_prob": script.LEVEL}
    curve = pd.DataFrame({"day": MIDSUMMER, "distance": distance})
    new = bx.predictions(model, idata, curve, groups_new=["new"] * len(curve), **options)
    axes.fill_between(
        10**distance, *new["f_interval"].values.T, color="C0", alpha=0.2, label="a new airport"
    )
    axes.plot(10**distance, new["f_mean"], color="C0")
    at = X.groupby(airport)["distance"].mean()[seen]
    there = pd.DataFrame({"day": MIDSUMMER, "distance": at.values})
    own = bx.predictions(model, idata, there, groups_new=seen, **options)
    low, high = own["f_interval"].values.T
    axes.vlines(10**at, low, high, color="C1", linewidth=1)
    axes.plot(10**at, own["f_mean"], "o", color="C1", markersize=3, label="airports seen")
    apart = np.abs(own["f_mean"].values - np.interp(at, distance, new["f_mean"]))
    named = []
    for k in np.argsort(-apart)[:8]:  # the largest deviations, one per place
        if all(abs(at.iloc[k] - at.iloc[j]) > 0.05 for j in named):
            place, offset = (10 ** at.iloc[k], own["f_mean"][k]), (5, 3)
            axes.annotate(seen[k], place, offset, textcoords="offset points", fontsize=9)
            named.append(k)
    axes.set(xlabel="distance [miles]", ylabel="mean ground speed in midsummer [mph]", xscale="log")
    ticks = [100, 200, 500, 1000, 2000, 5000]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.legend(loc="lower right")
    return figure


if __name__ == "__main__":
    main()
