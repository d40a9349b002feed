"""Sufficient statistics or posteriors instead of rows, in files and other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.streamed import StreamedData
from bayes_gpx.data.training import TrainingData
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import LOCK, Pool, in_order
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.operators import evaluate

TOGETHER = 2**15
"""Number of rows that one thread sums before the sums are combined.

Chunks and their order are fixed, so results are bitwise identical for any number of threads.
"""

BLOCK = 2**11
"""Rows in a block of the design, small enough for the processor's cache."""


def fixed_design(
    process: Process, theta: Mapping[str, Any], training: TrainingData
) -> list[Tensor] | None:
    """Symbols X (m, d) and Z (m, p), and basis functions without scales (m, M), or None."""
    # None without basis functions, if hyperparameters change more than their scales, or if rows
    # deviate from them.
    if not isinstance(process, BasisProcess) or deviates(theta):
        return None
    x, z = pt.tensor("x", shape=(None, training.d), dtype="float64"), pt.dmatrix("z")
    at = evaluate(x, None if training.Z is None else z, smooth=True)
    values = process.parted()[0].design(at)
    given = all(v in (x, z) or isinstance(v, Constant) for v in graph_inputs([values]))
    return [x, z, values] if given else None


def deviates(theta: Mapping[str, Any]) -> bool:
    """Whether rows have deviations: their sd `sigma_w` is not fixed at 0."""
    sigma_w = theta.get("sigma_w")
    return sigma_w is not None and not (isinstance(sigma_w, Constant) and not sigma_w.data.any())


def sums_over_rows(design: list[Tensor], training: TrainingData) -> dict[str, np.ndarray]:
    """Sums of a `fixed_design` over all training rows, on the model's scale, by names of `Sums`."""
    of = SumsOf(design)
    of.compile()
    if training.streamed:
        total = cast(StreamedData, training).joined(of, _added)
    else:
        starts = range(0, training.n, TOGETHER)
        parts = (training.rows(slice(start, start + TOGETHER)) for start in starts)
        total = in_order(of, _added, parts)
    return {name: np.asarray(value, "float64") for name, value in total._asdict().items()}


@dataclass(frozen=True, eq=False)
class SumsOf:
    """Function from rows to their `Sums` by a `fixed_design`, for any thread or process."""

    design: list

    @cached_property
    def _functions(self) -> Pool:
        *points, values = self.design
        with LOCK:
            function = pytensor.function(
                points, values, mode=MODE, on_unused_input="ignore", trust_input=True
            )
            return Pool(function)

    def compile(self) -> None:
        """Compile now: threads would wait for a caller that holds `LOCK` and waits for them."""
        self._functions  # noqa: B018

    def __call__(self, rows: TrainingData) -> Sums:
        """Add up blocks of rows, in their order."""
        blocks = (rows.rows(slice(k, k + BLOCK)) for k in range(0, rows.n, BLOCK))
        return reduce(_added, map(self._of_block, blocks))

    def _of_block(self, rows: TrainingData) -> Sums:
        scaled = rows.scaled()
        y = scaled["y"]
        with self._functions.taken() as function:
            G = function(scaled["X"], scaled.get("Z", np.empty((0, 0)))).copy()
        return Sums(np.dot(G.T, G), np.dot(G.T, y), np.dot(y, y), float(len(y)))

    def __getstate__(self) -> dict[str, Any]:
        """Without the compiled function, which is compiled anew where it is needed."""
        return {"design": self.design}


def _added(one: Sums, other: Sums) -> Sums:
    return Sums(*(a + b for a, b in zip(one, other, strict=True)))


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
    """Sums over rows, or the posteriors given the rows at some hyperparameter draws."""

    # by the names of `Sums` if these suffice, else empty
    sums: Mapping[str, np.ndarray] = field(default_factory=dict)
    # By digests of hyperparameters: alpha (M,), root (M, M) and jitter, or alpha (M, C) and root
    # (C, M, M) for several classes.
    found: Mapping[str, tuple] = field(default_factory=dict)
    inducing: Mapping[str, np.ndarray] = field(default_factory=dict)  # inducing points, if any

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
