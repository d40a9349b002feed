"""PyTensor modes for functions with few calls: fast compilation, to NumPy and LAPACK."""

from collections.abc import Callable, Sequence
from functools import partial, reduce, wraps
from math import prod
from operator import mul
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import MergeOptimizer, dfs_rewriter, node_rewriter
from pytensor.link.basic import PerformLinker
from pytensor.scalar import Cast, Clip, Mul, Switch, TrueDiv
from pytensor.scalar.math import PolyGamma, TriGamma
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Sum
from pytensor.tensor.rewriting.ofg import inline_ofg_node
from scipy.special import polygamma

from bayes_gpx.aliases import Tensor
from bayes_gpx.numerics import lapack


@node_rewriter([OpFromGraph])
def _inlined(fgraph: FunctionGraph, node: Apply) -> list[Variable] | bool | None:
    """Replace an `OpFromGraph` by its inner graph."""
    # Copies of a compiled function share its inner functions, which threads must not.
    return inline_ofg_node(node)


@node_rewriter([pt.second])
def _spread(fgraph: FunctionGraph, node: Apply) -> list[Variable]:
    """Replace `second`, which has no NumPy function and runs in Python for every number."""
    like, values = cast(list[Tensor], node.inputs)
    both = zip(like.type.broadcastable, like.shape, values.shape, strict=True)
    sizes = [own if same else other for same, other, own in both]
    # The node is made directly, since `pt.alloc` would infer the known type again, from the whole
    # graph below.
    return [Apply(Alloc(), [values, *sizes], [node.outputs[0].type()]).outputs[0]]


class SumOfProduct(Op):
    """(a, b) -> the sum of a b, of arrays of one shape."""

    __props__ = ()

    def make_node(self, a: Any, b: Any) -> Apply:  # noqa: D102
        return Apply(self, [a, b], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence, output_storage: Sequence[list]) -> None:  # noqa: D102
        output_storage[0][0] = np.asarray(np.vdot(*inputs))


