"""Score the defaults on many small data sets, compared with models that people use otherwise.

The script fits each model to two splits of each set of `defaults_data` and scores held-out rows:

- log score in nats per row, root mean squared error, continuous ranked probability score (CRPS),
  coverage and mean width of central 90% intervals. Responses are divided by the sd of the training
  responses. For labels, the CRPS is the Brier score, and there is no interval;
- CPU seconds with compilation, and CPU seconds of the fit;
- the smallest posterior median of sigma in units of the scaled response, the Pareto k of "laplace",
  the largest rate in multiples of the largest count, and the texts of all warnings.

The baseline is ridge with a normal distribution as wide as its leave-one-out residuals. For labels
it is logistic regression, and for counts a Poisson GLM; cross-validation chooses each penalty. The
random forest's normal is as wide as its out-of-bag residuals. Its probabilities of labels are
proportions of trees, shrunk toward 1/2 by one row. scikit-learn's Gaussian process supports only
regression.

Each split is appended to the table at once, so a stopped run continues. Failed fits are rows with
their error. The script prints summaries at the end, or immediately with --table.

    python benchmarks/defaults.py [--half choose|confirm|both] [--models NAME ...] [--sets NAME ...]
        [--workers 2] [--out docs/_static/defaults.csv]
    python benchmarks/defaults.py --table [--half ...] [--models ...] [--out ...]
    python benchmarks/defaults.py --picture FILE [--half ...] [--models ...] [--out ...]
"""

import argparse
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm, poisson
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, PoissonRegressor, RidgeCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayes_gpx as bx
from bayes_gpx.draws.leave_one_out import averaged, held_out_log_likelihood
from defaults_data import CHOOSE, CONFIRM, DATA, SPLITS

OUT = Path("docs/_static/defaults.csv")
QUIET = {"progressbar": False}
THINNED = 250
"""Number of hyperparameter draws for the average of predictive densities."""
LEVELS = (np.arange(1000) + 0.5) / 1000
"""Probabilities of the quantiles that represent a distribution."""

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class Predicted(NamedTuple):
    """Predictions of one model for the held-out rows."""

    log_density: np.ndarray
    """Log density of each response, (obs,), in its units."""
    mean: np.ndarray
    draws: np.ndarray
    """Equally likely draws of new responses, (draw, obs)."""
    notes: dict


def normal(mean, sd, y):
    draws = mean + sd * norm.ppf(LEVELS)[:, None]
    return Predicted(norm.logpdf(y, mean, sd), mean, draws, {})


def bernoulli(p, y):
    return Predicted(np.log(np.where(y == 1, p, 1 - p)), p, LEVELS[:, None] < p, {})


def dummies(X):
    return pd.get_dummies(X, dtype=float)


def penalised(regression, name, penalties, folds, score):
    grid = {f"{type(regression).__name__.lower()}__{name}": penalties}
    steps = make_pipeline(StandardScaler(), regression)
    return GridSearchCV(steps, grid, cv=folds, scoring=score)


def ridge(X, y, likelihood):
    if likelihood == "poisson":
        glm, loss = PoissonRegressor(max_iter=1000), "neg_mean_poisson_deviance"
        search = penalised(glm, "alpha", np.logspace(-3, 2, 11), 5, loss).fit(dummies(X), y)

        def predict(X_test, y_test):
            rate = search.predict(dummies(X_test))
            draws, notes = poisson.ppf(LEVELS[:, None], rate), {"rate": rate.max() / y.max()}
            return Predicted(poisson.logpmf(y_test, rate), rate, draws, notes)

    elif likelihood == "bernoulli":
        folds = StratifiedKFold(min(5, y.value_counts().min()), shuffle=True, random_state=0)
        glm = LogisticRegression(max_iter=1000)
        search = penalised(glm, "C", np.logspace(-3, 3, 13), folds, "neg_log_loss")
        search.fit(dummies(X), y)

        def predict(X_test, y_test):
            return bernoulli(search.predict_proba(dummies(X_test))[:, 1], y_test)

    else:
        scaler, penalties = StandardScaler().fit(dummies(X)), np.logspace(-3, 5, 33)
        linear = RidgeCV(penalties, store_cv_results=True).fit(scaler.transform(dummies(X)), y)
        squared = linear.cv_results_[:, np.argmin(abs(penalties - linear.alpha_))]

        def predict(X_test, y_test):
            mean = linear.predict(scaler.transform(dummies(X_test)))
            return normal(mean, squared.mean() ** 0.5, y_test)

    return predict


