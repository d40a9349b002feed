"""How the prediction changes with each feature: weights of a GPX, slopes of a GP."""

from bayes_gpx.plots import plot_beeswarm, plot_dependence
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
    columns = ["feature", "mean weight", "least", "most", "surely above 0, %", "surely below 0, %"]
    yield Table(
        f"Weights over {len(mean)} rows, {found.attrs['units']}; sure at {prob:.0%}.", columns, rows
    )
    options = {"max_features": PANELS, "backend": "matplotlib", "col_wrap": 2}
    yield picture(plot_dependence(found, **options), "Each weight against its feature's value.")


def _contributions(findings):
    if findings.model.training.Z is None:
        return
    pc = plot_beeswarm(findings.contributed, backend="matplotlib")
    yield picture(pc, "What each feature adds to predictions; hollow points leave the sign open.")


def _slopes(findings):
    if findings.model.training.Z is not None:
        return
    found = findings.sloped
    if not findings.classes:
        yield _average_slopes(findings, found, "")
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
    if findings.model.training.Z is not None or findings.classes:
        return
    found = findings.sloped[["derivative_mean", "derivative_sd", "value"]]
    found.attrs = findings.sloped.attrs
    options = {"max_features": PANELS, "backend": "matplotlib", "col_wrap": 2}
    yield picture(plot_dependence(found, **options), "Each slope against its feature's value.")


SLOPES = Section(
    "slopes", "How do predictions change?", (_weights, _contributions, _slopes, _curves)
)
