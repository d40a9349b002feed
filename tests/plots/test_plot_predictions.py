"""The plot of predictions shows the Dataset's own numbers, and tells what was observed apart."""

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose

import bayes_gpx as bx

QUIET = {"seed": 0, "progressbar": False}
RNG = np.random.default_rng(3)
X = pd.DataFrame(RNG.normal(size=(25, 2)), columns=["age", "dose"])
Y = pd.Series(np.sin(2 * X["age"]) + X["dose"], name="y")
KNOWN = {"lengthscale": 1.5, "amplitude": 1.0}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def normal():
    return bx.GP(X, Y), KNOWN | {"sigma": 0.3}


def parts(plot, name):
    return plot.viz[name]["response"].item()


def test_a_line_of_rows_becomes_bands_along_its_feature(normal):
    rows = pd.DataFrame({"age": [2.0, -2.0, 0.0, 1.0], "dose": 0.5})
    found = bx.predictions(*normal, rows, **QUIET)
    plot = bx.plot_predictions(found, ci_prob=0.5, backend="matplotlib")
    order = np.argsort(rows["age"].values)
    for part, name in (("interval", "f"), ("new_response", "y")):
        corners = parts(plot, part).get_paths()[0].vertices
        ends = np.quantile(found[name].values[0], [0.25, 0.75], axis=0)
        for low_high in ends:
            expected = np.column_stack([rows["age"], low_high])
            apart = np.abs(corners[None] - expected[:, None]).max(axis=2).min(axis=1)
            assert_allclose(apart, 0.0, atol=1e-12)
    line = parts(plot, "point_estimate")
    assert_allclose(line.get_xdata(), rows["age"].values[order])
    assert_allclose(line.get_ydata(), found["f_mean"].values[order])
    assert plot.viz["plot"].item().get_xlabel() == "age"


def test_the_mean_response_of_a_gpx_is_its_smooth_part():
    model, theta = bx.GPX(X, Y), KNOWN | {"sigma": 0.3, "sigma_w": 0.8}
    rows = pd.DataFrame({"age": [2.0, -2.0, 0.0, 1.0], "dose": 0.5})
    found = bx.predictions(model, theta, rows, **QUIET)
    plot = bx.plot_predictions(found, backend="matplotlib")
    order = np.argsort(rows["age"].values)
    assert_allclose(parts(plot, "point_estimate").get_ydata(), found["smooth_mean"].values[order])
    corners = parts(plot, "interval").get_paths()[0].vertices[:, 1]
    ends = found["smooth_interval"].values
    assert_allclose([corners.min(), corners.max()], [ends.min(), ends.max()])
    assert "mean response dark" in plot.viz["figure_title"].item().get_text()


@pytest.mark.parametrize("along", [None, "dose"])
def test_observed_responses_outside_of_their_interval_are_orange(normal, along):
    found = bx.predictions(*normal, X + 0.2, **QUIET)
    plot = bx.plot_predictions(found, Y, along=along, ci_prob=0.5, backend="matplotlib")
    dots, means = parts(plot, "observed"), parts(plot, "point_estimate")
    across = found["f_mean"] if along is None else X["dose"] + 0.2
    assert_allclose(dots.get_offsets(), np.column_stack([across, Y]))
    assert_allclose(means.get_offsets(), np.column_stack([across, found["f_mean"]]))
    low, high = np.quantile(found["y"].values[0], [0.25, 0.75], axis=0)
    bars = parts(plot, "new_response").get_ydata().reshape((25, 3))
    assert_allclose(bars[:, :2], np.column_stack([low, high]))
    outside = (Y < low) | (Y > high)
    assert 0 < outside.sum() < 25
    orange = [to_hex(colour) == "#d55e00" for colour in dots.get_facecolor()]
    assert_allclose(orange, outside)
    assert 1 - outside.mean() == bx.metrics.coverage(found, Y, 0.5)


def test_bounds_are_hollow_and_orange_where_no_response_fits(normal):
    found = bx.predictions(*normal, X[:8], **QUIET)
    low, high = found["y"].quantile([0.05, 0.95], ["chain", "draw"]).values
    far = np.where(np.arange(8) % 2, low - 1.0, high + 1.0)
    kinds = np.repeat(["none", "right", "left", "interval"], 2)
    plot = bx.plot_predictions(found, far, censoring=kinds, backend="matplotlib")
    bounds, values = plot.viz["plot"].item().collections[-2:]
    assert [to_hex(color) for color in values.get_facecolor()] == ["#d55e00"] * 2
    assert {to_hex(color) for color in bounds.get_facecolor()} == {"#ffffff"}
    # More than a bound below the interval, and less than one above it, may lie inside.
    black, orange = "#222222", "#d55e00"
    drawn = [to_hex(color) for color in bounds.get_edgecolor()]
    assert drawn == [orange, black, black, orange, orange, black]
    assert "hollow bounds" in plot.viz["figure"].item()._suptitle.get_text().replace("\n", " ")
    for bad, said in ((kinds[:3], "censoring has shape"), (["no"] * 8, "censoring: unknown 'no'")):
        with pytest.raises(ValueError, match=said):
            bx.plot_predictions(found, far, censoring=bad)
    with pytest.raises(ValueError, match="censoring was given without y"):
        bx.plot_predictions(found, censoring=kinds)


