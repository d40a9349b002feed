"""Describe a model in words, for its `repr` and for reports."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pymc.printing import str_for_dist

FAMILIES = {
    "GP": "GP: a Gaussian process of the features",
    "GPX": "GPX: a linear regression for each row, whose weights are Gaussian processes",
}
"""What each family is."""

WEIGHTS = {
    "shared": "one amplitude for all weight functions",
    "per_feature": "an amplitude for each weight function",
    "horseshoe": "an amplitude for each weight function, under a regularised horseshoe",
}
"""What is said of each `weight_prior` of a GPX."""

NAMED = 6
"""So many features are listed by name, and of more the first ones."""


def structure(model: Any) -> list[tuple[str, str]]:
    """What a model is made of, apart from its response and rows: pairs of a label and words."""
    spec, data = model.specification, model.training
    rows = [("Model", FAMILIES[spec.family]), ("Features", _listed(data.X))]
    if data.Z is not None and not data.tied:
        rows.append(("Weighed features", _listed(data.Z)))
    rows.append(("Kernel", "a function" if spec.calls_kernel else str(spec.kernel)))
    if any(h.kind == "lengthscale" for h in spec.hyperparameters):
        each = "one for each feature" if spec.ard else "one for all features"
        rows.append(("Lengthscales", each))
    if spec.family == "GPX":
        rows.append(("Weights", WEIGHTS[spec.weight_prior]))
    if data.groups is not None:
        own = "a level" if spec.family == "GP" else "weight functions"
        rows.append(("Groups", f"{len(data.groups.labels)}, each with {own} of its own"))
    if data.outputs is not None:
        names, values = data.outputs.names, data.outputs.values
        seen = f"{data.n} of {values.size} values observed"
        rows.append(("Outputs", f"{len(names)}: {_some(names)}; {seen}"))
        rows.append(("Functions that they share", str(spec.correlation)))
    elif spec.correlation:
        rows.append(("Functions that classes share", str(spec.correlation)))
    rows += [
        ("Likelihood", spec.likelihood + (f", {spec.link} link" if spec.link else "")),
        ("Approximation", "none" if spec.approximation is None else str(spec.approximation)),
        ("Representation", spec.representation),
    ]
    if spec.constraints is not None:
        rows.append(("Constraints", ", ".join(spec.constraints.names)))
    scaled = "the features" + (" and the response" if data.scales_y else "")
    said = f"{scaled} standardised" if model.scale else "in the units of the data"
    return [*rows, ("Scale of hyperparameters", said)]


def _listed(frame: Any) -> str:
    """Number of the user's own columns, and their names; how many levels they have."""
    names = [
        f"{name} ({len(frame.levels[name])} levels)" if name in frame.levels else name
        for name in frame.sources
    ]
    return f"{len(names)}: {_some(names)}"


def _some(names: Sequence[str]) -> str:
    """The first names, and whether there are more."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def hyperparameters(model: Any) -> list[tuple[str, str, str]]:
    """Name, dims, and prior or fixed values of each hyperparameter."""
    names = model.hyperparameters
    return [(name, ", ".join(model.dims_of(name)), _prior(model, name)) for name in names]


def _prior(model, name):
    if name in model.fixed:
        values = np.ravel(model.fixed[name])
        values = values[:1] if (values == values[0]).all() else values
        return "fixed at " + ", ".join(f"{value:.4g}" for value in values)
    variable = model.variables[name]
    # A variable made from ``pm.HalfNormal.dist(1)`` was not given a method for this by PyMC.
    written = variable.str_repr() if hasattr(variable, "str_repr") else str_for_dist(variable)
    made_of = written.partition("Deterministic(f(")[2].removesuffix("))")
    return f"made of {made_of}" if made_of else written.partition("~")[2].strip()


def described(model: Any) -> str:
    """What a model is, as a table in plain text: the `repr` of a model."""
    (_, family), *rest = structure(model)
    data = model.training
    where = (", read in parts" if data.stored else ", not stored") if data.streamed else ""
    n = data.n if data.streamed else len(data.X)
    rows = [("Response", data.y_name + _rounded(data)), ("Rows", f"{n}{where}"), *rest]
    head = ("hyperparameter", "dims", "prior")
    return "\n\n".join([family, _columns(rows), _columns([head, *hyperparameters(model)])])


def _rounded(data):
    """The steps that a response, or each output, was recorded in; "" where none were found."""
    steps = np.unique(np.atleast_1d(data.resolution))
    found = [f"{step:.6g}" for step in steps[steps > 0.0]]
    return f", recorded in steps of {' and '.join(found)}" if found else ""


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of words, each column as wide as its longest."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
