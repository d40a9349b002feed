"""The answer first: how well the model predicts, and its strongest effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.draws.naming import of_mean
from bayes_gpx.explain.comparisons import switched
from bayes_gpx.reporting.page import Part, Points, Prose, Section, change, number
from bayes_gpx.reporting.sections.checks import shares_of

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


STRONGEST = 3
"""Effects in the summary."""

LEAST_SPARE = 1e-6
"""Leverage below 1 by at least this; a row with less decides the linear model alone."""


def _error(findings: Findings) -> Iterator[Part]:
    """Error of left-out or held-out rows, next to a linear model and the mean."""
    training = findings.model.training
    if not training.stored:
        return
    if findings.y_new is None and training.censored:
        yield Prose(_censored(findings))
        return
    if findings.y_new is None:
        observed, found, rows = training.y, findings.left_out, "left-out"
    else:
        observed, found, rows = findings.y_new, findings.held_out, "held-out"
    if training.labels is not None:
        yield Prose(_classified(training, observed.astype(int), found, rows))
        return
    mean, linear = _rivals(findings)
    findings.facts["predicted_by_mean"], findings.facts["predicted_linearly"] = mean, linear
    error = np.sqrt(np.mean((observed - found[f"{findings.mean_name}_mean"].values) ** 2))
    share = 1 - error**2 / np.mean((observed - mean) ** 2)
    own = "other" if findings.y_new is None else "training"
    others = (
        f"The mean of the {own} observations has {number(np.sqrt(np.mean((observed - mean) ** 2)))}"
    )
    if linear is not None:
        others = (
            f"A linear regression has {number(np.sqrt(np.mean((observed - linear) ** 2)))}, and "
            f"{others[0].lower()}{others[1:]}"
        )
    unit = findings.units.get(training.y_name, "")
    yield Prose(
        f"The model predicts {rows} observations with a root mean squared error of {number(error)}"
        f"{f' {unit}' if unit else ''} (R² {share:.2f}). {others}."
    )


def _censored(findings: Findings) -> str:
    training, elpd = findings.model.training, float(findings.left_out["elpd"].sum())
    return (
        f"{training.censored} of {training.n} responses are censored, so the model is scored by "
        f"what it says of each observation from the others: the log score is {number(elpd)} in all."
    )


def _classified(training: TrainingData, code: np.ndarray, found: xr.Dataset, rows: str) -> str:
    right = (shares_of(found).argmax(axis=1) == code).mean()
    most = np.bincount(training.y.astype(int))
    return (
        f"The model gives the observed label the highest probability in {right:.0%} of the {rows} "
        "observations. The most frequent label alone is right in "
        f"{(code == most.argmax()).mean():.0%}."
    )


def _rivals(findings: Findings) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions by the mean and by least squares; no linear ones where rows decide them alone."""
    # Left-out rows have closed forms: y_i - e_i / (1 - h_i), with residuals e and leverages h.
    training = findings.model.training
    columns = [training.X.values] + ([findings.frame.values] if findings.by_place else [])
    design = np.column_stack([np.ones(training.n), *columns])
    center, spread, y = design[:, 1:].mean(axis=0), design[:, 1:].std(axis=0), training.y
    spread[spread == 0.0] = 1.0
    # In units of its sd, no column is lost beside one with large numbers, such as a population.
    design[:, 1:] = (design[:, 1:] - center) / spread
    basis, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = basis[:, sizes > LEAST_SPARE * sizes[0]]
    spare = 1 - (basis**2).sum(axis=1)
    determined = spare.min() > LEAST_SPARE
    if findings.y_new is None:
        mean = (y.sum() - y) / (training.n - 1)
        residual = y - basis @ (basis.T @ y)
        return mean, y - residual / spare if determined else None
    where = findings.where
    new = [where.X_values]
    if findings.by_place and where.Z_values is not None:
        new.append(where.Z_values)
    slopes, *_ = np.linalg.lstsq(design, y, rcond=LEAST_SPARE)
    new_design = np.column_stack([np.ones(len(new[0])), (np.column_stack(new) - center) / spread])
    return np.full(len(new[0]), y.mean()), new_design @ slopes if determined else None


def _effects(findings: Findings) -> Iterator[Part]:
    """The largest average changes of the prediction, by one sd or from level to level."""
    if findings.classes or findings.by_place:
        return
    changes = [*_by_sd(findings), *_by_level(findings)]
    changes.sort(key=lambda found: -abs(found[1]))
    sentences = [f"{name}: {change(*found)}." for name, *found in changes[:STRONGEST]]
    if sentences:
        name = findings.model.training.y_name
        used = findings.sloped.sizes["obs"] if _stepped(findings) else len(findings.some)
        known = len(findings.where.index)
        count = f"{used} observations" if used == known else f"{used} of {known} observations"
        of = f"{name}{findings.unit(name)}"
        of = f"the probability of {findings.second}" if findings.second else of
        if (event := findings.model.specification.event) is not None:
            of = f"the {event.response_units.format(y=name)}"
        yield Points(
            f"Strongest effects on {of}, on average over {count}, with "
            f"{findings.prob:.0%} intervals",
            sentences,
        )


def _stepped(findings: Findings) -> list[str]:
    """Columns of numbers with more than two values."""
    others = switched(findings.model.training)
    return [name for name in findings.numbers if name not in others]


def _by_sd(findings: Findings) -> Iterator[tuple[str, float, float, float]]:
    training, names = findings.model.training, _stepped(findings)
    if not names:
        return
    found = of_mean(findings.sloped.sel(feature=names))
    ends = interval_of(found, "average_slope", findings.prob)
    columns = list(training.X.columns)
    for name in found["feature"].values:
        spread = float(training.moments.sd[columns.index(name)])
        low, high = spread * ends.sel(feature=name).transpose("ci_bound", ...).values
        mean = spread * float(found["average_slope_mean"].sel(feature=name))
        unit = "days" if name in training.X.origins else findings.units.get(name, "")
        amount = f"{number(spread, 2)}{f' {unit}' if unit else ''}"
        yield f"{name} higher by {amount} (one sd)", mean, low, high


def _by_level(findings: Findings) -> Iterator[tuple[str, float, float, float]]:
    if not switched(findings.model.training):
        return
    found = of_mean(findings.compared_levels)
    for _, own in found.groupby("variable"):  # one effect of each feature, its largest
        one = own.isel(contrast=int(np.abs(own["comparison_mean"].values).argmax()))
        low, high = one["comparison_interval"].values
        yield one["contrast"].item(), float(one["comparison_mean"]), float(low), float(high)


def _read_on(findings: Findings) -> Iterator[Part]:
    yield Prose(
        "An effect describes the fitted model, not what happens if somebody changes the feature. "
        "Read the cautions below before you use the numbers.",
        "note",
    )


SUMMARY = Section("summary", "The answer in short", (_error, _effects, _read_on))