@node_rewriter([Sum])
def _contracted(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace the sum of a product of arrays by a scalar product, which saves an array."""
    (product,) = cast(list[Tensor], node.inputs)
    if len(node.op.axis or range(product.ndim)) < product.ndim:
        return None
    above, below = _factors(product)
    arrays = [v for v in above if not all(v.type.broadcastable)]
    whole = all(v.type.broadcastable == product.type.broadcastable for v in arrays)
    floats = all(v.dtype == "float64" for v in arrays)
    if len(arrays) < 2 or not whole or not floats:
        return None
    # The first factors are multiplied first, so sums with equal first factors, such as derivatives
    # of one covariance, share their products.
    *first, last = arrays
    found = SumOfProduct()(reduce(mul, first), last)
    scalars = [v.reshape(()) for v in above if all(v.type.broadcastable)]
    return [prod([found, *scalars]) / prod(v.reshape(()) for v in below)]


def _factors(product: Variable) -> tuple[list, list]:
    """Factors of a product of arrays, and the scalars that it is divided by."""
    node = product.owner
    if node is None or not isinstance(node.op, Elemwise):
        return [product], []
    if isinstance(node.op.scalar_op, Mul):
        parts = [_factors(v) for v in node.inputs]
        return [v for above, _ in parts for v in above], [v for _, below in parts for v in below]
    if isinstance(node.op.scalar_op, TrueDiv) and all(node.inputs[1].type.broadcastable):
        above, below = _factors(node.inputs[0])
        return above, [*below, node.inputs[1]]
    return [product], []


class Sloped(Op):
    """An operation with slopes that another operation may compute, after its one number."""

    # The operation that this one computes slopes of, or None.
    slopes_of: "Sloped | None" = None


@node_rewriter(None)
def _found_beside(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Replace a number by the equal one that is computed with its slopes."""
    if not isinstance(node.op, Sloped) or not node.inputs:
        return None
    for other, _ in fgraph.clients[node.inputs[0]]:
        beside = isinstance(other.op, Sloped) and other.op.slopes_of == node.op
        if beside and other.inputs == node.inputs:
            return [other.outputs[0]]
    return None


@node_rewriter(None)
def _found_alone(fgraph: FunctionGraph, node: Apply) -> dict[Variable, Variable] | None:
    """Replace an operation of which only the first number is used by one that computes no more."""
    alone = getattr(node.op, "alone", None)
    if alone is None or any(fgraph.clients[v] for v in node.outputs[1:]):
        return None
    return {node.outputs[0]: alone(node.op.likelihood).make_node(*node.inputs).outputs[0]}


HARMFUL_REWRITES = "local_add_canonizer", "local_reduce_join", "local_log_sum_exp"
"""Rewrites that would break a graph.

The first merges sums, and the second turns the sum of a stack into one operation on its arrays, but
NumPy cannot add more than 32 arrays in one operation. The third undoes log sums of exponentials
that the package has written such that they do not overflow.
"""

USELESS_REWRITES = (
    "cholesky_of_diag",
    "diagonal_solve_to_division",
    "dot_diag_to_elemwise",
    "local_greedy_distributor",
    "local_lift_DiracDelta",
    "local_merge_switch_same_cond",
    "local_shape_to_shape_i",
    "local_useless_elemwise_comparison",
    "local_useless_reshape",
    "local_useless_subtensor",
    "orthogonal_dot_transpose_to_eye",
    "orthogonal_solve_to_transpose_matmul",
    "selection_dot_to_indexing",
    "useless_symmetric_transpose",
)
"""Rewrites that took half of the time of all rewrites, and gain nothing in the package's graphs.

They look for matrices that are diagonal, orthogonal or selections, which the package's algebra has
left out already, for sums to multiply out and comparisons to settle, which it does not write, and
write out shapes that arrays know by themselves.
"""


def _clipped(x: Any, low: Any, high: Any) -> Any:
    # A lower bound above the upper one is the result, as in PyTensor.
    return np.where(x < low, low, np.where(x > high, high, x))


OF_WHOLE_ARRAYS: dict[type, Callable] = {
    Cast: np.array,  # the linker casts
    Clip: _clipped,
    PolyGamma: polygamma,
    Switch: np.where,
    TriGamma: partial(polygamma, 1),
}
"""Functions of arrays, for operations that PyTensor has no NumPy function for.

It calls most of these with one number at a time.
"""


class DirectLinker(PerformLinker):
    """PyTensor's Python linker, which calls NumPy directly, and LAPACK without Python's lock."""

    # PyTensor's way to NumPy takes ten microseconds, longer than the work itself for some rows.
    # SciPy's way to LAPACK holds the lock, and threads would wait for each other.

    def make_all(self, *args: Any, **kwargs: Any) -> tuple:  # noqa: D102
        whole, *made = super().make_all(*args, **kwargs)
        thunks, order = made[2:]
        thunks[:] = map(_direct, thunks, order)

        @wraps(whole)  # with the linker's notes
        def quiet() -> Any:
            with np.errstate(all="ignore"):
                return whole()

        return quiet, *made


def _direct(thunk: Any, node: Apply) -> Callable:
    """Compute a node by LAPACK or its NumPy function; if it has none, by PyTensor's `thunk`."""
    op, inputs = node.op, thunk.inputs
    if isinstance(op, Cholesky | SolveTriangular):
        doubles = all(v.type.dtype == "float64" for v in node.inputs)
        return _unlocked(thunk, op) if doubles else thunk
    if not isinstance(op, Elemwise):
        return thunk
    whole, function = OF_WHOLE_ARRAYS.get(type(op.scalar_op)), cast(Any, op.nfunc)
    folded = function in (np.add, np.multiply) and len(inputs) > 2
    plain = isinstance(function, np.ufunc) and (folded or function.nin == len(inputs))
    function, plain = whole or function, plain or whole is not None
    if not plain or op.inplace_pattern or hasattr(node.tag, "sig"):
        return thunk
    # Inputs of one element, which their types tell, have no shapes to compare.
    typed = zip(inputs, node.inputs, strict=True)
    large = [cell for cell, v in typed if not all(v.type.broadcastable)]
    (output,), dtype = thunk.outputs, np.dtype(node.outputs[0].type.dtype)

    def simple() -> None:
        output[0] = np.asarray(function(*[cell[0] for cell in inputs]), dtype)

    def general() -> None:
        values = [cell[0] for cell in inputs]
        if len({cell[0].shape for cell in large}) > 1:
            op._check_runtime_broadcast(node, values)
        if folded:  # small arrays first, so that few products are as large as the result
            found = reduce(function, sorted(values, key=np.size))
        else:
            found = function(*values)
        output[0] = np.asarray(found, dtype)

    step = general if folded or len(large) > 1 else simple

    vars(step).update(vars(thunk))
    return step


def _unlocked(thunk: Any, op: Cholesky | SolveTriangular) -> Callable:
    """Factorize or solve by LAPACK's address."""
    inputs, (output,) = thunk.inputs, thunk.outputs

    def step() -> None:
        first, *B = (cell[0] for cell in inputs)
        if not first.size or first.shape[0] != first.shape[1] or not first.flags.forc:
            thunk()
        elif isinstance(op, Cholesky):
            output[0] = lapack.root(first, lower=op.lower)
        elif len(B[0]) != len(first) or not B[0].size:
            thunk()
        else:
            output[0] = lapack.solved(first, B[0], lower=op.lower, unit=op.unit_diagonal)

    vars(step).update(vars(thunk))
    return step


def _light(linker: PerformLinker) -> Mode:
    mode = Mode(linker=linker, optimizer="fast_compile").excluding(
        *HARMFUL_REWRITES, *USELESS_REWRITES
    )
    last = dfs_rewriter(_inlined, _spread, _contracted)
    beside = dfs_rewriter(_found_beside, _found_alone)  # whose inputs the merge has made the same
    return mode.register((last, 90), (MergeOptimizer(), 91), (beside, 92))


MODE = _light(DirectLinker())
"""Python linker: compiles in a moment, runs NumPy and LAPACK."""

BUFFERED_MODE = _light(DirectLinker(allow_gc=False))
"""The same, with every intermediate array kept for the next call."""
