"""Save and load: data, scaling, specification and posterior in one netCDF file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, replace
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import h5py
import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx.aliases import Priors
from bayes_gpx.data.categorical import indicator
from bayes_gpx.data.dates import first_date
from bayes_gpx.data.features import INTERCEPT, Frame
from bayes_gpx.data.moments import MOMENTS, Moments
from bayes_gpx.data.out_of_core import OutOfCore
from bayes_gpx.data.reading import read_training
from bayes_gpx.data.row_data import RowData, RowTotals
from bayes_gpx.data.scaling import Scaling
from bayes_gpx.data.sparse import PARTS, frame_of
from bayes_gpx.data.training import TrainingData
from bayes_gpx.draws.hyperparameter_draws import refuse_other_model, refuse_swapped
from bayes_gpx.kernels.precomputed import Precomputed
from bayes_gpx.likelihoods.base import Likelihood
from bayes_gpx.likelihoods.continuous import KnownNoise
from bayes_gpx.likelihoods.quantiles import AsymmetricLaplace
from bayes_gpx.model.gp import GP, GPX
from bayes_gpx.model.interaction_model import Effects
from bayes_gpx.model.specification import Specification
from bayes_gpx.model.stored_summaries import summaries, summaries_in
from bayes_gpx.posteriors.constraints import Constraints
from bayes_gpx.processes.approximations import APPROXIMATIONS
from bayes_gpx.system.digests import BLANK, intact, sealed
from bayes_gpx.system.files import read_path, replaced, writable

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

FORMAT = 1
"""Version of the file layout; files with another version are refused."""

FAMILIES: dict[str, type[Model]] = {"GP": GP, "GPX": GPX}
"""Classes of models by the family that a file names."""

SEALED = b'"sealed": true'
"""Bytes of a file that has a checksum, as JSON spells it in the settings."""

CALLABLE = "callable"
"""Stands in a file for a kernel that is a function of the user's, who passes it again."""

PRECOMPUTED = "precomputed"
"""Stands in a file for a covariance of labels, which is among its variables."""

EFFECTS = "interaction_model"
"""Stands in a file for the kernel of an `interaction_model`, with its fields."""

ROWS = "bayes_gpx_rows"
"""Attribute of a file that describes the fate of out-of-core rows."""

NOT_STORED = (
    "The training rows were read in parts and are not stored: the group bayes_gpx has sums over "
    "them or what they say at each draw, their moments and their scaling, and its X, Z and y are "
    "one row, of medians of a sample."
)

GROUP = "bayes_gpx"
"""Group of a file that holds the model; all others are the fit's."""


