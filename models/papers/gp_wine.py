"""What makes a wine good? How fast quadratures and random features reach the exact attributions.

Red wines from the north of Portugal, and one explained that its tasters gave an 8, as in

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024),
    sections 5.4 and 5.5, appendix C.1, Figures 4 and 5.

`quadrature`: integrated gradients are commonly approximated by sums over points of the path; this
kernel has a closed form. On the left, as in the paper, the attribution to alcohol against the mean
wine of quality 5. On the right the error over all features: with the number of gradients it falls
by its first power (right-hand sums), its square (trapezoid) and its fourth power (Simpson), and
faster than any power by Gauss-Legendre. The appendix prints Simpson's weights as those of the
trapezoid, and sums without the width of their steps; the rules here are right.

`random_features`: m features in place of the kernel make a cheap model, and each seed another one.
Thin curves are the attribution to alcohol against the average wine, each by one seed; the mixture
over many seeds is "marginalised", and `mixtures.csv` has its mean and sd by the laws of total
expectation and variance. Both converge to the exact model as m grows. With few features one seed is
too sure of itself: its sd is too small, and seeds differ by more. The authors' figure passes
standard deviations where their equations have variances, which is too strong a ridge; the middle
row, with these, is theirs, and converges to another model. `bx.HSGP` has no place here: 3 sines
along each of eleven features are 177,147 functions.

All of this is at a plug-in optimum, that to which a climb from the authors' start leads. Another
optimum has more evidence and says nothing: rows come twice with equal scores, the noise collapses,
and each wine is its own reason. The fit by `--method` has weak priors and starts at the plug-in
optimum; `attributions` holds both side by side. By default it is MAP, as each of the thousands of
steps of NUTS takes a Cholesky factor of 1598 rows. The wine explained is not learnt from.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import norm

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import butler
import script

RULES = {"right": 0, "trapezoid": 1, "simpson": 1, "gauss_legendre": 0}
"""Quadratures, with how many more gradients they take than they have steps."""

STEPS = (2, 4, 8, 16, 32, 64)
FEATURES = (20, 100, 200, 1000)
"""Numbers of random features; the first three are the paper's 10, 50 and 100 frequencies."""

SEEDS, SHOWN = 40, 4
FOLLOWED = "alcohol"
EQUATIONS, FIGURE = "variances, as in the equations", "sds, as in the paper's figure"
"""What stands for the variances of f and of the noise."""

LONGEST = 100.0
"""Lengthscales, in sd, at which the fit with priors starts where a feature is switched off."""


def main(arguments=None):
    run = script.Run("gp_wine", __doc__, arguments, data="wine", method="map")
    order = butler.permuted(len(run.data.y))
    X, y = script.z_scores(run.data.X).iloc[order], run.data.y.iloc[order].astype(float)
    label = y.index[y == 8][0]
    wine, five = X.loc[[label]], X[y == 5].mean()
    X, y = X.drop(index=label), y.drop(index=label)

    best = butler.climb(X, y)
    print(f"\nPlug-in optimum from the authors' start: {best.describe(X.columns)}")
    plugged, model = best.hyperparameters, butler.uncentred(X, y)
    start = plugged | {"lengthscale": np.minimum(plugged["lengthscale"], LONGEST)}
    idata = run.fit(model, start=start)

    exact = bx.attributions(model, plugged, wine, baseline="zero", keep="summary")
    drawn = bx.attributions(model, idata, wine, baseline="zero", seed=run.seed)
    table = pd.concat(
        [
            script.attribution_table(exact, hyperparameters="plug-in: a maximum of the evidence"),
            script.attribution_table(drawn, hyperparameters=f"weak priors, by {run.method}"),
        ]
    )
    run.table(table, "attributions")
    run.figure(plot_attributions(table), "attributions")

    errors = converge(model, plugged, wine, five)
    run.table(errors, "quadrature")
    report_quadrature(errors)
    run.figure(plot_quadrature(errors), "quadrature")

    # The root of an sd, where a root of a variance is asked for.
    sds = plugged | {name: np.sqrt(plugged[name]) for name in ("amplitude", "sigma")}
    singles = by_random_features(X, y, {EQUATIONS: plugged, FIGURE: sds}, wine)
    run.table(singles, "random_features")
    mixtures = mix(singles)
    run.table(mixtures, "mixtures")
    exact = script.attribution_table(exact)
    report_random_features(singles, mixtures, exact)
    run.figure(plot_random_features(singles, mixtures, exact), "random_features")


