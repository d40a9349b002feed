"""Every verb on models of every kind, to be called at once by threads and by processes.

As a script, ``python tests/reference/concurrent_calls.py ROAD`` calls them by one of `ROADS` and
prints how many of the results differ from those of one call after another.
"""

import multiprocessing
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd

import bayes_gpx as bx

N, NEW = 24, 3
QUIET = {"progressbar": False}
TOLERANCE = 1e-7
"""Relative: a variational optimum is searched for from the thread's last one, to 1e-9."""


def models():
    """Two models of each structure, which share compiled functions, with hyperparameters."""
    rng, found = np.random.default_rng(3), {}
    theta = {"lengthscale": [0.8, 1.3], "amplitude": 1.1}
    for k in range(2):
        X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["dose", "age"])
        f = np.sin(2 * X["dose"]) + X["age"] * (1 + k)
        y, counts = f + 0.3 * rng.normal(size=N), rng.poisson(np.exp(f / 2))
        label = np.digitize(y, [-0.7, 0.7])
        noisy = theta | {"sigma": 0.3 + k}
        weighing = {"sigma_w": 0.2}
        found |= {
            f"normal {k}": (bx.GP(X, y), noisy),
            f"weights {k}": (bx.GPX(X, y), noisy | weighing),
            f"student {k}": (bx.GP(X, y, likelihood="student_t"), noisy | {"nu": 4.0}),
            f"labels {k}": (bx.GP(X, label > 0, likelihood="bernoulli"), theta),
            f"classes {k}": (bx.GP(X, label, likelihood="categorical"), theta),
            f"counts {k}": (
                bx.GPX(X, counts, likelihood="poisson", approximation=bx.Inducing(6)),
                theta | weighing,
            ),
            f"waves {k}": (bx.GP(X, y, approximation=bx.HSGP([4, 4], 2.0)), noisy),
            f"overdispersed {k}": (
                bx.GP(
                    X,
                    counts,
                    likelihood="negative_binomial",
                    approximation=bx.RandomFeatures(20, seed=1),
                ),
                theta | {"dispersion": 3.0},
            ),
        }
    return found


VERBS = {
    "fit": {},
    "predictions": {"draws": 20, "seed": 1},
    "derivatives": {"draws": 20, "seed": 1},
    "slopes": {"draws": 20, "seed": 1},
    "attributions": {"draws": 20, "seed": 1},
    "weights": {"draws": 20, "seed": 1},
    "contributions": {"draws": 20, "seed": 1},
    "relevance": {},
    "interactions": {},
    "importances": {"draws": 2, "seed": 1},
    "partial_dependence": {"draws": 20, "seed": 1},
    "log_likelihood": {},
    "loo_predictions": {"seed": 1},
    "predictive_checks": {"seed": 1},
}
ON_TRAINING_ROWS = ("log_likelihood", "loo_predictions", "predictive_checks")


def calls(every=1):
    """Names of a model and of a verb: all that there are, or one of `every` so many."""
    return [(name, verb) for name in models() for verb in VERBS if known(name, verb)][::every]


def known(name, verb):
    """Whether a model has what a verb explains."""
    return verb not in ("weights", "contributions") or name.split()[0] in ("weights", "counts")


def call(model, theta, verb):
    """Numbers that a verb returns, as a dict of arrays."""
    options = VERBS[verb] | QUIET
    if verb == "fit":
        found = model.fit("map", start=theta, **QUIET)["posterior"]
        return {name: found[name].values for name in found}
    where = () if verb in ON_TRAINING_ROWS else (model.training.X.first(NEW).values,)
    found = getattr(bx, verb)(model, theta, *where, **options)
    if verb == "predictive_checks":
        found = found["posterior_predictive"].to_dataset()
    return {k: v.values for k, v in found.data_vars.items() if v.dtype.kind == "f"}


def differences(expected, got):
    """Names of the calls whose numbers are others, or that raised."""
    return [
        name
        for name, numbers in expected.items()
        if not isinstance(got[name], dict)
        or any(
            not np.allclose(got[name][k], v, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            for k, v in numbers.items()
        )
    ]


def attempt(model, theta, verb):
    """What `call` returns, or what it raises."""
    try:
        return call(model, theta, verb)
    except Exception as raised:  # told by the test, with all others
        return f"{type(raised).__name__}: {raised}"


def by_threads(jobs, workers=4):
    """All calls by threads that share the models."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda job: attempt(*job), jobs))


def by_processes(method):
    """Calls by processes, started by fork or spawn, to which the models are sent."""

    def road(jobs):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            return list(pool.map(attempt, *zip(*jobs, strict=True)))

    return road


def by_joblib(backend):
    """Calls by joblib."""
    return lambda jobs: joblib.Parallel(2, backend)(joblib.delayed(attempt)(*job) for job in jobs)


def forked_while_busy(jobs):
    """Calls by forked processes while threads of the parent compile and call."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            attempt(*jobs[0])

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        return by_processes("fork")(jobs)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


ROADS = {
    "threads": by_threads,
    "fork": by_processes("fork"),
    "busy fork": forked_while_busy,
    "spawn": by_processes("spawn"),
    "joblib threads": by_joblib("threading"),
    "joblib processes": by_joblib("loky"),
}


def compared(road, every=1):
    """Calls whose numbers differ by a road from those of one after another; how many were made."""
    names, known_models = calls(every), models()
    jobs = [(*known_models[name], verb) for name, verb in names]
    got = dict(zip(names, ROADS[road](jobs), strict=True))
    expected = {name: call(*job) for name, job in zip(names, jobs, strict=True)}
    return {name: got[name] for name in differences(expected, got)}, len(names)


if __name__ == "__main__":
    wrong, number = compared(sys.argv[1], int(sys.argv[2]))
    print({name: found for name, found in wrong.items() if isinstance(found, str)})  # noqa: T201
    print(f"{len(wrong)} of {number} differ: {list(wrong)[:5]}")  # noqa: T201