def save(model: Model, idata: xr.DataTree, path: str | PathLike) -> None:
    """Write a model and its fit to one netCDF file.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        A fit, with all its groups, including groups added by `bayes_gpx.attach`.
    path : str or path
        Replaced as a whole once everything is written.

    Raises
    ------
    ValueError
        If the path cannot be written to, or `idata` is no fit of this model.

    Notes
    -----
    For out-of-core data, the file contains sums, moments and scaling, but no rows; its attribute
    `bayes_gpx_rows` states this. The loaded model predicts and explains rows passed as `X_new`. X
    and y in the file are one row, the medians of a sample. If the sums depend on hyperparameters,
    as with `Inducing`, the file contains the posterior at each draw, m x m numbers for m points,
    and `save` passes over the rows once for each draw.

    A callable kernel or prior cannot be written; pass it to `load` again. The file contains a
    checksum of itself, from which `load` detects damage.
    """
    refuse_swapped(model, idata)
    model.training.refuse_one_output()
    path = writable(path)
    refuse_other_model(model, idata)
    spec, kernel = asdict(model.specification), model.specification.kernel
    for name in ("fixed_basis", "deviating", "event"):  # found out, or asked for, again
        del spec[name]
    if not isinstance(model.specification.likelihood, str | KnownNoise | AsymmetricLaplace):
        spec["likelihood"] = CALLABLE
    if isinstance(kernel, Effects):
        spec["kernel"] = {EFFECTS: asdict(kernel)}
    elif not isinstance(kernel, str):
        spec["kernel"] = PRECOMPUTED if isinstance(kernel, Precomputed) else CALLABLE
    if model.training.streamed:
        model = model.summarized(idata)
    approximation, training = model.specification.approximation, model.training
    if approximation is not None:
        spec["approximation"] = [type(approximation).__name__, spec["approximation"]]
    settings = {
        "format": FORMAT,
        "sealed": True,
        "specification": spec,
        "scale": model.scale,
        "intercept": training.intercept,
        "z_is_x": training.z_is_x,
        "name": model.name,
        "streamed": training.streamed,
        "n": training.n,
        "row_totals": None if training.row_data is None else asdict(training.totals),
        "y_name": training.y_name,
        **_scaling_of_y(training),
        "labels": _plain(training.labels),
        "resolution": np.asarray(training.resolution).tolist(),
        "groups": None if training.groups is None else training.groups.labels,
        "levels": {
            name: frame.levels
            for name, frame in (("X", training.X), ("Z", training.Z))
            if frame is not None
        },
        "origins": {
            name: {column: str(origin) for column, origin in frame.origins.items()}
            for name, frame in (("X", training.X), ("Z", training.Z))
            if frame is not None
        },
        "units": dict(training.units),
        "fixed_priors": [name for name in model.priors if name in model.fixed],
        "callable_priors": [name for name in model.priors if name not in model.fixed],
    }
    variables = {
        "X": (("obs", "feature"), training.X.values),
        "X_center": ("feature", training.X_scaling.center),
        "X_scale": ("feature", training.X_scaling.scale),
    }
    coords = {"obs": training.X.index, "feature": list(training.X.columns)}
    if training.outputs is None:
        variables["y"] = "obs", training.y
    else:
        outputs, coords["output"] = training.outputs, list(training.outputs.names)
        variables["y"] = ("obs", "output"), outputs.values
        variables["y_center"] = "output", outputs.scaling.center
        variables["y_scale"] = "output", outputs.scaling.scale
    if isinstance(kernel, Precomputed):
        variables["covariance"] = (("feature", "feature_bis"), kernel.matrix)
    if training.groups is not None:
        variables["group"] = ("obs", training.groups.codes)
    if training.exposure is not None:
        variables["exposure"] = ("obs", training.exposure)
    if training.row_data is not None:
        own = asdict(training.row_data)
        variables |= {name: ("obs", v) for name, v in own.items() if v is not None}
    if training.Z is not None:
        if training.sparse:
            parts = {f"Z_{name}": getattr(training.Z.values, name) for name in PARTS}
            variables |= {name: (f"{name}_dim", part) for name, part in parts.items()}
        else:
            variables["Z"] = (("obs", "z_feature"), training.Z.values)
        variables["Z_center"] = ("z_feature", training.Z_scaling.center)
        variables["Z_scale"] = ("z_feature", training.Z_scaling.scale)
        coords["z_feature"] = list(training.Z.columns)
    for name in settings["fixed_priors"]:
        value = model.fixed[name]
        variables[f"fixed_{name}"] = (tuple(f"{name}_dim_{i}" for i in range(value.ndim)), value)
    if training.streamed:
        variables |= {f"X_{name}": ("feature", getattr(training.moments, name)) for name in MOMENTS}
        variables |= summaries(model)
    tree = xr.DataTree.from_dict(
        {
            **idata.to_dict(),
            GROUP: xr.Dataset(
                variables, coords, {"settings": json.dumps(settings), "checksum": BLANK}
            ),
        }
    )
    if training.streamed:
        tree.attrs[ROWS] = NOT_STORED
    # In memory first: HDF5 may take the process down with it where a disk is full.
    data = sealed(tree.to_netcdf(engine="h5netcdf"))
    with replaced(path) as file:
        file.write(data)


