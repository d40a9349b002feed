"""Shapley values of models against dense conditioning on all coalitions, and their properties."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.explain.shapley_values import _orders
from bayes_gpx.numerics.coalitions import all_coalitions, coalitions
from oracle import expquad

RNG = np.random.default_rng(3)
X, X_NEW = RNG.normal(size=(20, 4)), RNG.normal(size=(3, 4))
Y = np.sin(X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] + 0.1 * RNG.normal(size=20)
THETA = {"lengthscale": [0.9, 1.1, 1.4, 2.0], "amplitude": 1.2, "sigma": 0.2}
SILENT = {"progressbar": False}
QUIET = SILENT | {"baseline": "zero"}
ALONE = tuple((k,) for k in range(4))


def dense(prior, y, points, shares):
    """Mean (d,) and covariance (d, d) of shares of f at points, given noisy y at X."""
    C = prior(X, X) + THETA["sigma"] ** 2 * np.eye(len(X))
    cross = shares @ prior(points, X)
    mean = cross @ np.linalg.solve(C, y)
    cov = shares @ prior(points, points) @ shares.T - cross @ np.linalg.solve(C, cross.T)
    return mean, cov


def of_coalitions(x, players=ALONE):
    among = all_coalitions(players)
    masks, shares = among.masks, among.shares
    return np.where(masks, x, 0.0), shares


def expquads(A, B):
    return THETA["amplitude"] ** 2 * expquad(A, B, np.array(THETA["lengthscale"]))


def tied(A, B):
    """Covariance of x'g(x), with an intercept."""
    products = np.hstack([A, np.ones((len(A), 1))]) @ np.hstack([B, np.ones((len(B), 1))]).T
    return expquads(A, B) * products


@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_exact_models_condition_all_coalitions(family):
    own = {"scale": False} if family is bx.GP else {"scale": False, "intercept": True}
    model = family(X, Y, **own)
    theta = THETA if family is bx.GP else THETA | {"sigma_w": 0.0}
    found = bx.shapley_values(model, theta, X_NEW, covariance=True, **QUIET)
    for k, x in enumerate(X_NEW):
        mean, cov = dense(expquads if family is bx.GP else tied, Y, *of_coalitions(x))
        assert_allclose(found["attribution_mean"][k], mean, atol=1e-9)
        assert_allclose(found["attribution_cov"][k], cov, atol=1e-9)
    assert found["completeness_residual"].max() < 1e-10
    assert found.attrs["method"] == "shapley"


def test_a_categorical_column_is_one_player():
    kind = pd.Categorical(RNG.choice(["a", "b", "c"], 20))
    table = pd.DataFrame({"kind": kind, "size": X[:, 0]})
    model = bx.GP(table, Y, scale=False)
    theta = {"lengthscale": [1.0, 1.3], "amplitude": 1.0, "sigma": 0.2}
    start = pd.DataFrame({"kind": pd.Categorical(["a"], categories=list("abc")), "size": [0.0]})
    options = {"baseline": start, "progressbar": False}
    found = bx.shapley_values(model, theta, table[:5], **options)
    ends = [table[:5].copy() for _ in range(4)]
    for moved, own in zip(ends, [(), ("kind",), ("size",), ("kind", "size")], strict=True):
        for name in {"kind", "size"} - set(own):
            moved[name] = start[name].iloc[0]
        moved["kind"] = pd.Categorical(moved["kind"], categories=list("abc"))
    none, kind, size, both = (
        bx.predictions(model, theta, moved, progressbar=False)["f_mean"].values for moved in ends
    )
    expected = np.stack([(kind - none + both - size) / 2.0, (size - none + both - kind) / 2.0], 1)
    assert_allclose(found["attribution_mean"], expected, atol=1e-9)


@pytest.mark.parametrize(
    "approximation", [bx.Inducing(X[:9, :3]), bx.HSGP(3), bx.RandomFeatures(40)]
)
def test_approximations_sum_up_over_coalitions(approximation):
    model = bx.GP(X[:, :3], Y, approximation=approximation, scale=False)
    theta = {"lengthscale": [1.0, 1.2, 1.5], "amplitude": 1.0, "sigma": 0.2}
    found = bx.shapley_values(model, theta, X_NEW[:1, :3], **QUIET)
    among = all_coalitions(ALONE[:3])
    masks, shares = among.masks, among.shares
    points = np.where(masks, X_NEW[0, :3], 0.0)
    options = {"joint": True, "draws": 1, "seed": 1, "progressbar": False}
    values = bx.predictions(model, theta, points, **options)["f_mean"].values
    assert_allclose(found["attribution_mean"][0], shares @ values, atol=1e-9)


