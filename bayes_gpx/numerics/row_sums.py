"""Sums over rows of data, block after block: no array has an axis of all rows.

The graph of one block of rows is compiled once and evaluated for each. Derivatives of the sums are
sums over rows too, of the block's vector-Jacobian product, for which the block is computed anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Constant, equal_computations
from pytensor.graph.op import Op, io_connection_pattern
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import io_toposort

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.compile_modes import MODE
from bayes_gpx.numerics.threads import LOCK, Copies

ROWS = 4096
"""Rows of a block: the same on every machine, since sums depend on their order."""


def parameters_of(outputs: Sequence, symbols: Sequence) -> list:
    """Variables from which graphs follow beside symbols and constants, the last such ones."""
    depends, fixed, needed = {*symbols}, set[Any](), dict[Any, None]()
    for node in io_toposort([], outputs):
        fixed.update(v for v in node.inputs if isinstance(v, Constant))
        if not depends.isdisjoint(node.inputs):
            depends.update(node.outputs)
            needed |= dict.fromkeys(v for v in node.inputs if not (v in depends or v in fixed))
        elif fixed.issuperset(node.inputs):
            fixed.update(node.outputs)
    return [*needed]


class RowGraph:
    """Graphs of a block of rows; two are equal if they compute the same.

    Parameters
    ----------
    parameters, held, rows : list of tensor variables
        Inputs: what the graphs depend on beside rows, of which `held` counts as constant where
        there are derivatives, and arrays whose first axis is that of rows.
    outputs : list of tensor variables
    size : int, optional
        Rows of a block; `ROWS` by default.
    """

    def __init__(
        self,
        parameters: Sequence,
        held: Sequence,
        rows: Sequence,
        outputs: Sequence,
        size: int | None = None,
    ) -> None:
        self.parameters, self.held, self.rows = [*parameters], [*held], [*rows]
        self.outputs, self.size = [*outputs], ROWS if size is None else size

    @staticmethod
    def of(
        outputs: Sequence, rows: Sequence, held: Sequence = (), size: int | None = None
    ) -> tuple[RowGraph, list]:
        """Return the graphs between symbols and outputs, and the parameters that these need.

        What depends on neither `rows` nor `held` stays outside, to be computed once, unless it is
        made of constants alone.
        """
        parameters = parameters_of(outputs, [*rows, *held])
        own = {v: v.type() for v in [*parameters, *held, *rows]}
        inner = clone_replace([*outputs], own)
        symbols = [[own[v] for v in group] for group in (parameters, held, rows)]
        return RowGraph(symbols[0], symbols[1], symbols[2], inner, size), parameters

    @property
    def inputs(self) -> list:
        """All of them, in their order."""
        return [*self.parameters, *self.held, *self.rows]

    def _shape(self):
        counts = len(self.parameters), len(self.held), self.size
        return (*counts, *(v.type for v in self.inputs), *(v.type for v in self.outputs))

    def __eq__(self, other):
        if type(self) is not type(other) or self._shape() != other._shape():
            return False
        return equal_computations(self.outputs, other.outputs, self.inputs, other.inputs)

    def __hash__(self):
        return hash(self._shape())

    def __getstate__(self):
        """Without what threads hold."""
        return self.parameters, self.held, self.rows, self.outputs, self.size

    def __setstate__(self, state):
        """Begin anew."""
        self.__init__(*state)

    @cached_property
    def _compiled(self):
        options = {"mode": MODE, "on_unused_input": "ignore", "trust_input": True}
        with LOCK:
            return [pytensor.function(self.inputs, self.outputs, **options)]

    @cached_property
    def _own(self):
        return Copies(lambda: self._compiled)

    def blocks(self, *values: np.ndarray) -> Iterator[tuple[slice, list[np.ndarray]]]:
        """Which rows are in each block, and the outputs there."""
        k, evaluate = len(values) - len(self.rows), self._own.functions[0]
        rows = values[k:]
        for first in range(0, max(len(rows[0]), 1), self.size):
            block = slice(first, first + self.size)
            yield block, evaluate(*values[:k], *(np.ascontiguousarray(v[block]) for v in rows))

    def typed(self, inputs: Sequence) -> list:
        """The inputs of an `Op`, brought to the types of the graph's own."""
        pairs = zip(self.inputs, inputs, strict=True)
        return [own.type.filter_variable(pt.as_tensor_variable(v)) for own, v in pairs]


class RowSums(Op):
    """(*parameters, *held, *rows) -> sums of a `RowGraph`'s outputs over all blocks of rows.

    Sums are differentiable in the parameters, once.

    Parameters
    ----------
    graph : RowGraph
    slopes : bool
        Whether these are derivatives of sums.
    """

    __props__ = ("graph", "slopes")
    interpreted = True

    def __init__(self, graph: RowGraph, slopes: bool = False) -> None:
        self.graph, self.slopes = graph, slopes

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        return Apply(self, self.graph.typed(inputs), [v.type() for v in self.graph.outputs])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        with np.errstate(all="ignore"):
            blocks = self.graph.blocks(*inputs)
            totals = [np.array(part) for part in next(blocks)[1]]
            for _, parts in blocks:
                for total, part in zip(totals, parts, strict=True):
                    total += part
        for storage, total in zip(output_storage, totals, strict=True):
            storage[0] = total

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        if self.slopes:
            raise NotImplementedError(
                "Sums over rows have first derivatives alone; expected a graph without second ones."
            )
        graph = self.graph
        known = {
            out: (out.type(), given)
            for out, given in zip(graph.outputs, cotangents, strict=True)
            if not isinstance(given.type, DisconnectedType)
        }
        found: Any = pytensor.grad(
            None,
            graph.parameters,
            known_grads={out: symbol for out, (symbol, _) in known.items()},
            disconnected_inputs="ignore",
            return_disconnected="disconnected",
        )
        reached = [i for i, g in enumerate(found) if not isinstance(g.type, DisconnectedType)]
        result = [DisconnectedType()() for _ in inputs]
        if not reached:
            return result
        symbols, given = zip(*known.values(), strict=True)
        k = len(graph.parameters)
        own, outputs = [*graph.parameters, *symbols], [found[i] for i in reached]
        slopes = RowGraph(own, graph.held, graph.rows, outputs, graph.size)
        at: Any = RowSums(slopes, slopes=True)(*inputs[:k], *given, *inputs[k:], return_list=True)
        for i, slope in zip(reached, at, strict=True):
            result[i] = slope
        return result

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        graph = self.graph
        pattern = io_connection_pattern(graph.inputs, graph.outputs)
        rest = len(graph.held) + len(graph.rows)
        return [*pattern[: len(graph.parameters)], *[[False] * len(graph.outputs)] * rest]


def row_sums(
    outputs: Sequence[Tensor],
    rows: dict[Tensor, Any],
    held: dict[Tensor, Any] | None = None,
    size: int | None = None,
) -> list[Tensor]:
    """Sums over all rows of what graphs give for a block of them.

    Parameters
    ----------
    outputs : list of tensors
        Graphs of the symbols in `rows`, and of anything else.
    rows, held : dict
        From the symbols of a block of rows to the arrays of all rows; and from other symbols to
        values that count as constant where there are derivatives.
    size : int, optional
        Rows of a block; `ROWS` by default.
    """
    held = held or {}
    graph, parameters = RowGraph.of(outputs, [*rows], [*held], size)
    values = *parameters, *held.values(), *rows.values()
    return cast(list, RowSums(graph)(*values, return_list=True))
