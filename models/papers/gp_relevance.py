"""Which variables and which pairs matter? Measures of relevance where the truth is known.

    T. Paananen, M. R. Andersen and A. Vehtari, "Uncertainty-aware sensitivity analysis using Renyi
    divergences" (2021): the experiments of Figures 1 to 4 and 6.

- local: of a linear model, with normal and with Student-t noise, against the variable's value. The
  slope is the same everywhere; the relevance is less where no data say so.
- features and pairs: 12 independent standard normal variables at 400 rows, in 20 simulations. Of
  the mean

      x1 x2 + x3 x4 + x5 x6 + sin(x7) + x8 / 2 + x9^2 / 10

  the three products matter alike and variable 9 least; variables 10 to 12 do not matter. The noise
  has standard deviation 1/2. This function stands in for the paper's equation 4: it has as many
  pairs, and the same is asked of it.
- sizes: how many of the three pairs are on top, for 50 to 500 rows in 50 simulations.
- steps: the error of finite differences of the divergence against their step.

Pairs and variables are compared as the paper does it, at the hyperparameters of highest posterior
density, by KL-diff and KL-diff^2 and by measures that need predictions or derivatives alone; those
of partial dependence average over 30 of the rows. With few rows that density is often highest where
there is no noise: then predictions are sure at the rows and nowhere else, and KL-diff^2 at the rows
sees little but that. "KL-diff², posterior" is that of the mixture over 20 draws instead. With
--method other than map, only the first simulation, on which steps are tried, is fitted by it.
"""

import sys
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import peers
import script

FEATURES = [f"x{j}" for j in range(1, 13)]
PAIRS = list(combinations(range(12), 2))
TRUE = [(0, 1), (2, 3), (4, 5)]
NOISE, AVERAGED, DRAWS = 0.5, 30, 20
CHAINS = {"draws": 500, "tune": 500, "chains": 2, "seed": 0}
LOCAL_ROWS, REACH = 30, 8.0
STEPS = 10.0 ** np.arange(-8.0, 0.0)
QUIET = {"progressbar": False}


def main(arguments=None):
    run = script.Run("gp_relevance", __doc__, arguments, data=None, method="map", quick=True)
    rows, simulations = (120, 2) if run.quick else (400, 20)
    sizes, repeats = ((60,), 2) if run.quick else ((50, 100, 200, 300, 400, 500), 50)
    local = measure_locally(run.seed)
    run.table(local, "local")
    run.figure(plot_local(local), "local")
    X, y = simulate(rows, run.seed)
    model = bx.GP(X, y)
    steps = errors(model, run.fit(model))
    run.table(steps, "steps")
    run.figure(plot_steps(steps), "steps")
    found = [measure(*simulate(rows, run.seed + k)) for k in range(simulations)]
    features, pairs = (gathered([part[i] for part in found]) for i in (0, 1))
    run.table(features, "features")
    run.table(pairs, "pairs")
    report(features, pairs)
    run.figure(plot_features(features), "features")
    run.figure(plot_pairs(pairs), "pairs")
    counts = []
    for n in sizes:
        each = [measure(*simulate(n, 1000 + run.seed + k))[1] for k in range(repeats)]
        counts.append(count_true(gathered(each)).assign(rows=n))
        run.table(pd.concat(counts), "sizes")
    counts = pd.concat(counts)
    print("\nMean number of true pairs among the three on top:")
    means = counts.groupby(["rows", "method"], sort=False)["true"].mean().unstack("method")
    print(means.round(2).to_string())
    run.figure(plot_sizes(counts), "sizes")


