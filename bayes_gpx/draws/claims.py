"""Claims of calls on the folders of unfinished stores: of two calls, the earlier one ends."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

CLAIMED = "claimed"
"""File of an unfinished store: a word of the call that writes it."""


class Claim:
    """A call's claim on the folder of an unfinished store, later at `path`; the last claim wins."""

    # Each write is within `held`, so the earlier of two calls ends without damage.

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder, self._path, self._own = folder, path, secrets.token_hex(8)
        with self._lost_if_taken(), alone(folder):
            (folder / CLAIMED).write_text(self._own)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write within the folder; refused if another call has claimed it, or if it is damaged."""
        with self._lost_if_taken():
            if (self._folder / CLAIMED).read_text() != self._own:
                raise self._lost
            with reading(self._folder):
                yield

    def moved_away(self) -> Path:
        """Rename the folder to a place that no other call uses, and return it."""
        away = self._folder.with_name(f".{secrets.token_hex(8)}.unfinished")
        with alone(self._folder), self.held():
            self._folder.rename(away)
        if (away / CLAIMED).read_text() != self._own:  # without locks
            away.rename(self._folder)
            raise self._lost
        return away

    @contextmanager
    def _lost_if_taken(self) -> Iterator[None]:
        """Refuse an error of a missing file if another call has taken the folder meanwhile."""
        try:
            yield
        except (FileNotFoundError, KeyError) as gone:  # zarr says KeyError of a missing array
            if self._is_own():
                raise
            raise self._lost from gone

    def _is_own(self) -> bool:
        try:
            return (self._folder / CLAIMED).read_text() == self._own
        except FileNotFoundError:
            return False

    @property
    def _lost(self) -> ValueError:
        return ValueError(
            f"path: another call has written to {self._path} since this one began. Use the result "
            "of that call, or pass another path."
        )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait for other calls that claim, make or move a folder; where the system has no locks, not.

    The lock is on the parent folder and ends with the process, so that nothing of it is left.
    """
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:  # of Windows
        yield
        return
    place = os.open(folder.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # of file systems that cannot lock
            flock(place, LOCK_EX)
        yield
    finally:
        os.close(place)


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Convert what zarr and others say of damaged files into an error that names the folder."""
    try:
        yield
    except (OSError, KeyError, MemoryError):
        raise  # of the disk, or of files that another call takes
    except Exception as wrong:
        raise ValueError(
            f"path: {folder} holds an unfinished store that is damaged: {wrong!r}. Remove it, or "
            "pass another path."
        ) from wrong


class ClaimedArray:
    """An array of a claimed folder."""

    def __init__(self, array: Any, claim: Claim) -> None:
        self._array, self._claim = array, claim

    def __getitem__(self, place: Any) -> np.ndarray:
        with self._claim.held():
            return self._array[place]

    def __setitem__(self, place: Any, values: np.ndarray) -> None:
        with self._claim.held():
            self._array[place] = values

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)
