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

    # Each write is within `held`, and claims wait for it, so the earlier of two calls ends without
    # damage.

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder, self._path, self._own = folder, path, secrets.token_hex(8)
        with self.lost_if_taken(), locked(folder):
            (folder / CLAIMED).write_text(self._own)

    @contextmanager
    def held(self, *, alone: bool = False) -> Iterator[None]:
        """Write within the folder; refused if another call has claimed it, or if it is damaged.

        Other writers with this claim go on, unless the call is to be `alone`.
        """
        with self.lost_if_taken(), locked(self._folder, alone=alone):
            if (self._folder / CLAIMED).read_text() != self._own:
                raise self._lost
            with reading(self._folder):
                yield

    def moved_away(self) -> Path:
        """Rename the folder, which is held alone, to a place of its own, and return it."""
        away = self._folder.with_name(f".{secrets.token_hex(8)}.unfinished")
        self._folder.rename(away)
        if (away / CLAIMED).read_text() != self._own:  # without locks
            away.rename(self._folder)
            raise self._lost
        return away

    @contextmanager
    def lost_if_taken(self) -> Iterator[None]:
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
def locked(folder: Path, *, alone: bool = True) -> Iterator[None]:
    """Wait for other calls that write, claim, finish or replace a folder; without locks, go on.

    Calls that are not `alone` share the lock. It is on the folder and ends with the process.
    """
    try:
        from fcntl import LOCK_EX, LOCK_SH, flock

        place = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # of Windows; or there is nothing to share
        yield
        return
    try:
        with suppress(OSError):  # of file systems that cannot lock
            flock(place, LOCK_EX if alone else LOCK_SH)
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
