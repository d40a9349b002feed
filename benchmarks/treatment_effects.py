"""Do 90% intervals hold the effect of a treatment, and how large are its errors?

    python benchmarks/treatment_effects.py [simulate [RUNS]]
    python benchmarks/treatment_effects.py [ihdp]

`simulate` draws data of 250 rows from the designs of Hahn, Murray and Carvalho (2020), section 6.1:
treatment is more probable where the response is larger without it, and the effect is 1 + 2 x2 x4.
Each run is a line for each model in `treatment_effects_runs.csv`, and a run that is there already
is not repeated, so an interrupted call continues. `ihdp` needs the data folder (BAYES_GPX_DATA) and
stochtree.
"""

import csv
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

import bayes_gpx as bx

FOLDER = Path(__file__).parent
RUNS = FOLDER / "treatment_effects_runs.csv"
N, QUIET = 250, {"progressbar": False}
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


def models(X, treated, y, table):
    """Name, use of the propensity, and a function that builds a GP or a GPX.

    A GP has the treatment in X. A GPX has it in Z, or the treatment minus its probability: the
    weight then belongs to the part that the other columns do not predict (Robinson, 1988).
    """

    def weighed(X, z):
        options = {"intercept": True, "priors": {"sigma_w": 0}, "weight_prior": "per_feature"}
        return bx.GPX(X, y, z.to_frame(), **options)

    centered = treated - table["propensity"].rename(treated.name)
    return [
        ("GP", "no", lambda: bx.GP(X.assign(treated=treated), y)),
        ("GP", "in X", lambda: bx.GP(table.assign(treated=treated), y)),
        ("GPX", "no", lambda: weighed(X, treated)),
        ("GPX", "in X", lambda: weighed(table, treated)),
        ("GPX", "subtracted", lambda: weighed(X, centered)),
        ("GPX", "both", lambda: weighed(table, centered)),
    ]


def estimated(build, effect):
    """Errors, and truths inside of 90% intervals, of a fit by MAP."""
    began = time.process_time()
    model = build()
    fit = model.fit("map", seed=1, **QUIET)
    found = bx.treatment_effects(model, fit, treatment="treated", keep="summary", **QUIET)
    seconds = time.process_time() - began
    low, high = found["effect_interval"].values.T
    least, most = found["ate_interval"].values
    ate = effect.mean()
    return {
        "ate_error": found["ate_mean"].item() - ate,
        "ate_sd": found["ate_sd"].item(),
        "ate_held": float(least < ate < most),
        "rows_held": ((low < effect) & (effect < high)).mean(),
        "rmse": np.sqrt(np.mean((found["effect_mean"].values - effect) ** 2)),
        "seconds": seconds,
    }


def simulate(runs):
    """Add the missing runs, and write the table of all."""
    known = pd.read_csv(RUNS) if RUNS.exists() else pd.DataFrame(columns=["prognosis", "run"])
    done = set(zip(known["prognosis"], known["run"], strict=True))
    for run in range(runs):
        for prognosis in ("linear", "nonlinear"):
            if (prognosis, run) in done:
                continue
            X, treated, y, effect = simulated(prognosis, run)
            began, rows = time.process_time(), []
            with_propensity = bx.with_propensity(X, treated, seed=run, **QUIET)
            extra = time.process_time() - began
            for family, propensity, build in models(X, treated, y, with_propensity):
                found = estimated(build, effect)
                found["seconds"] += extra * (propensity != "no")
                values = [f"{found[name]:.5g}" for name in NUMBERS]
                rows.append([prognosis, run, family, propensity, *values])
            new = not RUNS.exists()
            with RUNS.open("a", newline="") as file:
                writer = csv.writer(file)
                if new:
                    writer.writerow(["prognosis", "run", "model", "propensity", *NUMBERS])
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
        for family, propensity, build in models(X, treated, y, table):
            found = estimated(build, effect)
            seconds = found["seconds"] + extra * (propensity != "no")
            held = 100 * found["rows_held"], int(found["ate_held"])
            name = f"{family}, propensity: {propensity}"
            rows.append([number, name, found["rmse"], *held, seconds])
        arrays = [np.array(values, float) for values in (X, treated, y, table["propensity"])]
        for peer, draws, seconds in peers(*arrays):
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            least, most = np.quantile(draws.mean(axis=1), [0.05, 0.95])
            error = np.sqrt(np.mean((draws.mean(axis=0) - effect) ** 2))
            held = 100 * ((low < effect) & (effect < high)).mean()
            rows.append([number, peer, error, held, int(least < effect.mean() < most), seconds])
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
