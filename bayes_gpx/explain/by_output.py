"""Explain models with several outputs: one output at a time, joined along a last dim."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import numpy as np
import xarray as xr

from bayes_gpx.draws.hyperparameter_draws import refuse_swapped
from bayes_gpx.validation import count

OF_ROWS = ("value", "level", "baseline", "baseline_value")
"""Variables that describe rows and features, and are equal for all outputs."""


def by_output[Verb: Callable](verb: Verb) -> Verb:
    """Make an explanation function explain every output of a model with several outputs."""

    @wraps(verb)
    def explained(model: Any, idata: Any, *args: Any, **options: Any) -> xr.Dataset:
        refuse_swapped(model, idata)
        outputs = model.training.outputs
        if outputs is None or outputs.asked is not None:
            return verb(model, idata, *args, **options)
        if options.get("path") is not None:
            raise ValueError(
                f"path was given with the outputs {list(outputs.names)}, but a store holds one "
                f"output. Pass model.of_output({outputs.names[0]!r}) instead of the model."
            )
        own = [options] * len(outputs.names)
        if options.get("seed") is not None:
            count("seed", options["seed"], 0)
            seeds = np.random.SeedSequence(options["seed"]).generate_state(len(outputs.names))
            own = [{**options, "seed": int(seed)} for seed in seeds]
        each = [
            verb(model.of_output(name), idata, *args, **theirs)
            for name, theirs in zip(outputs.names, own, strict=True)
        ]
        return joined(outputs.names, each)

    return cast(Verb, explained)


def joined(names: tuple[str, ...], each: list[xr.Dataset]) -> xr.Dataset:
    """Join the results of named outputs along a last dim `output`.

    Units become a coordinate; draws are independent between outputs.
    """
    common = [name for name in OF_ROWS if name in each[0]]
    found = xr.concat(
        [part.drop_vars(common) for part in each],
        xr.DataArray(list(names), dims="output", name="output"),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="override",
    )
    found = found.transpose(..., "output").assign(each[0][common])
    found = found.transpose(..., "ci_bound", missing_dims="ignore")
    if "units" in found.attrs:
        found = found.assign_coords(units=("output", [part.attrs["units"] for part in each]))
        found.attrs["units"] = "those of each output, in the coordinate `units`"
    if "relative_jitter" in found.attrs:
        found.attrs["relative_jitter"] = max(part.attrs["relative_jitter"] for part in each)
    if "dependence" in found.attrs:
        found.attrs["dependence"] += ", independent between outputs"
    return found
