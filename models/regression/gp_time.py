"""How do two series continue, and why? Forecasts with weights that vary over time.

The series are daily bike rentals in Washington, with the weather, and monthly carbon dioxide on
Mauna Loa. The latter comes with statsmodels and is left out without it. Each model of time has a
kernel for slow changes and a kernel for a season with a changing shape,

    C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning" (2006),
    section 5.4.3.

A GPX of time has such a weight for each covariate, so forecasts are sums of contributions. The
script forecasts from several origins, each from the rows before it. It scores the forecasts by
horizon and compares them with the last season and, with statsmodels, with exponential smoothing
(ETS) of the same rows. Only the GPX receives the weather of the forecast days, so it has an
advantage. All models are fitted by MAP, which treats hyperparameters as known, so intervals far
ahead are too narrow. The table shows by how much.
"""

import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

ORIGINS, ROWS = 8, 360
KERNEL = "expquad + periodic * expquad"
TREND = "linear + matern32 + periodic * expquad"
TAIL = norm.ppf(0.95)


class Series(NamedTuple):
    """A series: season in rows and in days, forecast horizons, and kernel."""

    dates: pd.DataFrame
    covariates: pd.DataFrame | None
    y: pd.Series
    season: int
    days: float
    horizons: dict
    kernel: str = KERNEL


def main(arguments=None):
    run = script.Run("gp_time", __doc__, arguments, data="bike_days", method="map")
    days = {"1 to 7 days": (0, 7), "8 to 14 days": (7, 14), "15 to 28 days": (14, 28)}
    X, y = run.data.X, run.data.y
    series = {
        "bikes": Series(X[["date"]], X.drop(columns="date"), y, 7, 7.0, days),
    }
    smoothing = importlib.util.find_spec("statsmodels") is not None
    if smoothing:
        series["co2"] = carbon_dioxide()
    else:
        print("statsmodels is not installed: no carbon dioxide, no exponential smoothing.")
    scores = []
    for name, own in series.items():
        ahead = max(end for _, end in own.horizons.values())
        origins = np.linspace(ROWS, len(own.y) - ahead, ORIGINS).astype(int)
        for origin in origins:
            scores += [{"series": name, **row} for row in forecast(own, origin, ahead, smoothing)]
    table = pd.DataFrame(scores)
    shown = table.groupby(["series", "horizon", "model"], sort=False).mean().reset_index()
    print(f"\nMeans over {ORIGINS} origins:\n{shown.round(3).to_string(index=False)}")
    run.table(shown, "scores")
    if smoothing:
        run.figure(parts_of(series["co2"], run), "parts")
    bikes = series["bikes"]
    split = len(y) - 28
    model = weighed(bikes, slice(split - ROWS, split))
    idata = run.fit(model)
    run.figure(plot_forecast(model, idata, bikes, slice(split - 28, split + 28), split), "forecast")


def parts_of(series, run):
    """Plot trend, slow changes and season of the last rows, with their proportions of variance."""
    rows = slice(len(series.y) - ROWS, len(series.y))
    model = of_time(series, rows)
    idata = run.fit(model, suffix="_parts")
    found = bx.components(model, idata, keep="summary", ci_prob=script.LEVEL)
    print(f"\nShares of variance:\n{found['share'].to_series().round(3).to_string()}")
    return bx.plot_components(found).viz["figure"].item()


def carbon_dioxide():
    """Load monthly means and interpolate the few gaps."""
    from statsmodels.datasets import co2

    monthly = co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
    dates = pd.DataFrame({"date": monthly.index})
    horizons = {"1 to 6 months": (0, 6), "7 to 12 months": (6, 12), "13 to 24 months": (12, 24)}
    y = monthly.reset_index(drop=True)
    return Series(dates, None, y, 12, 365.25, horizons, TREND)


def season_of(series, rows):
    """Prior that fixes the period at the known length of the season, on the scale of the dates."""
    dates = series.dates["date"].iloc[rows]
    days = (dates - dates.iloc[0]) / pd.Timedelta("1D")
    return {"periodic_period": series.days / days.std(ddof=0)}


