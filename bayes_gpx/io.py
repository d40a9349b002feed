"""Save and load: data, scaling, specification and posterior in one netCDF file."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from bayes_gpx import approximations
from bayes_gpx.arguments import refuse_other_model
from bayes_gpx.categories import indicator
from bayes_gpx.frames import Scaling
from bayes_gpx.models import GP, GPX
from bayes_gpx.specification import Specification
from bayes_gpx.training import INTERCEPT, read_training

FORMAT = 1
FAMILIES = {"GP": GP, "GPX": GPX}
CALLABLE = "callable"


def save(model, idata, path):
    """Write a model and its fit to one netCDF file.

    Parameters
    ----------
    model : GP or GPX
    idata : xarray.DataTree
        What ``model.fit`` returned.
    path : str or path
        Replaced as a whole once everything is written.

    Notes
    -----
    A callable kernel or prior cannot be written; `load` asks for it again.
    """
    path = Path(path)
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{path} cannot be written; expected a file name in a folder that exists.")
    refuse_other_model(model, idata)
    spec = asdict(model.specification)
    if callable(spec["kernel"]):
        spec["kernel"] = CALLABLE
    approximation = model.specification.approximation
    if approximation is not None:
        spec["approximation"] = [type(approximation).__name__, spec["approximation"]]
    settings = {
        "format": FORMAT,
        "specification": spec,
        "scale": model.scale,
        "intercept": model.training.intercept,
        "z_is_x": model.training.z_is_x,
        "name": model.name,
        "y_name": model.training.y_name,
        "y_center": model.training.y_scaling.center,
        "y_scale": model.training.y_scaling.scale,
        "labels": _plain(model.training.labels),
        "levels": {
            name: frame.levels
            for name, frame in (("X", model.training.X), ("Z", model.training.Z))
            if frame is not None
        },
        "fixed_priors": [name for name in model.priors if name in model.fixed],
        "callable_priors": [name for name in model.priors if name not in model.fixed],
    }
    variables = {
        "X": (("obs", "feature"), model.training.X.values),
        "y": ("obs", model.training.y),
        "X_center": ("feature", model.training.X_scaling.center),
        "X_scale": ("feature", model.training.X_scaling.scale),
    }
    if model.training.exposure is not None:
        variables["exposure"] = ("obs", model.training.exposure)
    coords = {"obs": model.training.X.index, "feature": list(model.training.X.columns)}
    if model.training.Z is not None:
        variables["Z"] = (("obs", "z_feature"), model.training.Z.values)
        variables["Z_center"] = ("z_feature", model.training.Z_scaling.center)
        variables["Z_scale"] = ("z_feature", model.training.Z_scaling.scale)
        coords["z_feature"] = list(model.training.Z.columns)
    for name in settings["fixed_priors"]:
        value = model.fixed[name]
        variables[f"fixed_{name}"] = (tuple(f"{name}_dim_{i}" for i in range(value.ndim)), value)
    tree = xr.DataTree.from_dict(
        {
            **{name: child.to_dataset() for name, child in idata.children.items()},
            "bayes_gpx": xr.Dataset(variables, coords, {"settings": json.dumps(settings)}),
        }
    )
    tree.attrs.update(idata.attrs)
    unfinished = path.with_name(path.name + ".unfinished")
    tree.to_netcdf(unfinished, engine="h5netcdf")
    os.replace(unfinished, path)


def load(path, kernel=None, priors=None):
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path
    kernel : callable, optional
        Needed where the model's kernel was a callable.
    priors : dict, optional
        Needed for the priors that were callables.

    Returns
    -------
    model : GP or GPX
    idata : xarray.DataTree

    Raises
    ------
    ValueError
        If the file was not written by `save`, or needs a kernel or priors that are not given.
    """
    try:
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
    except FileNotFoundError:
        raise
    except OSError as unreadable:
        raise ValueError(f"{path} is not a netCDF file written by bx.save.") from unreadable
    if "bayes_gpx" not in tree.children:
        raise ValueError(f"{path} has no group `bayes_gpx`; expected a file written by bx.save.")
    data = tree["bayes_gpx"].to_dataset()
    settings = json.loads(data.attrs["settings"])
    if settings["format"] != FORMAT:
        raise ValueError(
            f"{path} has format {settings['format']}; this version reads format {FORMAT}."
        )
    spec = settings["specification"]
    if spec["kernel"] == CALLABLE:
        if kernel is None:
            raise ValueError(f"The model in {path} has a callable kernel; pass kernel= again.")
        spec["kernel"] = kernel
    elif kernel is not None:
        raise ValueError(f"The kernel in {path} is {spec['kernel']!r}; leave kernel= out.")
    if spec.get("approximation"):
        kind, values = spec["approximation"]
        spec["approximation"] = getattr(approximations, kind)(**values)
    priors = dict(priors or {})
    superfluous = [name for name in priors if name not in settings["callable_priors"]]
    if superfluous:
        raise ValueError(f"The priors {superfluous} are in {path} already; leave them out.")
    missing = [name for name in settings["callable_priors"] if name not in priors]
    if missing:
        raise ValueError(
            f"The model in {path} has callable priors for {missing}; pass priors= with them again."
        )
    fixed = {name: data[f"fixed_{name}"].values for name in settings["fixed_priors"]}
    scalings = [
        Scaling(data["X_center"].values, data["X_scale"].values),
        Scaling(settings["y_center"], settings["y_scale"]),
        None,
    ]
    Z = None
    if "Z" in data:
        scalings[2] = Scaling(data["Z_center"].values, data["Z_scale"].values)
        if not settings["z_is_x"]:
            Z = _frame(data["Z"], settings).drop(
                columns=[INTERCEPT] if settings["intercept"] else []
            )
    specification, y = Specification(**spec), data["y"].values
    if settings.get("labels"):
        y = np.array(settings["labels"])[y.astype(int)]
    observation = specification.reader
    training = read_training(
        _frame(data["X"], settings),
        pd.Series(y, index=data["obs"].values, name=settings["y_name"]),
        Z,
        weighs="Z" in data,
        observation=observation,
        exposure=data["exposure"].values if observation and observation.exposed else None,
        intercept=settings["intercept"],
        scalings=tuple(scalings),
    )
    model = FAMILIES[spec["family"]].restored(
        training,
        specification,
        priors={**fixed, **priors},
        scale=settings["scale"],
        name=settings["name"],
    )
    idata = xr.DataTree.from_dict(
        {name: child.to_dataset() for name, child in tree.children.items() if name != "bayes_gpx"}
    )
    idata.attrs.update(tree.attrs)
    return model, idata


def _plain(labels):
    """Labels as JSON holds them."""
    return labels and [getattr(label, "tolist", lambda own=label: own)() for label in labels]


def _frame(array, settings):
    """The table as it was given: categorical columns again in the place of their indicators."""
    columns = [str(c) for c in array[array.dims[1]].values]
    frame = pd.DataFrame(np.asarray(array.values), array["obs"].values, columns)
    for column, levels in settings.get("levels", {}).get(array.name, {}).items():
        told = [indicator(column, level) for level in levels]
        held = pd.Categorical.from_codes(frame[told].to_numpy().argmax(axis=1), levels)
        frame.insert(frame.columns.get_loc(told[0]), column, held)
        frame = frame.drop(columns=told)
    return frame
