"""Figure 4 of Seitz: explanations of four digits by one latent function and a logistic response.

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022).

The upper row shows attributions to the right class, the lower row to the wrong class. Brighter
pixels have larger mean attributions; each image has its own scale.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import papers
import seitz_mnist


def main(arguments=None):
    paper = papers.Paper("seitz_figure4", __doc__, arguments)
    found = seitz_mnist.explain(paper, "bernoulli")
    paper.table(found.table)
    paper.figure(seitz_mnist.plot(found))


if __name__ == "__main__":
    main()
