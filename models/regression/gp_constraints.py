"""How much is a constraint worth? Diabetes progression from 30 patients, with and without it.

The data are from

    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, "Least angle regression", Annals of
    Statistics 32 (2004) 407-499.

A physician knows before any data that the disease does not progress more slowly with a higher body
mass index, blood pressure or level of triglycerides. Two Gaussian processes are fitted to 30
patients, one with this knowledge and one without, and predict all other patients. How do errors,
intervals and slopes differ? Part of the difference is the effect of the constraints on the
hyperparameters.

The script then repeats the comparison with classes, which carry less information than numbers: does
the disease progress faster than in half of all patients? It fits models to several samples of 30
patients, without and with constraints. How probable are the classes of all other patients?
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

ROWS, SPLITS = 30, 20
FEATURES = ["bmi", "blood_pressure", "log_triglycerides"]


def main(arguments=None):
    run = script.Run(
        "gp_constraints", __doc__, arguments, data="diabetes", method="laplace", draws=200
    )
    split = train_test_split(
        run.data.X[FEATURES], run.data.y, train_size=ROWS, random_state=run.seed
    )
    X, X_test, y, y_test = split
    constraints = {"without": [], "with constraints": [*map(bx.constraints.Increasing, FEATURES)]}
    scores, slopes = [], {}
    for name, known in constraints.items():
        model = bx.GP(X, y, constraints=known)
        idata = run.fit(model, suffix="_constraints" if known else "")
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
    table = pd.DataFrame(scores)
    run.table(table, "scores")
    print(f"\nOn {len(y_test)} patients who were not learnt from:")
    print(table.round(2).to_string(index=False))
    run.figure(plot_slopes(slopes), "slopes")
    labels = scores_of_labels(run, constraints)
    run.table(labels, "labels")
    gain = labels.pivot(index="seed", columns="model", values="log_density")
    gain = gain["with constraints"] - gain["without"]
    print(f"\nLabels of all others, learnt from {ROWS} patients, means of {SPLITS} samples:")
    print(labels.groupby("model", sort=False).mean().drop(columns="seed").round(3).to_string())
    print(
        f"Constraints add {gain.mean():.3f} to the log density of a label, standard error "
        f"{gain.sem():.3f}, and more than nothing in {(gain > 0).sum()} of {SPLITS} samples."
    )


def scores_of_labels(run, constraints):
    """Compute log density and accuracy of held-out classes, by sample."""
    X = run.data.X[FEATURES]
    fast = np.where(run.data.y > run.data.y.median(), "faster", "slower")
    y, scores = pd.Series(fast, X.index, name="progression"), []
    for seed in range(run.seed, run.seed + SPLITS):
        split = train_test_split(X, y, train_size=ROWS, stratify=y, random_state=seed)
        own, others, label, truth = split
        for name, known in constraints.items():
            # The second label is "slower", so a faster disease means a lower probability.
            opposite = [bx.constraints.Decreasing(constraint.feature) for constraint in known]
            model = bx.GP(own, label, likelihood="bernoulli", link="probit", constraints=opposite)
            idata = model.fit("map", progressbar=False)
            options = {"keep": "summary", "seed": seed, "progressbar": False}
            slower = bx.predictions(model, idata, others, **options)["probability_mean"].values
            probability = np.where(truth == "slower", slower, 1.0 - slower)
            score = {
                "log_density": np.log(probability).mean(),
                "accuracy": np.mean(probability > 0.5),
            }
            scores.append({"seed": seed, "model": name, **score})
    return pd.DataFrame(scores)


def plot_slopes(slopes):
    """Plot each patient's slope against the feature, with and without constraints."""
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
