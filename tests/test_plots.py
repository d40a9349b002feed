"""Plots hold what they should, on every backend that needs no extra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayes_gpx as bx

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


def test_contributions_are_drawn_where_they_are(explained, tmp_path):
    contributions, _ = explained
    plot = bx.plot_contributions(contributions, obs=[1], backend="matplotlib")
    axes = plot.viz["plot"].sel(obs=1).item()
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels[-1].startswith("a = ")
    points = axes.collections[0].get_offsets()
    assert_allclose(points[::-1, 0], contributions["contribution_mean"].sel(obs=1))
    plot.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_weights_have_a_panel_for_each_feature(explained):
    _, weights = explained
    plot = bx.plot_weights(weights, features=["a", "c"], backend="none")
    assert plot.viz["plot"].sizes["feature"] == 2
    drawn = bx.plot_weights(weights, features=["a"], backend="matplotlib")
    axes = drawn.viz["plot"].sel(feature="a").item()
    x, mean = axes.lines[-1].get_data()
    order = np.argsort(weights["value"].sel(feature="a").values)
    assert_allclose(x, weights["value"].sel(feature="a").values[order])
    assert_allclose(mean, weights["weight_mean"].sel(feature="a").values[order])


def test_what_cannot_be_drawn_is_refused(explained):
    contributions, weights = explained
    with pytest.raises(ValueError, match="no draws of `contribution`"):
        bx.plot_contributions(contributions.drop_vars("contribution"))
    with pytest.raises(ValueError, match="no draws of `weight`"):
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