def converge(model, hyperparameters, wine, baseline):
    """Attributions by each rule and number of steps, in long form, with the exact ones."""
    given = (model, hyperparameters, wine)
    options = {"baseline": baseline, "keep": "summary", "progressbar": False}
    exact = script.attribution_table(bx.attributions(*given, **options))
    tables = []
    for rule, more in RULES.items():
        for steps in STEPS:
            found = script.summed(*given, method=rule, steps=steps, **options)
            labels = {"rule": rule, "steps": steps, "gradients": steps + more}
            tables.append(script.attribution_table(found, **labels))
    table = pd.concat(tables, ignore_index=True)
    truth = exact.set_index("feature").loc[table["feature"], ["mean", "sd"]].reset_index(drop=True)
    return table.join(truth.add_prefix("exact_"))


def largest_errors(errors):
    """The largest error over features, of mean and sd, for each rule and number of steps."""
    sizes = errors.assign(
        mean=(errors["mean"] - errors["exact_mean"]).abs(),
        sd=(errors["sd"] - errors["exact_sd"]).abs(),
    )
    return sizes.groupby(["rule", "steps", "gradients"], sort=False)[["mean", "sd"]].max()


def report_quadrature(errors):
    """Print errors, and the orders at which they fall from 16 to 32 steps."""
    for quantity, sizes in largest_errors(errors).droplevel("gradients").items():
        sizes = sizes.unstack("rule")[list(RULES)]
        print(f"\nLargest error of the {quantity}s of attributions, by number of steps:")
        print(sizes.map("{:.1e}".format).to_string())
        orders = np.log2(sizes.loc[16] / sizes.loc[32]).drop("gauss_legendre").round(2)
        print("Order, from 16 to 32 steps:", ", ".join(f"{r} {o}" for r, o in orders.items()))


def by_random_features(X, y, ridges, wine):
    """Attributions by each number of random features, seed and ridge, in long form."""
    tables = []
    for m in FEATURES:
        for seed in range(SEEDS):
            cheap = bx.GP(X, y, scale=False, approximation=bx.RandomFeatures(m, seed))
            options = {"baseline": "zero", "keep": "summary", "progressbar": False}
            for ridge, hyperparameters in ridges.items():
                found = bx.attributions(cheap, hyperparameters, wine, **options)
                tables.append(script.attribution_table(found, m=m, seed=seed, ridge=ridge))
    return pd.concat(tables, ignore_index=True)


def mix(singles):
    """Mean and sd of the equal mixture over seeds, for each ridge, m and feature.

    The laws of total expectation and variance: the mean of means; the mean of variances and the
    variance of means.
    """
    squares = singles.assign(variance=singles["sd"] ** 2)
    groups = squares.groupby(["ridge", "m", "feature"], sort=False)
    mean, between = groups["mean"].mean(), groups["mean"].var(ddof=0)
    sd = np.sqrt(groups["variance"].mean() + between)
    return pd.DataFrame({"mean": mean, "sd": sd, "sd_of_means": np.sqrt(between)}).reset_index()


def density(x, mean, sd):
    """Density at x of an equal mixture of normals."""
    return norm.pdf(x, np.asarray(mean)[:, None], np.asarray(sd)[:, None]).mean(axis=0)


def report_random_features(singles, mixtures, exact):
    """Print how one seed and the mixture compare with the exact model, for the feature followed."""
    truth = exact.set_index("feature").loc[FOLLOWED]
    one = singles[singles["feature"] == FOLLOWED].groupby(["ridge", "m"], sort=False)
    mixed = mixtures[mixtures["feature"] == FOLLOWED].set_index(["ridge", "m"])
    error = one["mean"].agg(lambda means: np.sqrt(((means - truth["mean"]) ** 2).mean()))
    shown = pd.DataFrame(
        {
            "mixture mean": mixed["mean"],
            "mixture sd": mixed["sd"],
            "median sd of a seed": one["sd"].median(),
            "rms error of a seed": error,
        }
    )
    print(f"\nAttribution to {FOLLOWED}: exact {truth['mean']:.4f}, sd {truth['sd']:.4f}")
    print(f"By m random features, {SEEDS} seeds:")
    for ridge, part in shown.groupby("ridge", sort=False):
        print(f"{ridge}:\n{part.droplevel('ridge').round(4).to_string()}")


