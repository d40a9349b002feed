"""Values of hyperparameters that are given: a dict, or a fit of another model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayes_gpx.aliases import Draws
from bayes_gpx.validation import one_of


def grouped(h: Any, training: Any) -> bool:
    """Whether a hyperparameter of each feature has one value for all indicators of a column."""
    return h.dim == "feature" and bool(training.X.levels)


def shapes_wanted(shape: tuple[int, ...]) -> str:
    """The shapes that a hyperparameter may have, in words."""
    return "a scalar" + (f" or {' x '.join(map(str, shape))} values" if shape else "")


def fixed_value(h: Any, value: Any, training: Any, specification: Any) -> np.ndarray:
    """Broadcast a fixed hyperparameter to its dim; raise ValueError unless finite and positive."""
    # `sigma_w` and `offset` may be 0. It raises too where the value does not fit the dim.
    array = np.asarray(value)
    least = "" if h.signed else "at least 0" if h.may_be_zero else "above 0"
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"{h.name} is {value!r}. Pass finite numbers {least}.".replace(" .", "."))
    if not h.signed and ((array < 0).any() or ((array == 0).any() and not h.may_be_zero)):
        raise ValueError(f"{h.name} is {value!r}. Pass numbers {least}.")
    shape = tuple(specification.size(dim, training) for dim in h.dims)
    if grouped(h, training) and array.shape == (*shape[:-1], training.sources[0]):
        array = array[..., training.X.groups]
    if array.shape not in ((), shape):
        wanted = shapes_wanted(shape) + (f", one for each {' and '.join(h.dims)}" if shape else "")
        raise ValueError(f"{h.name} has shape {array.shape}. Pass {wanted}.")
    return np.broadcast_to(array.astype("float64"), shape)


def checked(model: Any, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Convert values of all inferred hyperparameters to arrays, and check them."""
    for name in values:
        one_of("hyperparameters", name, model.hyperparameters)
    missing = [n for n in model.hyperparameters if n not in values and n not in model.fixed]
    if missing:
        raise ValueError(
            f"The dict of fixed hyperparameters lacks {missing}. Pass all of "
            f"{list(model.hyperparameters)}, on the model's scale."
        )
    known = {h.name: h for h in model.specification.hyperparameters}
    return {
        name: fixed_value(known[name], value, model.training, model.specification)
        if name in known
        else _own_value(name, value, model.hyperparameters[name])
        for name, value in values.items()
    }


def _own_value(name: str, value: Any, ndim: int) -> np.ndarray:
    """Check a fixed value of a variable that a callable kernel brought."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all() or array.ndim != ndim:
        raise ValueError(f"{name} is {value!r}. Pass finite numbers with {ndim} dimensions.")
    return array.astype("float64")


def medians(model: Any, given: Draws) -> Mapping[str, Any]:
    """Hyperparameters on the model's scale: a dict as it is, or the medians of a fit."""
    if isinstance(given, dict):
        return given
    if "posterior" not in getattr(given, "children", {}):
        raise ValueError("start has no group `posterior`. Pass a dict or a fit.")
    center = given["posterior"].to_dataset().median(("chain", "draw"))
    own = model.posterior_names.items()
    return {name: center[kept].values for name, kept in own if kept in center}


def by_variable(model: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is not fixed, by variable name, with one value for each of the user's own columns."""
    values = {name: value for name, value in values.items() if name not in model.fixed}
    found = {model.posterior_names[name]: value for name, value in values.items()}
    _, first = np.unique(model.training.X.groups, return_index=True)
    for h in model.specification.hyperparameters:
        if h.name in values and grouped(h, model.training):
            value = np.asarray(values[h.name])
            found[model.posterior_names[h.name]] = value[..., first] if value.ndim else value
    return found
