"""Fingerprints of rows in their order, by which a second reading is told from the first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

BASE = 0x9E3779B97F4A7C15
"""Odd, so that its powers modulo 2^64 are never zero."""


class Fingerprint(NamedTuple):
    """Of some rows: how many, and a polynomial of their hashes, modulo 2^64.

    It depends on the rows and on their order, and not on how they are divided into parts.
    """

    n: int
    value: int

    def joined(self, other: Fingerprint) -> Fingerprint:
        """Of these rows, and of others after them."""
        value = self.value * pow(BASE, other.n, 2**64) + other.value
        return Fingerprint(self.n + other.n, value % 2**64)


def fingerprint(frame: pd.DataFrame) -> Fingerprint:
    """Of the rows of one part; its index is not looked at."""
    hashes = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    powers = np.full(len(frame), BASE, dtype=np.uint64)
    powers[-1:] = 1
    powers = np.multiply.accumulate(powers[::-1])[::-1]
    return Fingerprint(len(frame), int(np.sum(hashes * powers)))


def refuse_other(found: Fingerprint, first: Fingerprint | None) -> None:
    """Raise where rows are not those of the first reading; nothing where there was none."""
    if first is None or found == first:
        return
    what = f"has {found.n} rows and had {first.n}"
    if found.n == first.n:
        what = f"has other values, or its {found.n} rows in another order, than it had"
    raise ValueError(
        f"The data set {what} when the model was made; expected the same rows each time it is "
        "read. Let them be, or make the model of them again; an iterable has to begin anew each "
        "time, with the same random numbers if it draws any."
    )
