"""LAPACK's factors, solutions and inverses by address, so that calls release Python's lock.

SciPy's own wrappers hold the lock, and chains that share a process would wait for each
other; `ctypes` calls into the same routines do not.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from scipy.linalg import cython_blas, cython_lapack

_POINTER = ctypes.c_void_p


def address(name: str) -> int:
    """Return the address in memory of a routine of SciPy's BLAS or LAPACK."""
    capsule = (cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__)[name]
    read_name = ctypes.pythonapi.PyCapsule_GetName
    read_name.restype, read_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    read_address = ctypes.pythonapi.PyCapsule_GetPointer
    read_address.restype, read_address.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    return read_address(capsule, read_name(capsule))


def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    routine = ctypes.CFUNCTYPE(None, *[_POINTER] * n_arguments)(address(name))

    def call(*arguments: Any) -> None:
        routine(*arguments)

    return call


ARGUMENTS = {
    "dpotrf": 5,
    "dpotrs": 8,
    "dpotri": 5,
    "dtrtri": 6,
    "dtrtrs": 10,
    "dlacpy": 7,
    "dsyr": 7,
}
"""How many arguments each routine takes, all of them pointers."""

potrf, potrs, potri, trtri, trtrs, lacpy, syr = (
    _routine(*routine) for routine in ARGUMENTS.items()
)
