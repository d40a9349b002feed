"""Attributions of a treatment's effect are calibrated, on the covariates of a real trial (IHDP)."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import kstest

import bayes_gpx as bx
from oracle import expquad, expquad_slopes

FILE = Path(os.environ.get("BAYES_GPX_DATA", "")) / "ihdp" / "ihdp_npci_1.csv.gz"
COVARIATES, N, ROWS = ["x1", "x2", "x4", "x6"], 100, [3, 40, 77]
HELD = {"lengthscale": np.array([1.0, 2.0, 1.5, 3.0]), "amplitude": 0.7}
HELD |= {"sigma_w": 0.2, "sigma": 0.5}
OF = {"of": ("weight", "treatment"), "obs": ROWS, "progressbar": False}


@pytest.fixture(scope="module")
def model():
    rows = pd.read_csv(FILE).sample(N, random_state=1).reset_index(drop=True)
    return bx.GPX(rows[COVARIATES], rows["y_factual"], rows[["treatment"]], intercept=True)


class World:
    """Responses and true attributions of the treatment's weight, by dense covariances."""

    def __init__(self, model):
        data, (t, w) = model.training, np.polynomial.legendre.leggauss(40)
        self.X, self.Z = (data.scaled()[name] for name in ("X", "Z"))
        t = (t[:, None] + 1) / 2
        self.nodes = np.concatenate([t * x for x in self.X[ROWS]])  # the mean row is 0
        self.A = np.zeros((12, len(self.nodes) * 4))
        for k, x in enumerate(self.X[ROWS]):
            for q, share in enumerate(w / 2):
                place = 4 * (40 * k + q)
                self.A[4 * k : 4 * k + 4, place : place + 4] = share * np.diag(x)
        self.center, self.scale = data.y_scaling.center, data.y_scaling.scale
        self.unit = self.scale / data.Z_scaling.scale[0]

    def draw(self, theta, rng):
        """Responses (n,) and attributions (3, 4), in user units."""
        lengthscale, variance = theta["lengthscale"], theta["amplitude"] ** 2
        own = variance * expquad(self.X, self.X, lengthscale) * (self.Z @ self.Z.T)
        own += np.diag((self.Z**2).sum(axis=1) * theta["sigma_w"] ** 2 + theta["sigma"] ** 2)
        with_f, _ = expquad_slopes(self.nodes, self.X, lengthscale)
        _, slopes = expquad_slopes(self.nodes, self.nodes, lengthscale)
        cross = variance * (self.A @ with_f) * self.Z[:, 0]
        cov = np.block([[own, cross.T], [cross, variance * self.A @ slopes @ self.A.T]])
        values, vectors = np.linalg.eigh(cov)
        drawn = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(cov)))
        return self.center + self.scale * drawn[:N], self.unit * drawn[N:].reshape((3, 4))


def uniform(pits):
    """Whether ranks (runs, 3, 4) of each attribution are uniform, at a level of 1e-3 for all."""
    runs = pits.reshape((len(pits), -1))
    return min(kstest(column, "uniform").pvalue for column in runs.T) > 1e-3 / runs.shape[1]


@pytest.mark.slow
@pytest.mark.data
def test_ranks_are_uniform_at_known_hyperparameters(model):
    rng, world, pits = np.random.default_rng(2), World(model), []
    for _ in range(300):
        y, truth = world.draw(HELD, rng)
        again = model.of_rows(replace(model.training, y=y))
        found = bx.attributions(again, HELD, draws=99, seed=int(rng.integers(2**31)), **OF)
        pits.append((found["attribution"].values[0] < truth).mean(axis=0) + rng.uniform(0, 0.01))
    pits = np.array(pits)
    assert uniform(pits)
    assert not uniform(0.5 + 0.7 * (pits - 0.5))  # intervals that are too wide are seen


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
def test_ranks_are_uniform_with_hyperparameters_from_the_prior(model):
    rng, world, pits = np.random.default_rng(3), World(model), []
    names = list(model.variables)
    for run in range(60):
        theta = dict(zip(names, pm.draw([*model.variables.values()], random_seed=run), strict=True))
        y, truth = world.draw(theta, rng)
        again = model.of_rows(replace(model.training, y=y))
        idata = again.fit("laplace", draws=396, seed=run, progressbar=False)
        found = bx.attributions(again, idata, num_draws=99, seed=run, **OF)
        pits.append((found["attribution"].values[0] < truth).mean(axis=0) + rng.uniform(0, 0.01))
    assert uniform(np.array(pits))
