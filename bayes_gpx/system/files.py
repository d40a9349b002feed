"""Write files atomically: next to their place, and renamed at the end."""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any


def read_path(path: str | PathLike) -> Path:
    """Convert the user's path; raises ValueError for other types."""
    if not isinstance(path, str | PathLike):
        raise ValueError(f"path is a {type(path).__name__}. Pass the name of a file.")
    return Path(path)


def writable(path: str | PathLike) -> Path:
    """Path of a file that can be written, checked before any computation; else ValueError."""
    path = read_path(path)
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{path} cannot be written. Pass a file name in a folder that exists.")
    if _takes_bytes_only(path):
        return path
    beside = _beside(path)
    try:
        if path.exists():
            path.open("ab").close()
        beside.touch(exist_ok=False)
        beside.unlink()
    except OSError as refused:
        raise ValueError(
            f"{path} cannot be written: {refused.strerror}. Choose a folder, and a file if it "
            "exists, that you may write to."
        ) from refused
    return path


HERE, EXCHANGE = -100, 2
"""Numbers of Linux (and macOS): relative to the working directory; let two paths change places."""


def exchanged(new: Path, old: Path) -> bool:
    """Let two paths change places in one step, where the system can; False if it did not.

    A folder cannot be renamed to the place of another one. In two steps, one of them would be
    missing if the process is killed between them.
    """
    places = os.fsencode(new), os.fsencode(old)
    system: Any = None if sys.platform == "win32" else ctypes.CDLL(None)
    if hasattr(system, "renameat2"):
        return system.renameat2(HERE, places[0], HERE, places[1], EXCHANGE) == 0
    if hasattr(system, "renamex_np"):
        return system.renamex_np(*places, EXCHANGE) == 0
    return False


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` once the block has ended; the last writer wins."""
    path = Path(path)
    if _takes_bytes_only(path):
        with path.open("wb") as file:
            yield file
        return
    place, beside = path.resolve(), _beside(path)
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    finally:
        # If the block failed, the old file stays and this removes the new one.
        beside.unlink(missing_ok=True)


def _takes_bytes_only(path: Path) -> bool:
    """Whether a path is a pipe, a terminal or /dev/null, which must not be replaced by a file."""
    return path.exists() and not path.is_file()


def _beside(path: Path) -> Path:
    return path.resolve().with_name(f".{secrets.token_hex(8)}.unfinished")
