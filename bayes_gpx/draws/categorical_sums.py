"""What indicators of a categorical column add, summed to one number for the column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.validation import one_of

if TYPE_CHECKING:
    from bayes_gpx.data.features import Frame


def of_columns(
    frame: Frame,
    name: str,
    ask: Callable[..., xr.Dataset],
    *,
    features: Sequence[str] | None = None,
    covariance: bool = False,
    known: bool = True,
    **options: Any,
) -> xr.Dataset:
    """Ask for every indicator, and sum those of a column, with the exact sd of the sum.

    Parameters
    ----------
    frame : Frame
        The training features, some of them indicators.
    name : str
        Of the quantity.
    ask : callable
        Takes features, covariance and the options; returns a Dataset.
    features : list of str, optional
        Only these of the user's own columns.
    covariance : bool
    known : bool
        Whether `ask` can give the covariance, from which the sd of a sum follows.

    Returns
    -------
    xarray.Dataset
        That of `ask` with the user's columns along `feature`. `value` (and `baseline`) of a
        categorical column is the position of its level, NaN between levels; the coordinate
        `level` (obs, feature) is its name, empty for a number.
    """
    if options.get("path") is not None:
        raise ValueError(
            "path was given for a model with categorical columns; expected none, as what is summed "
            "over levels is kept in memory. Explain fewer observations at a time with obs=."
        )
    for feature in features or ():
        one_of("features", feature, frame.sources)
    if features is not None:
        options["features"] = [c for feature in features for c in frame.of_source(feature)]
    if known or covariance:
        options["covariance"] = True
    found = ask(**options)
    sources = list(frame.sources if features is None else features)
    belongs = [np.isin(found["feature"].values, frame.of_source(source)) for source in sources]
    shares = xr.DataArray(
        np.array(belongs, dtype=float),
        {"source": sources, "feature": found["feature"].values},
        ["source", "feature"],
    )
    summed = {}
    for variable, array in found.items():
        kind = str(variable).removeprefix(name)
        if kind in ("", "_mean"):
            summed[variable] = _sum(array, shares, "feature")
        elif kind == "_cov":
            summed[variable] = _sum(_sum(array, shares, "feature"), shares, "feature_bis")
        elif variable in ("value", "baseline", "baseline_value"):
            summed[variable] = _coded(array, frame, sources)
        elif variable == "center":
            summed[variable] = array.reindex(feature=sources)
        elif "feature" not in array.dims:
            summed[variable] = array
    if known:
        cov = summed[f"{name}_cov"]
        variances = [cov.sel(feature=s, feature_bis=s, drop=True) for s in sources]
        variance = xr.concat(variances, xr.DataArray(sources, dims="feature", name="feature"))
        sd = np.sqrt(variance.clip(min=0.0))  # round-off may leave less
        summed[f"{name}_sd"] = sd.transpose(*found[f"{name}_sd"].dims)
    if not covariance:
        summed.pop(f"{name}_cov", None)
    named = xr.Dataset(summed, attrs=found.attrs)
    return named.assign_coords(level=_named(summed["value"], frame))


def values_by_source(
    frame: Frame, values: np.ndarray, names: Sequence[str]
) -> dict[str, xr.Variable]:
    """What a Dataset says of X at rows (m, d): `value` and, of levels, the coordinate `level`.

    As in `of_columns`, for the user's columns of these names.
    """
    every = xr.DataArray(values, {"feature": list(frame.columns)}, ("obs", "feature"))
    if not frame.levels:
        return {"value": every.sel(feature=list(names)).variable}
    value = _coded(every, frame, names)
    return {"value": value.variable, "level": _named(value, frame).variable}


def _sum(array, shares, dim):
    summed = xr.dot(array, shares.rename(feature=dim), dim=dim).rename(source=dim)
    return summed.transpose(*array.dims).assign_attrs(array.attrs)


def _coded(array, frame, sources):
    """Numbers as they are; of a categorical column the position of its level."""
    parts = []
    for source in sources:
        if source not in frame.levels:
            parts.append(array.sel(feature=source, drop=True))
            continue
        indicators = array.sel(feature=frame.of_source(source))
        whole = (indicators.max("feature") == 1.0) & (indicators.sum("feature") == 1.0)
        parts.append(indicators.argmax("feature").where(whole))
    joined = xr.concat(parts, xr.DataArray(sources, dims="feature", name="feature"))
    return joined.transpose(*array.dims)


def _named(value, frame):
    names = np.full(value.shape, "", dtype=object)
    at = value.dims.index("feature")
    for j, source in enumerate(value["feature"].values):
        levels = frame.levels.get(str(source), ())
        for code, level in enumerate(levels):
            here = np.take(value.values, j, axis=at) == code
            np.moveaxis(names, at, -1)[..., j][here] = level
    return xr.DataArray(names.astype(str), value.coords, value.dims)
