"""Table 1 of Yoshikawa and Iwata: errors of GPX and of the methods that they compare.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

The table contains mean squared errors of the standardized response on the test rows of five splits.
The paper marks methods that a paired t-test over the five splits cannot distinguish from the best;
`p_value` is this test. Two splits share three quarters of their training rows. So their differences
are not independent and the test rejects too often. `p_corrected` uses the variance of Nadeau and
Bengio, "Inference for the generalization error" (2003), with the factor 1 / 5 + 1 / 4 instead of 1
/ 5.

A second table counts training rows with repeated inputs. If all repeated rows have the same
response too, the marginal likelihood of a GP has no maximum: it grows without bound as noise and
lengthscale decrease. A third table follows this growth. For each sd of the noise it contains the
best of some lengthscales on the first split (with an amplitude of 1), its log marginal likelihood,
and its error over the splits. Both tables need all data sets, so ``--only`` omits them.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import t as student_t

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_cells
import gpx_data
import gpx_methods
import paper_points
import papers

METHODS = ("GPX", "Localized", "Network", "ARD", "Lasso", "Ridge", "GPR")
NOISES = (0.7, 0.3, 0.1, 0.03, 0.01)
LENGTHSCALES = (2.0, 1.5, 1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.1)
"""Lengthscales for following the marginal likelihood as it grows without bound."""


def main(arguments=None):
    paper = papers.Paper("gpx_table1", __doc__, arguments, cells="gpx")
    cells = gpx_cells.compute(paper, METHODS)
    cells = cells[cells["method"].isin(METHODS)]
    summary = papers.over_splits(cells, ["error"])
    table = paper.beside_published(summary.merge(against_best(cells), how="left"))
    paper.figure(paper_points.plot(table, "mean squared error of the standardised y", log=True))
    if paper.only:
        return
    names = gpx_cells.QUICK[0] if paper.quick else gpx_data.NAMES
    splits = {name: gpx_data.problem(name, paper.folder).splits() for name in names}
    counts = [repeated(name, own[0].train) for name, own in splits.items()]
    paper.table(papers.pd.DataFrame(counts), "_repeated")
    for name, own in splits.items():
        if gpx_methods.unbounded(own[0].train):
            grown = [without_bound(paper.cells, name, own, sigma) for sigma in NOISES]
            paper.table(papers.pd.DataFrame(grown), f"_{name}")


def repeated(name, rows):
    """Count rows with repeated inputs, their groups, and groups with one response."""
    size, responses = gpx_methods.repeated(rows)
    counts = {"rows": len(rows.y), "features": rows.Z.shape[1]}
    counts |= {"repeated": size.sum(), "groups": len(size)}
    return {"data": name, **counts, "of_one_response": (responses == 1).sum()}


def without_bound(cells, name, splits, sigma):
    """Best lengthscale for each noise, its log marginal likelihood, and errors."""
    tried, found = LENGTHSCALES, []
    for number, split in enumerate(splits):
        own = cells.compute(
            lambda: gpx_methods.best_lengthscale(split, sigma, tried),  # noqa: B023
            data=name,
            method=f"GPR, sigma {sigma}",
            split=number,
        )
        found.append(own)
        tried = (found[0]["lengthscale"],)
    errors = [own["error"] for own in found]
    likelihood = ("lengthscale", "log_marginal_likelihood")
    said = {"sigma": sigma, **{what: found[0][what] for what in likelihood}}
    return said | {"error": np.mean(errors), "error_sd": np.std(errors)}


def against_best(cells):
    """Paired t-tests of each method against the best on its data set, over shared splits."""
    errors = cells[cells["metric"] == "error"]
    found = []
    for data, own in errors.groupby("data", sort=False):
        table = own.pivot(index="split", columns="method", values="value").dropna(axis=1)
        best = table.mean().idxmin()
        for method in table.columns.drop(best):
            difference = table[method] - table[best]
            n = len(difference)
            if n < 2:
                continue
            plain = difference.mean() / np.sqrt(difference.var() / n)
            corrected = difference.mean() / np.sqrt(difference.var() * (1 / n + 1 / 4))
            p = {"p_value": plain, "p_corrected": corrected}
            p = {name: 2 * student_t.sf(abs(value), n - 1) for name, value in p.items()}
            found.append({"data": data, "method": method, "best": best, **p})
    return papers.pd.DataFrame(found, columns=["data", "method", "best", "p_value", "p_corrected"])


if __name__ == "__main__":
    main()
