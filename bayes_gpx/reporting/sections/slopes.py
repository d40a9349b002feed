"""How the prediction changes with each feature: weights of a GPX, slopes of a GP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.data.features import INTERCEPT
from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.draws.naming import of_mean, of_processes
from bayes_gpx.explain.partial_dependence import FEW_VALUES
from bayes_gpx.explain.weights import deviation_sds
from bayes_gpx.plots import (
    plot_beeswarm,
    plot_components,
    plot_dependence,
    plot_map,
    plot_partial_dependence,
)
from bayes_gpx.plots.selection import covers_zero
from bayes_gpx.reporting.page import Part, Prose, Section, Table, picture

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


PANELS = 6
"""Most features in a figure, with a panel each."""

MOST_DRIVEN = 3
"""Most weights that are explained, and most features of X that are named for each."""


def _by_label(found: xr.Dataset) -> Iterator[tuple[str, xr.Dataset]]:
    """The Dataset, or the Dataset of each class, with a label in words."""
    if "class" not in found.dims:
        yield "", found
        return
    kind = "the" if of_processes(found) else "label"
    for label in found["class"].values:
        yield f" of {kind} {label}", found.sel({"class": label})


def _weights(findings: Findings) -> Iterator[Part]:
    if findings.model.training.Z is None:
        return
    for whose, found in _by_label(findings.weighed):
        yield _weights_over_rows(findings, found, whose)
        if findings.model.training.Z.levels:
            yield Prose(
                "The weights of the levels of one category are known only up to a shift that all "
                "of them share, so each alone is uncertain. Contributions do not depend on it.",
                "note",
            )
        names = [name for name in found["feature"].values if name != INTERCEPT][:PANELS]
        options: dict[str, Any] = {"features": names, "backend": "matplotlib", "col_wrap": 2}
        yield picture(
            plot_dependence(found, **options),
            f"Each weight{whose} against its feature's value, without the observations' own "
            "deviations.",
        )


def _weights_over_rows(findings: Findings, found: xr.Dataset, whose: str) -> Table:
    ends = interval_of(found, "weight", findings.prob).transpose("ci_bound", "obs", "feature")
    (low, high), mean = ends.values, found["weight_mean"].values
    own = deviation_sds(findings.model, findings.idata).sel(feature=found["feature"]).values
    rows = [
        [
            str(name),
            float(mean[:, i].mean()),
            float(mean[:, i].min()),
            float(mean[:, i].max()),
            100 * float((low[:, i] > 0).mean()),
            100 * float((high[:, i] < 0).mean()),
            float(own[i]),
        ]
        for i, name in enumerate(found["feature"].values)
    ]
    columns = [
        "least",
        "most",
        "above 0, % of observations",
        "below 0, % of observations",
        "sd of deviations",
    ]
    return Table(
        f"Weight functions{whose} at {len(mean)} observations, {found.attrs['units']}. An "
        f"observation counts as above or below 0 if its whole {findings.prob:.0%} interval is. "
        "The weights of each observation deviate from these functions by the sd in the last "
        "column.",
        ["feature", "mean weight", *columns],
        rows,
    )


def _drivers(findings: Findings) -> Iterator[Part]:
    """Features of X that make the largest weights vary, in a table and on a map."""
    training = findings.model.training
    if training.Z is None:
        return
    spread = findings.weighed["weight_mean"].std("obs")
    spread = spread.max("class") if "class" in spread.dims else spread
    scale = dict(zip(training.Z.columns, training.Z_scaling.scale, strict=True))
    names = spread["feature"].values
    order = np.argsort([-spread.sel(feature=name).item() * scale[name] for name in names])
    each = [_by_label(findings.driven(str(name))) for name in names[order[:MOST_DRIVEN]]]
    places = _places(findings)
    for of_label in zip(*each, strict=True):
        whose, first = of_label[0]
        yield Table(
            f"Which features make the largest weights{whose} vary? Attributions of each weight "
            "function, relative to its value at the baseline, in the units of the weight.",
            [
                "weight",
                "feature",
                "mean absolute attribution",
                "interval excludes 0, % of observations",
            ],
            [row for _, found in of_label for row in _largest(found, findings.prob)],
        )
        if places is not None:
            about = f"What makes the weight of {first.attrs['weight']}{whose} vary over the map."
            yield picture(plot_map(first, places, backend="matplotlib"), about)


def _largest(driven: xr.Dataset, prob: float) -> list[list]:
    """Rows of a table: the features with the largest attributions of a weight."""
    name, features = driven.attrs["weight"], driven["feature"].values
    mean = abs(driven["attribution_mean"]).mean("obs").values
    sure = ~covers_zero(interval_of(driven, "attribution", prob)).transpose("feature", "obs").values
    return [
        [name, str(features[i]), float(mean[i]), 100 * float(sure[i].mean())]
        for i in np.argsort(-mean, kind="stable")[:MOST_DRIVEN]
    ]


def _places(findings: Findings) -> pd.DataFrame | None:
    """Where some rows are, if the two columns of X can be a map of weights."""
    training = findings.model.training
    if training.Z is None or training.tied or training.X.levels or training.d != 2:
        return None
    where = findings.where
    return pd.DataFrame(where.X_values, where.index, list(training.X.columns)).loc[findings.some]


def _maps(findings: Findings) -> Iterator[Part]:
    """Weights over two columns of places, with their sds."""
    places = _places(findings)
    if places is None:
        return
    for whose, found in _by_label(findings.weighed):
        pc = plot_map(found, places, backend="matplotlib")
        yield picture(
            pc, f"Weights{whose} at their places, without each observation's own deviation."
        )


def _contributions(findings: Findings) -> Iterator[Part]:
    if findings.model.training.Z is None:
        return
    for whose, found in _by_label(findings.contributed):
        pc = plot_beeswarm(found, backend="matplotlib")
        yield picture(pc, f"Contributions{whose}. Hollow points have intervals that include 0.")


def _slopes(findings: Findings) -> Iterator[Part]:
    if findings.model.training.Z is not None or not findings.numbers:
        return
    second = findings.second
    for whose, found in _by_label(findings.sloped):
        whose = f" of label {second}" if second else whose
        yield _average_slopes(findings, found, whose)


def _average_slopes(findings: Findings, found: xr.Dataset, whose: str) -> Table:
    tails = interval_of(found, "average_slope", findings.prob).transpose("ci_bound", "feature")
    rows = []
    for i, name in enumerate(found["feature"].values):
        row = [str(name), float(found["average_slope_mean"][i]), *map(float, tails.values[:, i])]
        rows.append([*row, 100 * float(found["probability_positive"][i])])
    return Table(
        f"Average slopes{whose} over {found.sizes['obs']} observations, {found.attrs['units']}.",
        ["feature", "mean", "from", "to", "P(above 0), %"],
        rows,
    )


def _curves(findings: Findings) -> Iterator[Part]:
    if findings.model.training.Z is not None or findings.classes or not findings.numbers:
        return
    kept = ["derivative_mean", "derivative_sd", "value"]
    kept += ["derivative_interval"] if "derivative_interval" in findings.sloped else []
    whole, whose = of_mean(findings.sloped), " of the mean" * of_processes(findings.sloped)
    X, names = findings.model.training.X, whole["feature"].values
    values = (X.values[:, X.columns.index(name)] for name in names)
    many = [len(np.unique(own)) > FEW_VALUES for own in values]
    if not any(many):
        return
    found = whole[kept].isel(feature=np.flatnonzero(many))
    found.attrs = whole.attrs
    options: dict[str, Any] = {"max_features": PANELS, "backend": "matplotlib", "col_wrap": 2}
    others = "" if all(many) else f", of features with more than {FEW_VALUES} values"
    yield picture(
        plot_dependence(found, **options),
        f"Each slope{whose} against the value of its feature{others}.{findings.of_second}",
    )


def _components(findings: Findings) -> Iterator[Part]:
    if not findings.summed:
        return
    for whose, found in _by_label(findings.components):
        pc = plot_components(found, backend="matplotlib", col_wrap=2)
        yield picture(pc, f"The parts of f{whose} that belong to each summand of the kernel.")
        yield Table(
            f"Components{whose} over {found.sizes['obs']} observations, {found.attrs['units']}. "
            "Shares of the variance of f add up to 100 %; one is negative where a component works "
            "against the others.",
            ["component", "share of variance, %", "mean sd"],
            [
                [str(name), 100 * float(share), float(sd)]
                for name, share, sd in zip(
                    found["component"].values,
                    found["share"].values,
                    found["component_sd"].mean("obs").values,
                    strict=True,
                )
            ],
        )


def _dependence(findings: Findings) -> Iterator[Part]:
    try:
        curves = findings.curves
    except ValueError as refused:  # by kernels and groups without random functions
        yield Prose(f"Partial dependence is not shown. {refused}", "note")
        return
    few = len(curves["feature"]) < len(findings.model.training.X.sources)
    which = "the most relevant features" if few else "each feature"
    for whose, found in _by_label(curves):
        pc = plot_partial_dependence(found, backend="matplotlib", col_wrap=2)
        yield picture(
            pc,
            f"Average prediction{whose} along {which}, all other features as observed. Gray: the "
            f"same for single observations.{findings.of_second}",
        )


SLOPES = Section(
    "slopes",
    "How do predictions change?",
    (_weights, _maps, _drivers, _contributions, _dependence, _slopes, _curves, _components),
)
