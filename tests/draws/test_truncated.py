"""Constraints in bounds at many points: posteriors against rejection sampling of dense normals."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

import bayes_gpx as bx
from bayes_gpx.draws.truncated import with_truncated
from bayes_gpx.model.constraints import Increasing, Slope, Value, Weight
from known_draws import tree_of

QUIET = {"progressbar": False, "seed": 1}
THETA = {"lengthscale": [1.5], "amplitude": 1.1, "sigma": 0.5}


class Dense:
    """A squared exponential process of dose in user units, and its slopes, in closed form."""

    def __init__(self, X, y, constraints):
        self.x, self.y, self.center = X["dose"].to_numpy(), y - y.mean(), y.mean()
        sd_x, sd_y = self.x.std(), y.std(ddof=0)
        self.lengthscale, self.amplitude = 1.5 * sd_x, 1.1 * sd_y
        self.sigma, self.strength = 0.5 * sd_y, 0.01 * sd_y / sd_x
        self.at = np.linspace(self.x.min(), self.x.max(), constraints)

    def covariance(self, a, of_a, b, of_b):
        """Of f, of order 0, or slopes, of order 1, at points a and b."""
        t = np.subtract.outer(a, b) / self.lengthscale
        k, order = self.amplitude**2 * np.exp(-0.5 * t**2), (of_a, of_b)
        factor = {(0, 0): 1.0, (0, 1): t, (1, 0): -t, (1, 1): 1.0 - t**2}[order]
        return k * factor / self.lengthscale ** sum(order)

    def given(self, points, rows=slice(None)):
        """Mean and covariance of f and slopes at points, and noisy slopes, given such rows."""
        asked = [(points, 0), (points, 1), (self.at, 1)]
        x, y = self.x[rows], self.y[rows]
        C = self.covariance(x, 0, x, 0) + self.sigma**2 * np.eye(len(x))
        cross = np.vstack([self.covariance(a, order, x, 0) for a, order in asked])
        prior = np.block([[self.covariance(*a, *b) for b in asked] for a in asked])
        noise = np.zeros(len(prior))
        noise[2 * len(points) :] = self.strength**2
        gain = np.linalg.solve(C, cross.T).T
        return gain @ y, prior + np.diag(noise) - gain @ cross.T

    def kept(self, rng, points, rows=slice(None), draws=200_000):
        """Draws of f and slopes at points of those functions that rise, and their share."""
        mean, cov = self.given(points, rows)
        root = np.linalg.cholesky(cov + 1e-12 * np.trace(cov) * np.eye(len(cov)))
        drawn = mean + rng.standard_normal((draws, len(mean))) @ root.T
        rises = (drawn[:, 2 * len(points) :] > 0).all(axis=1)
        return drawn[rises, : 2 * len(points)], rises.mean()


@pytest.fixture
def data():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"dose": rng.uniform(0, 10, 10)})
    y = pd.Series(0.6 * X["dose"] + rng.normal(0, 1.5, 10), name="effect")
    return X, y


def test_values_at_many_points_are_those_of_rejection_sampling(data):
    """Where expectation propagation makes slopes 20 % too narrow."""
    X, y = data
    model, dense = bx.GP(X, y, constraints=[Increasing("dose", at=40)]), Dense(X, y, 40)
    idata = with_truncated(model, tree_of(THETA), draws=4000, **QUIET)
    found = idata["posterior"]["constrained"].values[0]
    kept, _ = dense.kept(np.random.default_rng(1), dense.at)
    slopes, sd = kept[:, 40:], kept[:, 40:].std(axis=0)
    assert len(kept) > 50_000
    kurtosis = ((slopes - slopes.mean(axis=0)) ** 4).mean(axis=0) / sd**4
    sizes = 1 / 4000 + 1 / len(kept)
    error = 4.5 * np.sqrt((kurtosis - 1) / 4 * sizes)
    assert (error < 0.12).all()
    spread = np.sqrt(sd**2 + dense.strength**2)
    assert (np.abs(found.std(axis=0) / spread - 1) < error).all()
    # Noise is drawn with a slope that rises: with it, those near 0 are a little larger.
    shift = np.abs(found.mean(axis=0) - slopes.mean(axis=0))
    assert (shift < 4.5 * spread * np.sqrt(sizes) + dense.strength).all()
    at = pd.DataFrame({"dose": dense.at})
    ep = bx.derivatives(model, THETA, at, keep="summary", **QUIET)["derivative_sd"].values[:, 0]
    assert (ep / sd).min() < 0.8


def test_rows_are_left_out_with_the_bounds_of_the_others(data):
    """The harmonic mean over draws is p(y_i | others, bounds), of shares of functions that rise."""
    X, y = data
    model = bx.GP(X, y, constraints=[Increasing("dose", at=8)])
    idata = with_truncated(model, tree_of(THETA), draws=500, **QUIET)
    found = bx.log_likelihood(model, idata, progressbar=False)
    dense, rng, none = Dense(X, y, 8), np.random.default_rng(2), np.zeros(0)
    share = dense.kept(rng, none)[1]
    C = dense.covariance(dense.x, 0, dense.x, 0) + dense.sigma**2 * np.eye(len(y))
    every, shifts = np.arange(len(y)), []
    joint = multivariate_normal(np.zeros(len(y)), C).logpdf(dense.y)
    for i in (0, 3, 7):
        rest = np.delete(every, i)
        others = multivariate_normal(np.zeros(len(y) - 1), C[np.ix_(rest, rest)])
        alone = joint - others.logpdf(dense.y[rest])
        shifts.append(np.log(share) - np.log(dense.kept(rng, none, rest)[1]))
        terms = found["log_likelihood"].isel(obs=i).values.ravel()
        assert_allclose(-np.log(np.exp(-terms).mean()), alone + shifts[-1], atol=0.1)
    assert max(shifts) > 1.0


def test_all_is_conditioned_on_the_values_that_were_drawn(data):
    """Moments of the mixture over draws, densities and terms, from dense joint normals."""
    X, y = data
    model, dense = bx.GP(X, y, constraints=[Increasing("dose", at=4)]), Dense(X, y, 4)
    idata = with_truncated(model, tree_of(THETA), draws=3, **QUIET)
    new = np.array([2.0, 5.0])
    seen, asked = [(dense.x, 0), (dense.at, 1)], [(new, 0), (new, 1)]
    noise = [dense.sigma**2] * len(y) + [dense.strength**2] * 4
    C = np.block([[dense.covariance(*a, *b) for b in seen] for a in seen]) + np.diag(noise)
    values = idata["posterior"]["constrained"].values[0]
    known = np.hstack([np.tile(dense.y, (3, 1)), values])
    cross = np.block([[dense.covariance(*a, *b) for b in seen] for a in asked])
    prior = np.block([[dense.covariance(*a, *b) for b in asked] for a in asked])
    means = known @ np.linalg.solve(C, cross.T)
    variance = np.diag(prior - cross @ np.linalg.solve(C, cross.T)) + means.var(axis=0)
    table = pd.DataFrame({"dose": new})
    f = bx.predictions(model, idata, table, **QUIET)
    slopes = bx.derivatives(model, idata, table, **QUIET).isel(feature=0)
    found = np.append(f["f_mean"] - dense.center, slopes["derivative_mean"])
    assert_allclose(found, means.mean(axis=0), rtol=1e-7)
    found = np.append(f["f_sd"], slopes["derivative_sd"]) ** 2
    assert_allclose(found, variance, rtol=1e-7)

    def density(values, own):
        return multivariate_normal(np.zeros(len(own)), C[np.ix_(own, own)]).logpdf(values[own])

    every, scores = np.arange(len(C)), bx.log_likelihood(model, idata, progressbar=False)
    for draw, own in enumerate(known):
        joint = density(own, every)
        evidence = scores["log_marginal_likelihood"].values[0, draw]
        assert_allclose(evidence, joint - density(own, every[len(y) :]), rtol=1e-7)
        terms = [joint - density(own, np.delete(every, i)) for i in range(len(y))]
        assert_allclose(scores["log_likelihood"].values[0, draw], terms, rtol=1e-7)


def test_drawn_values_are_those_of_the_explanations(rng):
    """In user units, with constraints that are values, for each draw of the hyperparameters."""
    X = pd.DataFrame({"a": rng.uniform(0, 50, 9), "b": rng.uniform(5, 6, 9)})
    y = pd.Series(100 + X["a"] * X["b"] + rng.normal(0, 5, 9), name="y")
    at = X[:2] + [1.0, 0.01]
    model = bx.GPX(
        X, y, constraints=[
            Value(X[:1], y[:1], 1.0), Weight("b", low=20.0, high=40.0, at=at),
            Slope("a", low=5.0, at=at),
        ],
    )  # fmt: skip
    theta = {"lengthscale": [1.1, 1.4], "amplitude": 1.2, "sigma": 0.3, "sigma_w": 0.2}
    tree = tree_of(theta, ["a", "b"], chains=2, draws=3)
    tree["posterior"]["amplitude"] = tree["posterior"]["amplitude"] * rng.uniform(0.5, 2, (2, 3))
    idata = with_truncated(model, tree, draws=7, **QUIET)
    drawn = idata["posterior"]["constrained"]
    assert drawn.dims == ("chain", "draw", "statement")
    assert_array_equal(drawn["statement"], [1, 2, 3, 4])
    assert drawn.shape == (2, 3, 4)
    weights = bx.weights(model, idata, at, smooth=True, **QUIET)["weight"].sel(feature="b")
    slopes = bx.derivatives(model, idata, at, **QUIET)["derivative"].sel(feature="a")
    explained = np.concatenate([weights, slopes], axis=2)
    sd = np.array([s.sd * s.unit for s in model.specification.constraints.statements])[1:]
    assert (np.abs(explained - drawn) < 5 * sd).all()
    assert (drawn >= [20, 20, 5, 5]).all()
    assert (drawn[..., :2] <= 40).all()
    assert drawn.std(["chain", "draw"]).min() > 0


def test_a_fit_by_samples_is_kept_whole(data, tmp_path):
    X, y = data
    model = bx.GP(
        X, y, constraints=[Increasing("dose", at=12)], priors={"lengthscale": [0.9], "sigma": 0.5}
    )
    idata = model.fit("map", draws=120, truncated="sample", **QUIET)
    assert idata["posterior"].sizes["draw"] == 120
    assert np.ptp(idata["posterior"]["amplitude"].values) == 0
    assert idata["log_likelihood"]["y"].shape == (1, 120, len(y))
    assert (idata["constraints"]["posterior_probability"] > 0.9).all()
    bx.save(model, idata, tmp_path / "m.nc")
    loaded, again = bx.load(tmp_path / "m.nc")
    xr.testing.assert_identical(again["posterior"].to_dataset(), idata["posterior"].to_dataset())
    expected = bx.predictions(model, idata, **QUIET)
    assert_array_equal(bx.predictions(loaded, again, **QUIET)["y"], expected["y"])
    functions = bx.sample_functions(model, idata, **QUIET).derivatives(X)["derivative"]
    share = (functions > 0).all("obs").mean().item()
    assert share > 0.9


def test_what_cannot_be_sampled_is_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="truncated: unknown 'exact'"):
        bx.GP(X, y).fit("map", truncated="exact", **QUIET)
    for constraints in ([], [Slope("dose", mean=1.0, sd=0.1)]):
        with pytest.raises(
            ValueError, match="without constraints in bounds, so nothing is truncated"
        ):
            bx.GP(X, y, constraints=constraints).fit("map", truncated="sample", **QUIET)
    model = bx.GP(X, y, constraints=[Increasing("dose", at=40, strength=1e-9)])
    with pytest.raises(ValueError, match="Use a larger strength, or fewer points"):
        with_truncated(model, tree_of(THETA), draws=3, **QUIET)
