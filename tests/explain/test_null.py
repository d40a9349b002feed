"""Reference distributions of relevance: exact ranks, refits by another way, and what noise gets."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

import bayes_gpx as bx
from bayes_gpx.explain import null as room
from bayes_gpx.inference.log_density import Density
from bayes_gpx.inference.optimise import ascend

RNG = np.random.default_rng(2)
N, QUIET = 30, {"progressbar": False}
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["real", "part", "noise"])
X["kind"] = pd.Categorical(np.resize(["a", "b", "c"], N))
Y = pd.Series(1.5 * X["real"] + np.sin(2 * X["part"]) + 0.3 * RNG.normal(size=N), name="y")
COUNTS = RNG.poisson(np.exp(0.8 * X["real"]))


@pytest.fixture(scope="module")
def fitted():
    model = bx.GP(X, Y, scale=False)
    return model, model.fit("map", seed=1, **QUIET)


@pytest.fixture(scope="module")
def found(fitted):
    options = {"features": ["real", "noise", "kind"], "keep": "summary"}
    return bx.relevance(*fitted, null=9, seed=3, **options, **QUIET)


def refitted(frame, y, **options):
    """Relevance at the highest mode of a model that is built anew, in the scaling of its rows."""
    model = bx.GP(frame, y, **options)
    density = Density(model.objective, jacobian=True)
    modes = [ascend(density, start) for start in model.starts()]
    end = density.expand()(max(modes, key=lambda mode: mode.log_density).x)
    theta = {name: end[name] for name in model.hyperparameters}
    return bx.relevance(model, theta, keep="summary", **QUIET)["average_relevance"].squeeze()


def permuted(name, order):
    """The frame with residuals of a column in another order; of categories, the values."""
    if name == "kind":
        return X.assign(kind=pd.Categorical(X["kind"].to_numpy()[order], list("abc")))
    others = pd.get_dummies(X.drop(columns=name)).to_numpy(float)
    Q, _ = np.linalg.qr(np.column_stack([np.ones(N), others[:, :-1]]))  # dummies sum to 1
    fitted = Q @ (Q.T @ X[name])
    return X.assign(**{name: fitted + (X[name] - fitted).to_numpy()[order]})


def test_replicates_are_models_of_permuted_rows(found):
    """By models that are built from permuted frames."""
    rng = np.random.default_rng(3)
    for name in ("real", "noise", "kind"):
        for b in range(9):
            order = rng.permutation(N)
            if b in (0, 8):
                own = refitted(permuted(name, order), Y, scale=False).sel(feature=name)
                assert_allclose(found["relevance_null"].sel(feature=name)[b], own, rtol=2e-3)
    whole = refitted(X, Y, scale=False).sel(feature=found["feature"])
    assert_allclose(found["relevance_refitted"], whole, rtol=2e-3)


def test_p_values_are_ranks(found):
    drawn, seen = found["relevance_null"].values, found["relevance_refitted"].values
    assert_allclose(found["relevance_p"], (1 + (drawn >= seen).sum(axis=0)) / 10)
    assert found["relevance_p"].sel(feature="real") == 0.1
    assert found["relevance_p"].sel(feature="noise") > 0.1


@pytest.mark.parametrize("kind", ["gpx", "own_z", "poisson", "inducing", "fixed"])
def test_every_kind_of_model_has_a_reference(kind):
    model = {
        "gpx": lambda: bx.GPX(X[["real", "noise"]], Y, intercept=True),
        "own_z": lambda: bx.GPX(X[["real", "noise"]], Y, X[["part"]]),
        "poisson": lambda: bx.GP(X[["real", "noise"]], COUNTS, likelihood="poisson"),
        "inducing": lambda: bx.GP(X[["real", "noise"]], Y, approximation=bx.Inducing(8)),
        "fixed": lambda: bx.GP(X[["real", "noise"]], Y, kernel="linear", approximation=bx.HSGP(4)),
    }[kind]()
    theta = {name: 0.7 for name in model.hyperparameters}
    theta |= {"lengthscale": [1.0, 2.0]} if "lengthscale" in theta else {}
    found = bx.relevance(model, theta, null=4, seed=1, **QUIET)
    assert np.isfinite(found["relevance_null"]).all()
    if kind in ("gpx", "inducing"):
        assert found["relevance_p"].sel(feature="real") == 0.2
    if kind == "poisson":
        own = refitted(X[["real", "noise"]], COUNTS, likelihood="poisson")
        assert_allclose(found["relevance_refitted"], own, rtol=2e-3)


def test_importances_have_references_too(fitted):
    measures = ["inverse_lengthscale", "mean_absolute_derivative"]
    options = {"measures": measures, "draws": 20, "null": 4, "seed": 1}
    found = bx.importances(*fitted, **options, **QUIET)
    for name in measures:
        drawn, seen = found[f"{name}_null"], found[f"{name}_refitted"]
        assert_allclose(found[f"{name}_p"], (1 + (drawn >= seen).sum("null")) / 5)
    assert found["mean_absolute_derivative_p"].sel(feature="real") == 0.2
    plot = bx.plot_importances(found, backend="none")
    assert "null" in plot.viz.children


def test_references_of_rows_with_groups_are_those_of_the_same_rows():
    sites = np.resize(list("uvw"), N)
    model = bx.GP(X[["real", "noise"]], Y, groups=sites)
    theta = model.fit("map", seed=1, **QUIET)
    options = {"measures": ["mean_absolute_derivative"], "draws": 5, "null": 1, "seed": 1}
    own = bx.importances(model, theta, **options, **QUIET)
    given = bx.importances(model, theta, X[["real", "noise"]], groups_new=sites, **options, **QUIET)
    for name in ("mean_absolute_derivative", "mean_absolute_derivative_refitted"):
        assert_allclose(given[name], own[name], rtol=1e-9)
    assert np.isfinite(given["mean_absolute_derivative_null"]).all()


def test_screened_pairs_have_the_references_of_these_pairs():
    """The screen is of the fit at hand: a replicate may find other features more relevant."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    y = rows["a"] * rows["b"] + 0.5 * rows["c"] + 0.5 * rng.normal(size=30)
    model = bx.GP(rows, y)
    theta = {"lengthscale": [1.5, 1.5, 4.0, 9.0], "amplitude": 1.0, "sigma": 0.4}
    options = {"null": 3, "seed": 1, "keep": "summary"}
    screened = bx.interactions(model, theta, pairs="screened", **options, **QUIET)
    i, j = screened["feature"].values
    own = bx.interactions(model, theta, pairs=[(i, j)], **options, **QUIET)
    at = {"feature": i, "feature_bis": j}
    assert_allclose(screened["interaction_null"].sel(at), own["interaction_null"].sel(at))
    assert screened["interaction_p"].sel(at) == own["interaction_p"].sel(at)


