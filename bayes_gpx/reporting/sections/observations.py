"""Chosen observations, explained in words and pictures."""

import numpy as np

from bayes_gpx.plots import plot_waterfall
from bayes_gpx.reporting.page import Points, Prose, Section, interval, number, picture

MOST_FEATURES = 6
"""Features whose attributions have a sentence each; the others share one."""


def _chosen(findings):
    found = findings.attributed
    against = found.attrs["baseline"]
    name = "the given baseline" if against == "given" else f"the baseline, {against!r}"
    yield Prose(
        f"Each prediction is compared with that at {name}; the features share the difference, each "
        f"with its {findings.prob:.0%} interval. This says what the model does, not what would "
        "happen if a feature were changed.",
    )
    for label in findings.chosen:
        yield from _one(findings, label)


def _one(findings, label):
    found, predicted = findings.attributed.sel(obs=label), findings.predicted_chosen.sel(obs=label)
    name = findings.mean_name
    of = ""
    if findings.classes:
        which = predicted["class"].values[int(predicted[f"{name}_mean"].argmax("class"))]
        found, predicted = found.sel({"class": which}), predicted.sel({"class": which})
        of = f" of {which}"
    elif findings.model.training.labels is not None:
        of = f" of {findings.model.training.labels[1]}"
    what = name if name != "y" else "prediction"
    low, high = predicted[name].quantile(findings.tails, ["chain", "draw"]).values
    unit = _unit(findings, findings.model.training.y_name) if what == "prediction" else ""
    mean = number(predicted[f"{name}_mean"])
    heading = f"Row {label}: {what}{of} {mean} {interval(low, high)}{unit}"
    yield Points(heading, [_total(findings, found), *_sentences(findings, found)])
    pc = plot_waterfall(found.expand_dims(obs=[label]), backend="matplotlib")
    yield picture(pc, f"Row {label}: the same as steps, the largest first.")


def _unit(findings, name):
    return f" {findings.units[name]}" if findings.units.get(name) else ""


def _total(findings, found):
    low, high = found["difference"].quantile(findings.tails, ["chain", "draw"]).values
    tied = "Without the row's own deviation, the" if _deviates(findings) else "The"
    mean = number(found["difference_mean"])
    return f"{tied} difference from the baseline is {mean} {interval(low, high)}."


def _deviates(findings):
    """Whether predictions hold a part that attributions leave out."""
    return findings.model.specification.family == "GPX"


def _sentences(findings, found):
    """One sentence for each of the largest attributions, and one for the rest."""
    mean = found["attribution_mean"].values
    tails = found["attribution"].quantile(findings.tails, ["chain", "draw"])
    tails = tails.transpose("quantile", "feature").values
    order = np.argsort(-np.abs(mean), kind="stable")
    start = np.atleast_2d(found["baseline"].values).mean(axis=0)
    for i in order[:MOST_FEATURES]:
        feature, value = str(found["feature"].values[i]), number(found["value"].values[i])
        low, high = tails[:, i]
        levels, before = findings.model.training.X.levels.get(feature), number(start[i])
        if levels:
            value = str(found["level"].values[i])
            before = levels[int(start[i])] if np.isfinite(start[i]) else "a mixture of levels"
        if value == before:
            because = f"{feature} is {value}{_unit(findings, feature)}, as in the baseline"
        else:
            because = f"{feature} is {value} rather than {before}"
            because += _unit(findings, feature)
        if low <= 0 <= high:
            change = f"Changed by {number(mean[i])} {interval(low, high)}, sign uncertain,"
            yield f"{change} because {because}."
        else:
            verb = "Raised" if mean[i] > 0 else "Lowered"
            ends = interval(*sorted(np.abs([low, high])))
            yield f"{verb} by {number(abs(mean[i]))} {ends} because {because}."
    if len(order) > MOST_FEATURES:
        rest = order[MOST_FEATURES:]
        draws = found["attribution"].isel(feature=rest).sum("feature")
        low, high = draws.quantile(findings.tails, ["chain", "draw"]).values
        others = "The remaining feature" if len(rest) == 1 else f"The {len(rest)} other features"
        yield f"{others}: {number(mean[rest].sum())} {interval(low, high)}."


OBSERVATIONS = Section("observations", "Why these predictions?", (_chosen,))
