"""Processes that something happens to: killed, out of disk space, interrupted."""

import errno
import faulthandler
import io
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

PROCESSES = multiprocessing.get_context("fork")
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"}
"""File operations, by the names that Python's audit events give them."""

PATIENCE = 120.0
"""Seconds after which a process counts as hanging."""

CLEAR = ValueError, OSError, BrokenProcessPool
"""Errors that a user may see, if they have a text."""

KILLED = "killed"
"""Result of a process that ended without one."""

Task = Callable[[Path], Any]
"""Works in a folder, and returns a result."""


class Fault(Exception):
    """The package lost something, gave a wrong number, or raised an error that explains nothing."""


class What(NamedTuple):
    """What happens to a process."""

    kind: str = "nothing"
    """One of "kill", "full" and "interrupt" at a file operation, "limit" and "torn" at a size of a
    file, "later" after some time, and "nothing"."""

    at: float = 0.0
    """Number of the operation, bytes, or seconds."""


NOTHING = What()


class Running:
    """A task in a process and a process group of its own."""

    def __init__(self, task: Task, folder: Path, what: What) -> None:
        self._receive, send = PROCESSES.Pipe(duplex=False)
        self._child = PROCESSES.Process(target=_child, args=(send, task, folder, what))
        self._child.start()
        send.close()

    def result(self) -> Any:
        """What the task returned, its clear error, or `KILLED`."""
        pid, found, end = self._child.pid, KILLED, time.monotonic() + PATIENCE
        try:
            # Workers that outlive the process hold its pipes open, so only `is_alive` says its end.
            while not self._receive.poll(0.02) and self._child.is_alive():
                if time.monotonic() > end:
                    raise Fault("the process hangs")
            if self._receive.poll():
                found = pickle.loads(self._receive.recv_bytes())
        except EOFError:
            pass
        finally:
            if pid is not None:  # with the workers that it may have left
                try:
                    os.killpg(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self._child.join()
        if isinstance(found, str) and found.startswith("Traceback"):
            raise Fault(found)
        return found


def run(task: Task, folder: Path, what: What = NOTHING) -> Any:
    """Run a task, and return what it returned, its clear error, or `KILLED`."""
    return Running(task, folder, what).result()


def certainly(task: Task, folder: Path) -> Any:
    """Result of a task that nothing happens to; an error is a fault."""
    found = run(task, folder)
    if isinstance(found, BaseException) or found is KILLED:
        raise Fault(f"an undisturbed process failed: {found!r}")
    return found


def choose(task: Task, folder: Path, rng: random.Random, kinds: str, largest: int) -> What:
    """Choose what happens to a task, of several kinds; its largest file has so many bytes."""
    kind = rng.choice(kinds.split())
    if kind in ("limit", "torn"):
        return What(kind, int(largest * rng.random()))
    if kind == "later":
        return What(kind, rng.uniform(0.01, 1.5))
    copy = folder.with_name(f"{folder.name}.counted")
    shutil.copytree(folder, copy)
    number = run(task, copy, What("count"))
    shutil.rmtree(copy)
    return What(kind, rng.randint(1, max(1, number)))


def _child(send: Any, task: Task, folder: Path, what: What) -> None:
    os.setpgid(0, 0)
    number, home = 0, os.getpid()

    def watch(event: str, arguments: tuple) -> None:
        nonlocal number
        if event not in EVENTS or os.getpid() != home or not _concerns(folder, event, arguments):
            return
        number += 1
        if number == what.at and what.kind == "kill":
            os.kill(home, signal.SIGKILL)
        if number == what.at and what.kind == "interrupt":
            os.kill(home, signal.SIGINT)
        if number >= what.at and what.kind == "full" and event in ("open", "os.mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))

    sys.addaudithook(watch)
    faulthandler.dump_traceback_later(0.9 * PATIENCE, file=sys.__stderr__)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            if what.kind == "later":
                signal.setitimer(signal.ITIMER_REAL, what.at)
            if what.kind in ("limit", "torn"):
                default = signal.SIG_DFL if what.kind == "torn" else signal.SIG_IGN
                signal.signal(signal.SIGXFSZ, default)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(what.at), int(what.at)))
            found = task(folder)
    except CLEAR as error:
        found = error if str(error).strip() else traceback.format_exc()
    except BaseException:
        found = traceback.format_exc()
    if what.kind == "count":
        found = number
    if isinstance(found, tuple) and "Traceback" in said.getvalue():
        found = said.getvalue()[said.getvalue().index("Traceback") :]
    elif isinstance(found, tuple):
        found = (*found, said.getvalue())
    try:
        content = pickle.dumps(found)
    except Exception:
        content = pickle.dumps(ValueError(str(found)))
    send.send_bytes(content)
    os._exit(0)  # nothing of what the parent would do at its end


def _concerns(folder: Path, event: str, arguments: tuple) -> bool:
    """Whether an operation changes something in the folder."""
    if not str(arguments[0]).startswith(f"{folder}/"):
        return False
    if event != "open":
        return True
    mode, flags = arguments[1], arguments[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
