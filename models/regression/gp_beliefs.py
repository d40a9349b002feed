"""What is a belief worth? Diabetes progression from 30 patients, with and without knowledge.

The data are those of

    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, "Least angle regression", Annals of
    Statistics 32 (2004) 407-499.

A physician knows, before any data, that the disease does not progress more slowly with a higher
body mass index, blood pressure or level of triglycerides. Two Gaussian processes learn from 30
patients, one of them with this knowledge, and predict all others. How do errors, intervals and
slopes differ? The pull of beliefs on hyperparameters is part of the difference.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import bayes_gpx as bx

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared"))
import script

ROWS = 30
FEATURES = ["bmi", "blood_pressure", "log_triglycerides"]


def main(arguments=None):
    run = script.Run("gp_beliefs", __doc__, arguments, data="diabetes", method="laplace", draws=200)
    split = train_test_split(
        run.data.X[FEATURES], run.data.y, train_size=ROWS, random_state=run.seed
    )
    X, X_test, y, y_test = split
    beliefs = {"without": [], "with beliefs": [*map(bx.beliefs.Increasing, FEATURES)]}
    scores, slopes = [], {}
    for name, known in beliefs.items():
        model = bx.GP(X, y, beliefs=known)
        idata = run.fit(model, suffix="_beliefs" if known else "")
        options = {"keep": "summary", "seed": run.seed, "progressbar": False}
        predicted = bx.predictions(model, idata, X_test, ci_prob=script.LEVEL, **options)
        slopes[name] = bx.derivatives(model, idata, X, ci_prob=script.LEVEL, **options)
        low, high = predicted["y_interval"].values.T
        error = predicted["y_mean"].values - y_test.values
        scores.append(
            {
                "model": name,
                "rmse": np.sqrt(np.mean(error**2)),
                "coverage_90": np.mean((low <= y_test) & (y_test <= high)),
                "width_90": np.mean(high - low),
                "f_sd": float(predicted["f_sd"].mean()),
            }
        )
    scores = pd.DataFrame(scores)
    run.table(scores, "scores")
    print(f"\nOn {len(y_test)} patients who were not learnt from:")
    print(scores.round(2).to_string(index=False))
    run.figure(plot_slopes(slopes), "slopes")


def plot_slopes(slopes):
    """Slope at each patient against the feature, with intervals, without and with beliefs."""
    figure, panels = plt.subplots(1, len(FEATURES), figsize=(12, 4), layout="constrained")
    for panel, feature in zip(panels, FEATURES, strict=True):
        for k, (name, found) in enumerate(slopes.items()):
            own = found.sel(feature=feature).sortby(found["value"].sel(feature=feature))
            low, high = own["derivative_interval"].values.T
            panel.fill_between(own["value"], low, high, color=f"C{k}", alpha=0.2)
            panel.plot(own["value"], own["derivative_mean"], "o-", color=f"C{k}", label=name)
        panel.axhline(0.0, color="gray", linewidth=1)
        panel.set(xlabel=feature, ylabel="slope of progression")
    panels[0].legend()
    figure.suptitle(f"Slopes at {ROWS} patients, with {script.LEVEL:.0%} intervals")
    return figure


if __name__ == "__main__":
    main()