def forest(X, y, likelihood):
    settings = {"n_estimators": 300, "random_state": 0}
    if likelihood == "poisson":
        return None
    if likelihood == "bernoulli":
        trees = RandomForestClassifier(**settings).fit(dummies(X), y)

        def predict(X_test, y_test):
            p = trees.predict_proba(dummies(X_test))[:, 1]
            return bernoulli((p * len(y) + 0.5) / (len(y) + 1), y_test)

    else:
        trees = RandomForestRegressor(**settings, oob_score=True).fit(dummies(X), y)
        sd = np.mean((y - trees.oob_prediction_) ** 2) ** 0.5

        def predict(X_test, y_test):
            return normal(trees.predict(dummies(X_test)), sd, y_test)

    return predict


def sklearn_gp(X, y, likelihood):
    if likelihood != "normal":
        return None
    scaler = StandardScaler().fit(dummies(X))
    columns = scaler.transform(dummies(X))
    kernel = ConstantKernel() * RBF(np.ones(columns.shape[1])) + WhiteKernel()
    settings = {"normalize_y": True, "n_restarts_optimizer": 3, "random_state": 0}
    process = GaussianProcessRegressor(kernel, **settings).fit(columns, y)

    def predict(X_test, y_test):
        columns = scaler.transform(dummies(X_test))
        return normal(*process.predict(columns, return_std=True), y=y_test)

    return predict


RIVALS = {"ridge": ridge, "forest": forest, "scikit-learn GP": sklearn_gp}
"""Models as functions of X, y and the likelihood that return a function for predictions.

They return None if the model does not support such responses."""


def fitted(family, method=None, *, only=None, replaced=None, how=None, **options):
    """A model of this package, as a function like `RIVALS`.

    `method` None is the package's default, and `how` are options of the fit. `only` is the only
    supported likelihood, and `replaced` maps likelihoods of the sets to others. `options` of the
    model, such as `kernel` and `priors`, can be functions of X, y.
    """

    def fit(X, y, likelihood):
        if only not in (None, likelihood):
            return None
        settings = {k: v(X, y) if callable(v) else v for k, v in options.items()}
        likelihood = (replaced or {}).get(likelihood, likelihood)
        model = family(X, y, likelihood=likelihood, **settings)
        idata = model.fit(*([method] if method else []), seed=0, **(how or {}), **QUIET)
        return partial(predicted, model, idata, y)

    return fit


OURS = {
    "GP": fitted(bx.GP),
    "GP map": fitted(bx.GP, "map"),
    "GP laplace": fitted(bx.GP, "laplace"),
    "GP map before": fitted(bx.GP, "map", only="normal", how={"jacobian": False}, resolution=0.0),
    "GP map without a floor": fitted(bx.GP, "map", only="normal", resolution=0.0),
    "GP linear + expquad map": fitted(bx.GP, "map", kernel="linear + expquad"),
    "GP linear + expquad laplace": fitted(bx.GP, "laplace", kernel="linear + expquad"),
    "GP student_t laplace": fitted(
        bx.GP, "laplace", only="normal", replaced={"normal": "student_t"}
    ),
    "GP negative_binomial laplace": fitted(
        bx.GP, "laplace", only="poisson", replaced={"poisson": "negative_binomial"}
    ),
    "GPX": fitted(bx.GPX),
    "GPX map": fitted(bx.GPX, "map"),
    "GPX map before": fitted(bx.GPX, "map", only="normal", how={"jacobian": False}, resolution=0.0),
    "GPX laplace": fitted(bx.GPX, "laplace"),
}
"""Variants of this package by name."""

