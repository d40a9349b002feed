"""Variables of a file that stand for out-of-core rows: sums over them, or posteriors given them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayes_gpx.posteriors.evidence.sums import Sums

if TYPE_CHECKING:
    from bayes_gpx.model.model import Model

DIMS = {
    "sum_gram": ("function", "function_bis"),
    "sum_cross": ("function",),
    "sum_start": ("function",),
    "inducing_U": ("inducing", "feature"),
    "inducing_U_Z": ("inducing", "z_feature"),
    "found_key": ("found",),
    "found_alpha": ("found", "function"),
    "found_root": ("found", "function", "function_bis"),
    "found_jitter": ("found",),
}
"""Dims of variables in a file; scalars are missing."""

OF_CLASSES = {
    "found_alpha": ("found", "function", "class"),
    "found_root": ("found", "class", "function", "function_bis"),
}
"""Dims of variables for several classes."""

POSTERIOR = "found_alpha", "found_root", "found_jitter"
"""Posteriors given the rows at some draws: (M,) and (M, M), or (M, C) and (C, M, M) of classes."""


def summaries(model: Model) -> dict[str, tuple]:
    """Variables of a file: sums over out-of-core rows, or the posteriors given them."""
    sums = model.sums if model.specification.fixed_basis else {}
    kept: dict[str, Any] = {f"sum_{name}": value for name, value in sums.items()}
    kept |= {f"inducing_{name}": value for name, value in model.inducing.items()}
    if model.posteriors:
        columns = map(np.stack, zip(*model.posteriors.values(), strict=True))
        kept |= {"found_key": [*model.posteriors], **dict(zip(POSTERIOR, columns, strict=True))}
    several = model.specification.classes is not None
    dims = DIMS | OF_CLASSES if several else DIMS
    return {name: (dims.get(name, ()), value) for name, value in kept.items()}


def summaries_in(data: xr.Dataset) -> dict[str, dict]:
    """What `summaries` wrote, as arguments of `Model.restored`."""
    sums = {name: data[f"sum_{name}"].values for name in Sums._fields if f"sum_{name}" in data}
    if sums and "start" not in sums:  # files before it was there
        sums["start"] = np.zeros_like(sums["cross"])
    inducing = {n: data[f"inducing_{n}"].values for n in ("U", "U_Z") if f"inducing_{n}" in data}
    posteriors: dict[str, tuple] = {}
    if "found_key" in data:
        columns = zip(*(data[name].values for name in POSTERIOR), strict=True)
        posteriors = dict(zip(map(str, data["found_key"].values), columns, strict=True))
    return {"sums": sums, "inducing": inducing, "posteriors": posteriors}
