"""All that `make test` leaves out, in parts; a part that passed at a commit is not repeated.

    python tests/check/check.py [--list] [--again] [--hours H] [--marks SLOW] [PART ...]

Parts are the slow tests by folder, the documentation with its code, the quick benchmarks, random
faults, and the mutants by wing. Two run at a time, each in one process. Each part writes its
output to a file in `.check/`, and a line to the ledger `.check/ledger.csv`: commit, part, outcome,
seconds, and the day. A call that was stopped goes on where it ended. PART selects parts by the
beginning of their names.
"""

import argparse
import csv
import datetime
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".check"
LEDGER = FOLDER / "ledger.csv"
FIELDS = ["commit", "part", "outcome", "seconds", "day"]
CHANGED = " and changes"

NOTHING = 5
"""What pytest returns if all tests are deselected, as some are without the data folder."""

PASSED, FAILED, STOPPED = "passed", "failed", "stopped"

ALONE = {"project", "model"}
"""Folders of tests whose files are parts of their own, because they take long."""

AT_ONCE = 2

BENCHMARKS = {"nist": [], "evaluation": [], "shapley": []}
"""Benchmarks that take minutes and write no file of the tree, with their arguments."""

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def parts(marks="slow"):
    """Name and command of each part."""
    tests = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--durations", "20"]
    for path in slow():
        yield f"tests/{path}", [*tests, "-m", marks, str(ROOT / "tests" / path)]
    # Ten times the tables, kernels and numbers that hypothesis makes up in `make test`.
    many = [str(ROOT / "tests" / path) for path in ("properties", "data/test_resolution.py")]
    yield "examples", ["env", "EXAMPLES=10", *tests, "-m", "not slow", *many]
    yield "docs", ["make", "docs"]
    for name, arguments in BENCHMARKS.items():
        script = ROOT / "benchmarks" / f"{name}.py"
        yield f"benchmarks/{name}", [sys.executable, str(script), *arguments]
    yield "faults", [sys.executable, str(ROOT / "tests/faults/faults.py"), "--minutes", "10"]
    mutants = [sys.executable, str(ROOT / "tests/mutation/mutants.py")]
    for wing in wings():
        yield f"mutants/{wing}", [*mutants, f"{wing}/"]


def slow():
    """Folders of tests, or files of those in `ALONE`, that have slow tests."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "mark.slow" in path.read_text():
            folder, *rest = path.relative_to(ROOT / "tests").parts
            found["/".join([folder, *rest]) if folder in ALONE else folder] = None
    return list(found)


def wings():
    """Folders of the package that mutants are drawn from."""
    sys.path.append(str(ROOT / "tests" / "mutation"))
    import mutants

    return list(mutants.WINGS)


def commit():
    """The commit of the tree; with a mark if files differ from it."""

    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short=12", "HEAD") + (CHANGED if changed else "")


def passed(at):
    """Parts that passed at a commit."""
    if at.endswith(CHANGED) or not LEDGER.exists():
        return set()
    with LEDGER.open(newline="") as file:
        lines = list(csv.DictReader(file))
    last = {line["part"]: line["outcome"] for line in lines if line["commit"] == at}
    return {part for part, outcome in last.items() if outcome == PASSED}


def record(*values):
    """Add a line to the ledger."""
    new = not LEDGER.exists()
    with LEDGER.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(FIELDS)
        writer.writerow(values)


def run(part, command, at):
    """Run a part, keep its output and its line, and return its outcome."""
    log = FOLDER / f"{part.replace('/', '-')}.log"
    began, outcome = time.perf_counter(), STOPPED
    try:
        with log.open("w") as file:
            environment = os.environ | ENVIRONMENT
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=file, stderr=file)
        nothing = "pytest" in command and done.returncode == NOTHING
        outcome = PASSED if nothing or done.returncode == 0 else FAILED
    finally:
        seconds = time.perf_counter() - began
        record(at, part, outcome, f"{seconds:.0f}", datetime.date.today().isoformat())
    said = f"{outcome:8} {seconds:6.0f} s  {part}"
    if outcome == FAILED:
        last = log.read_text().strip().splitlines()[-1:]
        said += f"\n{'':20}{' '.join(last)} ({log.relative_to(ROOT)})"
    print(said, flush=True)
    return outcome


def main(arguments=None):
    """Run what has not passed at this commit; return how many parts failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--list", action="store_true", help="print the parts and what passed")
    parser.add_argument("--again", action="store_true", help="also repeat parts that passed")
    parser.add_argument("--marks", default="slow", help="of the tests, as pytest's -m takes them")
    parser.add_argument("--hours", type=float, default=float("inf"), help="begin no part later")
    asked = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    at, end = commit(), time.monotonic() + 3600 * asked.hours
    done = set() if asked.again else passed(at)
    todo = []
    for part, command in parts(asked.marks):
        if not asked.parts or part.startswith(tuple(asked.parts)):
            if part in done or asked.list:
                print(f"{PASSED if part in done else 'to run':8} {'':8}  {part}")
            else:
                todo.append((part, command))

    def begun(part, command):
        return run(part, command, at) if time.monotonic() < end else None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(begun, *zip(*todo, strict=True))) if todo else []
    if None in outcomes:
        print(f"Parts left: {outcomes.count(None)}. The same command goes on with them.")
    return outcomes.count(FAILED)


if __name__ == "__main__":
    sys.exit(main() > 0)
