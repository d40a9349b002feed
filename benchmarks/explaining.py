"""Explain a thousand posterior draws at 89 new rows of diabetes, compared with PyMC's own way.

The PyMC script writes the same quantities as `pm.MvNormal` or `pm.gp.Marginal.conditional`
variables and calls `pm.sample_posterior_predictive`. Its time includes compilation, as for a user.
"""

import resource
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import bayes_gpx as bx

ROWS, CHAINS, DRAWS = 353, 4, 250


def measured(task):
    def processor():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    wall, cpu = time.perf_counter(), processor()
    result = task()
    return result, time.perf_counter() - wall, processor() - cpu


def posterior(names):
    """Draws around a plausible point, equal for all libraries."""
    rng = np.random.default_rng(0)
    centers = {"lengthscale": 4.0, "amplitude": 0.16, "sigma_w": 0.05, "sigma": 0.68}
    draws = {
        n: (("chain", "draw"), centers[n] * np.exp(0.1 * rng.normal(size=(CHAINS, DRAWS))))
        for n in names
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})


def gp_by_pymc(x, y, x_new, idata):
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
        amplitude, sigma = pm.HalfNormal("amplitude"), pm.HalfNormal("sigma")
        cov = amplitude**2 * pm.gp.cov.ExpQuad(x.shape[1], ls=lengthscale)
        gp = pm.gp.Marginal(cov_func=cov)
        gp.marginal_likelihood("y", X=x, y=y, sigma=sigma)
        gp.conditional("f", x_new)
        return pm.sample_posterior_predictive(
            idata, var_names=["f"], progressbar=False, random_seed=1
        )


def weights_by_pymc(x, y, x_new, idata):
    """All weights of the new rows as one conditional multivariate normal."""
    n, m, p = len(x), len(x_new), x.shape[1]
    with pm.Model():
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0)
        amplitude, sigma_w, sigma = (pm.HalfNormal(v) for v in ("amplitude", "sigma_w", "sigma"))
        k = amplitude**2 * pm.gp.cov.ExpQuad(p, ls=lengthscale)
        C = (k(x) + sigma_w**2 * np.eye(n)) * (x @ x.T) + sigma**2 * np.eye(n)
        cross = (k(x_new, x)[:, None, :] * x.T[None]).reshape((m * p, n))
        root = pt.linalg.cholesky(C)
        explained = pt.linalg.solve_triangular(root, cross.T, lower=True)
        mean = cross @ pt.linalg.cho_solve((root, True), y)
        prior = pt.linalg.kron(k(x_new), pt.eye(p)) + sigma_w**2 * pt.eye(m * p)
        pm.MvNormal("w", mean, prior - explained.T @ explained + 1e-8 * pt.eye(m * p))
        return pm.sample_posterior_predictive(
            idata, var_names=["w"], progressbar=False, random_seed=1
        )


def main():
    data = bx.datasets.load("diabetes")
    X, y, X_new = data.X[:ROWS], data.y[:ROWS], data.X[ROWS:]
    gp, gpx = bx.GP(X, y, ard=False), bx.GPX(X, y, ard=False)
    scaled = gp.training.scaled()
    x_new = gp.training.X_scaling.apply(X_new.to_numpy(float))
    quiet = {"seed": 1, "progressbar": False}
    print("| 1000 draws x 89 rows of | bayes_gpx, s (CPU s) | PyMC, s (CPU s) | times faster |")
    print("|---|---|---|---|")
    gp_draws, gpx_draws = posterior(list(gp.hyperparameters)), posterior(list(gpx.hyperparameters))

    def ours(verb, model, draws):
        return measured(lambda: verb(model, draws, X_new, **quiet))[1:]

    def row(name, own, peer):
        print(
            f"| {name} | {own[0]:.1f} ({own[1]:.1f}) | {peer[0]:.1f} ({peer[1]:.1f}) | "
            f"{peer[0] / own[0]:.1f} |",
            flush=True,
        )

    peer = measured(lambda: gp_by_pymc(scaled["X"], scaled["y"], x_new, gp_draws))[1:]
    row("f", ours(bx.predictions, gp, gp_draws), peer)
    row("10 attributions (the peer: f)", ours(bx.attributions, gp, gp_draws), peer)
    peer = measured(lambda: weights_by_pymc(scaled["X"], scaled["y"], x_new, gpx_draws))[1:]
    weights = ours(bx.weights, gpx, gpx_draws)
    contributions = ours(bx.contributions, gpx, gpx_draws)
    both = [sum(pair) for pair in zip(weights, contributions, strict=True)]
    row("10 weights", weights, peer)
    row("10 weights, then 10 contributions (the peer: weights)", both, peer)


if __name__ == "__main__":
    main()
