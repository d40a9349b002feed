"""Compiled functions for several threads: PyTensor's serve one at a time."""

import threading

_COPYING = threading.Lock()


class Copies(threading.local):
    """The running thread's own copies of compiled functions, and what it keeps for its next call.

    Parameters
    ----------
    compiled : callable
        Returns the functions; called by every thread.

    Attributes
    ----------
    functions : tuple
    last : object
        None at first.
    """

    def __init__(self, compiled):
        with _COPYING:
            self.functions = tuple(function.copy() for function in compiled())
        self.last = None
