"""Class labels in out-of-core data: processor seconds of a log density and gradient, and memory.

There are three features, 50 inducing points, and two labels or three classes. Chunks of 10,000 rows
are kept in memory or read again for each pass, and compared with a table. Each case runs in its own
process with one thread. The time is for the second of two evaluations, at other hyperparameters
than the first.
"""

import os
import resource
import subprocess
import sys
import time

import numpy as np
import pandas as pd

ROWS, PART, POINTS = 100_000, 10_000, 50
LIKELIHOODS = ("bernoulli", "categorical")
WAYS = ("held", "read again", "table")


def simulated(likelihood):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    classes = np.arange(2 if likelihood == "bernoulli" else 3)
    f = np.sin(np.outer(X["a"], classes + 1) + classes) + np.outer(X["b"], np.cos(classes))
    return X, (1.5 * f + rng.gumbel(size=f.shape)).argmax(axis=1)


def measure(likelihood, way):
    import bayes_gpx as bx
    from bayes_gpx.data import training
    from bayes_gpx.inference.log_density import Density

    X, y = simulated(likelihood)
    options = {"likelihood": likelihood, "approximation": bx.Inducing(X.values[:POINTS])}
    if way == "table":
        model = bx.GP(X, y, **options)
    else:
        if way == "read again":
            training.HELD = 0
        frame = X.assign(y=y)
        parts = [frame[first : first + PART] for first in range(0, ROWS, PART)]
        model = bx.GP(parts, "y", **options)
    density = Density(model.objective, jacobian=True)
    evaluate = density.value_and_slope()
    point = density.unconstrain({"amplitude": 1.2, "lengthscale": 0.8})
    before, seconds = peak(), 0.0
    for moved in (0.0, 0.1):
        begun = time.process_time()
        evaluate(point + moved)
        seconds = time.process_time() - begun
    print(f"| {likelihood} | {way} | {seconds:.1f} | {peak() - before:.0f} |", flush=True)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(*sys.argv[1:])
    else:
        print("| likelihood | rows | seconds | MB |\n|---|---|---|---|", flush=True)
        alone = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        for likelihood in LIKELIHOODS:
            for way in WAYS:
                command = [sys.executable, __file__, likelihood, way]
                subprocess.run(command, env=alone, check=True)
