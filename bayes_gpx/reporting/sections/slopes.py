"""How the prediction changes with each feature: weights of a GPX, slopes of a GP."""

import pandas as pd

from bayes_gpx.data.training import INTERCEPT
from bayes_gpx.plots import plot_beeswarm, plot_dependence, plot_map, plot_partial_dependence
from bayes_gpx.reporting.page import Section, Table, picture

PANELS = 6
"""Most features in a figure, each in a panel of its own."""


def _weights(findings):
    if findings.model.training.Z is None:
        return
    found, prob = findings.weighed, findings.prob
    low, high = found["weight"].quantile(findings.tails, ["chain", "draw"]).values
    mean = found["weight_mean"].values
    rows = [
        [
            str(name),
            float(mean[:, i].mean()),
            float(mean[:, i].min()),
            float(mean[:, i].max()),
            100 * float((low[:, i] > 0).mean()),
            100 * float((high[:, i] < 0).mean()),
        ]
        for i, name in enumerate(found["feature"].values)
    ]
    columns = [
        "feature",
        "mean weight",
        "minimum",
        "maximum",
        "above 0, % of rows",
        "below 0, % of rows",
    ]
    yield Table(
        f"Weights over {len(mean)} rows, {found.attrs['units']}. A row counts as above or below 0 "
        f"if its whole {prob:.0%} interval is.",
        columns,
        rows,
    )
    names = [name for name in found["feature"].values if name != INTERCEPT][:PANELS]
    options = {"features": names, "backend": "matplotlib", "col_wrap": 2}
    yield picture(plot_dependence(found, **options), "Each weight against its feature's value.")


def _maps(findings):
    """Weights over two columns of places, with their sds."""
    training = findings.model.training
    if training.Z is None or training.tied or training.X.levels or training.d != 2:
        return
    places = pd.DataFrame(
        findings.where.X_values, findings.where.index, list(training.X.columns)
    ).loc[findings.some]
    pc = plot_map(findings.weighed_smooth, places, backend="matplotlib")
    yield picture(pc, "Weight functions at their places, without each row's own deviation.")


def _contributions(findings):
    if findings.model.training.Z is None:
        return
    pc = plot_beeswarm(findings.contributed, backend="matplotlib")
    yield picture(
        pc,
        "What each feature adds to the predictions. Hollow points have intervals that include 0.",
    )


def _slopes(findings):
    if findings.model.training.Z is not None or not findings.numbers:
        return
    found = findings.sloped
    if not findings.classes:
        second = findings.second
        yield _average_slopes(findings, found, f" of label {second}" if second else "")
        return
    for label in found["class"].values:
        yield _average_slopes(findings, found.sel({"class": label}), f" of label {label}")


def _average_slopes(findings, found, whose):
    tails = found["average_slope"].quantile(findings.tails, ["chain", "draw"])
    rows = []
    for i, name in enumerate(found["feature"].values):
        row = [str(name), float(found["average_slope_mean"][i]), *map(float, tails.values[:, i])]
        rows.append([*row, 100 * float(found["probability_positive"][i])])
    return Table(
        f"Average slopes{whose} over {found.sizes['obs']} rows, {found.attrs['units']}.",
        ["feature", "mean", "from", "to", "P(above 0), %"],
        rows,
    )


def _curves(findings):
    if findings.model.training.Z is not None or findings.classes or not findings.numbers:
        return
    kept = ["derivative_mean", "derivative_sd", "value"]
    kept += ["derivative_interval"] if "derivative_interval" in findings.sloped else []
    found = findings.sloped[kept]
    found.attrs = findings.sloped.attrs
    options = {"max_features": PANELS, "backend": "matplotlib", "col_wrap": 2}
    yield picture(
        plot_dependence(found, **options),
        f"Each slope against the value of its feature.{findings.of_second}",
    )


def _levels(findings):
    if not findings.model.training.X.levels or findings.classes:
        return
    pc = plot_partial_dependence(findings.by_level, backend="matplotlib", col_wrap=2)
    yield picture(
        pc,
        "The prediction at each level of a categorical feature, all other features as observed."
        + findings.of_second,
    )


SLOPES = Section(
    "slopes",
    "How do predictions change?",
    (_weights, _maps, _contributions, _slopes, _curves, _levels),
)
