"""The model card: data, kernel, priors, likelihood, approximation, seed, versions."""

import numpy as np

from bayes_gpx.data.moments import MOMENTS, Moments
from bayes_gpx.data.training import INTERCEPT
from bayes_gpx.model.description import hyperparameters, structure
from bayes_gpx.reporting.page import Pairs, Prose, Section, Table
from bayes_gpx.system.versions import versions


def _model(findings):
    model, data = findings.model, findings.model.training
    family, *rest = structure(model)
    yield Pairs(
        [
            family,
            ("Response", f"{data.y_name}{findings.unit(data.y_name)}{_of_response(model)}"),
            ("Rows", f"{data.n} training rows, {len(findings.where.index)} rows to explain"),
            *rest,
        ]
    )


def _weighed(data):
    return data.Z is not None and not data.tied


def _of_response(model):
    """Summary of the response in all rows; for out-of-core data, its scaling."""
    data = model.training
    if data.labels is not None:
        counts = np.bincount(data.y.astype(int), minlength=len(data.labels))
        numbers = [""] * len(counts) if data.streamed else [f" ({n})" for n in counts]
        each = [f"{label!s}{n}" for label, n in zip(data.labels, numbers, strict=True)]
        return ", labels " + ", ".join(each)
    if not data.streamed:
        return f", mean {data.y.mean():.4g}, sd {data.y.std():.4g}"
    if not (model.scale and data.scales_y):
        return ""
    return f", mean {data.y_scaling.center:.4g}, sd {data.y_scaling.scale:.4g}"


def _features(findings):
    data = findings.model.training
    yield from _columns(findings, data.X, data.moments, "The features in the training rows.")
    if _weighed(data) and not data.streamed:
        of_z = Moments.of(data.Z.values)
        yield from _columns(findings, data.Z, of_z, "The features that have weights (Z).")


def _columns(findings, frame, moments, caption):
    known = (getattr(moments, name).tolist() for name in MOMENTS)
    columns = dict(zip(frame.columns, zip(*known, strict=True), strict=True))
    rows = [
        [name, findings.units.get(name, ""), *numbers]
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
        yield Table("Levels of categorical features.", ["feature", "level", "% of rows"], rows)


def _priors(findings):
    head = ["hyperparameter", "dims", "prior"]
    rows = [list(row) for row in hyperparameters(findings.model)]
    yield Table("Priors of the hyperparameters, on the model's scale.", head, rows)


def _fit(findings):
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
            f"Averages below are over {len(findings.some)} of {len(findings.where.index)} rows.",
            "note",
        )


def _draws(findings):
    hyper = findings.hyper
    if findings.alone:
        return "one, so the uncertainty of the hyperparameters is not included"
    chains = len(hyper.chain)
    return f"{len(hyper)}, in {chains} chain{'' if chains == 1 else 's'}"


CARD = Section("card", "Model card", (_model, _features, _priors, _fit))
