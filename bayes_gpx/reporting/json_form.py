"""Results as JSON, for people and programs that check them without Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.aliases import Draws
from bayes_gpx.draws.intervals import interval_probability
from bayes_gpx.draws.points import points, rows_outside
from bayes_gpx.model.description import hyperparameters, structure
from bayes_gpx.reporting.estimands import (
    estimand,
    function_of,
    intervals_of,
    quantities_of,
    summarized,
    unit,
)
from bayes_gpx.reporting.fit import Fit
from bayes_gpx.reporting.page import Prose
from bayes_gpx.reporting.sections.cautions import OF_FIT
from bayes_gpx.system.digests import digest
from bayes_gpx.system.versions import versions

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

VERSION = 1
"""Version of `schema.json`; a member that is removed or changes its meaning raises it."""


def to_json(result: xr.Dataset, *, model: Model | None = None, idata: Draws | None = None) -> str:
    """Convert a result to JSON that others can check without Python.

    Use it to hand results to a colleague, an auditor or a program. Use `to_pandas` for tables, and
    `save` for the fit itself.

    Parameters
    ----------
    result : xarray.Dataset
        The result of an explanation function.
    model : GP or GPX, optional
        Adds the description of the model, its priors, and digests of model and training data.
    idata : xarray.DataTree or dict, optional
        The fit; needs `model`. Adds convergence, cautions and the seed of the fit.

    Returns
    -------
    str
        A JSON object. The package's file `schema.json` describes it in JSON Schema 2020-12:

        ================  =====================================================================
        member            content
        ================  =====================================================================
        `version`         version of the schema
        `function`        the function that returned the result
        `estimands`       what each quantity estimates, in words
        `units`           unit of each quantity
        `baseline`        its name and values, or null
        `intervals`       their probability, and the kind of each quantity's interval
        `numbers`         dims, coordinates and variables of the result; see `from_json`
        `model`           structure, priors, number of rows; or null
        `convergence`     method, draws and diagnostics of the fit; or null
        `cautions`        sentences that readers should know; null without `model`
        `completeness`    largest error of the sum of the parts, and largest sum; or null
        `warnings`        warnings that the call gave
        `versions`        of Python and the packages
        `seed`            seeds of the fit and of the call, null where none was given
        `digests`         SHA-256 of the model and of the training data, or null
        ================  =====================================================================

        Draws are left out. A quantity that has only draws gets its mean, sd and equal-tailed
        interval. Numbers that are not finite are null, and dates are ISO 8601 text.

    Raises
    ------
    ValueError
        If `result` is not from an explanation function, or `idata` is given without `model`.

    Examples
    --------
    >>> import json
    >>> import numpy as np
    >>> import bayes_gpx as bx
    >>> X = np.random.default_rng(1).normal(size=(30, 2))
    >>> model = bx.GP(X, X[:, 0] ** 2)
    >>> theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    >>> found = bx.attributions(model, theta, X[:3], keep="summary", progressbar=False)
    >>> said = json.loads(bx.to_json(found, model=model, idata=theta))
    >>> said["estimands"]["attribution"]
    'the attribution of f(x) - f(baseline) to each feature by integrated gradients'
    """
    if idata is not None and model is None:
        raise ValueError("idata was given without model. Pass both, or only the model.")
    fit = None if model is None or idata is None else Fit(model, idata)
    return json.dumps(document(result, model, fit), indent=1, allow_nan=False)


def document(result: xr.Dataset, model: Model | None, fit: Fit | None) -> dict[str, Any]:
    """The content of `to_json`."""
    prob = interval_probability(None, result)
    function, result = function_of(result), summarized(result, prob)
    quantities = quantities_of(result)
    intervals = intervals_of(result, quantities)
    of_fit = fit.idata.attrs.get("seed") if fit is not None and fit.fitted else None
    seeds = {"fit": of_fit, "call": result.attrs.get("seed")}
    own = {name: result.attrs[name] for name in ("bayes_gpx", "pymc") if name in result.attrs}
    return {
        "version": VERSION,
        "function": function,
        "estimands": {name: estimand(result, name) for name in quantities},
        "units": {name: unit(result, name, names) for name, names in quantities.items()},
        "baseline": _baseline(result),
        "intervals": {"probability": prob, "kinds": intervals} if intervals else None,
        "numbers": _numbers(result),
        "model": None if model is None else _model(model),
        "convergence": None if fit is None else _convergence(fit),
        "cautions": None if model is None else _cautions(model, fit, result),
        "completeness": _completeness(result),
        "warnings": np.atleast_1d(result.attrs.get("warnings", [])).tolist(),
        "versions": versions() | own,
        "seed": {name: None if seed is None else int(seed) for name, seed in seeds.items()},
        "digests": None if model is None else _digests(model),
    }


def from_json(text: str) -> xr.Dataset:
    """Read the numbers of `to_json` back as a Dataset, without draws.

    Parameters
    ----------
    text : str
        The result of `to_json`.

    Returns
    -------
    xarray.Dataset
        The variables, coordinates and attributes of the result. Null is NaN.

    Raises
    ------
    ValueError
        For another version of the schema.
    """
    said = json.loads(text)
    if said.get("version") != VERSION:
        raise ValueError(
            f"The text has version {said.get('version')!r} of the schema, and this version of "
            f"bayes_gpx reads {VERSION}. Read it with the version of bayes_gpx that it names."
        )
    numbers = said["numbers"]

    def variable(entry: dict[str, Any]) -> tuple:
        shape = [numbers["dims"][dim] for dim in entry["dims"]]
        values = np.array(entry["data"], entry["dtype"]).reshape(shape)
        return entry["dims"], values, entry["attrs"]

    variables, coords = (
        {name: variable(entry) for name, entry in numbers[part].items()}
        for part in ("data_vars", "coords")
    )
    return xr.Dataset(variables, coords, numbers["attrs"])


def _numbers(result: xr.Dataset) -> dict[str, Any]:
    """A Dataset in the layout of `xarray.Dataset.from_dict`, with the type of each variable."""
    return {
        "dims": {str(dim): size for dim, size in result.sizes.items()},
        "coords": {str(name): _variable(v) for name, v in result.coords.items()},
        "data_vars": {str(name): _variable(v) for name, v in result.items()},
        "attrs": plain(dict(result.attrs)),
    }


def _variable(array: xr.DataArray) -> dict[str, Any]:
    values = np.asarray(array.values)
    if values.dtype.kind not in "bifuUM":
        values = values.astype(object)
    return {
        "dims": [str(dim) for dim in array.dims],
        "dtype": str(values.dtype.newbyteorder("=")),
        "attrs": plain(dict(array.attrs)),
        "data": plain(values),
    }


def plain(value: Any) -> Any:
    """A value as JSON has it; null for numbers that are not finite, and text for other objects."""
    if isinstance(value, dict):
        return {str(name): plain(own) for name, own in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        value = np.where(np.isnat(value), cast(Any, None), np.datetime_as_string(value))
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _baseline(result: xr.Dataset) -> dict[str, Any] | None:
    """Name of the baseline, and its values by feature: of one, of each row, or of each name."""
    name = result.attrs.get("baseline")
    if name is None:
        return None
    if name == "named":
        name = plain(result["baseline"].values)
    values = result.get("baseline_value", result.get("baseline"))
    if values is None or "feature" not in values.dims:
        return {"name": name, "values": None}
    moved = values.transpose("feature", ...)
    labels = map(str, moved["feature"].values)
    return {"name": name, "values": dict(zip(labels, plain(moved.values), strict=True))}


def _completeness(result: xr.Dataset) -> dict[str, float | None] | None:
    """The largest error of a sum of attributions or components, and the largest sum."""
    if "completeness_residual" not in result:
        return None
    whole = "difference_mean" if "difference_mean" in result else "f_mean"
    sizes = {"largest_error": "completeness_residual", "largest_sum": whole}
    return {said: plain(float(np.abs(result[name]).max())) for said, name in sizes.items()}


def _model(model: Model) -> dict[str, Any]:
    names = ("name", "dims", "prior")
    return {
        "response": str(model.training.y_name),
        "rows": model.training.moments.n,
        "structure": dict(structure(model)),
        "hyperparameters": [dict(zip(names, row, strict=True)) for row in hyperparameters(model)],
    }


def _convergence(fit: Fit) -> dict[str, Any]:
    found, (state, summary) = fit.diagnosis, fit.convergence
    numbers = ("r_hat", "ess_bulk", "ess_tail", "divergences", "bfmi")
    return {
        "method": fit.method,
        "chains": len(fit.hyper.chain),
        "draws": len(fit.hyper.chain) * len(fit.hyper.draw),
        "state": state,
        "summary": summary,
        **{name: None if found is None else plain(getattr(found, name)) for name in numbers},
        "pareto_k": plain(fit.idata.attrs.get("khat") if fit.gives == "weighted" else None),
    }


def _cautions(model: Model, fit: Fit | None, result: xr.Dataset) -> list[str]:
    """Sentences of the report about the fit, and about rows outside of the training data."""
    found = [] if fit is None else [cast(Prose, p).text for make in OF_FIT for p in make(fit)]
    training = model.training
    beside = training.groups or training.outputs or training.X.levels or training.X.origins
    own_Z = training.Z is not None and not training.z_is_x
    rows = result.get("value")
    if not (beside or own_Z) and rows is not None and set(rows.dims) == {"obs", "feature"}:
        frame = rows.transpose("obs", "feature").to_pandas()
        if set(frame) == set(training.X.columns) and np.isfinite(frame.values).all():
            outside = rows_outside(model, points(model, frame))
            found += [] if outside is None else [outside]
    return found


def _digests(model: Model) -> dict[str, str | None]:
    training, data = model.training, None
    if not training.streamed:
        tables = [training.X, training.Z] if training.Z is not None else [training.X]
        columns = [(list(table.columns), table.values) for table in tables]
        data = digest(*[part for pair in columns for part in pair], training.y_name, training.y)
    return {"model": digest(model.signature), "data": data}
