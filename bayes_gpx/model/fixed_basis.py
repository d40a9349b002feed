"""Sums over rows for basis functions that hyperparameters only scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from bayes_gpx.aliases import Tensor
from bayes_gpx.data.training import TrainingData
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import LOCK, Pool
from bayes_gpx.posteriors.evidence.sums import Sums
from bayes_gpx.processes.base import Process
from bayes_gpx.processes.basis_process import BasisProcess
from bayes_gpx.processes.operators import evaluate

BLOCK = 2**11
"""Rows in a block of the design, small enough for the processor's cache."""

LITTLE, SEEN = 1e-4, 1e-10
"""Where the functions leave a smaller share of y'y, sums of residuals are taken in another pass.
Combinations of functions that are smaller than the second share of the largest are left out."""


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
    gram, cross, square, n = training.sums(of, _added, again=False)
    start = best = np.zeros(len(gram))
    if np.isfinite(gram).all():
        best = np.linalg.lstsq(gram, cross, rcond=SEEN)[0]
    if square - best @ cross < LITTLE * square:
        start = best
        _, cross, square, _ = training.sums(partial(of, start=start), _added, again=False)
    total = Sums(gram, cross, square, n, start)
    return {name: np.asarray(value, "float64") for name, value in total._asdict().items()}


@dataclass(frozen=True, eq=False)
class SumsOf:
    """Function from scaled rows to their part of `Sums`, for any thread or process.

    The sums are G'G, G'r, r'r and the number of rows, where r is y less the `fixed_design` G times
    `start`.
    """

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

    def __call__(self, rows: Mapping[str, np.ndarray], start: np.ndarray | None = None) -> list:
        """Add up blocks of rows, in their order."""
        starts = range(0, len(rows["y"]), BLOCK)
        blocks = ({n: v[k : k + BLOCK] for n, v in rows.items()} for k in starts)
        return reduce(_added, (self._of_block(block, start) for block in blocks))

    def _of_block(self, rows: Mapping[str, np.ndarray], start: np.ndarray | None) -> list:
        r = rows["y"]
        with self._functions.taken() as function:
            G = function(rows["X"], rows.get("Z", np.empty((0, 0)))).copy()
        if start is not None:
            r = r - np.dot(G, start)
        return [np.dot(G.T, G), np.dot(G.T, r), np.dot(r, r), float(len(r))]

    def __getstate__(self) -> dict[str, Any]:
        """Without the compiled function, which is compiled anew where it is needed."""
        return {"design": self.design}


def _added(one: list, other: list) -> list:
    return [a + b for a, b in zip(one, other, strict=True)]
