"""Sums over rows of data, block by block: no array has an axis of all rows."""

# The graph of one block of rows is compiled once and evaluated for each. Derivatives of the sums
# are sums of the block's vector-Jacobian products, for which the block is computed again. Rows are
# arrays, or out-of-core and read again for each sum. Maxima are computed like sums.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial, reduce
from typing import Any, Protocol, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.op import io_connection_pattern
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import io_toposort
from pytensor.link.c.type import Generic

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics.compile_modes import MODE, Sloped
from bayes_gpx.numerics.threads import LOCK, Pool, in_order

ROWS = 4096
"""Rows of a block: the same on every machine, since sums depend on their order."""

PARTS = Generic()
"""Type of a variable with a `RowParts` as its value."""


class RowParts(Protocol):
    """Out-of-core rows, read repeatedly in chunks, always the same rows."""

    def sums[Found](
        self,
        of_part: Callable[[Mapping[str, np.ndarray]], Found],
        join: Callable[[Found, Found], Found],
    ) -> Found:
        """Combine the results for the arrays of each chunk, in an order independent of workers."""
        # Several chunks at a time, possibly on other machines: both functions can be pickled.


def parameters_of(outputs: Sequence, symbols: Sequence) -> list:
    """Variables that graphs depend on, other than symbols and constants, closest to the outputs."""
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
    """Graphs of a block of rows; two are equal if they compute the same."""

    # The inputs `parameters` and `held` are independent of rows, and `held` is constant in
    # derivatives; `rows` are arrays with rows as their first axis. A block has `size` rows. `joins`
    # combine each output of two blocks, `numpy.add` by default; None keeps both, in a list.

    def __init__(
        self,
        parameters: Sequence,
        held: Sequence,
        rows: Sequence,
        outputs: Sequence,
        size: int | None = None,
        joins: Sequence[np.ufunc | None] | None = None,
    ) -> None:
        self.parameters, self.held, self.rows = [*parameters], [*held], [*rows]
        self.outputs, self.size = [*outputs], ROWS if size is None else size
        self.joins = [np.add] * len(outputs) if joins is None else [*joins]

    @staticmethod
    def of(
        outputs: Sequence, rows: Sequence, held: Sequence = (), size: int | None = None
    ) -> tuple[RowGraph, list]:
        """The graphs between symbols and outputs, and the parameters that these need."""
        # What depends on neither `rows` nor `held` stays outside, to be computed once, unless it is
        # made of constants alone.
        parameters = parameters_of(outputs, [*rows, *held])
        own = {v: v.type(v.name) for v in [*parameters, *held, *rows]}
        inner = clone_replace([*outputs], own)
        symbols = [[own[v] for v in group] for group in (parameters, held, rows)]
        return RowGraph(symbols[0], symbols[1], symbols[2], inner, size), parameters

    @property
    def inputs(self) -> list:
        """All of them, in their order."""
        return [*self.parameters, *self.held, *self.rows]

    def _shape(self) -> tuple:
        sizes = len(self.parameters), len(self.held), self.size
        counts = *sizes, *self.joins, *(v.name for v in self.rows)
        return (*counts, *(v.type for v in self.inputs), *(v.type for v in self.outputs))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or self._shape() != other._shape():
            return False
        return equal_computations(self.outputs, other.outputs, self.inputs, other.inputs)

    def __hash__(self) -> int:
        return hash(self._shape())

    def __getstate__(self) -> tuple:
        """Pickle without the objects of threads."""
        return self.parameters, self.held, self.rows, self.outputs, self.size, self.joins

    def __setstate__(self, state: tuple) -> None:
        """Begin anew."""
        RowGraph.__init__(self, *state)

    @cached_property
    def pool(self) -> Pool:
        """The graphs as functions for any thread, the same ones for equal graphs."""
        return _pool_of(self)

    def blocks(self, *values: np.ndarray) -> Iterator[tuple[slice, list[np.ndarray]]]:
        """Which rows are in each block, and the outputs there."""
        with self.pool.taken() as function:
            for block in self._slices(values):
                yield block, self._at(function, values, block)

    def _slices(self, values: Sequence) -> list[slice]:
        rows = len(values[-1]) if self.rows else 1
        return [slice(k, k + self.size) for k in range(0, max(rows, 1), self.size)]

    def _at(self, function: Callable, values: Sequence, block: slice) -> list[np.ndarray]:
        k = len(values) - len(self.rows)
        return function(*values[:k], *(np.ascontiguousarray(v[block]) for v in values[k:]))

    def _of_block(self, values: Sequence, block: slice) -> list:
        with self.pool.taken() as function, np.errstate(all="ignore"):
            found = self._at(function, values, block)
        return [[v] if join is None else v for join, v in zip(self.joins, found, strict=True)]

    def total(self, *values: Any) -> list[np.ndarray]:
        """Sums of the outputs over all blocks, in their order, or their combination by `joins`."""
        self.pool  # noqa: B018 compiled now: the caller may hold what threads would wait for
        joined = partial(_joined, self.joins)
        if not self.rows or isinstance(values[-1], np.ndarray):
            blocks, of_block = self._slices(values), partial(self._of_block, values)
            return in_order(of_block, joined, blocks) if len(blocks) > 1 else of_block(blocks[0])
        # Out-of-core rows come as a `RowParts`, with arrays by the symbols' names.
        known = values[: len(values) - len(self.rows)]
        return values[-1].sums(partial(_of_part, self, known), joined)

    def typed(self, inputs: Sequence) -> list:
        """The inputs of an `Op`, brought to the types of the graph's own."""
        return [*map(_typed, self.inputs, inputs)]


