"""A progress display that is silent if not useful, and a line before long computations."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from operator import length_hint
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bayes_gpx.system.memory import in_words, peak

WORTH_SAYING = 5.0
"""Seconds above which the duration of a computation is announced."""

PROBE = 400
"""Rows of the matrices with a product that measures the machine's speed."""

READY, WAITED, LONG_ENOUGH = 0.05, 0.005, 0.5
"""Seconds: results that come sooner were ready; a pause between bunches; enough for a rate."""

_CHEAPER: ContextVar[tuple[str, float] | None] = ContextVar("_CHEAPER", default=None)

_SEVERAL: ContextVar["_Several | None"] = ContextVar("_SEVERAL", default=None)


@dataclass
class _Several:
    calls: int
    called: str
    said: bool = False


@contextmanager
def of_several(calls: int, called: str = "") -> Iterator[None]:
    """Let the first of so many similar calls announce all; with a name, even without a display."""
    token = _SEVERAL.set(_SEVERAL.get() or _Several(calls, called))
    try:
        yield
    finally:
        _SEVERAL.reset(token)


def speaks(wanted: bool) -> bool:
    """Whether computations are announced."""
    several = _SEVERAL.get()
    return wanted or (several is not None and bool(several.called))


@contextmanager
def beside(cheaper: tuple[str, float] | None) -> Iterator[None]:
    """Let `foretell` also name a cheaper approximation, with its relative time."""
    token = _CHEAPER.set(cheaper)
    try:
        yield
    finally:
        _CHEAPER.reset(token)


class Bar(Progress):
    """A progress display without threads."""

    # Rich's own `track` starts one even if nothing is displayed, and waits for it where its loop
    # ends. If an error leaves the loop open until Python exits, it waits forever.

    def track(self, sequence: Iterable, *, total: int | None = None, description: str) -> Iterator:
        """Yield the items of a sequence, and count them."""
        task = self.add_task(description, total=length_hint(sequence) if total is None else total)
        for item in sequence:
            yield item
            self.advance(task)


def progress_bar(wanted: bool) -> Bar:
    """Progress display on a terminal or in a notebook; silent if output goes to a file."""
    console = Console(stderr=True)
    # A terminal has one display at a time, which belongs to the main thread.
    alone = threading.current_thread() is threading.main_thread()
    visible = wanted and alone and (console.is_terminal or console.is_jupyter)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("so far, still"),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=console, disable=not visible, transient=True)


def flops_per_second() -> float:
    """Floating-point operations that products of matrices do in a second here, at best."""
    A, seconds = np.ones((PROBE, PROBE)), []
    for _ in range(30):  # some of them are not interrupted by other programs
        begun = perf_counter()
        A @ A
        seconds.append(perf_counter() - begun)
    return 2.0 * PROBE**3 / min(seconds)


def foretell(
    what: str,
    evaluate: Callable[[], object],
    times: int,
    at_once: int,
    wanted: bool,
    quicker: tuple[str, float] | None = None,
) -> None:
    """Announce duration and memory of a computation, and a cheaper one, if it takes long."""
    # About `times` calls of `evaluate` will follow, `at_once` at a time. Nothing is called unless
    # `wanted`. `quicker` is an alternative and its relative time; `beside` may name another.
    if not wanted or threading.current_thread() is not threading.main_thread():
        return
    each = seconds_of(evaluate)
    total = each * times / at_once
    held = peak()
    memory = "" if held is None else f"; memory so far {in_words(held)}"
    how = f" ({times:,} evaluations of {each:.2g} s, {at_once} at a time{memory})"
    announce(what, total, f"{how}.{_instead(total, quicker)}")


def announce(what: str, seconds: float, more: str = ".") -> None:
    """Say how long a computation will take, if it is long; only the main thread speaks."""
    if (several := _SEVERAL.get()) is not None:
        seconds *= 0 if several.said else several.calls
    if seconds > WORTH_SAYING and threading.current_thread() is threading.main_thread():
        console = Console(stderr=True, soft_wrap=True)
        if several is not None:
            several.said = True
            # On a terminal, the command's display is in the line.
            what = "\n" * (console.is_terminal and several.called != "") + (several.called or what)
        console.print(f"{what}: {spoken(seconds)} or so{more}", highlight=False)


def announced[T](found: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Yield results, and announce the rest once their rate is known; "" announces nothing."""
    # Results come in bunches, and the rate is of whole ones: from the first result, which waits for
    # the compiler, to the last before a wait.
    begun = last = 0.0
    ready = 0
    for count, one in enumerate(found, start=1):
        since = perf_counter() - begun if begun else 0.0
        if what and last > LONG_ENOUGH and since - last > WAITED:
            announce(what, (total - count + 1) * last / (count - 1 - ready))
            what = ""
        yield one
        begun = begun or perf_counter()
        last = perf_counter() - begun
        if last < READY:
            ready = count


def seconds_of(evaluate: Callable[[], object]) -> float:
    """Seconds of a call, the second one: the first may compile."""
    evaluate()
    begun = perf_counter()
    evaluate()
    return perf_counter() - begun


def _instead(total: float, quicker: tuple[str, float] | None) -> str:
    """What would take less than half of the time, in sentences; "" without such."""
    name, share = _CHEAPER.get() or ("", 1.0)
    ways = [(f"With approximation={name}", share), quicker or ("", 1.0)]
    return "".join(f" {way}: {spoken(part * total)} or so." for way, part in ways if part < 0.5)


def spoken(seconds: float) -> str:
    """A duration in words, rounded as an estimate is."""
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            number = seconds / size
            return f"{number:.0f} {unit}" if number >= 10.0 else f"{number:.2g} {unit}"
    return f"{seconds:.0f} seconds"
