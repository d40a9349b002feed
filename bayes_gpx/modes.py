"""How PyTensor compiles what is called few times: in a moment, to NumPy and LAPACK."""

from pytensor.compile.mode import Mode
from pytensor.link.basic import PerformLinker


def _light(linker):
    return Mode(linker=linker, optimizer="fast_compile").excluding("local_add_canonizer")


MODE = _light("py")
"""Python linker: compiles in a moment, runs NumPy and LAPACK.

Sums are left as they are: NumPy cannot add more than 32 arrays in one operation.
"""

BUFFERED_MODE = _light(PerformLinker(allow_gc=False))
"""The same, with every intermediate array kept for the next call."""
