"""A model in words, for its `repr` and for reports, and the signature that identifies its fits."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.printing import str_for_dist
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayes_gpx.data.training import TrainingData
from bayes_gpx.kernels.precomputed import Precomputed
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.system.digests import digest

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

NUMBERS = 10
"""So many different numbers of a prior are listed."""

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
        ("Likelihood", str(spec.likelihood) + (f", {spec.link} link" if spec.link else "")),
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


def _prior(model: Any, name: str) -> str:
    if name in model.fixed:
        values = np.ravel(model.fixed[name])
        values = values[:1] if (values == values[0]).all() else values
        return "fixed at " + ", ".join(f"{value:.4g}" for value in values)
    variable = model.variables[name]
    # A variable made from ``pm.HalfNormal.dist(1)`` was not given a method for this by PyMC.
    written = variable.str_repr() if hasattr(variable, "str_repr") else str_for_dist(variable)
    if made_of := written.partition("Deterministic(f(")[2].removesuffix("))"):
        return f"made of {made_of}"
    return _with_numbers(written.partition("~")[2].strip(), variable.owner)


def _with_numbers(said: str, node: Any) -> str:
    """A distribution in words, with numbers for PyMC's "<constant>", and rates for scales."""
    family, _, inner = said.removesuffix(")").partition("(")
    words = inner.split(", ")
    try:
        given = node.op.dist_params(node)
    except ValueError:  # truncated distributions have no such list, and their size among the inputs
        given = [v for v in node.inputs if isinstance(v.type, pt.TensorType)]
    if len(words) != len(given):
        return said
    both = [*zip(words, given, strict=True)]
    if family.startswith("Truncated") and given[0].dtype == "int64":
        both = both[1:]
    rate = RATES.get(family.removeprefix("Truncated"))
    return f"{family}({', '.join(_number(*one, k == rate) for k, one in enumerate(both))})"


RATES = {"Gamma": 1, "Exponential": 0}
"""Place of the parameter that PyMC is given as a rate, and keeps as its inverse."""


def _number(word: str, parameter: Any, is_rate: bool) -> str:
    """A parameter's numbers, if PyMC's word for it is not a variable or an expression."""
    known = word == "<constant>" or re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", word)
    if not known or (word != "<constant>" and not is_rate):
        return word
    values = np.ravel(parameter.eval())
    return _numbers(1.0 / values if is_rate else values)


def _numbers(values: np.ndarray) -> str:
    """One number, or several in brackets."""
    known = [f"{value:.4g}" for value in values]
    if (values == values[0]).all():
        return known[0]
    return f"[{', '.join(known[:NUMBERS])}{', ...' * (len(known) > NUMBERS)}]"


def described(model: Any) -> str:
    """What a model is, as a table in plain text: the `repr` of a model."""
    (_, family), *rest = structure(model)
    data = model.training
    where = (", read in parts" if data.stored else ", not stored") if data.streamed else ""
    n = f"{data.moments.n}{where}"
    rows = [("Response", data.y_name + _rounded(data)), ("Rows", n), *rest]
    head = ("hyperparameter", "dims", "prior")
    return "\n\n".join([family, _columns(rows), _columns([head, *hyperparameters(model)])])


def _rounded(data: TrainingData) -> str:
    """The steps that a response, or each output, was recorded in; "" where none were found."""
    steps = np.unique(np.atleast_1d(data.resolution))
    found = [f"{step:.6g}" for step in steps[steps > 0.0]]
    return f", recorded in steps of {' and '.join(found)}" if found else ""


def _columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of words, each column as wide as its longest."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(word.ljust(w) for word, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


PROBES = 5
"""Number of training rows at which a user's kernel is evaluated."""


def probe_of(model: Any) -> list[str]:
    """Covariances by a callable kernel between a few training rows, with six digits."""
    # Its variables have made-up values between 0.3 and 0.8: a fit may be used with other priors of
    # them, but not with another kernel.
    training, points = model.training, model.training.corners
    if not training.streamed:  # values between the rows need not mean anything to the kernel
        rows = np.unique(np.linspace(0, training.n - 1, PROBES).astype(int))
        points = training.X_scaling.apply(training.X.values[rows])
    K, made_up = model.called_kernel(points), {}
    above = set(ancestors([K]))
    inside = [variable for variable in model.own_variables if variable in above]
    for k, variable in enumerate(sorted(inside, key=lambda variable: variable.name)):
        shape = tuple(variable.shape.eval(mode=MODE))
        steps = 0.618034 * (k + 1 + np.arange(np.prod(shape, dtype=int)))
        values = (0.3 + 0.5 * (steps % 1.0)).reshape(shape)
        made_up[variable] = pt.constant(values.astype(variable.dtype))
    probed = graph_replace([K], made_up)[0] if made_up else K
    found = pytensor.function([], probed, mode=MODE)()
    return [f"{value:.6g}" for value in found[np.triu_indices(len(found))]]


def signature_of(model: Any) -> str:
    """Text that tells one model from another: structure, columns and size."""
    spec, data = model.specification, model.training
    kernel = spec.kernel
    described = getattr(kernel, "described", "callable") if spec.calls_kernel else str(kernel)
    said = {
        "family": spec.family,
        "kernel": described,
        "ard": spec.ard,
        "likelihood": str(spec.likelihood),
    }
    if isinstance(kernel, Precomputed):
        said["covariance"] = digest(kernel.labels, kernel.matrix)
    if spec.calls_kernel:
        said["kernel_probe"] = model.kernel_probe
    if spec.link is not None:
        said["link"] = spec.link
    said["weight_prior"] = spec.weight_prior
    if spec.hierarchical:
        said["representation"] = spec.representation
    if spec.constraints:
        said["constraints"] = digest(spec.constraints)
    said |= {
        "scale": model.scale,
        "fixed": {name: value.tolist() for name, value in model.fixed.items()},
        "features": data.X.columns,
        "z_features": data.Z and data.Z.columns,
        "n": data.n,
    }
    if data.Z is not None and data.Z.sparse:  # which no group of a fit contains
        said["Z"] = digest(data.Z.values)
    if data.groups is not None:
        said["groups"] = data.groups.labels
    if spec.outputs is not None:
        said["outputs"] = list(data.outputs.names)
    if spec.outputs is not None or spec.correlation:
        said["correlation"] = spec.correlation
    if spec.approximation is not None:
        said["approximation"] = repr(spec.approximation)
    return json.dumps(said)
