"""The model card: data, kernel, priors, likelihood, approximation, seed, versions."""

import platform
from importlib.metadata import version

import numpy as np

from bayes_gpx.data.training import INTERCEPT
from bayes_gpx.reporting.page import Pairs, Prose, Section, Table

VERSIONS = ("bayes_gpx", "pymc", "pytensor", "arviz", "nutpie", "numpy", "scipy", "xarray")
"""Packages whose versions are stated, since numbers may depend on them."""

PRIOR_NAMES = {
    "shared": "one amplitude for all weight functions",
    "per_feature": "an amplitude for each weight function",
    "horseshoe": "an amplitude for each weight function, under a regularised horseshoe",
}
"""What is said of each `weight_prior` of a GPX."""


def _model(findings):
    model, data = findings.model, findings.model.training
    spec = model.specification
    family = {
        "GP": "GP: a Gaussian process of the features",
        "GPX": "GPX: a linear regression for each row, whose weights are Gaussian processes",
    }
    rows = [
        ("Model", family[spec.family]),
        ("Response", f"{data.y_name}{findings.unit(data.y_name)}, {_of_response(data)}"),
        ("Rows", f"{data.n} to learn from, {len(findings.where.index)} to explain"),
        (
            "Features",
            f"{data.sources[0]}{_categorical(data.X)}"
            + (
                f", and {data.sources[1] - data.intercept} that are weighed"
                if _weighed(data)
                else ""
            ),
        ),
        ("Kernel", spec.kernel if isinstance(spec.kernel, str) else "a function of the user's"),
        ("Lengthscales", "one for each feature" if spec.ard else "one for all features"),
        ("Likelihood", spec.likelihood + (f", {spec.link} link" if spec.link else "")),
        ("Approximation", "none" if spec.approximation is None else str(spec.approximation)),
    ]
    if spec.family == "GPX":
        rows.append(("Weights", PRIOR_NAMES[spec.weight_prior]))
    scaled = "the features" + (" and the response" if data.scales_y else "")
    said = f"{scaled} standardised" if model.scale else "in the units of the data"
    rows.append(("Scale of hyperparameters", said))
    yield Pairs(rows)


def _categorical(frame):
    named = [f"{name} with {len(levels)} levels" for name, levels in frame.levels.items()]
    return f", categorical: {', '.join(named)}" if named else ""


def _weighed(data):
    return data.Z is not None and not data.tied


def _of_response(data):
    if data.labels is not None:
        counts = np.bincount(data.y.astype(int), minlength=len(data.labels))
        each = [f"{label!s} ({n})" for label, n in zip(data.labels, counts, strict=True)]
        return "labels " + ", ".join(each)
    return f"mean {data.y.mean():.4g}, sd {data.y.std():.4g}"


def _features(findings):
    data = findings.model.training
    yield from _columns(findings, data.X, "The features, over the training rows.")
    if _weighed(data):
        yield from _columns(findings, data.Z, "The features that are weighed.")


def _columns(findings, frame, caption):
    columns = dict(zip(frame.columns, frame.values.T, strict=True))
    rows = [
        [name, findings.units.get(name, ""), *map(float, (v.mean(), v.std(), v.min(), v.max()))]
        for name, v in columns.items()
        if name in frame.sources and name != INTERCEPT
    ]
    if rows:
        yield Table(caption, ["feature", "unit", "mean", "sd", "least", "most"], rows)
    rows = [
        [name, level, 100.0 * float(columns[column].mean())]
        for name, levels in frame.levels.items()
        for level, column in zip(levels, frame.of_source(name), strict=True)
    ]
    if rows:
        yield Table("Levels of categorical features.", ["feature", "level", "% of rows"], rows)


def _priors(findings):
    model = findings.model
    rows = []
    for name in model.hyperparameters:
        if name in model.fixed:
            values = np.unique(model.fixed[name])
            prior = "fixed at " + ", ".join(f"{value:.4g}" for value in values)
        else:
            prior = model.variables[name].str_repr().partition("~")[2].strip() or "see the model"
        rows.append([name, prior])
    yield Table("Priors, on the scale of the hyperparameters.", ["hyperparameter", "prior"], rows)


def _fit(findings):
    rows = [("Inference", findings.method), ("Draws", _draws(findings))]
    seed = findings.idata.attrs.get("seed") if findings.fitted else None
    rows.append(("Seed of the fit", "not recorded" if seed is None else str(seed)))
    rows.append(("Seed of this report", str(findings.seed)))
    rows.append(("Intervals", f"{findings.prob:.0%}, equal tails"))
    found = [f"{name} {version(name)}" for name in VERSIONS]
    rows.append(("Versions", ", ".join([f"Python {platform.python_version()}", *found])))
    yield Pairs(rows)
    if len(findings.some) < len(findings.where.index):
        yield Prose(
            f"Averages below are over {len(findings.some)} of {len(findings.where.index)} rows.",
            "note",
        )


def _draws(findings):
    hyper = findings.hyper
    if hyper.alone:
        return "one, so that what hyperparameters might else be is not seen"
    chains = len(hyper.chain)
    return f"{len(hyper)}, in {chains} chain{'' if chains == 1 else 's'}"


CARD = Section("card", "Model card", (_model, _features, _priors, _fit))
