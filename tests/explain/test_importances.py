"""Other measures and partial dependence: on the functions that they are of, and on known ones."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import softmax

import bayes_gpx as bx
from bayes_gpx.explain.importances import sobol

QUIET = {"progressbar": False}


@pytest.fixture(scope="module")
def fitted():
    """A model in user units far from 0, and two draws that no sampler had to make."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal([50.0, -2.0], [9.0, 0.3], (25, 2)), columns=["age", "dose"])
    y = pd.Series(100 + np.sin(X["age"] / 9) + X["dose"] * X["age"], name="pressure")
    spread = np.array([[0.8, 1.25]])
    lengths = spread[..., None] * [1.0, 2.0]
    posterior = xr.Dataset(
        {
            "lengthscale": (("chain", "draw", "feature"), lengths),
            "amplitude": (("chain", "draw"), spread),
            "sigma": (("chain", "draw"), 0.2 * spread),
        },
        {"chain": [0], "draw": [0, 1], "feature": list(X)},
    )
    return bx.GP(X, y), xr.DataTree.from_dict({"posterior": posterior}), X


def test_measures_are_those_of_the_functions(fitted):
    model, idata, X = fitted
    found = bx.importances(model, idata, obs=[3, 7, 8], seed=1, **QUIET)
    functions = bx.sample_functions(model, idata, seed=1, **QUIET)
    slopes = functions.derivatives(obs=[3, 7, 8])["derivative"] * X.std(ddof=0).values
    assert_allclose(found["mean_absolute_derivative"], abs(slopes).mean("obs"), rtol=1e-9)
    assert_allclose(found["mean_squared_derivative"], (slopes**2).mean("obs"), rtol=1e-9)
    lengths = idata["posterior/lengthscale"].values
    assert_allclose(found["inverse_lengthscale"], 1 / lengths, rtol=1e-12)
    for name in found:
        assert found[name].dims == ("chain", "draw", "feature")
    alone = {"lengthscale": [1.0, 2.0], "amplitude": 1.0, "sigma": 0.2}
    found = bx.importances(model, alone, draws=7, **QUIET)
    assert dict(found.sizes) == {"chain": 1, "draw": 7, "feature": 2}
    some = bx.importances(model, alone, measures=["inverse_lengthscale"], **QUIET)
    assert list(some.data_vars) == ["inverse_lengthscale"]


def test_sobol_indices_of_a_known_function():
    """f = x_0 x_1 + x_2 with independent columns of the rows' own means and variances."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-np.sqrt(3), np.sqrt(3), (220, 3))
    model = bx.GP(X, X[:, 0] * X[:, 1] + X[:, 2])
    theta = {"lengthscale": [3.0, 3.0, 6.0], "amplitude": 3.0, "sigma": 1e-2}
    measures = ["sobol_first", "sobol_total"]
    found = bx.importances(model, theta, measures=measures, draws=4, seed=0, **QUIET)
    mean = found.mean(("chain", "draw"))
    m, v = X.mean(axis=0), X.var(axis=0)
    first, pair = np.array([m[1] ** 2 * v[0], m[0] ** 2 * v[1], v[2]]), v[0] * v[1]
    whole = first.sum() + pair
    assert_allclose(mean["sobol_first"], first / whole, atol=0.02)
    assert_allclose(mean["sobol_total"], (first + pair * np.array([1, 1, 0])) / whole, atol=0.02)


def ishigami(x):
    """On [-pi, pi]^3, after Ishigami and Homma (1990), with 7 and 0.1."""
    return np.sin(x[..., 0]) + 7 * np.sin(x[..., 1]) ** 2 + 0.1 * x[..., 2] ** 4 * np.sin(x[..., 0])


def g_function(x):
    """On [0, 1]^4, after Saltelli and Sobol' (1995)."""
    return ((np.abs(4 * x - 2) + OF_G) / (1 + OF_G)).prod(-1)


def linear(x):
    return x @ [1.0, -2.0, 0.0, 0.5, 3.0]


