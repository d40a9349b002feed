"""NUTS on an isotropic GPX: bulk effective draws per second, compared with plain PyMC scripts.

(a) The collapsed model as a PyMC user writes it by hand (`pm.MvNormal`, default sampler), on 353
rows of diabetes. (b) The hierarchy with every weight as a variable, on 100 rows, non-centered and
centered. Each chain has one BLAS thread, set by `pm.sample`. The wait before the first draw is
reported separately. Rates are for the worst hyperparameter, over two seeds. Ignore a rate if R-hat
shows that the chains have not converged.
"""

import sys
import time
import warnings
from typing import NamedTuple

import arviz as az
import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt

import bayes_gpx as bx
from bayes_gpx.inference import laplace, nuts
from bayes_gpx.inference.log_density import Density
from bayes_gpx.numerics.threads import blas_threads

NAMES = ["lengthscale", "amplitude", "sigma_w", "sigma"]
SEEDS = (3, 4)
LENGTH = {"draws": 1000, "tune": 1000, "chains": 4, "cores": 2}
SHORT = {"draws": 100, "tune": 200, "chains": 2, "cores": 2}
"""Settings for cases that would take an hour."""


def hyperparameters(p):
    """The same priors on both sides, this package's defaults."""
    lengthscale = pm.LogNormal("lengthscale", 0.5 * np.log(p) + 0.5, 1.0)
    amplitude = pm.HalfNormal("amplitude", 2.0 / np.sqrt(p))
    return (
        lengthscale,
        amplitude,
        pm.HalfNormal("sigma_w", 0.5 / np.sqrt(p)),
        pm.HalfNormal("sigma"),
    )


def collapsed(x, y):
    with pm.Model() as model:
        lengthscale, amplitude, sigma_w, sigma = hyperparameters(x.shape[1])
        K = amplitude**2 * pm.gp.cov.ExpQuad(x.shape[1], ls=lengthscale)(x)
        C = (K + sigma_w**2 * np.eye(len(y))) * (x @ x.T) + sigma**2 * np.eye(len(y))
        pm.MvNormal("y", pt.zeros(len(y)), C, observed=y)
    return model


def hierarchy(x, y, centred):
    n, p = x.shape
    with pm.Model() as model:
        lengthscale, amplitude, sigma_w, sigma = hyperparameters(p)
        K = amplitude**2 * pm.gp.cov.ExpQuad(p, ls=lengthscale)(x)
        root = pt.linalg.cholesky(K + 1e-6 * pt.eye(n))
        if centred:
            g = pm.MvNormal("g", pt.zeros((p, n)), chol=root).T
            weights = pm.Normal("w", g, sigma_w)
        else:
            g = root @ pm.Normal("g_white", shape=(n, p))
            weights = g + sigma_w * pm.Normal("eps_white", shape=(n, p))
        pm.Normal("y", (x * weights).sum(axis=1), sigma, observed=y)
    return model


class Run(NamedTuple):
    """Results of one seed of one sampler."""

    seconds: float
    cpu: float
    ess: float
    steps: float
    r_hat: float
    divergences: int


def run(task, seed, names=NAMES):
    """A `Run`, and the draws of these names."""
    start, cpu = time.perf_counter(), time.process_time()
    tree = task(seed)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    posterior, stats = tree["posterior"].to_dataset()[names], tree["sample_stats"].to_dataset()
    ess = min(float(v.min()) for v in az.ess(posterior).data_vars.values())
    r_hat = max(float(v.max()) for v in az.rhat(posterior).data_vars.values())
    steps, divergences = float(stats["n_steps"].mean()), int(stats["diverging"].sum())
    return Run(seconds, cpu, ess, steps, r_hat, divergences), posterior


def peer(model, length=LENGTH):
    """nutpie as `pm.sample` calls it, with compilation timed separately."""
    start = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model)
    wait = time.perf_counter() - start

    def task(seed):
        with blas_threads(1):
            return nutpie.sample(compiled, **length, seed=seed, progress_bar=False)

    return wait, task


def ours(model, target_accept=0.9, length=LENGTH):
    """`fit("nuts")` in two steps: everything before sampling, and sampling."""
    start = time.perf_counter()
    with blas_threads(model.training.n, 2):
        density = Density(model.objective, jacobian=True, long_run=True)
        _, mode, spread = laplace.mode_and_spread(density, model.starts(), None, False)
    wait = time.perf_counter() - start

    def task(seed):
        with blas_threads(model.training.n, 2):
            options = {"target_accept": target_accept, "seed": seed, "progress_bar": False}
            return nuts._nutpie(density, mode, spread, None, length | options)

    return wait, task


def gpx(x, y):
    return bx.GPX(x, y, ard=False, scale=False)


def main():
    warnings.simplefilter("ignore")
    data = bx.datasets.load("diabetes")
    X, y = data.X.to_numpy(float)[:353], data.y.to_numpy(float)[:353]
    x, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    few = x[:100], y[:100]
    rows = {
        "bayes_gpx": (353, lambda: ours(gpx(x, y))),
        "bayes_gpx, target_accept=0.8": (353, lambda: ours(gpx(x, y), 0.8)),
        "plain script": (353, lambda: peer(collapsed(x, y))),
        "bayes_gpx, 100 rows": (100, lambda: ours(gpx(*few))),
        "hierarchy, non-centred": (100, lambda: peer(hierarchy(*few, False))),
        "hierarchy, centred": (100, lambda: peer(hierarchy(*few, True), SHORT)),
    }
    print("| model | wait, s | sampling, s | steps per draw | bulk ESS per s |", end="")
    print(" R-hat | divergences |\n|" + "---|" * 7)
    rates, chosen = {}, [int(n) for n in sys.argv[1:]] or [353, 100]
    rows = {name: row for name, row in rows.items() if row[0] in chosen}
    for name, (n, build) in rows.items():
        wait, task = build()
        runs = [run(task, seed)[0] for seed in SEEDS]
        seconds, _, ess, steps, *_ = np.mean(runs, axis=0)
        rates.setdefault(n, []).append(ess / seconds)
        print(
            f"| {name} | {wait:.1f} | {seconds:.1f} | {steps:.1f} | {ess / seconds:.1f} | "
            f"{max(r.r_hat for r in runs):.3f} | {sum(r.divergences for r in runs)} |",
            flush=True,
        )
    for n, (own, *others) in rates.items():
        times = ", ".join(f"{own / other:.1f}" for other in others)
        print(f"\n{n} rows: {times} times the effective samples per second of the rows below it.")


if __name__ == "__main__":
    main()
