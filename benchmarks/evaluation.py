"""One evaluation of log density and gradient, against n^3 flops at the measured matmul rate.

One thread. Three graphs of one isotropic GPX: this package's, the same model with PyMC's own
`pm.MvNormal` and covariance function, and the matrix product that sets the scale.
"""

import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from sklearn.datasets import load_diabetes, load_digits
from threadpoolctl import threadpool_limits

import bayes_gpx as bx
from bayes_gpx.inference.log_density import Density


def best(task, repeats):
    task()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


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


def ours(X, y):
    density = Density(bx.GPX(X, y, ard=False, scale=False).objective, jacobian=True)
    function, point = density.value_and_slope(), np.zeros(4)
    return lambda: function(point)


def main():
    data = {"diabetes": load_diabetes(return_X_y=True), "digits": load_digits(return_X_y=True)}
    rows = {"diabetes": 353, "digits": 1437}
    print("| data | n | n³ flops, ms | bayes_gpx, ms | ratio | PyMC's graph, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name, (X, y) in data.items():
            n = rows[name]
            X, y = X[:n] / X.std(), (y[:n] - y.mean()) / y.std()
            A = np.random.default_rng(0).normal(size=(n, n))
            cube = best(lambda A=A: A @ A, 10) / 2
            own, peer = best(ours(X, y), 12), best(pymcs(X, y), 5)
            numbers = [cube, own, own / cube, peer, peer / cube]
            texts = [
                f"{1e3 * v:.1f}" if i in (0, 1, 3) else f"{v:.1f}" for i, v in enumerate(numbers)
            ]
            print(f"| {name} | {n} | " + " | ".join(texts) + " |", flush=True)


if __name__ == "__main__":
    main()