MODELS = RIVALS | OURS
DEFAULT = (*RIVALS, "GP", "GP map", "GPX map")
"""Models to run without --models."""


def thin(idata):
    draws = idata["posterior"].sizes["draw"]
    kept = np.unique(np.linspace(0, draws - 1, THINNED).round().astype(int))
    return idata.isel(draw=kept, missing_dims="ignore") if draws > THINNED else idata


def predicted(model, idata, y, X_test, y_test):
    """Predict by the mixture over evenly thinned hyperparameter draws."""
    idata = thin(idata)
    rows = model.training.read_observed(X_test, None, y_test, model.specification.observation)
    density = averaged(held_out_log_likelihood(model, idata, rows, **QUIET))
    found = bx.predictions(model, idata, X_test, draws=1000, seed=0, **QUIET)
    posterior = idata["posterior"].to_dataset()
    notes = {"khat": idata.attrs.get("khat", np.nan)}
    if "sigma" in posterior:
        notes["sigma"] = float(posterior["sigma"].median(("chain", "draw")).min())
    if "rate" in found:
        notes["rate"] = float(found["response_mean"].max()) / y.max()
    draws = found["y"].stack(s=("chain", "draw")).transpose("s", "obs").values
    return Predicted(density, found["response_mean"].values, draws, notes)


def scores(given, y, y_test, likelihood):
    """Scores of held-out rows, for numeric responses in units of their sd."""
    scale = 1.0 if likelihood == "bernoulli" else y.std()
    y_test, m = y_test.values.astype(float), len(given.draws)
    draws = np.sort(given.draws.astype(float), axis=0)
    weights = (2 * np.arange(1, m + 1) - m - 1) / (m * (m - 1))
    spread = np.einsum("i,ij->j", weights, draws)  # half the mean distance between two draws
    crps = np.abs(draws - y_test).mean(axis=0) - spread
    if likelihood == "bernoulli":
        crps = (y_test - given.mean) ** 2
    below = (draws < y_test).mean(axis=0) + 0.5 * (draws == y_test).mean(axis=0)
    ends = np.quantile(draws, [0.05, 0.95], axis=0)
    interval = likelihood != "bernoulli"
    return {
        # Densities of numbers are per sd; probabilities of counts and labels have no unit.
        "log_score": given.log_density.mean() + (likelihood == "normal") * np.log(scale),
        "rmse": np.mean((y_test - given.mean) ** 2) ** 0.5 / scale,
        "crps": crps.mean() / scale,
        "coverage": (np.abs(2 * below - 1) <= 0.9).mean() if interval else np.nan,
        "width": (ends[1] - ends[0]).mean() / scale if interval else np.nan,
        **given.notes,
    }


def texts(caught):
    """Each kind of warning once, with its category."""
    said = [f"{w.category.__name__}: {' '.join(str(w.message).split())}"[:300] for w in caught]
    return " | ".join(dict.fromkeys(said))


COLUMNS = (
    "set half source kind likelihood split n d held_out model log_score rmse crps coverage width "
    "cpu_s cpu_fit sigma khat rate messages messages_predicting error"
).split()
KEY = ["set", "split", "model"]


def row(data, seed, name):
    """Fit a model to a split and score it; None if the model does not support such responses."""
    X, X_test, y, y_test = data.split(seed)
    row = {"set": data.name, "split": seed, "model": name}
    row |= {"n": len(X), "d": X.shape[1], "held_out": len(X_test)}
    row |= {key: getattr(data, key) for key in ("half", "source", "kind", "likelihood")}
    begun = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                predict = MODELS[name](X, y, data.likelihood)
            finally:
                row |= {"cpu_fit": time.process_time() - begun, "messages": texts(caught)}
        if predict is None:
            return None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predictions = predict(X_test, y_test)
            row |= scores(predictions, y, y_test, data.likelihood)
            row["messages_predicting"] = texts(caught)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return row | {"cpu_s": time.process_time() - begun}


