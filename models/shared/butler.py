"""Settings and plug-in optima shared by the scripts for Butler, Feng and Djuric.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

Their Gaussian process has prior mean 0, although the response is not centered. It has a squared
exponential kernel with one lengthscale per feature; features are centered and divided by their
standard deviation. The authors treat the hyperparameters with the highest marginal likelihood as
known.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

import bayes_gpx as bx
import papers

OFF = 1000.0
"""A lengthscale above this value, in sd of the feature, switches the feature off."""

SIDE, ROWS, NOISE = 10.0, 500, 0.5
"""Simulated data: side of the square, number of places, sd of the noise."""


class Optimum(NamedTuple):
    """A local maximum of the marginal likelihood."""

    hyperparameters: dict
    negative_log_evidence: float

    def describe(self, features):
        """Describe the optimum in words, with the number of features that are switched off."""
        lengthscale = self.hyperparameters["lengthscale"]
        used = sorted((own, f) for own, f in zip(lengthscale, features, strict=True) if own < OFF)
        lengths = ", ".join(f"{feature} {own:.4g}" for own, feature in used)
        sizes = ", ".join(f"{n} {self.hyperparameters[n]:.4g}" for n in ("amplitude", "sigma"))
        off = len(features) - len(used)
        return (
            f"negative log evidence {self.negative_log_evidence:.2f}, {sizes}; lengthscales "
            f"{lengths}; {off} switched off"
        )


def permuted(n):
    """The order of rows given by MATLAB's ``rng(0); randperm(n)``."""
    return np.argsort(np.random.RandomState(5489).random_sample(n), kind="stable")


def simulate(frequency, seed):
    """Simulate the function with noise at the authors' 500 places in a square."""
    # The seed of MATLAB's rng(0); MATLAB fills columns first.
    places = SIDE * np.random.RandomState(5489).random_sample((2, ROWS)).T
    X = pd.DataFrame(places, columns=["x1", "x2"])
    noise = NOISE * np.random.default_rng(seed).standard_normal(ROWS)
    return X, (np.sin(X["x1"]) * np.sin(frequency * X["x2"]) + noise).rename("y")


def uncentred(X, y, **options):
    """Gaussian process with prior mean 0 in the units of X and y, and weak priors.

    Lengthscales have the package's prior, which assumes z-scores. The prior of the amplitude is
    wide enough for the distance of the response from 0, because f must cover it.
    """
    return bx.GP(X, y, scale=False, priors=priors(y), **options)


def priors(y):
    """The priors of `uncentred`, needed again by ``bx.load``."""
    reach, spread = float(np.sqrt((y**2).mean())), float(y.std())
    return {
        "amplitude": lambda name: pm.HalfNormal(name, 2 * reach),
        "sigma": lambda name: pm.HalfNormal(name, spread),
    }


def climb(X, y, *, reach=1.0, signal=1.0, noise=1.0):
    """Find a local maximum of the marginal likelihood.

    The arguments `reach`, `signal` and `noise` set the starting point: lengthscales relative to
    each feature's sd, amplitude and noise relative to sd(y)/sqrt(2). The authors start at 1.
    """
    flat = dict.fromkeys(("lengthscale", "amplitude", "sigma"), _flat)
    model = bx.GP(X, y, scale=False, priors=flat)
    half = y.std() / np.sqrt(2)
    start = {
        "lengthscale": reach * X.std().values,
        "amplitude": signal * half,
        "sigma": noise * half,
    }
    posterior = model.fit("map", start=start, progressbar=False, jacobian=False)["posterior"]
    found = {name: posterior[name].values[0, 0] for name in flat}
    evidence = bx.log_likelihood(model, found, progressbar=False)["log_marginal_likelihood"]
    return Optimum(found, -evidence.item())


def optimum(paper, data, X, y, **start):
    """Cached hyperparameters of the optimum that `climb` finds."""

    def task():
        found = climb(X, y, **start)
        lengthscale = dict(zip(X.columns, found.hyperparameters["lengthscale"], strict=True))
        sizes = {name: found.hyperparameters[name] for name in ("amplitude", "sigma")}
        return {f"lengthscale {name}": value for name, value in lengthscale.items()} | sizes

    cells = papers.Cells(paper.cells.path.with_name("butler_optima.csv"))
    found = cells.compute(task, data=data, rows=len(y))
    lengthscale = np.array([found[f"lengthscale {name}"] for name in X.columns])
    return {"lengthscale": lengthscale, "amplitude": found["amplitude"], "sigma": found["sigma"]}


def _flat(name, dims=None):
    return pm.HalfFlat(name, dims=dims)
