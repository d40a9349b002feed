"""Fingerprints of rows, with and without their order, which compare two readings of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

BASE = 0x9E3779B97F4A7C15
"""Odd, so its powers modulo 2^64 are never zero."""


class Fingerprint(NamedTuple):
    """Fingerprint of n rows: two numbers from their hashes, modulo 2^64, independent of chunks."""

    n: int = 0
    total: int = 0  # sum of the hashes, equal in any order of the rows
    value: int = 0  # polynomial of the hashes, which depends on their order

    def joined(self, other: Fingerprint) -> Fingerprint:
        """Fingerprint of these rows, followed by others."""
        total = self.total + other.total
        value = self.value * pow(BASE, other.n, 2**64) + other.value
        return Fingerprint(self.n + other.n, total % 2**64, value % 2**64)


def fingerprint(frame: pd.DataFrame) -> Fingerprint:
    """Fingerprint of the rows of one chunk, without its index."""
    hashes = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    powers = np.full(len(frame), BASE, dtype=np.uint64)
    powers[-1:] = 1
    powers = np.multiply.accumulate(powers[::-1])[::-1]
    return Fingerprint(len(frame), int(np.sum(hashes)), int(np.sum(hashes * powers)))


def refuse_other(found: Fingerprint, first: Fingerprint | None) -> None:
    """Raise if rows, in any order, differ from a first reading, if there was one."""
    if first is None or found[:2] == first[:2]:
        return
    what = f"other values in its {found.n} rows than it had"
    if found.n != first.n:
        # If there are more rows, the rest need not have been read.
        what = f"{'at least ' if found.n > first.n else ''}{found.n} rows and had {first.n}"
    raise ValueError(
        f"The data set has {what} when the model was made, but must have the same rows each time "
        "it is read. Restore the rows, or make the model again. An iterable has to begin anew each "
        "time, with the same random numbers if it draws any."
    )


def refuse_reordered(found: Fingerprint, first: Fingerprint | None, cure: str) -> None:
    """Raise if rows, or their order, differ from the first reading."""
    refuse_other(found, first)
    if first is None or found == first:
        return
    raise ValueError(
        f"The data set has its {found.n} rows in another order than it had when the model was "
        "made. Keep their order, because rows are explained, and named by obs=, by their numbers. "
        f"{cure}"
    )
