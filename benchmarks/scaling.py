"""Growth of time and memory with rows, basis functions, features, draws, classes, explained rows.

Each series runs in its own process, over three decades of increasing sizes if feasible, so its peak
memory belongs to the last size. Times are processor seconds on one BLAS thread, which hardly depend
on other work on the machine. They measure one log density with its gradient, a fit by MAP from one
starting point, or an explanation function. Exponents are slopes in logarithms over the upper half
of the sizes. The exponent of memory excludes the memory of the imported package, and needs a growth
of more than 50 MB.

The script prints the table of scaling.csv in this folder and draws docs/_static/scaling.svg, with
its numbers in docs/_static/scaling.csv. `python benchmarks/scaling.py "MAP, exact | rows n"` prints
the sizes, seconds and GB of one series.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

PICTURE = Path(__file__).parents[1] / "docs" / "_static" / "scaling.svg"
NUMBERS = PICTURE.with_suffix(".csv")
"""Measurements: series, size, seconds, gb."""

LONGEST = 0.2
"""Evaluations are repeated for this many seconds, and at least three times."""

GROWN = 0.05
"""Minimal growth of memory in GB for an exponent that is not due to chance."""


def simulated(n, d=2, likelihood="normal", classes=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, d))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, -1]
    if likelihood == "categorical":
        return X, np.digitize(X[:, 0], np.linspace(-2.0, 2.0, classes + 1)[1:-1])
    if likelihood == "poisson":
        return X, rng.poisson(np.exp(f))
    return X, f + 0.3 * rng.normal(size=n)


def built(n=1000, d=2, classes=2, likelihood="normal", approximation=None, m=None, gpx=False):
    import bayes_gpx as bx

    kinds = {"HSGP": bx.HSGP, "Inducing": bx.Inducing, "RandomFeatures": bx.RandomFeatures}
    options = {"likelihood": likelihood, "ard": False}
    if approximation is not None:
        options["approximation"] = kinds[approximation](m)
    return (bx.GPX if gpx else bx.GP)(*simulated(n, d, likelihood, classes), **options)


START = {"lengthscale": 2.0, "amplitude": 0.8, "sigma": 0.4}


def density(**of):
    """A log density with its gradient, after compilation."""
    from bayes_gpx.inference.log_density import Density

    model = built(**of)
    function = Density(model.objective, jacobian=True)
    evaluate, x = function.value_and_slope(), function.unconstrain(start(model))
    evaluate(x)
    return lambda: evaluate(x * (1.0 + 1e-3 * np.random.default_rng().normal(size=len(x))))


def start(model):
    return {name: START[name] for name in model.hyperparameters if name in START}


def one_pass(**of):
    """The sums over all rows, computed once per model."""
    from bayes_gpx.model.fixed_basis import sums_over_rows

    model = built(**of)
    return lambda: sums_over_rows(model._design, model.training)


def fit(**of):
    model = built(**of)
    return lambda: model.fit("map", start=start(model), progressbar=False)


def explained(verb="attributions", rows=100, draws=1, **of):
    import xarray as xr

    import bayes_gpx as bx

    model = built(**of)
    rng = np.random.default_rng(1)
    values = {
        name: (("chain", "draw"), START[name] * np.exp(0.05 * rng.normal(size=(1, draws))))
        for name in start(model)
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    X = simulated(rows, of.get("d", 2))[0] * 0.9
    task = getattr(bx, verb)
    options = {"keep": "summary", "progressbar": False}
    task(model, idata, X[:5], num_draws=1, **options)
    return lambda: task(model, idata, X, **options)


def powers(first, last, number):
    return [int(v) for v in np.round(np.geomspace(first, last, number))]


SINES, POINTS = {"approximation": "HSGP"}, {"approximation": "Inducing"}
SERIES = {
    "density, exact | rows n": (density, "n", powers(10, 10_000, 7), {}),
    "density, HSGP(20), normal | rows n": (
        density, "n", powers(1000, 1e6, 7), SINES | {"m": 20}),
    "one pass over the data, HSGP(20) | rows n": (
        one_pass, "n", powers(1000, 1e6, 4), SINES | {"m": 20}),
    "density, Inducing(100), normal | rows n": (
        density, "n", powers(1000, 1e6, 7), POINTS | {"m": 100}),
    "density, HSGP(10), Poisson | rows n": (
        density, "n", powers(1000, 1e6, 7), SINES | {"m": 10, "likelihood": "poisson"}),
    "density, HSGP, normal, n = 10,000 | functions M": (
        density, "m", [2, 4, 8, 16, 32, 64], SINES | {"n": 10_000}),
    "density, Inducing, normal, n = 10,000 | points M": (
        density, "m", powers(3, 3000, 7), POINTS | {"n": 10_000}),
    "density, exact, n = 500 | features d": (
        density, "d", powers(2, 2000, 7), {"n": 500}),
    "density, categorical, n = 500 | classes C": (
        density, "classes", powers(3, 100, 5), {"n": 500, "likelihood": "categorical"}),
    "MAP, exact | rows n": (fit, "n", powers(3, 3000, 7), {}),
    "100 attributions, exact | rows n": (explained, "n", powers(3, 3000, 7), {}),
    "attributions, exact, n = 300 | rows explained": (
        explained, "rows", powers(10, 10_000, 7), {"n": 300}),
    "predictions, HSGP(20) | rows explained": (
        explained, "rows", powers(100, 100_000, 7), SINES | {"m": 20, "verb": "predictions"}),
    "100 attributions, exact, n = 300 | draws": (
        explained, "draws", powers(1, 1000, 7), {"n": 300}),
    "100 attributions, exact, n = 300 | features d": (
        explained, "d", powers(2, 2000, 7), {"n": 300}),
}  # fmt: skip


def series(name):
    make, over, sizes, fixed = SERIES[name]
    density(n=10)()  # imports and compiles code that all series need
    before = memory("VmRSS")
    for size in sizes:
        task = make(**fixed, **{over: size})
        times, begun = [], time.perf_counter()
        while len(times) < 3 or time.perf_counter() - begun < LONGEST:
            cpu = time.process_time()
            task()
            times.append(time.process_time() - cpu)
            if times[-1] > 5.0:
                break
        # HSGP's M counts its basis functions over both columns.
        actual = size**2 if over == "m" and fixed["approximation"] == "HSGP" else size
        print(actual, min(times), memory("VmHWM") - before, flush=True)


def memory(name):
    """GB of this process, by the kernel's name: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(name))
    return float(line.split()[1]) / 1e6