def plot_attributions(table):
    """Attributions of the wine against the average one, for both kinds of hyperparameters."""
    figure, axes = plt.subplots(figsize=(9, 8), layout="constrained")
    script.draw_intervals(axes, table, "hyperparameters")
    axes.set_xlabel("attribution to quality [score]")
    axes.set_title(f"One wine of quality 8: mean and {script.LEVEL:.0%} interval")
    figure.legend(loc="outside lower center")
    return figure


def plot_quadrature(errors):
    """The attribution to one feature by each rule, and the errors over all."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 6.5), layout="constrained")
    one = errors[errors["feature"] == FOLLOWED]
    mean, sd = one["exact_mean"].iloc[0], one["exact_sd"].iloc[0]
    left.axhspan(mean - sd, mean + sd, color="gray", alpha=0.25, lw=0, label="exact, mean ± sd")
    left.axhline(mean, color="gray", linewidth=1)
    sizes = largest_errors(errors)["mean"]
    for k, rule in enumerate(RULES):
        part, style = one[one["rule"] == rule], {"color": f"C{k}", "marker": script.MARKERS[k]}
        left.plot(part["gradients"], part["mean"], label=rule, **style)
        right.plot(sizes.loc[rule].index.get_level_values("gradients"), sizes.loc[rule], **style)
    for panel in (left, right):
        panel.set_xscale("log", base=2)
        panel.set_xticks(STEPS, STEPS)
        panel.set_xlabel("gradients taken along the path")
    left.set_ylabel("attribution to quality [score]")
    left.set_title(f"Attribution to {FOLLOWED}")
    right.set_yscale("log")
    right.yaxis.set_major_formatter("{x:.0e}")
    right.set_ylabel("largest error over features [score]")
    right.set_title("Error of the mean")
    figure.legend(loc="outside lower center", ncols=5)
    return figure


def plot_random_features(singles, mixtures, exact):
    """Attributions to one feature: of the exact model, of single seeds, and of their mixture.

    Densities with the ridge of the equations and with that of the paper's figure, and means and
    sds with the former; a column for each number of features.
    """
    figure, axes = plt.subplots(
        3, len(FEATURES), figsize=(15, 13), sharex=True, sharey="row", layout="constrained"
    )
    truth = exact.set_index("feature").loc[FOLLOWED]
    singles = singles[singles["feature"] == FOLLOWED]
    mixtures = mixtures[mixtures["feature"] == FOLLOWED].set_index(["ridge", "m"])
    for column, m in zip(axes.T, FEATURES, strict=True):
        of_m = singles[singles["m"] == m]
        _draw_densities(column[0], of_m[of_m["ridge"] == EQUATIONS], truth)
        _draw_densities(column[1], of_m[of_m["ridge"] == FIGURE], truth)
        _draw_seeds(column[2], of_m[of_m["ridge"] == EQUATIONS], mixtures.loc[EQUATIONS, m], truth)
        column[0].set_title(f"{m} features")
    axes[0, 0].set_ylabel(f"density\n({EQUATIONS})")
    axes[1, 0].set_ylabel(f"density\n({FIGURE})")
    axes[2, 0].set_ylabel("seed: mean ± sd\n(square: mixture)")
    for panel in axes[2]:
        panel.set_xlabel(f"attribution to {FOLLOWED} [score]", fontsize="medium")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_densities(panel, part, truth):
    x = truth["mean"] + truth["sd"] * np.linspace(-6, 4, 400)
    exactly = norm.pdf(x, truth["mean"], truth["sd"])
    panel.fill_between(x, exactly, color="gray", alpha=0.35, linewidth=0, label="exact model")
    for k, one in enumerate(part.head(SHOWN).itertuples()):
        label = None if k else "one seed"
        panel.plot(x, norm.pdf(x, one.mean, one.sd), "C0", linewidth=1, label=label)
    label = f"mixture over {SEEDS} seeds"
    panel.plot(x, density(x, part["mean"], part["sd"]), "k--", linewidth=2.5, label=label)


def _draw_seeds(panel, part, mixture, truth):
    ends = truth["mean"] - truth["sd"], truth["mean"] + truth["sd"]
    panel.axvspan(*ends, color="gray", alpha=0.35, linewidth=0)
    panel.errorbar(part["mean"], part["seed"], xerr=part["sd"], fmt="o", color="C0", ms=3, lw=1)
    panel.errorbar(mixture["mean"], -3, xerr=mixture["sd"], fmt="ks", capsize=4, linewidth=2.5)
    panel.set_yticks([0, SEEDS // 2])


if __name__ == "__main__":
    main()
