"""Which measurements distinguish three species of iris? Exact multiclass classification.

NUTS samples the hyperparameters and the latent values of all three classes jointly, so no
approximation is needed. The script explains probabilities for every draw: the attribution of each
species' probability to each measurement, relative to the mean flower. Over the species,
attributions add up to 0.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script


def main(arguments=None):
    run = script.Run("gpc_iris", __doc__, arguments, data="iris", method="nuts")
    X, X_test, y, y_test = train_test_split(
        run.data.X, run.data.y, test_size=0.2, random_state=0, stratify=run.data.y
    )
    model = bx.GP(X, y, likelihood="categorical", ard=False)
    idata = run.fit(model, latent="sample" if run.method == "nuts" else "marginal")

    predicted = bx.predictions(model, idata, X_test, seed=run.seed)
    scores = script.classified(predicted, y_test)
    run.table(scores, "scores")
    print(f"\nOn {len(y_test)} held-out flowers:\n{scores.round(4).to_string(index=False)}")

    closest = predicted["probability_mean"].max("class").idxmin("obs").item()
    found = bx.attributions(model, idata, X_test.loc[[closest]], num_draws=400, seed=run.seed)
    table = pd.concat(
        script.attribution_table(found.sel({"class": label}, drop=True), species=label)
        for label in found["class"].values
    )
    run.table(table, "closest")
    figure, panel = plt.subplots(figsize=(8, 4.5), layout="constrained")
    script.draw_intervals(panel, table, "species")
    panel.legend(title="probability of")
    panel.set_xlabel(f"attribution from the average flower: mean and {script.LEVEL:.0%} interval")
    given = predicted["probability_mean"].sel(obs=closest).to_series().round(2).to_dict()
    panel.set_title(f"The hardest flower, {y_test[closest]}: {given}", fontsize=10)
    run.figure(figure, "closest")


if __name__ == "__main__":
    main()
