"""Figure 5 of Paananen, Andersen and Vehtari: which interactions a model of bike rentals needs.

The data are hourly numbers of rented bikes in two Februaries. The full model is a Gaussian process
with a Poisson likelihood and six features. Each method ranks the 15 pairs of features in this
model. A second model has only main effects and the first 1, 2 or 3 of these pairs, and predicts the
held-out rows. There are ten random splits, with 500 rows for the fit and 839 to predict; the public
data have two more rows than the paper's. Hyperparameters are at the mode of their posterior with
the package's priors.

KL-diff^2 refers to the counts. The H-statistic and the variation of partial dependence refer to the
mean of the log rate, which is additive in the smaller models. Partial dependence is averaged over
all 500 rows and evaluated at all rows (H) or at the 81 pairs of deciles. The mean log predictive
density (MLPD) integrates the Poisson probability over a normal log rate.

`kl_figure5_pairs.csv` contains how often each pair was among the first three, and KL-diff^2 with
all 1341 rows. For these rows the paper calls hour : feeling temperature and hour : weekday strong.
"""

import sys
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from scipy.stats import poisson

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import peers

SPLITS, ROWS, HELD_OUT, MOST = 10, 500, 839, 3
METHODS = "KL-diff²", "H-statistic", "partial dependence"
QUIET = {"progressbar": False}
SUMMARY = {"keep": "summary", **QUIET}


def main(arguments=None):
    paper = papers.Paper("kl_figure5", __doc__, arguments)
    data = bx.datasets.load("bike", path=paper.folder)
    splits, rows = (2, 60) if paper.quick else (SPLITS, ROWS)
    for number in range(splits):
        paper.cells.compute(lambda: split(data, number, rows), data="split", number=number)  # noqa: B023
    some = data._replace(X=data.X[::10], y=data.y[::10]) if paper.quick else data
    paper.cells.compute(lambda: strongest(some), data="full", number=0)
    cells = paper.cells.frame
    found = scores(cells)
    paper.table(found)
    paper.table(pairs(cells), "_pairs")
    paper.figure(plot(found))


def split(data, number, rows):
    """MLPD of all models of a split, and the ranks of the chosen pairs."""
    order = np.random.default_rng(number).permutation(len(data.y))
    X, y = data.X.iloc[order], data.y.iloc[order]
    held = {"X": X[rows : rows + HELD_OUT], "y": y[rows : rows + HELD_OUT]}
    model = bx.GP(X[:rows], y[:rows], likelihood="poisson")
    idata = model.fit("map", jacobian=False, **QUIET)
    found, known = {"mlpd|all interactions|15": mlpd(model, idata, **held)}, {}
    for method, values in rank_pairs(model, idata).items():
        order = sorted(values, key=values.get, reverse=True)[:MOST]
        for k in range(MOST + 1):
            chosen = tuple(sorted(order[:k]))
            if chosen not in known:
                known[chosen] = mlpd(*surrogate(model, idata, chosen), **held)
            found[f"mlpd|{method}|{k}"] = known[chosen]
        found |= {f"rank|{method}|{name(pair)}": k + 1 for k, pair in enumerate(order)}
    return found


def strongest(data):
    """KL-diff^2 of all pairs, with a fit to all rows."""
    model = bx.GP(data.X, data.y, likelihood="poisson")
    values = kl_diff(model, model.fit("map", jacobian=False, **QUIET))
    return {f"kl|{METHODS[0]}|{name(pair)}": value for pair, value in values.items()}


def name(pair):
    return " : ".join(pair)


def kl_diff(model, idata):
    """KL-diff^2 of each pair of names."""
    near = bx.interactions(model, idata, **QUIET)["average_interaction"].squeeze(drop=True)
    named = combinations(near["feature"].values, 2)
    return {pair: near.sel(feature=pair[0], feature_bis=pair[1]).item() for pair in named}


def rank_pairs(model, idata):
    """Measures of all pairs by each method: dicts by pairs of names."""
    columns, X = list(model.training.X.columns), model.training.X.values
    depend = dependence(model, idata)
    others = (peers.h_statistics(depend, X), peers.pd_interactions(depend, X))
    named = [{(columns[i], columns[j]): own[i, j] for i, j in own} for own in others]
    return dict(zip(METHODS, (kl_diff(model, idata), *named), strict=True))


