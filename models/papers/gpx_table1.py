"""Table 1 of Yoshikawa and Iwata: errors of GPX and of the methods that they compare.

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise feature
    weights", IEEE TNNLS 34 (2023) 5789-5803.

Mean squared errors of the standardised response on the test rows of five splits. The paper marks
what a paired t-test over the five splits cannot tell from the best method; `p_value` is that test.
The splits share three quarters of their training rows in pairs, so that their differences are not
independent and the test rejects too often: `p_corrected` has the variance of Nadeau and Bengio,
"Inference for the generalization error" (2003), which is larger by 1 / 5 + 1 / 4 over 1 / 5.

A second table counts training rows whose inputs are those of another one. Where all of them have
the same response too, the marginal likelihood of a GP has no maximum: with ever smaller noise and
lengthscale it grows without bound.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import t as student_t

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_cells
import gpx_data
import gpx_methods
import papers

METHODS = ("GPX", "Localized", "Network", "ARD", "Lasso", "Ridge", "GPR")


def main(arguments=None):
    paper = papers.Paper("gpx_table1", __doc__, arguments, cells="gpx")
    cells = gpx_cells.compute(paper, METHODS)
    cells = cells[cells["method"].isin(METHODS)]
    summary = papers.over_splits(cells, ["error"])
    paper.beside_published(summary.merge(against_best(cells), how="left"))
    names = gpx_cells.QUICK[0] if paper.quick else paper.only or gpx_data.NAMES
    paper.table(papers.pd.DataFrame([repeated(name, paper.folder) for name in names]), "_repeated")


def repeated(name, folder):
    """Rows of the first split that share their inputs, their groups, and those of one response."""
    rows = gpx_data.problem(name, folder).splits()[0].train
    size, responses = gpx_methods.repeated(rows)
    counts = {"rows": len(rows.y), "repeated": size.sum(), "groups": len(size)}
    return {"data": name, **counts, "of_one_response": (responses == 1).sum()}


def against_best(cells):
    """Paired t-tests between each method and the best of its data set, on the splits they share."""
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
