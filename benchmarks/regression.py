"""Diabetes and Boston over five folds: GPX and GP compared with ridge, lasso and linear ARD.

The response is standardized on all rows, features on the training rows of each fold. Boston is read
from the folder named by BAYES_GPX_DATA.
"""

import time
import warnings

import arviz as az
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.linear_model import ARDRegression, LassoCV, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayes_gpx as bx

FOLDS = KFold(5, shuffle=True, random_state=0)
NUTS = {"method": "nuts", "draws": 250, "tune": 250, "chains": 2, "seed": 0}
DENSITIES = 100
"""Number of hyperparameter draws for the average of predictive densities."""

HEADING = (
    "| data | method | {} | log density | difference to the first | "
    "in 90% interval | s per fold | R-hat |\n|---|---|---|---|---|---|---|---|"
)


def scores(y, mean, sd):
    """Score the equal mixture of the normals along the first axis of `mean` and `sd`.

    Columns of the result (obs, 3): squared error, log density, and whether y lies in the central
    90% interval.
    """
    below = norm.cdf(y, mean, sd).mean(axis=0)
    density = logsumexp(norm.logpdf(y, mean, sd), axis=0) - np.log(len(mean))
    inside = (0.05 < below) & (below < 0.95)
    return np.column_stack([(y - mean.mean(axis=0)) ** 2, density, inside])


def predictive(model, idata, X, Z=None):
    """Mean and sd of a new y, (draw, obs), for up to `DENSITIES` hyperparameter draws."""
    draws = idata["posterior"].to_dataset().stack(sample=("chain", "draw"))
    found = []
    for s in np.unique(np.linspace(0, draws.sizes["sample"] - 1, DENSITIES).astype(int)):
        theta = {name: values.values for name, values in draws.isel(sample=s).items()}
        found.append(bx.predictions(model, theta, X, Z, keep="summary", progressbar=False))
    return (np.stack([f[name].values for f in found]) for name in ("y_mean", "y_sd"))


def worst_r_hat(idata):
    """Largest R-hat of any hyperparameter; nan for a single draw."""
    posterior = idata["posterior"].to_dataset()
    if posterior.sizes["draw"] == 1:
        return np.nan
    return float(max(values.max() for values in az.rhat(posterior).values()))


def process(family, **options):
    def fit(X, y, X_new):
        model = family(X, y)
        idata = model.fit(**{"method": "map", **options}, progressbar=False)
        return *predictive(model, idata, X_new), worst_r_hat(idata)

    return fit


def penalised(estimator):
    """A normal around the prediction, with the sd of prediction errors across folds."""

    def fit(X, y, X_new):
        regression = make_pipeline(StandardScaler(), estimator)
        sd = np.std(y - cross_val_predict(regression, X, y, cv=FOLDS), ddof=1)
        mean = regression.fit(X, y).predict(X_new)
        return mean[None], np.full((1, len(mean)), sd), np.nan

    return fit


def ard(X, y, X_new):
    regression = make_pipeline(StandardScaler(), ARDRegression()).fit(X, y)
    mean, sd = regression.predict(X_new, return_std=True)
    return mean[None], sd[None], np.nan


METHODS = {
    "GPX, NUTS": process(bx.GPX, **NUTS),
    "GPX, MAP": process(bx.GPX, method="map"),
    "GP, NUTS": process(bx.GP, **NUTS),
    "GP, MAP": process(bx.GP, method="map"),
    "ridge": penalised(RidgeCV(np.logspace(-2, 4, 25))),
    "lasso": penalised(LassoCV(random_state=0)),
    "linear ARD": ard,
}


def across_folds(fit, X, y):
    """Scores of every row when its fold was left out, seconds for each fold, worst R-hat."""
    found, r_hats, start = np.empty((len(y), 3)), [], time.perf_counter()
    for train, test in FOLDS.split(X):
        mean, sd, r_hat = fit(X.iloc[train], y[train], X.iloc[test])
        found[test] = scores(y[test], mean, sd)
        r_hats.append(r_hat)
    return found, (time.perf_counter() - start) / FOLDS.n_splits, max(r_hats)


def difference(found, reference):
    """Mean difference in log density, with its standard error over rows."""
    apart = found[:, 1] - reference[:, 1]
    return f"{apart.mean():+.3f} ± {apart.std(ddof=1) / len(apart) ** 0.5:.3f}"


def held_out(name, methods, X, y, *, root=False):
    """Print one row per method; `root` prints the root of the mean squared error."""
    first = None
    for method, fit in methods.items():
        found, seconds, r_hat = across_folds(fit, X, y)
        first = found if first is None else first
        error, density, inside = found.mean(axis=0)
        error = error**0.5 if root else error
        apart = "" if first is found else difference(found, first)
        print(
            f"| {name} | {method} | {error:.3f} | {density:.3f} | {apart} | {inside:.0%} | "
            f"{seconds:.1f} | {'' if np.isnan(r_hat) else f'{r_hat:.3f}'} |",
            flush=True,
        )


def leave_one_out(name, X, y):
    fits = {
        f.__name__: f(X, y).fit(**NUTS | {"draws": 500, "tune": 500}, progressbar=False)
        for f in (bx.GPX, bx.GP)
    }
    loos = {family: az.loo(idata, pointwise=True) for family, idata in fits.items()}
    for family, row in az.compare(loos, round_to="none").iterrows():
        k = loos[family].pareto_k
        print(
            f"| {name} | {family} | {row['elpd']:.1f} ± {row['se']:.1f} | "
            f"{row['elpd'] / len(y):.3f} | {row['p']:.1f} | "
            f"{row['elpd_diff']:.1f} ± {row['dse']:.1f} | {row['weight']:.2f} | "
            f"{float(k.max()):.2f} | {int((k > loos[family].good_k).sum())} | "
            f"{worst_r_hat(fits[family]):.3f} |",
            flush=True,
        )


def main():
    warnings.simplefilter("ignore", bx.ConvergenceWarning)
    data = {}
    for name in ("diabetes", "boston"):
        loaded = bx.datasets.load(name)
        y = loaded.y.to_numpy(float)
        data[name] = loaded.X, (y - y.mean()) / y.std()
    print(HEADING.format("squared error"))
    for name, (X, y) in data.items():
        held_out(name, METHODS, X, y)
    print(
        "\n| data | model | elpd | per row | p | difference | weight | largest k | bad k | R-hat |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, (X, y) in data.items():
        leave_one_out(name, X, y)


if __name__ == "__main__":
    main()
