"""Checks of predictions: left-out rows, and replications of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import arviz as az
import numpy as np
import xarray as xr

from bayes_gpx.assess.metrics import coverage
from bayes_gpx.reporting.page import Part, Prose, Section, Table, number, picture

if TYPE_CHECKING:
    from bayes_gpx.reporting.results import Findings


LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Probabilities of intervals with a reported coverage."""

SHOWN_DRAWS = 50
"""Replicated sets of responses in the figure."""


def _held_out(findings: Findings) -> Iterator[Part]:
    """Scores of new samples, the headline where their responses are known."""
    if findings.y_new is None:
        return
    m, found = len(findings.y_new), findings.held_out
    rows, labels = f"{m} observations that were held out", findings.model.training.labels
    if labels is None:
        drawn = found["y"].stack(sample=["chain", "draw"]).transpose("sample", "obs").values
        yield from _of_numbers(findings, found, drawn, findings.y_new, rows)
    else:
        yield from _of_labels(labels, findings.y_new.astype(int), found, rows)
    if findings.alone:
        yield Prose("Intervals do not include the uncertainty of the hyperparameters.", "note")


def _left_out(findings: Findings) -> Iterator[Part]:
    if findings.y_new is not None or findings.model.training.censored:
        return
    training, found, rows = (
        findings.model.training,
        findings.left_out,
        "observations that were left out",
    )
    if training.labels is None:
        drawn = findings.replicated_left_out
        yield from _of_numbers(findings, found, drawn, training.y, rows)
    else:
        yield from _of_labels(training.labels, training.y.astype(int), found, rows)
    held = " The hyperparameters were fitted to all of them, so the scores are too optimistic."
    yield Prose(
        "Each observation is predicted from all other observations (leave-one-out)."
        + (held if findings.alone else " Observations unlike these may be harder to predict."),
        "note",
    )


def _of_numbers(
    findings: Findings, found: xr.Dataset, drawn: np.ndarray, observed: np.ndarray, which: str
) -> Iterator[Part]:
    """How often intervals hold numbers, and how far predictions are from them."""
    covered = coverage(found, observed, LEVELS).values
    rows = []
    for level, inside in zip(LEVELS, covered, strict=True):
        low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        rows.append([f"{level:.0%}", 100 * float(inside), float((high - low).mean())])
    columns = ["interval", "coverage, % of observations", f"mean width{_unit(findings)}"]
    yield Table(f"How often intervals contain the response of {which}.", columns, rows)
    error = np.sqrt(np.mean((observed - found[f"{findings.mean_name}_mean"].values) ** 2))
    yield Prose(
        f"The root mean squared error of {which} is {number(error)}; the sd of their response is "
        f"{number(observed.std())}."
    )


def _unit(findings: Findings) -> str:
    return findings.unit(findings.model.training.y_name)


def shares_of(found: xr.Dataset) -> np.ndarray:
    """Probability of each label in each row, (obs, label), of two labels too."""
    shares = found["probability_mean"].values
    return shares if shares.ndim == 2 else np.stack([1.0 - shares, shares], axis=1)


def _of_labels(labels: Sequence, code: np.ndarray, found: xr.Dataset, which: str) -> Iterator[Part]:
    """How often the most probable label is right, and the Brier score."""
    shares = shares_of(found)
    right = shares.argmax(axis=1) == code
    score = np.sum((shares - np.eye(len(labels))[code]) ** 2, axis=1).mean()
    rows = [
        [str(label), int((code == k).sum()), 100 * float(right[code == k].mean())]
        for k, label in enumerate(labels)
        if (code == k).any()
    ]
    columns = ["label", "observations", "classified correctly, %"]
    yield Table(f"Labels of {which}, classified by the most probable label.", columns, rows)
    yield Prose(
        f"The most probable label is right for {right.mean():.1%} of {which}. The Brier score is "
        f"{number(score)} (0 is perfect; {number(_brier(code, len(labels)))} is what the shares "
        "of the labels alone would achieve)."
    )


def _brier(code: np.ndarray, classes: int) -> float:
    shares = np.bincount(code, minlength=classes) / len(code)
    return 1 - (shares**2).sum()


def _calibration(findings: Findings) -> Iterator[Part]:
    training = findings.model.training
    if training.censored:
        yield Prose("Responses that are censored cannot be compared with their predictions.")
        return
    if training.labels is None:
        found = xr.DataTree.from_dict({"loo_pit": findings.left_out[["pit"]]})
        options = {"group": "loo_pit", "sample_dims": "obs", "backend": "matplotlib"}
        pc = az.plot_ecdf_pit(found, visuals={"title": False}, **options)
        yield picture(
            pc,
            "Calibration. The PIT of a training observation is the probability of a response below "
            "the observed one, predicted from the other training observations. The curve is the "
            "distribution function of all PITs minus that of a uniform distribution, and is close "
            "to 0 for a calibrated model. p is the p-value of ArviZ's test of uniformity; marked "
            "points contribute most to it.",
        )
    elif len(training.labels) == 2:
        drawn = {"y": (("chain", "draw", "obs"), findings.replicated_left_out[None].astype(int))}
        observed = {"y": ("obs", training.y.astype(int))}
        groups = {"posterior_predictive": xr.Dataset(drawn), "observed_data": xr.Dataset(observed)}
        yield picture(
            az.plot_ppc_pava(xr.DataTree.from_dict(groups), backend="matplotlib"),
            "Observed frequency of the label "
            f"{training.labels[1]} against its probability predicted from the other training "
            "observations. For a calibrated model the points lie on the diagonal.",
        )


def _replicated(findings: Findings) -> Iterator[Part]:
    if findings.model.training.labels is not None or findings.model.training.censored:
        return
    options = {"backend": "matplotlib", "var_names": [findings.model.in_model("y")]}
    if findings.model.specification.observation.discrete:
        options["kind"] = "ecdf"
    pc = az.plot_ppc_dist(findings.replicated, num_samples=SHOWN_DRAWS, **options)
    yield picture(pc, f"{SHOWN_DRAWS} replicated data sets, and the observed responses.")


CHECKS = Section(
    "checks", "Does it predict well?", (_held_out, _left_out, _calibration, _replicated)
)
