"""What readers should know before they trust the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.data.gaps import IMPUTED
from bayes_gpx.data.scaling import copies_told
from bayes_gpx.draws.constraints_met import UNLIKELY
from bayes_gpx.draws.points import read_baseline, rows_outside
from bayes_gpx.explain import predictions
from bayes_gpx.explain.attributions import LARGEST_RESIDUAL
from bayes_gpx.inference.diagnostics import CONVERGED
from bayes_gpx.model.examination import EXAMINATION
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.posteriors.base import CONSTRAINED, CONSTRAINED_WHITENED
from bayes_gpx.reporting.page import TONES, Part, Prose, Section, Table, number

if TYPE_CHECKING:
    from bayes_gpx.reporting.fit import Fit
    from bayes_gpx.reporting.results import Findings

OFTEN = 0.1
"""Average probability of a violation at a training row above which it is reported."""

FEW = 5
"""Most points with bounds for which expectation propagation is accurate."""

STAGES = ("prior", "data", "posterior")
"""What the probabilities of a constraint are given: nothing, the data alone, and both."""


def contradicted(findings: Fit) -> Iterator[Part]:
    """Name constraints that the data alone give almost no probability at some point."""
    found = findings.constraints
    if found is None:
        return
    unlikely = (found["data_probability"] < UNLIKELY).values
    names = dict.fromkeys(found["constraint_of_statement"].values[unlikely].tolist())
    if names:
        yield Prose(
            f"The data contradict a constraint: alone, they give {', '.join(names)} a "
            f"probability below {UNLIKELY:.0%} at one or more points. Compare with a model "
            "without these constraints before using either.",
            "bad",
        )


def _table(findings: Findings) -> Iterator[Part]:
    found, rows = cast(xr.Dataset, findings.constraints), []
    of_statement, low = found["constraint_of_statement"].values, found["low"].values
    for name, violation in zip(found["constraint"].values, found["violation"].values, strict=True):
        own = of_statement == name
        lowest = [100 * found[f"{stage}_probability"].values[own].min() for stage in STAGES]
        known = (low == found["high"].values)[own].all()
        outside = "" if known else 100 * float(violation)
        rows.append([str(name), int(own.sum()), *map(float, lowest), outside])
    yield Prose(
        "The model was given knowledge of the function beside the data. It holds at the points "
        "where it was stated; between them the function is free."
    )
    columns = ["constraint", "points", "prior, %", "data alone, %", "posterior, %", "violated, %"]
    yield Table(
        "Probability of each constraint at the point where it is lowest: before the data, given "
        "the data alone, and given the constraints too. Of a known value it is the probability of "
        "being at least as far off. Last, the probability that bounds are violated at a training "
        "observation, on average over the observations.",
        columns,
        rows,
    )


def _conflict(findings: Findings) -> Iterator[Part]:
    told = list(contradicted(findings))
    yield from told
    found = cast(xr.Dataset, findings.constraints)
    if not told:
        lowest = findings.facts["lowest_probability"] = float(found["data_probability"].min())
        yield Prose(
            f"The data contradict no constraint: alone, they give each a probability of "
            f"{lowest:.1%} or more at each of its points.",
            "good",
        )
    often = found["constraint"].values[(found["violation"] > OFTEN).values]
    if len(often):
        yield Prose(
            f"Away from its points, {', '.join(often)} does not hold everywhere: state it at "
            "more observations (at=) if it matters there.",
            "note",
        )
    bounds = int((found["low"] < found["high"]).sum())
    names = findings.model.latent_names
    sampled = {names.get(CONSTRAINED), names.get(CONSTRAINED_WHITENED)} & {
        *findings.posterior_variables
    }
    if bounds > FEW and not sampled:
        apart = findings.model.specification.normal
        cure = "truncated='sample'" if apart else "method='nuts' and latent='sample'"
        yield Prose(
            f"There are {number(bounds)} points with bounds, each replaced by an observation with "
            "noise (expectation propagation). With that many, intervals are too narrow: fit with "
            f"{cure}.",
            "note",
        )


CONSTRAINTS = Section("constraints", "Do the constraints hold?", (_table, _conflict))


BARELY_LEARNED = 0.7
"""Posterior sd over prior sd above which the data count as uninformative."""

FAR = 2.0
"""Multiple of the median sd of f at training rows above which a baseline is far from the data."""


def _inference(findings: Fit) -> Iterator[Part]:
    """The convergence summary of draws that did not converge."""
    state, summary = findings.convergence
    if state and summary and state != CONVERGED:
        yield Prose(summary, TONES[state])


def _hidden(findings: Fit) -> Iterator[Part]:
    if findings.alone:
        yield Prose(
            "The fit has a single draw of the hyperparameters, as if they were known, so the "
            "intervals are too narrow by an unknown amount. Fit by NUTS before publishing.",
            "bad",
        )


def _examined(findings: Fit) -> Iterator[Part]:
    """What the fit itself was found to lack."""
    if findings.fitted and (found := findings.idata.attrs.get(EXAMINATION)):
        for said in found.split("\n"):
            yield Prose(said, "bad")


def _imputed(findings: Fit) -> Iterator[Part]:
    """Missing values that were filled in before the fit."""
    if findings.fitted and (found := findings.idata.attrs.get(IMPUTED)):
        for said in found.split("\n"):
            yield Prose(f"{said} Intervals do not include the uncertainty of these values.", "bad")


def _copies(findings: Fit) -> Iterator[Part]:
    """Columns that hold the same values."""
    training = findings.model.training
    told = copies_told(training.X, "X", training.moments) if training.stored else None
    if told is not None:
        yield Prose(told, "bad")


def _baseline(findings: Findings) -> Iterator[Part]:
    if findings.by_place:
        return
    model = findings.model
    start = np.atleast_2d(read_baseline(model, findings.baseline))
    training = model.training
    known, low, high = training.X.values, training.moments.low, training.moments.high
    outside = ((start < low) | (start > high)).any(axis=0)
    names = [name for name, out in zip(training.X.columns, outside, strict=True) if out]
    if names:
        yield Prose(
            f"The baseline lies outside the training data in {', '.join(names)}, so attributions "
            "depend on the model where it has no data.",
            "bad",
        )
    else:
        yield Prose("The baseline lies within the observed range of every feature.", "good")
    if not training.stored or (training.Z is not None and not training.tied):
        return
    options = findings.sampled | {"keep": "summary", "on": "latent"}
    rows = slice(None, None, -(-len(known) // 100))
    own, most = None, None
    if training.groups is not None:
        groups, codes = np.array(training.groups.labels), training.groups.codes
        own, most = groups[codes[rows]], np.repeat(groups[np.bincount(codes).argmax()], len(start))
    there = predictions(model, findings.idata, start, groups_new=most, **options)["f_sd"].mean()
    typical = predictions(model, findings.idata, known[rows], groups_new=own, **options)["f_sd"]
    typical = typical.median()
    ratio = findings.facts["baseline_sd_ratio"] = float(there / typical)
    if ratio > FAR:
        yield Prose(
            f"No training observation is near the baseline: the sd of f there is {number(ratio)} "
            "times that at a typical training observation. Choose a baseline close to the data, or "
            "average over several observations.",
            "bad",
        )


def _outside(findings: Findings) -> Iterator[Part]:
    if findings.X_new is not None and (told := rows_outside(findings.model, findings.where)):
        yield Prose(told, "bad")


def _tail(findings: Findings) -> Iterator[Part]:
    """Means beyond the largest response, where some are censored."""
    training, event = findings.model.training, findings.model.specification.event
    if not training.censored or event is not None:
        return
    longest, largest = training.y.max(), float(findings.predicted["response_mean"].max())
    if largest > longest:
        yield Prose(
            f"Expected values of {training.y_name} reach {number(largest)}, beyond the largest "
            f"observation, {number(longest)}. There the tail of the distribution decides, and not "
            "the data: explain the probability of an event, by model.of_event('survival', at).",
            "bad",
        )


def _sigma_w(findings: Findings) -> Iterator[Part]:
    model = findings.model
    if model.specification.family != "GPX":
        return
    text = (
        "sigma_w, the sd of each observation's own deviation from the weight functions, is weakly "
        "identified, so the weights of training observations depend on its prior. State this prior "
        "when you publish them."
    )
    if "sigma_w" in model.fixed or findings.alone:
        yield Prose(text, "note")
        return
    spread = float(findings.hyper.values["sigma_w"].std())
    prior = _prior_sd(findings)
    ratio = findings.facts["sigma_w_sd_ratio"] = spread / prior
    if ratio > BARELY_LEARNED:
        yield Prose(f"{text} Its posterior sd is {number(ratio)} times its prior sd.", "bad")


def _prior_sd(findings: Findings) -> float:
    variable = findings.model.variables["sigma_w"]
    return float(pm.draw(variable, draws=4000, random_seed=findings.seed, mode=MODE).std())


def _completeness(findings: Findings) -> Iterator[Part]:
    if findings.by_place:
        return
    found = findings.attributed
    size = float(np.abs(found["difference_mean"]).max() + found["difference_sd"].max()) or 1.0
    residual = float(found["completeness_residual"].max()) / size
    text = (
        "Attributions add up to the difference between the predictions, with a relative error of "
        f"{residual:.1e}."
    )
    yield Prose(text, "good" if residual <= LARGEST_RESIDUAL else "bad")


OF_FIT = (_inference, _hidden, _examined, _imputed, _copies, contradicted)
"""Cautions that depend on the fit alone, not on the rows or the baseline."""

CAUTIONS = Section(
    "warnings",
    "What to watch out for",
    (*OF_FIT, _baseline, _outside, _tail, _sigma_w, _completeness),
)