def load(
    path: str | PathLike,
    kernel: Callable[[int], Any] | None = None,
    priors: Priors | None = None,
    likelihood: Likelihood | None = None,
) -> tuple[Model, xr.DataTree]:
    """Read a model and its fit from a file written by `save`.

    Parameters
    ----------
    path : str or path
    kernel : callable, optional
        Required if the model's kernel was a callable.
    priors : dict, optional
        Required for the priors that were callables.
    likelihood : likelihood, optional
        Required if the model's likelihood was made by `likelihoods.custom`.

    Returns
    -------
    model : GP or GPX
    idata : xarray.DataTree

    Raises
    ------
    ValueError
        If the file was not written by `save`, was changed or damaged since then, or needs a kernel
        or priors that are not passed.
    """
    held = _read(read_path(path))
    data, tree = _opened(path, held)
    with _reading(path):
        settings = json.loads(data.attrs["settings"])
        written = settings["format"]
    if written != FORMAT:
        raise ValueError(
            f"{path} has format {written!r}; this version reads format {FORMAT}. Load it with the "
            "version of bayes_gpx that saved it."
        )
    with _reading(path):
        own_kernel, asked = settings["specification"]["kernel"], list(settings["callable_priors"])
    if own_kernel == CALLABLE and kernel is None:
        raise ValueError(f"The model in {path} has a callable kernel; pass kernel= again.")
    if own_kernel != CALLABLE and kernel is not None:
        raise ValueError(f"The file {path} holds its kernel, {own_kernel!r}; leave kernel= out.")
    own_likelihood = settings["specification"]["likelihood"]
    if own_likelihood == CALLABLE and likelihood is None:
        raise ValueError(
            f"The model in {path} has a likelihood of your own; pass likelihood= again."
        )
    if own_likelihood != CALLABLE and likelihood is not None:
        raise ValueError(
            f"The file {path} holds its likelihood, {own_likelihood!r}; leave likelihood= out."
        )
    if likelihood is not None:
        settings["specification"]["likelihood"] = likelihood
    priors = dict(priors or {})
    superfluous = [name for name in priors if name not in asked]
    if superfluous:
        raise ValueError(f"The priors {superfluous} are in {path} already; leave them out.")
    missing = [name for name in asked if name not in priors]
    if missing:
        raise ValueError(
            f"The model in {path} has callable priors for {missing}; pass priors= with them again."
        )
    # What a caller's own functions raise is no fault of the file.
    with nullcontext() if kernel or priors or likelihood else _reading(path):
        model = _restored(data, settings, kernel or own_kernel, priors)
        idata = tree.drop_nodes(GROUP)
        idata.attrs.pop(ROWS, None)
        refuse_other_model(model, idata)
    return model, idata


def _read(path: Path) -> bytes:
    """Bytes of a file; refused if their checksum differs or, unless they never had one, is gone."""
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder. Pass a file written by bx.save.")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist. Pass a file written by bx.save.")
    held = Path(path).read_bytes()
    # HDF5 may read damaged bytes for ever.
    if not (intact(held) or (intact(held) is None and SEALED not in held)):
        raise ValueError(_changed(path, "its checksum differs"))
    return held


def _opened(path: str | PathLike, held: bytes) -> tuple[xr.Dataset, xr.DataTree]:
    """The group of this package in a file's bytes, and all groups."""
    try:
        # What h5netcdf cannot open it does not close either, and fails again when it is collected.
        with h5py.File(BytesIO(held)) as file:
            file.attrs.get("_nc3_strict")  # which it reads first
        with xr.open_datatree(BytesIO(held), engine="h5netcdf", phony_dims="sort") as tree:
            # `DataTree.load` leaves out variables that are named like a group.
            for variable in (v for node in tree.subtree for v in node.variables.values()):
                variable.load()
    except Exception as unreadable:  # whatever HDF5, h5netcdf and xarray make of damage
        raise ValueError(
            f"{path} is not a netCDF file written by bx.save, or it is damaged: {unreadable!r}. "
            "Take a copy of it, or fit and save again."
        ) from unreadable
    if GROUP not in tree.children:
        raise ValueError(f"{path} has no group `{GROUP}`. Pass a file written by bx.save.")
    return tree[GROUP].to_dataset(), tree


