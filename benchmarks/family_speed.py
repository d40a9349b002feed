"""CPU time of one log density with its gradient, for each likelihood, at 500 rows.

Each number is the mean over three walks of 20 points, as an optimizer takes them. Laplace's
approximation searches for the mode again at each point. Ratios are to Poisson counts, and for
`heteroscedastic_normal`, which has two processes, also to normal noise. Everything runs in one
thread.
"""

import csv
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density
from bayes_gpx.likelihoods import named

N, WALKS, STEPS, STRIDE = 500, 3, 20, 0.1
THETA = {
    "poisson": {},
    "normal": {"sigma": 0.3},
    "negative_binomial": {"dispersion": 3.0},
    "bernoulli": {},
    "student_t": {"sigma": 0.3, "nu": 4.0},
    "lognormal": {"sigma": 0.3},
    "gamma": {"shape": 3.0},
    "weibull": {"shape": 2.0},
    "loglogistic": {"shape": 3.0},
    "beta": {"precision": 10.0},
    "ordinal": {"cutpoint": np.array([-1.5, 0.0, 1.0])},
    "zero_inflated_poisson": {"inflation": 0.2},
    "zero_inflated_negative_binomial": {"inflation": 0.2, "dispersion": 3.0},
    "asymmetric_laplace": {"sigma": 0.2},
}
"""Hyperparameters that the responses are drawn with."""
TABLE = Path(__file__).with_suffix(".csv")


def model_of(name):
    """A GP with 500 rows of four columns, two of which matter."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 4))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    if name == "heteroscedastic_normal":
        return bx.GP(X, f + np.exp(0.5 * X[:, 2] - 1.0) * rng.normal(size=N), likelihood=name)
    if name == "binomial":
        trials = np.full(N, 5)
        y = rng.binomial(trials, 1.0 / (1.0 + np.exp(-f)))
        return bx.GP(X, y, likelihood=name, trials=trials)
    y = np.asarray(named(name).draw(f, THETA[name], rng, np.ones(N)))
    y = np.clip(y, 1e-6, 1.0 - 1e-6) if name == "beta" else y
    if name in ("poisson", "negative_binomial", "bernoulli", "ordinal") or "inflated" in name:
        y = y.astype(int)
    return bx.GP(X, y, likelihood=name)


def milliseconds(model, seed):
    """CPU time of one density with its gradient, on a walk from the center of the priors."""
    # Densities are remembered, so each walk has points of its own.
    density = Density(model.objective, jacobian=True)
    function, start = density.value_and_slope(), density.unconstrain({})
    moves = STRIDE * np.random.default_rng(seed).normal(size=(STEPS, len(start)))
    function(start)
    begun = time.process_time()
    for point in start + moves.cumsum(axis=0):
        value, _ = function(point)
        assert np.isfinite(value)
    return 1e3 * (time.process_time() - begun) / STEPS


def main(names):
    found = {}
    print("| likelihood | CPU ms | of Poisson's | of normal noise's |\n|---|---|---|---|")
    for name in names or [*THETA, "binomial", "heteroscedastic_normal"]:
        with threadpool_limits(1):
            found[name] = np.mean([milliseconds(model_of(name), seed) for seed in range(WALKS)])
    for name, own in found.items():
        ratios = [own / found[base] if base in found else np.nan for base in ("poisson", "normal")]
        print(f"| {name} | {own:.1f} | {ratios[0]:.2f} | {ratios[1]:.1f} |", flush=True)
    if not names:
        with TABLE.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["likelihood", "cpu_ms", "of_poisson", "of_normal"])
            for name, own in found.items():
                ratios = [own / found[base] for base in ("poisson", "normal")]
                writer.writerow([name, f"{own:.1f}", *(f"{ratio:.2f}" for ratio in ratios)])


if __name__ == "__main__":
    main(sys.argv[1:])
