"""Do 90% intervals of `heteroscedastic_normal` hold the truth?

By Laplace's approximation, and by the best Gaussian posterior of the values at inducing points; by
the latter also where y is only known to be above a random bound in some rows. The mean and the log
sd are drawn from the prior, as in `family_intervals.py`, and the hyperparameters are held at the
truth. Shares are over six rows of each pair of functions.
"""

import csv
from pathlib import Path

import numpy as np

import bayes_gpx as bx
from bayes_gpx.likelihoods import named
from family_intervals import AMPLITUDE, QUIET, ROWS, Function

SIZES = {25: 100, 50: 60, 100: 60, 200: 60, 400: 30}  # runs of each number of rows
SPREAD, WIDTH = 0.6, 1.6449  # amplitude of the log sd, and half the width of an interval in sds
THETA = {"lengthscale": np.ones((2, 2)), "amplitude": np.array([AMPLITUDE, SPREAD])}
PROCESSES = "mean", "log_sd"
MOST_POINTS = 100
"""Inducing points, where there are as many rows."""
MOST_BOUNDED = 100
"""Most rows with bounds, whose expectations are sums over two functions."""


def held(n, rng, approximation, bounded):
    """Shares of values, slopes and attributions of both processes; None without a mode."""
    likelihood, X = named("heteroscedastic_normal"), rng.normal(size=(n, 2))
    both, intercept = (Function(rng), Function(rng)), likelihood.log_sd_sd * rng.normal()  # type: ignore[attr-defined]
    scales, moved = (1.0, SPREAD / AMPLITUDE), (0.0, intercept)
    f = np.column_stack([m + s * g(X) for m, s, g in zip(moved, scales, both, strict=True)])
    y = likelihood.draw(f, {}, rng)
    options = {"scale": False, "approximation": approximation}
    if bounded:
        bound = rng.normal(0.5, 1.2, n)
        options["censoring"] = np.where(y > bound, "right", "none")
        y = np.minimum(y, bound)
    model = bx.GP(X, y, likelihood="heteroscedastic_normal", **options)
    asked, rows, shares = (model, THETA), X[:ROWS], []
    try:
        results = (
            (bx.predictions(*asked, rows, **QUIET), "f"),
            (bx.derivatives(*asked, rows, **QUIET), "derivative"),
            (bx.attributions(*asked, rows, baseline=[0.0, 0.0], **QUIET), "attribution"),
        )
    except ValueError:
        return None
    for k, process in enumerate(PROCESSES):
        truths = both[k](rows), both[k].gradient(rows), both[k].attributions(rows)
        for (result, name), truth in zip(results, truths, strict=True):
            one, shift = result.sel({"class": process}), 0.0
            if name == "f":
                shift = moved[k] + likelihood.centers[k]
            away = np.abs(one[f"{name}_mean"].values - scales[k] * truth - shift)
            shares.append((away < WIDTH * one[f"{name}_sd"].values).mean())
    return shares


def named_shares(known):
    """Percentages by process and quantity."""
    names = [f"{p} {q}" for p in PROCESSES for q in ("f", "slopes", "attributions")]
    return dict(zip(names, (f"{100 * share:.0f}" for share in known), strict=True))


def main():
    found = []
    for n, runs in SIZES.items():
        points = bx.Inducing(min(n, MOST_POINTS))
        for posterior, approximation, bounded in (
            ("Laplace", None, False),
            ("variational", points, False),
            ("variational, with bounds", points, True),
        ):
            if bounded and n > MOST_BOUNDED:
                continue
            rng = np.random.default_rng(n)
            each = [held(n, rng, approximation, bounded) for _ in range(runs)]
            known = np.mean([shares for shares in each if shares is not None], axis=0)
            row = {"posterior": posterior, "rows": n, "runs": runs}
            found.append(row | {"without one": sum(s is None for s in each)} | named_shares(known))
            print(found[-1], flush=True)
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0])
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
