"""Covariances of many rows, block after block of rows, and of each only from the diagonal on."""

# The density of a normal reads a covariance C on and above its diagonal, and has no derivative
# below it. So whatever is computed number by number on the way to C, and from C's derivative back
# to sums over all of it, is needed there alone. Blocks of rows, each from its first column on,
# leave out almost half, and stay in the processor's cache between one operation and the next.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, cast

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.traversal import ancestors
from pytensor.scalar import Add, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.subtensor import AdvancedIncSubtensor

from bayes_gpx.numerics.compile_modes import SumOfProduct
from bayes_gpx.numerics.threads import in_order

NUMBERS = 2**17
"""Numbers of an array in a block of rows; some arrays then fit into the processor's cache."""

LEAST_ROWS = 16
"""Rows of a block at least: with fewer, most of the time would be Python's own."""

FROM = 500
"""Fewest rows where blocks are worth their Python overhead."""


class UpperOp(Op):
    """An operation that reads its first input, a square matrix, from the diagonal on."""

    # Its second output, of the same shape, is zero below the diagonal.


class UpperBlocks(Op):
    """Elementwise operations on square matrices, done block by block of rows."""

    # `group` are nodes in their order. `inputs` are matrices, with all rows and columns, one row or
    # one column, and single numbers. `outputs` are matrices, zero before a block's first column and
    # arbitrary below the diagonal otherwise, and sums over matrices that are zero there.

    def __init__(self, group: Sequence[Apply], inputs: Sequence, outputs: Sequence) -> None:
        self._types = [v.type for v in outputs]
        self._shared = [tuple(not one for one in v.type.broadcastable) for v in inputs]
        places = {v: k for k, v in enumerate(inputs)}
        self._steps = []
        for node in group:
            self._steps.append((_operation(node), [places[v] for v in _values(node)]))
            places[node.outputs[0]] = len(places)
        self._outputs = [places[v] for v in outputs]

    def make_node(self, *inputs: Any) -> Apply:  # noqa: D102
        return Apply(self, [*inputs], [type_() for type_ in self._types])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        n = max(length for v in inputs for length in v.shape)
        matrices = [
            _kept(storage, n) if type_.ndim else None
            for storage, type_ in zip(output_storage, self._types, strict=True)
        ]
        height = max(NUMBERS // n, LEAST_ROWS)
        blocks = [slice(k, min(k + height, n)) for k in range(0, n, height)]
        sums = in_order(partial(self._of_block, inputs, matrices), _added, blocks)
        for storage, matrix, total in zip(output_storage, matrices, sums, strict=True):
            storage[0] = np.asarray(total) if matrix is None else matrix

    def _of_block(
        self, inputs: Sequence, matrices: Sequence[np.ndarray | None], rows: slice
    ) -> list:
        """Write the block of each matrix; returns the summands of the sums."""
        at = rows, slice(rows.start, None)
        values = [
            v[tuple(which if own else slice(None) for which, own in zip(at, shared))]  # noqa: B905
            for v, shared in zip(inputs, self._shared, strict=True)
        ]
        with np.errstate(all="ignore"):
            for operation, places in self._steps:
                values.append(operation(*[values[k] for k in places]))
        found = [values[k] for k in self._outputs]
        for matrix, value in zip(matrices, found, strict=True):
            if matrix is not None:
                matrix[at] = value
        return [v if matrix is None else 0.0 for matrix, v in zip(matrices, found, strict=True)]


def _operation(node: Apply) -> Callable:
    """NumPy's operation of a node, for a block."""
    if isinstance(node.op, SumOfProduct):
        return lambda a, b: np.vecdot(a, b).sum()
    if isinstance(node.op, Sum):
        return np.sum
    if _on_diagonal(node):
        return partial(_with_diagonal, node.op.set_instead_of_inc)
    function = cast(np.ufunc, _ufunc(node))  # the group has no other nodes
    return function if len(node.inputs) == function.nin else lambda *v: reduce(function, v)


def _with_diagonal(replaced: bool, block: np.ndarray, values: np.ndarray) -> np.ndarray:
    block = block.copy()
    diagonal = np.einsum("ii->i", block[:, : len(block)])
    diagonal[:] = values if replaced else diagonal + values
    return block


def _kept(storage: list, n: int) -> np.ndarray:
    """The matrix of the last call, to be overwritten, or a matrix of zeros."""
    (kept,) = storage
    return np.zeros((n, n)) if kept is None or kept.shape != (n, n) else kept


def _added(one: Sequence, other: Sequence) -> list:
    return [a + b for a, b in zip(one, other, strict=True)]


class ByUpperBlocks(GraphRewriter):
    """Use `UpperBlocks` for the inputs of an `UpperOp`, and for functions of its slopes."""

    def apply(self, fgraph: FunctionGraph) -> None:
        """Rewrite a graph with matrices of many rows; leave others as they are."""
        nodes = fgraph.toposort()
        readers = [node for node in nodes if isinstance(node.op, UpperOp)]
        lengths = {node.inputs[0].type.shape[0] for node in readers}
        if len(lengths) != 1 or None in lengths or min(lengths) < FROM:
            return
        slopes = {node.outputs[1] for node in readers}
        inside = _inside(fgraph, nodes, _zero_below(nodes, slopes))
        after = _following(nodes, slopes)
        later, earlier = ([n for n in inside if (n in after) == is_] for is_ in (True, False))
        made = [_op_of(fgraph, group) for group in (later, earlier) if group]
        known = [pair for pair in made if pair is not None]
        if len(known) == len(made):  # what one group leaves out, the other must not need
            for outputs, found in known:
                replaced = [*zip(outputs, found, strict=True)]
                fgraph.replace_all_validate(replaced, reason="upper_blocks")


def _zero_below(nodes: Sequence[Apply], slopes: set[Variable]) -> set[Variable]:
    """Matrices that have zeros below the diagonal, since slopes have."""
    found = {*slopes}
    for node in nodes:
        kind = getattr(node.op, "scalar_op", None)
        zero = [v in found for v in node.inputs]
        if (
            (isinstance(kind, Mul) and any(zero))
            or (isinstance(kind, TrueDiv) and zero[0])
            or (isinstance(kind, Add | Sub | Neg) and all(zero))
        ):
            found.update(node.outputs)
    return found


def _inside(
    fgraph: FunctionGraph, nodes: Sequence[Apply], zero_below: set[Variable]
) -> list[Apply]:
    """Nodes with results needed only on and above the diagonal, in their order."""
    found = set()
    for node in reversed(nodes):
        (*_, out) = node.outputs
        if isinstance(node.op, Sum | SumOfProduct):
            matrices = all(v.ndim == 2 for v in node.inputs) and out.ndim == 0
            fits = matrices and not zero_below.isdisjoint(node.inputs)
        elif _number_by_number(node):
            clients = fgraph.clients[out]
            fits = out in zero_below or all(
                client in found or (isinstance(client.op, UpperOp) and i == 0)
                for client, i in clients
            )
        else:
            fits = False
        if fits:
            found.add(node)
    return [node for node in nodes if node in found]


def _number_by_number(node: Apply) -> bool:
    """Whether a node is elementwise: each number of its matrix depends on numbers at its place."""
    (*_, out) = node.outputs
    if out.type.ndim != 2 or any(out.type.broadcastable) or out.type.dtype != "float64":
        return False
    return _ufunc(node) is not None or _on_diagonal(node)


def _ufunc(node: Apply) -> np.ufunc | None:
    """NumPy's function of an operation on numbers, if it has one."""
    name, *_ = getattr(node.op, "nfunc_spec", None) or [""]
    function = getattr(np, name, None)
    return function if isinstance(node.op, Elemwise) and isinstance(function, np.ufunc) else None


def _on_diagonal(node: Apply) -> bool:
    """Whether a node adds to the diagonal of a matrix, or puts numbers there."""
    if not isinstance(node.op, AdvancedIncSubtensor) or node.op.idx_list != (0, 1):
        return False
    matrix, values, *indices = node.inputs
    n = matrix.type.shape[0]
    if n is None or values.type.shape not in ((), (1,), (n,)):
        return False
    every = np.arange(n)
    return all(isinstance(v, Constant) and np.array_equal(v.data, every) for v in indices)


def _values(node: Apply) -> list[Variable]:
    """Inputs of a node but for the indices of a diagonal."""
    return node.inputs[:2] if _on_diagonal(node) else node.inputs


def _following(nodes: Sequence[Apply], slopes: set[Variable]) -> set[Apply]:
    """Nodes that use the slopes."""
    reached, found = {*slopes}, set()
    for node in nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            found.add(node)
    return found


def _op_of(
    fgraph: FunctionGraph, group: Sequence[Apply]
) -> tuple[list[Variable], list[Variable]] | None:
    """What others need of several nodes, and the same from one node; None if it were circular."""
    members, made = {*group}, {v for node in group for v in node.outputs}
    outputs = [
        v
        for node in group
        for v in node.outputs
        if any(client not in members for client, _ in fgraph.clients[v])
    ]
    used = dict.fromkeys(v for node in group for v in _values(node))
    inputs = [v for v in used if v not in made]
    if not made.isdisjoint(ancestors(inputs)):
        return None
    made_at_once: Any = UpperBlocks(group, inputs, outputs)(*inputs, return_list=True)
    return outputs, made_at_once
