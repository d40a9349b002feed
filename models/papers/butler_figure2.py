"""Figure 2 of Butler, Feng and Djuric: attributions of the time that patients stay well.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

The data are breast cancer patients without recurrence: thirty features of their cell nuclei, and
the time for which they were observed free of disease. The baseline is the average patient. Figures
show (a) all attributions of six patients and (b), `_followed`, two attributions over fifty
patients.

The authors use one local maximum of the marginal likelihood, at which most features are switched
off. But there are several maxima with almost equal marginal likelihood and other features.
`_optima` compares them with draws from the posterior of the hyperparameters, which average over all
of them. The other figures compare the best maximum with the posterior. The important features at
one maximum are largely a choice among features with the same information.

The response is the time when a patient was last seen, not a time of recurrence: the model ignores
censoring.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import papers
import script

STARTS = (
    (1, 1, 1),
    (3, 1, 1),
    (3, 2, 1.2),
    (10, 2, 1),
    (30, 3, 1),
    (10, 1, 1),
    (5, 3, 1),
    (20, 2, 2),
)
"""Starting points: lengthscales, amplitude and noise relative to the authors' starting point."""

CLOSE = 2.0
"""Show optima whose log marginal likelihood is at most this much below the best."""

SAME = 0.02
"""Optima with a smaller difference in log marginal likelihood are the same."""

UNUSED = 1e-3
"""Attributions below this value, in months, belong to features that are switched off."""

PATIENTS = 6
FOLLOWED, FOLLOWED_PATIENTS = ("mean_texture", "worst_radius"), 50
DRAWS, EXPLAINED_DRAWS = 500, 500
SUMMARY = {"keep": "summary", "progressbar": False}


def main(arguments=None):
    paper = papers.Paper("butler_figure2", __doc__, arguments)
    data = bx.datasets.load("wpbc", path=paper.folder)
    X, y = script.z_scores(data.X).iloc[1:], data.y.iloc[1:]
    starts = STARTS[3:5] if paper.quick else STARTS
    starts = [dict(zip(("reach", "signal", "noise"), start, strict=True)) for start in starts]
    optima = distinct([butler.climb(X, y, **start) for start in starts])
    tables = []
    for k, optimum in enumerate(optima, 1):
        print(f"{k}: {optimum.describe(X.columns)}")
        found = bx.attributions(butler.uncentred(X, y), optimum.hyperparameters, **SUMMARY)
        tables.append(script.attribution_table(found, hyperparameters=f"optimum {k}"))
    model, method = butler.uncentred(X, y), "laplace" if paper.quick else "nuts"
    idata = model.fit(method, draws=100 if paper.quick else DRAWS, seed=0, progressbar=False)
    found = bx.attributions(model, idata, num_draws=EXPLAINED_DRAWS, seed=0, progressbar=False)
    posterior = f"posterior, by {method}"
    tables.append(script.attribution_table(found, hyperparameters=posterior))
    table = pd.concat(tables, ignore_index=True).rename(columns={"obs": "patient"})
    table["patient"] = np.searchsorted(y.index, table["patient"]) + 1
    sizes = summarise(table)
    evidence = {f"optimum {k}": o.negative_log_evidence for k, o in enumerate(optima, 1)}
    paper.table(sizes.assign(negative_log_evidence=sizes["hyperparameters"].map(evidence)))
    paper.table(certainty(table), "_certainty")
    two = table[table["hyperparameters"].isin(["optimum 1", posterior])]
    paper.figure(plot_patients(two))
    paper.figure(plot_followed(two), "_followed")
    paper.figure(plot_optima(sizes), "_optima")


def certainty(table):
    """Measure the paper's claims about sizes and uncertainty for each fit.

    `used` is the number of features with a mean size above `UNUSED`. `hold_0` is the proportion of
    90% intervals that contain 0, among attributions above `UNUSED`. `rank_correlation` is the
    correlation over patients between the size of a mean attribution and its sd, averaged over the
    used features.
    """
    rows = []
    for fit, own in table.groupby("hyperparameters", sort=False):
        sizes = own["mean"].abs().groupby(own["feature"]).mean()
        some = own[own["mean"].abs() > UNUSED]
        inside = (some["low"] <= 0) & (some["high"] >= 0)
        used = sizes.index[sizes > UNUSED]
        ranks = [
            spearmanr(part["mean"].abs(), part["sd"])[0]
            for feature, part in own.groupby("feature")
            if feature in used
        ]
        row = {"hyperparameters": fit, "used": len(used), "hold_0": inside.mean()}
        rows.append(row | {"rank_correlation": np.mean(ranks)})
    return pd.DataFrame(rows)


