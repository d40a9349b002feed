"""Which features of a tumour's nuclei tell how long a patient stays well? It depends on the fit.

Breast cancer patients without recurrence, thirty features of their cell nuclei, and the time for
which they were seen free of disease:

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    section 5.2 and Figure 2.

The authors plug in one local maximum of the evidence, at which most features are switched off, and
show which of the others matter to each patient. But there are several such maxima, hardly less
probable and with other features. The figure `optima` holds those beside draws from the posterior of
the hyperparameters, which average over them all. No feature is off then; the attributions that lead
at the maxima, to perimeter and worst radius with opposite signs, shrink to a fraction; their
intervals hold 0. What one maximum calls important is largely a choice among features that say the
same. The figures `patients` and `features_by_patient` are those of the paper, from the best maximum
and from the posterior side by side.

The time is when a patient was last seen, not a recurrence: the model knows nothing of censoring.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
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
"""Where climbs start: lengthscales, amplitude and noise over those of the authors' start."""

CLOSE = 2.0
"""Optima are shown that are at most this many nats below the best."""

SAME = 0.02
"""Optima that differ by less, in nats, are one."""

UNUSED = 1e-3
"""Attributions below, in months, are of features that are switched off."""

PATIENTS = 6
FOLLOWED, FOLLOWED_PATIENTS = ("mean_texture", "worst_radius"), 50
EXPLAINED_DRAWS = 500


def main(arguments=None):
    run = script.Run("gp_wpbc", __doc__, arguments, data="wpbc", method="nuts", draws=500)
    X, y = script.z_scores(run.data.X).iloc[1:], run.data.y.iloc[1:]
    model = butler.uncentred(X, y)
    idata = run.fit(model)

    starts = [dict(zip(("reach", "signal", "noise"), start, strict=True)) for start in STARTS]
    optima = distinct([butler.climb(X, y, **start) for start in starts])
    print("\nLocal maxima of the evidence:")
    tables = []
    for k, optimum in enumerate(optima, 1):
        print(f"{k}: {optimum.describe(X.columns)}")
        found = bx.attributions(model, optimum.hyperparameters, keep="summary")
        tables.append(script.attribution_table(found, hyperparameters=f"optimum {k}"))
    found = bx.attributions(model, idata, num_draws=EXPLAINED_DRAWS, seed=run.seed)
    posterior = f"posterior, by {run.method}"
    tables.append(script.attribution_table(found, hyperparameters=posterior))
    table = pd.concat(tables, ignore_index=True).rename(columns={"obs": "patient"})
    table["patient"] = np.searchsorted(y.index, table["patient"]) + 1
    run.table(table, "attributions")

    sizes = summarise(table)
    print("\nMean over patients of the size of an attribution [months], leading features:")
    shown = sizes.pivot(index="feature", columns="hyperparameters", values="size")
    print(shown.loc[shown.max(axis=1).nlargest(12).index].round(2).to_string())
    used = table[table["mean"].abs() > UNUSED]
    inside = (used["low"] <= 0) & (used["high"] >= 0)
    print(f"\nShare of {script.LEVEL:.0%} intervals that hold 0, of attributions that aren't 0:")
    print(inside.groupby(used["hyperparameters"], sort=False).mean().round(3).to_string())
    run.table(sizes, "optima")
    run.figure(plot_optima(sizes), "optima")

    two = table[table["hyperparameters"].isin(["optimum 1", posterior])]
    run.figure(plot_patients(two), "patients")
    run.figure(plot_followed(two), "features_by_patient")


def distinct(optima):
    """The optima that are close to the best, each once, best first."""
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
    """Mean size of attributions, and their sd, at each optimum and over the posterior."""
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
    """Attributions of the first patients, one panel each."""
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
    """Attributions to two features, patient by patient."""
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
    """Means and intervals from left to right, two fits side by side."""
    for k, (fit, part) in enumerate(table.groupby("hyperparameters", sort=False)):
        at = np.arange(len(part)) + 0.3 * (k - 0.5)
        panel.vlines(at, part["low"], part["high"], color=f"C{k}")
        panel.plot(at, part["mean"], script.MARKERS[k], color=f"C{k}", markersize=5, label=fit)
        ticks = np.arange(len(part)) if along == "feature" else np.arange(4, len(part), 5)
        panel.set_xticks(ticks, part[along].values[ticks])
    panel.axhline(0, color="gray", linewidth=1)


if __name__ == "__main__":
    main()
