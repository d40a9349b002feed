"""Which interactions does a model need? Hourly counts of rented bikes, with few of them kept.

    T. Paananen, M. R. Andersen and A. Vehtari, "Uncertainty-aware sensitivity analysis using Renyi
    divergences" (2021): the experiment of Figure 5.

A Gaussian process with a Poisson likelihood learns the counts of two Februaries from six features.
Each method ranks the pairs of features in it; then a model of single effects and of the first 1, 2
or 3 of these pairs alone takes its place, and predicts the rows that were held out: the better the
pairs were chosen, the nearer it comes to the whole model. 10 random splits, 500 rows to learn from
and 839 to predict. The public data have two rows more than the paper's.

The mean log predictive density (MLPD) is of a Poisson count whose log rate is normal, integrated
over that.
"""

import sys
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import poisson

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import peers
import script

SPLITS, ROWS, HELD_OUT, MOST, AVERAGED = 10, 500, 839, 3, 60
QUIET = {"progressbar": False}
SUMMARY = {"keep": "summary", **QUIET}


def main(arguments=None):
    run = script.Run("gp_bike", __doc__, arguments, data="bike", method="map", quick=True)
    splits, rows = (2, 60) if run.quick else (SPLITS, ROWS)
    scores, chosen, start = [], [], None
    for split in range(splits):
        order = np.random.default_rng(run.seed + split).permutation(len(run.data.y))
        X, y = run.data.X.iloc[order], run.data.y.iloc[order]
        held = X[rows : rows + HELD_OUT], y[rows : rows + HELD_OUT]
        model = bx.GP(X[:rows], y[:rows], likelihood="poisson")
        if start is None:
            idata = run.fit(model)
        else:
            idata = model.fit(run.method, draws=run.draws, seed=run.seed, start=start, **QUIET)
        start = idata
        whole = {"split": split, "method": "all interactions", "pairs": np.nan}
        scores.append(whole | {"mlpd": mlpd(model, idata, *held)})
        print(f"split {split}, all interactions: {scores[-1]['mlpd']:.3f}", flush=True)
        known = {}
        for method, order in rank_pairs(model, idata).items():
            chosen += [
                {"split": split, "method": method, "rank": k + 1, "pair": " : ".join(pair)}
                for k, pair in enumerate(order[:MOST])
            ]
            for k in range(MOST + 1):
                pairs = tuple(sorted(order[:k]))
                if pairs not in known:
                    known[pairs] = mlpd(*surrogate(model, idata, pairs), *held)
                row = {"split": split, "method": method, "pairs": k, "mlpd": known[pairs]}
                scores.append(row)
                print(f"split {split}, {method}, {k} pairs: {known[pairs]:.3f}", flush=True)
        run.table(pd.DataFrame(scores), "mlpd")
        run.table(pd.DataFrame(chosen), "pairs")
    scores, chosen = pd.DataFrame(scores), pd.DataFrame(chosen)
    report(scores, chosen)
    run.figure(plot_scores(scores), "mlpd")


def rank_pairs(model, idata):
    """Pairs of features, those that interact most first, by each method."""
    columns = model.training.X.columns
    near = bx.ranking(bx.interactions(model, idata, keep="summary", **QUIET))
    mean = near["average_interaction_mean"].to_series()
    bends = bx.derivatives(model, idata, order=2, on="latent", **SUMMARY)
    sd = model.training.X.values.std(axis=0)
    bends = np.abs(bends["second_derivative_mean"]).mean("obs") * np.multiply.outer(sd, sd)

    def predict(X):
        return bx.predictions(model, idata, X, on="latent", **SUMMARY)["f_mean"].values

    some = model.training.X.values[:AVERAGED]
    found = {
        "KL-diff²": {tuple(name.split(" : ")): value for name, value in mean.items()},
        "mean |second derivative|": {
            (a, b): bends.sel(feature=a, feature_bis=b).item() for a, b in combinations(columns, 2)
        },
    }
    for name, peer in (
        ("H-statistic", peers.h_statistics),
        ("partial dependence", peers.pd_interactions),
    ):
        values = peer(predict, some)
        found[name] = {(columns[i], columns[j]): value for (i, j), value in values.items()}
    return {name: sorted(values, key=values.get, reverse=True) for name, values in found.items()}


def surrogate(model, idata, pairs):
    """The model of these pairs alone, fitted from where the whole one is."""
    simple, columns = bx.interaction_model(model, pairs), list(model.training.X.columns)
    length = idata["posterior/lengthscale"].median(("chain", "draw")).values
    size = idata["posterior/amplitude"].median().item() / np.sqrt(len(columns) + len(pairs))
    start = {"lengthscale": length, "amplitude": np.full(len(columns), size)}
    if pairs:
        own = [[columns.index(name) for name in columns if name in pair] for pair in pairs]
        start |= {"pair_lengthscale": length[own], "pair_amplitude": np.full(len(pairs), size)}
    return simple, simple.fit("map", start=start, **QUIET)


def mlpd(model, idata, X, y):
    """Mean log predictive density, by Gauss-Hermite quadrature over the log rate."""
    found = bx.predictions(model, idata, X, on="latent", **SUMMARY)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = found["f_mean"].values[:, None] + found["f_sd"].values[:, None] * nodes
    logs = poisson.logpmf(y.values[:, None], np.exp(f)) + np.log(weights / weights.sum())
    return logsumexp(logs, axis=1).mean()


def report(scores, chosen):
    """Means over splits, and how often each pair was chosen."""
    print("\nMLPD of held-out rows, mean over splits, by number of pairs:")
    part = scores.dropna()
    table = part.pivot_table(index="method", columns="pairs", values="mlpd", sort=False)
    print(table.round(3).to_string())
    whole = scores[scores["pairs"].isna()]["mlpd"]
    print(f"With all interactions: {whole.mean():.3f}")
    print("\nHow often each pair was among the first three:")
    counts = chosen.groupby(["pair", "method"]).size().unstack("method", fill_value=0)
    print(counts.to_string())


def plot_scores(scores):
    """Mean and standard error over splits, of the difference to the whole model."""
    whole = scores[scores["pairs"].isna()].set_index("split")["mlpd"]
    part = scores.dropna().copy()
    part["difference"] = part["mlpd"] - part["split"].map(whole)
    figure, panel = plt.subplots(figsize=(7, 4.5), layout="constrained")
    methods = list(part.groupby("method", sort=False))
    for k, (method, own) in enumerate(methods):
        groups = own.groupby("pairs")["difference"]
        mean, at = groups.mean(), 0.06 * (k - (len(methods) - 1) / 2)
        panel.errorbar(
            mean.index + at,
            mean,
            groups.sem(),
            fmt=f"{script.MARKERS[k]}-",
            color=f"C{k}",
            label=method,
        )
    panel.axhline(0, color="gray", linewidth=1)
    panel.set_xticks(range(MOST + 1))
    panel.set(xlabel="interactions kept", ylabel="MLPD, less that of the whole model")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
