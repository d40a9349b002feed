"""Sums over rows that stand for the data where no hyperparameter changes the basis functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from bayes_gpx.data.training import TrainingData
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import LOCK, Pool, in_order
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.operators import evaluate

TOGETHER = 2**15
"""Number of rows that one thread sums before the sums are combined.

Chunks and their order are fixed, so results are bitwise identical for any number of threads.
"""

BLOCK = 2**11
"""Rows in a block of the design, small enough for the processor's cache."""


def fixed_design(process, theta, training):
    """Symbols X (m, d) and Z (m, p), and values of the basis functions without scales (m, M).

    None without basis functions, if hyperparameters change more than their scales, or if rows
    deviate from them.
    """
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


def sums_over_rows(design, training):
    """Sums of a `fixed_design` over all training rows, on the model's scale, by names of `Sums`."""
    of = SumsOf(design)
    of.compile()
    if training.streamed:
        total = training.joined(of, _added)
    else:
        starts = range(0, training.n, TOGETHER)
        parts = (training.rows(slice(start, start + TOGETHER)) for start in starts)
        total = in_order(of, _added, parts)
    return {name: np.asarray(value, "float64") for name, value in total._asdict().items()}


@dataclass(frozen=True, eq=False)
class SumsOf:
    """Function from rows to their `Sums`, for any thread or process.

    Attributes
    ----------
    design : list of tensors
        From `fixed_design`.
    """

    design: list

    @cached_property
    def _functions(self):
        *points, values = self.design
        options = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
        with LOCK:
            return Pool(pytensor.function(points, values, **options))

    def compile(self) -> None:
        """Compile now: threads would wait for a caller that holds `LOCK` and waits for them."""
        self._functions  # noqa: B018

    def __call__(self, rows: TrainingData) -> Sums:
        """Add up blocks of rows, in their order."""
        blocks = (rows.rows(slice(k, k + BLOCK)) for k in range(0, rows.n, BLOCK))
        return reduce(_added, map(self._of_block, blocks))

    def _of_block(self, rows):
        scaled = rows.scaled()
        y = scaled["y"]
        with self._functions.taken() as function:
            G = function(scaled["X"], scaled.get("Z", np.empty((0, 0)))).copy()
        return Sums(np.dot(G.T, G), np.dot(G.T, y), np.dot(y, y), float(len(y)))

    def __getstate__(self):
        """Without the compiled function, which is compiled anew where it is needed."""
        return {"design": self.design}


def _added(one, other):
    return Sums(*(a + b for a, b in zip(one, other, strict=True)))
