"""One evaluation of log density and gradient, compared with n^3 flops at the measured matmul rate.

The script uses one thread. It times graphs of one isotropic GPX: this package's graph for few
calls; up to a thousand rows also its machine code for many calls; and the same model with PyMC's
own `pm.MvNormal` and covariance function. It also times LAPACK's factorization and inverse, which
any of these needs, and the matrix product that sets the scale. Each time is the shortest of many.
"""

import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.linalg.lapack import dpotrf, dpotri
from sklearn.datasets import load_diabetes, load_digits
from threadpoolctl import threadpool_limits

import bayes_gpx as bx
from bayes_gpx.inference.log_density import NATIVE_BELOW, Density


def best(task, repeats):
    """Shortest time in milliseconds."""
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def pymcs(X, y):
    """The plain script: PyMC's covariance function and multivariate normal, default backend."""
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
        amplitude, sigma_w, sigma = (pm.HalfNormal(n) for n in ("amplitude", "sigma_w", "sigma"))
        K = pm.gp.cov.ExpQuad(X.shape[1], ls=lengthscale)(X)
        C = (amplitude**2 * K + sigma_w**2 * np.eye(len(y))) * (X @ X.T)
        pm.MvNormal("y", pt.zeros(len(y)), C + sigma**2 * np.eye(len(y)), observed=y)
    function = model.logp_dlogp_function(ravel_inputs=True)
    point = np.zeros(4)
    return lambda: function(point)


def ours(X, y, long_run):
    model = bx.GPX(X, y, ard=False, scale=False)
    density = Density(model.objective, jacobian=True, long_run=long_run)
    function, point = density.value_and_slope(), np.zeros(4)
    return lambda: function(point)


def lapacks(n):
    C = np.asfortranarray(
        np.eye(n) + np.exp(-(np.subtract.outer(*2 * [np.linspace(0, 9, n)]) ** 2))
    )
    return lambda: dpotri(dpotrf(C, lower=1)[0], lower=1)


def main():
    data = {"diabetes": load_diabetes(return_X_y=True), "digits": load_digits(return_X_y=True)}
    rows = {"diabetes": 353, "digits": 1437}
    print(
        "| data | n | n³ flops, ms | LAPACK alone, ms | ratio | bayes_gpx, few calls, ms | ratio "
        "| many calls, ms | ratio | PyMC's graph, ms | ratio |"
    )
    print("|---" * 11 + "|")
    with threadpool_limits(1):
        for name, (X, y) in data.items():
            n = rows[name]
            X, y = X[:n] / X.std(), (y[:n] - y.mean()) / y.std()
            A, repeats = np.random.default_rng(0).normal(size=(n, n)), 12 if n > 1000 else 60
            cube = best(lambda A=A: A @ A, repeats) / 2
            tasks = lapacks(n), ours(X, y, False), ours(X, y, True), pymcs(X, y)
            texts = [f"{cube:.1f}"]
            for task in tasks:
                found = best(task, repeats)
                texts += [f"{found:.1f}", f"{found / cube:.1f}"]
            if n >= NATIVE_BELOW:  # no machine code here, so the same as for few calls
                texts[5:7] = "–", "–"
            print(f"| {name} | {n} | " + " | ".join(texts) + " |", flush=True)


if __name__ == "__main__":
    main()
