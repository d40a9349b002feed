"""ArviZ's checks run on the fits of labels and counts, on numbers that another road confirms."""

import arviz as az
import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

matplotlib.use("Agg")
RNG = np.random.default_rng(12)
N = 70
X = RNG.normal(size=(N, 1))
F = 2 * np.sin(1.5 * X[:, 0])
Y = {
    "bernoulli": np.where(F + RNG.logistic(size=N) > 0, "yes", "no"),
    "poisson": RNG.poisson(np.exp(0.5 * F + 1)),
}
PLOTS = {
    "bernoulli": az.plot_ppc_pava,
    "poisson": az.plot_ppc_rootogram,
}
QUIET = {"progressbar": False}
pytestmark = pytest.mark.filterwarnings("ignore:The posterior is far from its Laplace")


@pytest.fixture(scope="module", params=Y)
def checked(request):
    name = request.param
    model = bx.GP(X, Y[name], likelihood=name)
    idata = model.fit("laplace", draws=150, seed=1, **QUIET)
    return name, model, idata, bx.predictive_checks(model, idata, seed=2, **QUIET)


def test_checks_are_drawn(checked, tmp_path):
    name, _, _, tree = checked
    PLOTS[name](tree).savefig(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 5000


def test_replications_are_not_taken_for_predictions_of_rows_left_out(checked):
    _, _, idata, tree = checked
    assert "log_likelihood" in idata and "log_likelihood" not in tree
    with pytest.raises(TypeError, match="log likelihood not found"):
        az.plot_loo_pit(tree)


def test_draws_are_those_of_the_verb(checked):
    name, model, idata, tree = checked
    drawn = tree["posterior_predictive"]["y"]
    found = bx.predictions(model, idata, seed=2, **QUIET)
    assert_allclose(drawn, found["y"])
    mean = found["probability_mean" if name == "bernoulli" else "rate_mean"]
    error = drawn.mean(("chain", "draw")) - mean
    assert np.all(np.abs(error) < 5 * drawn.std(("chain", "draw")).clip(0.02) / np.sqrt(150))
    observed = tree["observed_data"]["y"].values
    assert_allclose(observed, Y[name] == "yes" if name == "bernoulli" else Y[name])
    assert "posterior_predictive" not in idata


def test_one_draw_is_replicated(checked):
    name, model, _, _ = checked
    theta = {"lengthscale": [1.0], "amplitude": 1.0}
    tree = bx.predictive_checks(model, theta, joint=True, seed=0, **QUIET)
    assert tree["posterior_predictive"]["y"].sizes["draw"] == 1000