def test_without_an_interaction_main_effects_stay():
    """Of f = a + b^2 + 2 a b at the rows of a grid, 2 (a - E a) (b - E b) is the interaction."""
    a, b = np.meshgrid([-1.0, 0.0, 1.0, 2.0], [-2.0, 0.5, 1.5])
    rows = pd.DataFrame({"a": a.ravel(), "b": b.ravel()})
    f = rows["a"] + rows["b"] ** 2 + 2 * rows["a"] * rows["b"]
    model = bx.GP(rows, f, scale=False)
    theta = {"lengthscale": [2.0, 2.0], "amplitude": 30.0, "sigma": 1e-3}
    rest = room._without(model, theta, ("a", "b"), np.random.default_rng(0))
    mean_a, mean_b = rows["a"].mean(), rows["b"].mean()
    interaction = 2 * (rows["a"] - mean_a) * (rows["b"] - mean_b)
    assert_allclose(rest, f - interaction, atol=0.02)


def test_additive_pairs_do_not_interact_and_products_do():
    rng = np.random.default_rng(8)
    rows = pd.DataFrame(rng.uniform(-1.5, 1.5, size=(40, 3)), columns=["a", "b", "c"])
    y = 2 * rows["a"] * rows["b"] + np.sin(2 * rows["c"]) + 0.3 * rng.normal(size=40)
    model = bx.GP(rows, y)
    idata = model.fit("map", seed=0, **QUIET)
    options = {"pairs": [("a", "b"), ("b", "c")], "null": 4, "seed": 1, "keep": "summary"}
    found = bx.interactions(model, idata, **options, **QUIET)
    p = found["interaction_p"]
    assert p.sel(feature="a", feature_bis="b") == p.sel(feature="b", feature_bis="a") == 0.2
    assert p.sel(feature="b", feature_bis="c") > 0.2
    ranked = bx.ranking(found)
    at = {"feature": ranked["first"], "feature_bis": ranked["second"]}
    assert_allclose(ranked["interaction_p"], p.sel(at))
    assert_allclose(ranked["interaction_null"], found["interaction_null"].sel(at))


