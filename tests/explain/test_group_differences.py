"""Differences between groups, against NumPy and exact normal probabilities."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.stats import norm

import bayes_gpx as bx

RNG = np.random.default_rng(6)
X = RNG.normal(size=(30, 2))
MODEL = bx.GP(X, X[:, 0] + 0.3 * RNG.normal(size=30), scale=False)
THETA = {"lengthscale": [1.5, 1.5], "amplitude": 1.5, "sigma": 0.3}
GROUPS = np.array(["u", "v", "w"])[np.arange(30) % 3]
OPTIONS = {"by": GROUPS, "seed": 1, "progressbar": False}


@pytest.mark.parametrize(
    "function", ["predictions", "attributions", "slopes", "partial_dependence"]
)
def test_gaps_are_those_of_the_draws(function):
    options = OPTIONS | ({"steps": 3} if function == "partial_dependence" else {})
    found = getattr(bx, function)(MODEL, THETA, X, draws=200, **options)
    gap = bx.group_differences(found, size=0.1)
    name = next(n for n in found if {"chain", "draw", "by"} <= {*found[n].dims})
    assert gap["pair"].values.tolist() == ["u - v", "u - w", "v - w"]
    for pair, (a, b) in zip(gap["pair"].values, ("uv", "uw", "vw"), strict=True):
        own = gap.sel(pair=pair)
        left, right = (found[name].sel(by=g).transpose("chain", "draw", ...).values for g in (a, b))
        assert (own["first"].item(), own["second"].item()) == (a, b)
        assert_allclose(own["group_difference"].values, left - right)
        assert_allclose(own["group_difference_above"], (left - right > 0.1).mean(axis=(0, 1)))
        assert_allclose(own["group_difference_below"], (left - right < -0.1).mean(axis=(0, 1)))
        ends = np.quantile(left - right, [0.05, 0.95], axis=(0, 1))
        ends = np.moveaxis(ends, 0, -1)
        assert_allclose(own["group_difference_interval"], ends, atol=1e-12)


def test_probabilities_are_those_of_the_exact_normal():
    """The difference of two averages is normal, with the covariance across groups."""
    options = OPTIONS | {"draws": 4000, "covariance": True}
    found = bx.predictions(MODEL, THETA, X, **options)
    gap = bx.group_differences(found, size=0.05).sel(pair="u - w")
    cov = found["f_cov"].values
    mean = found["f_mean"].sel(by="u") - found["f_mean"].sel(by="w")
    sd = np.sqrt(cov[0, 0] + cov[2, 2] - 2 * cov[0, 2])
    assert_allclose(gap["group_difference_mean"], mean)
    assert_allclose(gap["group_difference_sd"], sd, rtol=0.05)
    assert_allclose(gap["group_difference_above"], norm.sf(0.05, mean, sd), atol=0.03)
    assert_allclose(gap["group_difference_below"], norm.cdf(-0.05, mean, sd), atol=0.03)


def test_a_gap_is_described():
    found = bx.slopes(MODEL, THETA, X, draws=50, **OPTIONS)
    text = bx.describe(bx.group_differences(found))
    assert "the difference between two groups of observations, of their" in text and "u - v" in text


def test_results_without_groups_are_refused():
    found = bx.slopes(MODEL, THETA, X, draws=20, seed=1, progressbar=False)
    with pytest.raises(ValueError, match="no draws of two or more groups"):
        bx.group_differences(found)
    summary = bx.predictions(MODEL, THETA, X, keep="summary", **OPTIONS)
    with pytest.raises(ValueError, match="no draws of two or more groups"):
        bx.group_differences(summary)
    grouped = xr.Dataset({"f": (("chain", "draw", "by"), np.zeros((1, 2, 2)))})
    with pytest.raises(ValueError, match="size is -1"):
        bx.group_differences(grouped, size=-1.0)
