"""Plots of attributions of one and of many observations show the numbers that they are given."""

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex, to_rgb
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.plots.selection import contrasts_shortened, short, shortened
from bayes_gpx.plots.visuals import EDGE, NEGATIVE, ON_WHITE, POSITIVE, few_numbers, places_along

FEATURES = ["wind", "rain", "sun", "ice"]
SIZE = np.array([0.5, 4.0, 1.0, 2.0])
"""Which feature's attributions are how large."""

BY_SIZE = ["rain", "ice", "sun", "wind"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def attributed(m, draws=200):
    """A Dataset as `attributions` returns it, of m observations labelled from 100."""
    rng = np.random.default_rng(3)
    mean = rng.normal(size=(m, 4)) * SIZE
    sd = np.full((m, 4), 0.6)
    sampled = mean + sd * rng.normal(size=(1, draws, m, 4))
    wide = ("chain", "draw", "obs", "feature")
    return xr.Dataset(
        {
            "attribution": (wide, sampled),
            "attribution_mean": (wide[2:], mean),
            "attribution_sd": (wide[2:], sd),
            "difference": (wide[:3], sampled.sum(-1)),
            "difference_mean": (wide[2:3], mean.sum(-1)),
            "value": (wide[2:], rng.normal(size=(m, 4))),
        },
        {"obs": np.arange(100, 100 + m), "feature": FEATURES},
        {"units": "kg", "baseline": "mean"},
    )


def ends(draws, prob=0.9):
    """Ends of equal-tailed intervals of the last axis but one of (draw, ..., n)."""
    return np.quantile(draws, [(1 - prob) / 2, (1 + prob) / 2], axis=0)


def only(plot):
    return plot.viz["plot"].item()


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def rectangle(collection):
    box = collection.get_paths()[0].get_extents()
    return box.x0, box.x1


def test_a_waterfall_steps_from_0_to_the_difference():
    data = attributed(5)
    plot = bx.plot_waterfall(data, obs=103, max_features=2, ci_prob=0.5, backend="matplotlib")
    axes, one = only(plot), data.sel(obs=103)
    mean = one["attribution_mean"].to_series()
    first = list(mean.abs().sort_values(ascending=False).index[:2])
    names = labels(axes.get_yticklabels())
    assert names[0] == "baseline" and names[3:] == ["2 other features", "f(x) - f(baseline)"]
    value = one["value"].to_series()
    assert names[1:3] == [f"{name} = {value[name]:.4g}" for name in first]
    steps = [mean[first[0]], mean[first[1]], mean.sum() - mean[first].sum()]
    edges = np.concatenate([[0.0], np.cumsum(steps)])
    boxes = [rectangle(box) for box in axes.collections[:4]]
    assert_allclose(boxes[:3], np.sort(np.column_stack([edges[:-1], edges[1:]]), axis=1))
    assert_allclose(boxes[3], sorted([0.0, one["difference_mean"].item()]))
    zero, intervals = (line.get_xdata() for line in axes.lines[-2:])
    drawn = intervals.reshape(3, 3)[:, :2] - zero[0]
    draws = {name: one["attribution"].sel(feature=name).values[0] for name in FEATURES}
    rest = sum(draws[name] for name in FEATURES if name not in first)
    expected = ends(np.transpose([draws[first[0]], draws[first[1]], rest]), 0.5).T
    assert_allclose(drawn, expected)
    assert min(intervals[~np.isnan(intervals)]) > max(np.ravel(boxes))  # a column of their own
    assert_allclose(axes.collections[-1].get_offsets()[:, 0] - zero[0], steps)
    assert min(text.get_position()[0] for text in axes.texts) > np.nanmax(intervals)
    for box, step, (low, high) in zip(axes.collections, steps, expected, strict=False):
        assert_allclose(box.get_facecolor()[0, :3], to_rgb(POSITIVE if step > 0 else NEGATIVE))
        assert (box.get_facecolor()[0, 3] < 0.5) == (low <= 0.0 <= high)
    assert axes.get_xlabel() == "f(x) - f(baseline) [kg]; on the right: each step alone"


def test_a_waterfall_leads_from_the_prediction_at_the_baseline(regression):
    X, _, y, X_new, _ = regression
    model, theta = bx.GP(X, y), {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
    options = {"draws": 20, "progressbar": False}
    found = bx.attributions(model, theta, X_new, **options)
    predicted = bx.predictions(model, theta, X_new, **options)
    axes = only(bx.plot_waterfall(found, obs=2, predictions=predicted, backend="matplotlib"))
    at_baseline = bx.predictions(model, theta, X.mean().to_frame().T, **options)
    start, end = at_baseline["f_mean"].item(), predicted["f_mean"].sel(obs=2).item()
    assert_allclose(rectangle(axes.collections[-2]), sorted([start, end]))
    names = labels(axes.get_yticklabels())
    assert names[0] == f"baseline: {start:.4g}" and names[-1] == f"prediction: {end:.4g}"
    assert axes.get_xlabel() == "f [pressure]; on the right: each step alone"
    with pytest.raises(ValueError, match="The obs of predictions differ"):
        bx.plot_waterfall(found, obs=2, predictions=predicted.isel(obs=[2]))


@pytest.mark.parametrize(
    "ends", [(2459000.0, 2459365.0), (-2e6, 3e6), (0.0, 3e-7), (1e9, 1e9 + 50)]
)
def test_numbers_along_an_axis_differ(ends):
    fig, axes = plt.subplots()
    axes.plot(ends, [0.0, 1.0])
    few_numbers(None, axes)
    fig.canvas.draw()
    shown = labels(axes.get_xticklabels())
    assert len(set(shown)) == len(shown) > 2


def test_values_of_any_length_are_written_right_of_the_bars():
    found = attributed(6)
    found["value"] = found["value"] * 1e8
    fig = bx.plot_attributions(found, backend="matplotlib").viz["figure"].item()
    fig.canvas.draw()
    for axes in fig.axes:
        bars = np.nanmax([np.nanmax(line.get_xdata()) for line in axes.lines])
        left = min(text.get_window_extent().x0 for text in axes.texts)
        assert left > axes.transData.transform((bars, 0.0))[0]


@pytest.mark.parametrize("scale", [1.0, 300.0, 1e-4])
@pytest.mark.parametrize("narrow", [1.0, 0.02])
def test_intervals_of_a_waterfall_have_a_scale_of_their_own(scale, narrow):
    data = attributed(1) * scale
    draws = data["attribution"]
    data["attribution"] = draws.mean("draw") + narrow * (draws - draws.mean("draw"))
    data = data.assign_attrs(attributed(1).attrs)
    figure = bx.plot_waterfall(data, backend="matplotlib").viz["figure"].item()
    figure.canvas.draw()
    axes = figure.axes[0]
    zero, intervals = (line.get_xdata() for line in axes.lines[-2:])
    divider = axes.lines[-4].get_xdata()[0]
    assert max(np.ravel([rectangle(box) for box in axes.collections[:-1]])) < divider
    assert divider < np.nanmin(intervals)
    alone = {}
    for place, label in zip(axes.get_xticks(), labels(axes.get_xticklabels()), strict=True):
        number = float(label.replace("\N{MINUS SIGN}", "-"))
        if place > divider:
            alone[place] = number
            assert_allclose(place - zero[0], number, atol=1e-9 * scale)
        else:
            assert_allclose(place, number, atol=1e-9 * scale)
    assert 0.0 in alone.values() and len(alone) >= 2
    gridlines = axes.lines[-3].get_xdata()
    assert_allclose(np.unique(gridlines), sorted(alone))
    inches = np.diff(axes.transData.transform([(x, 0) for x in sorted(alone)])[:, 0]) / figure.dpi
    assert inches.min() > 0.35


def test_a_waterfall_of_a_gpx_excludes_the_deviations_of_rows(regression):
    X, _, y, _, _ = regression
    model = bx.GPX(X, y)
    theta = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma_w": 0.6, "sigma": 0.3}
    options = {"draws": 20, "progressbar": False}
    found = bx.attributions(model, theta, **options)
    predicted = bx.predictions(model, theta, **options)
    center = bx.predictions(model, theta, X.mean().to_frame().T, **options)["f_mean"].item()
    for row in (0, 3):
        assert abs(predicted["f_mean"][row] - predicted["smooth_mean"][row]) > 1e-3
        axes = only(bx.plot_waterfall(found, obs=row, predictions=predicted, backend="matplotlib"))
        end = predicted["smooth_mean"][row].item()
        assert_allclose(rectangle(axes.collections[-2]), sorted([center, end]))
        assert labels(axes.get_yticklabels())[-1] == f"smooth prediction: {end:.4g}"


@pytest.mark.parametrize(
    ("largest", "written"),
    [
        (54.3, "+54"),
        (0.0283, "+0.028"),
        (3.96, "+4.0"),
        (2.5e9, "+2.5e+09"),
        (3e-9, "+3e\N{MINUS SIGN}09"),
    ],
)
def test_numbers_have_two_digits(largest, written):
    data = attributed(1)
    for name in [n for n in data if n != "value"]:
        data[name] = data[name] * 0.0 + largest
    axes = only(bx.plot_waterfall(data, backend="matplotlib"))
    assert axes.texts[0].get_text().startswith(f"{written} [")


def test_a_waterfall_of_contributions_starts_at_the_offset(regression):
    X, Z, y, X_new, Z_new = regression
    theta = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma_w": 0.3, "sigma": 0.4}
    found = bx.contributions(bx.GPX(X, y, Z), theta, X_new, Z_new, draws=20, progressbar=False)
    axes = only(bx.plot_waterfall(found, obs=2, backend="matplotlib"))
    total, offset = found["contribution_mean"].sel(obs=2).sum().item(), found["offset"].item()
    assert_allclose(rectangle(axes.collections[-2]), sorted([offset, offset + total]))
    assert axes.get_xlabel() == "f [pressure]; on the right: each step alone"


def test_titles_say_that_the_log_variance_is_divided():
    data = attributed(1).assign_attrs(of="log_variance")
    figure = bx.plot_waterfall(data, backend="matplotlib").viz["figure"].item()
    assert "of the log variance" in figure.get_suptitle()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels[-1] == "log variance(x) - log variance(baseline)"


def test_titles_say_that_rows_are_left_out():
    data = attributed(8)
    for obs, some in ((None, True), (data["obs"].values, False)):
        plot = bx.plot_attributions(data, obs=obs, backend="matplotlib")
        title = plot.viz["figure"].item().get_suptitle().replace("\n", " ")
        assert ("the first 6 of 8 observations" in title) == some


def test_titles_say_that_a_weight_is_explained():
    data = attributed(2).assign_attrs(weight="rooms", units="kg per unit of rooms")
    figure = bx.plot_attributions(data, backend="matplotlib").viz["figure"].item()
    said = figure.get_suptitle().replace("\n", " ")
    assert said.startswith(
        "Attributions of the weight of rooms against the baseline 'mean' [kg per"
    )
    axes = only(bx.plot_waterfall(data, obs=100, backend="matplotlib"))
    assert labels(axes.get_yticklabels())[-1] == "weight(x) - weight(baseline)"
    assert axes.get_xlabel() == "kg per unit of rooms; on the right: each step alone"
    with pytest.raises(ValueError, match="attributions of the weight of rooms, which they do not"):
        bx.plot_waterfall(data, obs=100, predictions=xr.Dataset())


def test_a_waterfall_is_of_one_observation():
    data = attributed(5)
    with pytest.raises(
        ValueError, match="a waterfall is of one. Pass its label as obs=, such as 100"
    ):
        bx.plot_waterfall(data)
    with pytest.raises(ValueError, match="2 observations"):
        bx.plot_waterfall(data, obs=[100, 101])
    with pytest.raises(ValueError, match="no rows labelled"):
        bx.plot_waterfall(data, obs=7)
    with pytest.raises(ValueError, match="no draws of `attribution`.*keep='draws'"):
        bx.plot_waterfall(data.drop_vars("attribution"), obs=101)
    assert "steps" in bx.plot_waterfall(attributed(1), backend="none").viz.children


def test_a_beeswarm_has_every_point_in_its_row():
    data = attributed(60)
    plot = bx.plot_beeswarm(data, backend="matplotlib")
    axes, mean = only(plot), data["attribution_mean"]
    assert labels(axes.get_yticklabels()) == BY_SIZE
    hollow, filled = axes.collections
    low, high = ends(data["attribution"].values[0])
    covers = (low <= 0) & (high >= 0)
    for artist, chosen in ((hollow, covers), (filled, ~covers)):
        x, y = np.transpose(artist.get_offsets())
        for row, name in enumerate(BY_SIZE):
            j = FEATURES.index(name)
            here = np.abs(y - row) <= 0.4
            assert_allclose(np.sort(x[here]), np.sort(mean.values[chosen[:, j], j]))
    assert_allclose(hollow.get_facecolor()[:, :3], 1.0)
    value = data["value"].sel(feature="rain")
    fifth, last = np.quantile(value, [0.05, 0.95])
    strongest = int(np.argmax(np.abs(mean.sel(feature="rain").values)))
    place = np.argmin(np.abs(filled.get_offsets()[:, 0] - mean.sel(feature="rain")[strongest]))
    share = np.clip((value[strongest].item() - fifth) / (last - fifth), 0, 1)
    assert to_hex(filled.get_facecolor()[place]) == to_hex(ON_WHITE(share))
    assert to_hex(filled.get_edgecolor()[0]) == EDGE
    assert plot.viz["figure"].item().axes[1].get_ylabel() == "value of the feature"


def contrast_to_white(color):
    """Contrast ratio of the Web Content Accessibility Guidelines 2.2."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


def test_rows_that_where_emptied_are_left_out():
    """Their missing values made every point of a beeswarm black, and stopped other plots."""
    whole = attributed(20)
    part = whole.where(whole["value"].sel(feature="sun", drop=True) > 0.0)
    kept = part["difference_mean"].notnull().values
    assert 2 < kept.sum() < 20
    hollow, filled = only(bx.plot_beeswarm(part)).collections
    points = np.concatenate([hollow.get_offsets().data, filled.get_offsets().data])
    assert points.shape == (4 * kept.sum(), 2) and np.isfinite(points).all()
    assert len(np.unique(filled.get_facecolor(), axis=0)) > 4
    bx.plot_dependence(part, features=["rain"])
    gone = int(whole["obs"][~kept][0])
    with pytest.raises(ValueError, match="attribution_mean of the chosen rows is NaN"):
        bx.plot_waterfall(part, obs=gone)


def test_points_are_visible_on_white():
    """The guidelines demand 3 of graphics, which outlines have; yellow-green alone has 2.1."""
    assert contrast_to_white("#ffffff") == 1.0 and contrast_to_white("#000000") == 21.0
    assert contrast_to_white(EDGE) >= 3.0
    assert min(contrast_to_white(ON_WHITE(k)[:3]) for k in range(256)) >= 2.0


def test_points_of_a_beeswarm_do_not_hide_each_other():
    data = attributed(3)
    same = data.isel(obs=[0] * 3).assign_coords(obs=[1, 2, 3])
    plot = bx.plot_beeswarm(same, features=["rain"], backend="matplotlib")
    y = np.concatenate([artist.get_offsets()[:, 1] for artist in only(plot).collections])
    assert_allclose(np.sort(y), [-0.09, 0.0, 0.09])


def test_many_observations_are_sampled_and_the_title_says_so():
    summary = attributed(1500, draws=1).drop_vars(["attribution", "difference"])
    for draw in (bx.plot_beeswarm, bx.plot_heatmap):
        plot = draw(summary, max_features=2, backend="matplotlib")
        title = " ".join(plot.viz["figure"].item().get_suptitle().split())
        assert "2 largest of 4 features; 1,000 of 1,500 observations, at random" in title
    assert only(plot).images[0].get_array().shape == (2 * 9, 1000, 3)
    plot = bx.plot_dependence(summary, features=["sun"], backend="matplotlib")
    points = plot.viz["plot"].sel(feature="sun").item().collections[0].get_offsets()
    assert len(np.unique(points, axis=0)) == 1000


def test_without_draws_intervals_are_those_of_a_normal():
    summary = attributed(20).drop_vars(["attribution", "difference"])
    plot = bx.plot_dependence(summary, features=["ice"], ci_prob=0.95, backend="matplotlib")
    axes = plot.viz["plot"].sel(feature="ice").item()
    drawn = axes.lines[1].get_ydata().reshape(20, 3)[:, :2]
    mean = summary["attribution_mean"].sel(feature="ice").values
    # 1.959964 is the 97.5 % point of a normal.
    assert_allclose(drawn, mean[:, None] + 0.6 * 1.959964 * np.array([-1, 1]), rtol=1e-6)


def test_a_heatmap_hatches_cells_without_a_sure_sign():
    data = attributed(12)
    plot = bx.plot_heatmap(data, features=["sun", "rain"], backend="matplotlib")
    axes = only(plot)
    order = np.argsort(data["difference_mean"].values)
    assert labels(axes.get_xticklabels()) == [str(100 + i) for i in order]
    assert labels(axes.get_yticklabels()) == ["sun", "rain"]
    mean = data["attribution_mean"].sel(feature=["sun", "rain"]).values[order].T
    low, high = ends(data["attribution"].sel(feature=["sun", "rain"]).values[0][:, order])
    hatched = ((low <= 0) & (high >= 0)).T
    assert 0 < hatched.sum() < hatched.size
    limit = np.abs(mean).max()
    colour = mpl.colormaps["RdBu_r"]((mean / limit + 1) / 2)[..., :3]
    lines = np.asarray(axes.images[0].get_array()).reshape(2, 9, 12, 3)
    # A colour map has 256 steps.
    for line in range(9):
        expected = 0.7 if line in (1, 4, 7) else 0.7 + 0.3 * colour
        expected = np.where(hatched[..., None], expected, colour)
        assert_allclose(lines[:, line], expected, atol=0.02)
    assert axes.images[0].get_extent() == [-0.5, 11.5, 1.5, -0.5]
    (entry,) = plot.viz["figure"].item().legends[0].get_texts()
    assert entry.get_text() == "hatched: the 90% interval contains 0"
    bar = plot.viz["figure"].item().axes[1]
    assert bar.get_ylabel() == "attribution [kg]"
    assert_allclose(bar.get_ylim(), [-limit, limit])


def test_dependence_is_drawn_against_the_features_values(tmp_path):
    data = attributed(30)
    plot = bx.plot_dependence(data, max_features=2, ci_prob=0.8, backend="matplotlib")
    assert list(plot.viz["plot"]["feature"].values) == BY_SIZE[:2]
    axes, value = plot.viz["plot"].sel(feature="ice").item(), data["value"].sel(feature="ice")
    points, rug = (artist.get_offsets() for artist in axes.collections)
    one = data.sel(feature="ice")
    assert_allclose(points, np.column_stack([value, one["attribution_mean"]]))
    assert_allclose(rug[:, 0], value)
    drawn = axes.lines[1].get_ydata().reshape(30, 3)[:, :2]
    assert_allclose(drawn, ends(one["attribution"].values[0], 0.8).T)
    other = plot.viz["plot"].sel(feature="rain").item()
    both = data["attribution"].sel(feature=BY_SIZE[:2]).values[0]
    assert len(set(rug[:, 1])) == 1 and rug[0, 1] < ends(both, 0.8).min()
    assert axes.get_ylim() == other.get_ylim()  # attributions have one unit
    assert axes.get_xlabel() == "ice"
    renamed = data.rename(attribution="weight", attribution_mean="weight_mean")
    renamed = renamed.rename(attribution_sd="weight_sd").drop_attrs().assign_attrs(units="kg")
    plot = bx.plot_dependence(renamed, max_features=2, backend="none")
    assert list(plot.viz["plot"]["feature"].values) == FEATURES[:2]


def test_images_have_the_rows_of_the_shape():
    data = attributed(8)
    plot = bx.plot_image(data, (2, 2), obs=[105, 101], backend="matplotlib")
    mean = data["attribution_mean"].sel(obs=[105, 101])
    limit = np.abs(mean).max().item()
    drawn = plot.viz["plot"].sel(obs=101, layer="mean").item().images[0].get_array()
    colour = mpl.colormaps["RdBu_r"]((mean.sel(obs=101).values.reshape(2, 2) / limit + 1) / 2)
    assert_allclose(drawn, colour[..., :3], atol=0.02)
    value = data["value"].sel(obs=[105, 101])
    ink = plot.viz["plot"].sel(obs=105, layer="value").item().images[0].get_array()[..., 0]
    share = (value.sel(obs=105) - value.min()) / (value.max() - value.min())
    assert_allclose(ink, mpl.colormaps["gray_r"](share.values.reshape(2, 2))[..., 0], atol=0.02)
    bars = [axes.get_xlabel() for axes in plot.viz["figure"].item().axes[6:]]
    assert bars == ["its sd", "attribution [kg]", "value of the feature"]
    many = bx.plot_image(attributed(24), (1, 4), obs=range(100, 124), backend="none")
    assert many.viz["plot"].sizes == {"obs": 24, "layer": 3}


@pytest.mark.parametrize("shape", [(2, 3), (4,), (2, 2, 1)])
def test_images_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="4 features. Pass"):
        bx.plot_image(attributed(3), shape, backend="none")


EACH = {
    bx.plot_waterfall: {"obs": 100},
    bx.plot_beeswarm: {},
    bx.plot_heatmap: {},
    bx.plot_dependence: {},
    bx.plot_image: {"shape": (2, 2)},
}


@pytest.mark.parametrize("draw", EACH)
def test_what_cannot_be_drawn_is_refused(draw):
    data, given = attributed(3), EACH[draw]
    with pytest.raises(ValueError, match="The dataset has no .*Pass the result of bx.attr"):
        draw(data.drop_vars(["attribution", "attribution_mean"]), backend="none", **given)
    with pytest.raises(ValueError, match="no .*`value`"):
        draw(data.drop_vars("value"), backend="none", **given)
    several = data.expand_dims(baseline=["a", "b"])
    several["value"] = data["value"]
    if draw is bx.plot_dependence:  # each baseline has a panel, but outputs have other units
        several = several.rename(baseline="output")
    with pytest.raises(ValueError, match=r"dim '(baseline|output)'.*Choose one.*dataset.sel"):
        draw(several, backend="none", **given)
    with pytest.raises(ValueError, match="no rows labelled"):
        draw(data, backend="none", **(given | {"obs": [5]}))
    if draw is not bx.plot_image:
        with pytest.raises(ValueError, match="ci_prob is 1.5"):
            draw(data, backend="none", ci_prob=1.5, **given)
    if draw not in (bx.plot_image, bx.plot_waterfall):
        with pytest.raises(ValueError, match="features: unknown 'snow'"):
            draw(data, features=["snow"], backend="none")
        with pytest.raises(ValueError, match="features is 'rain'. Pass a list"):
            draw(data, features="rain", backend="none")
        with pytest.raises(ValueError, match="max_features"):
            draw(data, max_features=0, backend="none")


def test_repeated_labels_have_no_panels():
    twice = attributed(3).assign_coords(obs=["a", "a", "b"])
    with pytest.raises(ValueError, match=r"labels \['a', 'a', 'b'\] repeat"):
        bx.plot_image(twice, (2, 2), backend="none")
    assert bx.plot_image(twice, (2, 2), obs="b", backend="none").viz["plot"].sizes["obs"] == 1
    assert bx.plot_waterfall(twice, obs=["b"], backend="none")
    assert "map" in bx.plot_heatmap(twice, backend="none").viz.children


def test_a_sample_at_the_baseline_has_a_waterfall():
    data = attributed(1)
    for name in [n for n in data if n != "value"]:
        data[name] = data[name] * 0.0
    axes = only(bx.plot_waterfall(data, backend="matplotlib"))
    assert_allclose([rectangle(box) for box in axes.collections[:-1]], 0.0)


@pytest.mark.parametrize("draw", [bx.plot_heatmap, bx.plot_image])
def test_images_are_not_for_bokeh(draw):
    with pytest.raises(ValueError, match="backend: unknown 'bokeh'"):
        draw(attributed(3), **EACH[draw], backend="bokeh")


@pytest.mark.parametrize("draw", EACH)
def test_long_names_are_cut_and_nothing_leaves_the_figure(draw):
    named = [name * 12 for name in FEATURES]
    data = attributed(3).assign_coords(feature=named)
    days = np.arange("2020-01-01", "2020-01-04", dtype="datetime64[D]").astype("datetime64[ns]")
    data, given = data.assign_coords(obs=days), EACH[draw]
    given = given | {"obs": days[:1]} if "obs" in given else given
    plot = draw(data, backend="matplotlib", **given)
    figure = plot.viz["figure"].item()
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert draw in (bx.plot_beeswarm, bx.plot_dependence) or "2020-01-01" in " ".join(texts)
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    # A hundredth of an inch is less than a pixel.
    assert box.x0 > -0.01 and box.y0 > -0.01
    assert box.x1 < width + 0.01 and box.y1 < height + 0.01


def test_titles_say_what_was_computed():
    X = np.random.default_rng(1).normal(size=(12, 2))
    model = bx.GP(X, X[:, 0], scale=False)
    theta = {"lengthscale": [1.0, 1.0], "amplitude": 1.0, "sigma": 0.1}
    found = bx.shapley_values(model, theta, X[:1], progressbar=False)
    figure = bx.plot_waterfall(found).viz["figure"].item()
    assert "Shapley values of observation 0" in figure.get_suptitle()


@pytest.mark.parametrize("offset", [3.854, -3.854, 3.9e6])
def test_numbers_of_a_waterfall_with_small_steps_and_wide_intervals_do_not_touch(offset):
    """Nor does a long name of the response leave the picture, or a name equal another."""
    scale = max(1.0, abs(offset) / 10.0)
    data = attributed(1)
    mean, draws = data["attribution"].mean("draw"), data["attribution"]
    found = (0.02 * mean + 0.4 * (draws - mean)) * scale
    data["attribution"] = found
    data["attribution_mean"] = ("obs", "feature"), found.mean("draw").values[0]
    data["difference"], data["offset"] = found.sum("feature"), ("obs", [offset])
    data["difference_mean"] = data["difference"].mean(("chain", "draw"))
    names = [f"average of the monthly income no. {k} of all households" for k in range(4)]
    data = data.assign_coords(feature=names)
    data.attrs |= attributed(1).attrs | {"units": "rate at clinic A per 1000 inhabitants and year"}
    figure = bx.plot_waterfall(data, backend="matplotlib").viz["figure"].item()
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) > 1
    for one, following in zip(boxes[:-1], boxes[1:], strict=True):
        assert one.x1 < following.x0
    ends = axes.xaxis.label.get_window_extent()
    assert ends.x0 >= 0.0 and ends.x1 <= figure.bbox.x1 and ends.y0 >= 0.0
    assert len({*labels(axes.get_yticklabels())}) == 6


def test_short_names_differ_where_the_names_do():
    names = [f"average monthly income no. {k} (thousand EUR)" for k in (1, 2, 12)] + ["age"] * 2
    found = shortened(names, 24)
    assert max(map(len, found)) <= 24 and found[3:] == ["age", "age"]
    assert [text[text.index("no. ") + 4 :][:2] for text in found[:3]] == ["1 ", "2 ", "12"]
    assert shortened(names[:1], 24) == [short(names[0], 24)]


def test_short_names_that_differ_in_two_places_keep_their_ends():
    names = [
        f"income of the {whose} in the year {when} the interview in EUR"
        for whose in ("household", "respondent")
        for when in ("before", "after")
    ]
    found = shortened(names, 24)
    assert len({*found}) == 4 and max(map(len, found)) <= 24
    assert all(text.startswith("inc") and text.endswith("EUR") for text in found)


def test_both_ends_of_long_changes_remain():
    long = "occupation farming, semi-skilled or unskilled worker"
    found = contrasts_shortened(
        [f"{long} → {end}" for end in ("student", "manager")] + ["age +1 sd"]
    )
    assert max(map(len, found)) <= 40 and found[2] == "age +1 sd"
    assert [text.split(" → ")[1] for text in found[:2]] == ["student", "manager"]


def test_points_of_a_level_are_spread_without_a_trend():
    """Rows in the order of their values would draw one."""
    value = xr.DataArray(np.repeat([0.0, 1.0], 200), dims="obs")
    shifts = places_along(value)[:200]
    assert np.ptp(shifts) > 0.4 and abs(np.corrcoef(shifts, np.arange(200))[0, 1]) < 0.2


def test_features_of_one_class_are_in_a_row():
    data = attributed(5)
    both = xr.concat([data, -data], xr.DataArray(["red", "green"], dims="class"))
    both.attrs = data.attrs
    figure = bx.plot_dependence(both, backend="matplotlib").viz["figure"].item()
    rows = [axes.get_subplotspec().rowspan.start for axes in figure.axes]
    names = [axes.xaxis.label.get_text() for axes in figure.axes]
    assert rows == [0] * 4 + [1] * 4
    assert [name.split(", ")[1] for name in names] == ["red"] * 4 + ["green"] * 4


def test_titles_and_names_of_axes_stay_within_their_figure():
    """Of narrow panels, whose titles are wider than they are."""
    data = attributed(3)
    names = [f"average of the monthly income no. {k} of all households" for k in range(4)]
    data = data.assign_coords(feature=names)
    figure = bx.plot_dependence(data, backend="matplotlib").viz["figure"].item()
    figure.canvas.draw()
    boxes = [axes.xaxis.label.get_window_extent() for axes in figure.axes]
    assert len({box.y1 for box in boxes}) < len(boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 for box in boxes)
    assert len({axes.xaxis.label.get_text() for axes in figure.axes}) == 4
    chosen = {"figure_kwargs": {"figsize": (5, 3)}}
    own = bx.plot_dependence(data, backend="matplotlib", **chosen).viz["figure"].item()
    assert own.get_size_inches().tolist() == [5, 3]


def test_labels_of_a_heatmap_do_not_touch_beside_long_names():
    data = attributed(25)
    names = [f"average of the monthly income no. {k} of all households" for k in range(4)]
    data = data.assign_coords(feature=names)
    data.attrs |= {"units": "rate at clinic A per 1000 inhabitants and year"}
    figure = bx.plot_heatmap(data, backend="matplotlib").viz["figure"].item()
    figure.canvas.draw()
    panel, bar = figure.axes
    boxes = [label.get_window_extent() for label in panel.get_xticklabels()]
    assert len(boxes) == 25
    for one, following in zip(boxes[:-1], boxes[1:], strict=True):
        assert one.x1 < following.x0 + 2.0  # of the space around the digits
    named = bar.yaxis.label.get_window_extent()
    assert named.y0 >= 0.0 and named.y1 <= figure.bbox.y1
