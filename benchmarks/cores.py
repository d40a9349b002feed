"""Explain a thousand posterior draws at 89 rows of diabetes on one core and on two.

Each line is the median of seven pairs, one after the other. The control is two processes that
explain half of the draws each, with one core: no call in one process can gain more than they do.
"Lock" is the time of one core outside of NumPy's and LAPACK's loops over many numbers: Python's
lock is held there, so threads cannot share it.
"""

import csv
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr

import bayes_gpx as bx
from bayes_gpx.numerics import compile_modes
from explaining import ROWS, posterior

PAIRS, LARGE = 7, 500
TABLE = Path(__file__).with_suffix(".csv")
CALLS = {
    "predictions": ("GP", bx.predictions),
    "weights": ("GPX", bx.weights),
    "attributions": ("GP", bx.attributions),
    "Shapley values": ("GP", bx.shapley_values),
    "leave-one-out terms": ("GP", bx.log_likelihood),
}


def task(name, chains):
    """A call of the number of cores."""
    kind, function = CALLS[name]
    data = bx.datasets.load("diabetes")
    X, y, X_new = data.X[:ROWS], data.y[:ROWS], data.X[ROWS:]
    model = getattr(bx, kind)(X, y, ard=False)
    names = ["lengthscale", "amplitude", "sigma"] + ["sigma_w"] * (kind == "GPX")
    draws = posterior(names)["posterior"].to_dataset().isel(chain=chains)
    idata = xr.DataTree.from_dict({"posterior": draws})
    options = {"progressbar": False}
    if function is bx.log_likelihood:
        return lambda cores: function(model, idata, cores=cores, **options)
    return lambda cores: function(model, idata, X_new, seed=1, cores=cores, **options)


def half(name, chains):
    """Explain half of the draws, whenever a line comes."""
    call = task(name, chains)
    call(1)
    print("ready", flush=True)
    for _ in sys.stdin:
        call(1)
        print("done", flush=True)


def together(halves):
    """Seconds that both processes take at once."""
    started = time.perf_counter()
    for one in halves:
        one.stdin.write("\n")
        one.stdin.flush()
    for one in halves:
        one.stdout.readline()
    return time.perf_counter() - started


def timed(call, cores):
    wall, cpu = time.perf_counter(), time.process_time()
    call(cores)
    return time.perf_counter() - wall, time.process_time() - cpu


def peak(name, cores):
    """MiB of a process that makes the call."""
    code = f"import cores, resource; cores.task({name!r}, [0, 1, 2, 3])({cores})\n"
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    command, where = [sys.executable, "-c", code], Path(__file__).parent
    return int(subprocess.run(command, cwd=where, capture_output=True, text=True).stdout) / 1024


def lock_seconds(name):
    """Seconds of one core outside of loops that release Python's lock."""
    spent, made_of = [0.0], compile_modes.DirectLinker.make_all

    def watched(thunk, node):
        def step():
            started = time.perf_counter()
            thunk()
            took = time.perf_counter() - started
            sizes = [cell[0].size for cell in thunk.inputs if isinstance(cell[0], np.ndarray)]
            if max(sizes, default=0) >= LARGE:
                spent[0] += took

        vars(step).update(vars(thunk))
        return step

    def make_all(self, *args, **kwargs):
        made = made_of(self, *args, **kwargs)
        made[3][:] = map(watched, made[3], made[4])
        return made

    compile_modes.DirectLinker.make_all = make_all
    try:
        call = task(name, [0, 1, 2, 3])
        call(1)
        spent[0] = 0.0
        return timed(call, 1)[0] - spent[0]
    finally:
        compile_modes.DirectLinker.make_all = made_of


def main(names):
    rows = []
    for name in names or CALLS:
        # First, since others would keep the functions that it compiles.
        command = [sys.executable, __file__, "lock", name]
        lock = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        call, pipes = (
            task(name, [0, 1, 2, 3]),
            {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE},
        )
        halves = [
            subprocess.Popen([sys.executable, __file__, "half", name, *chains], text=True, **pipes)
            for chains in (["0", "1"], ["2", "3"])
        ]
        for one in halves:
            one.stdout.readline()
        call(1), call(2)
        pairs = [[*timed(call, 1), *timed(call, 2), together(halves)] for _ in range(PAIRS)]
        for one in halves:
            one.stdin.close()
            one.wait()
        wall, cpu, wall_two, cpu_two, both = np.median(pairs, axis=0)
        memory = [peak(name, cores) for cores in (1, 2)]
        row = {
            "call": name,
            "one core, s": wall,
            "two cores, s": wall_two,
            "lock, s": lock,
            "faster": wall / wall_two,
            "control": wall / both,
            "CPU of two by one": cpu_two / cpu,
            "memory of two by one": memory[1] / memory[0],
        }
        rows.append(row)
        print({k: v if isinstance(v, str) else round(v, 2) for k, v in row.items()}, flush=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(
            {k: v if isinstance(v, str) else f"{v:.3g}" for k, v in r.items()} for r in rows
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["lock"]:
        print(lock_seconds(sys.argv[2]))
    elif sys.argv[1:2] == ["half"]:
        half(sys.argv[2], [int(k) for k in sys.argv[3:]])
    else:
        main(sys.argv[1:])
