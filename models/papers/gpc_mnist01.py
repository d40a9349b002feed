"""Which pixels make an image a one? Sparse variational classifiers of handwritten zeros and ones.

After the second experiment of

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), Figures 4 (one latent function) and 5 (softmax of two),

with ten inducing points, as there, and with a hundred. The test images of MNIST are learnt from,
and images of its training set explained: integrated gradients of the probability from the black
image, each pixel's mean beside its standard deviation. There are 784 pixels and one probability, so
single pixels are uncertain where the whole is not. The paper draws the positive parts alone; here
blue pixels speak against. Variances of a variational posterior are too small rather than too large:
more inducing points show by how much.
"""

import sys
from pathlib import Path

import pandas as pd

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

EXPLAINED = [1, 9, 2, 3]
"""Positions of the paper's images among the zeros and ones of the training images."""

FEW, MANY = 10, 100


def main(arguments=None):
    run = script.Run("gpc_mnist01", __doc__, arguments, data="mnist01", method="svgp", draws=200)
    X, y = run.data.X / 255.0, run.data.y.map({0: "zero", 1: "one"})
    first = run.second("mnist01_first")
    shown = first.X.iloc[EXPLAINED] / 255.0
    held_out, truth = first.X / 255.0, first.y.map({0: "zero", 1: "one"})
    scores = []
    for likelihood in ("bernoulli", "categorical"):
        for m in (FEW, MANY):
            suffix = f"_{likelihood}_{m}"
            points = X.iloc[:FEW].values if m == FEW else m
            model = bx.GP(
                X,
                y,
                likelihood=likelihood,
                ard=False,
                scale=False,
                approximation=bx.Inducing(points),
            )
            print(f"\n{likelihood}, {m} inducing points")
            idata = run.fit(model, suffix=suffix)
            predicted = bx.predictions(model, idata, held_out, seed=run.seed)
            found = script.classified(predicted, truth)
            scores.append(found.assign(likelihood=likelihood, inducing=m))
            shares = bx.attributions(
                model, idata, shown, baseline="zero", draws=run.draws, seed=run.seed
            )
            if likelihood == "categorical":
                shares = shares.sel({"class": "zero"}, drop=True)
            run.figure(bx.plot_image(shares, (28, 28)), f"attributions{suffix}")
    table = pd.concat(scores, ignore_index=True)
    run.table(table, "scores")
    print(f"\nOn {len(truth)} training images of MNIST, which were held out:")
    wide = table.pivot(index=["likelihood", "inducing"], columns="score", values="value")
    print(wide.round(4).to_string())


if __name__ == "__main__":
    main()
