"""LAPACK's factors, solutions and inverses by address; calls then release Python's lock."""

# SciPy's own wrappers hold the lock, and chains that share a process would wait for each other.
# `ctypes` calls into the same routines do not.

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

_POINTER = ctypes.c_void_p

LOWER, PLAIN, RIGHT, UPPER, TURNED = (np.array([ord(letter)], np.uint8) for letter in "LNRUT")
"""What a routine is told: the lower triangle, or the left factor; neither transposed nor with a
diagonal of ones, as `UPPER` says in its place; the right factor; the upper triangle; transposed."""

ONE, MINUS, ZERO = np.array([1.0]), np.array([-1.0]), np.array([0.0])
"""Factors of a product, and what a triangle is filled with."""

TOGETHER, MANY = 96, 1000
"""Rows of a triangle that LAPACK inverts fastest, and above which its own blocks are as fast."""


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

    # Numbers, since the pointer that ctypes would make of an `ndarray.ctypes` refers to itself, and
    # stays until Python looks for garbage.
    def call(*arguments: Any) -> None:
        routine(*[getattr(argument, "data", argument) for argument in arguments])

    return call


ARGUMENTS = {
    "dpotrf": 5,
    "dpotrs": 8,
    "dpotri": 5,
    "dtrtri": 6,
    "dtrmm": 11,
    "dlauum": 5,
    "dtrtrs": 10,
    "dlacpy": 7,
    "dsyr": 7,
    "dlaset": 7,
}
"""How many arguments each routine takes, all of them pointers."""

potrf, potrs, potri, trtri, trmm, lauum, trtrs, lacpy, syr, laset = (
    _routine(*routine) for routine in ARGUMENTS.items()
)


def invert(upper: np.ndarray) -> None:
    """Replace U in the upper triangle by the upper triangle of (U'U)^-1."""
    # Like `potri`, in five sixths of its time for some hundred rows: blocks of columns are
    # multiplied by the inverse of the columns before them.
    n = len(upper)
    order, info = np.array([n], np.int32), np.zeros(1, np.int32)
    k, i, left, plain = order.ctypes, info.ctypes, LOWER.ctypes, PLAIN.ctypes
    if n >= MANY:
        potri(left, k, upper.ctypes, k, i)
        return
    for start in range(0, n, TOGETHER):
        stop = min(start + TOGETHER, n)
        width, height = np.array([stop - start], np.int32), np.array([start], np.int32)
        w, h, whole = width.ctypes, height.ctypes, upper.ctypes
        corner, above = upper[start:stop, start:stop].ctypes, upper[:start, start:stop].ctypes
        trtri(left, plain, w, corner, k, i)
        trmm(RIGHT.ctypes, left, plain, plain, w, h, MINUS.ctypes, whole, k, above, k)
        trmm(left, left, plain, plain, w, h, ONE.ctypes, corner, k, above, k)
    lauum(left, k, upper.ctypes, k, i)


def in_fortran_order(array: np.ndarray) -> np.ndarray:
    """Copy of an array in the order of LAPACK."""
    return np.array(array, np.float64, order="F")


def root(covariance: np.ndarray, *, lower: bool) -> np.ndarray:
    """Cholesky factor of a covariance (n, n), with zeros; all NaN where there is none."""
    found, n = in_fortran_order(covariance), len(covariance)
    order, less, info = np.array([n], np.int32), np.array([n - 1], np.int32), np.zeros(1, np.int32)
    side, other = (LOWER, UPPER) if lower else (UPPER, LOWER)
    potrf(side.ctypes, order.ctypes, found.ctypes, order.ctypes, info.ctypes)
    if info[0]:
        found[...] = np.nan
    elif n > 1:
        rest, zero, k = found[:, 1:] if lower else found[1:], ZERO.ctypes, less.ctypes
        laset(other.ctypes, k, k, zero, zero, rest.ctypes, order.ctypes)
    return found


def solved(triangle: np.ndarray, B: np.ndarray, *, lower: bool, unit: bool) -> np.ndarray:
    """triangle^-1 B of a contiguous triangle (n, n) and B (n,) or (n, k); NaN if it is singular."""
    found, n = in_fortran_order(B), len(triangle)
    order, columns = np.array([n], np.int32), np.array([found.size // n], np.int32)
    turned, info = not triangle.flags.f_contiguous, np.zeros(1, np.int32)
    side = LOWER if lower != turned else UPPER
    told = side, TURNED if turned else PLAIN, UPPER if unit else PLAIN
    arrays = *told, order, columns, triangle, order, found, order, info
    trtrs(*(array.ctypes for array in arrays))
    if info[0]:
        found[...] = np.nan
    return found
