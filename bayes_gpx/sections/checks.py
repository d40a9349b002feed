"""Whether replicated responses look like the observed ones, and how often intervals cover."""

import arviz as az
import numpy as np
import xarray as xr

from bayes_gpx.metrics import coverage
from bayes_gpx.pages import Prose, Section, Table, number, picture

LEVELS = (0.5, 0.8, 0.9, 0.95)
SHOWN_DRAWS = 50


def _coverage(findings):
    observed, replicated = _both(findings)
    if findings.model.training.labels is not None:
        return
    drawn = xr.Dataset({"y": (("chain", "draw", "obs"), replicated[None])})
    covered = coverage(drawn.assign_coords(obs=np.arange(len(observed))), observed, LEVELS).values
    rows = []
    for level, inside in zip(LEVELS, covered, strict=True):
        low, high = np.quantile(replicated, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        rows.append([f"{level:.0%}", 100 * float(inside), float((high - low).mean())])
    columns = ["interval", "covers, % of rows", f"mean width{_unit(findings)}"]
    yield Table("How often predictive intervals cover the observed response.", columns, rows)
    error = observed - replicated.mean(axis=0)
    yield Prose(
        f"Root mean squared error {number(np.sqrt(np.mean(error**2)))}, of a response whose "
        f"sd is {number(observed.std())}."
    )
    yield _in_sample()


def _unit(findings):
    return findings.unit(findings.model.training.y_name)


def _both(findings):
    name = findings.model.in_model("y")
    replicated = findings.checked["posterior_predictive"][name].values
    replicated = replicated.reshape((-1, replicated.shape[-1]))
    return np.asarray(findings.checked["observed_data"][name].values, float), replicated


def _in_sample():
    return Prose(
        "These are the rows that the model learned from, so this flatters it. Rows that it has "
        "not seen tell more.",
        "note",
    )


def _labels(findings):
    labels = findings.model.training.labels
    if labels is None:
        return
    observed, replicated = _both(findings)
    shares = np.stack([(replicated == k).mean(axis=0) for k in range(len(labels))], axis=1)
    code = observed.astype(int)
    right = shares.argmax(axis=1) == code
    score = np.sum((shares - np.eye(len(labels))[code]) ** 2, axis=1).mean()
    rows = [
        [str(label), int((code == k).sum()), 100 * float(right[code == k].mean())]
        for k, label in enumerate(labels)
    ]
    yield Table("Labels by their most probable class.", ["label", "rows", "right, %"], rows)
    yield Prose(
        f"{right.mean():.1%} of the rows have their most probable label; the Brier score is "
        f"{number(score)} (0 is perfect, {number(_brier(code, len(labels)))} is knowing the "
        "labels' shares alone)."
    )
    yield _in_sample()


def _brier(code, classes):
    shares = np.bincount(code, minlength=classes) / len(code)
    return 1 - (shares**2).sum()


def _figure(findings):
    labels = findings.model.training.labels
    if labels is not None and len(labels) > 2:
        return
    options = {"backend": "matplotlib", "var_names": [findings.model.in_model("y")]}
    if labels is not None:
        pc = az.plot_ppc_pava(findings.checked, **options)
        yield picture(
            pc, "Observed frequency against predicted probability; the diagonal is right."
        )
        return
    if findings.model.specification.observation.exposed:
        options["kind"] = "ecdf"
    pc = az.plot_ppc_dist(findings.checked, num_samples=SHOWN_DRAWS, **options)
    yield picture(pc, f"{SHOWN_DRAWS} replicated sets of responses, and the observed one.")


CHECKS = Section("checks", "Does it predict well?", (_coverage, _labels, _figure))
