"""The coverage league scores intervals as it says, against truths that add up."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "league"))
import truths  # noqa: E402
from answer import Answer, ranked  # noqa: E402


@pytest.fixture(params=["additive", "interactions", "few rows", "counts"])
def data(request):
    return truths.made(request.param, 3)


def test_attributions_and_shapley_values_add_up(data):
    ahead = data.f(data.new.to_numpy()) - data.f(data.baseline.to_numpy())
    for found in (
        truths.integrated_gradients(data.f, data),
        truths.shapley(data.f, data, data.baseline),
    ):
        assert_allclose(found.sum(axis=1), ahead, atol=1e-7)
    above = data.f(data.new.to_numpy()) - data.f(data.background.to_numpy()).mean()
    assert_allclose(truths.shapley(data.f, data, data.background).sum(axis=1), above, atol=1e-10)


def test_explanations_of_an_additive_function_are_its_parts():
    data = truths.made("additive", 1)
    x, start = data.new.to_numpy(), data.baseline.to_numpy()[0]
    parts = np.empty((len(x), 5))
    for j in range(5):
        moved = np.tile(start, (len(x), 1))
        moved[:, j] = x[:, j]
        parts[:, j] = data.f(moved) - data.f(start[None])
    assert_allclose(truths.shapley(data.f, data, data.baseline), parts, atol=1e-12)
    assert_allclose(truths.integrated_gradients(data.f, data), parts, atol=1e-6)
    treated = truths.treated_effects(data.f, data.new)
    assert_allclose(treated * x[:, 4], parts[:, 4], atol=1e-12)
    curves = truths.effect_curves(data.f, data.background, data)
    centered = truths.centered_curves(data.f, data)
    for one, other in zip(curves, centered, strict=True):
        assert_allclose(one - one.mean(), other - other.mean(), atol=1e-10)


def test_centered_curves_have_the_mean_0_over_rows():
    data = truths.made("interactions", 2)
    x, sizes = data.X.to_numpy(), truths.own_curves(data.f, data)
    for j, values in enumerate(data.grid):
        moved = np.tile(x, (len(x), 1))
        moved[:, j] = np.repeat(x[:, j], len(x))
        own = data.f(moved).reshape(len(x), -1).mean(axis=1)
        assert_allclose(np.abs(own - own.mean()).mean(), sizes[j])
        moved = x.copy()
        moved[:, j] = values[2]
        expected = data.f(moved).mean() - own.mean()
        assert_allclose(truths.centered_curves(data.f, data)[j, 2], expected)


def test_derivatives_are_those_of_other_steps(data):
    rows, step = data.new.to_numpy(), 1e-3
    for j in range(4):
        ahead, behind = (data.f(rows + s * step * np.eye(5)[j]) for s in (1, -1))
        found = truths.gradient(data.f, rows)[:, j]
        assert_allclose(found, (ahead - behind) / (2 * step), atol=1e-4)


@pytest.mark.parametrize("truth", truths.TRUTHS)
def test_data_have_the_scale_that_the_text_says(truth):
    data = [truths.made(truth, run) for run in range(30)]
    if truth == "classes":
        assert 0.3 < np.mean([one.y.mean() for one in data]) < 0.7
    elif truth == "counts":
        assert 2.5 < np.mean([one.y.mean() for one in data]) < 5.0  # exp(1 + 0.7**2 / 2) is 3.5
    elif truth != "outliers":
        noise = [np.std(one.y - one.f(one.X.to_numpy())) for one in data]
        assert 0.42 < np.sqrt(np.mean(np.square(noise))) < 0.58
    assert truths.made(truth, 4).y.tolist() == data[4].y.tolist()


def test_scores_count_intervals_claims_and_errors():
    estimate = np.array([1.0, -1.0, 0.5, 2.0])
    found = Answer("slope", "slope", estimate, estimate - 0.6, estimate + 0.6)
    scores = found.scores(np.array([1.5, 0.2, 0.0, 0.0]))
    assert (scores["count"], scores["held"]) == (4, 2)
    assert (scores["claims"], scores["wrong"]) == (3, 2)  # the third has 0 inside
    assert scores["width"] == pytest.approx(1.2)


def test_ranks_share_the_best_place_and_claims_are_of_the_top():
    assert ranked(np.array([[3.0, 5.0, 3.0, 1.0]])).tolist() == [[2, 1, 2, 4]]
    draws = np.tile([4.0, 3.0, 2.0, 1.0], (100, 1))
    draws[:30, 1:3] = [2.0, 3.0]
    found = Answer.of_sizes("sizes", draws)
    assert_allclose(found.top, [1.0, 0.7, 0.3, 0.0])
    scores = found.scores(np.array([1.0, 9.0, 2.0, 4.0]))  # ranks 4, 1, 3, 2
    assert (scores["held"], scores["claims"], scores["wrong"]) == (1, 2, 2)