def of_time(series, rows):
    """A Gaussian process of time only."""
    priors = season_of(series, rows)
    dates, y = series.dates.iloc[rows], series.y.iloc[rows]
    return bx.GP(dates, y, kernel=series.kernel, priors=priors)


def weighed(series, rows):
    """A GPX of time, with weights for all covariates and for a constant."""
    return bx.GPX(
        series.dates.iloc[rows],
        series.y.iloc[rows],
        series.covariates.iloc[rows],
        kernel=series.kernel,
        priors={**season_of(series, rows), "sigma_w": 0.0},
        intercept=True,
    )


def forecast(series, origin, ahead, smoothing):
    """Score the forecasts of all models from one origin."""
    rows, new = slice(origin - ROWS, origin), slice(origin, origin + ahead)
    y, y_new = series.y.iloc[rows].to_numpy(float), series.y.iloc[new].to_numpy(float)
    found: dict[str, Any] = {"last season": last_season(y, series.season, ahead)}
    if smoothing:
        found["ETS"] = smoothed(y, series.season, ahead)
    asked = {"X_new": series.dates.iloc[new]}
    models = {"GP of time": (of_time(series, rows), asked)}
    if series.covariates is not None:
        known = asked | {"Z_new": series.covariates.iloc[new]}
        models["GPX, weather known"] = weighed(series, rows), known
    for name, (model, at) in models.items():
        idata = model.fit("map", progressbar=False)
        predicted = bx.predictions(model, idata, **at, keep="summary", progressbar=False)
        found[name] = predicted["y_mean"].values, predicted["y_sd"].values
    for name, (mean, sd) in found.items():
        away = y_new - mean
        for horizon, (first, last) in series.horizons.items():
            yield {
                "horizon": horizon,
                "model": name,
                "mean_absolute_error": np.abs(away[first:last]).mean(),
                "coverage_90": (np.abs(away) < TAIL * sd)[first:last].mean(),
            }


def last_season(y, season, ahead):
    """Forecast the value one season ago; error variances add up over seasons."""
    steps = np.arange(ahead)
    spread = np.sqrt(np.mean((y[season:] - y[:-season]) ** 2))
    return y[-season:][steps % season], spread * np.sqrt(steps // season + 1)


def smoothed(y, season, ahead):
    """Forecast by exponential smoothing with additive trend and season: mean and sd."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = {"trend": "add", "damped_trend": True, "seasonal": "add"}
        model = ETSModel(pd.Series(y), **parts, seasonal_periods=season)
        fit = model.fit(disp=False)
        ends = fit.get_prediction(len(y), len(y) + ahead - 1).pred_int(alpha=0.1)
    ends = np.asarray(ends, float)
    return ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / (2 * TAIL)


def plot_forecast(model, idata, series, rows, split):
    """Plot rentals before and after the last origin, and the contributions to the forecast."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8, 7), sharex=True, layout="constrained", height_ratios=[3, 2]
    )
    dates = series.dates["date"].iloc[rows]
    at = {"X_new": series.dates.iloc[rows], "Z_new": series.covariates.iloc[rows]}
    options = {"keep": "summary", "ci_prob": script.LEVEL}
    predicted = bx.predictions(model, idata, **at, **options)
    low, high = predicted["y_interval"].values.T
    above.fill_between(dates, low, high, color="C0", alpha=0.25, label="90 % interval of a day")
    above.plot(dates, predicted["f_mean"], color="C0", label="mean")
    above.plot(dates, series.y.iloc[rows], "k.", label="observed")
    above.legend(ncols=3)
    above.set(ylabel="rentals", title="Fitted before the line, forecast after it")
    shares = bx.contributions(model, idata, **at, **options)
    mean = shares["contribution_mean"]
    for k, feature in enumerate(mean["feature"].values):
        below.plot(dates, mean.sel(feature=feature), color=f"C{k}", label=feature)
    below.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
    below.set(ylabel="contribution [rentals]")
    below.tick_params(axis="x", rotation=30)
    for panel in (above, below):
        panel.axvline(series.dates["date"].iloc[split], color="gray", linewidth=1)
    return figure


if __name__ == "__main__":
    main()
