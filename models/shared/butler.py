"""What the scripts after Butler, Feng and Djuric share: their settings, and their plug-in optima.

    K. Butler, G. Feng and P. M. Djuric, "Explainable learning with Gaussian processes" (2024).

Their Gaussian process has prior mean 0 for a response that is not centred, a squared exponential
kernel with one lengthscale for each feature, and features that are centred and divided by their
standard deviation. They plug in the hyperparameters of highest evidence as if they were known.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

import bayes_gpx as bx
import papers

OFF = 1000.0
"""From this lengthscale on, in sd of the feature, a feature is as good as switched off."""

SIDE, ROWS, NOISE = 10.0, 500, 0.5
"""Of the simulated data: the square's side, the number of places, and the sd of the noise."""


class Optimum(NamedTuple):
    """A local maximum of the evidence."""

    hyperparameters: dict
    negative_log_evidence: float

    def describe(self, features):
        """Its numbers in words; features that are switched off are counted."""
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
    """The order of rows that MATLAB's ``rng(0); randperm(n)`` gives."""
    return np.argsort(np.random.RandomState(5489).random_sample(n), kind="stable")


def simulate(frequency, seed):
    """The authors' 500 places in a square, and the function there with noise."""
    # MATLAB's rng(0), which fills columns first.
    places = SIDE * np.random.RandomState(5489).random_sample((2, ROWS)).T
    X = pd.DataFrame(places, columns=["x1", "x2"])
    noise = NOISE * np.random.default_rng(seed).standard_normal(ROWS)
    return X, (np.sin(X["x1"]) * np.sin(frequency * X["x2"]) + noise).rename("y")


def uncentred(X, y, **options):
    """The Gaussian process with prior mean 0 in the units of X and y, and weak priors.

    Lengthscales have the package's prior, for z-scores. The prior of the amplitude is as wide as
    the response is far from 0, which a prior mean of 0 leaves to f.
    """
    return bx.GP(X, y, scale=False, priors=priors(y), **options)


def priors(y):
    """Those of `uncentred`; ``bx.load`` asks for them again."""
    reach, spread = float(np.sqrt((y**2).mean())), float(y.std())
    return {
        "amplitude": lambda name: pm.HalfNormal(name, 2 * reach),
        "sigma": lambda name: pm.HalfNormal(name, spread),
    }


def climb(X, y, *, reach=1.0, signal=1.0, noise=1.0):
    """Climb to a local maximum of the evidence.

    Parameters
    ----------
    X, y : frame (n, d), series (n,)
    reach, signal, noise : float
        The start: lengthscales over each feature's sd, amplitude and noise over sd(y)/sqrt(2). The
        authors start at 1.

    Returns
    -------
    Optimum
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
    """Hyperparameters that `climb` leads to: a cell, climbed to once."""

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