@contextmanager
def _reading(path: str | PathLike) -> Iterator[None]:
    """Convert any error of the block into an error about the file's content."""
    try:
        yield
    except Exception as wrong:
        raise ValueError(_changed(path, repr(wrong))) from wrong


def _changed(path: str | PathLike, reason: str) -> str:
    return (
        f"{path} was changed or damaged since bx.save wrote it: {reason}. Take a copy of it, or "
        "fit and save again."
    )


def _restored(data: xr.Dataset, settings: Mapping[str, Any], kernel: Any, priors: Priors) -> Model:
    """The model that a file holds."""
    if kernel == PRECOMPUTED:
        (labels,) = settings["levels"]["X"].values()
        kernel = Precomputed(pd.DataFrame(data["covariance"].values, labels, labels))
    if isinstance(kernel, dict):
        kernel = Effects.of_fields(**kernel[EFFECTS])
    spec = settings["specification"] | {"kernel": kernel}
    settled = spec.get("settled", ())
    spec["settled"] = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in settled)
    if spec.get("censored") is not None:
        spec["censored"] = tuple(spec["censored"])
    if isinstance(spec["likelihood"], dict):
        made = AsymmetricLaplace if "level" in spec["likelihood"] else KnownNoise
        spec["likelihood"] = made(**spec["likelihood"])
    if spec.get("approximation"):
        kind, values = spec["approximation"]
        known: dict[str, Any] = {own.__name__: own for own in APPROXIMATIONS.values()}
        spec["approximation"] = known[kind](**values)
    fixed = {name: data[f"fixed_{name}"].values for name in settings["fixed_priors"]}
    of_x = Scaling(data["X_center"].values, data["X_scale"].values)
    of_z, Z = None, cast(Any, None)
    if "Z_center" in data:
        of_z = Scaling(data["Z_center"].values, data["Z_scale"].values)
        if "Z_indices" in data:
            parts = [data[f"Z_{name}"].values for name in PARTS]
            Z = frame_of(parts, data["z_feature"].values, data["obs"].values)
            Z = Z.first(len(Z.columns) - settings["intercept"])
        elif not settings["z_is_x"]:
            Z = _frame(data["Z"], settings).drop(
                columns=[INTERCEPT] if settings["intercept"] else []
            )
    scalings = of_x, _y_scaling(data, settings), of_z
    if spec.get("constraints"):
        spec["constraints"] = Constraints.of_fields(spec["constraints"]["statements"])
    specification, y = Specification(**spec), cast(Any, data["y"].values)
    if settings.get("labels"):
        labels = np.array([*settings["labels"], None], dtype=object)
        y = labels[np.where(np.isnan(y), -1, y).astype(int)]
        if y.ndim == 1:  # in the order that they were given in
            y = pd.Categorical(y, categories=settings["labels"], ordered=True)
    observation, known = specification.observation, {"scale": settings["scale"]}
    known |= {"priors": {**fixed, **priors}, "name": settings["name"]}
    family = FAMILIES[spec["family"]]
    if settings.get("streamed"):
        training = _dated(_of_medians(data, settings, scalings, observation), settings)
        return family.restored(training, specification, **summaries_in(data), **known)
    training = read_training(
        _frame(data["X"], settings),
        _response(y, data, settings),
        observation,
        Z,
        weighs=of_z is not None,
        exposure=data["exposure"].values if observation.exposed else None,
        groups=_groups(data, settings),
        intercept=settings["intercept"],
        scalings=scalings,
        resolution=_resolution(settings) if observation.scaled else None,
    )
    training = replace(training, row_data=_row_data(data))
    return family.restored(_dated(training, settings), specification, **known)


def _scaling_of_y(training: TrainingData) -> dict[str, Any]:
    """Settings of one response's scaling; the scaling of several outputs is among the variables."""
    if training.outputs is not None:
        return {}
    return {"y_center": training.y_scaling.center, "y_scale": training.y_scaling.scale}


def _y_scaling(data: xr.Dataset, settings: Mapping[str, Any]) -> Scaling:
    if "y_center" in data:
        return Scaling(data["y_center"].values, data["y_scale"].values)
    return Scaling(float(settings["y_center"]), float(settings["y_scale"]))


