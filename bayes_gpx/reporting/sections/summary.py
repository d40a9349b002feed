"""The answer first: how well the model predicts, and its strongest effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.naming import of_mean, of_processes
from bayes_gpx.explain.comparisons import switched
from bayes_gpx.likelihoods.quantiles import AsymmetricLaplace
from bayes_gpx.reporting.page import Part, Points, Prose, Section, change, number
from bayes_gpx.reporting.sections.checks import shares_of

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model
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
    observation = findings.model.specification.observation
    if isinstance(observation, AsymmetricLaplace):
        yield Prose(_of_quantile(findings, observation.level))
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
    of = "rate " if np.ptp(_exposure(findings.model)) else ""
    others = (
        f"The mean {of}of the {own} observations has "
        f"{number(np.sqrt(np.mean((observed - mean) ** 2)))}"
    )
    if linear is not None:
        levels = "" if training.groups is None else " with a level for each group"
        others = (
            f"A linear regression{levels} has "
            f"{number(np.sqrt(np.mean((observed - linear) ** 2)))}, and "
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


def _of_quantile(findings: Findings, level: float) -> str:
    """How many observations lie below the quantile that others, or the training rows, tell."""
    if findings.y_new is None:
        below, rows = findings.left_out["pit"].values < level, "left-out"
    else:
        below, rows = findings.y_new < findings.held_out["f_mean"].values, "held-out"
    share = f"{below.mean():.0%} of the {rows} observations"
    return f"The model is of the {level:g} quantile: {share} lie below it."


def _classified(training: TrainingData, code: np.ndarray, found: xr.Dataset, rows: str) -> str:
    right = (shares_of(found).argmax(axis=1) == code).mean()
    most = np.bincount(training.y.astype(int))
    return (
        f"The model gives the observed label the highest probability in {right:.0%} of the {rows} "
        "observations. The most frequent label alone is right in "
        f"{(code == most.argmax()).mean():.0%}."
    )


def _exposure(model: Model) -> np.ndarray:
    """Exposures or trials of the training rows, 1 for other responses, (n,)."""
    given = model.training.exposure
    return np.ones(model.training.n) if given is None or model.specification.normal else given


def _rivals(findings: Findings) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions by the mean and by least squares; no linear ones where rows decide them alone."""
    # Both are of the rate of counts and successes, for each unit of exposure or trial; new rows
    # have neither. Left-out rows have closed forms: y_i - e_i / (1 - h_i), with residuals e and
    # leverages h.
    model, training = findings.model, findings.model.training
    columns = [training.X.values] + ([findings.frame.values] if findings.by_place else [])
    codes = None if training.groups is None else np.unique(training.groups.codes)
    if codes is not None:
        columns.append(training.groups.codes[:, None] == codes)
    design = np.column_stack([np.ones(training.n), *columns])
    center, spread, y = design[:, 1:].mean(axis=0), design[:, 1:].std(axis=0), training.y
    spread[spread == 0.0] = 1.0
    # In units of its sd, no column is lost beside one with large numbers, such as a population.
    design[:, 1:] = (design[:, 1:] - center) / spread
    exposure = _exposure(model)
    root = np.sqrt(exposure)
    basis, sizes, _ = np.linalg.svd(root[:, None] * design, full_matrices=False)
    basis = basis[:, sizes > LEAST_SPARE * sizes[0]]
    spare = 1 - (basis**2).sum(axis=1)
    determined = spare.min() > LEAST_SPARE
    if findings.y_new is None:
        mean = exposure * (y.sum() - y) / (exposure.sum() - exposure)
        residual = y / root - basis @ (basis.T @ (y / root))
        return mean, y - root * residual / spare if determined else None
    where = findings.where
    new = [where.X_values]
    if findings.by_place and where.Z_values is not None:
        new.append(where.Z_values)
    if codes is not None:  # new groups have the average level
        own = where.inputs["group"][:, None] == codes
        new.append(np.where(own.any(axis=1, keepdims=True), own, center[-len(codes) :]))
    slopes, *_ = np.linalg.lstsq(design, y, rcond=LEAST_SPARE)
    new_design = np.column_stack([np.ones(len(new[0])), (np.column_stack(new) - center) / spread])
    return np.full(len(new[0]), y.mean()), new_design @ slopes if determined else None


def _effects(findings: Findings) -> Iterator[Part]:
    """The largest average changes of the prediction, by one sd or from level to level."""
    if findings.classes or findings.by_place:
        return
    changes = sorted(_changes(findings), key=lambda found: -abs(found[1]))
    sentences = [f"{name}: {change(*found)}." for name, *found in changes[:STRONGEST]]
    if sentences:
        name = findings.model.training.y_name
        used, known = len(findings.some), len(findings.where.index)
        count = f"{used} observations" if used == known else f"{used} of {known} observations"
        of, attrs = f"{name}{findings.unit(name)}", findings.contrasted.attrs
        if attrs.get("scale") == "response" and not of_processes(findings.contrasted):
            of = f"the {attrs['units']}"
        yield Points(
            f"Strongest effects on {of}, on average over {count}, with "
            f"{findings.prob:.0%} intervals",
            sentences,
        )


def _changes(findings: Findings) -> Iterator[tuple[str, float, float, float]]:
    """Words, mean and interval of the largest change for each feature."""
    training = findings.model.training
    columns, others = list(training.X.columns), switched(training)
    for feature, own in of_mean(findings.contrasted).groupby("variable"):
        one, name = (
            own.isel(contrast=int(np.abs(own["comparison_mean"].values).argmax())),
            str(feature),
        )
        words = one["contrast"].item()
        if name not in others:
            unit = "days" if name in training.X.origins else findings.units.get(name, "")
            spread = number(float(training.moments.sd[columns.index(name)]), 2)
            words = f"{name} higher by {f'{spread} {unit}'.rstrip()} (one sd)"
        low, high = one["comparison_interval"].values
        yield words, float(one["comparison_mean"]), float(low), float(high)


def _read_on(findings: Findings) -> Iterator[Part]:
    yield Prose(
        "An effect describes the fitted model, not what happens if somebody changes the feature. "
        "Read the cautions below before you use the numbers.",
        "note",
    )


SUMMARY = Section("summary", "The answer in short", (_error, _effects, _read_on))
