"""The model card: data, kernel, priors, likelihood, approximation, seed, versions; what to cite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_gpx.data.dates import in_words
from bayes_gpx.data.features import INTERCEPT
from bayes_gpx.data.moments import MOMENTS, Moments
from bayes_gpx.data.training import TrainingData
from bayes_gpx.model.description import hyperparameters, structure
from bayes_gpx.reporting.page import Pairs, Part, Points, Prose, Section, Table, number
from bayes_gpx.system.versions import versions

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame
    from bayes_gpx.model.model import Model
    from bayes_gpx.reporting.results import Findings


def _model(findings: Findings) -> Iterator[Part]:
    model, data = findings.model, findings.model.training
    family, *rest = structure(model)
    yield Pairs(
        [
            family,
            ("Response", f"{data.y_name}{findings.unit(data.y_name)}{_of_response(model)}"),
            (
                "Rows",
                f"{data.n} training observations{_of_rows(data)}, {len(findings.where.index)} "
                "observations to explain",
            ),
            *rest,
        ]
    )


def _of_rows(data: TrainingData) -> str:
    """Whether rows have weights, and how many are censored."""
    weights = data.row_data is not None and data.row_data.weights is not None
    censored = f", {data.censored} of them censored" if data.censored else ""
    return (" with weights" if weights else "") + censored


def _of_response(model: Model) -> str:
    """Summary of the response in all rows; for out-of-core data, its scaling."""
    data = model.training
    names = getattr(model.specification.observation, "names", ())
    if labels := data.labels or names:
        counts = np.bincount(data.y.astype(int), minlength=len(labels))
        numbers = [""] * len(counts) if data.streamed else [f" ({n})" for n in counts]
        each = [f"{label!s}{n}" for label, n in zip(labels, numbers, strict=True)]
        return (", categories " if names else ", labels ") + ", ".join(each)
    if not data.streamed:
        return f", mean {data.y.mean():.4g}, sd {data.y.std():.4g}"
    if not (model.scale and data.scales_y):
        return ""
    return f", mean {data.y_scaling.center:.4g}, sd {data.y_scaling.scale:.4g}"


def _features(findings: Findings) -> Iterator[Part]:
    data = findings.model.training
    yield from _columns(
        findings, data.X, data.moments, "The features in the training observations."
    )
    if data.Z is not None and not data.tied and not data.streamed:
        of_z = Moments.of(data.Z.values)
        yield from _columns(findings, data.Z, of_z, "The features that have weights (Z).")


def _columns(findings: Findings, frame: Frame, moments: Moments, caption: str) -> Iterator[Part]:
    known = (getattr(moments, name).tolist() for name in MOMENTS)
    columns = dict(zip(frame.columns, zip(*known, strict=True), strict=True))
    rows = [
        [name, findings.units.get(name, ""), *_dated(frame, name, numbers)]
        for name, numbers in columns.items()
        if name in frame.sources and name != INTERCEPT
    ]
    if rows:
        yield Table(caption, ["feature", "unit", "mean", "sd", "minimum", "maximum"], rows)
    rows = [
        [name, level, 100.0 * columns[column][0]]
        for name, levels in frame.levels.items()
        for level, column in zip(levels, frame.of_source(name), strict=True)
    ]
    if rows:
        yield Table(
            "Levels of categorical features.", ["feature", "level", "% of observations"], rows
        )


def _dated(frame: Frame, name: str, numbers: Sequence[float]) -> list[Any]:
    """Mean, sd, minimum and maximum, of dates as dates and days."""
    if (origin := frame.origins.get(name)) is None:
        return [*numbers]
    known = frame.values[:, list(frame.columns).index(name)]
    mean, *ends = (in_words(origin, days, known) for days in numbers)
    return [mean, f"{number(numbers[1])} days", *ends[1:]]


def _priors(findings: Findings) -> Iterator[Part]:
    head = ["hyperparameter", "dims", "prior"]
    rows = [list(row) for row in hyperparameters(findings.model)]
    yield Table("Priors of the hyperparameters, on the model's scale.", head, rows)


def _fit(findings: Findings) -> Iterator[Part]:
    rows = [("Inference", findings.method), ("Draws", _draws(findings))]
    seed = findings.idata.attrs.get("seed") if findings.fitted else None
    rows.append(("Seed of the fit", "not recorded" if seed is None else str(seed)))
    rows.append(("Seed of this report", str(findings.seed)))
    rows.append(("Intervals", f"{findings.prob:.0%}, equal-tailed"))
    found = [f"{name} {number}" for name, number in versions().items()]
    rows.append(("Versions", ", ".join(found)))
    yield Pairs(rows)
    if len(findings.some) < len(findings.where.index):
        yield Prose(
            f"Averages of this report are over {len(findings.some)} of {len(findings.where.index)} "
            "observations.",
            "note",
        )


def _draws(findings: Findings) -> str:
    hyper = findings.hyper
    if findings.alone:
        return "one, so the uncertainty of the hyperparameters is not included"
    chains = len(hyper.chain)
    return f"{len(hyper)}, in {chains} chain{'' if chains == 1 else 's'}"


CARD = Section("card", "Model card", (_model, _features, _priors, _fit))


GPX = (
    "Y. Yoshikawa and T. Iwata, Gaussian process regression with interpretable sample-wise feature "
    "weights, IEEE Transactions on Neural Networks and Learning Systems 34 (9), 5789-5803, 2023, "
    "doi 10.1109/TNNLS.2021.3131234."
)
ATTRIBUTIONS = (
    "K. Butler, G. Feng and P. M. Djurić, Explainable learning with Gaussian processes, 2024: "
    "attributions of Gaussian processes."
)
GRADIENTS = (
    "M. Sundararajan, A. Taly and Q. Yan, Axiomatic attribution for deep networks, 2017: "
    "integrated gradients."
)
SHAPLEY = (
    "L. S. Shapley, A value for n-person games, 1953; M. Sundararajan and A. Najmi, The many "
    "Shapley values for model explanation, 2020: Shapley values against a baseline."
)
RELEVANCE = (
    "T. Paananen, M. R. Andersen and A. Vehtari, Uncertainty-aware sensitivity analysis using "
    "Rényi divergences, 2021: relevance and interactions."
)


def _works(findings: Findings) -> Iterator[Part]:
    works = [GPX] if findings.model.specification.family == "GPX" else []
    works += [SHAPLEY] if findings.attribution == "shapley" else [ATTRIBUTIONS, GRADIENTS]
    works.append(RELEVANCE)
    works.append(
        f"bayes_gpx {version('bayes_gpx')}, on PyMC {version('pymc')}, PyTensor "
        f"{version('pytensor')} and ArviZ {version('arviz')}."
    )
    yield Points("Please cite what this report uses", works)


CITING = Section("citing", "How to cite", (_works,))
