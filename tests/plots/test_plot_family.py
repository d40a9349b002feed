"""All plots in two backends and in none, most with 3 and 60 features and with 1 and 10,000 rows."""

import functools

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgba
from matplotlib.text import Text
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.plots.selection import in_panels
from known_draws import known, scattered


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def drawn():
    """Function from a backend to each plot of one small model, by name."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["wind", "rain"])
    model = bx.GPX(X, X["wind"] * X["rain"] + 0.1 * rng.normal(size=20))
    theta = {"lengthscale": np.ones(2), "amplitude": 1.0, "sigma": 0.2, "sigma_w": 0.2}
    idata = known(model, scattered(theta, 10))
    quiet = {"seed": 1, "progressbar": False}
    attributions = bx.attributions(model, idata, **quiet)
    weights = bx.weights(model, idata, smooth=True, joint=True, **quiet)
    slopes = bx.slopes(model, idata, **quiet)
    plain = bx.GP(X, model.training.y)
    few = plain, known(plain, scattered(theta, 10))
    alone = {name: theta[name] for name in plain.hyperparameters}
    additive = bx.GP(X, model.training.y, kernel=lambda d: bx.Additive(d, 1.0))
    relevance = bx.relevance(*few, progressbar=False)
    pairs = bx.ranking(bx.interactions(*few, progressbar=False))
    given = {
        "components": (bx.components(additive, {"sigma": 0.2}, **quiet),),
        "contributions": (bx.contributions(model, idata, **quiet),),
        "predictions": (bx.predictions(model, idata, **quiet), model.training.y),
        "attributions": (attributions,),
        "waterfall": (attributions.isel(obs=[3]),),
        "path": (bx.path_slopes(model, idata, obs=2, **quiet),),
        "slopes": (slopes,),
        "beeswarm": (attributions,),
        "heatmap": (attributions,),
        "dependence": (attributions,),
        "weights": (weights,),
        "derivatives": (slopes,),
        "partial_dependence": (bx.partial_dependence(model, idata, **quiet),),
        "comparisons": (bx.comparisons(model, idata, variables=CHANGES, **quiet),),
        "relevance": (bx.ranking(relevance),),
        "interactions": (pairs,),
        "importances": (relevance, bx.importances(*few, **quiet)),
        "project": (bx.project(plain, alone, folds=2, seed=1, progressbar=False),),
        "image": (attributions, (1, 2)),
        "map": (weights, X[["rain", "wind"]]),
    }
    return given, lambda name, backend: getattr(bx, f"plot_{name}")(*given[name], backend=backend)


CHANGES = {"wind": (0.0, 1.0), "rain": (-1.0, 1.0)}
NAMES = sorted(name.removeprefix("plot_") for name in dir(bx) if name.startswith("plot_"))


@pytest.mark.parametrize("name", NAMES)
def test_every_plot_has_its_panels_in_plotly_too(drawn, name):
    _, draw = drawn
    nothing, plotly, matplotlib = (draw(name, b) for b in ("none", "plotly", "matplotlib"))
    assert set(nothing.viz.children) == set(plotly.viz.children) == set(matplotlib.viz.children)
    figure, page = matplotlib.viz["figure"].item(), plotly.viz["figure"].item()
    assert page.layout.title.text == figure.get_suptitle().replace("\n", "<br>")
    panels = [p for p in np.ravel(matplotlib.viz["plot"].values) if p is not None]
    held = {trace.xaxis for trace in page.data if trace.type == "image" or trace.x[0] is not None}
    assert len(held) == len(panels)


@pytest.mark.parametrize("name", NAMES)
def test_every_plot_is_7_inches_wide_in_letters_of_10_points(drawn, name):
    _, draw = drawn
    with plt.rc_context():
        az.style.use("arviz-variat")  # titles of 16 points
        figure = draw(name, "matplotlib").viz["figure"].item()
        figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    assert width == 7.0
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert max(text.get_size() for text in texts) == 10.0
    # A hundredth of an inch is less than a pixel.
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) > -0.01 and box.x1 < 7.01 and box.y1 < height + 0.01


def test_plotly_shows_the_colours_of_matplotlib(drawn):
    given, draw = drawn
    image, bar = draw("heatmap", "plotly").viz["figure"].item().data
    expected = draw("heatmap", "matplotlib").viz["plot"].item().images[0].get_array()
    assert_allclose(image.z, 255 * np.asarray(expected), atol=0.5)
    limit = np.abs(given["heatmap"][0]["attribution_mean"]).max().item()
    assert (bar.marker.cmin, bar.marker.cmax, bar.marker.showscale) == (-limit, limit, True)


@functools.cache
def attributed(m, p):
    """A Dataset as `attributions` returns it, of m observations of p features."""
    rng = np.random.default_rng(p)
    mean = rng.normal(size=(m, p)) * np.linspace(2.0, 0.1, p)
    sampled = mean + rng.normal(size=(1, 20, m, p))
    wide = ("chain", "draw", "obs", "feature")
    return xr.Dataset(
        {
            "attribution": (wide, sampled),
            "attribution_mean": (wide[2:], mean),
            "attribution_sd": (wide[2:], np.ones((m, p))),
            "difference": (wide[:3], sampled.sum(-1)),
            "difference_mean": (wide[2:3], mean.sum(-1)),
            "value": (wide[2:], rng.normal(size=(m, p))),
        },
        {"obs": np.arange(m), "feature": [f"feature_{j}" for j in range(p)]},
        {"units": "kg", "baseline": "mean"},
    )


def explained(m, p, quantity):
    """The same as `weights` or `slopes` returns it."""
    data = attributed(min(m, 200), p)
    names = {name: name.replace("attribution", quantity) for name in data if "attr" in name}
    data, mean = data.rename(names), data["attribution_mean"]
    if quantity == "derivative":
        band = mean + xr.DataArray([-1.0, 1.0], {"ci_bound": ["lower", "upper"]}, ["ci_bound"])
        bands = ("band_pointwise", "band_simultaneous", "band_simultaneous_features")
        data = data.assign(dict.fromkeys(bands, band))
        data["derivative_probability_positive"] = 0 * mean + 0.7
        each = data["derivative_mean"].mean("obs")
        data = data.assign(average_slope_mean=each, average_slope_sd=0 * each + 1)
        data["probability_positive"] = 0 * each + 0.7
        data.attrs["ci_prob"] = 0.9
    return data


OWN = {"weights": "weight", "derivatives": "derivative", "slopes": "derivative"}
SIZED = {
    "weights": {},
    "derivatives": {},
    "slopes": {},
    "attributions": {},
    "waterfall": {"obs": [0]},
    "beeswarm": {},
    "heatmap": {},
    "dependence": {},
    "image": {},
    "map": {},
}


MANY_PANELS = ("attributions", "derivatives", "slopes", "image")
"""Which take seconds to draw with 60 features."""

SIZED_AT = [
    pytest.param(
        name,
        m,
        p,
        marks=()
        if (m, p) == (1, 3) or ((m, p) == (10_000, 60) and name not in MANY_PANELS)
        else pytest.mark.slow,
    )
    for name in SIZED
    for m, p in ((1, 3), (10_000, 60), (1, 60), (10_000, 3))
]


@pytest.mark.parametrize(("name", "m", "p"), SIZED_AT)
def test_plots_are_readable_at_any_size(name, m, p):
    """No two labels of an axis touch, and no figure has a side above 60 inches."""
    given = [attributed(m, p)]
    if name in OWN:
        given = [explained(m, p, OWN[name])]
    if name == "image":
        given.append((p // 3, 3))
    if name == "map":
        given.append(np.random.default_rng(0).normal(size=(m, 2)))
    plot = getattr(bx, f"plot_{name}")(*given, **SIZED[name], backend="matplotlib")
    figure = plot.viz["figure"].item()
    assert max(figure.get_size_inches()) <= 60
    figure.canvas.draw()
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            seen = [label for label in labels if label.get_visible() and label.get_text()]
            boxes = [label.get_window_extent() for label in seen]
            for one, following in zip(boxes, boxes[1:], strict=False):
                assert not one.overlaps(following) or one.width == 0


def test_a_map_has_each_place_in_the_colour_of_its_weight():
    data, at = attributed(30, 4), np.random.default_rng(3).uniform(size=(30, 2))
    places = pd.DataFrame(at, columns=["east", "north"])
    plot = bx.plot_map(data, places, features=["feature_2"], ci_prob=0.5, backend="matplotlib")
    panel = plot.viz["plot"].sel(layer="mean").item()
    mean = data["attribution_mean"].sel(feature="feature_2").values
    low, high = np.quantile(data["attribution"].sel(feature="feature_2")[0], [0.25, 0.75], axis=0)
    unsure = (low <= 0) & (high >= 0)
    assert 0 < unsure.sum() < 30
    limit = np.abs(mean).max()
    for dots, which, edge in zip(
        panel.collections, (unsure, ~unsure), "#bbbbbb #222222".split(), strict=True
    ):
        assert_allclose(dots.get_offsets(), at[which])
        expected = plt.get_cmap("RdBu_r")((mean[which] / limit + 1) / 2)
        assert_allclose(dots.get_facecolor(), expected, atol=0.01)
        assert_allclose(dots.get_edgecolor()[0], to_rgba(edge), atol=0.01)
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("east", "north")
    assert bx.plot_map(data, at, backend="none").viz["plot"].sizes == {"layer": 2, "feature": 3}
    # Numbers of one sign that differ little are told apart.
    far = data.assign({n: v + 50.0 for n, v in data.items() if str(n).startswith("attribution")})
    plot = bx.plot_map(far, places, features=["feature_2"], backend="matplotlib")
    (dots,) = plot.viz["plot"].sel(layer="mean").item().collections
    share = (mean - mean.min()) / np.ptp(mean)
    assert_allclose(dots.get_facecolor(), plt.get_cmap("viridis")(share), atol=0.01)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (np.zeros((3, 2)) + np.arange(2), "3 rows and 2 columns. Pass 2 columns with a row"),
        (np.ones((5, 3)), "5 rows and 3 columns"),
        (np.full((5, 2), np.nan), "places"),
        (pd.DataFrame({"town": pd.Categorical(list("abcab")), "x": 1.0}), "categorical columns"),
        (pd.DataFrame(np.ones((5, 2)), index=list("abcde")), "index of places differs"),
    ],
)
def test_places_that_are_no_places_are_refused(places, words):
    with pytest.raises(ValueError, match=words):
        bx.plot_map(attributed(5, 2).assign_coords(obs=list("vwxyz")), places, backend="none")


PLOTS = [name for name in bx.__all__ if name.startswith("plot_")]
OTHER_ARGUMENTS = {"plot_map": (np.zeros((3, 2)),), "plot_image": ((1, 2),)}


@pytest.mark.parametrize("name", PLOTS)
def test_a_model_in_the_place_of_a_dataset_is_refused(name):
    X = np.random.default_rng(1).normal(size=(8, 2))
    model, rest = bx.GP(X, X[:, 0]), OTHER_ARGUMENTS.get(name, ())
    for given in (model, X, None):
        words = rf"The plot was given a {type(given).__name__}. Pass the \w+ that .*bx\."
        with pytest.raises(ValueError, match=words):
            getattr(bx, name)(given, *rest)


def test_components_are_curves_of_one_feature_and_points_of_several():
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(8, 2)), columns=["wind", "rain"])
    model = bx.GP(X, X["wind"] * X["rain"], kernel=lambda d: bx.Additive(d, 1.0))
    found = bx.components(model, {"sigma": 0.2}, keep="summary", progressbar=False)
    plot = bx.plot_components(found, components=["rain", "wind:rain"], backend="matplotlib")
    panels, order = plot.viz["plot"].values.ravel(), np.argsort(X["rain"].values)
    curve, points = panels[0].lines[-1], panels[1].collections[-1]
    mean = found["component_mean"]
    assert_allclose(curve.get_ydata(), mean.sel(component="rain").values[order])
    expected = np.column_stack([X["wind"], mean.sel(component="wind:rain")])
    assert_allclose(points.get_offsets(), expected)
    shares = [f"{100 * found['share'].sel(component=n).item():.0f}%" for n in ("rain", "wind:rain")]
    assert panels[0].get_title() == shares[0] and panels[0].get_xlabel() == "rain"
    assert panels[1].get_title() == f"wind:rain ({shares[1]})"
    assert panels[0].get_ylim() == panels[1].get_ylim()  # shared
    for wrong in ("constant", "snow"):
        with pytest.raises(ValueError, match="one of"):
            bx.plot_components(found, components=[wrong], backend="none")


@pytest.fixture(scope="module")
def of_classes():
    """Function from a plot to a result with classes, and the dim of its panels."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(18, 2)), columns=["wind", "rain"])
    words = np.array(["calm", "fair", "wild"])[np.digitize(X["wind"], [-0.5, 0.5])]
    model = bx.GP(X, words, likelihood="categorical")
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0}
    quiet = {"seed": 1, "draws": 20, "progressbar": False}
    shares = bx.attributions(model, theta, **quiet)
    changes = {"wind": (-1.0, 1.0)}
    return {
        bx.plot_attributions: (shares.isel(obs=[2, 5]), "obs", "attribution_mean"),
        bx.plot_dependence: (shares, "feature", "attribution_mean"),
        bx.plot_slopes: (bx.slopes(model, theta, obs=[1, 2], **quiet), "obs", "derivative_mean"),
        bx.plot_derivatives: (bx.slopes(model, theta, **quiet), "feature", "derivative_mean"),
        bx.plot_path: (
            bx.path_slopes(model, theta, obs=2, **quiet),
            "feature",
            "derivative_mean",
        ),
        bx.plot_partial_dependence: (
            bx.partial_dependence(model, theta, steps=4, **quiet),
            "feature",
            "partial_dependence_mean",
        ),
        bx.plot_comparisons: (
            bx.comparisons(model, theta, variables=changes, **quiet),
            "contrast",
            "comparison_mean",
        ),
    }