def test_several_baselines_are_averaged_and_a_dict_keeps_them_apart():
    model, starts = bx.GP(X, Y, scale=False), X[:2]
    each = [
        bx.shapley_values(model, THETA, X_NEW, baseline=row, progressbar=False) for row in starts
    ]
    found = bx.shapley_values(model, THETA, X_NEW, baseline=starts, progressbar=False)
    average = sum(one["attribution_mean"] for one in each) / 2.0
    assert_allclose(found["attribution_mean"], average, atol=1e-10)
    named = dict(zip("ab", starts, strict=True))
    apart = bx.shapley_values(model, THETA, X_NEW, baseline=named, progressbar=False)
    assert_allclose(apart["attribution_sd"].sel(baseline="b"), each[1]["attribution_sd"])


def test_many_baselines_are_averaged_by_random_functions():
    model, starts = bx.GP(X, Y, scale=False), RNG.normal(size=(25, 4))
    options = {"baseline": starts, "draws": 300, "seed": 2, **SILENT}
    found = bx.shapley_values(model, THETA, X_NEW, **options)
    among = all_coalitions(ALONE)
    for k, x in enumerate(X_NEW):
        points = np.where(among.masks, x, starts[:, None]).reshape((-1, 4))
        mean, cov = dense(expquads, Y, points, np.tile(among.shares, 25) / 25)
        assert_allclose(found["attribution_mean"][k], mean, atol=1e-9)
        # Of 300 functions an sd has an error of 4 %; waves in the place of the prior add to it.
        assert_allclose(found["attribution_sd"][k], np.sqrt(np.diag(cov)), rtol=0.15)


def test_a_feature_that_does_nothing_gets_nothing_and_equal_ones_the_same():
    theta = THETA | {"lengthscale": [1.0, 1.0, 1.5, 1e9]}
    model = bx.GP(X, Y, scale=False)
    found = bx.shapley_values(model, theta, X_NEW, **QUIET)
    assert np.abs(found["attribution_mean"][:, 3]).max() < 1e-12
    swapped = bx.GP(X[:, [1, 0, 2, 3]], Y, scale=False)
    other = bx.shapley_values(swapped, theta, X_NEW[:, [1, 0, 2, 3]], **QUIET)
    assert_allclose(found["attribution_mean"][:, 0], other["attribution_mean"][:, 1], atol=1e-10)


def test_of_a_function_without_interactions_they_are_integrated_gradients():
    model = bx.GP(X, Y, kernel="linear", scale=False)
    theta = {name: THETA.get(name, 1.0) for name in model.hyperparameters}
    found, other = (
        verb(model, theta, X_NEW, **QUIET) for verb in (bx.shapley_values, bx.attributions)
    )
    for name in ("attribution_mean", "attribution_sd"):
        assert_allclose(found[name], other[name], atol=1e-10)


LIKELIHOODS = {
    "bernoulli": (Y > 0.0, "probability_mean"),
    "poisson": (np.round(np.exp(Y)).astype(int), "rate_mean"),
    "categorical": (np.digitize(Y, [-0.5, 0.5]), "probability_mean"),
}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_of_the_response_they_are_sums_of_mean_responses(family, likelihood):
    y, name = LIKELIHOODS[likelihood]
    model = family(X[:, :2], y, likelihood=likelihood)
    theta = dict.fromkeys(model.hyperparameters, 1.0)
    theta |= {"sigma_w": 0.0} if family is bx.GPX else {}
    among, rows = all_coalitions(ALONE[:2]), X_NEW[:2, :2]
    found = bx.shapley_values(model, theta, rows, baseline="zero", draws=100, seed=1, **SILENT)
    points = np.where(among.masks, rows[:, None], 0.0).reshape((-1, 2))
    mean = bx.predictions(model, theta, points, keep="summary", **SILENT)[name].values
    expected = np.einsum("ds,ms...->md...", among.shares, mean.reshape((2, 4, *mean.shape[1:])))
    # Several classes' means are by quasi-random points.
    assert_allclose(found["attribution_mean"], expected, atol=1e-9)
    total = found["attribution"].sum("feature")
    assert_allclose(total, found["difference"], atol=1e-12)
    spread = found["attribution"].std(("chain", "draw"))
    assert_allclose(found["attribution"].mean(("chain", "draw")), expected, atol=0.5 * spread.max())


def test_labels_on_the_latent_scale():
    model = bx.GP(X, Y > 0.0, likelihood="bernoulli", scale=False)
    theta = {"lengthscale": THETA["lengthscale"], "amplitude": 1.0}
    found = bx.shapley_values(model, theta, X_NEW, on="latent", **QUIET)
    assert found["completeness_residual"].max() < 1e-10


