"""Intervals are quantiles of the mixture of normals over hyperparameter draws."""

import numpy as np
import pytest
from arviz_base import rc_context
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx
from bayes_gpx.draws import results
from bayes_gpx.draws.intervals import mixture_quantile
from known_draws import known

QUIET = {"progressbar": False}
THETAS = [
    {"lengthscale": [0.4, 1.0], "amplitude": 1.0, "sigma": 0.1, "sigma_w": 0.3},
    {"lengthscale": [2.0, 3.0], "amplitude": 3.0, "sigma": 0.9, "sigma_w": 0.1},
    {"lengthscale": [1.0, 0.7], "amplitude": 0.4, "sigma": 0.4, "sigma_w": 0.6},
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 2))
    return X, 5 + 2 * X[:, 0] * X[:, 1] + rng.normal(size=20), rng.normal(size=(4, 2))


@pytest.mark.parametrize("verb", ["predictions", "attributions", "weights", "derivatives"])
def test_as_much_of_the_mixture_lies_below_as_above(data, verb):
    X, y, new = data
    model, ask = bx.GPX(X, y), getattr(bx, verb)
    names = list(model.hyperparameters)
    found = ask(model, known(model, THETAS), new, seed=1, **QUIET)
    each = [
        ask(model, {k: theta[k] for k in names}, new, keep="summary", **QUIET) for theta in THETAS
    ]
    prob, seen = found.attrs["ci_prob"], 0
    for name in [n.removesuffix("_interval") for n in map(str, found) if n.endswith("_interval")]:
        for end, expected in (("lower", 0.5 - prob / 2), ("upper", 0.5 + prob / 2)):
            at = found[f"{name}_interval"].sel(ci_bound=end)
            below = [norm.cdf(at, one[f"{name}_mean"], one[f"{name}_sd"]) for one in each]
            assert_allclose(np.mean(below, axis=0), expected, atol=1e-8)
            seen += 1
    assert seen == {"predictions": 6, "attributions": 4}.get(verb, 2)


def test_no_seed_changes_them(data):
    X, y, new = data
    model = bx.GP(X, y)
    idata = known(model, THETAS)
    one, other = (bx.predictions(model, idata, new, seed=s, **QUIET) for s in (1, 2))
    assert_allclose(one["y_interval"], other["y_interval"], rtol=0)
    summary = bx.predictions(model, idata, new, keep="summary", **QUIET)
    assert_allclose(summary["f_interval"], one["f_interval"], rtol=1e-12)


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_the_mean_response_has_those_of_f_on_its_own_scale(data, likelihood):
    X, y, new = data
    model = bx.GP(
        X, y > 5 if likelihood == "bernoulli" else y.clip(0).round(), likelihood=likelihood
    )
    idata = known(model, THETAS)
    found = bx.predictions(model, idata, new, seed=1, **QUIET)
    name = {"bernoulli": "probability", "poisson": "rate"}[likelihood]
    link = {"bernoulli": lambda f: 1 / (1 + np.exp(-f)), "poisson": np.exp}[likelihood]
    assert_allclose(found[f"{name}_interval"], link(found["f_interval"]), rtol=1e-10)
    assert found[f"{name}_interval"].dims == ("obs", "ci_bound")


def test_plots_take_them_at_the_probability_that_they_were_made_for(data):
    X, y, new = data
    model = bx.GP(X, y)
    idata = known(model, THETAS)
    with rc_context({"stats.ci_prob": 0.5}):
        found = bx.predictions(model, idata, new, seed=1, **QUIET)
    assert found.attrs["ci_prob"] == 0.5
    frame = bx.to_frame(found) if hasattr(bx, "to_frame") else bx.to_pandas(found, ci_prob=0.5)
    assert_allclose(frame["f_lower"], found["f_interval"].sel(ci_bound="lower"))
    bx.plot_predictions(found, backend="none")


@pytest.mark.parametrize("probability", [0.001, 0.055, 0.5, 0.945])
def test_quantiles_of_mixtures_far_from_normal(probability):
    """Two peaks, widths that differ by 1e6, and draws that agree."""
    means = np.array([[-2.0, 0.0, 1.0, 3.0], [2.0, 0.0, 1.0, 3.0], [2.0, 5.0, 1.0, 3.0]])
    sds = np.array([[0.3, 1e-6, 2.0, 0.0], [0.3, 1.0, 2.0, 0.0], [0.1, 1e-3, 2.0, 0.0]])
    found = mixture_quantile(means, sds, probability)
    below = norm.cdf(found[:3], means[:, :3], sds[:, :3]).mean(axis=0)
    assert_allclose(below, probability, atol=1e-6)
    assert found[3] == 3.0


def test_narrow_normals_far_apart_have_quantiles(rng):
    means = rng.normal(size=(10, 2000))
    sds = np.full(means.shape, 0.005)  # densities between them are too small to divide by
    found = mixture_quantile(means, sds, 0.05)
    assert_allclose(norm.cdf(found, means, sds).mean(axis=0), 0.05, atol=1e-9)


def test_quantiles_are_found_block_by_block(data, monkeypatch):
    X, y, new = data
    model = bx.GP(X, y)
    idata, found = known(model, THETAS), []
    for size in (2**20, 2 * 3 * 2):  # all rows at once, and two at a time
        monkeypatch.setattr(results, "BLOCK_NUMBERS", size)
        found.append(bx.attributions(model, idata, new, keep="summary", **QUIET))
    for name in ("attribution_interval", "difference_interval"):
        assert_allclose(found[1][name], found[0][name], rtol=1e-9, atol=1e-12)


def test_there_are_none_without_room(data, monkeypatch):
    """Room for at least 50 draws is needed, or for all where there are fewer."""
    X, y, new = data
    model = bx.GP(X, y)
    monkeypatch.setattr(results, "MOST_NUMBERS", len(new) * 10)
    for draws, there in ((10, True), (60, False)):
        idata = known(model, THETAS[:1] * draws)
        found = bx.predictions(model, idata, new, keep="summary", **QUIET)
        assert ("f_interval" in found) == there