def _response(
    y: np.ndarray, data: xr.Dataset, settings: Mapping[str, Any]
) -> pd.Series | pd.DataFrame:
    """The response as it was given: a series, or a frame of several outputs."""
    index = data["obs"].values
    if "output" in data.coords:
        return pd.DataFrame(y, index, [str(name) for name in data["output"].values])
    return pd.Series(y, index=index, name=settings["y_name"])


def _dated(training: TrainingData, settings: Mapping[str, Any]) -> TrainingData:
    """The training data with the origins of columns of dates, and with units."""
    found: dict[str, Any] = {"units": settings.get("units", {})}
    for name, known in settings.get("origins", {}).items():
        dates = {column: first_date([np.datetime64(text)]) for column, text in known.items()}
        found[name] = replace(getattr(training, name), origins=dates)
    return replace(training, **found)


def _groups(data: xr.Dataset, settings: Mapping[str, Any]) -> np.ndarray | None:
    """The label of each row's group; None for a model without groups."""
    labels = settings.get("groups")
    return None if labels is None else np.array(labels)[data["group"].values]


def _of_medians(
    data: xr.Dataset,
    settings: Mapping[str, Any],
    scalings: tuple[Scaling, Scaling, Scaling | None],
    observation: Likelihood,
) -> TrainingData:
    """Training data of an out-of-core model, without the rows, which are not in the file."""
    levels = settings["levels"]
    frames = [
        Frame(data[k].values, tuple(map(str, data[k][dim].values)), np.zeros(1, int), False, own)
        for k, dim in (("X", "feature"), ("Z", "z_feature"))
        if k in data and (own := {c: tuple(v) for c, v in levels[k].items()}) is not None
    ]
    of_x = Moments(settings["n"], *(data[f"X_{k}"].values for k in MOMENTS))
    return TrainingData(
        frames[0],
        frames[1] if len(frames) > 1 else None,
        data["y"].values,
        settings["y_name"],
        *scalings,
        z_is_x=settings["z_is_x"],
        intercept=settings["intercept"],
        labels=tuple(settings["labels"]) if settings.get("labels") else None,
        exposure=data["exposure"].values if "exposure" in data else None,
        scales_y=observation.scaled,
        resolution=_resolution(settings),
        beyond=OutOfCore(of_x, totals=_totals(settings)),
        row_data=_row_data(data),
    )


def _totals(settings: Mapping[str, Any]) -> RowTotals | None:
    """Totals of the rows' weights and bounds, None without any."""
    known = settings.get("row_totals")
    return None if known is None else RowTotals(**known | {"kinds": tuple(known["kinds"])})


def _row_data(data: xr.Dataset) -> RowData | None:
    """Weights and bounds of rows, None without any."""
    rows = {f.name: data[f.name].values for f in fields(RowData) if f.name in data}
    return RowData(**rows) if rows else None


def _resolution(settings: Mapping[str, Any]) -> Any:
    """The step that y was recorded to; files of before it was asked for have none."""
    return settings.get("resolution", 0.0)


def _plain(labels: Sequence | None) -> list | None:
    """Labels as JSON holds them."""
    if labels is None:
        return None
    return [getattr(label, "tolist", lambda own=label: own)() for label in labels]


def _frame(array: xr.DataArray, settings: Mapping[str, Any]) -> pd.DataFrame:
    """The table as it was given: categorical columns again in the place of their indicators."""
    columns = [str(c) for c in array[array.dims[1]].values]
    frame = pd.DataFrame(np.asarray(array.values), array["obs"].values, columns)
    for column, levels in settings.get("levels", {}).get(array.name, {}).items():
        indicators = [indicator(column, level) for level in levels]
        held = pd.Categorical.from_codes(frame[indicators].to_numpy().argmax(axis=1), levels)
        at = cast(int, frame.columns.get_loc(indicators[0]))
        frame.insert(at, column, pd.Series(held, frame.index))
        frame = frame.drop(columns=indicators)
    return frame