def test_all_coalitions_of_many_features_of_a_kernel_that_is_no_product():
    wide, row = RNG.normal(size=(20, 8)), RNG.normal(size=(1, 8))
    model = bx.GP(wide, Y, kernel="matern52", scale=False)
    theta = {"lengthscale": np.linspace(1.0, 3.0, 8), "amplitude": 1.1, "sigma": 0.2}
    found = bx.shapley_values(model, theta, row, covariance=True, **QUIET)
    among = all_coalitions(tuple((k,) for k in range(8)))
    points = np.where(among.masks, row, 0.0)

    def prior(A, B):
        apart = np.sqrt((((A[:, None] - B) / theta["lengthscale"]) ** 2).sum(-1) * 5.0)
        return theta["amplitude"] ** 2 * (1.0 + apart + apart**2 / 3.0) * np.exp(-apart)

    C, cross = prior(wide, wide) + 0.04 * np.eye(20), among.shares @ prior(points, wide)
    cov = among.shares @ prior(points, points) @ among.shares.T
    cov -= cross @ np.linalg.solve(C, cross.T)
    assert_allclose(found["attribution_mean"][0], cross @ np.linalg.solve(C, Y), atol=1e-9)
    assert_allclose(found["attribution_cov"][0], cov, atol=1e-9)


@pytest.mark.parametrize("family", [bx.GP, bx.GPX])
def test_random_orders_average_what_changes_at_each_turn(family):
    own = {"scale": False} if family is bx.GP else {"scale": False, "intercept": True}
    model = family(X, Y, **own)
    theta = THETA if family is bx.GP else THETA | {"sigma_w": 0.0}
    options = QUIET | {"method": "permutations", "permutations": 6, "seed": 4}
    found = bx.shapley_values(model, theta, X_NEW, covariance=True, **options)
    orders = coalitions(ALONE, _orders(6, 4))
    assert_allclose(orders.shares.sum(axis=1), 0.0, atol=1e-15)
    assert found["completeness_residual"].max() < 1e-10
    for k, x in enumerate(X_NEW):
        points = np.where(orders.masks, x, 0.0)
        mean, cov = dense(expquads if family is bx.GP else tied, Y, points, orders.shares)
        assert_allclose(found["attribution_mean"][k], mean, atol=1e-9)
        assert_allclose(found["attribution_cov"][k], cov, atol=1e-9)


@pytest.mark.parametrize("likelihood", ["normal", "bernoulli"])
def test_the_monte_carlo_error_is_that_of_means_at_coalitions(likelihood):
    y, name = (Y, "f_mean") if likelihood == "normal" else (Y > 0.0, "probability_mean")
    model = bx.GP(X, y, likelihood=likelihood, scale=False)
    theta = {name: THETA[name] for name in model.hyperparameters}
    options = QUIET | {"method": "permutations", "permutations": 6, "seed": 4, "draws": 50}
    found = bx.shapley_values(model, theta, X_NEW, **options)
    orders = coalitions(ALONE, _orders(6, 4))
    points = np.where(orders.masks, X_NEW[:, None], 0.0).reshape((-1, 4))
    values = bx.predictions(model, theta, points, keep="summary", **SILENT)[name].values
    expected = orders.errors(values.reshape((3, -1)))
    assert_allclose(found["attribution_mc_error"], expected, atol=1e-9)


def test_a_store_holds_the_monte_carlo_error_too(tmp_path):
    model = bx.GP(X, Y, scale=False)
    options = {"method": "permutations", "permutations": 4, "seed": 1, "draws": 5}
    found = bx.shapley_values(model, THETA, X_NEW, **options, **SILENT)
    for _ in range(2):  # the second replaces the first
        bx.shapley_values(model, THETA, X_NEW, path=tmp_path / "s.zarr", **options, **SILENT)
    stored = xr.open_zarr(tmp_path / "s.zarr", chunks=None)
    for name in ("attribution", "attribution_mc_error"):
        assert_allclose(stored[name], found[name])


def test_odd_numbers_of_orders_are_refused_whatever_the_method():
    with pytest.raises(ValueError, match="an even number"):
        bx.shapley_values(bx.GP(X, Y, scale=False), THETA, X_NEW, permutations=5, **QUIET)


def test_random_orders_of_many_features():
    wide, row = RNG.normal(size=(20, 12)), RNG.normal(size=(1, 12))
    options = QUIET | {"method": "permutations", "permutations": 40, "seed": 0}
    for own in ({"kernel": "matern32"}, {"approximation": bx.RandomFeatures(30)}):
        model = bx.GP(wide, Y, **own)
        theta = dict.fromkeys(model.hyperparameters, 1.0) | {"lengthscale": np.full(12, 3.0)}
        with pytest.raises(ValueError, match="method='permutations'"):
            bx.shapley_values(model, theta, row, **QUIET)
        found = bx.shapley_values(model, theta, row, **options)
        assert found["completeness_residual"].max() < 1e-10
        assert (found["attribution_mc_error"] < found["attribution_sd"]).all()


