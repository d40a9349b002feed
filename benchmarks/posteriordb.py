"""Means and sds of posteriordb's parameters by NUTS, as multiples of their Monte Carlo errors.

    python benchmarks/posteriordb.py [--draws 2000] [--seed 1]

The references are ten long chains of Stan for each of three posteriors: a regression by a Gaussian
process, counts with sampled values of the function, and a linear regression. Each parameter gives
a mean, an sd, and the probability to lie below the reference's median. (estimate - reference) /
error would be standard normal if both programs sampled the same posterior; the error joins those of
both. It writes `posteriordb.csv` and docs/_static/posteriordb.png, and needs the data folder.
"""

import argparse
import json
import os
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy.stats import norm

import bayes_gpx as bx

FOLDER = Path(__file__).parent
TABLE = FOLDER / "posteriordb.csv"
PICTURE = FOLDER.parent / "docs" / "_static" / "posteriordb.png"
PRIORS = {"lengthscale": pm.Gamma.dist(25.0, beta=4.0), "amplitude": pm.HalfNormal.dist(2.0)}
QUIET = {"progressbar": False}
STATISTICS = ("mean", "sd", "probability")


def reference(name):
    """Data, and moments and quantiles of each parameter."""
    path = Path(os.environ["BAYES_GPX_DATA"]) / "posteriordb" / f"{name}.json"
    found = json.loads(path.read_text())
    return found["data"], found["parameters"]


def of_variance(name):
    """Stan's program calls the variance of the noise sigma."""
    return pm.Deterministic(name, pm.math.sqrt(pm.HalfNormal("variance", sigma=1.0)))


def regression():
    """A regression by a Gaussian process."""
    data, known = reference("gp_pois_regr-gp_regr")
    X = np.array(data["x"], float)[:, None]
    model = bx.GP(X, np.array(data["y"]), scale=False, priors=PRIORS | {"sigma": of_variance})
    return model, dict(zip(("lengthscale", "amplitude", "variance"), known.values(), strict=True))


def counts():
    """Counts, with the value of the function at each row."""
    data, known = reference("gp_pois_regr-gp_pois_regr")
    X = np.array(data["x"], float)[:, None]
    options = {"scale": False, "priors": PRIORS, "likelihood": "poisson"}
    known = {{"rho": "lengthscale", "alpha": "amplitude"}.get(k, k): v for k, v in known.items()}
    return bx.GP(X, np.array(data["k"]), **options), known


def line():
    """A linear regression with normal priors; the prior of its sigma is flat."""
    data, known = reference("kilpisjarvi_mod-kilpisjarvi")
    x, y = np.array(data["x"], float)[:, None], np.array(data["y"])

    def kernel(d):
        level = pm.gp.cov.Constant(data["psalpha"] ** 2)
        return data["psbeta"] ** 2 * pm.gp.cov.Linear(d, c=0.0) + level

    options = {"scale": False, "resolution": 0.0, "priors": {"sigma": pm.Uniform.dist(0.0, 20.0)}}
    model = bx.GP(x, y - data["pmualpha"], kernel=kernel, **options)
    return model, known | {"level": data["pmualpha"]}


def sampled(draws, seed):
    """Posterior, parameter, its draws (chain, draw), and its reference."""
    options = {"draws": draws, "seed": seed, "cores": 1, **QUIET}
    model, known = regression()
    posterior = model.fit("nuts", **options)["posterior"]
    for name, expected in known.items():
        yield "gp_regr", name, posterior[name].squeeze(), expected

    model, known = counts()
    fit = model.fit("nuts", latent="sample", **options)
    f = bx.predictions(model, fit, on="latent", **QUIET)["f"]
    for name, expected in known.items():
        own = f.isel(obs=int(name[2:-1]) - 1) if name[0] == "f" else fit["posterior"][name]
        yield "gp_pois_regr", name, own.squeeze(), expected

    model, known = line()
    fit = model.fit("nuts", **options)
    zero = np.zeros((1, 1))
    beta = bx.derivatives(model, fit, obs=[0], **QUIET)["derivative"].isel(obs=0, feature=0)
    f = bx.predictions(model, fit, zero, **QUIET)["f"].isel(obs=0) + known["level"]
    for name, own in (("alpha", f), ("beta", beta), ("sigma", fit["posterior"]["sigma"])):
        yield "kilpisjarvi", name, own, known[name]


def compared(draws, expected):
    """Estimate, reference, and joint Monte Carlo error of each statistic."""
    ess, below = expected["ess"], draws < expected["q50"]
    yield "mean", draws.mean(), expected["mean"], az.mcse(draws), expected["mcse_mean"]
    sd = expected["sd"]
    yield "sd", draws.std(ddof=1), sd, az.mcse(draws, method="sd"), sd / np.sqrt(2 * ess)
    yield "probability", below.mean(), 0.5, az.mcse(below.astype(float)), 0.5 / np.sqrt(ess)


def scores(draws, seed):
    """A row for each parameter and statistic."""
    rows = []
    for posterior, name, own, expected in sampled(draws, seed):
        for statistic, estimate, known, *errors in compared(own, expected):
            estimate, error = float(estimate), float(np.hypot(*map(float, errors)))
            rows.append([posterior, name, statistic, estimate, known, (estimate - known) / error])
    columns = ["posterior", "parameter", "statistic", "estimate", "reference", "z"]
    return pd.DataFrame(rows, columns=columns)


def draw(table):
    """Draw the scores over the quantiles of a normal distribution."""
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    at = norm.ppf((np.arange(len(table)) + 0.5) / len(table))
    found = table.sort_values("z")
    for posterior, rows in found.assign(at=at).groupby("posterior"):
        axes.scatter(rows["at"], rows["z"], s=18, label=posterior)
    axes.axline((0, 0), slope=1, color="0.6", lw=1)
    axes.set_xlabel("quantile of the standard normal distribution")
    axes.set_ylabel("(estimate - reference) / error")
    axes.legend(title="posterior")
    figure.savefig(PICTURE, dpi=150)


def main():
    """Print and store the table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    table = scores(asked.draws, asked.seed)
    table.to_csv(TABLE, index=False, float_format="%.4g")
    print(table.to_string())
    z = table["z"]
    print(f"{len(z)} scores: sd {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}")
    draw(table)


if __name__ == "__main__":
    main()
