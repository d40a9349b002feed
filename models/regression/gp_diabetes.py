"""How far will diabetes progress? Gaussian process regression with full uncertainty.

This is the plain Gaussian process with one lengthscale per feature, the model that is compared with
GPX in

    Y. Yoshikawa and T. Iwata, "Gaussian process regression with interpretable sample-wise
    feature weights", IEEE Transactions on Neural Networks and Learning Systems 34 (2023)
    5789-5803, Table 1,

with draws of its hyperparameters by NUTS. It is fitted to four of five patients. The script answers
three questions. Do intervals for the other patients have their nominal coverage? Do replicated data
resemble the observed data? Which features does the model use? A feature with a long lengthscale
matters little.
"""

import sys
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import xarray as xr
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script


def main(arguments=None):
    run = script.Run("gp_diabetes", __doc__, arguments, data="diabetes", method="nuts")
    X, X_test, y, y_test = train_test_split(run.data.X, run.data.y, test_size=0.2, random_state=0)

    model = bx.GP(X, y)
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, seed=run.seed)
    run.score(predicted, y_test)
    run.figure(script.plot_predictions(predicted, y_test), "predictions")
    covered = {"model": bx.metrics.coverage(predicted, y_test, script.LEVELS)}
    run.figure(script.plot_coverage(covered, len(y_test), "patients"), "calibration")

    run.figure(plot_lengthscales(idata["posterior"]["lengthscale"]), "lengthscales")

    replicated = bx.predictions(model, idata, seed=run.seed)
    checked = xr.DataTree.from_dict(
        {
            "posterior_predictive": replicated[["y"]],
            "observed_data": idata["observed_data"].to_dataset(),
        }
    )
    plot = az.plot_ppc_dist(checked, num_samples=50, visuals={"title": False})
    plot.add_title("Progression: observed (black),\nand 50 sets made by the model")
    run.figure(plot, "posterior_predictive")


def plot_lengthscales(draws):
    """Plot the lengthscale of each feature with its interval, on a logarithmic axis."""
    low, high = script.intervals(draws)
    middle = draws.median(("chain", "draw")).values
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    features = draws["feature"].values
    axes.hlines(features, low, high)
    axes.plot(middle, features, "o")
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100], [1, 2, 5, 10, 20, 50, 100])
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.set_xlabel("lengthscale [sd of the feature]")
    axes.set_title(f"Lengthscales: median and {script.LEVEL:.0%} interval")
    return figure


if __name__ == "__main__":
    main()