def test_of_several_labels_each_class_has_a_panel():
    labels = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.5, 0.5])]
    model = bx.GP(X, labels, likelihood="categorical")
    found = bx.predictions(model, KNOWN, draws=50, **QUIET)
    plot = bx.plot_predictions(found.sel({"class": ["top", "low"]}), labels, backend="matplotlib")
    for label in ("top", "low"):
        panel = plot.viz["plot"].sel({"class": label}).item()
        dots = plot.viz["observed"]["response"].sel({"class": label}).item().get_offsets()
        assert panel.get_title() == label
        assert_allclose(dots[:, 0], found["probability_mean"].sel({"class": label}))
        assert_allclose(dots[:, 1], labels == label)
    assert "new_response" not in plot.viz.children
    plot = bx.plot_predictions(found.sel({"class": "mid"}), labels, backend="matplotlib")
    assert_allclose(parts(plot, "observed").get_offsets()[:, 1], labels == "mid")
    assert plot.viz["plot"].item().get_ylabel() == "probability of mid"


def test_of_two_labels_the_axis_names_the_second():
    labels = np.where(Y > 0, "well", "ill")
    model = bx.GP(X, labels, likelihood="bernoulli")
    found = bx.predictions(model, KNOWN, draws=50, **QUIET)
    plot = bx.plot_predictions(found, labels, backend="matplotlib")
    assert_allclose(parts(plot, "observed").get_offsets()[:, 1], labels == "well")
    assert plot.viz["plot"].item().get_ylabel() == "probability of well"
    latent = bx.predictions(model, KNOWN, on="latent", draws=50, **QUIET)
    plot = bx.plot_predictions(latent, backend="matplotlib")
    assert plot.viz["plot"].item().get_ylabel() == "f [log odds of y]"


def test_rows_that_share_a_value_or_have_own_deviations_are_no_curve(normal):
    rows = pd.DataFrame({"age": [1.0, 1.0, 2.0], "dose": 0.0})
    for found in (
        bx.predictions(*normal, rows, draws=5, **QUIET),
        bx.predictions(bx.GP(X[["age"]], Y), KNOWN | {"sigma": 0.3}, draws=5, **QUIET),
    ):
        plot = bx.plot_predictions(found, backend="matplotlib")
        assert parts(plot, "point_estimate").get_offsets().shape == (found.sizes["obs"], 2)


def test_labels_that_the_model_takes_are_told_again():
    codes = (Y > 0).astype(float)
    model = bx.GP(X, codes, likelihood="bernoulli")
    found = bx.predictions(model, KNOWN, draws=5, **QUIET)
    for given in (codes, codes.astype(int), codes.values):
        plot = bx.plot_predictions(found, given, backend="matplotlib")
        assert_allclose(parts(plot, "observed").get_offsets()[:, 1], codes)


def many(m, features):
    shape = {"f_mean": ("obs",), "f_sd": ("obs",), "value": ("obs", "feature")}
    sizes = {"obs": m, "feature": len(features)}
    arrays = {n: (dims, RNG.uniform(size=[sizes[d] for d in dims])) for n, dims in shape.items()}
    return xr.Dataset(arrays, {"obs": np.arange(m), "feature": features}, {"units": "kg"})


def test_of_very_many_observations_some_are_drawn():
    whole = bx.plot_predictions(many(3000, ["age"]), backend="matplotlib")
    assert len(parts(whole, "point_estimate").get_xdata()) == 3000
    some = bx.plot_predictions(many(3000, ["age", "dose"]), np.zeros(3000), backend="matplotlib")
    assert len(parts(some, "point_estimate").get_offsets()) == 1000
    assert "1,000 of 3,000" in some.viz["figure"].item().get_suptitle()


def test_titles_and_labels_lie_within_the_figure_in_large_letters_too():
    found = many(3000, ["age", "dose"]).assign(y_mean=("obs", np.zeros(3000)))
    found = found.assign(y_sd=("obs", np.ones(3000))).assign_attrs(units="score after one year")
    with plt.rc_context():
        az.style.use("arviz-variat")
        plot = bx.plot_predictions(found, np.zeros(3000), backend="matplotlib")
        figure, panel = plot.viz["figure"].item(), plot.viz["plot"].item()
        figure.canvas.draw()
        for text in (figure._suptitle, panel.yaxis.label, panel.xaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.y0 >= 0
            assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1


def test_what_cannot_be_drawn_is_named(normal):
    found = bx.predictions(*normal, draws=5, **QUIET)
    with pytest.raises(ValueError, match="no predictions"):
        bx.plot_predictions(bx.attributions(*normal, draws=5, **QUIET))
    with pytest.raises(ValueError, match="along: unknown 'ag'"):
        bx.plot_predictions(found, along="ag")
    with pytest.raises(ValueError, match="one value for each"):
        bx.plot_predictions(found, [1.0, 2.0])
    model = bx.GP(X, Y > 0, likelihood="bernoulli")
    summary = bx.predictions(model, KNOWN, draws=5, keep="summary", **QUIET)
    with pytest.raises(ValueError, match="keep='draws'"):
        bx.plot_predictions(summary)
    with pytest.raises(ValueError, match="on='response'"):
        bx.plot_predictions(bx.predictions(model, KNOWN, on="latent", draws=5, **QUIET), Y > 0)
    wild = found.drop_vars(["y", "f"]).assign(y_sd=("obs", np.full(25, np.inf)))
    with pytest.raises(ValueError, match="no draws of `y`"):
        bx.plot_predictions(wild)
    with pytest.raises(ValueError, match=r"isel\(obs=\[0\]\)"):
        bx.plot_predictions(found.isel(obs=0))
    labelled = bx.predictions(model, KNOWN, draws=5, **QUIET)
    with pytest.raises(ValueError, match="y: unknown 'maybe'"):
        bx.plot_predictions(labelled, ["maybe"] * 25)
