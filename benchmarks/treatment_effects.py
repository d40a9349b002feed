"""Do 90% intervals hold the effect of a treatment, and how large are its errors?

    python benchmarks/treatment_effects.py [simulate [RUNS]]
    python benchmarks/treatment_effects.py [ihdp]

`simulate` draws data of 250 rows from the designs of Hahn, Murray and Carvalho (2020), section 6.1:
treatment is more probable where the response is larger without it, and the effect is 1 + 2 x2 x4.
Each run is a line for each model in `treatment_effects_runs.csv`, and a line that is there already
is not computed again, so an interrupted call continues. stochtree's causal forest (BCF) has the
first 100 runs. `ihdp` needs the data folder (BAYES_GPX_DATA).
"""

import csv
import os
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

import bayes_gpx as bx

FOLDER = Path(__file__).parent
RUNS = FOLDER / "treatment_effects_runs.csv"
N, QUIET = 250, {"progressbar": False}
PEER_RUNS = 100
TRENDS = "linear + matern52"
NUMBERS = ("ate_error", "ate_sd", "ate_held", "rows_held", "rmse", "seconds")


def simulated(prognosis, run):
    """Covariates, treatment, response and true effects; `prognosis` is linear or nonlinear."""
    rng = np.random.default_rng([run, prognosis == "linear"])
    x1, x2, x3 = rng.normal(size=(3, N))
    x4, x5 = rng.integers(0, 2, N), rng.integers(0, 3, N)
    level = np.array([2.0, -1.0, -4.0])[x5]
    mu = 1 + level + x1 * x3 if prognosis == "linear" else -6 + level + 6 * np.abs(x3 - 1)
    effect = 1 + 2 * x2 * x4
    propensity = 0.8 * ndtr(3 * mu / mu.std() - 0.5 * x1) + 0.05 + rng.uniform(size=N) / 10
    treated = (rng.uniform(size=N) < propensity).astype(float)
    y = mu + effect * treated + rng.normal(size=N)
    level = pd.Categorical.from_codes(x5, ["a", "b", "c"])
    X = pd.DataFrame({"x1": x1, "x2": x2, "x3": x3, "x4": x4, "x5": level})
    return X, pd.Series(treated, name="treated"), pd.Series(y, name="y"), effect


def gp(X, treated, y):
    return bx.GP(X.assign(treated=treated), y)


def gpx(X, z, y, kernel="expquad"):
    options = {"intercept": True, "priors": {"sigma_w": 0}, "weight_prior": "per_feature"}
    return bx.GPX(X, y, z.to_frame(), kernel=kernel, **options)


def less_propensity(treated, table):
    return treated - table["propensity"].rename(treated.name)


# By name and use of the propensity, functions of X, treatment, response, and X with the propensity.
# A GP has the treatment in X. A GPX has it in Z, or the treatment minus its probability: the weight
# then belongs to the part that the other columns do not predict (Robinson, 1988).
MODELS = {
    ("GP", "no"): lambda X, t, y, table: gp(X, t, y),
    ("GP", "in X"): lambda X, t, y, table: gp(table, t, y),
    ("GPX", "no"): lambda X, t, y, table: gpx(X, t, y),
    ("GPX", "in X"): lambda X, t, y, table: gpx(table, t, y),
    ("GPX", "subtracted"): lambda X, t, y, table: gpx(X, less_propensity(t, table), y),
    ("GPX", "both"): lambda X, t, y, table: gpx(table, less_propensity(t, table), y),
    (f"GPX {TRENDS}", "no"): lambda X, t, y, table: gpx(X, t, y, TRENDS),
    (f"GPX {TRENDS}", "both"): lambda X, t, y, table: gpx(
        table, less_propensity(t, table), y, TRENDS
    ),
}
PEER = ("stochtree BCF", "in X")


def estimated(model, effect):
    """Errors, and truths inside of 90% intervals, of a fit by MAP."""
    began = time.process_time()
    fit = model.fit("map", seed=1, **QUIET)
    found = bx.treatment_effects(model, fit, treatment="treated", keep="summary", **QUIET)
    seconds = time.process_time() - began
    ate = found["ate_mean"].item(), found["ate_sd"].item(), found["ate_interval"].values
    rows = found["effect_mean"].values, found["effect_interval"].values.T
    return scores(ate, rows, seconds, effect)


def scored_draws(draws, seconds, effect):
    """The same of draws of effects, (draws, n)."""
    average = draws.mean(axis=1)
    ate = average.mean(), average.std(), np.quantile(average, [0.05, 0.95])
    rows = draws.mean(axis=0), np.quantile(draws, [0.05, 0.95], axis=0)
    return scores(ate, rows, seconds, effect)


