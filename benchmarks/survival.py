"""Survival times next to Cox regression and a random survival forest, and intervals of S(t).

    python benchmarks/survival.py [data] [intervals]

`data` scores five-fold predictions of three data sets that come with scikit-survival, by its own
measures: Harrell's concordance, and the Brier score integrated from the 10th to the 80th percentile
of the times. The GP is the one of three likelihoods with the best leave-one-out score of the
training rows. `intervals` draws 100 data sets of 150 rows, a third of them censored, and counts
how often 90% intervals of S(t) at ten rows and three times contain the truth.
"""

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gamma

import bayes_gpx as bx

FOLDER, FOLDS, QUIET = Path(__file__).parent, 5, {"progressbar": False}
LIKELIHOODS = "weibull", "loglogistic", "lognormal"


def write(name, rows):
    with (FOLDER / f"survival_{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def data():
    """Features, times, and whether a row's event was observed, by name."""
    from sksurv import datasets

    loaders = {
        "veterans": datasets.load_veterans_lung_cancer,
        "whas500": datasets.load_whas500,
        "gbsg2": datasets.load_gbsg2,
    }
    for name, load in loaders.items():
        X, y = load()
        event, duration = y.dtype.names
        X = X.apply(lambda column: column if column.dtype == "category" else column.astype(float))
        yield name, X.reset_index(drop=True), np.maximum(y[duration], 0.5), y[event]


def by_gp(likelihood, X, duration, known, X_test, times):
    """Minus log expected times, S at the times, and the leave-one-out score."""
    kinds = np.where(known, "none", "right")
    model = bx.GP(X, duration, likelihood=likelihood, censoring=kinds)
    fit = model.fit("map", seed=1, **QUIET)
    options = {"keep": "summary", "seed": 1, **QUIET}
    mean = bx.predictions(model, fit, X_test, **options)["f_mean"].values
    found = bx.predictions(model, fit, X_test, of="survival", at=times, **options)
    score = bx.loo_predictions(model, fit, **QUIET)["elpd"].values.sum()
    return -mean, found["survival_mean"].transpose("obs", "at").values, score


def by_cox(X, duration, known, X_test, times):
    from lifelines import CoxPHFitter

    table = pd.get_dummies(pd.concat([X, X_test]), drop_first=True).astype(float)
    table = (table - table.mean()) / table.std().replace(0.0, 1.0)
    train, test = table.iloc[: len(X)], table.iloc[len(X) :]
    fit = CoxPHFitter().fit(train.assign(T=duration, E=known), "T", "E")
    survival = fit.predict_survival_function(test, times=times).to_numpy().T
    return fit.predict_log_partial_hazard(test).to_numpy(), survival


def by_forest(X, duration, known, X_test, times):
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.util import Surv

    table = pd.get_dummies(pd.concat([X, X_test])).astype(float)
    options = {"n_estimators": 1000, "min_samples_split": 10, "min_samples_leaf": 15}
    forest = RandomSurvivalForest(**options, n_jobs=1, random_state=1)
    forest.fit(table.iloc[: len(X)], Surv.from_arrays(known, duration))
    test = table.iloc[len(X) :]
    functions = forest.predict_survival_function(test)
    return forest.predict(test), np.stack([f(times) for f in functions])


def chosen_gp(*given):
    """The GP with the best leave-one-out score."""
    return max((by_gp(likelihood, *given) for likelihood in LIKELIHOODS), key=lambda f: f[2])[:2]


METHODS = {"GP, chosen by LOO": chosen_gp, "Cox": by_cox, "random survival forest": by_forest}


def on_data():
    from sksurv.metrics import concordance_index_censored, integrated_brier_score
    from sksurv.util import Surv

    found = []
    for name, X, duration, known in data():
        fold = np.random.default_rng(0).permutation(len(X)) % FOLDS
        times = np.linspace(*np.quantile(duration, [0.1, 0.8]), 30)
        for method, fitted in METHODS.items():
            scores, began = [], time.process_time()
            for k in range(FOLDS):
                test = fold == k
                parts = X[~test], duration[~test], known[~test], X[test]
                risk, survival = fitted(*parts, times)
                order = concordance_index_censored(known[test], duration[test], risk)[0]
                given = Surv.from_arrays(known, duration)  # all rows say when observation ends
                brier = integrated_brier_score(given, given[test], survival, times)
                scores.append([order, brier])
            means = np.mean(scores, axis=0)
            errors = np.std(scores, axis=0, ddof=1) / np.sqrt(FOLDS)
            row = {"data": name, "rows": len(X), "method": method}
            row |= {"concordance": f"{means[0]:.3f}", "its error": f"{errors[0]:.3f}"}
            row |= {"integrated Brier": f"{means[1]:.4f}", "error of it": f"{errors[1]:.4f}"}
            row["CPU seconds"] = f"{time.process_time() - began:.1f}"
            print(row, flush=True)
            found.append(row)
    write("data", found)


def intervals(runs=100, n=150, shape=2.0):
    """Times with a Weibull distribution whose log mean is a smooth function of two features."""
    own, at = [], np.array([0.5, 1.0, 2.0])
    for run in range(runs):
        rng = np.random.default_rng(run)
        X = rng.uniform(-1.5, 1.5, size=(n, 2))
        mean = np.exp(np.sin(2.0 * X[:, 0]) + 0.4 * X[:, 1])
        duration = mean / gamma(1.0 + 1.0 / shape) * rng.weibull(shape, n)
        ends = 2.2 * rng.exponential(size=n)
        kinds = np.where(duration < ends, "none", "right")
        truth = np.exp(-((at * gamma(1.0 + 1.0 / shape) / mean[:10, None]) ** shape))
        model = bx.GP(X, np.minimum(duration, ends), likelihood="weibull", censoring=kinds)
        fit = model.fit("laplace", draws=200, seed=1, **QUIET)
        options = {"of": "survival", "at": at, "seed": 1, **QUIET}
        found = bx.predictions(model, fit, X[:10], **options)["survival"]
        bounds = found.quantile([0.05, 0.95], ["chain", "draw"])
        low, high = bounds.transpose("quantile", "obs", "at").values
        own.append(((low <= truth) & (truth <= high)).mean(axis=0))
    share, error = np.mean(own, axis=0), np.std(own, axis=0, ddof=1) / np.sqrt(runs)
    rows = [
        {"runs": runs, "time": value, "share held": f"{share[k]:.3f}", "error": f"{error[k]:.3f}"}
        for k, value in enumerate(at)
    ]
    print(rows)
    write("intervals", rows)


PARTS = {"data": on_data, "intervals": intervals}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        PARTS[part]()
