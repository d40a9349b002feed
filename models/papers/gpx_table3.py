"""Table 3 of Yoshikawa and Iwata: stability of explanations, equation 19.

The largest change of standardised weights between a test row and its neighbours, per distance in z.
Neighbours are test rows with |x' - x| / m < .05. In standardised inputs no test row of Diabetes has
one, so that the printed setting cannot have given the printed number; the table has it in
standardised inputs, in inputs between 0 and 1 (min-max), and over all other rows, each with the
share of rows that have a neighbour.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import gpx_cells
import papers
from gpx_scores import INPUTS

METHODS = ("GPX", "LIME", "SHAP", "KL", "Localized", "Network")


def main(arguments=None):
    paper = papers.Paper("gpx_table3", __doc__, arguments, cells="gpx")
    cells = gpx_cells.compute(paper, METHODS)
    cells = cells[cells["method"].isin(METHODS)]
    metrics = [f"{what}_{own}" for own in INPUTS for what in ("stability", "neighbours")]
    paper.beside_published(papers.over_splits(cells, metrics), metric="stability")


if __name__ == "__main__":
    main()