def distinct(optima):
    """Keep each optimum close to the best once, best first."""
    ranked = sorted(optima, key=lambda o: o.negative_log_evidence)
    kept = []
    for optimum in ranked:
        worse = optimum.negative_log_evidence - ranked[0].negative_log_evidence
        same = kept and optimum.negative_log_evidence - kept[-1].negative_log_evidence < SAME
        if worse < CLOSE and not same:
            kept.append(optimum)
    return kept


def summarise(table):
    """Mean size of each feature's attribution over the patients, and its root mean variance."""
    sizes = table.assign(size=table["mean"].abs(), sd=table["sd"] ** 2)
    sizes = sizes.groupby(["hyperparameters", "feature"], sort=False)[["size", "sd"]].mean()
    return sizes.assign(sd=np.sqrt(sizes["sd"])).reset_index()


def plot_optima(sizes):
    """Plot mean sizes of attributions and their sd, at each optimum and over the posterior."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 13), sharey=True, layout="constrained")
    features = sizes["feature"].unique()
    labels = {"size": "mean size of the mean attribution", "sd": "root mean variance"}
    for panel, (column, label) in zip(axes, labels.items(), strict=True):
        for k, (fit, part) in enumerate(sizes.groupby("hyperparameters", sort=False)):
            last = k == sizes["hyperparameters"].nunique() - 1
            style = {"color": "black"} if last else {"color": f"C{k}", "fillstyle": "none"}
            panel.plot(part[column], features, script.MARKERS[k], ls="", label=fit, **style)
        panel.set_xlabel(f"{label} [months]")
        panel.grid(axis="y", alpha=0.4)
    axes[0].set_ylim(len(features) - 0.5, -0.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle("Over 150 patients: which features matter depends on the optimum")
    return figure


def plot_patients(table):
    """Plot attributions of the first patients, one panel each."""
    figure, axes = plt.subplots(
        PATIENTS, 1, figsize=(12, 15), sharex=True, sharey=True, layout="constrained"
    )
    for patient, panel in enumerate(axes, 1):
        chosen = table[table["patient"] == patient]
        _across(panel, chosen, "feature")
        panel.set_title(f"patient {patient}", fontsize="medium")
    panel.tick_params(axis="x", rotation=90)
    figure.supylabel("attribution [months]")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(f"Attributions to the time free of disease: mean, {script.LEVEL:.0%} interval")
    return figure


def plot_followed(table):
    """Plot attributions to two features, patient by patient."""
    figure, axes = plt.subplots(2, 1, figsize=(12, 9), sharex=True, layout="constrained")
    for feature, panel in zip(FOLLOWED, axes, strict=True):
        chosen = table[(table["feature"] == feature) & (table["patient"] <= FOLLOWED_PATIENTS)]
        _across(panel, chosen, "patient")
        panel.set_title(feature)
    panel.set_xlabel("patient")
    figure.supylabel("attribution [months]")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(f"Attributions to two features: mean and {script.LEVEL:.0%} interval")
    return figure


def _across(panel, table, along):
    """Plot means and intervals from left to right, two fits side by side."""
    for k, (fit, part) in enumerate(table.groupby("hyperparameters", sort=False)):
        at = np.arange(len(part)) + 0.3 * (k - 0.5)
        panel.vlines(at, part["low"], part["high"], color=f"C{k}")
        panel.plot(at, part["mean"], script.MARKERS[k], color=f"C{k}", markersize=5, label=fit)
        ticks = np.arange(len(part)) if along == "feature" else np.arange(4, len(part), 5)
        panel.set_xticks(ticks, part[along].values[ticks])
    panel.axhline(0, color="gray", linewidth=1)


if __name__ == "__main__":
    main()
