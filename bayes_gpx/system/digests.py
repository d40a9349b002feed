"""Digests of arguments and files, which show whether they changed."""

import re
from functools import partial
from hashlib import sha256
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import scipy.sparse as sps

SEAL = "bayes_gpx sha256 "
BLANK = SEAL + 64 * "0"
"""Placeholder that a file's bytes hold once; `sealed` writes their checksum over its zeros."""


def digest(*parts: Any) -> str:
    """SHA-256 in hexadecimal of arrays, of functions' code, and of anything else by its `repr`."""
    found = sha256()
    for part in parts:
        if sps.issparse(part):
            head = type(part).__name__
            body = digest(part.data, part.indices, part.indptr, part.shape).encode()
        elif isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            head = f"{array.dtype} {array.shape}"
            body = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        else:
            # Lists, tuples and dicts are digested entry by entry.
            head, body = type(part).__name__, _said(part).encode()
        found.update(f"{head} {len(body)} ".encode())
        found.update(body)
    return found.hexdigest()


def _said(part: Any) -> str:
    """Text that differs where a value differs, or where a function does something else."""
    if isinstance(part, dict):
        return digest(*part, *part.values())
    if isinstance(part, list | tuple):
        return digest(*part)
    if isinstance(part, partial):
        return digest(part.func, part.args, part.keywords)
    if isinstance(part, MethodType):
        return digest(part.__func__, part.__self__)
    if isinstance(part, FunctionType):
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        return digest(part.__code__, part.__defaults__, part.__kwdefaults__, cells)
    if isinstance(part, CodeType):  # without line numbers: a function may move in its file
        return digest(part.co_code, part.co_consts, part.co_names, part.co_varnames)
    return repr(part)


def sealed(data: bytearray | bytes | memoryview) -> bytearray | bytes:
    """Return the bytes of a file with their own checksum in the place of `BLANK`."""
    data = bytearray(data)
    start = data.index(BLANK.encode()) + len(SEAL)
    data[start : start + 64] = sha256(data).hexdigest().encode()
    return data


def intact(data: bytes) -> bool | None:
    """Whether bytes are those that were sealed; None where they hold no checksum."""
    found = re.search(SEAL.encode() + rb"([0-9a-f]{64})", data)
    if found is None:
        return None
    start, end = found.span(1)
    parts = memoryview(data)[:start], b"0" * 64, memoryview(data)[end:]
    checked = sha256()
    for part in parts:
        checked.update(part)
    return checked.hexdigest().encode() == found[1]
