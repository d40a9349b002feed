"""Summaries of out-of-core rows that replace the rows in files and other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from bayes_gpx.posteriors.evidence.sums import Sums

DIMS = {
    "sum_gram": ("function", "function_bis"),
    "sum_cross": ("function",),
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


@dataclass(frozen=True, eq=False)
class KeptOfRows:
    """Sums over rows, or the posteriors given the rows at some hyperparameter draws.

    `sums` has the names of `Sums` if these suffice, else it is empty. `found` maps digests of
    hyperparameters to alpha (M,), root (M, M) and jitter, or alpha (M, C) and root (C, M, M) for
    several classes. `inducing` contains inducing points, if any.
    """

    sums: Mapping[str, np.ndarray] = field(default_factory=dict)
    found: Mapping[str, tuple] = field(default_factory=dict)
    inducing: Mapping[str, np.ndarray] = field(default_factory=dict)

    def variables(self) -> dict[str, tuple]:
        """Variables of a file."""
        kept: dict[str, Any] = {f"sum_{name}": value for name, value in self.sums.items()}
        kept |= {f"inducing_{name}": value for name, value in self.inducing.items()}
        dims = DIMS
        if self.found:
            columns = map(np.stack, zip(*self.found.values(), strict=True))
            names = ("found_alpha", "found_root", "found_jitter")
            kept |= {"found_key": [*self.found], **dict(zip(names, columns, strict=True))}
            dims = DIMS | OF_CLASSES if kept["found_alpha"].ndim > 2 else DIMS
        return {name: (dims.get(name, ()), value) for name, value in kept.items()}

    @staticmethod
    def of_variables(data: xr.Dataset) -> KeptOfRows:
        """From the variables of a file."""
        sums = {name: data[f"sum_{name}"].values for name in Sums._fields if "sum_gram" in data}
        names = (name for name in ("U", "U_Z") if f"inducing_{name}" in data)
        found: dict[str, tuple] = {}
        if "found_key" in data:
            keys, *columns = (
                data[f"found_{name}"].values for name in ("key", "alpha", "root", "jitter")
            )
            found = dict(zip(map(str, keys), zip(*columns, strict=True), strict=True))
        return KeptOfRows(sums, found, {name: data[f"inducing_{name}"].values for name in names})