def exponent(sizes, values):
    upper = slice(len(sizes) // 2, None)
    return np.polyfit(np.log(sizes[upper]), np.log(values[upper]), 1)[0]


def draw(found):
    import matplotlib.pyplot as plt

    panels = {}
    for name, values in found.items():
        what, over = name.split(" | ")
        panels.setdefault(over, []).append((what, values))
    alone = [over for over in panels if len(panels[over]) == 1]
    groups = [[over] for over in panels if over not in alone] + [alone]
    size = (11.0, 4.5 * len(groups))
    figure, axes = plt.subplots(len(groups), 2, figsize=size, layout="constrained", squeeze=False)
    for (left, right), group in zip(axes, groups, strict=True):
        for over in group:
            for what, (sizes, seconds, held) in panels[over]:
                label = what if len(group) == 1 else f"{what}: {over}"
                left.loglog(sizes, seconds, marker="o", markersize=4, label=label)
                right.loglog(sizes, held, marker="o", markersize=4)
        under = group[0] if len(group) == 1 else "size"
        left.set(xlabel=under, ylabel="processor seconds")
        right.set(xlabel=under, ylabel="GB beside the package")
        left.legend(fontsize=7, loc="upper left")
    figure.savefig(PICTURE, metadata={"Date": None})


def main():
    print("| what | grows with | sizes | seconds | exponent | GB at the last | exponent of GB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    found = {}
    for name in SERIES:
        command = [sys.executable, "-W", "ignore", __file__, name]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        found[name] = np.array([line.split() for line in done.stdout.splitlines()], "float64").T
        sizes, seconds, held = found[name]
        ends = f"{sizes[0]:,.0f} to {sizes[-1]:,.0f} | {seconds[0]:.2g} to {seconds[-1]:.2g}"
        grown = held[-1] - held[len(held) // 2] > GROWN
        memory = f"{exponent(sizes, held):.2f}" if grown else "–"
        print(
            f"| {name} | {ends} | {exponent(sizes, seconds):.2f} | {held[-1]:.2f} | {memory} |",
            flush=True,
        )
    columns = ["size", "seconds", "gb"]
    tables = {name: pd.DataFrame(values.T, columns=columns) for name, values in found.items()}
    table = pd.concat(tables, names=["series", None]).reset_index("series")
    table.to_csv(NUMBERS, index=False, float_format="%.3g")
    draw(found)


if __name__ == "__main__":
    series(sys.argv[1]) if len(sys.argv) > 1 else main()
