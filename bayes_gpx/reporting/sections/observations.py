"""Chosen observations, explained in words and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.data.dates import in_words
from bayes_gpx.data.features import INTERCEPT
from bayes_gpx.data.gaps import IMPUTED_CELLS
from bayes_gpx.draws.intervals import interval_of, interval_of_sum
from bayes_gpx.draws.naming import COUNTED
from bayes_gpx.draws.points import read_baseline
from bayes_gpx.plots import plot_waterfall
from bayes_gpx.reporting.estimands import HOW
from bayes_gpx.reporting.page import Part, Points, Prose, Section, change, interval, number, picture

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


MOST_FEATURES = 6
"""Most features with a sentence for each attribution; the others share one."""

MOST_DIGITS = 9
"""Digits up to which a value and its baseline are told apart."""

MOST_LEVELS = 4
"""Most levels that a mixture of them names."""


def _chosen(findings: Findings) -> Iterator[Part]:
    yield Prose(findings.how_chosen)
    if findings.by_place:
        yield Prose(
            "Each prediction is the response at average features plus the contributions of the "
            "features: the observation's weight times the distance from the feature's average, "
            f"with a {findings.prob:.0%} interval. An observation's weight is the weight function "
            "at its place plus a deviation of its own. The prediction does not include noise."
        )
    else:
        against = findings.attributed.attrs["baseline"]
        name = "the given baseline" if against == "given" else f"the baseline, {against!r}"
        yield Prose(
            f"Each prediction is compared with the prediction at {name}, and the difference is "
            f"divided among the features {HOW[findings.attribution]}, each share with a "
            f"{findings.prob:.0%} interval. This describes the model, not what would happen if a "
            "feature were changed.",
        )
    for label in findings.chosen:
        yield from _one(findings, label)
        if findings.model.specification.processes:
            yield _of_sd(findings, label)


def _one(findings: Findings, label: Any) -> Iterator[Part]:
    found, predicted = findings.explained.sel(obs=label), findings.predicted_chosen.sel(obs=label)
    name, which = findings.model.specification.response.reported, findings.second
    if findings.classes:
        which = predicted["class"].values[int(predicted[f"{name}_mean"].argmax("class"))]
        found, predicted = found.sel({"class": which}), predicted.sel({"class": which})
    of = "" if which is None else f" of {which}"
    what = "prediction" if name == "y" else COUNTED.get(name, name)
    low, high = interval_of(predicted, name, findings.prob).values
    unit = _unit(findings, findings.model.training.y_name) if what == "prediction" else ""
    mean = number(predicted[f"{name}_mean"])
    heading = f"Observation {label}: {what}{of} {mean} {interval(low, high)}{unit}"
    told = [*findings.known_of(label), _total(findings, found, of), *_sentences(findings, found)]
    exposed = findings.model.specification.observation.exposure_name
    if exposed in predicted and float(predicted[exposed]) != 1.0:
        heading += f", for {exposed} of {number(predicted[exposed])}"
        told.append(f"Differences are for {exposed} of 1.")
    yield Points(heading, told, str(label))
    there = None if findings.by_place else predicted.expand_dims(obs=[label])
    steps = found.expand_dims(obs=[label])
    pc = plot_waterfall(steps, predictions=there, backend="matplotlib")
    yield picture(pc, f"Observation {label}: the same as steps, the largest first.", str(label))


def _of_sd(findings: Findings, label: Any) -> Points:
    """The features' shares in the sd of y, where it is a process of its own."""
    found = findings.attributed.sel({"obs": label, "class": "sd"})
    predicted, name = findings.predicted_chosen.sel(obs=label), findings.model.training.y_name
    low, high = interval_of(predicted, "sd", findings.prob).values
    heading = f"Observation {label}: sd {number(predicted['sd_mean'])} {interval(low, high)}"
    told = [_total(findings, found, ""), *_sentences(findings, found)]
    return Points(heading + _unit(findings, name), told, str(label))


def _unit(findings: Findings, name: str) -> str:
    return f" {findings.units[name]}" if findings.units.get(name) else ""


def _total(findings: Findings, found: xr.Dataset, of: str) -> str:
    """The sum of all attributions; for classes, with the class and the scale."""
    if findings.by_place:
        whole = number(found["contribution_mean"].sum())
        scale = f", on the latent scale{of}" if of else ""
        start = number(found["offset"])
        return f"The features add {whole} to the value at average features, {start}{scale}."
    low, high = interval_of(found, "difference", findings.prob).values
    tied = "Without the observation's own deviation, the" if _deviates(findings) else "The"
    mean = number(found["difference_mean"])
    scale = f", in the probability{of}" if of else ""
    return f"{tied} difference from the baseline is {mean} {interval(low, high)}{scale}."