PANELS_OF_CLASSES = (
    bx.plot_attributions,
    bx.plot_dependence,
    bx.plot_slopes,
    bx.plot_derivatives,
    bx.plot_path,
    bx.plot_partial_dependence,
    bx.plot_comparisons,
)


@pytest.mark.parametrize("draw", PANELS_OF_CLASSES)
def test_each_class_has_its_panels(draw, of_classes):
    """With the numbers of a plot of this class alone."""
    dataset, dim, name = of_classes[draw]
    alone = {word: in_panels(dataset.sel({"class": word}), dim) for word in dataset["class"].values}
    labels = [f"{label}, {word}" for word in alone for label in dataset[dim].values]
    together = in_panels(dataset, dim)
    assert together[dim].values.tolist() == labels
    for word, one in alone.items():
        own = [label for label in labels if label.endswith(f", {word}")]
        found = together[name].sel({dim: own}).transpose(*one[name].dims)
        assert_allclose(found.values, one[name].values)
    panels = draw(dataset, backend="none").viz["figure"]
    assert panels is not None
    drawn = draw(dataset, backend="none").viz["plot"]
    drawn = drawn if isinstance(drawn, xr.DataArray) else next(iter(drawn.data_vars.values()))
    assert set(drawn[dim].values.tolist()) == set(labels)


def test_too_many_panels_of_classes_are_refused(of_classes):
    dataset, *_ = of_classes[bx.plot_dependence]
    with pytest.raises(ValueError, match="54 panels.*at most 24.*'class'"):
        in_panels(dataset, "obs")


def test_average_slopes_with_many_digits_stay_in_their_panels():
    data = explained(30, 8, "derivative")
    data["average_slope_mean"] = 0 * data["average_slope_mean"] - 1146843.0
    data["average_slope_sd"] = 0 * data["average_slope_sd"] + 474208.0
    plot = bx.plot_derivatives(data, backend="matplotlib")
    plot.viz["figure"].item().canvas.draw()
    for axes in plot.viz["plot"].values.ravel():
        panel, (text,) = axes.get_window_extent(), axes.texts
        assert "1146843\n± 474208\nP(> 0)" in text.get_text()
        extent = text.get_window_extent()
        assert panel.x0 < extent.x0 and extent.x1 < panel.x1 and extent.y1 < panel.y1
