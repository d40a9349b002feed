"""Does a rougher kernel warn of rough functions? A comparison of log densities at the mode.

    python benchmarks/league/smoothness.py

For 24 new data sets of six kinds, the script prints the share in which the log density at the mode
with `kernel="matern32"` exceeds that with the default kernel, less a margin.
"""

import warnings

import numpy as np
import truths

import bayes_gpx as bx

RUNS, FIRST = 24, 100
"""Data sets of each kind, and the first run: others than those of the league."""

MARGINS = (0.0, 0.5, 1.0, 1.5)
KINDS = ("rough", "additive", "interactions", "null features", "correlated features", "few rows")


def height(data, kernel, start=None):
    """Log density at the mode, and the mode."""
    model = bx.GP(data.X, data.y, kernel=kernel)
    fit = model.fit("map", start=start, progressbar=False)
    mode = {name: fit["posterior"][name].values[0, 0] for name in model.hyperparameters}
    return fit["starts"]["log_density"].values.max(), mode


def main():
    """Print the shares, in percent."""
    print("margin in nats", *KINDS, sep="; ")
    gains = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about single fits
        for kind in KINDS:
            sets = [truths.made(kind, FIRST + run) for run in range(RUNS)]
            each = [height(data, "expquad") for data in sets]
            rough = [height(d, "matern32", m)[0] for d, (_, m) in zip(sets, each, strict=True)]
            gains.append(np.array(rough) - [found for found, _ in each])
    for margin in MARGINS:
        print(margin, *(f"{100 * np.mean(gain > -margin):.0f}" for gain in gains), sep="; ")


if __name__ == "__main__":
    main()
