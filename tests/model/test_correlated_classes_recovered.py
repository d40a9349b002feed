"""Correlation of classes, recovered from made labels, and what it is worth."""

import arviz as az
import numpy as np
import pytest

import bayes_gpx as bx

C, AMPLITUDE = 3, 0.5
W = np.array([[2.5], [2.5], [-2.5]])
B = AMPLITUDE**2 * np.eye(C) + W @ W.T
H = np.eye(C) - 1.0 / C


@pytest.fixture(scope="module")
def made():
    """Two classes that go together and one that does not; the last rows are held out."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-6.0, 6.0, size=500)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-8 * np.eye(500)
    f = np.linalg.cholesky(K) @ rng.normal(size=(500, C)) @ np.linalg.cholesky(B).T
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    return x[:, None], y, 60


@pytest.fixture(scope="module")
def fits(made):
    X, y, n = made
    found = {}
    for rank in (0, 1):
        options = {"correlation": rank, "scale": False, "priors": {"lengthscale": 1.0}}
        model = bx.GP(X[:n], y[:n], likelihood="categorical", **options)
        options = {"draws": 120, "tune": 120, "chains": 2, "seed": 2, "progressbar": False}
        found[rank] = model, model.fit("nuts", **options)
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayes_gpx.inference.diagnostics.ConvergenceWarning")
def test_how_classes_correlate_is_recovered(fits):
    found = fits[1][1]["posterior"]["output_covariance_centred"]
    assert float(az.rhat(found).max()) < 1.05
    low, high = found.quantile([0.025, 0.975], dim=("chain", "draw")).values
    truth = H @ B @ H
    assert (low < truth).all() and (truth < high).all()
    together = found[..., 0, 1] > found[..., 0, 2]
    assert together.mean() > 0.9  # of the first class with the second, not the third


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The largest Pareto k:UserWarning")
def test_classes_that_correlate_are_predicted_better(made, fits):
    X, y, n = made
    density = {}
    for rank, fitted in fits.items():
        p = bx.predictions(*fitted, X[n:], keep="summary", num_draws=50, progressbar=False)
        density[rank] = np.log(p["probability_mean"].values[np.arange(len(y) - n), y[n:]]).mean()
    assert density[1] > density[0] + 0.01
    table = bx.compare({"apart": fits[0], "correlated": fits[1]})
    assert table.index[0] == "correlated"
