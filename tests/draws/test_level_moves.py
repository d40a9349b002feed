"""Weights of contrasts between levels."""

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose

import bayes_gpx as bx
from bayes_gpx.draws.level_moves import contrast_weights, level_deviation
from bayes_gpx.draws.points import points


def at_levels(told, levels):
    X = pd.DataFrame({"kind": pd.Categorical(told, levels), "x": np.arange(float(len(told)))})
    return bx.GP(X, np.sin(X["x"]), scale=False)


def test_others_weigh_by_their_shares_and_an_own_level_has_no_weight():
    model = at_levels(["a", "a", "a", "b", "c", "c"], ["a", "b", "c", "d"])
    found = contrast_weights(model, points(model), "kind")
    assert_allclose(found[:, 0], [0, 1 / 3, 2 / 3, 0])
    assert_allclose(found[:, 3], [3 / 5, 0, 2 / 5, 0])
    assert_allclose(found[:, 5], [3 / 4, 1 / 4, 0, 0])
    shares = np.array([3, 1, 2, 0]) / 6
    assert_allclose(level_deviation(model, "kind"), np.sqrt((1 - (shares**2).sum()) / 2))


def test_levels_that_no_row_has_weigh_the_same():
    model = at_levels(["a"] * 4, ["a", "b", "c"])
    assert_allclose(contrast_weights(model, points(model), "kind")[:, 1], [0, 0.5, 0.5])
    alone = at_levels(["a"] * 4, ["a"])
    assert_allclose(contrast_weights(alone, points(alone), "kind"), np.zeros((1, 4)))
    assert level_deviation(alone, "kind") == 0.0


def test_draws_of_classes_that_are_explained_one_by_one_are_independent():
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(12, 1)), np.resize(["a", "b", "c"], 12)
    model = bx.GP(X, labels, likelihood="categorical", approximation=bx.Inducing(4))
    theta = {"lengthscale": 1.0, "amplitude": 1.0}
    options = {"on": "latent", "draws": 2000, "seed": 1, "progressbar": False}
    found = bx.derivatives(model, theta, X[:1], **options)["derivative"].values[0, :, 0, 0]
    off = np.corrcoef(found.T)[np.triu_indices(3, 1)]
    assert (np.abs(off) < 4 / np.sqrt(2000)).all()
    joint, by_row = (
        bx.predictions(model, theta, X[:2], joint=j, keep="summary", progressbar=False)
        for j in (True, False)
    )
    for name in ("f_mean", "f_sd", "probability_mean"):
        assert_allclose(joint[name], by_row[name], rtol=1e-9)
