"""Table 2 of Yoshikawa and Iwata: faithfulness of explanations.

The mean over test rows of the correlation between the contributions of features and what the
prediction loses when each is put at its mean. Relevances of ARD and KL have no sign, and are
compared with the size of the loss. The paper has no row for texts, whose X does not follow from Z.
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