@pytest.mark.parametrize("of", ["value", "log_variance"])
def test_coalitions_of_very_many_features_are_refused_before_they_are_listed(of):
    wide = RNG.normal(size=(20, 60))
    likelihood = "bernoulli" if of == "value" else "normal"
    model = bx.GP(wide, Y > 0.0 if of == "value" else Y, likelihood=likelihood)
    theta = dict.fromkeys(model.hyperparameters, 1.0)
    with pytest.raises(ValueError, match="60 features.*method='permutations'"):
        bx.shapley_values(model, theta, of=of, **QUIET)


def test_a_categorical_column_has_one_turn():
    kind = pd.Categorical(RNG.choice(["a", "b", "c"], 20))
    table = pd.DataFrame({"kind": kind, "size": X[:, 0]})
    model = bx.GP(table, Y, scale=False)
    theta = {"lengthscale": [1.0, 1.3], "amplitude": 1.0, "sigma": 0.2}
    start = pd.DataFrame({"kind": pd.Categorical(["a"], categories=list("abc")), "size": [0.0]})
    options = {"baseline": start, "progressbar": False}
    exact = bx.shapley_values(model, theta, table[:5], **options)
    found = bx.shapley_values(
        model, theta, table[:5], method="permutations", permutations=4, **options
    )
    # Two players have two orders, which are each other's reverse.
    assert_allclose(found["attribution_mean"], exact["attribution_mean"], atol=1e-12)
    assert_allclose(found["attribution_mc_error"], 0.0, atol=1e-12)


def test_of_an_orthogonal_kernel_they_follow_from_components():
    """The game that fills features from a grid is the one under the measure of its columns."""
    levels = np.array([[-1.0, 0.3, 0.5], [0.4, 1.1, -0.7]])
    grid = np.stack(np.meshgrid(*levels.T), axis=-1).reshape((-1, 3))

    def kernel(d):
        effects = bx.Additive(d, [0.9, 1.1, 1.4], 3, [1.0, 0.6, 0.3], measure=levels)
        return 1.3 * effects + pm.gp.cov.Constant(2.0)

    model = bx.GP(X[:, :3], Y, kernel=kernel, scale=False)
    options = {"covariance": True, "progressbar": False}
    asked = model, {"sigma": 0.2}, X_NEW[:, :3]
    found = bx.shapley_values(*asked, method="fanova", **options)
    exact = bx.shapley_values(*asked, baseline=grid, **options)
    names = ["attribution_mean", "attribution_cov", "difference_mean", "difference_sd"]
    for name in names:
        assert_allclose(found[name], exact[name], atol=1e-10)
    assert found["completeness_residual"].max() < 1e-12
    assert found["completeness_residual_variance"].max() < 1e-12
    with pytest.raises(ValueError, match="Leave baseline out"):
        bx.shapley_values(*asked, method="fanova", baseline="zero")
    with pytest.raises(ValueError, match="not orthogonal"):
        bx.shapley_values(bx.GP(X, Y), THETA, method="fanova")


def test_too_many_baselines_are_refused():
    model = bx.GP(X, Y, scale=False)
    with pytest.raises(ValueError, match="9600 points to go through"):
        bx.shapley_values(model, THETA, X_NEW, baseline=np.zeros((600, 4)))
    with pytest.raises(ValueError, match="Pass an even number"):
        bx.shapley_values(model, THETA, X_NEW, method="permutations", permutations=5)


def test_many_features_of_an_additive_kernel():
    """With interactions of two features alone, coming first and coming last say all."""
    wide = np.random.default_rng(3).normal(size=(9, 8))

    def kernel(d):
        return 2.0 * bx.Additive(d, 1.5, 2, active_dims=[0, 1, 6])

    own = bx.GP(wide, wide[:, 0] * wide[:, 1], kernel=kernel)
    options = {"keep": "summary", "progressbar": False}
    found = bx.shapley_values(own, {"sigma": 0.2}, wide[:1], baseline=wide[1], **options)
    first = np.where(np.eye(8, dtype=bool), wide[0], wide[1])
    last = np.where(np.eye(8, dtype=bool), wide[1], wide[0])
    points = np.concatenate([wide[:2], first, last])
    f = bx.predictions(own, {"sigma": 0.2}, points, **options)["f_mean"].values
    expected = 0.5 * (f[2:10] - f[1] + f[0] - f[10:])
    assert_allclose(found["attribution_mean"].values[0], expected, atol=1e-10)
