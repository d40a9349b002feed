"""Refuse matrices of all pairs of rows that would not fit into memory."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LEAST_MATRICES = 5
"""Matrices (n, n) that a fit holds at once, at least.

Peaks of a fit by MAP at n = 2000 to 4000, by the process's largest resident size: 6.3 (linear
kernel), 7.3 (squared exponential), 14 (GPX), 21 (labels); 16 and one for each class (several).
"""

MATRICES_OF_A_CLASS = 1
"""Matrices (n, n) that a fit holds besides, for each of several classes; measured: 1.0."""

WORTH_ASKING = LEAST_MATRICES * 8 * 2000**2
"""Bytes, for 2000 rows, for which the free memory is not checked."""

APPROXIMATE = (
    "Pass approximation=bx.Inducing(m), with some hundred points, or bx.HSGP for few columns; or "
    "take fewer rows."
)
"""What to do where the rows are too many for matrices of all pairs of them."""

CONTROL_GROUPS = Path("/sys/fs/cgroup")
LIMITS = {
    "memory.max": ("memory.current", "memory.stat", "inactive_file"),
    "memory/memory.limit_in_bytes": (
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
}
"""Files of control groups, of version 2 and 1: by the file of the limit, the files of memory in use
and of its categories, and the category that the system frees first (pages of files)."""


@contextmanager
def room_for_pairs(n: int, approximation: Any, classes: int = 0) -> Iterator[None]:
    """Refuse a block with matrices (n, n) that exceed memory; `classes` is 0 for one function."""
    matrices = LEAST_MATRICES + MATRICES_OF_A_CLASS * classes
    needed = matrices * 8 * n**2
    if approximation is not None or needed < WORTH_ASKING:
        yield
        return
    free = available()
    of = f" of {classes} classes" if classes else ""
    message = (
        f"{n} rows{of} without an approximation need matrices of {in_words(8 * n**2)} each, "
        f"{in_words(needed)} at the least; {{}}. {APPROXIMATE}"
    )
    # ValueError before the block if too little is free, MemoryError if memory runs out inside.
    if free is not None and needed > free:
        raise ValueError(message.format(f"{in_words(free)} are free"))
    try:
        yield
    except MemoryError as full:
        raise MemoryError(message.format("more than was free")) from full


def available() -> int | None:
    """Most bytes that this process can still take, or None where the system does not say."""
    known = [*_of_machine(), *_of_container()]
    return min(known) if known else None


def refuse_beyond(needed: int, what: str, cure: str) -> None:
    """Raise ValueError where more bytes are needed than are free, after saying what for."""
    free = available()
    if free is not None and needed > free:
        raise ValueError(f"{what}; {in_words(free)} are free. {cure}")


def peak() -> int | None:
    """Most bytes that this process has held so far, or None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows has none
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _of_machine() -> list[int]:
    """Free memory and swap; all of the memory where only that is known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        entries = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return [entries["MemAvailable"] + entries["SwapFree"]]
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return []


def _of_container() -> list[int]:
    """What a container has left of its limit."""
    found = []
    for limit, (usage, parts, given_up) in LIMITS.items():
        try:
            most, used, listed = (
                (CONTROL_GROUPS / name).read_text() for name in (limit, usage, parts)
            )
            freed = dict(line.split() for line in listed.splitlines())[given_up]
            found.append(max(0, int(most) - int(used) + int(freed)))
        except (OSError, ValueError, KeyError):  # no such file, or "max"
            continue
    return found


def in_words(count: float) -> str:
    """A number of bytes as a person reads it."""
    return f"{count / 2**30:.3g} GiB"
