"""Derivatives along a path: their area is the attribution, and the plot shows both."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

THETA = {"lengthscale": [0.9, 1.7], "amplitude": 0.8, "sigma": 0.4}
WEIGHED = THETA | {"sigma_w": 0.3}
OPTIONS = {"draws": 300, "seed": 4, "progressbar": False}


@pytest.fixture(scope="module")
def walked(regression):
    X, _, y, X_new, _ = regression
    model = bx.GP(X, y)
    return model, bx.path_slopes(model, THETA, X_new, obs=2, **OPTIONS)


def test_the_path_leads_from_the_baseline_to_the_observation(walked, regression):
    X, _, _, X_new, _ = regression
    _, path = walked
    assert path.sizes["obs"] == 41 and path.attrs["explains"] == "2"
    assert_allclose(path["obs"], np.linspace(0, 1, 41))
    assert_allclose(path["value"][0], X.mean())
    assert_allclose(path["value"][-1], X_new.loc[2])
    assert_allclose(path["value"][10], X.mean() + 0.25 * (X_new.loc[2] - X.mean()))
    assert_allclose(path["baseline"] + path["way"], X_new.loc[2])


def test_its_area_is_the_attribution(walked, regression):
    X_new = regression[3]
    model, path = walked
    exact = bx.attributions(model, THETA, X_new, obs=2, **OPTIONS | {"draws": 20})
    # Simpson's rule on 40 steps: the fourth derivative of a smooth function.
    assert_allclose(path["attribution_mean"], exact["attribution_mean"][0], rtol=1e-5)
    # The sd of 300 draws is known to 4 %.
    assert_allclose(path["attribution_sd"], exact["attribution_sd"][0], rtol=0.13)
    assert path["attribution"].dims == ("chain", "draw", "feature")
    drawn = path["attribution"].std(["chain", "draw"])
    assert_allclose(path["attribution_sd"], drawn)


def test_derivatives_are_those_of_the_places(walked, regression):
    model, path = walked
    places = bx.derivatives(model, THETA, path["value"].values[[0, 17]], keep="summary", **OPTIONS)
    for moment in ("derivative_mean", "derivative_sd"):
        assert_allclose(path[moment][[0, 17]], places[moment], rtol=1e-6)
    both = ["band_pointwise", "band_simultaneous"]
    narrow, wide = (path[name] - path["derivative_mean"] for name in both)
    assert (np.abs(narrow) <= np.abs(wide) + 1e-9).all()
    assert ((path["derivative_probability_positive"] - 0.5) * path["derivative_mean"])[0, 0] > 0


@pytest.mark.parametrize(
    "own",
    [pytest.param(False, id="z = x", marks=pytest.mark.slow), pytest.param(True, id="z held")],
)
@pytest.mark.parametrize("intercept", [pytest.param(False, marks=pytest.mark.slow), True])
def test_in_a_gpx_the_smooth_part_is_walked(regression, own, intercept):
    X, Z, y, X_new, Z_new = regression
    model = bx.GPX(X, y, Z if own else None, intercept=intercept)
    new = (X_new, Z_new) if own else (X_new,)
    options = OPTIONS | {"draws": 5}
    path = bx.path_slopes(model, WEIGHED, *new, obs=1, baseline="median", **options)
    exact = bx.attributions(model, WEIGHED, *new, obs=1, baseline="median", **options)
    assert_allclose(path["attribution_mean"], exact["attribution_mean"][0], rtol=1e-5)
    alone = bx.path_slopes(
        model, WEIGHED, *new, obs=1, baseline="median", features=["dose"], **options
    )
    assert list(alone["feature"].values) == ["dose"]
    assert_allclose(alone["attribution_mean"], path["attribution_mean"].sel(feature=["dose"]))


def test_training_samples_are_walked_to(regression):
    X, _, y, _, _ = regression
    path = bx.path_slopes(bx.GP(X, y), THETA, obs=X.index[3], baseline="zero", steps=2, **OPTIONS)
    assert_allclose(path["value"][-1], X.iloc[3])
    assert_allclose(path["baseline"], 0.0)
    assert path.attrs["baseline"] == "zero"


def test_what_is_no_path_is_refused(walked, regression):
    model, X_new = walked[0], regression[3]
    with pytest.raises(ValueError, match="4 observations, but the path ends at one.*such as 0"):
        bx.path_slopes(model, THETA, X_new)
    with pytest.raises(ValueError, match="baseline has 2 rows"):
        bx.path_slopes(model, THETA, X_new, obs=1, baseline=X_new[:2])
    with pytest.raises(ValueError, match="even number"):
        bx.path_slopes(model, THETA, X_new, obs=1, steps=3)
    with pytest.raises(ValueError, match="steps is 2500 for 2 features. Pass at most 2499"):
        bx.path_slopes(model, THETA, X_new, obs=1, steps=2500)
    with pytest.raises(ValueError, match="ci_prob is 0"):
        bx.path_slopes(model, THETA, X_new, obs=1, ci_prob=0)


def test_the_plot_shows_bands_and_the_mean_slope(walked):
    _, path = walked
    plot = bx.plot_path(path, backend="matplotlib")
    order = path["feature"].values[np.argsort(-np.abs(path["attribution_mean"].values))]
    assert list(plot.viz["plot"]["feature"].values) == list(order)
    axes, one = plot.viz["plot"].sel(feature="age").item(), path.sel(feature="age")
    wide, narrow = (band.get_paths()[0].get_extents() for band in axes.collections)
    mean = one["derivative_mean"]
    assert_allclose(wide.y0, one["band_simultaneous"].min())
    assert_allclose(wide.y1, one["band_simultaneous"].max())
    assert_allclose(narrow.y1, one["band_pointwise"].max())
    _, curve, dashed = axes.lines
    assert_allclose(curve.get_xdata(), path["obs"])
    assert_allclose(curve.get_ydata(), mean)
    way, share = one["way"].item(), one["attribution_mean"].item()
    assert_allclose(dashed.get_ydata(), share / way)
    title = axes.get_title().replace("\N{MINUS SIGN}", "-")
    assert 1.0 < share < 10.0  # two digits
    assert title.startswith(f"attribution {share:+.1f} ± {one['attribution_sd'].item():.1f}")
    assert title.endswith(f"change {way:+.2g} × mean slope {share / way:.2g}")
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks == [f"baseline\n{one['value'][0]:.4g}", f"x\n{one['value'][-1]:.4g}"]
    plt.close("all")


def test_a_feature_that_stays_has_no_mean_slope(walked):
    model, path = walked
    x = model.training.X.values.mean(axis=0)
    stays = bx.path_slopes(model, THETA, (x + [1.0, 0.0])[None], **OPTIONS)
    assert_allclose(stays["attribution_mean"].sel(feature="dose"), 0.0)
    plot = bx.plot_path(stays, features=["dose"], backend="matplotlib")
    assert "no change" in plot.viz["plot"].sel(feature="dose").item().get_title()
    plt.close("all")
    with pytest.raises(ValueError, match="Pass the result of bx.path_slopes"):
        bx.plot_path(path.drop_vars("way"))
    with pytest.raises(ValueError, match="features: unknown 'weight'"):
        bx.plot_path(path, features=["weight"])