def simulate(rows, seed):
    """Variables, and the response with noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(rows, 12)), columns=FEATURES)
    f = sum(X[FEATURES[i]] * X[FEATURES[j]] for i, j in TRUE)
    f = f + np.sin(X["x7"]) + X["x8"] / 2 + X["x9"] ** 2 / 10
    return X, (f + NOISE * rng.normal(size=rows)).rename("y")


def measure(X, y):
    """Measures of variables and of pairs, by method: two dicts of arrays."""
    model = bx.GP(X, y)
    idata = model.fit("map", **QUIET)
    near = bx.relevance(model, idata, **QUIET)["average_relevance"].values[0, 0]
    both = bx.interactions(model, idata, **QUIET)["average_interaction"].values[0, 0]
    summary = {"keep": "summary", **QUIET}
    slopes = bx.derivatives(model, idata, **summary)["derivative_mean"]
    bends = bx.derivatives(model, idata, order=2, **summary)["second_derivative_mean"]
    sd = X.values.std(axis=0)

    def predict(moved):
        return bx.predictions(model, idata, moved, **summary)["f_mean"].values

    some = X.values[:AVERAGED]
    features = {
        "KL-diff": near,
        "mean |derivative|": np.abs(slopes).mean("obs").values * sd,
        "inverse lengthscale": 1 / idata["posterior/lengthscale"].values[0, 0],
        "partial dependence": peers.pd_variation(predict, some),
    }
    bends = np.abs(bends).mean("obs").values * np.multiply.outer(sd, sd)
    draws = model.fit("nuts", **CHAINS, **QUIET)
    options = {"over": "mixture", "num_draws": DRAWS}
    mixed = bx.interactions(model, draws, **options, **QUIET)["average_interaction"].values
    pairs = {"KL-diff²": both, "KL-diff², posterior": mixed, "mean |second derivative|": bends}
    pairs = {name: np.array([square[pair] for pair in PAIRS]) for name, square in pairs.items()}
    others = {"H-statistic": peers.h_statistics, "partial dependence": peers.pd_interactions}
    for name, peer in others.items():
        values = peer(predict, some)
        pairs[name] = np.array([values[pair] for pair in PAIRS])
    return features, pairs


def gathered(found):
    """Table of measures, one row for each simulation, method and variable or pair."""
    parts = []
    for k, by_method in enumerate(found):
        for method, values in by_method.items():
            names = FEATURES if len(values) == len(FEATURES) else pair_names()
            parts.append(
                pd.DataFrame({"simulation": k, "method": method, "of": names, "value": values})
            )
    return pd.concat(parts, ignore_index=True)


def pair_names(pairs=PAIRS):
    return [f"{FEATURES[i]} : {FEATURES[j]}" for i, j in pairs]


def count_true(pairs):
    """How many of the three pairs on top are true, for each method and simulation."""
    ranks = pairs.groupby(["method", "simulation"])["value"].rank(ascending=False)
    top = pairs[(ranks <= len(TRUE)) & pairs["of"].isin(pair_names(TRUE))]
    every = pairs.groupby(["method", "simulation"], sort=False).size().index
    counts = top.groupby(["method", "simulation"]).size().reindex(every, fill_value=0)
    return counts.rename("true").reset_index()


def report(features, pairs):
    """What is on top, how far from each other, and what is last."""
    counts, runs = count_true(pairs), pairs["simulation"].nunique()
    print(f"\nRuns of {runs} with the three true pairs on top, and largest over smallest of these:")
    wide = pairs.pivot_table(index=["method", "of"], values="value", sort=False)["value"].unstack(0)
    true = wide.loc[pair_names(TRUE)]
    each = pairs[pairs["of"].isin(true.index)].groupby(["method", "simulation"])["value"]
    table = pd.DataFrame(
        {
            "all on top": counts.assign(all=counts["true"] == 3).groupby("method")["all"].sum(),
            "ratio of means": true.max() / true.min(),
            "ratio, largest run": (each.max() / each.min()).groupby("method").max(),
            "next pair, share": wide.drop(index=true.index).max() / true.min(),
        }
    )
    print(table.round(2).to_string())
    print("\nMean over runs, as share of the largest:")
    mean = features.pivot_table(index="of", columns="method", values="value", sort=False)
    print((mean / mean.max()).round(2).to_string())
    near = features[features["method"] == "KL-diff"].pivot(index="simulation", columns="of")
    near = near["value"][FEATURES[:9]]
    last = (near.idxmin(axis=1) == "x9").sum()
    print(f"KL-diff: of variables 1 to 9, variable 9 is last in {last} of {runs} runs.")


def measure_locally(seed):
    """Relevance of one variable in linear models, at places of its value."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=LOCAL_ROWS)
    line, t = x, np.linspace(-REACH, REACH, 121)
    noises = {"normal": rng.normal(size=LOCAL_ROWS), "student_t": rng.standard_t(4, LOCAL_ROWS)}
    tables = []
    for name, noise in noises.items():
        model = bx.GP(x[:, None], line + noise, kernel="linear", likelihood=name)
        idata = model.fit("laplace", draws=400, seed=seed, **QUIET)
        each = bx.relevance(model, idata, t[:, None], **QUIET)
        low, high = script.intervals(each["relevance"][..., 0])
        both = bx.relevance(model, idata, t[:, None], over="mixture", **QUIET)
        slopes = bx.derivatives(model, idata, t[:, None], keep="summary", **QUIET)
        sd = (idata["posterior/sigma"] * model.training.y_scaling.scale).mean().item()
        columns = {
            "noise": name,
            "x": t,
            "mean": each["relevance_mean"].values[:, 0],
            "low": low,
            "high": high,
            "mixture": both["relevance"].values[:, 0],
            "slope": np.abs(slopes["derivative_mean"].values[:, 0]) / sd,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def errors(model, idata):
    """Largest and median relative error of finite differences, by step."""
    options = {"obs": model.training.X.index[:100], "num_draws": 4, **QUIET}
    exact = bx.relevance(model, idata, **options)["relevance"]
    rows = []
    for step in STEPS:
        near = bx.relevance(model, idata, method="finite_difference", step=step, **options)
        error = np.abs(near["relevance"] / exact - 1).values
        rows.append({"step": step, "largest": error.max(), "median": np.median(error)})
    table = pd.DataFrame(rows)
    print("\nRelative error of finite differences:")
    print(table.to_string(index=False, float_format="%.1e"))
    return table


def plot_local(table):
    """Relevance against the variable's value, for each noise."""
    groups = list(table.groupby("noise", sort=False))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    for panel, (name, part) in zip(axes, groups, strict=True):
        panel.fill_between(part["x"], part["low"], part["high"], color="C0", alpha=0.3)
        panel.plot(part["x"], part["mean"], color="C0", label=f"draws, {script.LEVEL:.0%} interval")
        panel.plot(part["x"], part["mixture"], "C1--", label="mixture of draws")
        panel.plot(part["x"], part["slope"], "k:", label="|slope| / noise")
        panel.axvspan(-2, 2, color="gray", alpha=0.1, linewidth=0)
        panel.set(title=f"{name.replace('_', '-')} noise", xlabel="x")
    axes[0].set(ylabel="KL-diff per unit of x", ylim=(0, None))
    axes[0].legend(loc="lower center")
    return figure


def plot_features(table):
    """Each method's measures of variables, as shares of its largest mean."""
    figure, panel = plt.subplots(figsize=(10, 4.5), layout="constrained")
    groups = list(table.groupby("method", sort=False))
    for k, (method, part) in enumerate(groups):
        values = part.pivot(index="simulation", columns="of", values="value")[FEATURES]
        largest = values.mean().max()
        at = np.arange(12) + 0.6 * ((k + 0.5) / len(groups) - 0.5)
        panel.errorbar(
            at,
            values.mean() / largest,
            values.std() / largest,
            fmt=script.MARKERS[k],
            color=f"C{k}",
            label=method,
        )
    panel.set_xticks(range(12), FEATURES)
    panel.set(ylabel="share of the largest mean", title="Mean and sd over simulations")
    panel.legend()
    return figure


def plot_pairs(table):
    """Each method's mean measures of pairs, as a matrix."""
    groups = list(table.groupby("method", sort=False))
    figure, axes = plt.subplots(1, len(groups), figsize=(18, 4.2), layout="constrained")
    for panel, (method, part) in zip(axes, groups, strict=True):
        mean = part.groupby("of")["value"].mean()
        square = np.full((12, 12), np.nan)
        for (i, j), name in zip(PAIRS, pair_names(), strict=True):
            square[i, j] = square[j, i] = mean[name] / mean.max()
        image = panel.imshow(square, cmap="Blues", vmin=0, vmax=1)
        panel.set_xticks(range(12), range(1, 13), fontsize=9)
        panel.set_yticks(range(12), range(1, 13), fontsize=9)
        panel.set_title(method)
    figure.colorbar(image, ax=axes, label="share of the largest")
    return figure


def plot_sizes(counts):
    """Mean number of true pairs on top against rows, with its standard error."""
    figure, panel = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for k, (method, part) in enumerate(counts.groupby("method", sort=False)):
        groups = part.groupby("rows")["true"]
        panel.errorbar(
            groups.mean().index,
            groups.mean(),
            groups.sem(),
            fmt=f"{script.MARKERS[k]}-",
            color=f"C{k}",
            label=method,
        )
    panel.axhline(3, color="gray", linewidth=1)
    panel.set(xlabel="rows", ylabel="true pairs among the first 3", ylim=(0, 3.1))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def plot_steps(table):
    """Error of finite differences against their step."""
    figure, panel = plt.subplots(figsize=(6, 4.5), layout="constrained")
    for k, name in enumerate(("largest", "median")):
        panel.loglog(table["step"], table[name], f"C{k}{script.MARKERS[k]}-", label=name)
    panel.set(xlabel="step, sd of the variable", ylabel="relative error of KL-diff")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0e}")
    panel.tick_params("x", rotation=45)
    panel.legend()
    return figure


if __name__ == "__main__":
    main()
