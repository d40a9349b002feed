"""Faults at random: kill, fill the disk, corrupt, race; then check that nothing is lost or wrong.

In each trial a process works in a folder until something happens to it: `SIGKILL` at one of its
file operations or after some time, a full disk, a file that may not grow, a worker that disappears,
bytes that flip, or a second process that writes to the same path. Another process then reads the
files. Earlier results must be there, whole, or replaced by new ones. A repeated call must give the
numbers of an undisturbed call. Everything else must be an error with a clear text.

    python tests/faults/faults.py [--minutes 60] [--seed 1] [--only store] [--out faults.csv]

It prints the seed, each fault of the package with the number of its trial, and a table. It exits
with 1 if the package had a fault. `--seed S --trial N` repeats one trial.
"""

import argparse
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from disturb import KILLED, NOTHING, PROCESSES, Fault, Running, What, certainly, choose, run

import bayes_gpx as bx
from bayes_gpx.cli import main as command
from bayes_gpx.draws import stores
from bayes_gpx.explain import answered

QUIET = {"progressbar": False}
ROWS, DRAWS, BYTES = 48, 12, 60_000
ANYTHING = "kill kill full limit torn later"
"""Most of what can happen to a process."""


class InPlace(Executor):
    """Runs tasks where they are submitted, so that all file operations are of one process."""

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        done: Future = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Known:
    """Models, fits, and the results of undisturbed calls."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        X = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=["dose", "age"])
        y = pd.Series(np.sin(X["dose"]) * X["age"] + 0.2 * rng.normal(size=ROWS), name="answer")
        self.X, self.gp, self.gpx = X, bx.GP(X, y), bx.GPX(X, y)
        self.first, self.second = (
            self.gp.fit("laplace", draws=DRAWS, seed=s, **QUIET) for s in (1, 2)
        )
        self.of_gpx = self.gpx.fit("laplace", draws=DRAWS, seed=1, **QUIET)
        self.results: dict[Any, Any] = {}
        self.folder = folder
        X.assign(answer=y).to_csv(folder / "data.csv", index=False)

    def result(self, name: str, task: Callable[[Path], Any]) -> Any:
        """Result of an undisturbed call, in a folder of its own."""
        if name not in self.results:
            with tempfile.TemporaryDirectory() as own:
                shutil.copy(self.folder / "data.csv", own)
                self.results[name] = certainly(task, Path(own))
        return self.results[name]


def load(folder: Path) -> tuple[dict, np.ndarray]:
    """Draws and a prediction of the fit in a folder."""
    model, idata = bx.load(folder / "fit.nc")
    draws = {str(name): v.values for name, v in idata["posterior"].data_vars.items()}
    found = bx.predictions(model, idata, obs=[0, 5], keep="summary", **QUIET)
    return draws, found["f_mean"].values


def save(known: Known, which: str, folder: Path) -> None:
    """Save one of the two fits."""
    bx.save(known.gp, getattr(known, which), folder / "fit.nc")


def saved(known: Known, which: str, folder: Path) -> Any:
    """Save a fit, and load it."""
    save(known, which, folder)
    return load(folder)


def equal(a: Any, b: Any) -> bool:
    """Whether two results have the same numbers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, xr.Dataset):
        names = set(a.variables) == set(b.variables)
        return names and all(equal(a[n].values, b[n].values) for n in a.variables)
    return bool(np.array_equal(a, b, equal_nan=np.issubdtype(np.asarray(a).dtype, np.number)))


def said(found: Any) -> str:
    """Outcome of a process in a word."""
    if found is KILLED:
        return "killed"
    return "error" if isinstance(found, BaseException) else "done"


def clean(folder: Path, names: set[str]) -> None:
    """Check that a process that was not killed left nothing half-made."""
    more = {entry.name for entry in folder.iterdir()} - names
    if more:
        raise Fault(f"left {sorted(more)}")