def _typed(own: Variable, value: Any) -> Variable:
    if isinstance(getattr(value, "type", None), Generic):
        return value
    return own.type.filter_variable(pt.as_tensor_variable(value))


@lru_cache(maxsize=32)
def _pool_of(graph: RowGraph) -> Pool:
    """Copies of the function of a graph, or of one that is equal: it may have come by pickle."""
    # glibc returns freed blocks above a threshold to the system, for the whole process, and raises
    # it, up to 32 MiB, when a larger array is freed. Page faults took a quarter of the time.
    np.empty(2**25 - 2**13, np.uint8)
    with LOCK:
        function = pytensor.function(
            graph.inputs, graph.outputs, mode=MODE, on_unused_input="ignore", trust_input=True
        )
        return Pool(function)


def _of_part(graph: RowGraph, known: Sequence, part: Mapping[str, np.ndarray]) -> list:
    """Sums over the blocks of one part."""
    values = [*known, *(part[v.name] for v in graph.rows)]
    parts = (graph._of_block(values, block) for block in graph._slices(values))
    return reduce(partial(_joined, graph.joins), parts)


def _joined(joins: Sequence[np.ufunc | None], one: Sequence, other: Sequence) -> list:
    both = zip(joins, one, other, strict=True)
    return [a + b if join is None else join(a, b) for join, a, b in both]


class RowSums(Sloped):
    """(*parameters, *held, *rows) -> sums of a `RowGraph`'s outputs over all blocks of rows."""

    # Sums are differentiable in the parameters, once. `slopes_of` are the sums that these are
    # derivatives of, placed after a sum that is one number. `parts` has the rows, which are then no
    # inputs: for code without Python objects, such as numba's.

    __props__ = ("graph", "slopes_of", "parts")
    interpreted = True

    def __init__(
        self, graph: RowGraph, slopes_of: RowSums | None = None, parts: RowParts | None = None
    ) -> None:
        self.graph, self.slopes_of, self.parts = graph, slopes_of, parts

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        return Apply(self, self.graph.typed(inputs), [v.type() for v in self.graph.outputs])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        parts = [] if self.parts is None else [self.parts] * len(self.graph.rows)
        with np.errstate(all="ignore"):
            totals = self.graph.total(*inputs, *parts)
        for storage, total in zip(output_storage, totals, strict=True):
            storage[0] = np.asarray(total)

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Not for out-of-core rows: compiling reads nothing."""
        return self.parts is None

    def pullback(self, inputs: Sequence, outputs: Sequence, cotangents: Sequence) -> list:  # noqa: D102
        if self.slopes_of is not None:
            raise NotImplementedError(
                "Sums over rows have first derivatives alone. Use a graph without second "
                "derivatives."
            )
        graph = self.graph
        alone = [out.type.ndim for out in graph.outputs] == [0]
        known = {
            out: (pt.constant(1.0) if alone else out.type(), given)
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
        symbols, given = ((), ()) if alone else zip(*known.values(), strict=True)
        k, values = len(graph.parameters), graph.outputs if alone else []
        own, outputs = [*graph.parameters, *symbols], [*values, *(found[i] for i in reached)]
        slopes = RowGraph(own, graph.held, graph.rows, outputs, graph.size)
        op: Any = RowSums(slopes, self, self.parts)
        at = op(*inputs[:k], *given, *inputs[k:], return_list=True)[len(values) :]
        for i, slope in zip(reached, at, strict=True):
            result[i] = cotangents[0] * slope if alone else slope
        return result

    def connection_pattern(self, node: Apply) -> list[list[bool]]:  # noqa: D102
        graph = self.graph
        pattern = io_connection_pattern(graph.inputs, graph.outputs)
        rest = len(node.inputs) - len(graph.parameters)
        return [*pattern[: len(graph.parameters)], *[[False] * len(graph.outputs)] * rest]


def row_sums(
    outputs: Sequence[Tensor],
    rows: dict[Tensor, Any],
    held: dict[Tensor, Any] | None = None,
    size: int | None = None,
) -> list[Tensor]:
    """Sums over all rows of `outputs`, graphs of the symbols of a block in `rows` and of others."""
    # `rows` maps symbols of a block to arrays of all rows, or to the variable of type `PARTS` that
    # has these by name. `held` maps other symbols to values that are constant in derivatives.
    held = held or {}
    graph, parameters = RowGraph.of(outputs, [*rows], [*held], size)
    values, parts = known_rows(rows)
    op = RowSums(graph, parts=parts)
    return cast(list, op(*parameters, *held.values(), *values, return_list=True))


def known_rows(rows: dict[Tensor, Any]) -> tuple[list, RowParts | None]:
    """The values of rows as inputs of an `Op`; or none, and the parts that have these."""
    values = [*rows.values()]
    last = values[-1]
    if isinstance(last, Constant) and isinstance(last.type, Generic):
        return [], last.data
    return values, None
