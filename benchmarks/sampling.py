"""NUTS on an isotropic GPX: bulk effective samples per second, against plain PyMC scripts.

(a) The collapsed model as a user of PyMC writes it by hand (`pm.MvNormal`, default sampler), on
353 rows of diabetes. (b) The hierarchy with every weight as a variable, on 100 rows. The wait
before the first draw is reported apart. A rate means nothing where R-hat says that the chains
have not converged.
"""

import time
import warnings

import arviz as az
import numpy as np
import nutpie
import pymc as pm
import pytensor.tensor as pt

import bayes_gpx as bx
from bayes_gpx import inference
from bayes_gpx.density import Density, blas_threads

NAMES = ["lengthscale", "amplitude", "sigma_w", "sigma"]
SEED = 3


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


def hierarchy(x, y):
    n, p = x.shape
    with pm.Model() as model:
        lengthscale, amplitude, sigma_w, sigma = hyperparameters(p)
        K = amplitude**2 * pm.gp.cov.ExpQuad(p, ls=lengthscale)(x)
        root = pt.linalg.cholesky(K + 1e-6 * pt.eye(n))
        g = root @ pm.Normal("g_white", shape=(n, p))
        weights = g + sigma_w * pm.Normal("eps_white", shape=(n, p))
        pm.Normal("y", (x * weights).sum(axis=1), sigma, observed=y)
    return model


def worst_r_hat(posterior):
    return float(max(v.max() for v in az.rhat(posterior[NAMES]).data_vars.values()))


def per_second(posterior, seconds):
    return float(min(v.min() for v in az.ess(posterior[NAMES]).data_vars.values())) / seconds


def peer(model, draws, tune):
    """nutpie as `pm.sample` calls it, compilation timed apart."""
    start = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model)
    wait = time.perf_counter() - start
    start = time.perf_counter()
    with blas_threads(0):
        tree = nutpie.sample(
            compiled, draws=draws, tune=tune, chains=2, cores=2, seed=SEED, progress_bar=False
        )
    seconds = time.perf_counter() - start
    posterior = tree["posterior"].to_dataset()
    return wait, seconds, per_second(posterior, seconds), worst_r_hat(posterior)


def ours(data_x, data_y, draws, tune):
    """`fit("nuts")` in its two parts: everything before sampling, and sampling."""
    start = time.perf_counter()
    model = bx.GPX(data_x, data_y, ard=False, scale=False)
    with blas_threads(len(data_y), 2):
        density = Density(model._pymc, jacobian=True, many=True)
        _, mode, spread = inference._mode_and_spread(density, model.starts(), False)
        wait = time.perf_counter() - start
        start = time.perf_counter()
        tree = inference._nutpie(density, mode, spread, draws, tune, 2, 2, SEED, False, {})
    seconds = time.perf_counter() - start
    posterior = tree["posterior"].to_dataset()
    return wait, seconds, per_second(posterior, seconds), worst_r_hat(posterior)


def main():
    warnings.simplefilter("ignore")
    data = bx.datasets.load("diabetes")
    X, y = data.X.to_numpy(float)[:353], data.y.to_numpy(float)[:353]
    x, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    print("| model | rows | wait, s | sampling, s | bulk ESS per s, sampling | R-hat |")
    print("|---|---|---|---|---|---|")
    rates = {}
    for name, n, task in (
        ("bayes_gpx", 353, lambda n: ours(x[:n], y[:n], 500, 500)),
        ("plain script, collapsed", 353, lambda n: peer(collapsed(x[:n], y[:n]), 500, 500)),
        ("bayes_gpx", 100, lambda n: ours(x[:n], y[:n], 500, 500)),
        ("plain script, hierarchy", 100, lambda n: peer(hierarchy(x[:n], y[:n]), 200, 200)),
    ):
        wait, seconds, rate, r_hat = task(n)
        rates.setdefault(n, []).append(rate)
        print(
            f"| {name} | {n} | {wait:.1f} | {seconds:.1f} | {rate:.2f} | {r_hat:.2f} |", flush=True
        )
    for n, (own, other) in rates.items():
        print(f"\n{n} rows: {own / other:.1f} times the effective samples per second.")


if __name__ == "__main__":
    main()
