"""How PyTensor compiles what is called few times: in a moment, to NumPy and LAPACK."""

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.basic import PerformLinker
from pytensor.tensor.rewriting.ofg import inline_ofg_node


@node_rewriter([OpFromGraph])
def _opened(fgraph, node):
    """Put an operation's inner graph in its place.

    Its inner function is one for all copies of the function that it is in, so threads would share
    it.
    """
    return inline_ofg_node(node)


OTHER_NUMBERS = "local_add_canonizer", "local_log_sum_exp"
"""Rewrites that cost numbers.

NumPy cannot add more than 32 arrays in one operation, so sums are left as they are. So are log sums
of exponentials, which the package writes so that they do not overflow.
"""

OTHERS_GRAPHS = (
    "cholesky_of_diag",
    "diagonal_solve_to_division",
    "dot_diag_to_elemwise",
    "local_shape_to_shape_i",
    "local_useless_reshape",
    "orthogonal_dot_transpose_to_eye",
    "orthogonal_solve_to_transpose_matmul",
    "selection_dot_to_indexing",
    "useless_symmetric_transpose",
)
"""Rewrites that took half of the time of all and found nothing to gain here.

They ask of each matrix whether it is diagonal, orthogonal or a selection, which the package's
algebra never leaves to be found, and write out shapes that arrays know by themselves.
"""


def _light(linker):
    mode = Mode(linker=linker, optimizer="fast_compile").excluding(*OTHER_NUMBERS, *OTHERS_GRAPHS)
    return mode.register((dfs_rewriter(_opened), 90))


MODE = _light("py")
"""Python linker: compiles in a moment, runs NumPy and LAPACK."""

BUFFERED_MODE = _light(PerformLinker(allow_gc=False))
"""The same, with every intermediate array kept for the next call."""
