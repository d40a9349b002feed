"""LAPACK's `potrf`, `potrs`, `potri` and `trtrs` by address, so that calls release Python's lock.

SciPy's own wrappers hold the lock, and chains that share a process would wait for each
other; `ctypes` calls into the same routines do not.
"""

import ctypes

from scipy.linalg import cython_lapack

_POINTER = ctypes.c_void_p


def _routine(name, n_arguments):
    capsule = cython_lapack.__pyx_capi__[name]
    read_name = ctypes.pythonapi.PyCapsule_GetName
    read_name.restype, read_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    prototype = ctypes.CFUNCTYPE(None, *[_POINTER] * n_arguments)
    return prototype(address(capsule, read_name(capsule)))


potrf = _routine("dpotrf", 5)
potrs = _routine("dpotrs", 8)
potri = _routine("dpotri", 5)
trtrs = _routine("dtrtrs", 10)