def dependence(model, idata):
    """Partial dependence of the mean log rate, up to a constant.

    At the mode of the latent values, this mean is a sum of the kernel over rows. Its coefficients
    are the slopes of the log likelihood at the mode: ``y - exp(f)``.
    """
    X, y, posterior = model.training.X.values, np.asarray(model.training.y), idata["posterior"]
    f = bx.predictions(model, idata, on="latent", **SUMMARY)["f_mean"].values
    amplitude, lengthscale = posterior["amplitude"].item(), posterior["lengthscale"].values[0, 0]
    return peers.product_dependence(X, lengthscale * X.std(axis=0), amplitude**2 * (y - np.exp(f)))


def surrogate(model, idata, pairs):
    """Fit the model with only these pairs, starting at the optimum of the full model."""
    simple, columns = bx.interaction_model(model, pairs), list(model.training.X.columns)
    length = idata["posterior/lengthscale"].median(("chain", "draw")).values
    size = idata["posterior/amplitude"].median().item() / np.sqrt(len(columns) + len(pairs))
    start = {"lengthscale": length, "amplitude": np.full(len(columns), size)}
    if pairs:
        own = [[columns.index(name) for name in columns if name in pair] for pair in pairs]
        start |= {"pair_lengthscale": length[own], "pair_amplitude": np.full(len(pairs), size)}
    return simple, simple.fit("map", start=start, jacobian=False, **QUIET)


def mlpd(model, idata, X, y):
    """Mean log predictive density, by Gauss-Hermite quadrature over the log rate."""
    found = bx.predictions(model, idata, X, on="latent", **SUMMARY)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    f = found["f_mean"].values[:, None] + found["f_sd"].values[:, None] * nodes
    logs = poisson.logpmf(y.values[:, None], np.exp(f)) + np.log(weights / weights.sum())
    return logsumexp(logs, axis=1).mean()


def scores(cells):
    """Mean MLPD over splits by method and number of pairs, and difference from the full model.

    Both have 95% intervals; the difference uses paired splits.
    """
    cells = cells[cells["metric"].str.startswith("mlpd")]
    _, method, number = cells["metric"].str.split("|", expand=True).values.T
    cells = cells.assign(method=method, pairs=number.astype(int))
    whole = cells[cells["pairs"] == 15].set_index("number")["value"]
    less = cells.assign(value=cells["value"] - cells["number"].map(whole))
    by = ["method", "pairs"]
    return papers.means(cells, by).merge(papers.means(less, by), on=by, suffixes=("", "_less_all"))


def pairs(cells):
    """How often each pair was among the first three of a split, and KL-diff^2 with all rows."""
    kind, method, of = cells["metric"].str.split("|", expand=True).values.T
    cells = cells.assign(kind=kind, method=method, pair=of)
    full = cells[cells["kind"] == "kl"].set_index("pair")["value"].rename("full_data")
    ranks = cells[cells["kind"] == "rank"]
    counts = ranks.groupby(["pair", "method"]).size().unstack("method", fill_value=0)
    counts = counts.reindex(index=full.index, columns=METHODS, fill_value=0)
    return counts.join(full).sort_values("full_data", ascending=False).reset_index()


def plot(found):
    """Plot MLPD against the number of pairs, with 95% intervals."""
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    whole = found[found["pairs"] == 15].squeeze()
    axis.axhspan(whole["low"], whole["high"], color="gray", alpha=0.3, linewidth=0)
    axis.axhline(whole["mean"], color="gray", label="all interactions")
    for k, method in enumerate(METHODS):
        part = found[found["method"] == method]
        ends = part["mean"] - part["low"], part["high"] - part["mean"]
        at = part["pairs"] + 0.06 * (k - 1)
        axis.errorbar(at, part["mean"], ends, fmt="osD"[k] + "-", capsize=3, label=method)
    axis.set_xticks(range(MOST + 1))
    axis.set(xlabel="interactions kept", ylabel="mean log predictive density")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    main()
