"""Names and descriptions in results: values of rows, their origin, and second names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayes_gpx.data.dates import unit_of
from bayes_gpx.data.features import INTERCEPT, Frame
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.protocols import ModelLike
from bayes_gpx.draws.stores import describe
from bayes_gpx.likelihoods import KNOWN
from bayes_gpx.system.warning import collected

RESPONSE = "response"
"""Second name of the mean response, for every likelihood."""

AT = "`at`"
"""Place of the value in words about several events."""

COUNTED = {"rate": "expected count"}
"""What plots and reports call a mean response, at its exposure or trials."""


def origin(model: ModelLike) -> dict[str, Any]:
    """What every result's attrs say of where it comes from."""
    found = {
        "likelihood": str(model.specification.likelihood),
        "bayes_gpx": version("bayes_gpx"),
        "pymc": pm.__version__,
    }
    if names := getattr(model.specification.observation, "names", ()):
        found["categories"] = [*names]  # of the codes 0, 1, ...
    event, weight = model.specification.event, model.training.weight
    if event is not None:
        found["event"] = event.response_units.format(y=model.training.y_name)
    return found if weight is None else found | {"weight": weight, "scale": "latent"}


def recorded[**P](function: Callable[P, xr.Dataset]) -> Callable[P, xr.Dataset]:
    """Let results and their stores name the seed of the call, and its warnings, in attrs."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset:
        with collected() as texts:
            found = function(*args, **kwargs)
        seed: Any = kwargs.get("seed")
        known = {} if seed is None else {"seed": int(seed)}
        told = {"warnings": list(dict.fromkeys(texts))} if texts else {}
        if (known or told) and "source" in found.encoding:  # read from the store of the call
            describe(found.encoding["source"], known | told)
        return found.assign_attrs(known | told)

    return call


def units_of_result(result: xr.Dataset) -> str:
    """Units of a result, or of the one output or class that was selected from it."""
    of_output, label = result.coords.get("units"), result.coords.get("class")
    if of_output is not None and of_output.ndim == 0:
        return str(of_output.item())
    units = _of_one_event(result, str(result.attrs["units"]))
    return units if label is None or label.ndim else f"{units}: {label.item()}"


def of_processes(result: xr.Dataset) -> bool:
    """Whether the classes of a result are processes, with a unit each."""
    known = KNOWN.get(result.attrs.get("likelihood", ""), {})
    return any(likelihood.processes for likelihood in known.values())


def of_quantile(result: xr.Dataset) -> bool:
    """Whether f is a quantile of the response, and not its mean."""
    return str(result.attrs.get("likelihood")).startswith("asymmetric_laplace")


def of_mean(result: xr.Dataset) -> xr.Dataset:
    """The part of the mean, if a result is about two processes; any other result as it is."""
    return result.sel({"class": "mean"}) if of_processes(result) else result


def under_one_name(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Copy mean and sd of y, a probability or a rate as moments of the response."""
    return {f"{RESPONSE}_{part}": variables[f"{name}_{part}"] for part in ("mean", "sd")}


def coded(frame: Frame, values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Values of named columns (..., k): numbers, or positions of levels, NaN between levels."""
    place = {column: j for j, column in enumerate(frame.columns)}
    parts = []
    for name in names:
        own = values[..., [place[column] for column in frame.of_source(name)]]
        if name in frame.levels:
            ends = np.stack([own.max(axis=-1), own.sum(axis=-1)])
            whole = (np.abs(ends - 1.0) < 1e-9).all(axis=0)  # averages of a level are rounded
            parts.append(np.where(whole, own.argmax(axis=-1), np.nan))
        else:
            parts.append(own[..., 0])
    return np.stack(parts, axis=-1)


def values_by_source(
    frame: Frame, values: np.ndarray, names: Sequence[str], *, baseline: bool = False
) -> dict[str, xr.Variable]:
    """Values of the user's columns at rows (m, d): `value` and, with any levels, their names.

    With `baseline`, for values (d,) or (B, d), the names are `baseline` and `baseline_level`.
    """
    # `level` is empty for a number.
    found = coded(frame, values, names)
    dims = ("baseline_row" if baseline else "obs", "feature")[-found.ndim :]
    said = {"baseline" if baseline else "value": xr.Variable(dims, found)}
    if frame.levels:
        level = [_named(frame.levels.get(name, ()), found[..., j]) for j, name in enumerate(names)]
        named = "baseline_level" if baseline else "level"
        said[named] = xr.Variable(dims, np.stack(level, axis=-1))
    return said


def units_of(training: TrainingData, frame: Frame, labels: Sequence[str]) -> dict[str, Any]:
    """Coordinate `unit` of features, days since a date for dates; nothing if none is known."""
    dates = {column: unit_of(origin) for column, origin in frame.origins.items()}
    units = [(dict(training.units) | dates).get(label, "") for label in labels]
    return {"unit": ("feature", units)} if any(units) else {}


def _named(levels: Sequence[str], codes: np.ndarray) -> np.ndarray:
    """Name of the level at each of the codes, empty where there is none."""
    which = np.where(np.isnan(codes), len(levels), codes) if levels else np.zeros(codes.shape)
    return np.array([*levels, ""])[which.astype(int)]


def values_of(frame: Frame, values: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """Values of the components (m, c), from the values of all columns; 1 for an intercept."""
    columns = [*frame.columns, INTERCEPT]
    values = np.append(values, np.ones((len(values), 1)), axis=1)
    return values[:, [columns.index(label) for label in labels]]


def event_of(result: xr.Dataset) -> str | None:
    """The event of y that a result is of, in words; None for y itself."""
    if "event" not in result.attrs:
        return None
    return _of_one_event(result, str(result.attrs["event"]))


def _of_one_event(result: xr.Dataset, said: str) -> str:
    """Words about events, of the one that was selected."""
    if "at" not in result.coords or result["at"].ndim:
        return said
    at = result["at"].item()
    return said.replace(AT, at if isinstance(at, str) else f"{at:g}")


def side_by_side(
    dim: str, labels: Sequence[Any], each: Sequence[xr.Dataset], common: Sequence[str]
) -> xr.Dataset:
    """Join results along a last dim, but for variables that are common to all of them."""
    apart = [
        name
        for name, own in each[0].coords.items()
        if name not in each[0].dims and any(not part[name].equals(own) for part in each)
    ]
    found = xr.concat(
        [part.drop_vars(common).reset_coords(apart) for part in each],
        xr.DataArray(list(labels), dims=dim, name=dim),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    ).set_coords(apart)
    found = found.transpose(..., dim).transpose(..., "ci_bound", missing_dims="ignore")
    if "relative_jitter" in found.attrs:
        found.attrs["relative_jitter"] = max(part.attrs["relative_jitter"] for part in each)
    if "dependence" in found.attrs:
        of = "values of at" if dim == "at" else f"{dim}s"
        found.attrs["dependence"] += f", independent between {of}"
    return found
