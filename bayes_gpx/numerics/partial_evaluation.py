"""Compiled functions in two stages: graphs of fixed arguments alone are computed once."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable

from bayes_gpx.numerics.threads import LOCK, ThreadedFunction


class Staged:
    """``Staged(changing, fixed, outputs, mode).given(*fixed)`` is a function of the changing."""

    def __init__(self, changing: Sequence, fixed: Sequence, outputs: Sequence, mode: Mode) -> None:
        inputs = [*changing, *fixed]
        with LOCK:
            whole = pytensor.function(
                inputs, outputs, mode=mode, on_unused_input="ignore"
            ).maker.fgraph
        changing, fixed = whole.inputs[: len(changing)], whole.inputs[len(changing) :]
        # What follows from the fixed arguments alone, and the part of it that other nodes need.
        settled, used = set(fixed), dict[Variable, None]()
        for node in whole.toposort():
            if all(v in settled or isinstance(v, Constant) for v in node.inputs):
                settled.update(node.outputs)
            else:
                used |= dict.fromkeys(v for v in node.inputs if v in settled)
        kept = [*used, *(v for v in whole.outputs if v in settled and v not in used)]
        # PyTensor takes None for no optimizer, which its types leave out.
        plain = Mode(linker=mode.linker, optimizer=None)  # type: ignore[arg-type]
        self._first_stage = ThreadedFunction(fixed, kept, mode=plain, trust_input=True)
        inputs = [*kept, *changing]
        self._last_stage = ThreadedFunction(inputs, whole.outputs, mode=plain, trust_input=True)

    def given(self, *fixed: np.ndarray) -> Callable:
        """Return the function of the changing arguments, for the running thread."""
        return partial(self._last_stage.own, *map(deepcopy, self._first_stage(*fixed)))
