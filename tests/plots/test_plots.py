"""Plots hold what they should, on every backend that needs no extra."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgb
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.plots.selection import values_of
from bayes_gpx.plots.visuals import NEGATIVE, POSITIVE

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.4}


@pytest.fixture(scope="module")
def explained(regression):
    X, Z, y, X_new, Z_new = regression
    model = bx.GPX(X, y, Z)
    arguments = (model, THETA, X_new, Z_new)
    return bx.contributions(*arguments, draws=50, seed=1), bx.weights(*arguments, draws=50, seed=1)


def test_contributions_have_a_panel_for_each_observation(explained):
    contributions, _ = explained
    plot = bx.plot_contributions(contributions, backend="none")
    assert plot.viz["plot"].sizes["obs"] == 4
    assert {"credible_interval", "point_estimate", "reference"} <= set(plot.viz.children)
    two = bx.plot_contributions(contributions, obs=[2, 0], ci_prob=0.5, backend="none")
    assert list(two.viz["plot"]["obs"].values) == [2, 0]


def test_contributions_are_drawn_where_they_are_the_largest_first(explained, tmp_path):
    contributions, _ = explained
    plot = bx.plot_contributions(contributions, obs=[1], backend="matplotlib")
    axes = plot.viz["plot"].sel(obs=1).item()
    mean = contributions["contribution_mean"].sel(obs=1)
    order = np.argsort(-np.abs(mean.values))
    names = [tick.get_text().partition(" = ")[0] for tick in axes.get_yticklabels()]
    assert names == list(mean["feature"].values[order])
    assert axes.yaxis_inverted()
    *bars, points = axes.collections
    assert_allclose(points.get_offsets(), np.column_stack([mean[order], range(len(order))]))
    ends = np.array([np.sort(np.unique(bar.get_paths()[0].vertices[:, 0])) for bar in bars])
    assert_allclose(ends, np.sort([[0.0, size] for size in mean.values[order]]))
    interval = contributions["contribution_interval"].sel(obs=1)[order]
    for bar, size, (low, high) in zip(bars, mean.values[order], interval.values, strict=True):
        assert to_hex(bar.get_facecolor()[0]) == (POSITIVE if size > 0 else NEGATIVE)
        assert (bar.get_alpha() < 0.5) == (low <= 0 <= high)
    drawn = axes.lines[-1].get_xdata().reshape((-1, 3))[:, :2]
    assert_allclose(drawn, interval)
    plot.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_several_rows_share_names_and_show_values_and_totals(explained):
    contributions, _ = explained
    plot = bx.plot_contributions(contributions, obs=[0, 2], max_features=2, backend="matplotlib")
    panels = [plot.viz["plot"].sel(obs=row).item() for row in (0, 2)]
    sizes = np.abs(contributions["contribution_mean"].sel(obs=[0, 2])).mean("obs")
    first = contributions["feature"].values[np.argsort(-sizes.values)[:2]]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == list(first)
    for row, panel in zip((0, 2), panels, strict=True):
        values = contributions["value"].sel(obs=row, feature=first).values
        assert [float(text.get_text()) for text in panel.texts] == pytest.approx(values, rel=1e-3)
        total = float(contributions["contribution_mean"].sel(obs=row).sum())
        said = panel.get_title().split("\n")[1].split()[0].replace("\N{MINUS SIGN}", "-")
        assert float(said) == float(f"{total:.2g}")
    with pytest.raises(ValueError, match="max_features"):
        bx.plot_contributions(contributions, max_features=0)


def test_weights_have_a_panel_for_each_feature(explained):
    _, weights = explained
    plot = bx.plot_weights(weights, features=["a", "c"], backend="none")
    assert plot.viz["plot"].sizes["feature"] == 2
    drawn = bx.plot_weights(weights, features=["a"], backend="matplotlib")
    axes = drawn.viz["plot"].sel(feature="a").item()
    at = np.column_stack([weights[name].sel(feature="a") for name in ("value", "weight_mean")])
    order = np.argsort(at[:, 0])
    assert_allclose(axes.collections[-1].get_offsets(), at[order])
    bars = axes.lines[-1].get_ydata().reshape((-1, 3))[:, :2]
    assert_allclose(bars, weights["weight_interval"].sel(feature="a")[order])


def test_weights_along_one_feature_are_a_curve(explained):
    _, weights = explained
    value = weights["value"].where(weights["feature"] == "a", 1.0)
    alone = weights.assign(value=value).assign_attrs(along="a")
    drawn = bx.plot_weights(alone, features=["a"], backend="matplotlib")
    axes = drawn.viz["plot"].sel(feature="a").item()
    x, mean = axes.lines[-1].get_data()
    order = np.argsort(weights["value"].sel(feature="a").values)
    assert_allclose(x, weights["value"].sel(feature="a").values[order])
    assert_allclose(mean, weights["weight_mean"].sel(feature="a").values[order])
    # Lines along several features, put together, are curves each.
    other = weights.assign(value=weights["value"].where(weights["feature"] == "c", 1.0))
    lines = [alone.sel(feature=["a"]), other.sel(feature=["c"]).assign_attrs(along="c")]
    lines = [line.assign_coords(obs=k * 100 + line["obs"]) for k, line in enumerate(lines)]
    both = bx.plot_weights(xr.concat(lines, "feature", join="outer"), backend="matplotlib")
    for name in "ac":
        assert len(both.viz["plot"].sel(feature=name).item().lines[-1].get_xdata()) == len(x)
    # Z may have one column, and the weight vary with another one of X.
    of_x = bx.plot_weights(alone.assign_attrs(along=""), features=["a"], backend="matplotlib")
    axes = of_x.viz["plot"].sel(feature="a").item()
    assert len(axes.collections[-1].get_offsets()) == len(x)


@pytest.fixture
def many(rng):
    """A Dataset as `weights` returns it, of 100 rows and 8 features; the last has two values."""
    mean = rng.normal(size=(100, 8)) + np.arange(8.0)
    value = rng.normal(size=(100, 8))
    value[:, 7] = np.where(value[:, 7] > 0, 2.0, 1.0)
    low_high = mean[..., None] + np.array([-1.0, 2.0]) * rng.uniform(1, 2, size=(100, 8, 1))
    arrays = {"weight_mean": mean, "weight_sd": 0 * mean + 1, "value": value}
    arrays["weight_interval"] = low_high
    dims = ("obs", "feature", "ci_bound")
    arrays = {name: (dims[: array.ndim], array) for name, array in arrays.items()}
    coords = {"feature": list("abcdefgs"), "ci_bound": ["lower", "upper"]}
    return xr.Dataset(arrays, coords, {"units": "kg per unit of the feature", "ci_prob": 0.9})


def test_weights_of_many_rows_have_a_line_and_a_band_of_their_intervals(many):
    plot = bx.plot_weights(many, features=["c"], backend="matplotlib")
    axes, one = plot.viz["plot"].item(), many.sel(feature="c").sortby("value")
    rows, band = axes.collections
    in_order = np.argsort(rows.get_offsets()[:, 0])
    assert_allclose(rows.get_offsets()[in_order, 1], one["weight_mean"])
    tens = one["weight_mean"].values.reshape(10, 10), one["value"].values.reshape(10, 10)
    x, line = axes.lines[-1].get_data()
    assert_allclose(line, tens[0].mean(axis=1))
    assert_allclose(x, tens[1].mean(axis=1))
    low, high = one["weight_interval"].values.T.reshape(2, 10, 10)
    corners = band.get_paths()[0].vertices
    for ends in (low.min(axis=1), high.max(axis=1)):
        assert set(ends) <= set(corners[:, 1])
    assert_allclose(corners[:, 0].min(), one["value"].min())
    assert_allclose(corners[:, 0].max(), one["value"].max())
    assert "gray: rows" in plot.viz["figure"].item().get_suptitle()


def test_a_column_of_two_values_has_two_intervals(many):
    axes = bx.plot_weights(many, features=["s"], backend="matplotlib").viz["plot"].item()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
    bars = axes.lines[-1].get_ydata().reshape(2, 3)[:, :2]
    both = [many.sel(feature="s").isel(obs=many["value"].sel(feature="s") == v) for v in (1, 2)]
    ends = [one["weight_interval"].values for one in both]
    assert_allclose(bars, [[end[:, 0].min(), end[:, 1].max()] for end in ends])
    points = axes.collections[-1].get_offsets()
    assert_allclose(points, [[k, one["weight_mean"].mean()] for k, one in enumerate(both, 1)])


def test_the_largest_weights_are_drawn_first(many):
    plot = bx.plot_weights(many, backend="none")
    size = np.abs(many["weight_mean"]).mean("obs") * many["value"].std("obs")
    assert list(plot.viz["plot"]["feature"].values) == list(
        size.sortby(-size)["feature"].values[:6]
    )
    every = bx.plot_weights(many, max_features=None, backend="none").viz["plot"]
    assert every.sizes["feature"] == 8
    with pytest.raises(ValueError, match="max_features"):
        bx.plot_weights(many, max_features=0)


def test_what_cannot_be_drawn_is_refused(explained):
    contributions, weights = explained
    with pytest.raises(ValueError, match="no draws of `contribution`"):
        bx.plot_contributions(contributions.drop_vars("contribution"))
    with pytest.raises(ValueError, match="no weights with their `value`"):
        bx.plot_weights(weights.drop_vars("value"))
    with pytest.raises(ValueError, match="at most 24"):
        bx.plot_contributions(contributions, obs=[0] * 25)


def test_repeated_labels_are_drawn(regression):
    X, Z, y, X_new, Z_new = regression
    twice = X_new.set_axis([5, 5, 6, 7])
    found = bx.contributions(bx.GPX(X, y, Z), THETA, twice, Z_new.set_axis(twice.index), draws=20)
    plot = bx.plot_contributions(found, obs=[6], backend="none")
    assert plot.viz["plot"].sizes["obs"] == 1
    with pytest.raises(ValueError, match="no rows labelled"):
        bx.plot_contributions(found, obs=[99])
    with pytest.raises(ValueError, match="features: unknown 'z'"):
        weights = bx.weights(bx.GPX(X, y, Z), THETA, X_new, Z_new, draws=20)
        bx.plot_weights(weights, features=["z"])


@pytest.fixture(scope="module")
def sloped(regression):
    X, _, y, _, _ = regression
    theta = {name: THETA[name] for name in ("lengthscale", "amplitude", "sigma")}
    model, grid = bx.GP(X, y), X.iloc[[0] * 9].reset_index(drop=True)
    grid["dose"] = np.linspace(-2.5, -1.5, 9)[::-1]
    options = {"draws": 50, "seed": 1, "progressbar": False}
    return bx.slopes(model, theta, grid, **options), bx.slopes(model, theta, **options)


def test_derivatives_along_a_grid_are_curves(sloped):
    grid, _ = sloped
    plot = bx.plot_derivatives(grid, backend="matplotlib")
    assert list(plot.viz["plot"]["feature"].values) == ["dose"]
    axes = plot.viz["plot"].sel(feature="dose").item()
    x, mean = axes.lines[-1].get_data()
    assert_allclose(x, np.linspace(-2.5, -1.5, 9))
    assert_allclose(mean, grid["derivative_mean"].sel(feature="dose")[::-1])
    wide, narrow = (band.get_paths()[0].get_extents() for band in axes.collections[:2])
    assert_allclose(wide.y1, grid["band_simultaneous"].sel(feature="dose").max())
    assert_allclose(narrow.y0, grid["band_pointwise"].sel(feature="dose").min())
    assert axes.get_title() == "dose"
    (average,), one = axes.texts, grid.sel(feature="dose")
    numbers = [f"{one[f'average_slope_{moment}'].item():.1f}" for moment in ("mean", "sd")]
    expected = f"mean {numbers[0]} ± {numbers[1]}".replace("-", "\N{MINUS SIGN}")
    assert average.get_text() == f"{expected}\nP(> 0) = {one['probability_positive'].item():.2f}"
    assert average.get_position()[1] > one["band_simultaneous"].max()
    (legend,) = plot.viz["figure"].item().legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said == ["90%, each", "90%, all together", "rises", "falls"]
    colors = [to_hex(line.get_color()) for line in legend.get_lines()[2:]]
    assert colors == [POSITIVE, NEGATIVE]


def test_derivatives_of_rows_are_points_with_intervals(sloped):
    grid, rows = sloped
    plot = bx.plot_derivatives(rows, backend="matplotlib")
    axes = plot.viz["plot"].sel(feature="age").item()
    points, signs = (artist.get_offsets() for artist in axes.collections)
    one = rows.sel(feature="age")
    assert_allclose(points, np.column_stack([one["value"], one["derivative_mean"]]))
    assert_allclose(signs[:, 0], rows["value"].sel(feature="age"))
    assert signs[:, 1].max() < one["band_simultaneous"].min()
    _, ends = axes.lines[1].get_data()
    assert_allclose(ends[:2], one["band_simultaneous"][0])
    held = bx.plot_derivatives(grid, features=["age"], backend="none")
    assert held.viz["plot"].sizes["feature"] == 1


def test_marks_say_which_signs_are_known(sloped):
    _, rows = sloped
    known = [1.0, 0.9, 0.5, 0.2, 0.1, 0.0]
    six = rows.isel(obs=range(6)).copy()
    six["derivative_probability_positive"][:, 0] = known
    axes = bx.plot_derivatives(six, backend="matplotlib").viz["plot"].sel(feature="age").item()
    up, down = (np.array(to_rgb(colour)) for colour in (POSITIVE, NEGATIVE))
    # The bands' probability is 0.9. Pale is 0.3 of a color on white.
    expected = [up, up, 0.7 + 0.3 * up, 0.7 + 0.3 * down, down, down]
    # Colors have 256 steps.
    assert_allclose(axes.collections[-1].get_facecolor()[:, :3], expected, atol=0.5 / 255)


def test_slopes_of_an_observation_are_drawn_in_standard_deviations(sloped):
    _, rows = sloped
    plot = bx.plot_slopes(rows, obs=[5, 2], features=["dose", "age"], backend="matplotlib")
    assert list(plot.viz["plot"]["obs"].values) == [5, 2]
    axes, one = plot.viz["plot"].sel(obs=5).item(), rows.sel(obs=5, feature=["dose", "age"])
    hollow = (one["band_pointwise"] <= 0).any("ci_bound") & (one["band_pointwise"] >= 0).any(
        "ci_bound"
    )
    points = {
        offset[1]: (offset[0], dots) for dots in axes.collections for offset in dots.get_offsets()
    }
    for row, name in enumerate(["dose", "age"]):
        place, dots = points[row]
        mean, sd = (one[f"derivative_{m}"].sel(feature=name).item() for m in ("mean", "sd"))
        assert_allclose(place, mean / sd)
        assert to_hex(dots.get_edgecolor()[0]) == (POSITIVE if mean > 0 else NEGATIVE)
        white = to_hex(dots.get_facecolor()[0]) == "#ffffff"
        assert white == hollow.sel(feature=name).item()
    wide, narrow = (line.get_xdata().reshape(2, 3)[:, :2] for line in axes.lines[1:])
    sd = one["derivative_sd"].values[:, None]
    assert_allclose(wide * sd, one["band_simultaneous_features"])
    assert_allclose(narrow * sd, one["band_pointwise"])
    # One factor for all features of an observation.
    assert_allclose(*(wide[:, 1] - wide[:, 0]))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["dose", "age"]
    first = one.sel(feature="dose")
    numbers = [f"{first[f'derivative_{m}'].item():.1f}" for m in ("mean", "sd")]
    said = axes.texts[0].get_text().replace("\N{MINUS SIGN}", "-")
    assert said == " ± ".join(numbers)
    every = bx.plot_slopes(rows, obs=[5, 2], backend="matplotlib").viz["plot"].sel(obs=5).item()
    ratio = np.abs(rows["derivative_mean"] / rows["derivative_sd"]).sel(obs=[5, 2]).max("obs")
    order = [tick.get_text() for tick in every.get_yticklabels()]
    assert order == list(ratio.sortby(-ratio)["feature"].values)
    with pytest.raises(ValueError, match="Pass the result of bx.slopes"):
        bx.plot_slopes(rows.drop_vars("band_simultaneous_features"))
    with pytest.raises(ValueError, match="features: unknown 'weight'"):
        bx.plot_slopes(rows, features=["weight"])
    with pytest.raises(ValueError, match="no rows labelled"):
        bx.plot_slopes(rows, obs=[99])


def test_a_slope_that_is_known_exactly_hides_no_other(sloped):
    _, rows = sloped
    moments = ["derivative_mean", "derivative_sd"]
    exact = rows.assign({name: rows[name].where(rows["feature"] != "age", 0.0) for name in moments})
    axes = bx.plot_slopes(exact, obs=[5], backend="matplotlib").viz["plot"].item()
    assert [tick.get_text() for tick in axes.get_yticklabels()][-1] == "age"
    wide, narrow = (line.get_xdata().reshape(-1, 3)[:, :2] for line in axes.lines[1:])
    for drawn in (wide, narrow):
        assert np.isfinite(drawn[:-1]).all() and np.isnan(drawn[-1]).all()


def test_derivatives_that_cannot_be_drawn_are_refused(sloped):
    grid, _ = sloped
    with pytest.raises(ValueError, match="no bands. Pass the result of bx.slopes"):
        bx.plot_derivatives(grid.drop_vars("band_simultaneous"))
    with pytest.raises(ValueError, match="features: unknown 'weight'"):
        bx.plot_derivatives(grid, features=["weight"])


def test_names_with_dollars_are_no_formulas(tmp_path):
    """Also one that is no formula, and titles of panels that do not fit are in lines."""
    rng = np.random.default_rng(1)
    name = "cost ($) per $ of income"
    X = pd.DataFrame({name: rng.normal(size=20), "$100_$": rng.normal(size=20)})
    X["kind"] = pd.Categorical(
        rng.choice(["$10_000 to $20_000", "$20_000 to $a_$_0", "over $20_000"], 20)
    )
    model = bx.GP(X, X[name])
    theta = {"lengthscale": [1.0, 1.0, 1.0], "amplitude": 1.0, "sigma": 0.3}
    quiet = {"seed": 1, "progressbar": False}
    found = bx.attributions(model, theta, **quiet)
    plots = (
        bx.plot_attributions(found, obs=[0, 1, 2]),
        bx.plot_waterfall(found, obs=[0]),
        bx.plot_beeswarm(found),
        bx.plot_partial_dependence(bx.partial_dependence(model, theta, **quiet)),
        bx.plot_comparisons(bx.comparisons(model, theta, **quiet)),
    )
    for pc in plots:
        pc.savefig(tmp_path / "plot.png")
    curves = plots[3].viz["figure"].item().axes
    turned = [[label.get_rotation() > 0.0 for label in own.get_xticklabels()] for own in curves]
    assert [any(own) for own in turned] == [False, False, True]  # long levels, but no numbers
    axes = plots[-1].viz["figure"].item().axes
    titles = [own.get_title() for own in axes]
    assert any("\n" in title for title in titles)
    assert max(len(line) for title in titles for line in title.split("\n")) < 44


def test_units_are_those_of_the_selected_output():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=15)})
    model = bx.GP(X, pd.DataFrame({"height": np.sin(X["a"]), "width": X["a"] ** 2}))
    names = {"amplitude_output": 1.0, "amplitude": 1.0}
    theta = {
        h.name: np.ones([model.specification.size(d, model.training) for d in h.dims])
        for h in model.specification.hyperparameters
    }
    assert names.keys() & theta.keys()
    found = bx.attributions(model, theta, obs=[0, 1], seed=1, progressbar=False)
    one = found.sel(output="width")
    assert "(unit: width" in bx.describe(one)
    pc = bx.plot_attributions(one)
    assert "[width]" in pc.viz["figure_title"].item().get_text()
    with pytest.raises(ValueError, match="The model is for the output 'width' alone"):
        bx.predictive_checks(model.of_output("width"), theta)


def test_dates_are_shown_as_dates():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=12, freq="12h")})
    model = bx.GP(X.assign(a=rng.normal(size=12)), rng.normal(size=12))
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.5}
    quiet = {"seed": 1, "progressbar": False}
    found = bx.attributions(model, theta, obs=[4, 5], **quiet)
    texts = values_of(found["value"].sel(feature="t")).values.tolist()
    assert texts == ["2024-01-03", "2024-01-03 12:00"]
    curve = bx.partial_dependence(model, theta, draws=20, **quiet)
    assert curve["unit"].values.tolist() == ["days since 2024-01-01", ""]
    axes = bx.plot_partial_dependence(curve).viz["figure"].item().axes
    assert axes[0].get_xlabel() == "t [day]"
    assert [t.get_text() for t in axes[0].get_xticklabels()] == [
        "2024-01-01",
        "2024-01-03",
        "2024-01-05",
    ]
    assert axes[0].get_xticks().tolist() == [0.0, 2.0, 4.0]
    for freq, first in (
        ("MS", ("2024-01", 0.0)),
        ("YS", ("2024", 0.0)),
        ("h", ("01-01 00:00", 0.0)),
    ):
        moved = pd.Series(pd.date_range("2024-01-01", periods=12, freq=freq), name="t").to_frame()
        other = bx.GP(moved.assign(a=rng.normal(size=12)), rng.normal(size=12))
        curve = bx.partial_dependence(other, theta, draws=20, **quiet)
        axes = bx.plot_partial_dependence(curve).viz["figure"].item().axes
        assert (axes[0].get_xticklabels()[0].get_text(), axes[0].get_xticks()[0]) == first
