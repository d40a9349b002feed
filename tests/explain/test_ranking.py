"""Ranks with probabilities, pairs that were asked for, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import bayes_gpx as bx
import oracle
from bayes_gpx.kernels.from_pymc import from_pymc
from bayes_gpx.numerics.compile_modes import MODE

QUIET = {"progressbar": False}
THETA = {"lengthscale": [1.0, 2.0, 4.0, 8.0], "amplitude": 1.0, "sigma": 0.3}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20, 4)) * [1.0, 5.0, 0.2, 1.0]
    return bx.GP(X, X[:, 0] * X[:, 1] + rng.normal(size=20))


def averages(values, name="average_relevance", dims=("feature",), labels="abc"):
    coords = {dim: list(labels) for dim in dims}
    return xr.Dataset({name: (("chain", "draw", *dims), np.asarray(values, float))}, coords)


def test_ranks_by_hand():
    """Four draws; in the last, b and c are equal and share rank 2."""
    found = bx.ranking(averages([[[3, 2, 1], [3, 1, 2], [1, 3, 2], [3, 0, 0]]]), ci_prob=0.5)
    assert_allclose(
        found["probability_rank"], [[0.75, 0, 0.25], [0.25, 0.5, 0.25], [0, 0.75, 0.25]]
    )
    assert_allclose(found["probability_top"][:, 1], [0.75, 0.75, 0.75])
    above = [[0, 0.75, 0.75], [0.25, 0, 0.5], [0.25, 0.25, 0]]
    assert_allclose(found["probability_above"], above)
    assert found["probability_above"].dims == ("feature", "feature_bis")
    assert_allclose(found["rank_mean"], [1.5, 2.0, 2.25])
    assert_allclose(found["average_relevance_mean"], [2.5, 1.5, 1.25])
    draws = np.array([3, 3, 1, 3])
    assert_allclose(found["average_relevance_sd"][0], draws.std())
    assert_allclose(found["average_relevance_interval"][0], np.quantile(draws, [0.25, 0.75]))


def test_pairs_are_ranked_once_and_without_those_not_asked():
    square = np.full((1, 2, 3, 3), np.nan)
    square[0, :, 0, 1] = square[0, :, 1, 0] = [5.0, 1.0]
    square[0, :, 1, 2] = square[0, :, 2, 1] = [4.0, 2.0]
    dims = ("feature", "feature_bis")
    found = bx.ranking(averages(square, "average_interaction", dims))
    assert list(found["pair"].values) == ["a : b", "b : c"]
    assert list(found["first"].values) == ["a", "b"]
    assert list(found["second"].values) == ["b", "c"]
    assert_allclose(found["probability_rank"], 0.5)
    assert_allclose(found["probability_above"], [[0, 0.5], [0.5, 0]])


def test_only_pairs_that_were_asked_for(model):
    every = bx.interactions(model, THETA, **QUIET)
    some = bx.interactions(model, THETA, pairs=[("x3", "x0"), ("x0", "x1")], **QUIET)
    assert list(some["feature"].values) == ["x0", "x1", "x3"]
    for name in ("interaction", "interaction_scaled", "interaction_mean"):
        asked = every[name].sel(feature=some["feature"], feature_bis=some["feature_bis"])
        found, asked = some[name].values, asked.values.copy()
        asked[..., 1, 2] = asked[..., 2, 1] = np.nan
        assert_allclose(found, asked, rtol=1e-12)
    sd = model.training.X.values.std(axis=0)
    scaled = every["interaction"].values * np.multiply.outer(sd, sd)
    assert_allclose(every["interaction_scaled"], scaled, rtol=1e-12)


@pytest.mark.parametrize("name", ["relevance", "interaction"])
def test_each_variable_says_its_own_units(model, name):
    found = getattr(bx, {"interaction": "interactions"}.get(name, name))(model, THETA, **QUIET)
    per_sd = (
        f"per standard deviation of {'the feature' if name == 'relevance' else 'both features'}"
    )
    assert found.attrs["units"].startswith(per_sd.replace("standard deviation", "unit"))
    for scaled in (f"{name}_scaled", f"{name}_scaled_sd", f"average_{name}"):
        assert found[scaled].attrs["units"] == per_sd
    ranked = bx.ranking(found)
    assert ranked.attrs["units"] == per_sd
    assert ranked["rank_mean"].attrs["units"] == "rank"
    for chance in ("rank", "top", "above"):
        assert ranked[f"probability_{chance}"].attrs["units"] == "probability"


def test_screening_takes_the_more_relevant_half(model):
    near = bx.relevance(model, THETA, **QUIET)["average_relevance"].values[0, 0]
    best = [f"x{i}" for i in np.argsort(-near)[:2]]
    for over in ("draws", "mixture"):
        found = bx.interactions(model, THETA, pairs="screened", over=over, **QUIET)
        assert list(found["feature"].values) == best
    assert found["interaction_scaled"].notnull().sum() == 2 * 20
    assert list(bx.relevance(model, THETA, features=["x2"], **QUIET)["feature"].values) == ["x2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": [("x0", "x0")]}, r"\('x0', 'x0'\) is no pair. Pass two different names"),
        ({"pairs": [("x0", "what")]}, "pairs: unknown 'what'. Pass one of .*x0"),
        ({"pairs": ["x0"]}, "'x0' is no pair"),
        ({"pairs": [("x0", "x1", "x2")]}, "is no pair"),
        ({"pairs": [("x0", "x1"), ("x1", "x0")]}, "list of different pairs"),
        ({"pairs": []}, "list of different pairs"),
        ({"pairs": "best"}, "pairs: unknown 'best'. Pass one of .*screened"),
        ({"factor": 3}, r"factor is 3. Pass 1 \(the supplement\) or 2"),
        ({"over": "chains"}, "over: unknown 'chains'"),
        ({"keep": "all"}, "keep: unknown 'all'"),
    ],
)
def test_interactions_refuse(model, options, message):
    with pytest.raises(ValueError, match=message):
        bx.interactions(model, THETA, **options, **QUIET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["what"]}, "features: unknown 'what'. Pass one of .*x0"),
        ({"features": "x0"}, "Pass a list of different names"),
        ({"method": "exact", "step": 0.1}, "step is for method='finite_difference'"),
        ({"method": "finite_difference", "step": 0}, "step is 0. Pass a positive number"),
        ({"method": "difference"}, "method: unknown 'difference'"),
    ],
)
def test_relevance_refuses(model, options, message):
    with pytest.raises(ValueError, match=message):
        bx.relevance(model, THETA, **options, **QUIET)


def test_what_has_no_ranks_or_pairs_is_refused(model):
    mixed = bx.relevance(model, THETA, over="mixture", **QUIET)
    with pytest.raises(ValueError, match="Pass the result of bx.relevance .*over='draws'"):
        bx.ranking(mixed)
    with pytest.raises(ValueError, match="ci_prob is 2. Pass a probability"):
        bx.ranking(averages(np.ones((1, 1, 3))), ci_prob=2)
    X, y = model.training.X.values[:, :1], model.training.y
    with pytest.raises(ValueError, match="The model has one feature, x0"):
        bx.interactions(bx.GP(X, y), {**THETA, "lengthscale": [1.0]}, **QUIET)


def test_a_process_without_derivatives_is_refused(model):
    X, y = model.training.X.values, model.training.y

    def rough(d):
        return pm.gp.cov.Exponential(d, ls=1.0)

    for verb in (bx.relevance, bx.interactions):
        with pytest.raises(ValueError, match="Exponential has no (gradient|Hessian).*Use Matern"):
            verb(bx.GP(X, y, kernel=rough), {"sigma": 0.3}, **QUIET)


def test_matern32_has_second_derivatives_in_one_point():
    """They do not need a process that is differentiable twice; at equal points they are -metric."""
    lengths = np.array([0.7, 1.3])
    kernel = from_pymc(pm.gp.cov.Matern32(2, ls=lengths))
    x = np.array([[0.2, -0.4], [1.0, 0.5], [0.3, 0.3]])
    xs = np.array([[0.2, -0.4], [1.0, 0.5 + 1e-9], [-0.5, 1.0]])
    left, right = (pt.tensor(shape=(None, 2)) for _ in range(2))
    outputs = [kernel.derivative(left, right, *order) for order in ((2, 0), (0, 2))]
    once, other = pytensor.function([left, right], outputs, mode=MODE)(x, xs)
    assert_allclose(once[0], -3 * np.diag(1 / lengths**2), rtol=1e-14)
    assert_allclose(once[1], once[0], atol=1e-7)

    def pair(a, b, m):
        return oracle.matern32.pair(a, b, lengths, m=m)

    assert_allclose(once[2], oracle.derivative(pair, x[2], xs[2], 2, 0), rtol=1e-12)
    assert_allclose(other, once, rtol=1e-12)
    for order in ((1, 2), (2, 1), (2, 2)):
        with pytest.raises(ValueError, match="Matern32 has no Hessian.*Matern52"):
            kernel.derivative(left, right, *order)
    rough = from_pymc(pm.gp.cov.Exponential(2, ls=lengths))
    with pytest.raises(ValueError, match="Exponential has no Hessian"):
        rough.derivative(left, right, 2, 0)


def test_one_draw_of_hyperparameters_claims_no_spread(model):
    near, pairs = bx.relevance(model, THETA, **QUIET), bx.interactions(model, THETA, **QUIET)
    for found, name in ((near, "relevance"), (pairs, "interaction")):
        assert found[f"{name}_sd"].isnull().all() and found[f"{name}_scaled_sd"].isnull().all()
        ranked = bx.ranking(found)
        spread = [f"average_{name}_sd", f"average_{name}_interval"]
        for variable in [*spread, "probability_rank", "probability_top", "probability_above"]:
            assert ranked[variable].isnull().all()
        assert ranked["rank_mean"].notnull().all()
    plot = bx.plot_relevance(bx.ranking(near), backend="matplotlib")
    assert plot.viz["plot"].sizes["panel"] == 1
    assert "no interval: one draw" in title_of(plot) and "%" not in title_of(plot)
    plot = bx.plot_interactions(bx.ranking(pairs), backend="matplotlib")
    assert plot.viz["plot"].sizes["panel"] == 1
    assert "no probabilities: one draw" in title_of(plot)
    for found in (near, bx.relevance(model, THETA, keep="summary", **QUIET)):
        plot = bx.plot_dependence(found, features=["x0"], backend="matplotlib")
        assert "no interval: one draw" in title_of(plot) and "%" not in title_of(plot)
    measures = ["inverse_lengthscale", "mean_squared_derivative"]
    other = bx.importances(model, THETA, measures=measures, draws=5, seed=1, **QUIET)
    plot = bx.plot_importances(near, other, backend="matplotlib")
    assert "one value, no interval: relevance, inverse lengthscale" in title_of(plot)
    intervals = plot.viz["interval"]["share"]
    for name, drawn in (("relevance", False), ("inverse_lengthscale", False), (measures[1], True)):
        assert (intervals.sel(measure=name).item() is not None) == drawn
    plt.close("all")


def title_of(plot):
    return plot.viz["figure"].item().get_suptitle().replace("\n", " ")


def test_plots_show_ranks_and_pairs(model):
    rng = np.random.default_rng(2)
    near = bx.ranking(averages(rng.gamma([9.0, 1.0, 4.0], size=(2, 50, 3))))
    plot = bx.plot_relevance(near, backend="matplotlib")
    order = near["feature"].values[np.argsort(near["rank_mean"].values)]
    left, right = (plot.viz["plot"].sel(panel=name).item() for name in ("average", "rank"))
    assert [tick.get_text() for tick in left.get_yticklabels()] == list(order)
    assert right.get_yticklabels() == []  # the names of the left panel
    for axes in (left, right):
        assert axes.get_ylim() == (2.5, -0.5)
    points = left.collections[0].get_offsets()[:, 0]
    assert_allclose(points, near["average_relevance_mean"].sel(feature=order))
    bars = left.lines[-1].get_xdata().reshape((3, 3))[:, :2]
    assert_allclose(bars, near["average_relevance_interval"].sel(feature=order))
    written = {(t.get_position(), t.get_text()) for t in right.texts}
    chances = near["probability_rank"].sel(feature=order).values
    assert written == {((j, i), f"{c:.2f}") for (i, j), c in np.ndenumerate(chances) if c >= 0.005}
    white = {t.get_text() for t in right.texts if t.get_color() == "white"}
    assert white == {f"{c:.2f}" for c in chances.ravel() if c > 0.75} and len(white) > 0
    plt.close("all")

    pairs = bx.interactions(model, THETA, pairs=[("x0", "x1"), ("x1", "x2")], **QUIET)
    found = bx.ranking(xr.concat([pairs[["average_interaction"]]] * 2, "draw"))
    plot = bx.plot_interactions(found, top=1, backend="matplotlib")
    left, right = (plot.viz["plot"].sel(panel=name).item() for name in ("mean", "top"))
    rows, columns = (
        [tick.get_text() for tick in ticks]
        for ticks in (left.get_yticklabels(), left.get_xticklabels())
    )
    mean = found["average_interaction_mean"].values
    assert {rows[0], columns[0]} == set(found["pair"].values[mean.argmax()].split(" : "))
    places = int(np.ceil(-np.log10(mean.max()))) + 1  # two digits of the largest
    at = {(rows[int(y)], columns[int(x)]): t for t in left.texts for x, y in [t.get_position()]}
    for pair, value in zip(found["pair"].values, mean, strict=True):
        (text,) = (t.get_text() for cell, t in at.items() if set(cell) == set(pair.split(" : ")))
        assert text == f"{value:.{places}f}"
    assert len(left.texts) == 2
    assert [t.get_text() for t in right.texts] == ["1.00"]
    # Of the other two cells, one is no pair, and one is a pair that was not requested.
    shades = left.images[0].get_array()
    assert_allclose(shades[0, 1], 1.0)
    (missing,) = [i for i in (0, 1) if (rows[1], columns[i]) not in at]
    assert_allclose(shades[1, missing], 0.85)
    assert "gray: not requested" in title_of(plot)
    plt.close("all")
    assert bx.plot_relevance(near, backend="none", max_features=2).viz["plot"].sizes["panel"] == 2
    with pytest.raises(ValueError, match="no average_relevance_mean .*Pass the result of bx.r"):
        bx.plot_relevance(found)
    with pytest.raises(ValueError, match="no average_interaction_mean"):
        bx.plot_interactions(near)
    with pytest.raises(ValueError, match="backend"):
        bx.plot_relevance(near, backend="bokeh")