def known_indices(first, pairs=()):
    """First-order and total indices from partial variances: of features, and of pairs (i, j, v)."""
    first = np.array(first)
    total, whole = first.copy(), first.sum() + sum(v for *_, v in pairs)
    for i, j, v in pairs:
        total[[i, j]] += v
    return first / whole, total / whole


OF_G = np.array([0.0, 1.0, 4.5, 9.0])
ALONE = 1 / (3 * (1 + OF_G) ** 2)
OF_ISHIGAMI = known_indices(
    [0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2, 49 / 8, 0.0],
    [(0, 2, 0.1**2 * np.pi**8 * (1 / 18 - 1 / 50))],
)
FUNCTIONS = {
    "ishigami": (ishigami, np.pi * np.array([-1.0, 1.0]), OF_ISHIGAMI),
    "g": (
        g_function,
        np.array([0.0, 1.0]),
        (
            ALONE / (np.prod(1 + ALONE) - 1),
            ALONE * np.prod(1 + ALONE) / (1 + ALONE) / (np.prod(1 + ALONE) - 1),
        ),
    ),
    "linear": (linear, np.array([2.0, 5.0]), known_indices([1.0, 4.0, 0.0, 0.25, 9.0])),
}


def evenly(rng, n, d, low, high):
    """Rows whose every column is an even grid, in an order of its own."""
    grid = low + (high - low) * (np.arange(n) + 0.5) / n
    return np.column_stack([rng.permutation(grid) for _ in range(d)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sobol_indices_come_with_their_monte_carlo_error(rng, name):
    """Indices that are known in closed form; errors by as much as said, over 20 seeds."""
    function, ends, known = FUNCTIONS[name]
    X = evenly(rng, 1000, len(known[0]), *ends)
    found = [sobol(lambda x: function(x)[None, None], X, seed) for seed in range(20)]
    for k, truth in enumerate(known):
        shares, errors = (np.array([one[k][part][0, 0] for one in found]) for part in (0, 1))
        assert (np.abs(shares - truth) < 0.02).all()
        missed, said = (np.sqrt((part**2).mean(axis=0)) for part in (shares - truth, errors))
        varies = missed > 1e-12
        assert (said[~varies] < 1e-12).all()
        assert (said < 0.01).all()
        # Roots of mean squares of 20 and of 60 numbers: their ratio is almost surely within these.
        ratio = missed[varies] / said[varies]
        assert (ratio > 0.45).all() and (ratio < 2.0).all()
    again = sobol(lambda x: function(x)[None, None], X, 3)
    assert_allclose(again, found[3], rtol=0)


def test_importances_of_ishigamis_function(rng):
    X = evenly(rng, 400, 3, -np.pi, np.pi)
    theta = {"lengthscale": [1.8, 1.2, 3.0], "amplitude": 10.0, "sigma": 1e-2}
    model, options = bx.GP(X, ishigami(X), scale=False), {"draws": 2, **QUIET}
    measures = ["sobol_total", "sobol_first"]
    found, other = (
        bx.importances(model, theta, measures=measures, seed=seed, **options) for seed in (0, 1)
    )
    for name, truth in zip(("sobol_first", "sobol_total"), OF_ISHIGAMI, strict=True):
        # 400 rows tell the function but for 0.3% of its variance
        assert_allclose(found[name].mean(("chain", "draw")), truth, atol=0.02)
        assert found[f"{name}_mc_error"].dims == found[name].dims
        assert (found[f"{name}_mc_error"] < 0.01).all()
        assert (np.abs(found[name] - other[name]) > 0).all()
    assert list(found) == [f"{name}{end}" for name in measures for end in ("", "_mc_error")]


def test_each_measure_says_its_own_units(fitted):
    model, idata, _ = fitted
    found = bx.importances(model, idata, seed=1, **QUIET)
    of = {name: found[name].attrs["units"] for name in found}
    assert of["inverse_lengthscale"] == "lengthscales per standard deviation of the feature"
    assert of["mean_absolute_derivative"] == "pressure per standard deviation of the feature"
    assert of["mean_squared_derivative"].startswith("square of pressure per standard deviation")
    for name in ("sobol_first", "sobol_total", "sobol_first_mc_error", "sobol_total_mc_error"):
        assert of[name] == "share of the variance"
    assert "units" not in found.attrs
    points = bx.plot_importances(found, backend="none").viz["point_estimate"]
    assert list(points["measure"].values) == [n for n in found if not n.endswith("_mc_error")]


def test_a_linear_function_has_its_coefficients(rng):
    """And one that does not vary has no importance at all."""
    X = np.column_stack([rng.normal(size=(300, 3)) * [1.0, 2.0, 0.5], np.full(300, 4.0)])
    b = np.array([1.0, -0.5, 0.0, 1.0])
    model = bx.GP(X, X @ b, kernel="linear", scale=False)
    found = bx.importances(model, {"amplitude": 5.0, "sigma": 1e-3}, draws=5, **QUIET)
    scaled = np.abs(b) * X.std(axis=0)
    assert "inverse_lengthscale" not in found
    mean = found.mean(("chain", "draw"))
    assert_allclose(mean["mean_absolute_derivative"], scaled, atol=1e-3)
    assert_allclose(mean["mean_squared_derivative"], scaled**2, atol=1e-3)
    for name in ("sobol_first", "sobol_total"):
        assert_allclose(mean[name], scaled**2 / (scaled**2).sum(), atol=0.02)
    for name in ("mean_absolute_derivative", "mean_squared_derivative", "sobol_total"):
        assert (found[name][..., 3] == 0.0).all()


def test_partial_dependence_averages_the_functions(fitted):
    model, idata, X = fitted
    options = {"steps": 3, "seed": 2, "obs": [1, 4, 5, 9]}
    found = bx.partial_dependence(
        model, idata, features=["dose"], keep="draws", ci_prob=0.5, **options, **QUIET
    )
    functions = bx.sample_functions(model, idata, seed=2, **QUIET)
    rows = X.loc[options["obs"]]
    places = np.linspace(rows["dose"].min(), rows["dose"].max(), 3)
    assert_allclose(found["value"], [places])
    for k, place in enumerate(places):
        f = functions.predictions(rows.assign(dose=place))["f"]
        at = found.isel(step=k, feature=0)
        assert_allclose(at["ice"], f, rtol=1e-9)
        assert_allclose(at["ice_mean"], f.mean(("chain", "draw")), rtol=1e-9)
        average = f.mean("obs")
        assert_allclose(at["partial_dependence"], average, rtol=1e-9)
        assert_allclose(at["partial_dependence_mean"], average.mean(), rtol=1e-9)
        assert_allclose(at["partial_dependence_sd"], average.std(), rtol=1e-6)
        band = np.quantile(average, [0.25, 0.75])
        assert_allclose(at["partial_dependence_band"], band, rtol=1e-9)
    summary = bx.partial_dependence(model, idata, **options, **QUIET)
    assert "ice" not in summary and list(summary["feature"].values) == list(X)
    for k, place in enumerate(places):
        asked = {"on": "latent", "keep": "summary", **QUIET}
        expected = bx.predictions(model, idata, rows.assign(dose=place), **asked)["f_mean"]
        assert_allclose(summary["ice_mean"].sel(feature="dose", step=k), expected, rtol=1e-9)
        average = summary["partial_dependence_mean"].sel(feature="dose", step=k)
        assert_allclose(average, expected.mean(), rtol=1e-9)


def test_z_is_held_where_it_was_given(regression):
    X, Z, y, *_ = regression
    model = bx.GPX(X, y, Z)
    theta = {"lengthscale": [1.0, 2.0], "amplitude": 1.0, "sigma_w": 0.1, "sigma": 0.3}
    options = {"draws": 3, "seed": 0}
    along = {"steps": 2, "features": ["age"], "keep": "draws"}
    found = bx.partial_dependence(model, theta, **along, **options, **QUIET)
    functions = bx.sample_functions(model, theta, **options, **QUIET)
    f = functions.predictions(X.assign(age=X["age"].min()), Z)["f"]
    first = found["partial_dependence"][..., 0, 0]
    assert_allclose(first, f.mean("obs"), rtol=1e-9)
    assert "sobol_first" not in bx.importances(model, theta, **options, **QUIET)
    with pytest.raises(
        ValueError, match="sobol_total, which needs a model .* with z that varies with x"
    ):
        bx.importances(model, theta, measures=["sobol_total"], **QUIET)


@pytest.mark.parametrize(
    "likelihood", [pytest.param("poisson", marks=pytest.mark.slow), "categorical"]
)
def test_of_the_response_are_the_functions_taken_to_it(likelihood):
    """Slopes by differences of functions' values; variance shares of a function of one feature."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["age", "dose"])
    y = rng.integers(0, 3, 30)
    model = bx.GP(X, y, likelihood=likelihood)
    theta = {"lengthscale": [1.5, 1e3], "amplitude": 0.8}
    options = {"draws": 4, "seed": 3, **QUIET}
    found = bx.importances(model, theta, **options)
    latent = bx.importances(model, theta, on="latent", **options)
    functions = bx.sample_functions(model, theta, **options)

    def response(X):
        f = functions.predictions(X)["f"]
        return np.exp(f) if likelihood == "poisson" else f.copy(data=softmax(f, axis=-1))

    step, sd = 1e-4, X["age"].std(ddof=0)
    slope = (response(X.assign(age=X["age"] + step)) - response(X.assign(age=X["age"] - step))) / (
        2 * step / sd
    )
    of_age = found.sel(feature="age")
    assert_allclose(of_age["mean_absolute_derivative"], abs(slope).mean("obs"), rtol=1e-6)
    assert_allclose(of_age["mean_squared_derivative"], (slope**2).mean("obs"), rtol=1e-6)
    assert_allclose(of_age["sobol_total"], 1.0, atol=0.05)
    assert_allclose(found["sobol_total"].sel(feature="dose"), 0.0, atol=1e-3)
    f = functions.derivatives(on="latent")["derivative"].sel(feature="age") * sd
    expected = abs(f).mean("obs")
    assert_allclose(latent["mean_absolute_derivative"].sel(feature="age"), expected, rtol=1e-9)
    assert found["inverse_lengthscale"].dims == ("chain", "draw", "feature")
    along = {"steps": 3, "keep": "draws", "features": ["age"]}
    curves = bx.partial_dependence(model, theta, **along, **options)
    for k, place in enumerate(np.linspace(X["age"].min(), X["age"].max(), 3)):
        at, expected = curves.isel(step=k, feature=0), response(X.assign(age=place))
        assert_allclose(at["ice"], expected, rtol=1e-9)
        assert_allclose(at["partial_dependence"], expected.mean("obs"), rtol=1e-9)
        bounds = np.quantile(expected.mean("obs"), [0.05, 0.95], axis=(0, 1))
        assert_allclose(at["partial_dependence_band"], bounds.T, rtol=1e-9)
    if likelihood == "categorical":
        assert_allclose(curves["partial_dependence_mean"].sum("class"), 1.0, rtol=1e-12)
        assert curves["ice_mean"].dims == ("obs", "feature", "step", "class")
        with pytest.raises(ValueError, match="the dim 'class' with"):
            bx.plot_importances(found)
        bx.plot_partial_dependence(curves, backend="none")
        for plot, of in ((bx.plot_partial_dependence, curves), (bx.plot_importances, found)):
            plot(of.sel({"class": 1}), backend="matplotlib")
            plt.close("all")


@pytest.mark.parametrize(
    ("verb", "options", "message"),
    [
        ("importances", {"measures": ["what"]}, "measures: unknown 'what'. Pass one of"),
        ("importances", {"measures": "sobol_first"}, "Pass a list of different names"),
        ("importances", {"on": "y"}, "on: unknown 'y'. Pass one of"),
        ("partial_dependence", {"on": "y"}, "on: unknown 'y'. Pass one of"),
        ("partial_dependence", {"features": ["what"]}, "features: unknown 'what'"),
        ("partial_dependence", {"steps": 1}, "steps is 1. Pass a whole number of at least 2"),
        ("partial_dependence", {"keep": "all"}, "keep: unknown 'all'"),
    ],
)
def test_refusals(fitted, verb, options, message):
    model, idata, _ = fitted
    with pytest.raises(ValueError, match=message):
        getattr(bx, verb)(model, idata, **options, **QUIET)


def test_plots(fitted):
    model, idata, X = fitted
    near = bx.relevance(model, idata, **QUIET)
    other = bx.importances(model, idata, measures=["sobol_first", "sobol_total"], **QUIET)
    peer = xr.Dataset({"peer": ("feature", [1.0, 4.0])}, {"feature": list(X)})
    plot = bx.plot_importances(near, other, peer, backend="matplotlib")
    dots = plot.viz["point_estimate"]["share"]
    measures = [near["average_relevance"], other["sobol_first"], other["sobol_total"]]
    shares = [one.mean(("chain", "draw")) for one in measures] + [peer["peer"]]
    shares = np.array([(one / one.max()).values for one in shares])
    order = np.argsort(-shares.sum(axis=0))
    panel = plot.viz["plot"].item()
    assert [tick.get_text() for tick in panel.get_yticklabels()] == [list(X)[k] for k in order]
    assert (
        len({dot.get_paths()[0].vertices.tobytes() for dot in dots.values.ravel()}) == 4
    )  # markers
    for place, row in zip(("relevance", "sobol_first", "sobol_total", "peer"), shares, strict=True):
        points = dots.sel(measure=place).item().get_offsets()
        assert_allclose(points[:, 0], row[order])
        assert_allclose(np.round(points[:, 1]), [0, 1])
    bounds = plot.viz["interval"]["share"].sel(measure="relevance").item().get_xdata()
    draws = (
        measures[0].values.reshape(-1, 2)[:, order]
        / measures[0].mean(("chain", "draw")).max().item()
    )
    assert_allclose(bounds.reshape(2, 3)[:, :2], np.quantile(draws, [0.05, 0.95], axis=0).T)
    said = [text.get_text() for text in plot.viz["figure"].item().legends[0].get_texts()]
    assert said == ["relevance", "sobol first", "sobol total", "peer"]
    plt.close("all")
    found = bx.partial_dependence(model, idata, steps=4, **QUIET)
    plot = bx.plot_partial_dependence(
        found, features=["dose", "age"], max_curves=5, backend="matplotlib"
    )
    panel = plot.viz["plot"].sel(feature="age").item()
    line = panel.lines[-1]
    assert_allclose(line.get_xdata(), found["value"].sel(feature="age"))
    assert_allclose(line.get_ydata(), found["partial_dependence_mean"].sel(feature="age"))
    assert np.isnan(panel.lines[0].get_ydata()).sum() == 5
    plt.close("all")
    plot = bx.plot_dependence(near, features=["age"], backend="matplotlib")
    offsets = plot.viz["plot"].sel(feature="age").item().collections[0].get_offsets()
    expected = np.stack([X["age"], near["relevance_mean"].sel(feature="age")], axis=1)
    assert_allclose(offsets, expected)
    plt.close("all")
    with pytest.raises(ValueError, match="no measure with dims"):
        bx.plot_importances(found)
    with pytest.raises(ValueError, match="peer and relevance have different features"):
        bx.plot_importances(near, peer.isel(feature=[0]))
    with pytest.raises(ValueError, match="no bands. Pass the result of bx.partial_dependence"):
        bx.plot_partial_dependence(near)
