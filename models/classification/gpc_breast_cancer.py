"""Is this tumor malignant, and which features indicate it? Gaussian process classification by NUTS.

The data are thirty features of nuclei of breast tumors. NUTS samples the hyperparameters from their
posterior under Laplace's approximation. Each draw gives the probability of a diagnosis and its
attributions to the features. Classifiers were explained by derivatives and integrated gradients of
the probability in

    S. Seitz, "Gradient-based explanations for Gaussian process regression and classification
    models" (2022), section 3.

The paper expands the probability around the mean function; this script uses random functions, so
explanations have their whole distribution. It answers two more questions. Are the probabilities
calibrated (figure `calibration`, isotonic regression of held-out diagnoses)? Why does the model
misclassify the patient with the worst prediction (figure `misclassified`)?
"""

import sys
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

SHOWN = 12
"""Number of features in a figure, largest attributions first."""


def main(arguments=None):
    run = script.Run("gpc_breast_cancer", __doc__, arguments, data="breast_cancer", method="nuts")
    X, X_test, y, y_test = train_test_split(
        run.data.X, run.data.y, test_size=0.2, random_state=0, stratify=run.data.y
    )
    model = bx.GP(X, y, likelihood="bernoulli", ard=False)
    idata = run.fit(model)

    predicted = bx.predictions(model, idata, X_test, seed=run.seed)
    labels = predicted.attrs["labels"]
    second = (y_test == labels[1]).values
    scores = score(predicted["probability_mean"].values, second)
    print(f"\nOn {len(y_test)} held-out tumours:\n{scores.round(4).to_string()}")
    run.table(scores.rename_axis("score").reset_index(name="value"), "scores")
    size = {"figsize": (6, 5), "figsize_units": "inches"}
    checked = held_out(predicted["y"], second)
    plot = az.plot_ppc_pava(checked, visuals={"title": False}, figure_kwargs=size)
    plot.add_title(f"Held-out tumours: how often {labels[1]},\nby the model's probability")
    run.figure(plot, "calibration")

    worst = most_wrong(predicted["probability_mean"], second)
    found = bx.attributions(model, idata, X_test.loc[[worst]], num_draws=1000, seed=run.seed)
    table = script.attribution_table(found, probability_of=labels[1], observed=y_test[worst])
    run.table(table, "misclassified")
    probability = float(predicted["probability_mean"].sel(obs=worst))
    run.figure(plot_patient(table, X, X_test.loc[worst], probability), "misclassified")


def score(probability, second):
    """Compute accuracy, mean log predictive density and Brier score."""
    right = np.where(second, probability, 1 - probability)
    return pd.Series(
        {
            "accuracy": (right > 0.5).mean(),
            "log_predictive_density": np.log(right).mean(),
            "brier": np.mean((1 - right) ** 2),
        }
    )


def held_out(drawn, second):
    """Combine drawn and observed classes in a DataTree for ArviZ."""
    return xr.DataTree.from_dict(
        {
            "posterior_predictive": drawn.astype(int).to_dataset(name="y"),
            "observed_data": drawn["obs"].copy(data=second.astype(int)).to_dataset(name="y"),
        }
    )


def most_wrong(probability, second):
    """Return the row with the lowest predicted probability of its own class."""
    right = np.where(second, probability.values, 1 - probability.values)
    return probability["obs"].values[right.argmin()]


def plot_patient(table, X, patient, probability):
    """Plot the attributions of one patient, largest first, with feature values in sd."""
    largest = table.loc[table["mean"].abs().nlargest(SHOWN).index]
    place = (patient - X.mean()) / X.std()
    names = [f"{feature} ({place[feature]:+.1f} sd)" for feature in largest["feature"]]
    figure, axes = plt.subplots(figsize=(8, 6), layout="constrained")
    axes.hlines(names, largest["low"], largest["high"])
    axes.plot(largest["mean"], names, "o")
    axes.axvline(0, color="gray", linewidth=1)
    axes.invert_yaxis()
    label, observed = largest["probability_of"].iloc[0], largest["observed"].iloc[0]
    axes.set_xlabel(f"attribution to P({label}): mean, {script.LEVEL:.0%} interval")
    figure.suptitle(f"A {observed} tumour, P({label}) = {probability:.2f}")
    return figure


if __name__ == "__main__":
    main()
