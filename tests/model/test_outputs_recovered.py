"""Correlation of outputs, recovered from made data."""

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm

import bayes_gpx as bx

W = np.array([[1.2], [-0.9]])
SIGMA, AMPLITUDE = 0.15, 0.3


@pytest.fixture(scope="module")
def made():
    """Two outputs of one shared function, the second one not observed on one side."""
    rng = np.random.default_rng(11)
    x = np.sort(rng.uniform(-5.0, 5.0, size=60))
    apart = x[:, None] - x
    shared, own = (np.exp(-0.5 * (apart / ell) ** 2) + 1e-9 * np.eye(60) for ell in (0.7, 1.5))
    g = np.linalg.cholesky(shared) @ rng.normal(size=(60, 1))
    h = np.linalg.cholesky(own) @ rng.normal(size=(60, 2))
    f = g @ W.T + AMPLITUDE * h
    Y = f + SIGMA * rng.normal(size=f.shape)
    known = Y.copy()
    known[x > 2.0, 1] = np.nan
    return x[:, None], Y, known


@pytest.fixture(scope="module")
def fits(made):
    X, _, known = made
    found = {}
    for rank in (0, 1):
        model = bx.GP(X, known, scale=False, correlation=rank)
        options = {"draws": 300, "tune": 300, "chains": 2, "seed": 2, "progressbar": False}
        found[rank] = model, model.fit("nuts", **options)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
def test_what_outputs_share_is_recovered(fits):
    B = fits[1][1]["posterior"]["output_covariance"]
    assert float(az.rhat(B).max()) < 1.05
    low, high = B.quantile([0.025, 0.975], dim=("chain", "draw")).values
    assert (low < W @ W.T).all() and (W @ W.T < high).all()
    assert high[0, 1] < 0.0  # the outputs are known to go against each other


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The largest Pareto k:UserWarning")
def test_outputs_that_correlate_predict_each_other(made, fits):
    X, Y, known = made
    hidden, density = np.isnan(known[:, 1]), {}
    for rank, fitted in fits.items():
        own = bx.predictions(*fitted, seed=1, progressbar=False)["y"].sel(output="y1")
        draws = own.values.reshape((-1, len(X)))[:, hidden]
        density[rank] = norm(draws.mean(axis=0), draws.std(axis=0)).logpdf(Y[hidden, 1]).mean()
    assert density[1] > density[0] + 0.5
    table = bx.compare({"apart": fits[0], "correlated": fits[1]})
    assert table.index[0] == "correlated"
