"""Compiled functions in two stages: what depends on fixed arguments alone is computed once."""

from functools import partial

import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant


class Staged:
    """A function that is called many times with some of its arguments the same.

    ``Staged(changing, fixed, outputs, mode).given(*fixed)`` is a function of the changing ones.

    Parameters
    ----------
    changing, fixed : list of tensor variables
    outputs : list of tensor variables
    mode : pytensor Mode
    """

    def __init__(self, changing, fixed, outputs, mode):
        options = {"on_unused_input": "ignore", "trust_input": True}
        whole = pytensor.function([*changing, *fixed], outputs, mode=mode, **options).maker.fgraph
        changing, fixed = whole.inputs[: len(changing)], whole.inputs[len(changing) :]
        settled, used = set(fixed), {}
        for node in whole.toposort():
            if all(v in settled or isinstance(v, Constant) for v in node.inputs):
                settled.update(node.outputs)
            else:
                used |= dict.fromkeys(v for v in node.inputs if v in settled)
        used = [*used, *(v for v in whole.outputs if v in settled and v not in used)]
        rewritten = {"mode": Mode(linker=mode.linker, optimizer=None), **options}
        self._settle = pytensor.function(fixed, used, **rewritten)
        self._finish = pytensor.function([*used, *changing], whole.outputs, **rewritten)

    def given(self, *fixed):
        """Return the function of the changing arguments."""
        return partial(self._finish, *[array.copy() for array in self._settle(*fixed)])