def save_over(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """A fit is saved where another one is, or nothing."""
    each = [known.result(f"saved {w}", partial(saved, known, w)) for w in ("first", "second")]
    before = rng.random() < 0.7
    if before:
        certainly(partial(save, known, "first"), folder)
    task = partial(save, known, "second")
    what = choose(task, folder, rng, ANYTHING, BYTES)
    found = run(task, folder, what)
    if found is not KILLED:
        clean(folder, {"fit.nc"})
    if not (folder / "fit.nc").exists():
        if before or found is None:
            raise Fault("fit.nc is gone")
    else:
        held = certainly(load, folder)
        allowed = each[1:] if found is None or not before else each
        allowed = each[:1] if isinstance(found, BaseException) and before else allowed
        if not any(equal(held, one) for one in allowed):
            raise Fault("fit.nc has other numbers")
    return what.kind, said(found)


def change_bytes(path: Path, rng: random.Random) -> str:
    """Corrupt a file."""
    data, kind = bytearray(path.read_bytes()), rng.choice(["flip", "truncate", "zero", "append"])
    at = rng.randrange(max(len(data), 1))
    if kind == "flip":
        for place in [at, *(rng.randrange(len(data)) for _ in range(rng.randrange(4)))]:
            data[place] ^= 1 << rng.randrange(8)
    elif kind == "truncate":
        del data[at:]
    elif kind == "zero":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    else:
        data += rng.randbytes(64)
    path.write_bytes(data)
    return kind


def corrupt_file(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """The file of a fit is changed."""
    right = known.result("saved first", partial(saved, known, "first"))
    certainly(partial(save, known, "first"), folder)
    kind = change_bytes(folder / "fit.nc", rng)
    found = run(load, folder)
    if isinstance(found, BaseException):
        if "fit.nc" not in str(found):
            raise Fault(f"an error does not name the file: {found}")
    elif not equal(found, right):
        raise Fault(f"a changed file ({kind}) gave other numbers")
    return kind, said(found)


def race_to_save(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """Two processes save to one file."""
    each = [known.result(f"saved {w}", partial(saved, known, w)) for w in ("first", "second")]
    both = [
        Running(partial(save, known, w), folder, What("later", rng.uniform(0.02, 0.6)))
        if rng.random() < 0.3
        else Running(partial(save, known, w), folder, NOTHING)
        for w in ("first", "second")
    ]
    found = [one.result() for one in both]
    if any(isinstance(one, BaseException) for one in found):
        raise Fault(f"one of two that save failed: {found}")
    if KILLED not in found:
        clean(folder, {"fit.nc"})
    if (folder / "fit.nc").exists():
        held = certainly(load, folder)
        if not any(equal(held, one) for one in each):
            raise Fault("fit.nc has other numbers")
    elif None in found:
        raise Fault("fit.nc is gone")
    return "race", "+".join(sorted(map(said, found)))


def in_store(known: Known, question: str, seed: int, executor: Any, folder: Path) -> xr.Dataset:
    """Draws of an explanation, from their store."""
    function, of_gpx = getattr(bx, question), question in ("weights", "contributions")
    model, idata = (known.gpx, known.of_gpx) if of_gpx else (known.gp, known.first)
    options: dict[str, Any] = {"executor": executor() if executor else None}
    function(model, idata, path=folder / "store.zarr", seed=seed, **options, **QUIET)
    return held(folder)


def held(folder: Path) -> xr.Dataset:
    """Content of a store."""
    return xr.open_zarr(folder / "store.zarr", chunks=None, consolidated=False).load()


def opened(folder: Path) -> xr.Dataset:
    """Content of a finished store; what zarr makes of damage counts as an error that is clear."""
    try:
        return held(folder)
    except Exception as unreadable:
        raise ValueError(repr(unreadable)) from unreadable


QUESTIONS = "attributions", "derivatives", "predictions", "weights", "contributions"


def a_store(known: Known, rng: random.Random) -> tuple[Callable, Callable, Any, Any]:
    """Two tasks that write to a store by different seeds, and their results."""
    question, executor = rng.choice(QUESTIONS), rng.choice([None, InPlace])
    tasks = [partial(in_store, known, question, seed, executor) for seed in (1, 2)]
    name = f"{question} {executor is None}"
    results = [known.result(f"{name} {k}", task) for k, task in enumerate(tasks)]
    return (*tasks, *results)


def store(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """Draws are written, several times, until nothing happens any more."""
    first, second, earlier, right = a_store(known, rng)
    before = rng.random() < 0.6
    if before:
        certainly(first, folder)
    kinds, outcomes = [], []
    for _ in range(rng.randint(1, 3)):
        what = choose(second, folder, rng, ANYTHING, BYTES // 4)
        found = run(second, folder, what)
        kinds.append(what.kind)
        outcomes.append(said(found))
        if (folder / "store.zarr").exists():
            content = certainly(held, folder)
            if not equal(content, right) and not (before and equal(content, earlier)):
                raise Fault(f"after {what}, the store has other numbers")
            if isinstance(found, xr.Dataset) and not equal(content, right):
                raise Fault(f"after {what}, the store is an earlier one")
        elif before or isinstance(found, xr.Dataset):
            raise Fault(f"after {what}, the store is gone: {os.listdir(folder)}")
    if not equal(certainly(second, folder), right):
        raise Fault(f"after {kinds}, the repeated call gave other numbers")
    return "+".join(sorted(set(kinds))), "+".join(sorted(set(outcomes)))


def corrupt_store(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """A file of a finished or an unfinished store is changed."""
    first, _, right, _ = a_store(known, rng)
    finished = rng.random() < 0.5
    if finished:
        certainly(first, folder)
    else:
        run(first, folder, choose(first, folder, rng, "kill", BYTES))
    files = sorted(f for f in folder.rglob("*") if f.is_file())
    chunks = [f for f in files if "/c/" in str(f)]
    # Of a finished store, which xarray reads, zarr keeps no checksum of the metadata.
    files = chunks if chunks and (finished or rng.random() < 0.7) else files
    if not files:
        return "unfinished", "nothing"
    place = rng.choice(files)
    kind = change_bytes(place, rng)
    found = run(opened if finished else first, folder)
    if not isinstance(found, BaseException) and not equal(found, right):
        raise Fault(f"a changed file ({kind} {place.relative_to(folder)}) gave other numbers")
    return f"{'finished' if finished else 'unfinished'}", said(found)


def race_to_a_store(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """Two processes write draws to one path, the same ones or different ones."""
    first, second, *results = a_store(known, rng)
    same = rng.random() < 0.5
    tasks = [second, second] if same else [first, second]
    results = [results[1]] * 2 if same else results
    both = []
    for task in tasks:
        both.append(Running(task, folder, NOTHING))
        time.sleep(rng.choice([0.0, 0.0, 0.1, 0.4]))
    found = [one.result() for one in both]
    ends = [said(one) for one in found]
    if "done" not in ends:
        raise Fault(f"neither of two calls finished: {found}")
    for one in found:
        if isinstance(one, BaseException) and "path" not in str(one):
            raise Fault(f"an error does not explain the race: {one!r}")
    finished = [right for end, right in zip(ends, results, strict=True) if end == "done"]
    if not any(equal(certainly(held, folder), right) for right in finished):
        raise Fault("the store has the numbers of neither call")
    return "same" if same else "different", "+".join(sorted(ends))


def with_pool(known: Known, question: str, to_store: bool, after: Any, folder: Path) -> xr.Dataset:
    """An explanation by two worker processes, one of which disappears after some seconds."""
    with ProcessPoolExecutor(2, mp_context=PROCESSES) as pool:
        for ready in [pool.submit(time.sleep, 0.01) for _ in range(4)]:
            ready.result()
        if after is not None:
            victim = sorted(pool._processes)[-1]
            threading.Timer(after, os.kill, (victim, signal.SIGKILL)).start()
        try:
            if to_store:
                return in_store(known, question, 1, lambda: pool, folder)
            function, of_gpx = getattr(bx, question), question in ("weights", "contributions")
            model, idata = (known.gpx, known.of_gpx) if of_gpx else (known.gp, known.first)
            return function(model, idata, keep="summary", seed=1, executor=pool, **QUIET)
        finally:  # the end of a pool can hang if a worker was killed with its queue's lock
            for worker in list(pool._processes.values()):
                worker.kill()


def lost_worker(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """A worker of a process pool disappears, or the process that has the pool."""
    question, to_store = rng.choice(QUESTIONS), rng.random() < 0.6
    task = partial(with_pool, known, question, to_store)
    right = known.result(f"pool {question} {to_store}", partial(task, None))
    whole = rng.random() < 0.3
    after = rng.uniform(0.0, 1.2)
    disturbed = partial(task, None if whole else after)
    found = run(disturbed, folder, What("later", after) if whole else NOTHING)
    if isinstance(found, xr.Dataset) and not equal(found, right):
        raise Fault("a pool that lost a worker gave other numbers")
    if not equal(certainly(partial(task, None), folder), right):
        raise Fault("the repeated call gave other numbers")
    return "the process" if whole else "a worker", said(found)


FIT = "fit data.csv --target answer --model gp --method {} --draws 20 --out run --seed {} --quiet"
COMMANDS = {
    "fit": FIT.format("laplace", 2) + " --force",
    "fit by nuts": FIT.format("nuts --chains 1 --tune 50", 2) + " --force",
    "predict": "predict run data.csv --out out.csv --seed {seed} --quiet",
    "explain": "explain run data.csv --out out.csv --seed {seed} --quiet",
    "report": "report run --seed {seed} --quiet",
}


def called(words: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code of a command, and all that it left."""
    os.chdir(folder)
    try:
        code = command(words.split())
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, content(folder)


def content(folder: Path) -> dict[str, Any]:
    """Files of a folder, as far as a user sees them."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".csv" and file.name != "data.csv":
            found[file.name] = file.read_bytes()
        elif file.suffix == ".html":
            found[file.name] = file.read_text().rstrip().endswith("</html>")
        elif file.name == "fit.nc":
            idata = bx.load(file)[1]
            found[file.name] = {str(n): v.values for n, v in idata["posterior"].data_vars.items()}
    return found


def command_line(known: Known, folder: Path, rng: random.Random) -> tuple[str, str]:
    """A command is killed, interrupted, or finds the disk full."""
    shutil.copy(known.folder / "data.csv", folder)
    shutil.copytree(known.folder / "run", folder / "run")
    name = rng.choice([n for n in COMMANDS if n != "fit by nuts" or rng.random() < 0.3])
    if name == "predict" or name == "explain" or name == "report":
        certainly(partial(called, COMMANDS[name].format(seed=1)), folder)
    before = certainly(content, folder)
    task = partial(called, COMMANDS[name].format(seed=2))
    what = choose(task, folder, rng, f"{ANYTHING} interrupt interrupt", BYTES // 8)
    if name == "fit by nuts":
        what = What("later", rng.uniform(0.5, 8.0))
    found = run(task, folder, what)
    after = certainly(content, folder)
    if found is not KILLED and not isinstance(found, tuple):
        raise Fault(f"{name} raised {found!r}")
    if isinstance(found, tuple) and found[0] and not found[2].strip():
        raise Fault(f"{name} ended with {found[0]} and no message")
    if before.keys() - after.keys():
        raise Fault(f"{name}, {what}: {sorted(before.keys() - after.keys())} is gone")
    done = isinstance(found, tuple) and found[0] == 0
    if name != "fit by nuts":
        copy = known.result(f"run {name}", partial(again, known, task))
        for file, value in after.items():
            new = copy[file]
            if equal(value, new) or (not done and file in before and equal(value, before[file])):
                continue
            part = isinstance(value, bytes) and new.startswith(value) and value.endswith(b"\n")
            if part and what.kind == "interrupt" and f"{file} holds the first" in found[2]:
                continue
            raise Fault(f"{name}, {what}: {file} is neither the earlier one nor the new one")
    end = "killed" if found is KILLED else "done" if done else "error"
    return f"{name}: {what.kind}", end


def again(known: Known, task: Callable, folder: Path) -> dict[str, Any]:
    """What a command leaves in a fresh copy of the run."""
    shutil.copytree(known.folder / "run", folder / "run")
    return task(folder)[1]


TRIALS = {
    f.__name__: f
    for f in (
        save_over,
        corrupt_file,
        race_to_save,
        store,
        corrupt_store,
        race_to_a_store,
        lost_worker,
        command_line,
    )
}


def try_one(known: Known, number: int, seed: int, only: str | None) -> dict[str, Any]:
    """One trial, as a row of the log."""
    rng = random.Random(f"{seed} {number}")
    name = rng.choice([n for n in TRIALS if only is None or n in only.split(",")])
    row = {"trial": number, "name": name, "happened": "", "outcome": "", "fault": ""}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve() / "here"
        place.mkdir()
        try:
            row["happened"], row["outcome"] = TRIALS[name](known, place, rng)
        except Fault as fault:
            row |= {"outcome": "FAULT", "fault": str(fault)}
    return row


def main() -> int:
    """Try faults for some time; 1 if the package had one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--only", help="names of trials, joined by commas")
    parser.add_argument("--trial", type=int, help="number of the only trial")
    parser.add_argument("--out", type=Path, help="CSV file for the table")
    given = parser.parse_args()
    print(f"seed {given.seed}, package {Path(bx.__file__).parent}", flush=True)
    warnings.simplefilter("ignore")
    # Sums are kept after each draw, and chunks have few rows, so that there is more to interrupt.
    stores.PAUSE, answered.PART, answered.LEAST = 0.0, 16, 8
    started, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        known = Known(Path(folder))
        certainly(partial(called, FIT.format("map", 1)), Path(folder))
        numbers = iter([given.trial] if given.trial is not None else range(10**9))
        while time.monotonic() - started < 60.0 * given.minutes:
            if (number := next(numbers, None)) is None:
                break
            row = try_one(known, number, given.seed, given.only)
            if row["fault"]:
                print(f"trial {number}, {row['name']}: {row['fault']!r}", flush=True)
            rows.append(row | {"fault": bool(row["fault"])})
    table = pd.DataFrame(rows)
    counts = table.groupby(["name", "happened", "outcome"], as_index=False).size()
    print(counts.to_string(index=False))
    faults = int(table["fault"].sum())
    minutes = (time.monotonic() - started) / 60.0
    print(f"{len(table)} trials in {minutes:.0f} minutes: {faults} faults")
    if given.out:
        counts.to_csv(given.out, index=False)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
