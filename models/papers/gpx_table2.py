"""Table 2 of Yoshikawa and Iwata: faithfulness of explanations.

Faithfulness is the mean over test rows of a correlation. It relates the contributions of features
to the decrease of the prediction if each feature is set to its mean. Relevances of ARD and KL have
no sign, so they are compared with the absolute change. The paper has no row for texts, where X is
not a function of Z.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_cells
import gpx_data
import paper_points
import papers

METHODS = ("GPX", "LIME", "SHAP", "KL", "Localized", "Network", "ARD")


def main(arguments=None):
    paper = papers.Paper("gpx_table2", __doc__, arguments, cells="gpx")
    names = [name for name in gpx_data.NAMES if name != "paper"]
    cells = gpx_cells.compute(paper, METHODS, names)
    cells = cells[cells["method"].isin(METHODS)]
    table = paper.beside_published(papers.over_splits(cells, ["faithfulness"]))
    paper.figure(paper_points.plot(table, "faithfulness (a correlation)"))


if __name__ == "__main__":
    main()
