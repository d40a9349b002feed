"""The three pictures on the first page of the documentation: ``python docs/pictures.py``.

Diabetes data: 442 patients, ten measurements, and how far the disease went in a year.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import bayes_gpx as bx

FOLDER = Path(__file__).with_name("_static")
QUIET = {"seed": 1, "progressbar": False}


def main():
    """Fit once, and write the pictures."""
    mpl.use("agg")
    data = bx.datasets.load("diabetes")
    model = bx.GP(data.X, data.y)
    idata = model.fit("nuts", draws=500, tune=500, **QUIET)
    some = data.X.index[:: len(data.X) // 100]
    shares = bx.attributions(model, idata, obs=some, keep="summary", progressbar=False)
    swarm = bx.plot_beeswarm(shares, max_features=6)
    swarm.savefig(FOLDER / "first_attributions.png")

    rows = data.X.iloc[[0] * 40].reset_index(drop=True)
    rows["bmi"] = np.linspace(data.X["bmi"].min(), data.X["bmi"].max(), 40)
    slopes = bx.slopes(model, idata, rows, **QUIET)
    bx.plot_derivatives(slopes, features=["bmi"]).savefig(FOLDER / "first_slopes.png")

    ranked = bx.ranking(bx.relevance(model, idata, obs=some, num_draws=200, progressbar=False))
    bx.plot_relevance(ranked).savefig(FOLDER / "first_relevance.png")


if __name__ == "__main__":
    main()