def scores(ate, rows, seconds, effect):
    (mean, sd, (least, most)), (means, (low, high)) = ate, rows
    return {
        "ate_error": mean - effect.mean(),
        "ate_sd": sd,
        "ate_held": float(least < effect.mean() < most),
        "rows_held": ((low < effect) & (effect < high)).mean(),
        "rmse": np.sqrt(np.mean((means - effect) ** 2)),
        "seconds": seconds,
    }


def simulate(runs):
    """Add the missing runs, and write the table of all."""
    key = ["prognosis", "run", "model", "propensity"]
    known = pd.read_csv(RUNS) if RUNS.exists() else pd.DataFrame(columns=key)
    done = set(known[key].itertuples(index=False, name=None))
    for run, prognosis in product(range(runs), ("linear", "nonlinear")):
        wanted = [*MODELS, PEER][: None if run < PEER_RUNS else -1]
        wanted = [name for name in wanted if (prognosis, run, *name) not in done]
        if not wanted:
            continue
        X, treated, y, effect = simulated(prognosis, run)
        began, rows = time.process_time(), []
        table = bx.with_propensity(X, treated, seed=run, **QUIET)
        extra = time.process_time() - began
        for name in wanted:
            if name == PEER:
                codes = X.assign(x5=X["x5"].cat.codes)
                arrays = (codes, treated, y, table["propensity"])
                _, *given = next(peers(*(np.array(values, float) for values in arrays)))
                found = scored_draws(*given, effect=effect)
            else:
                found = estimated(MODELS[name](X, treated, y, table), effect)
            found["seconds"] += extra * (name[1] != "no")
            rows.append([prognosis, run, *name, *(f"{found[key]:.5g}" for key in NUMBERS)])
        new = not RUNS.exists()
        with RUNS.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow([*key, *NUMBERS])
            writer.writerows(rows)
    every = pd.read_csv(RUNS)
    by = every.groupby(["prognosis", "model", "propensity"])
    table = by[list(NUMBERS)].mean()
    table.insert(0, "runs", by.size())
    table[["ate_held", "rows_held"]] *= 100
    table = table.round({"ate_held": 1, "rows_held": 1}).round(3)
    table.to_csv(FOLDER / "treatment_effects.csv")
    print(table.to_string())


def peers(X, treated, y, propensity):
    """Draws of effects (draws, n) of stochtree's models, with their defaults and 1,000 draws."""
    from stochtree import BARTModel, BCFModel

    options = {"num_gfr": 10, "num_burnin": 0, "num_mcmc": 1000}
    options["general_params"] = {"random_seed": 1}
    began, forest = time.process_time(), BCFModel()
    forest.sample(X_train=X, Z_train=treated, y_train=y, propensity_train=propensity, **options)
    yield "stochtree BCF", np.squeeze(forest.tau_hat_train).T, time.process_time() - began
    began, trees = time.process_time(), BARTModel()
    trees.sample(X_train=np.column_stack([X, treated]), y_train=y, **options)
    arms = [np.column_stack([X, np.full(len(X), drug)]) for drug in (0.0, 1.0)]
    without, with_drug = (trees.predict(arm, terms="y_hat") for arm in arms)
    yield "stochtree BART", (with_drug - without).T, time.process_time() - began


def ihdp():
    """Root of the mean squared error of the effects on rows (PEHE), and coverage, by file."""
    path = FOLDER / "treatment_effects_ihdp.csv"
    names = ["file", "model", "sqrt_pehe", "rows_held", "ate_held", "seconds"]
    known = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=names)
    for number in sorted(set(range(1, 6)) - set(known["file"])):
        name = f"ihdp/ihdp_npci_{number}.csv.gz"
        data = pd.read_csv(Path(os.environ["BAYES_GPX_DATA"]) / name)
        X, treated = data.filter(regex="^x"), data["treatment"].astype(float).rename("treated")
        y, effect = data["y_factual"].rename("y"), (data["mu1"] - data["mu0"]).to_numpy()
        began, rows = time.process_time(), []
        table = bx.with_propensity(X, treated, seed=1, **QUIET)
        extra = time.process_time() - began
        every = {}
        for (family, propensity), model in MODELS.items():
            found = estimated(model(X, treated, y, table), effect)
            found["seconds"] += extra * (propensity != "no")
            every[f"{family}, propensity: {propensity}"] = found
        arrays = [np.array(values, float) for values in (X, treated, y, table["propensity"])]
        every |= {peer: scored_draws(*given, effect=effect) for peer, *given in peers(*arrays)}
        for name, found in every.items():
            held = 100 * found["rows_held"], int(found["ate_held"])
            rows.append([number, name, found["rmse"], *held, found["seconds"]])
        digits = {"sqrt_pehe": 3, "rows_held": 1, "seconds": 1}
        new = pd.DataFrame(rows, columns=names).round(digits)
        new.to_csv(path, mode="a", header=not path.exists(), index=False)
        print(new.to_string(), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "ihdp" not in sys.argv:
        simulate(int((sys.argv[2:] or ["500"])[0]))
    if "simulate" not in sys.argv:
        ihdp()
