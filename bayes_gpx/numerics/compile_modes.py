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


def _light(linker):
    excluded = "local_add_canonizer", "local_log_sum_exp"
    mode = Mode(linker=linker, optimizer="fast_compile").excluding(*excluded)
    return mode.register((dfs_rewriter(_opened), 90))


MODE = _light("py")
"""Python linker: compiles in a moment, runs NumPy and LAPACK.

Sums are left as they are: NumPy cannot add more than 32 arrays in one operation. So are log sums of
exponentials, which the package writes so that they do not overflow.
"""

BUFFERED_MODE = _light(PerformLinker(allow_gc=False))
"""The same, with every intermediate array kept for the next call."""
