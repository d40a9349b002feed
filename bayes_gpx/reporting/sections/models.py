"""Dependence of explanations on the model: scores and explanations of several models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.draws.intervals import interval_of
from bayes_gpx.reporting.page import Part, Points, Prose, Section, Table

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


MOST_FEATURES = 6
"""Features of a row in the table, the largest by the average of the models."""


def _scores(findings: Findings) -> Iterator[Part]:
    if findings.unscored:
        yield Prose(
            "A fit has a single draw of the hyperparameters, so the models are not scored by "
            "observations "
            "that were left out, and count equally below. Fit them by 'laplace' or 'nuts'.",
            "note",
        )
        return
    frame = findings.compared
    shown = {"elpd": "elpd", "elpd_diff": "difference", "dse": "its se", "weight": "weight"}
    if frame["held_out"].notna().all():
        shown["held_out"] = "new observations"
    shown |= {"khat": "Pareto k"}
    rows = [
        [str(name), *(float(row[column]) for column in shown)] for name, row in frame.iterrows()
    ]
    yield Table(
        "Log predictive densities of observations that were left out (elpd), best model first, and "
        "stacking weights: the shares by which the models together predict best."
        + (
            " The new observations' densities are of models fitted without them."
            if "held_out" in shown
            else ""
        ),
        ["model", *shown.values()],
        rows,
    )
    told = [f"{name}: {note}." for name, note in frame["note"].items()]
    yield Points("What the differences mean", told)


def _explanations(findings: Findings) -> Iterator[Part]:
    of_models, mixed, name = findings.explained_by_models, findings.averaged, findings.share_name
    rows = []
    for label in findings.chosen:
        size = np.abs(_at(findings, mixed, label)[f"{name}_mean"].values)
        for i in np.argsort(-size, kind="stable")[:MOST_FEATURES]:
            means = [
                float(_at(findings, found, label)[f"{name}_mean"][i])
                for found in of_models.values()
            ]
            whole = _at(findings, mixed, label)
            ends = ("mean", "sd", "between")
            rows.append(
                [
                    str(label),
                    str(whole["feature"].values[i]),
                    *means,
                    *(float(whole[f"{name}_{end}"][i]) for end in ends),
                ]
            )
    yield Table(
        f"The {name}s of each model, and their average by "
        + ("equal weights" if findings.unscored else "the stacking weights")
        + f" with its sd{findings.unit(findings.model.training.y_name)}. The last column is the sd "
        "of the models' means by these weights, the part of the sd that is due to which is right.",
        ["observation", "feature", *of_models, "average", "sd", "between models"],
        rows,
    )


def _agreement(findings: Findings) -> Iterator[Part]:
    """Sentences on signs, on the largest share of each row, and on the variance between models."""
    name, whole = findings.share_name, findings.averaged
    signs, unsure, firsts = [], [], []
    for label in findings.chosen:
        each = {m: _at(findings, f, label) for m, f in findings.explained_by_models.items()}
        ends = [
            interval_of(found, name, findings.prob).transpose("ci_bound", "feature").values
            for found in each.values()
        ]
        above = np.stack([low > 0 for low, _ in ends])
        below = np.stack([high < 0 for _, high in ends])
        apart, clear = above.any(axis=0) & below.any(axis=0), above | below
        features = next(iter(each.values()))["feature"].values
        signs += [f"{feature} in observation {label}" for feature in features[apart]]
        some = clear.any(axis=0) & ~clear.all(axis=0) & ~apart
        unsure += [f"{feature} in observation {label}" for feature in features[some]]
        first = [features[np.abs(found[f"{name}_mean"].values).argmax()] for found in each.values()]
        if len(set(first)) > 1:
            told = ", ".join(f"{f} by {m}" for m, f in zip(each, first, strict=True))
            firsts.append(f"in observation {label} it is {told}")
    if signs:
        yield Prose(
            f"The models disagree on the sign of {name}s, with whole {findings.prob:.0%} intervals "
            f"on different sides of 0: {'; '.join(signs)}.",
            "bad",
        )
    else:
        yield Prose(
            f"No {name} has opposite signs in two models, with whole {findings.prob:.0%} intervals "
            "on different sides of 0.",
            "good",
        )
    if unsure:
        yield Prose(
            f"The sign is clear in some models, and not in others: {'; '.join(unsure)}.", "note"
        )
    if firsts:
        yield Prose(
            f"The largest {name} is not the same in all models: {'; '.join(firsts)}.", "bad"
        )
    else:
        yield Prose(
            f"In each observation the largest {name} is of the same feature in all models.", "good"
        )
    total, between = (float((whole[f"{name}_{end}"] ** 2).sum()) for end in ("sd", "between"))
    if total:
        yield Prose(
            f"Of the variance of the averaged {name}s, {between / total:.0%} is between the "
            "models; the rest is within each."
        )


def _at(findings: Findings, found: xr.Dataset, label: Any) -> xr.Dataset:
    """The explanation of one row, of several labels that which the report's model predicts."""
    found = found.sel(obs=label)
    if not findings.classes:
        return found
    likely = findings.predicted_chosen["response_mean"].sel(obs=label)
    return found.sel({"class": likely["class"].values[int(likely.argmax("class"))]})


MODELS = Section(
    "models", "Does the explanation depend on the model?", (_scores, _explanations, _agreement)
)