def rows(name, seed, models):
    found = [row(DATA[name], seed, model) for model in models]
    return pd.DataFrame([x for x in found if x is not None], columns=COLUMNS)


def run(names, models, out, workers):
    """Append all missing rows to the table at `out`, largest sets first."""
    done = set(pd.read_csv(out)[KEY].itertuples(index=False, name=None)) if out.exists() else set()
    size = {name: len(DATA[name].split(0)[0]) for name in names}
    os.environ |= ONE_THREAD  # the workers' libraries read it when they are loaded
    begun = time.perf_counter()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        tasks = []
        for name in sorted(names, key=size.get, reverse=True):
            for seed in range(SPLITS):
                missing = [m for m in models if (name, seed, m) not in done]
                if missing:
                    tasks.append(pool.submit(rows, name, seed, missing))
        for k, task in enumerate(as_completed(tasks), 1):
            table = task.result()
            if not len(table):
                continue
            table.to_csv(out, mode="a", header=not out.exists(), index=False, float_format="%.6g")
            first = table.iloc[0]
            print(
                f"{k} of {len(tasks)}, {time.perf_counter() - begun:.0f} s: {first['set']}, split "
                f"{first['split']}, {table['cpu_s'].sum():.0f} CPU s",
                flush=True,
            )


NEAR_ZERO, LOW, TELLS, FAR = 1e-3, 0.75, 0.05, 0.15
"""Thresholds: sigma in sds of y, coverage, and relevant and large differences of log scores."""


def by_set(table):
    """Scores of each set, averaged over splits; a failure in one split counts for the set."""
    text = ["messages", "messages_predicting", "error"]
    table[text] = table[text].astype("object").fillna("")
    table.loc[table["error"] != "", "log_score"] = -np.inf
    mean = ["log_score", "rmse", "crps", "coverage", "width", "cpu_s", "cpu_fit"]
    how = dict.fromkeys(mean, "mean") | {"sigma": "min", "rate": "max", "held_out": "sum"}
    how |= dict.fromkeys(text, "".join) | dict.fromkeys(["half", "source", "kind"], "first")
    found = table.groupby(["model", "set"], sort=False).agg(how)
    ridges = found["log_score"].get("ridge", pd.Series(dtype=float))
    found["above_ridge"] = found["log_score"] - found.index.get_level_values("set").map(ridges)
    found["low"] = found["coverage"] < LOW
    found["no_noise"] = found["sigma"] < NEAR_ZERO
    found["failed"] = found["error"] != ""
    found["worse"] = found["above_ridge"] < -FAR
    found["huge_rate"] = found["rate"] > 10
    return found


def summary(found):
    """Summarize each model in one line."""
    unsaid = found["messages"] == ""
    silent = unsaid & (found["messages_predicting"] == "")
    lines = {}
    for model, sets in found.groupby("model", sort=False):
        above = sets["above_ridge"][np.isfinite(sets["above_ridge"])]
        line = {
            "sets": len(sets),
            "failed": sets["failed"].sum(),
            "mean above ridge": above.mean(),
            "mean, noisy sets": above[sets["kind"].loc[above.index] != "no noise"].mean(),
            "median": above.median(),
            "worst": above.min(),
            f"{FAR} below ridge": sets["worse"].sum(),
            "rmse": sets["rmse"].mean(),
            "crps": sets["crps"].mean(),
        }
        for rival in RIVALS:
            if rival == model or rival not in found.index.get_level_values("model"):
                line[f"better / worse than {rival}"] = ""
                continue
            apart = sets["log_score"].loc[model] - found["log_score"].loc[rival]
            better, worse = (apart > TELLS).sum(), (apart < -TELLS).sum()
            line[f"better / worse than {rival}"] = f"{better} / {worse}"
        enough = sets["low"] & (sets["held_out"] >= 20)
        line |= {
            "coverage": sets["coverage"].mean(),
            f"below {LOW}": sets["low"].sum(),
            "of them with 20 rows": enough.sum(),
            "and no message": (enough & silent).sum(),
            "sigma at 0": sets["no_noise"].sum(),
            "no message of it": (sets["no_noise"] & unsaid).sum(),
            "rate above 10 times": sets["huge_rate"].sum(),
            "CPU s": sets["cpu_s"].sum() * SPLITS,
        }
        lines[model] = line
    return pd.DataFrame(lines)


