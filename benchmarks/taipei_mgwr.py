"""House prices in Taipei: coefficients that vary over the map, by GPX and by mgwr.

The script prints how well each method predicts left-out houses, and its estimate of each
coefficient; it draws docs/_static/taipei_coefficients.png. The data are read from the folder named
by BAYES_GPX_DATA.

mgwr has standard errors of coefficients but not of predictions. If the features are centered at the
new house, the prediction is the intercept. The standard error of this intercept and the noise give
the predictive density. MGWR cannot predict new houses.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from mgwr.gwr import GWR, MGWR
from mgwr.sel_bw import Sel_BW
from PIL import Image
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayes_gpx as bx
from regression import HEADING, NUTS, held_out, predictive, process, worst_r_hat

PLACE = ["longitude", "latitude"]
FEATURES = ["transaction_date", "house_age", "distance_to_mrt", "n_convenience_stores"]
COEFFICIENTS = [*FEATURES, "intercept"]
GREAT_CIRCLE = {"spherical": True, "n_jobs": 1}
FIGURE = Path(__file__).parents[1] / "docs" / "_static" / "taipei_coefficients.png"


def gpx_model(X, y, weight_prior):
    return bx.GPX(X[PLACE], y, X[FEATURES], intercept=True, weight_prior=weight_prior)


def gpx(weight_prior):
    def fit(X, y, X_new):
        model = gpx_model(X, y, weight_prior)
        idata = model.fit(progressbar=False, **NUTS)
        return *predictive(model, idata, X_new[PLACE], X_new[FEATURES]), worst_r_hat(idata)

    return fit


def gwr(bandwidth=None):
    """Fit GWR; mgwr searches the bandwidth unless given, and an infinite one is least squares."""

    def fit(X, y, X_new):
        scaler, y = StandardScaler().fit(X[FEATURES]), y[:, None]
        place, z = X[PLACE].to_numpy(), scaler.transform(X[FEATURES])
        chosen = bandwidth or Sel_BW(place, y, z, **GREAT_CIRCLE).search()
        fitted = GWR(place, y, z, chosen, **GREAT_CIRCLE).fit()
        mean, variance = [], []
        for at, z_at in zip(
            X_new[PLACE].to_numpy(), scaler.transform(X_new[FEATURES]), strict=True
        ):
            local = GWR(place, y, z - z_at, chosen, **GREAT_CIRCLE).predict(
                at[None], np.zeros((1, len(z_at))), fitted.scale, fitted.resid_response
            )
            mean.append(local.params[0, 0])
            variance.append(local.bse[0, 0] ** 2 + fitted.scale)
        return np.array([mean]), np.sqrt([variance]), np.nan

    return fit


def bayesian_ridge(X, y, X_new):
    regression = make_pipeline(StandardScaler(), BayesianRidge()).fit(X[FEATURES], y)
    mean, sd = regression.predict(X_new[FEATURES], return_std=True)
    return mean[None], sd[None], np.nan


METHODS = {
    "GPX, an amplitude for each coefficient": gpx("per_feature"),
    "GPX, one amplitude": gpx("shared"),
    "GWR": gwr(),
    "least squares": gwr(np.inf),
    "Bayesian ridge": bayesian_ridge,
    "GP of all six columns": process(bx.GP, **NUTS),
}


def gpx_coefficients(X, y):
    """Estimates and errors (house, coefficient) of a GPX, in user units."""
    model = gpx_model(X, y, "per_feature")
    idata = model.fit(progressbar=False, **NUTS)
    found = bx.weights(model, idata, X[PLACE], smooth=True, keep="summary", progressbar=False)
    found = found.sel(feature=COEFFICIENTS)
    return found["weight_mean"].values, found["weight_sd"].values


def mgwr_coefficients(X, y):
    """Estimates and errors of least squares, GWR and MGWR, after a table of the fits."""
    scaler, target = StandardScaler().fit(X[FEATURES]), (y - y.mean())[:, None]
    data = X[PLACE].to_numpy(), target, scaler.transform(X[FEATURES])
    bandwidth = Sel_BW(*data, **GREAT_CIRCLE).search()
    selector = Sel_BW(*data, multi=True, **GREAT_CIRCLE)
    selector.search()
    fits = {
        "least squares": GWR(*data, np.inf, **GREAT_CIRCLE).fit(),
        "GWR": GWR(*data, bandwidth, **GREAT_CIRCLE).fit(),
        "MGWR": MGWR(*data, selector, **GREAT_CIRCLE).fit(),
    }
    neighbours = {
        "least squares": "",
        "GWR": f"{bandwidth:.0f}",
        "MGWR": ", ".join(f"{b:.0f}" for b in np.roll(selector.bw[0], -1)),
    }
    print("\n| method | nearest houses weighed | effective parameters | residual sd | AICc |")
    print("|---|---|---|---|---|")
    found = {}
    for name, fit in fits.items():
        print(
            f"| {name} | {neighbours[name]} | {fit.tr_S:.1f} | {fit.scale**0.5:.2f} | "
            f"{fit.aicc:.1f} |"
        )
        per_unit = np.append(1.0 / scaler.scale_, 1.0)
        found[name] = [np.roll(part, -1, axis=1) * per_unit for part in (fit.params, fit.bse)]
    return found


def summary(found):
    """Print each coefficient's median, 5 to 95% range over the houses, and mean error."""
    print("\n| coefficient | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for j, name in enumerate(COEFFICIENTS):
        cells = []
        for estimate, error in found.values():
            low, middle, high = np.quantile(estimate[:, j], [0.05, 0.5, 0.95]).round(6) + 0.0
            between = f" [{low:.3g}, {high:.3g}]" if low < high else ""
            cells.append(f"{middle:.3g}{between} ± {error[:, j].mean():.2g}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    gpx_estimate, gwr_estimate = found["GPX"][0], found["GWR"][0]
    print("\n| coefficient | correlation of GPX and GWR over the houses |\n|---|---|")
    for j, name in enumerate(COEFFICIENTS):
        print(f"| {name} | {np.corrcoef(gpx_estimate[:, j], gwr_estimate[:, j])[0, 1]:.2f} |")


def draw(X, found, units):
    """Plot one row per coefficient; the two estimates share their colors, and so do the errors."""
    figure, axes = plt.subplots(
        len(COEFFICIENTS), 4, figsize=(11, 11.5), sharex=True, sharey=True, layout="constrained"
    )
    titles = ("GPX, posterior mean", "GWR, estimate", "GPX, posterior sd", "GWR, standard error")
    for j, (name, row) in enumerate(zip(COEFFICIENTS, axes, strict=True)):
        estimates, errors = ([found[m][part][:, j] for m in ("GPX", "GWR")] for part in (0, 1))
        far, widest = (np.quantile(np.abs(pair), 0.98) for pair in (estimates, errors))
        for pair, panels, limits, colours in (
            (estimates, row[:2], (-far, far), "RdBu_r"),
            (errors, row[2:], (0.0, widest), "viridis_r"),
        ):
            for values, panel in zip(pair, panels, strict=True):
                points = panel.scatter(
                    X["longitude"],
                    X["latitude"],
                    c=values,
                    s=14,
                    cmap=colours,
                    vmin=limits[0],
                    vmax=limits[1],
                    edgecolor="0.4",
                    linewidth=0.2,
                )
                panel.set_aspect(1 / np.cos(np.radians(25)))
            figure.colorbar(points, ax=panels, extend="both" if limits[0] < 0 else "max")
        unit = f"price per {units[name].rstrip('s')}" if name in units else "price less mean price"
        row[0].set_ylabel(f"{name}\n{unit}")
    for title, panel in zip(titles, axes[0], strict=True):
        panel.set_title(title)
    axes[0, 0].set_xticks([121.49, 121.54])
    axes[0, 0].set_yticks([24.94, 24.97, 25.0])
    figure.set_dpi(100)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(256).save(FIGURE, optimize=True)


def main():
    warnings.simplefilter("ignore", bx.ConvergenceWarning)
    data = bx.datasets.load("taipei")
    X, y = data.X, data.y.to_numpy(float)
    print(HEADING.format("root mean squared error"))
    held_out("taipei", METHODS, X, y, root=True)
    found = mgwr_coefficients(X, y)
    found = {"GPX": gpx_coefficients(X, y), **found}
    summary(found)
    draw(X, found, data.units)


if __name__ == "__main__":
    main()
