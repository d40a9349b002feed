"""Can sparse weights explain with fewer features? The horseshoe compared with GPX's shared prior.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

In the paper's Figure 2, the localized lasso has sparse weights. With one or two features it is
slightly more sufficient than GPX on Abalone and Boston. The paper leaves a GPX with sparse weights
to future work. `weight_prior="horseshoe"` gives each weight function its own amplitude, and most
amplitudes are near zero. The table contains the error and sufficiency as in Figure 2: the mean
absolute change of the prediction if k features are kept, in sd of y; less is better. All fits use
the default priors and one lengthscale. MAP is fitted on the paper's five splits (Abalone: only the
first), and NUTS on the first split of the two smallest data sets.

`difference` is horseshoe minus shared, on the same splits. The largest R-hat of a hyperparameter
and the number of divergences show whether NUTS has converged.
"""

import sys
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_data
import papers
from gpx_methods import Explained
from gpx_scores import KEPT, scores

PRIORS = ("shared", "horseshoe")
DATA = ("diabetes", "boston", "fish", "abalone")
METHODS = {
    "map": (DATA, gpx_data.SPLITS, {"jacobian": False}),
    "nuts": (DATA[:2], 1, {"draws": 500, "tune": 500, "chains": 4, "cores": 2}),
}
"""Data sets, number of splits and options of each method."""

ONCE = ("abalone",)
"""Data sets with a fit of only the first split, because one fit takes long."""

QUICK = {
    "map": (DATA[:1], 1, {"jacobian": False}),
    "nuts": (DATA[:1], 1, {"draws": 10, "tune": 10, "chains": 2, "cores": 1}),
}
COMPARED = ("error", *(f"sufficiency_{k}" for k in (1, 2, 3)))
NUMBERS = (*COMPARED, "r_hat", "divergences")
STYLES = {"map": "-", "nuts": "--"}
NUM_DRAWS = 100
"""Number of hyperparameter draws for explanations."""


def main(arguments=None):
    paper = papers.Paper("gpx_sparse", __doc__, arguments)
    for method, (names, count, options) in (QUICK if paper.quick else METHODS).items():
        for name in [name for name in names if not paper.only or name in paper.only]:
            problem = gpx_data.problem(name, paper.folder)
            for number, split in enumerate(problem.splits()[: 1 if name in ONCE else count]):
                for prior in PRIORS:
                    paper.cells.compute(
                        lambda: scores("GPX", split, explained(split, prior, method, options)),  # noqa: B023
                        data=name,
                        method=f"{prior}, {method}",
                        split=number,
                    )
    paper.table(summary(paper.cells.frame))
    paper.figure(plot(paper.cells.frame))


def explained(split, prior, method, options):
    """Contributions to the test rows, and predictions by a mean over draws."""
    train, test = split.train, split.test
    model = bx.GPX(train.X, train.y, weight_prior=prior, ard=False, resolution=0)
    idata = model.fit(method, seed=split.seed, progressbar=False, **options)
    notes = {}
    if method == "nuts":
        own = [variable.name for variable in model.variables.values()]
        notes["r_hat"] = az.summary(idata, own, kind="diagnostics", round_to="none")["r_hat"].max()
        notes["divergences"] = idata["sample_stats"]["diverging"].sum().item()
    asked = {"keep": "summary", "num_draws": NUM_DRAWS, "seed": 0, "progressbar": False}

    def predict(Z):
        return bx.predictions(model, idata, Z, **asked)["f_mean"].values

    found = bx.contributions(model, idata, test.X, **asked)["contribution_mean"].values
    weights = bx.weights(model, idata, test.X, **asked)["weight_mean"].values
    return Explained(predict, predict(test.X), weights, found, 0.0, 0.0, notes)


def summary(cells):
    """Means and sds over splits for both priors, and for their difference."""
    cells = cells[cells["metric"].isin(NUMBERS)]
    cells = cells.assign(prior=cells["method"].str.split(", ").str[0])
    cells["method"] = cells["method"].str.split(", ").str[1]
    keys = ["data", "method", "metric"]
    wide = cells.pivot(index=[*keys, "split"], columns="prior", values="value")
    compared = wide.index.get_level_values("metric").isin(COMPARED)
    wide["difference"] = (wide["horseshoe"] - wide["shared"]).where(compared)
    grouped = wide.groupby(keys, sort=False)
    columns = {}
    for name in (*PRIORS, "difference"):
        columns[name] = grouped[name].mean()
        columns[f"{name}_sd"] = grouped[name].std(ddof=0).where(grouped.size() > 1)
    return pd.DataFrame(columns).assign(splits=grouped.size()).reset_index()


def plot(cells):
    """Plot sufficiency against the number of kept features, one panel per data set."""
    metrics = [f"sufficiency_{k}" for k in KEPT]
    means = papers.over_splits(cells, metrics)
    means["k"] = means["metric"].str.removeprefix("sufficiency_").astype(int)
    panels = list(means.groupby("data", sort=False))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(11, 4), layout="constrained", squeeze=False
    )
    for axis, (name, own) in zip(axes.flat, panels, strict=True):
        for method, line in own.groupby("method", sort=False):
            prior, fitted = method.split(", ")
            style = {"color": f"C{PRIORS.index(prior)}", "linestyle": STYLES[fitted]}
            axis.plot(line["k"], line["mean"], marker=".", label=method, **style)
        axis.set(title=name, xlabel="features kept, k", xticks=KEPT[::3], ylim=(0, None))
    axes[0, 0].set_ylabel("mean absolute change, sd of y")
    shown = {}
    for axis in axes.flat:
        shown |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown))
    return figure


if __name__ == "__main__":
    main()
