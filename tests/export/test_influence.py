"""Which row moved an explanation: functions that are reweighed, against refits in closed form."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import softmax

import bayes_gpx as bx
from known_draws import known, scattered
from oracle import expquad, expquad_slopes

QUIET = {"progressbar": False}
OUTLIER, SIGMA, AMPLITUDE = 11, 0.4, 1.2
LENGTHSCALE = np.array([1.6, 2.5])
THETA = {"lengthscale": LENGTHSCALE, "amplitude": AMPLITUDE, "sigma": SIGMA}
RNG = np.random.default_rng(8)
N = 40
X = RNG.uniform(-1.5, 1.5, size=(N, 2))
Y = np.sin(X[:, 0]) + 0.4 * X[:, 1] + SIGMA * RNG.normal(size=N)
# Seven standard deviations of the noise away.
Y[OUTLIER] = np.sin(X[OUTLIER, 0]) + 0.4 * X[OUTLIER, 1] + 7 * SIGMA
PLACES = X[OUTLIER] + [[0.9, 0.0], [-0.9, 0.3]]


def slopes_of(rows):
    """Means of all derivatives at the places, given some rows alone, at these hyperparameters."""
    C = AMPLITUDE**2 * expquad(X[rows], X[rows], LENGTHSCALE) + SIGMA**2 * np.eye(len(rows))
    across, _ = expquad_slopes(PLACES, X[rows], LENGTHSCALE)
    return (AMPLITUDE**2 * across @ np.linalg.solve(C, Y[rows])).reshape((2, 2))


def in_spite_of_large_k(ask, tree, **options):
    """ArviZ warns of the outlier, as it should."""
    with pytest.warns(UserWarning, match="shape parameter of Pareto distribution"):
        return ask(tree, group="posterior", **options)


@pytest.fixture(scope="module")
def reweighed():
    model = bx.GP(X, Y, scale=False)
    functions = bx.sample_functions(model, THETA, draws=1000, seed=1, **QUIET)
    return functions, bx.influence_tree(functions, functions.derivatives(PLACES))


def test_reweighed_means_are_those_of_refits(reweighed):
    _, tree = reweighed
    means, k = in_spite_of_large_k(az.loo_expectations, tree, var_name="derivative")
    log_weights = -tree["log_likelihood"]["y"].stack(sample=["chain", "draw"])
    weights = np.exp(log_weights - log_weights.max("sample"))
    share = (weights**2).sum("sample") / weights.sum("sample") ** 2
    sd = tree["posterior"]["derivative"].std(("chain", "draw")).values
    rows, checked = np.arange(len(Y)), 0
    for i in rows:
        expected = slopes_of(rows[rows != i])
        error = np.abs(means.sel(left_out=i).values.squeeze() - expected)
        if float(k.sel(left_out=i).max()) > 0.5:  # weights without a variance have no error bound
            continue
        assert (error < 5 * sd * np.sqrt(float(share.sel(left_out=i)))).all()
        checked += 1
    assert checked > N / 2
    moved = np.abs([slopes_of(rows[rows != i]) - slopes_of(rows) for i in rows]) / sd
    assert moved.max(axis=(1, 2)).argmax() == OUTLIER


def test_an_outlier_moves_what_is_near_it(reweighed):
    _, tree = reweighed
    shift, k = in_spite_of_large_k(az.loo_influence, tree, var_names="derivative")
    most = shift["derivative"].max(("obs", "feature"))
    assert int(most.argmax("left_out")) == OUTLIER
    assert float(most.max()) > 5 * float(most.median())
    assert float(k.sel(left_out=OUTLIER).max()) > float(k.median())


def test_densities_are_of_the_same_functions(reweighed):
    functions, tree = reweighed
    f = functions.predictions()["f"].values
    expected = stats.norm.logpdf(Y, f, SIGMA)
    assert_allclose(tree["log_likelihood"]["y"], expected, rtol=1e-9)
    assert tree["posterior"]["derivative"].sizes["obs"] == 2


def test_own_deviations_and_units_are_in_the_densities_of_a_gpx():
    y = 50.0 + 10.0 * Y
    model, rng = bx.GPX(X, y, Z := RNG.normal(size=(N, 2))), np.random.default_rng(2)
    theta = {"lengthscale": LENGTHSCALE, "amplitude": 1.1, "sigma": 0.3, "sigma_w": 0.4}
    thetas = scattered(theta, 5)
    functions = bx.sample_functions(model, known(model, thetas), seed=int(rng.integers(9)), **QUIET)
    found, z = functions.log_likelihood(), (Z - Z.mean(axis=0)) / Z.std(axis=0)
    f = functions.predictions()["f"].values[0]
    for draw, one in enumerate(thetas):
        own = one["sigma"] ** 2 + one["sigma_w"] ** 2 * (z**2).sum(axis=1)
        expected = stats.norm.logpdf(y, f[draw], y.std() * np.sqrt(own))
        assert_allclose(found.values[0, draw], expected, rtol=1e-7)


@pytest.mark.parametrize("likelihood", ["poisson", "categorical", "student_t"])
def test_densities_of_other_likelihoods(likelihood):
    counts = np.arange(N) % 3
    y = Y if likelihood == "student_t" else counts
    model = bx.GP(X, y, likelihood=likelihood, scale=False)
    theta = THETA | {"nu": 5.0, "sigma": 0.4}
    theta = {name: theta[name] for name in model.hyperparameters}
    functions = bx.sample_functions(model, theta, draws=3, seed=1, **QUIET)
    f, found = functions.predictions()["f"].values[0], functions.log_likelihood().values[0]
    expected = {
        "poisson": lambda: stats.poisson.logpmf(counts, np.exp(f)),
        "categorical": lambda: np.log(softmax(f, axis=-1)[:, np.arange(N), counts]),
        "student_t": lambda: stats.t.logpdf(Y, 5.0, f, 0.4),
    }[likelihood]()
    assert_allclose(found, expected, rtol=1e-7)


def own_kernel(d):
    """A kernel without random functions."""
    return pm.gp.cov.WarpedInput(d, cov_func=pm.gp.cov.ExpQuad(d, ls=1.5), warp_func=lambda x: x)


def test_what_is_refused():
    model, some = bx.GP(X, Y, scale=False), {"draws": 5, **QUIET}
    functions = bx.sample_functions(model, THETA, seed=1, **some)
    with pytest.raises(ValueError, match="functions is a GP. Pass the result of bx.sample"):
        bx.influence_tree(model, functions.predictions())
    others = bx.sample_functions(model, THETA, seed=2, **some)
    drawn = bx.derivatives(model, THETA, PLACES, **some)
    for found in (others.predictions(), drawn, drawn["derivative"]):
        with pytest.raises(ValueError, match="found is not of these functions"):
            bx.influence_tree(functions, found)
    slopes = functions.derivatives(PLACES)
    with pytest.raises(ValueError, match="found has no draws"):
        bx.influence_tree(functions, slopes.drop_vars("derivative"))
    steepest = slopes.max("obs").assign_attrs(slopes.attrs)
    assert "obs" not in bx.influence_tree(functions, steepest)["posterior"].dims
    own = bx.GP(X, Y, kernel=own_kernel)
    joint = bx.sample_functions(own, {"sigma": 0.3}, seed=1, **some)
    with pytest.raises(ValueError, match="no random functions"):
        bx.influence_tree(joint, joint.predictions())