def _deviates(findings: Findings) -> bool:
    """Whether predictions hold a part that attributions leave out."""
    return findings.model.specification.family == "GPX"


def _sentences(findings: Findings, found: xr.Dataset) -> Iterator[str]:
    """One sentence for each of the features that change most, and one for the rest."""
    name = "contribution" if findings.by_place else "attribution"
    mean = found[f"{name}_mean"].values
    ends = interval_of(found, name, findings.prob).transpose("feature", "ci_bound").values
    order = np.argsort(-np.abs(mean), kind="stable")
    attrs = findings.idata.attrs if findings.fitted else {}
    imputed = json.loads(attrs.get(IMPUTED_CELLS, "{}")).get(str(found["obs"].item()), ())
    for i in order[:MOST_FEATURES]:
        (low, high), one = ends[i], found.isel(feature=i)
        unsure = ", sign uncertain" if low <= 0 <= high else ""
        filled = " (missing, so filled in)" if str(one["feature"].item()) in imputed else ""
        yield f"{_moved(findings, one, filled)}: {change(mean[i], low, high)}{unsure}."
    if len(order) > MOST_FEATURES:
        rest = order[MOST_FEATURES:]
        low, high = interval_of_sum(found, name, rest, findings.prob).values
        of_others = findings.facts.setdefault("intervals_of_other_features", {})
        of_others[str(found["obs"].item())] = [low, high]
        others = "The remaining feature" if len(rest) == 1 else f"The {len(rest)} other features"
        yield f"{others}: {change(mean[rest].sum(), low, high)}."


def _moved(findings: Findings, found: xr.Dataset, note: str) -> str:
    """The value of one feature, with a note, and the value that it is compared with."""
    feature = str(found["feature"].item())
    levels = findings.frame.levels.get(feature)
    against = found["center"] if "center" in found else found.get("baseline")
    value = _said(findings, feature, found["value"].item())
    if levels and against is None:
        return f"{feature} is {found['level'].item()}{note}"
    if feature == INTERCEPT:
        return "The intercept, the level of the response at this place"
    start = float(np.mean(cast(xr.DataArray, against).values))
    before = _mixture(findings, feature, start) or _said(findings, feature, start)
    own, digits = found["value"].item(), 3
    while value == before and digits < MOST_DIGITS and not np.isclose(own, start, rtol=1e-9):
        digits += 1  # numbers that differ look different
        value, before = (_said(findings, feature, v, digits) for v in (own, start))
    if levels:
        value = str(found["level"].item())
        before = levels[int(start)] if np.isfinite(start) else before
    if value == before:
        where = "on average" if findings.by_place else "in the baseline"
        return f"{feature} is {value}{_unit(findings, feature)}{note}, as {where}"
    return f"{feature} is {value}{note} rather than {before}{_unit(findings, feature)}"


def _said(findings: Findings, feature: str, value: float, digits: int = 3) -> str:
    """A value of a column: a number, or a date."""
    frame = findings.frame
    if (origin := frame.origins.get(feature)) is None:
        return number(value, digits)
    return in_words(origin, value, frame.values[:, list(frame.columns).index(feature)])


def _mixture(findings: Findings, feature: str, start: float) -> str:
    """A baseline between two values or levels by its shares; nothing where it is a value."""
    frame = findings.frame
    if feature in frame.levels:
        if np.isfinite(start):
            return ""
        levels = frame.levels[feature]
        rows = frame.values  # contributions start at the averages of Z
        if not findings.by_place:
            rows = np.atleast_2d(read_baseline(findings.model, findings.baseline))
        point = rows.mean(axis=0)
        own = np.isin(frame.columns, frame.of_source(feature))
        shares = dict(zip(levels, point[own].tolist(), strict=True))
        findings.facts.setdefault("shares_of_levels", {})[feature] = shares
        named = ", ".join(f"{level} {share:.0%}" for level, share in shares.items())
        return f"a mixture ({named if len(levels) <= MOST_LEVELS else f'{len(levels)} levels'})"
    known = np.unique(frame.values[:, list(frame.columns).index(feature)])
    if len(known) != 2 or start in known:
        return ""
    share = (start - known[0]) / (known[1] - known[0])
    return f"a mixture ({share:.0%} at {number(known[1])})"


OBSERVATIONS = Section("observations", "Why these predictions?", (_chosen,))