def tell(found):
    """Print the summary of each half, unusual results by name, and medians by kind of data."""
    halves = {half: sets for half, sets in found.groupby("half", sort=False)}
    for half, sets in (halves | {"both": found} if len(halves) > 1 else halves).items():
        print(f"\n{half}\n{summary(sets).to_string(float_format='{:.3f}'.format)}")
    for flag in ("failed", "worse", "low", "no_noise", "huge_rate"):
        print(f"\n{flag}")
        for model, sets in found[found[flag]].groupby("model", sort=False):
            print(f"  {model}: {', '.join(sets.index.get_level_values('set'))}")
    by_kind = found.reset_index().groupby(["kind", "model"], sort=False)["above_ridge"].median()
    print("\nmedian above ridge, by kind")
    print(by_kind.unstack().to_string(float_format="{:+.2f}".format))


FURTHEST = 2.0
"""Limit of the picture in nats per row."""


def draw(found, path, models):
    """Plot the log score above the best rival's, by data set; rivals are small and gray."""
    scores = found["log_score"].unstack("model")
    rivals, shown = [m for m in RIVALS if m in scores], [m for m in models if m in OURS]
    shown = [m for m in shown if m in scores]
    apart = scores.sub(scores[rivals].max(axis=1), axis=0).clip(-FURTHEST, FURTHEST)
    apart = apart.dropna(subset=shown, how="all").sort_values(shown[0])
    places = np.arange(len(apart))
    figure, axes = plt.subplots(figsize=(7, 0.15 * len(apart) + 1), layout="constrained")
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.hlines(places, -FURTHEST, FURTHEST, color="0.93", linewidth=0.6, zorder=0)
    for rival, marker in zip(rivals, "|xv", strict=False):
        axes.plot(apart[rival], places, marker, color="0.55", markersize=4, label=rival)
    for k, model in enumerate(shown):
        axes.plot(apart[model], places, "o", color=f"C{k}", markersize=4, label=model)
    axes.set_yticks(places, apart.index, fontsize=7)
    axes.set_ylim(-1, len(apart))
    axes.set_xlabel(
        f"log score above the best rival, nats a row (at the edge: {FURTHEST:g} or more)"
    )
    axes.legend(loc="lower right", fontsize=7)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=(CHOOSE, CONFIRM, "both"), default="both")
    parser.add_argument("--models", nargs="+", choices=list(MODELS))
    parser.add_argument("--sets", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="run nothing, print --out")
    parser.add_argument("--picture", type=Path, help="draw the scores of --out")
    settings = parser.parse_args()
    names = [n for n in settings.sets if settings.half in ("both", DATA[n].half)]
    if not settings.table and settings.picture is None:
        run(names, settings.models or DEFAULT, settings.out, settings.workers)
    table = pd.read_csv(settings.out)
    shown = settings.models or list(dict.fromkeys(table["model"]))
    found = by_set(table[table["set"].isin(names) & table["model"].isin([*RIVALS, *shown])].copy())
    if settings.picture is None:
        tell(found)
    else:
        draw(found, settings.picture, shown)


if __name__ == "__main__":
    main()
