"""Fingerprints of rows, with and without their order: by them a second reading is compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

BASE = 0x9E3779B97F4A7C15
"""Odd, so that its powers modulo 2^64 are never zero."""


class Fingerprint(NamedTuple):
    """Of some rows, or none: how many, and two numbers made of their hashes, modulo 2^64.

    Neither depends on how the rows are divided into parts.

    Attributes
    ----------
    n : int
    total : int
        The sum of the hashes, which is the same in any order of the rows.
    value : int
        A polynomial of the hashes, which depends on their order.
    """

    n: int = 0
    total: int = 0
    value: int = 0

    def joined(self, other: Fingerprint) -> Fingerprint:
        """Of these rows, and of others after them."""
        total = self.total + other.total
        value = self.value * pow(BASE, other.n, 2**64) + other.value
        return Fingerprint(self.n + other.n, total % 2**64, value % 2**64)


def fingerprint(frame: pd.DataFrame) -> Fingerprint:
    """Of the rows of one part; its index is not looked at."""
    hashes = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    powers = np.full(len(frame), BASE, dtype=np.uint64)
    powers[-1:] = 1
    powers = np.multiply.accumulate(powers[::-1])[::-1]
    return Fingerprint(len(frame), int(np.sum(hashes)), int(np.sum(hashes * powers)))


def refuse_other(found: Fingerprint, first: Fingerprint | None) -> None:
    """Raise where rows are not those of the first reading; nothing where there was none.

    Their order is not looked at. Where there are more rows, the rest need not have been read.
    """
    if first is None or found[:2] == first[:2]:
        return
    what = f"other values in its {found.n} rows than it had"
    if found.n != first.n:
        what = f"{'at least ' if found.n > first.n else ''}{found.n} rows and had {first.n}"
    raise ValueError(
        f"The data set has {what} when the model was made; expected the same rows each time it is "
        "read. Let them be, or make the model of them again; an iterable has to begin anew each "
        "time, with the same random numbers if it draws any."
    )


def refuse_reordered(found: Fingerprint, first: Fingerprint | None, cure: str) -> None:
    """Raise where rows are not those of the first reading, or not in their order."""
    refuse_other(found, first)
    if first is None or found == first:
        return
    raise ValueError(
        f"The data set has its {found.n} rows in another order than it had when the model was "
        "made; expected the same order each time, since rows are explained, and named by obs=, by "
        f"their numbers. {cure}"
    )