@pytest.mark.parametrize("likelihood", ["poisson", "lognormal", "normal"])
def test_replicates_of_y_lie_around_f(likelihood):
    """Whatever their size: the constant of f is in f, or in the exposure."""
    x, exposure = np.linspace(-1.0, 1.0, 40)[:, None], np.linspace(1.0, 3.0, 40)
    f, options = 9.0 + 0.3 * x[:, 0], {}
    means = f if likelihood == "normal" else np.exp(f)
    if likelihood == "poisson":
        means, options = means * exposure, {"exposure": exposure}
    model = bx.GP(x, np.round(means, 0 if options else 2), likelihood=likelihood, **options)
    drawn = room._response(model, {"sigma": 1e-3}, f, np.random.default_rng(1))
    assert_allclose(drawn, means, rtol=0.1)


def test_plots_show_the_reference_in_place_of_a_line_at_0(found):
    ranked = bx.ranking(found)
    plot = bx.plot_relevance(ranked, backend="matplotlib")
    assert "reference" not in plot.viz.children
    (bars,) = [plot.viz["null"]["relevance"].item()]
    ends = np.reshape(bars.get_xdata(), (-1, 3))[:, :2]
    order = np.argsort(ranked["rank_mean"].values, kind="stable")
    drawn = ranked["relevance_null"].values[:, order]
    assert_allclose(ends[:, 0], drawn.min(axis=0))
    assert_allclose(ends[:, 1], np.quantile(drawn, 0.95, axis=0))


def test_what_no_other_rows_can_replace_is_refused(fitted):
    model, idata = fitted
    with pytest.raises(ValueError, match="null is 0. Pass a whole number"):
        bx.relevance(model, idata, null=0, **QUIET)
    labels = bx.GP(X[["real", "noise"]], list("abc") * 10, likelihood="categorical")
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0}
    with pytest.raises(ValueError, match="several classes"):
        bx.interactions(labels, theta, null=True, **QUIET)


@pytest.mark.slow
def test_noise_is_called_relevant_as_often_as_it_should_be():
    """One column of noise in each of 120 data sets, since columns of one set are not independent.

    At most as many as chance allows have p <= 0.05; an error of the test in 1 of 1000 is allowed.
    """
    called = []
    for seed in range(120):
        rng = np.random.default_rng([40, seed])
        rows = rng.normal(size=(40, 4))
        y = np.sin(rows[:, 0]) + 0.5 * rng.normal(size=40)
        model = bx.GP(rows, y)
        idata = model.fit("map", seed=seed, **QUIET)
        options = {"features": ["x1"], "keep": "summary", "seed": seed}
        found = bx.relevance(model, idata, null=True, **options, **QUIET)
        called.append(found["relevance_p"].item() <= 0.05)
    assert sum(called) <= binom(len(called), 0.05).ppf(0.999)
