"""How PyTensor compiles what is called few times: in a moment, to NumPy and LAPACK."""

from pytensor.compile.mode import Mode
from pytensor.link.basic import PerformLinker


def _light(linker):
    excluded = "local_add_canonizer", "local_log_sum_exp"
    return Mode(linker=linker, optimizer="fast_compile").excluding(*excluded)


MODE = _light("py")
"""Python linker: compiles in a moment, runs NumPy and LAPACK.

Sums are left as they are: NumPy cannot add more than 32 arrays in one operation. So are log sums of
exponentials: PyTensor's own hold an inner function, which copies of a function share, and threads
may not.
"""

BUFFERED_MODE = _light(PerformLinker(allow_gc=False))
"""The same, with every intermediate array kept for the next call."""
